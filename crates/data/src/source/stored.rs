//! Rows of any schema in memory: one contiguous buffer per field. A gather is a copy of bytes.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::thread;

use super::{Rows, Source, Stream};
use crate::error::DataError;
use crate::schema::Schema;
use crate::slot::{FieldMut, FieldsMut, FieldsRef, Heap, Slot};

/// Writes some neighbouring rows.
pub(crate) type Fill<'a> = dyn Fn(Range<u32>, &mut [FieldMut<'_>]) -> Result<(), DataError> + Sync + 'a;

/// Rows in memory, whatever their fields.
pub struct Stored {
    name: String,
    schema: Schema,
    rows: u32,
    slot: Slot,
}

impl Stored {
    /// All rows of a source, as it delivers them in epoch 0 of seed 0; on all cores.
    pub fn from_source(source: &dyn Source) -> Result<Stored, DataError> {
        let cuts = even_cuts(source.rows(), 4096);
        Stored::fill(source.name(), source.schema(), &cuts, &|rows, into| gather_range(source, rows, into))
    }

    /// All rows of a stream; on all cores.
    pub fn from_stream(stream: &dyn Stream) -> Result<Stored, DataError> {
        let starts = stream.blocks();
        let read = |rows: Range<u32>, into: &mut [FieldMut<'_>]| match rows.is_empty() {
            true => Ok(()),
            false => stream.read(starts.partition_point(|start| *start <= rows.start) - 1, into),
        };
        Stored::fill(stream.name(), stream.schema(), starts, &read)
    }

    /// Memory for `cuts.last()` rows, filled on all cores: `read` writes the rows between two neighbouring cuts.
    pub(crate) fn fill(name: &str, schema: &Schema, cuts: &[u32], read: &Fill<'_>) -> Result<Stored, DataError> {
        let rows = cuts.last().copied().unwrap_or(0);
        let mut slot = Slot::new(schema, rows as usize, &Heap)?;
        fill_parts(slot.rows_mut(0..rows as usize), schema, cuts, read)?;
        Ok(Stored { name: name.to_owned(), schema: schema.clone(), rows, slot })
    }

    /// Neighbouring rows, all fields.
    pub fn view(&self, rows: Range<u32>) -> FieldsRef<'_> {
        let end = rows.end.min(self.rows) as usize;
        self.slot.rows((rows.start as usize).min(end)..end)
    }
}

impl Source for Stored {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u32 {
        self.rows
    }

    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        check(self, rows, into)?;
        for (from, to) in self.view(0..self.rows).iter().zip(into) {
            let width = from.bytes().len() / self.rows.max(1) as usize;
            match width {
                0 => {}
                // single numbers, above all labels: known sizes need no call of memcpy
                1 => copy_rows::<1>(from.bytes(), rows.numbers, to.bytes_mut()),
                4 => copy_rows::<4>(from.bytes(), rows.numbers, to.bytes_mut()),
                _ => {
                    for (row, to) in rows.numbers.iter().zip(to.bytes_mut().chunks_exact_mut(width)) {
                        to.copy_from_slice(&from.bytes()[*row as usize * width..][..width]);
                    }
                }
            }
        }
        Ok(())
    }
}

fn copy_rows<const BYTES: usize>(from: &[u8], rows: &[u32], to: &mut [u8]) {
    let (from, _) = from.as_chunks::<BYTES>();
    let (to, _) = to.as_chunks_mut::<BYTES>();
    for (row, to) in rows.iter().zip(to) {
        *to = from[*row as usize];
    }
}

/// All row numbers exist, and the buffers fit them.
pub(crate) fn check(source: &dyn Source, rows: &Rows<'_>, into: &[FieldMut<'_>]) -> Result<(), DataError> {
    let (name, count) = (source.name(), source.rows());
    check_room(name, source.schema(), rows.numbers.len(), into)?;
    match rows.numbers.iter().find(|row| **row >= count) {
        None => Ok(()),
        Some(row) => Err(DataError::Inconsistent(format!("{name}: row {row} of {count}; the first is 0"))),
    }
}

/// The buffers are those of the schema, for so many rows.
pub(crate) fn check_room(name: &str, schema: &Schema, rows: usize, into: &[FieldMut<'_>]) -> Result<(), DataError> {
    let fits = into.len() == schema.fields.len()
        && schema.fields.iter().zip(into).all(|(field, into)| {
            field.kind == into.kind() && rows.checked_mul(field.bytes()) == Some(into.bytes().len())
        });
    match fits {
        true => Ok(()),
        false => Err(DataError::Inconsistent(format!("{name}: buffers that do not fit {rows} rows of {schema}"))),
    }
}

/// Neighbouring rows of a source, as in epoch 0 of seed 0.
pub(crate) fn gather_range(source: &dyn Source, rows: Range<u32>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
    let numbers: Vec<u32> = rows.collect();
    source.gather(&Rows { numbers: &numbers, seed: 0, epoch: 0 }, into)
}

/// Cuts from 0 to `rows`, every `step` rows.
pub(crate) fn even_cuts(rows: u32, step: u32) -> Vec<u32> {
    let mut cuts: Vec<u32> = (0..rows).step_by(step.max(1) as usize).collect();
    cuts.push(rows);
    cuts
}

/// Fills the parts between the cuts on all cores; `fields` begin at the first cut. The error of the earliest part that
/// failed is the answer.
pub(crate) fn fill_parts(
    mut fields: FieldsMut<'_>,
    schema: &Schema,
    cuts: &[u32],
    read: &Fill<'_>,
) -> Result<(), DataError> {
    let mut parts = Vec::with_capacity(cuts.len().saturating_sub(1));
    for cut in cuts.windows(2) {
        let rows = (cut[1] - cut[0]) as usize;
        let mut part = FieldsMut::new();
        for (whole, field) in fields.iter_mut().zip(&schema.fields) {
            part.push(split_off(whole, rows * field.width()));
        }
        parts.push((cut[0]..cut[1], part));
    }
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(parts.len());
    let parts = Mutex::new(parts.into_iter());
    let failed: Mutex<Option<(u32, DataError)>> = Mutex::new(None);
    let next = || parts.lock().ok().and_then(|mut parts| parts.next());
    let work = || {
        while let Some((rows, mut part)) = next() {
            let Err(error) = read(rows.clone(), &mut part) else { continue };
            if let Ok(mut parts) = parts.lock() {
                parts.by_ref().for_each(drop); // nobody needs the rest
            }
            if let Ok(mut failed) = failed.lock()
                && failed.as_ref().is_none_or(|(first, _)| *first > rows.start)
            {
                *failed = Some((rows.start, error));
            }
        }
    };
    match threads {
        0 | 1 => work(),
        _ => thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work)))),
    }
    match failed.into_inner() {
        Ok(Some((_, error))) => Err(error),
        _ => Ok(()),
    }
}

/// The first `count` values; `whole` keeps the rest.
fn split_off<'a>(whole: &mut FieldMut<'a>, count: usize) -> FieldMut<'a> {
    fn cut<'a, T>(whole: &mut &'a mut [T], count: usize) -> &'a mut [T] {
        let (first, rest) = std::mem::take(whole).split_at_mut(count);
        *whole = rest;
        first
    }
    match whole {
        FieldMut::U8(values) => FieldMut::U8(cut(values, count)),
        FieldMut::I32(values) => FieldMut::I32(cut(values, count)),
        FieldMut::F32(values) => FieldMut::F32(cut(values, count)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::dataset::{Dataset, Features, Target};
    use crate::source::InMemory;

    fn numbers(rows: usize) -> InMemory {
        let data = Dataset::new(
            rows,
            Features::F32 { data: (0..rows * 3).map(|v| v as f32).collect(), width: 3 },
            Target::Classes { data: (0..rows as i32).map(|v| v % 5).collect(), classes: 5 },
        );
        InMemory::new("numbers", Arc::new(data.unwrap())).unwrap()
    }

    #[test]
    fn keeps_every_row_of_a_source() {
        for rows in [0, 1, 4096, 10_001] {
            let source = numbers(rows);
            let stored = Stored::from_source(&source).unwrap();
            assert_eq!((stored.rows() as usize, stored.schema()), (rows, source.schema()));
            let picked: Vec<u32> = (0..rows as u32).rev().step_by(7).collect();
            let rows = Rows { numbers: &picked, seed: 0, epoch: 0 };
            let mut want = (vec![0f32; picked.len() * 3], vec![0i32; picked.len()]);
            let mut got = want.clone();
            source.gather(&rows, &mut [FieldMut::F32(&mut want.0), FieldMut::I32(&mut want.1)]).unwrap();
            stored.gather(&rows, &mut [FieldMut::F32(&mut got.0), FieldMut::I32(&mut got.1)]).unwrap();
            assert_eq!(want, got);
        }
    }

    #[test]
    fn rows_and_buffers_that_do_not_fit_are_refused() {
        let stored = Stored::from_source(&numbers(4)).unwrap();
        let (mut x, mut y) = ([0f32; 3], [0i32; 1]);
        let mut ask = |numbers: &[u32]| {
            let rows = Rows { numbers, seed: 0, epoch: 0 };
            stored.gather(&rows, &mut [FieldMut::F32(&mut x), FieldMut::I32(&mut y)])
        };
        ask(&[3]).unwrap();
        assert!(ask(&[4]).unwrap_err().to_string().contains("row 4 of 4"));
        assert!(ask(&[0, 1]).unwrap_err().to_string().contains("2 rows of x f32[3]"));
    }

    #[test]
    fn the_first_failure_is_told() {
        let schema = numbers(1).schema().clone();
        let read = |rows: Range<u32>, _: &mut [FieldMut<'_>]| match rows.start {
            0..20 => Ok(()),
            at => Err(DataError::Inconsistent(at.to_string())),
        };
        let error = Stored::fill("n", &schema, &even_cuts(100, 10), &read).err().unwrap();
        assert_eq!(error.to_string(), "inconsistent data: 20");
    }
}
