//! The memory for data (`--memory`), and which share of it each part of the reading may take. Together they stay within it:
//!
//! ```text
//! 3/8  the loader's windows of encoded rows
//! 1/8  validation and test rows, encoded, a sixteenth each
//! 1/32 a block that is being encoded, for each thread; before that 1/4, for the rows that a preparation is fitted on
//! ```
//!
//! What is left is for the step, and for memory that an allocator keeps.

use std::path::{Path, PathBuf};

use citius_data::source::open_files;
use citius_data::{Escaped, Preparation, ReadOptions, Table, TableBlocks, byte_size, memory};

use crate::TrainError;
use crate::config::TrackedWishes;

/// A cell: a number and its copy, or the name of a label, which few rows of a sample share.
const CELL: u64 = 40;
/// At most, unless given: what is free changes, and a table is divided in another way where it is read in blocks.
const USUAL: u64 = 4 << 30;
/// Fewer rows are no sample, and no block.
const LEAST_SAMPLE: usize = 1000;
const LEAST_BLOCK: usize = 64;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct DataMemory {
    pub bytes: u64,
}

impl DataMemory {
    /// What was given, or half of what is free, up to [`USUAL`].
    pub fn of(wishes: &TrackedWishes<'_>) -> DataMemory {
        let half = || memory::available().map_or(USUAL, |free| (free / 2).min(USUAL));
        DataMemory { bytes: wishes.memory.map_or_else(half, |size| size.0) }
    }

    /// Encoded rows of the windows that a loader reads ahead.
    pub fn of_windows(self) -> usize {
        usize::try_from(self.bytes / 8 * 3).unwrap_or(usize::MAX)
    }

    /// Rows to keep for validation, and as many for the test.
    pub fn kept_rows(self, row_bytes: u64) -> u64 {
        self.bytes / 16 / row_bytes.max(1)
    }

    /// Rows of a sample, of so many bytes in a table.
    fn sample_rows(self, row_bytes: u64, most: usize) -> usize {
        let rows = usize::try_from(self.bytes / 4 / row_bytes.max(1)).unwrap_or(usize::MAX);
        rows.max(LEAST_SAMPLE).min(most)
    }

    /// Rows of a block.
    fn block_rows(self, row_bytes: u64) -> usize {
        let rows = usize::try_from(self.bytes / 32 / row_bytes.max(1)).unwrap_or(usize::MAX);
        rows.max(LEAST_BLOCK)
    }

    /// Bytes that a compressed file may expand to: as text it takes about half of what it takes as a table.
    pub fn of_text(self) -> u64 {
        self.bytes / 2
    }
}

/// Rows of a sample that a preparation is fitted on or that are looked at: what a row of text takes as cells and labels is a guess.
pub fn most_sampled(paths: &[PathBuf], blocks: &dyn TableBlocks, wishes: &TrackedWishes<'_>) -> usize {
    let rows = blocks.blocks().last().copied().unwrap_or(0).max(1);
    let size: u64 = paths.iter().filter_map(|path| path.metadata().ok()).map(|meta| meta.len()).sum();
    let in_table = CELL * blocks.columns().len() as u64 + 3 * size / u64::from(rows);
    DataMemory::of(wishes).sample_rows(in_table, usize::MAX)
}

/// Whether tables together are to be read in blocks.
pub fn larger_than_memory(paths: &[PathBuf], wishes: &TrackedWishes<'_>) -> bool {
    let size = paths.iter().map(|path| size_in_memory(path)).fold(0, u64::saturating_add);
    size > DataMemory::of(wishes).bytes
}

/// A guess at the memory that a table takes: its text and its cells as f64. What a compressed file takes is known once it is read.
fn size_in_memory(path: &Path) -> u64 {
    let bytes = std::fs::metadata(path).map_or(0, |meta| meta.len());
    let name = path.to_string_lossy().to_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    let times = match () {
        () if ends(&[".gz", ".zst"]) => return 0,
        () if ends(&[".parquet", ".arrow", ".feather"]) => 3,
        () => 2,
    };
    bytes.saturating_mul(times)
}

/// Whether a table has to be read in blocks since its rows, encoded, are larger than it is.
pub fn larger_when_encoded(preparation: &Preparation, table: &Table, wishes: &TrackedWishes<'_>) -> bool {
    needed(preparation, table) > DataMemory::of(wishes).bytes
}

/// The most that the encoded rows and the table, or a copy of them for the refit, take together.
pub(super) fn needed(preparation: &Preparation, table: &Table) -> u64 {
    let encoded = encoded_bytes(preparation, table);
    encoded.saturating_add(table.size().max(encoded))
}

/// Bytes of the encoded rows.
pub(super) fn encoded_bytes(preparation: &Preparation, table: &Table) -> u64 {
    let row = 4 * (preparation.features() + preparation.outputs()) as u64;
    (table.rows as u64).saturating_mul(row)
}

/// The same tables in blocks, cut smaller where their encoded rows are larger than a block may be.
pub fn blocks_within(
    blocks: Box<dyn TableBlocks>,
    preparation: &Preparation,
    paths: &[PathBuf],
    options: &ReadOptions,
    wishes: &TrackedWishes<'_>,
) -> Result<Box<dyn TableBlocks>, TrainError> {
    let encoded = 4 * (preparation.features() + preparation.outputs()) as u64;
    let most = DataMemory::of(wishes).block_rows(encoded);
    let largest = blocks.blocks().windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0);
    Ok(if largest > most { open_files(paths, options, most)? } else { blocks })
}

/// Whether the reader of a format can read it in blocks.
pub(super) fn has_blocks(path: &Path) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    ![".gz", ".zst", ".npy", ".npz"].iter().any(|ending| name.ends_with(ending))
}

/// Refuses a source that is always read whole where it takes more memory than data may.
pub(super) fn refuse_larger(path: &Path, what: &str, wishes: &TrackedWishes<'_>) -> Result<(), TrainError> {
    let memory = DataMemory::of(wishes);
    let size = size_in_memory(path);
    match size <= memory.bytes {
        true => Ok(()),
        false => Err(TrainError::Setting(format!(
            "{}: {what} is read whole and takes about {}, more than the {} for data; give it more --memory, or a smaller file",
            path.escaped(),
            byte_size(size),
            byte_size(memory.bytes)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_stay_within_the_whole() {
        let memory = DataMemory { bytes: 200_000_000 };
        let row = 5124;
        let threads = 2;
        let all = memory.of_windows() as u64
            + 2 * row * memory.kept_rows(row)
            + threads * row * memory.block_rows(row) as u64;
        assert!(all <= memory.bytes / 3 * 2, "{all}");
        assert_eq!(memory.sample_rows(1, 100), 100);
        assert_eq!(DataMemory { bytes: 0 }.sample_rows(9, 100_000), LEAST_SAMPLE);
        assert_eq!(DataMemory { bytes: 0 }.block_rows(0), LEAST_BLOCK);
    }
}
