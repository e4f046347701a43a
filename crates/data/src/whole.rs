//! Files written whole or not at all: a temporary file beside the place, synced, then renamed over it. Only a plain file is replaced. A
//! pipe or a terminal is written into, a link is followed, a directory is refused.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::escape::Escaped;

/// The end of a temporary file's name. Its beginning is a dot and the name of the place.
const SUFFIX: &str = ".citius-part";
/// Letters of its name that nobody can foresee.
const RANDOM: usize = 12;
/// Links that are followed from one to the next.
const LINKS: usize = 40;

/// A file being written. Dropped unfinished, it leaves what was there before.
pub struct WholeFile {
    place: PathBuf,
    to: To,
}

enum To {
    /// Locked while it is written, so that nobody takes it for one that a killed process left.
    Part(NamedTempFile),
    /// A pipe, a terminal, what is not replaced.
    Stream(File),
}

impl WholeFile {
    /// Begins to write. Temporary files that a killed process left for the same place are removed.
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        match place_of(path)? {
            Place::Stream(place) => {
                let file = open_stream(&place)?;
                Ok(WholeFile { place, to: To::Stream(file) })
            }
            Place::Plain(place) => {
                let folder = folder_of(&place);
                let name = place.file_name().ok_or_else(|| refused("it is not the name of a file"))?;
                remove_stale(folder, Some(name));
                let part = temporary(&place, name, folder)?;
                Ok(WholeFile { place, to: To::Part(part) })
            }
        }
    }

    /// Whether what is written can be gone back to.
    pub fn is_plain(&self) -> bool {
        matches!(self.to, To::Part(_))
    }

    /// Sees everything to the disk and gives the file its name, in place of what has it.
    pub fn finish(self) -> io::Result<()> {
        self.named(|part, place| part.persist(place))
    }

    /// As [`WholeFile::finish`], but a file that came meanwhile stays: an error.
    pub fn finish_new(self) -> io::Result<()> {
        self.named(|part, place| part.persist_noclobber(place))
    }

    fn named(self, name: impl FnOnce(NamedTempFile, &Path) -> Result<File, tempfile::PersistError>) -> io::Result<()> {
        match self.to {
            To::Stream(mut file) => file.flush(),
            To::Part(part) => {
                part.as_file().sync_all()?;
                name(part, &self.place).map_err(|error| error.error)?;
                sync_folder(folder_of(&self.place));
                Ok(())
            }
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Part(part) => part.as_file_mut().write(bytes),
            To::Stream(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for WholeFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &mut self.to {
            To::Part(part) => part.as_file_mut().seek(to),
            To::Stream(_) => Err(refused("it is a pipe or a device, a plain file is needed")),
        }
    }
}

/// Replaces the file at `path` by `bytes`. On failure the old file is as it was.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Removes what killed processes left half written in a folder: files with our names that no living process has locked.
pub fn remove_abandoned(folder: &Path) {
    remove_stale(folder, None);
}

/// Makes new names in a folder durable; not every file system can, and the data itself is safe already.
pub fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn refused(problem: impl Into<String>) -> io::Error {
    io::Error::other(problem.into())
}

enum Place {
    /// Nothing, or a plain file: replaced.
    Plain(PathBuf),
    /// Written into.
    Stream(PathBuf),
}

/// Where the bytes go: links are followed, so that no link is ever replaced.
fn place_of(path: &Path) -> io::Result<Place> {
    let mut place = path.to_owned();
    for _ in 0..LINKS {
        let kind = match fs::symlink_metadata(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = folder_of(&place);
                return match folder.is_dir() {
                    true => Ok(Place::Plain(place)),
                    false => Err(refused(format!("there is no directory {}; create it first", folder.escaped()))),
                };
            }
            Err(error) => return Err(error),
            Ok(found) => found.file_type(),
        };
        if kind.is_file() {
            return Ok(Place::Plain(place));
        }
        if kind.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory; name a file in it"));
        }
        if !kind.is_symlink() {
            return stream_kind(kind).map(|()| Place::Stream(place));
        }
        // what this process has open, such as /dev/stdout, has no name of its own
        if is_open_files(folder_of(&place)) {
            return Ok(Place::Stream(place));
        }
        let target = fs::read_link(&place)?;
        place = folder_of(&place).join(target);
    }
    Err(refused("links lead to one another without an end"))
}

/// Whether a folder is `/proc/self/fd`, or the same of a thread.
fn is_open_files(folder: &Path) -> bool {
    let full = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    full.starts_with("/proc") && full.file_name() == Some(OsStr::new("fd"))
}

#[cfg(unix)]
fn stream_kind(kind: fs::FileType) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_socket() {
        return Err(refused("it is a socket; name a file"));
    }
    if kind.is_block_device() {
        return Err(refused("it is a disk; name a file"));
    }
    Ok(())
}

#[cfg(not(unix))]
fn stream_kind(_: fs::FileType) -> io::Result<()> {
    Err(refused("it is not a plain file"))
}

/// How long a pipe waits for its reader.
#[cfg(target_os = "linux")]
const READER: std::time::Duration = std::time::Duration::from_secs(10);

/// Opened for what follows: a plain file behind `/dev/stdout` keeps what is in it. A pipe that nobody reads is refused after a while.
#[cfg(target_os = "linux")]
fn open_stream(place: &Path) -> io::Result<File> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    use std::os::unix::fs::OpenOptionsExt;
    let begun = std::time::Instant::now();
    let mut options = OpenOptions::new();
    options.append(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = loop {
        match options.open(place) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                if begun.elapsed() >= READER {
                    return Err(refused("it is a pipe that no program reads; start its reader first"));
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            opened => break opened?,
        }
    };
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
fn open_stream(place: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(place)
}

/// Made anew with a name that nobody can foresee, never through a link, and locked.
fn temporary(place: &Path, name: &OsStr, folder: &Path) -> io::Result<NamedTempFile> {
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(SUFFIX).rand_bytes(RANDOM);
    // readable for whom the umask lets, as any other file
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let part = loop {
        let part = builder.tempfile_in(folder)?;
        // where locks are not known, nobody takes it for an abandoned one either: that needs a lock
        let _ = part.as_file().try_lock();
        // who cleans up may have seen it before it was locked
        if is_still_there(part.as_file(), part.path()) {
            break part;
        }
    };
    if let Ok(before) = fs::metadata(place) {
        let _ = part.as_file().set_permissions(before.permissions());
    }
    Ok(part)
}

#[cfg(unix)]
fn is_still_there(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |a: &fs::Metadata, b: &fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    matches!((file.metadata(), fs::symlink_metadata(path)), (Ok(open), Ok(named)) if same(&open, &named))
}

#[cfg(not(unix))]
fn is_still_there(_: &File, path: &Path) -> bool {
    path.exists()
}

/// Temporary files of one name, or of any, that are ours and that nobody is writing.
fn remove_stale(folder: &Path, name: Option<&OsStr>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !is_ours(&entry.file_name(), name) || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path();
        // a lock that can be had is nobody's: the kernel takes it from a process that ends
        let Ok(file) = File::open(&path) else { continue };
        if file.try_lock().is_ok() && is_still_there(&file, &path) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// `.<name>.<random letters>.citius-part`
fn is_ours(found: &OsStr, name: Option<&OsStr>) -> bool {
    let bytes = found.as_encoded_bytes();
    let Some(start) = bytes.strip_prefix(b".").and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes())) else {
        return false;
    };
    let Some((start, random)) = start.len().checked_sub(RANDOM).map(|at| start.split_at(at)) else { return false };
    let Some(own) = start.strip_suffix(b".") else { return false };
    random.iter().all(u8::is_ascii_alphanumeric)
        && !own.is_empty()
        && name.is_none_or(|name| name.as_encoded_bytes() == own)
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn fifo(path: &Path) {
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    }

    #[test]
    fn a_write_that_is_not_finished_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.json");
        write_whole(&path, b"old").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let mut half = WholeFile::create(&path).unwrap();
        half.write_all(b"ne").unwrap();
        assert_eq!(names(folder.path()).len(), 2);
        drop(half);
        assert_eq!((fs::read(&path).unwrap(), names(folder.path()).len()), (b"old".to_vec(), 1));
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640, "permissions are kept");
    }

    #[test]
    fn a_pipe_is_written_into_and_stays_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        fifo(&pipe);
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || {
                let mut text = String::new();
                File::open(pipe).unwrap().read_to_string(&mut text).map(|_| text).unwrap()
            }
        });
        // through a link too
        let link = folder.path().join("link");
        symlink("pipe", &link).unwrap();
        write_whole(&link, b"answers").unwrap();
        assert_eq!(reader.join().unwrap(), "answers");
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        assert_eq!(names(folder.path()), ["link", "pipe"]);
    }

    #[test]
    fn a_device_is_written_into() {
        write_whole(Path::new("/dev/null"), b"away").unwrap();
        assert!(fs::symlink_metadata("/dev/null").unwrap().file_type().is_char_device());
        assert!(write_whole(Path::new("/dev/full"), b"no room").is_err());
        assert!(fs::symlink_metadata("/dev/full").unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_link_is_followed_and_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("there")).unwrap();
        fs::write(at("there/file"), "old").unwrap();
        symlink("there/file", at("link")).unwrap();
        symlink("there/new", at("dangling")).unwrap();
        write_whole(&at("link"), b"new").unwrap();
        write_whole(&at("dangling"), b"made").unwrap();
        assert!(at("link").is_symlink() && at("dangling").is_symlink());
        assert_eq!(fs::read(at("there/file")).unwrap(), b"new");
        assert_eq!(fs::read(at("there/new")).unwrap(), b"made");
        symlink("b", at("a")).unwrap();
        symlink("a", at("b")).unwrap();
        assert!(write_whole(&at("a"), b"").unwrap_err().to_string().contains("without an end"));
        assert!(write_whole(&at("there"), b"").unwrap_err().to_string().contains("a directory"));
        assert!(write_whole(&at("no/where"), b"").unwrap_err().to_string().contains("create it first"));
    }

    #[test]
    fn only_what_nobody_writes_any_more_is_cleaned_up() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let stale = [".model.json.abcdefghijkl.citius-part", ".other.ABCDEF012345.citius-part"];
        let foreign =
            [".model.json.123.tmp", "model.json.abcdefghijkl.citius-part", ".x.citius-part", ".a.bc-def.citius-part"];
        stale.iter().chain(&foreign).for_each(|name| fs::write(at(name), "x").unwrap());
        let alive = WholeFile::create(&at("model.json")).unwrap();
        assert!(!at(stale[0]).exists() && at(stale[1]).exists(), "only of the same place");
        remove_abandoned(folder.path());
        assert!(!at(stale[1]).exists());
        assert!(foreign.iter().all(|name| at(name).exists()));
        alive.finish().unwrap();
        assert_eq!(names(folder.path()).len(), foreign.len() + 1);
    }

    #[test]
    fn temporary_names_are_never_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let (first, second) = (WholeFile::create(&path).unwrap(), WholeFile::create(&path).unwrap());
        assert_eq!(names(folder.path()).len(), 2);
        drop((first, second));
        assert_eq!(names(folder.path()).len(), 0);
    }
}
