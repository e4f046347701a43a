//! Files of runs and models: read within limits, written whole or not at all.

use std::path::Path;

use citius_data::bounded;

use crate::TrainError;

/// A file of settings has no more bytes than this.
const SETTINGS: u64 = 4 << 20;
/// Nor has a description of a model, which holds every category of its data.
const DESCRIPTION: u64 = 1 << 30;

/// Replaces the file at `path` by `bytes`. On failure the old file is as it was.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    citius_data::write_whole(path, bytes).map_err(|error| TrainError::file("write", path, &error))
}

/// A file of settings, or what a pipe says.
pub(crate) fn read_settings(path: &Path) -> Result<Vec<u8>, TrainError> {
    bounded::read_small(path, SETTINGS).map_err(|error| TrainError::file("read", path, &error))
}

/// A description in JSON.
pub(crate) fn read_description(path: &Path) -> Result<Vec<u8>, TrainError> {
    bounded::read_plain(path, DESCRIPTION).map_err(|error| TrainError::file("read", path, &error))
}

/// Tensors: a plain file, as large as it is.
pub(crate) fn read_tensors(path: &Path) -> Result<Vec<u8>, TrainError> {
    bounded::read_plain(path, u64::MAX - 1).map_err(|error| TrainError::file("read", path, &error))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_failed_write_says_what_to_do() {
        let full = write_whole(Path::new("/dev/full"), b"text").unwrap_err().to_string();
        assert!(full.contains("the disk is full") && full.contains("--out"), "{full}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.json");
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(write_whole(folder.path(), b"").unwrap_err().to_string().contains("a directory"));
    }
}
