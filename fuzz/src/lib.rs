//! What the fuzz targets share: settings drawn from the first bytes of an input, files to read, tables to compare.

mod draw;
mod prepared;
mod tables;

use std::fs;
use std::path::Path;

pub use draw::Draw;
pub use prepared::check_prepared;
pub use tables::{rows_of, rows_of_blocks};

/// For `init:` of every target. The library catches panics of other people's decoders, which libFuzzer's hook would
/// turn into crashes; a panic that nobody catches still is one.
pub fn caught_panics_are_fine() {
    drop(std::panic::take_hook());
}

/// Calls `read` with the path of a file of these bytes, in memory where the system has a folder for that.
pub fn with_file<T>(name: &str, bytes: &[u8], read: impl FnOnce(&Path) -> T) -> T {
    with_files(&[(name, bytes)], |dir| read(&dir.join(name)))
}

/// Calls `read` with the path of a folder of these files.
pub fn with_files<T>(files: &[(&str, &[u8])], read: impl FnOnce(&Path) -> T) -> T {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let dir = dir.expect("a temporary folder");
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).expect("a temporary file");
    }
    read(dir.path())
}

/// The bytes as gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).expect("memory");
    out.finish().expect("memory")
}
