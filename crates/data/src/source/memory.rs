//! A [`Dataset`] in memory, as a source. Bytes are delivered as bytes, or as the finished numbers they stand for.

use std::sync::Arc;

use super::{Rows, Source};
use crate::dataset::{Dataset, Features, Target};
use crate::error::DataError;
use crate::schema::{Field, INPUT, Kind, Schema, TARGET};
use crate::slot::FieldMut;

/// Rows of a data set, shared by whoever reads them.
pub struct InMemory {
    name: String,
    data: Arc<Dataset>,
    schema: Schema,
}

impl InMemory {
    /// Features as they are kept: bytes stay bytes, a quarter of the traffic.
    pub fn new(name: &str, data: Arc<Dataset>) -> Result<InMemory, DataError> {
        let kind = match &data.features {
            Features::F32 { .. } => Kind::F32,
            Features::U8 { .. } => Kind::U8,
            Features::I32 { .. } => Kind::I32,
        };
        InMemory::of_kind(name, data, kind)
    }

    /// Features as finished numbers; tokens stay what they are.
    pub fn finished(name: &str, data: Arc<Dataset>) -> Result<InMemory, DataError> {
        let tokens = matches!(data.features, Features::I32 { .. });
        InMemory::of_kind(name, data, if tokens { Kind::I32 } else { Kind::F32 })
    }

    fn of_kind(name: &str, data: Arc<Dataset>, kind: Kind) -> Result<InMemory, DataError> {
        data.check()?;
        if u32::try_from(data.rows).is_err() {
            return Err(DataError::Inconsistent(format!("{} rows, at most {} are possible", data.rows, u32::MAX)));
        }
        let target = match &data.target {
            Target::Values { width, .. } => Field::new(TARGET, Kind::F32, &[*width]),
            Target::Classes { classes, .. } => Field::classes(TARGET, (0..*classes).map(|c| c.to_string()).collect()),
            Target::Sequence { classes, length, .. } => {
                let field = Field::classes(TARGET, (0..*classes).map(|c| c.to_string()).collect());
                Field { shape: vec![*length], ..field }
            }
        };
        let schema = Schema::new(vec![Field::new(INPUT, kind, &[data.width()]), target])?;
        Ok(InMemory { name: name.to_owned(), data, schema })
    }

    /// The same rows with names for their classes; as many as there are classes.
    pub fn with_labels(mut self, labels: Vec<String>) -> Result<InMemory, DataError> {
        for field in self.schema.fields.iter_mut().filter(|field| field.name == TARGET && !field.labels.is_empty()) {
            if field.labels.len() != labels.len() {
                let (classes, names) = (field.labels.len(), labels.len());
                return Err(DataError::Inconsistent(format!("{}: {names} names for {classes} classes", self.name)));
            }
            field.labels = labels.clone();
        }
        Ok(self)
    }
}

impl Source for InMemory {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u32 {
        self.data.rows as u32
    }

    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        let [x, y] = into else { return Err(misfit(&self.name)) };
        match (&self.data.features, x) {
            (Features::F32 { data, width }, FieldMut::F32(x)) => copy(data, *width, rows, x),
            (Features::U8 { data, width, .. }, FieldMut::U8(x)) => copy(data, *width, rows, x),
            (Features::I32 { data, width }, FieldMut::I32(x)) => copy(data, *width, rows, x),
            (Features::U8 { data, width, scale, shift }, FieldMut::F32(x)) => {
                pulp::Arch::new().dispatch(Widen {
                    data,
                    width: *width,
                    rows: rows.numbers,
                    scale: *scale,
                    shift: *shift,
                    x,
                });
            }
            _ => return Err(misfit(&self.name)),
        }
        match (&self.data.target, y) {
            (Target::Values { data, width }, FieldMut::F32(y)) => copy(data, *width, rows, y),
            (Target::Classes { data, .. }, FieldMut::I32(y)) => copy(data, 1, rows, y),
            (Target::Sequence { data, length, .. }, FieldMut::I32(y)) => copy(data, *length, rows, y),
            _ => return Err(misfit(&self.name)),
        }
        Ok(())
    }

    fn is_plain(&self) -> bool {
        true
    }

    fn show(&self, see: &mut dyn FnMut(&[u8], usize)) {
        let (bytes, width): (&[u8], usize) = match &self.data.features {
            Features::F32 { data, width } => (bytemuck::cast_slice(data), 4 * width),
            Features::U8 { data, width, .. } => (data, *width),
            Features::I32 { data, width } => (bytemuck::cast_slice(data), 4 * width),
        };
        if bytes.len() > NEAR {
            see(bytes, width);
        }
    }
}

/// A table of this size stays in the caches.
const NEAR: usize = 1 << 20;

fn copy<T: Copy>(data: &[T], width: usize, rows: &Rows<'_>, to: &mut [T]) {
    match width {
        1 => rows.numbers.iter().zip(to).for_each(|(row, to)| *to = data[*row as usize]),
        8..64 => copy_short(data, width, rows, to),
        _ => {
            for (row, to) in rows.numbers.iter().zip(to.chunks_exact_mut(width.max(1))) {
                to.copy_from_slice(&data[*row as usize * width..][..width]);
            }
        }
    }
}

/// Rows too short to be worth the call of a copying routine: blocks of 8, the last of which overlaps the one before.
fn copy_short<T: Copy>(data: &[T], width: usize, rows: &Rows<'_>, to: &mut [T]) {
    for (row, to) in rows.numbers.iter().zip(to.chunks_exact_mut(width)) {
        let from = &data[*row as usize * width..][..width];
        for (from, to) in from.as_chunks::<8>().0.iter().zip(to.as_chunks_mut::<8>().0) {
            *to = *from;
        }
        if let (Some(from), Some(to)) = (from.last_chunk::<8>(), to.last_chunk_mut::<8>()) {
            *to = *from;
        }
    }
}

/// Rows of bytes as the numbers they stand for. Compiled for each kind of processor, so all it calls has to be inlined.
struct Widen<'a> {
    data: &'a [u8],
    width: usize,
    rows: &'a [u32],
    scale: f32,
    shift: f32,
    x: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Widen<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Widen { data, width, rows, scale, shift, x } = self;
        for (row, to) in rows.iter().zip(x.chunks_exact_mut(width.max(1))) {
            let bytes = &data[*row as usize * width..][..width];
            for (to, byte) in to.iter_mut().zip(bytes) {
                *to = *byte as f32 * scale + shift;
            }
        }
    }
}

fn misfit(name: &str) -> DataError {
    DataError::Inconsistent(format!("{name}: buffers of another schema"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_as_bytes_or_finished() {
        let features = Features::U8 { data: vec![0, 10, 20, 30], width: 2, scale: 0.5, shift: -1.0 };
        let data = Dataset::new(2, features, Target::Classes { data: vec![4, 7], classes: 8 }).unwrap();
        let rows = Rows { numbers: &[1, 0, 1], seed: 0, epoch: 0 };
        let (mut bytes, mut numbers, mut y) = ([0u8; 6], [0f32; 6], [0i32; 3]);
        let data = Arc::new(data);
        let source = InMemory::new("d", data.clone()).unwrap();
        source.gather(&rows, &mut [FieldMut::U8(&mut bytes), FieldMut::I32(&mut y)]).unwrap();
        assert_eq!((bytes, y), ([20, 30, 0, 10, 20, 30], [7, 4, 7]));
        let source = InMemory::finished("d", data).unwrap();
        source.gather(&rows, &mut [FieldMut::F32(&mut numbers), FieldMut::I32(&mut y)]).unwrap();
        assert_eq!(numbers, [9.0, 14.0, -1.0, 4.0, 9.0, 14.0]);
        assert!(source.gather(&rows, &mut [FieldMut::I32(&mut y)]).is_err());
    }
}
