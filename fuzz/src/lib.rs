//! Fuzz targets, each a plain function of bytes, and what they share: settings drawn from the first bytes of an input, files to
//! read, tables to compare. libFuzzer calls one of them (`fuzz_targets/any.rs`), a test all of them with a bounded number of
//! mutated seeds (`mutate.rs`).

#![forbid(unsafe_code)]

mod draw;
mod mutate;
mod prepared;
mod runs;
mod tables;
mod targets;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

pub use draw::Draw;
pub use mutate::short_round;
pub use prepared::check_prepared;
pub use runs::{Run, edited, table};
pub use tables::{check_blocks, rows_of};
pub use targets::{TARGETS, Target};

/// The target that `FUZZ_TARGET` names.
pub fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<&Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        TARGETS.iter().find(|target| target.name == name).expect("FUZZ_TARGET names a file of fuzz/src/targets")
    })
}

/// For `init:` of libFuzzer. The library catches panics of other people's decoders, which libFuzzer's hook would
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
