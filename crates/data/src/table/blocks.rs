//! A file in blocks of neighbouring rows, each read on its own: tables larger than memory.

use std::borrow::Cow;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use super::read::{keep, refuse_other_formats};
use super::watched::Watched;
use super::{ReadOptions, Table, arrow, columnar, lines, npy, npz, parquet};
use crate::error::DataError;

/// Larger blocks are cut where the format allows it.
pub(super) const MOST_ROWS: usize = 1 << 16;
pub(super) const MOST_BYTES: u64 = 32 << 20;

/// A table that is read block by block.
pub trait TableBlocks: Send + Sync {
    /// File name, for messages.
    fn name(&self) -> &str;

    /// Column names, the same in each block.
    fn columns(&self) -> Vec<String>;

    /// Whether the names come from the file; otherwise they are "0", "1", ….
    fn header(&self) -> bool {
        true
    }

    /// Whether blocks are cut out of a text, by its bytes.
    fn is_text(&self) -> bool {
        false
    }

    /// Where each block begins, and the end: blocks + 1 row numbers, rising, from 0.
    fn blocks(&self) -> &[u32];

    /// One block. Called from several threads at once. Rows in messages are counted in the file.
    fn read(&self, block: usize) -> Result<Table, DataError>;

    /// The block will be read soon: a disk can be told.
    fn announce(&self, _block: usize) {}

    /// Threads that should do nothing but read blocks; 0: none.
    fn readers(&self) -> usize {
        0
    }

    /// The number of a block's first row in its file, for messages: another than in [`TableBlocks::blocks`] where a table is
    /// several files.
    fn row_in_file(&self, block: usize) -> u32 {
        self.blocks().get(block).copied().unwrap_or(0)
    }

    /// Some columns of a block, which are rising.
    fn read_columns(&self, block: usize, columns: &[usize]) -> Result<Table, DataError> {
        Ok(keep(self.read(block)?, columns))
    }

    /// How many cells of a column are missing in a block.
    fn missing(&self, block: usize, column: usize) -> Result<usize, DataError> {
        let table = self.read_columns(block, &[column])?;
        Ok((0..table.rows).filter(|row| table.columns.iter().any(|cells| cells.is_missing(*row))).count())
    }

    /// A short cut past the table for columns of plain numbers: calls `visit(first row in the block, values)` for some
    /// rows after the other, a [`Numbers`] for each of `columns`, which are rising. `false` if there is no short cut
    /// for these columns, or if `visit` said so; some rows may have been visited then.
    fn visit_numbers(
        &self,
        _block: usize,
        _columns: &[usize],
        _visit: &mut dyn FnMut(usize, &[Numbers<'_>]) -> bool,
    ) -> Result<bool, DataError> {
        Ok(false)
    }
}

/// Numbers as a file keeps them; NaN where missing.
#[derive(Debug, Clone, PartialEq)]
pub enum Numbers<'a> {
    F32(&'a [f32]),
    F64(Cow<'a, [f64]>),
    I32(&'a [i32]),
    I64(&'a [i64]),
}

/// Opens Parquet, an Arrow file or uncompressed delimited text for reading in blocks.
pub fn open_blocks(path: &Path, options: &ReadOptions) -> Result<Box<dyn TableBlocks>, DataError> {
    open_blocks_within(path, options, usize::MAX)
}

/// As [`open_blocks`], with about so many rows in a block at most. The record batches of Arrow stay whole.
pub fn open_blocks_within(
    path: &Path,
    options: &ReadOptions,
    most_rows: usize,
) -> Result<Box<dyn TableBlocks>, DataError> {
    let size = std::fs::metadata(path).map_or(0, |meta| meta.len());
    let bytes = lines::block_bytes(size);
    let blocks = open_sized(path, options, bytes, most_rows)?;
    let largest = blocks.blocks().windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0);
    match blocks.is_text() && largest > most_rows {
        // how many rows a block has is known once its records are counted
        true => {
            let bytes = bytes.min(size) as u128 * most_rows as u128 / largest as u128;
            open_sized(path, options, bytes as u64, most_rows)
        }
        false => Ok(blocks),
    }
}

/// As [`open_blocks`], with text cut behind each record in which a block reaches `bytes`: for tests with small files.
#[doc(hidden)]
pub fn open_blocks_of(path: &Path, options: &ReadOptions, bytes: u64) -> Result<Box<dyn TableBlocks>, DataError> {
    open_sized(path, options, bytes, usize::MAX)
}

fn open_sized(
    path: &Path,
    options: &ReadOptions,
    bytes: u64,
    most_rows: usize,
) -> Result<Box<dyn TableBlocks>, DataError> {
    let file = Watched::open(path)?;
    let name = file.name();
    let head = file.read(0, file.len().min(16) as usize)?;
    let starts = |magic: &[u8]| head.starts_with(magic);
    if starts(parquet::MAGIC) {
        return Ok(Box::new(parquet::open_blocks(&name, file.into(), options, most_rows.min(MOST_ROWS))?));
    }
    if starts(arrow::MAGIC) {
        return Ok(Box::new(arrow::open_blocks(&name, file, options)?));
    }
    refuse_other_formats(&name, &head)?;
    let compressed = "decompress it first, save it as Parquet, or give it more --memory";
    let other = [
        (&b"\x1f\x8b"[..], "gzip", compressed),
        (b"\x28\xb5\x2f\xfd", "zstd", compressed),
        (npy::MAGIC, "NPY", "give it more --memory, or save it as Parquet"),
        (npz::MAGIC, "zip or NPZ", "give it more --memory, or save it as Parquet"),
        (arrow::STREAM_MAGIC, "an Arrow stream", "save it as an Arrow file or Parquet"),
    ];
    if let Some((_, what, next)) = other.into_iter().find(|(magic, ..)| starts(magic)) {
        return Err(DataError::Unsupported {
            file: name,
            what: format!("is {what}, which cannot be read in blocks"),
            next: next.to_owned(),
        });
    }
    Ok(Box::new(lines::open_blocks(&name, file, options, bytes)?))
}

/// The columns of a batch as they are kept, or as f64 where they have nulls or are kept otherwise.
pub(super) fn batch_numbers(batch: &RecordBatch) -> Option<Vec<Numbers<'_>>> {
    batch.columns().iter().map(|array| array_numbers(array)).collect()
}

fn array_numbers(array: &dyn Array) -> Option<Numbers<'_>> {
    if array.null_count() > 0 {
        return columnar::numbers(array).ok().map(|values| Numbers::F64(values.into()));
    }
    Some(match array.data_type() {
        DataType::Float32 => Numbers::F32(array.as_primitive::<Float32Type>().values()),
        DataType::Float64 => Numbers::F64(array.as_primitive::<Float64Type>().values()[..].into()),
        DataType::Int32 => Numbers::I32(array.as_primitive::<Int32Type>().values()),
        DataType::Int64 => Numbers::I64(array.as_primitive::<Int64Type>().values()),
        _ => Numbers::F64(columnar::numbers(array).ok()?.into()),
    })
}
