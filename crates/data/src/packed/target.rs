//! A packed file on its way: there when it is complete, and not before.

use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::DataError;
use crate::escape::Escaped;
use crate::whole::WholeFile;

/// The file being written. Dropped unfinished, it is removed.
pub(super) struct Target {
    path: PathBuf,
    overwrite: bool,
    file: BufWriter<WholeFile>,
}

impl Target {
    pub fn create(path: &Path, overwrite: bool) -> Result<Target, DataError> {
        let refuse = |problem: String| DataError::Write { path: path.escaped(), problem };
        if path.is_dir() {
            return Err(refuse("it is a directory; name a file in it".into()));
        }
        if !overwrite && path.exists() {
            return Err(refuse("it exists; choose another name, or allow to overwrite it".into()));
        }
        let file = WholeFile::create(path).map_err(|error| write_error(path, &error))?;
        if !file.is_plain() {
            return Err(refuse(
                "it is a pipe or a device, and a packed file is written back and forth; name a file".into(),
            ));
        }
        Ok(Target { path: path.to_owned(), overwrite, file: BufWriter::with_capacity(1 << 18, file) })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.file.write_all(bytes).map_err(|error| write_error(&self.path, &error))
    }

    /// Writes the first bytes anew, sees everything safely to the disk and gives the file its name.
    pub fn finish(self, head: &[u8]) -> Result<(), DataError> {
        let Target { path, overwrite, file } = self;
        let fail = |error: io::Error| write_error(&path, &error);
        let mut file = file.into_inner().map_err(|error| fail(error.into_error()))?;
        file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(head)).map_err(fail)?;
        if overwrite { file.finish() } else { file.finish_new() }.map_err(fail)
    }
}

fn write_error(path: &Path, error: &io::Error) -> DataError {
    let problem = match error.kind() {
        io::ErrorKind::StorageFull => "the disk is full; free some room or choose another disk".to_owned(),
        io::ErrorKind::QuotaExceeded => "your share of the disk is used up; free some room".to_owned(),
        io::ErrorKind::FileTooLarge => "the file grows larger than its disk allows; choose another disk".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "its disk can only be read; choose another place".to_owned(),
        io::ErrorKind::AlreadyExists => "it exists by now; choose another name, or allow to overwrite it".to_owned(),
        _ => error.to_string(),
    };
    DataError::Write { path: path.escaped(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_too_long_or_a_full_disk_is_said() {
        let full = write_error(Path::new("a.citius"), &io::Error::from(io::ErrorKind::StorageFull));
        let want = "a.citius: cannot be written: the disk is full; free some room or choose another disk";
        assert_eq!(full.to_string(), want);
        let dir = tempfile::tempdir().unwrap();
        assert!(Target::create(&dir.path().join("x".repeat(400)), false).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_came_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut target = Target::create(&path, false).unwrap();
        target.write(b"new").unwrap();
        std::fs::write(&path, "old").unwrap();
        let error = target.finish(b"").unwrap_err().to_string();
        assert!(error.contains("exists by now"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
