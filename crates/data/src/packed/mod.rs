//! Packed files, `.citius`: rows of fixed width laid out as a loader wants them, every byte under a checksum.
//!
//! ```text
//! mod.rs      what a packed file says about itself
//! layout.rs   where everything is: header, blocks, index
//! write.rs    PackWriter: rows into a file
//! pack.rs     whole sources and streams into a file
//! target.rs   a file that is there when it is complete
//! read.rs     PackedFile: a Stream, or all of it in memory
//! disk.rs     reading at a position; direct.rs: past the page cache
//! stats.rs    count, extremes, mean and deviation per column
//! ```
//!
//! Numbers are little-endian. A file is
//!
//! ```text
//! header    one page of 4,096 bytes: magic, format, length of the file, where the footer is; CRC32 in its last 4 bytes
//! blocks    each begins at a page: about 1 MiB, 1 to 65,536 rows
//!             field 0 of all its rows, zeros up to a multiple of 64 bytes, field 1 of all its rows, zeros, …
//!             for each field of bytes: start u64, length u32, CRC32 u32 of each row, zeros up to 64
//!             the bytes themselves, zeros up to the page
//! footer    JSON (Metadata), then for each block: bytes u64, rows u32, CRC32 of its fields, CRC32 of the rest, 0 u32
//! ```
//!
//! The header page keeps its place, its CRC and the position of the format number in all formats, so that an older
//! program can say that a file is newer. It is written last, into a temporary file that is renamed when all is well.
//!
//! Files are read with positional reads, not mapped into memory: a mapped file that shrinks while it is read kills the
//! process with a signal, a read gives an error. From the page cache a read is a copy at memory speed, past it none at all,
//! and the checksum has to see every byte anyhow.

mod direct;
mod disk;
mod layout;
mod pack;
mod read;
mod stats;
mod target;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use layout::FORMAT;
pub use pack::{pack_source, pack_stream};
pub use read::PackedFile;
pub use stats::{ColumnStats, FieldStats, MOST_COLUMNS};
pub use write::{PackOptions, PackWriter, Summary};

use crate::error::DataError;
use crate::schema::Schema;

/// What a packed file says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// Fields of fixed width, with the names of their classes.
    pub schema: Schema,
    /// Names of the fields whose rows are bytes of any length, such as encoded pictures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bytes: Vec<String>,
    pub rows: u32,
    /// Of each field of the schema.
    pub statistics: Vec<FieldStats>,
    /// What was packed, for people.
    pub source: String,
    /// Whatever else belongs to the rows: how pixels are scaled, how a table became numbers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, Value>,
}

/// Whether a file that begins so is a packed one.
pub(crate) fn is_packed(head: &[u8]) -> bool {
    head.starts_with(layout::MAGIC)
}

/// A packed file that is cut short, damaged or not one.
fn broken(file: &str, problem: impl Into<String>) -> DataError {
    DataError::Binary { file: file.to_owned(), format: "packed", problem: problem.into() }
}

/// Numbers are stored as they lie in memory, which is little-endian wherever Citius has been tried.
fn check_endianness(file: &str) -> Result<(), DataError> {
    match cfg!(target_endian = "little") {
        true => Ok(()),
        false => Err(DataError::Unsupported {
            file: file.to_owned(),
            what: "packed files are little-endian, this machine is not".into(),
            next: "read the original files here".into(),
        }),
    }
}

#[cfg(test)]
mod tests;
