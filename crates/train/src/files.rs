//! Files written whole or not at all: a temporary file beside the target, synced, then renamed over it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::TrainError;

/// Replaces the file at `path` by `bytes`. On failure the old file is as it was.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    write_with(path, |file| file.write_all(bytes))
}

fn write_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), TrainError> {
    let temporary = beside(path);
    let written = File::create(&temporary)
        .and_then(|mut file| {
            write(&mut file)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(TrainError::file("write", path, &error));
    }
    sync_directory(path);
    Ok(())
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TrainError> {
    fs::read(path).map_err(|error| TrainError::file("read", path, &error))
}

fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

/// Makes the new name durable; not every file system can, and the data itself is safe already.
fn sync_directory(path: &Path) {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(directory) = File::open(parent) {
        let _ = directory.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.json");
        write_whole(&path, b"old").unwrap();
        let full = write_with(&path, |file| {
            file.write_all(b"ne")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        let message = full.unwrap_err().to_string();
        assert!(message.contains("the disk is full") && message.contains("--out"), "{message}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}
