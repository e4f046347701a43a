//! Where rows come from.
//!
//! A [`Source`] answers for whole batches: any rows, in any order, written straight into a slot. A [`Stream`] is larger than memory
//! and is read in blocks of neighbouring rows; the loader keeps a window of them and shuffles inside it.
//!
//! ```text
//! memory.rs    a Dataset in memory
//! encoded.rs   blocks of a table, encoded as they are read
//! plain.rs     the fast way for columns of numbers
//! ```

mod encoded;
mod memory;
mod plain;

pub use encoded::Encoded;
pub use memory::InMemory;

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
}
