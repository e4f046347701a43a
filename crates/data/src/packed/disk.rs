//! Reading at a position, from several threads at once, of a file that must not change meanwhile.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::SystemTime;

use super::direct::Direct;
use crate::error::DataError;
use crate::escape::Escaped;
use crate::file;
use crate::slot::FieldMut;

/// An open file with its size and age when it was opened.
pub(super) struct Disk {
    path: String,
    #[cfg(unix)]
    file: File,
    #[cfg(not(unix))]
    file: std::sync::Mutex<File>,
    length: u64,
    modified: Option<SystemTime>,
    /// Decided when the first block is asked for.
    direct: OnceLock<Option<Direct>>,
}

impl Disk {
    pub fn open(path: &Path) -> Result<Disk, DataError> {
        let shown = path.escaped();
        let refuse = |source: io::Error| DataError::Io { path: shown.clone(), source };
        match fs::metadata(path) {
            Ok(meta) if meta.is_file() => {}
            Ok(meta) if !meta.is_dir() => {
                return Err(DataError::NotAFile {
                    path: shown,
                    what: "a pipe or device".into(),
                    next: "copy its data into a file first".into(),
                });
            }
            // the ordinary reader says what is near, or what to do with a directory
            _ => return Err(file::read(path).err().unwrap_or_else(|| refuse(io::ErrorKind::Other.into()))),
        }
        let file = File::open(path).map_err(refuse)?;
        let meta = file.metadata().map_err(refuse)?;
        Ok(Disk {
            length: meta.len(),
            modified: meta.modified().ok(),
            #[cfg(unix)]
            file,
            #[cfg(not(unix))]
            file: std::sync::Mutex::new(file),
            path: shown,
            direct: OnceLock::new(),
        })
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Fills `into` from byte `at` on.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), DataError> {
        self.read_at(at, into).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => self.changed("it has become shorter"),
            _ => DataError::Io { path: self.path.clone(), source },
        })
    }

    /// Fills the fields of a block, the bytes `at..at + length`, past the page cache, unchecked. `false`: they have to be read as usual.
    pub fn read_direct(&self, at: u64, length: u64, into: &mut [FieldMut<'_>]) -> bool {
        let Some(direct) = self.direct() else { return false };
        let done = direct.read(at, into);
        if !done {
            self.fetch(at, length);
        }
        done
    }

    /// Whether blocks are not in memory, and several should be asked for at once.
    pub fn waits(&self) -> bool {
        self.direct().is_some()
    }

    fn direct(&self) -> Option<&Direct> {
        #[cfg(unix)]
        let decide = || Direct::of(&self.file, self.length);
        #[cfg(not(unix))]
        let decide = || None;
        self.direct.get_or_init(decide).as_ref()
    }

    /// All blocks past the page cache from now on, wherever the file is.
    #[cfg(test)]
    pub fn force_direct(&mut self) {
        self.direct = OnceLock::from(Direct::open(&self.file));
    }

    /// These bytes will be read soon. Nothing where several threads ask for them anyway.
    pub fn announce(&self, at: u64, length: u64) {
        if !self.waits() {
            self.fetch(at, length);
        }
    }

    /// Has all of these bytes fetched at once.
    fn fetch(&self, at: u64, length: u64) {
        #[cfg(unix)]
        file::announce(&self.file, at, length);
        #[cfg(not(unix))]
        let _ = (at, length);
    }

    /// The file is as it was when it was opened.
    pub fn check_unchanged(&self) -> Result<(), DataError> {
        let meta = self.metadata().map_err(|source| DataError::Io { path: self.path.clone(), source })?;
        if meta.len() != self.length {
            return Err(self.changed(&format!("it had {} bytes and has {}", self.length, meta.len())));
        }
        if meta.modified().ok() != self.modified {
            return Err(self.changed("it was written to"));
        }
        Ok(())
    }

    fn changed(&self, how: &str) -> DataError {
        DataError::Unsupported {
            file: self.path.clone(),
            what: format!("the file has changed since it was opened: {how}"),
            next: "open it again once it is finished".into(),
        }
    }

    #[cfg(unix)]
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        self.file.read_exact_at(into, at)
    }

    #[cfg(unix)]
    fn metadata(&self) -> io::Result<fs::Metadata> {
        self.file.metadata()
    }

    #[cfg(not(unix))]
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = self.file.lock().map_err(|_| io::Error::other("another thread failed while reading"))?;
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(into)
    }

    #[cfg(not(unix))]
    fn metadata(&self) -> io::Result<fs::Metadata> {
        self.file.lock().map_err(|_| io::Error::other("another thread failed while reading"))?.metadata()
    }
}
