//! Sources and streams into packed files.

use std::ops::Range;
use std::path::Path;

use super::{PackOptions, PackWriter, Summary};
use crate::error::DataError;
use crate::slot::{FieldMut, Heap, Slot};
use crate::source::stored::{even_cuts, fill_parts, gather_range};
use crate::source::{Source, Stream};

/// Packs all rows of a source, as it delivers them in epoch 0 of seed 0. Rows are gathered on all cores.
pub fn pack_source(
    source: &dyn Source,
    path: impl AsRef<Path>,
    options: PackOptions,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<Summary, DataError> {
    let (schema, all) = (source.schema(), source.rows());
    let mut writer = PackWriter::create(path, schema, named(options, source.name()))?;
    let step = writer.block_rows as u32;
    let mut slot = Slot::new(schema, step.min(all) as usize, &Heap)?;
    for start in (0..all).step_by(step as usize) {
        let rows = step.min(all - start);
        let cuts = even_cuts(rows, rows.div_ceil(64).max(16));
        let read = |part: Range<u32>, into: &mut [FieldMut<'_>]| {
            gather_range(source, start + part.start..start + part.end, into)
        };
        fill_parts(slot.rows_mut(0..rows as usize), schema, &cuts, &read)?;
        writer.push(&slot.rows(0..rows as usize), rows as usize)?;
        progress(start + rows, all);
    }
    writer.finish()
}

/// Packs all rows of a stream.
pub fn pack_stream(
    stream: &dyn Stream,
    path: impl AsRef<Path>,
    options: PackOptions,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<Summary, DataError> {
    let (schema, blocks) = (stream.schema(), stream.blocks());
    let mut writer = PackWriter::create(path, schema, named(options, stream.name()))?;
    let largest = blocks.windows(2).map(|cut| cut[1] - cut[0]).max().unwrap_or(0);
    let mut slot = Slot::new(schema, largest as usize, &Heap)?;
    for (block, cut) in blocks.windows(2).enumerate() {
        let rows = (cut[1] - cut[0]) as usize;
        stream.read(block, &mut slot.rows_mut(0..rows))?;
        writer.push(&slot.rows(0..rows), rows)?;
        progress(cut[1], blocks.last().copied().unwrap_or(0));
    }
    writer.finish()
}

fn named(options: PackOptions, name: &str) -> PackOptions {
    match options.source.is_empty() {
        true => PackOptions { source: name.to_owned(), ..options },
        false => options,
    }
}
