//! Reading of files that are not data, such as settings and parts of a model: nothing that waits for ever, has no end, or is larger than
//! such a file can be.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Opens a plain file, through links; anything else is refused at once.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let file = open_without_waiting(path)?;
    match what_else(&file.metadata()?) {
        None => Ok(file),
        Some(what) => Err(io::Error::other(format!("it is {what}, not a plain file"))),
    }
}

/// The whole of a plain file of at most `limit` bytes.
pub fn read_plain(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_plain(path)?;
    let size = file.metadata()?.len();
    if size > limit {
        return Err(too_large(limit));
    }
    read_at_most(file, size, limit)
}

/// The whole of a small file, or what a pipe gives: `--config <(command)`. A pipe that no program writes is refused.
pub fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_without_waiting(path)?;
    let meta = file.metadata()?;
    if is_pipe(&meta) {
        return read_at_most(await_writer(file)?, 0, limit);
    }
    // an empty file by another name
    if !meta.is_file() && path == Path::new("/dev/null") {
        return Ok(Vec::new());
    }
    drop(file);
    read_plain(path, limit)
}

/// Memory that cannot be had is an error too.
fn read_at_most(file: File, size: u64, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let expected = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
    bytes.try_reserve_exact(expected).map_err(|_| io::ErrorKind::OutOfMemory)?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_large(limit));
    }
    Ok(bytes)
}

fn too_large(limit: u64) -> io::Error {
    let shown = match limit >> 20 {
        0 => format!("{limit} bytes"),
        megabytes => format!("{megabytes} MiB"),
    };
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than such a file can be ({shown})"))
}

#[cfg(target_os = "linux")]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(path)
}

#[cfg(not(target_os = "linux"))]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// What is there, if not a plain file.
#[cfg(unix)]
fn what_else(meta: &std::fs::Metadata) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt;
    let kind = meta.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a directory"),
        () if kind.is_fifo() => Some("a pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

#[cfg(not(unix))]
fn what_else(meta: &std::fs::Metadata) -> Option<&'static str> {
    (!meta.is_file()).then_some("a directory or a device")
}

#[cfg(unix)]
fn is_pipe(meta: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    meta.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_: &std::fs::Metadata) -> bool {
    false
}

/// How long a pipe may be without a writer.
#[cfg(target_os = "linux")]
const WRITER: std::time::Duration = std::time::Duration::from_secs(1);

/// The pipe once a program has it open for writing.
#[cfg(target_os = "linux")]
fn await_writer(file: File) -> io::Result<File> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    // a pipe never had a writer until there is something to read or somebody has gone again
    let mut pipe = [PollFd::new(&file, PollFlags::IN)];
    let wait = Timespec { tv_sec: WRITER.as_secs() as i64, tv_nsec: 0 };
    poll(&mut pipe, Some(&wait))?;
    if pipe[0].revents().is_empty() {
        return Err(io::Error::other("it is a pipe that no program writes; start its writer first, or name a file"));
    }
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
fn await_writer(file: File) -> io::Result<File> {
    Ok(file)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_has_no_end_or_no_writer_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for read in [read_plain, read_small] {
            for (name, what) in [("zero", "a device"), ("pipe", "a pipe"), (".", "a directory")] {
                let problem = read(&at(name), 1 << 20).unwrap_err().to_string();
                assert!(problem.contains(what), "{name}: {problem}");
            }
            assert!(read(&at("socket"), 9).is_err() && read(&at("nothing"), 9).is_err());
        }
        fs::write(at("large"), [0; 100]).unwrap();
        assert!(read_plain(&at("large"), 99).unwrap_err().to_string().contains("99 bytes"));
        assert_eq!(read_small(&at("large"), 100).unwrap().len(), 100);
        assert_eq!(read_plain(&at("large"), u64::MAX).unwrap().len(), 100);
        assert!(read_small(Path::new("/dev/null"), 9).unwrap().is_empty());
    }

    #[test]
    fn a_pipe_with_a_writer_is_read_to_its_end_or_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let write = |text: &'static str| {
            let pipe = pipe.clone();
            std::thread::spawn(move || {
                let _ = fs::write(pipe, text);
            })
        };
        let writer = write("epochs = 3");
        assert_eq!(read_small(&pipe, 100).unwrap(), b"epochs = 3");
        writer.join().unwrap();
        let writer = write("endless");
        assert!(read_small(&pipe, 3).is_err());
        writer.join().unwrap();
    }
}
