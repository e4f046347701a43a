//! The folder of a run: one process at a time trains into it, and none takes the place of another run without being asked to.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use citius_data::Escaped;
use citius_data::whole::remove_abandoned;

use crate::checkpoint::State;
use crate::{TrainError, model};

/// A folder that no other process trains into while this lives. The kernel gives it back when a process ends, however it ends.
pub(crate) struct Claim {
    _locked: File,
    /// Where the file system knows no locks.
    pub warning: Option<String>,
}

impl Claim {
    /// Claims the folder of a run that is resumed, if it is there.
    pub fn take_existing(folder: &Path) -> Result<Option<Claim>, TrainError> {
        folder.is_dir().then(|| Claim::take(folder)).transpose()
    }

    /// Claims a folder, and removes what a killed process left in it half done.
    pub fn take(folder: &Path) -> Result<Claim, TrainError> {
        let locked = File::open(folder).map_err(|error| TrainError::file("open", folder, &error))?;
        let warning = match locked.try_lock() {
            Ok(()) => None,
            Err(TryLockError::WouldBlock) => {
                let next = "wait until it has ended, or choose another place with --out";
                return Err(TrainError::saved(folder, "another process is training into this folder", next));
            }
            Err(TryLockError::Error(error)) => {
                let folder = folder.escaped();
                Some(format!("{folder} cannot be locked ({error}): take care that no other run trains into it"))
            }
        };
        remove_abandoned(folder);
        model::settle(folder)?;
        Ok(Claim { _locked: locked, warning })
    }
}

/// What a run writes.
const FILES: [&str; 5] =
    ["model.json", "model.safetensors", "checkpoint.json", "checkpoint.safetensors", "events.jsonl"];

/// Refuses a place that is no folder, or that holds a run, unless that may be replaced.
pub fn check_out(out: &Path, force: bool) -> Result<(), TrainError> {
    let meta = match fs::metadata(out) {
        Ok(meta) => meta,
        Err(_) if out.is_symlink() => return Err(taken(out, "it is a link that leads nowhere")),
        // made when the run starts
        Err(_) => return Ok(()),
    };
    if meta.is_file() {
        return Err(taken(out, "there is a file of that name"));
    }
    if !meta.is_dir() {
        return Err(taken(out, "it is a pipe or a device, not a directory"));
    }
    if force || !FILES.iter().any(|name| out.join(name).exists()) {
        return Ok(());
    }
    let shown = out.escaped();
    let problem = match State::peek(out).filter(|state| !state.is_done()) {
        Some(State { progress, settings, .. }) => format!(
            "{shown} holds an unfinished run, at epoch {} of {}: go on with it by citius train --resume {shown}, replace it \
             with --force, or choose another --out",
            progress.epoch, settings.epochs
        ),
        None => format!(
            "{shown} holds a run already: choose another --out, or replace it with --force; an interrupted run goes on with \
             --resume {shown}"
        ),
    };
    Err(TrainError::Setting(problem))
}

fn taken(out: &Path, problem: &str) -> TrainError {
    let (path, problem) = (out.escaped(), problem.to_owned());
    TrainError::File { doing: "create", path, problem, next: "; choose another place with --out".into() }
}

/// The directory of a run, made where it is not there.
pub(crate) fn created(out: &Path) -> Result<PathBuf, TrainError> {
    fs::create_dir_all(out).map_err(|error| TrainError::file("create", out, &error))?;
    Ok(out.to_owned())
}

/// The first `runs/<stem>-<n>` that does not exist yet, created.
pub(crate) fn next_free(stem: &str) -> Result<PathBuf, TrainError> {
    check_out(Path::new("runs"), true)?;
    created(Path::new("runs"))?;
    let mut n = 1;
    loop {
        let out = Path::new("runs").join(format!("{stem}-{n}"));
        match fs::create_dir(&out) {
            Ok(()) => return Ok(out),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => n += 1,
            Err(error) => return Err(TrainError::file("create", &out, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_claimed_once_until_its_owner_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let stale = folder.path().join(".model.json.abcdefghijkl.citius-part");
        fs::write(&stale, "half").unwrap();
        let first = Claim::take(folder.path()).unwrap();
        assert!(first.warning.is_none() && !stale.exists());
        let message = Claim::take(folder.path()).err().unwrap().to_string();
        let name = folder.path().escaped();
        assert!(message.contains("another process is training") && message.contains(&name), "{message}");
        drop(first);
        Claim::take(folder.path()).unwrap();
    }
}
