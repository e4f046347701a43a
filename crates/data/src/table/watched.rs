//! A file that stays open and is read in parts, from several threads, as long as it stays the same.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use bytes::Bytes;

use crate::error::DataError;
use crate::escape::Escaped;
use crate::file;

/// Buffers that are kept for the next reading take no more than this.
const KEPT_BYTES: usize = 64 << 20;

/// An open file with the size and time of change it had when it was opened.
#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    file: File,
    len: u64,
    modified: Option<SystemTime>,
    buffers: Arc<Buffers>,
}

/// Buffers to be used again: fresh memory for each page costs as much as reading it.
#[derive(Debug, Default)]
struct Buffers(Mutex<Vec<Vec<u8>>>);

/// The first bytes of a buffer that goes back when nobody needs it any more.
struct Lent {
    buffer: Vec<u8>,
    length: usize,
    home: Arc<Buffers>,
}

impl Watched {
    pub(super) fn open(path: &Path) -> Result<Watched, DataError> {
        let meta = file::check_readable(path)?;
        if !meta.is_file() {
            return Err(DataError::NotAFile {
                path: path.escaped(),
                what: "a pipe".into(),
                next: "copy its data into a file first, parts of a pipe cannot be read again".into(),
            });
        }
        let file = File::open(path).map_err(|error| file::open_error(path, error))?;
        let meta = file.metadata().map_err(|error| file::open_error(path, error))?;
        Ok(Watched { path: path.to_owned(), file, len: meta.len(), modified: modified(&meta), buffers: Arc::default() })
    }

    /// The file's name, for messages.
    pub(super) fn name(&self) -> String {
        file::name(&self.path)
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Still the file that was opened?
    pub(super) fn check(&self) -> Result<(), DataError> {
        let what = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => "was removed or renamed".to_owned(),
            Err(error) => return Err(file::open_error(&self.path, error)),
            Ok(meta) if meta.len() != self.len => {
                let verb = if meta.len() < self.len { "shrank" } else { "grew" };
                format!("{verb} from {} to {} bytes", self.len, meta.len())
            }
            Ok(meta) if modified(&meta) != self.modified => "was changed".to_owned(),
            Ok(_) => return Ok(()),
        };
        Err(DataError::Changed { path: self.path.escaped(), what })
    }

    /// Exactly these bytes. The length is held against the size of the file before memory is taken.
    pub(super) fn read(&self, start: u64, length: usize) -> Result<Vec<u8>, DataError> {
        self.check_range(start, length)?;
        let mut bytes = vec![0; length];
        self.fill(start, &mut bytes)?;
        Ok(bytes)
    }

    /// As [`Watched::read`], in memory that is used again and again.
    pub(super) fn read_shared(&self, start: u64, length: usize) -> Result<Bytes, DataError> {
        self.check_range(start, length)?;
        let mut buffer = self.buffers.take(length);
        self.fill(start, &mut buffer[..length])?;
        Ok(Bytes::from_owner(Lent { buffer, length, home: self.buffers.clone() }))
    }

    /// These bytes will be read soon.
    pub(super) fn announce(&self, start: u64, length: u64) {
        file::announce(&self.file, start, length);
    }

    /// Whether the file is large and not in the page cache.
    pub(super) fn is_far(&self) -> bool {
        file::is_far(&self.file, self.len)
    }

    fn check_range(&self, start: u64, length: usize) -> Result<(), DataError> {
        self.check()?;
        match start.checked_add(length as u64).is_some_and(|end| end <= self.len) {
            true => Ok(()),
            false => Err(self.failed(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{length} bytes are wanted from byte {start}, the file has {}", self.len),
            ))),
        }
    }

    fn fill(&self, start: u64, bytes: &mut [u8]) -> Result<(), DataError> {
        read_exact_at(&self.file, bytes, start).map_err(|error| match self.check() {
            Err(changed) => changed,
            Ok(()) => self.failed(error),
        })
    }

    fn failed(&self, source: io::Error) -> DataError {
        DataError::Io { path: self.path.escaped(), source }
    }
}

impl Buffers {
    /// At least `length` bytes, whatever they hold.
    fn take(&self, length: usize) -> Vec<u8> {
        let kept = self.0.lock().ok().and_then(|mut kept| {
            let fits = kept.iter().rposition(|buffer| buffer.len() >= length && buffer.len() / 4 <= length);
            fits.map(|index| kept.swap_remove(index))
        });
        kept.unwrap_or_else(|| vec![0; length])
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        if let Ok(mut kept) = self.home.0.lock() {
            kept.push(buffer);
            let mut room = KEPT_BYTES;
            // The latest stay: they are in the cache, and of the sizes now in use.
            let from = kept.iter().rposition(|buffer| match room.checked_sub(buffer.len()) {
                Some(left) => {
                    room = left;
                    false
                }
                None => true,
            });
            kept.drain(..from.map_or(0, |index| index + 1));
        }
    }
}

fn modified(meta: &Metadata) -> Option<SystemTime> {
    meta.modified().ok()
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], start: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut start: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, start)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                bytes = &mut bytes[read..];
                start += read as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.bin");
        fs::write(&path, b"0123456789").unwrap();
        let file = Watched::open(&path).unwrap();
        assert_eq!(file.read(3, 4).unwrap(), b"3456");
        assert_eq!(&file.read_shared(3, 4).unwrap()[..], b"3456");
        let (first, second) = (file.read_shared(0, 5).unwrap(), file.read_shared(5, 5).unwrap());
        assert_eq!((&first[..], &second[..]), (&b"01234"[..], &b"56789"[..]), "no buffer is lent twice");
        assert!(file.read(8, 3).unwrap_err().to_string().contains("the file has 10"));
        assert!(file.read(u64::MAX, 3).is_err());

        fs::write(&path, b"012").unwrap();
        let got = file.read(0, 2).unwrap_err().to_string();
        assert!(got.contains("a.bin") && got.contains("shrank from 10 to 3 bytes"), "{got}");
        let file = Watched::open(&path).unwrap();
        let later = SystemTime::now() + std::time::Duration::from_secs(9);
        File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        assert!(file.read(0, 2).unwrap_err().to_string().contains("was changed"));
        let file = Watched::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(file.read(0, 2).unwrap_err().to_string().contains("was removed"));
        assert!(Watched::open(dir.path()).is_err());
    }
}
