//! Where rows come from.
//!
//! A [`Source`] answers for whole batches: any rows, in any order, written straight into a slot. A [`Stream`] is larger than memory
//! and is read in blocks of neighbouring rows; the loader keeps a window of them and shuffles inside it.
//!
//! ```text
//! memory.rs    a Dataset in memory
//! encoded.rs   blocks of a table, encoded as they are read
//! stored.rs    rows of any schema in memory
//! concat.rs    several sources or streams as one
//! files.rs     patterns for file names; several tables as one, in memory; file_blocks.rs: in blocks
//! text.rs      windows over a text; vocabulary.rs: its tokens by number
//! series.rs    windows over the rows of a table in the order of time; scale.rs: means and deviations
//! time_index/   its time column: rows sorted, the step from row to row, gaps; gap_fill.rs: missing values
//! plain.rs     the fast way for columns of numbers
//! ```

mod concat;
mod encoded;
mod file_blocks;
mod files;
mod gap_fill;
mod memory;
mod plain;
mod scale;
mod series;
pub(crate) mod stored;
mod text;
mod time_index;
mod vocabulary;

pub use concat::{Concat, ConcatStream};
pub use encoded::Encoded;
pub(crate) use encoded::{in_file, pick};
pub use file_blocks::open_files;
pub use files::{expand, tables};
pub use gap_fill::GapFill;
pub use memory::InMemory;
pub use scale::{ColumnScale, SeriesScale};
pub use series::{SeriesInputs, SeriesOptions, SeriesWindows, longest_fill};
pub use stored::Stored;
pub(crate) use text::characters;
pub use text::{Predict, Text, TextWindows};
pub use time_index::{TimeFormat, TimeIndex, TimeStep, TimedRows};
pub use vocabulary::{Unit, Vocabulary};

use crate::error::DataError;
use crate::schema::Schema;
use crate::slot::FieldMut;

/// Rows to be gathered, and what everything random about them may depend on.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Row numbers below [`Source::rows`].
    pub numbers: &'a [u32],
    pub seed: u64,
    pub epoch: u64,
}

/// A random number's key: the same for a row of an epoch whoever asks, whenever.
impl Rows<'_> {
    pub fn key(&self, row: u32) -> u64 {
        use crate::rng::mix;
        mix(mix(mix(self.seed) ^ self.epoch) ^ row as u64)
    }
}

/// Rows that can be had in any order.
pub trait Source: Send + Sync {
    /// For people.
    fn name(&self) -> &str;
    /// What [`Source::gather`] writes.
    fn schema(&self) -> &Schema;
    fn rows(&self) -> u32;
    /// Writes these rows, in this order: `into[f]` has room for `rows.numbers.len()` rows of field `f` of the schema.
    ///
    /// Called from several threads at once. An error names its file and row.
    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError>;
    /// Shows the memory that rows will be gathered from, to somebody who can ask for it ahead: a table, and the bytes of a row in it.
    /// Nothing where it is not in memory, or is near anyway.
    fn show(&self, _see: &mut dyn FnMut(&[u8], usize)) {}
    /// Whether rows are copied from memory and nothing else: that cannot fail, and is cheap enough to be done twice.
    fn is_plain(&self) -> bool {
        false
    }
    /// Whether a batch takes so long, being decoded, that a loader should start threads at once instead of finding out.
    fn is_heavy(&self) -> bool {
        false
    }
}

/// Rows that are read in blocks of neighbours.
pub trait Stream: Send + Sync {
    /// For people.
    fn name(&self) -> &str;
    fn schema(&self) -> &Schema;
    /// Where each block begins, and the end: blocks + 1 row numbers, rising, from 0.
    fn blocks(&self) -> &[u32];
    /// Writes all rows of a block, in order. Called from several threads at once, for different blocks.
    fn read(&self, block: usize, into: &mut [FieldMut<'_>]) -> Result<(), DataError>;
    /// The block will be read soon: a disk can be told.
    fn announce(&self, _block: usize) {}
    /// How many threads a loader should have for nothing but [`Stream::read`], because there a disk is waited for. 0: whoever fills
    /// batches reads too.
    fn readers(&self) -> usize {
        0
    }
}
