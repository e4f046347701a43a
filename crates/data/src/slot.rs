//! Where batches are written: one buffer per field, taken once and filled again and again.

use std::sync::Arc;

use memmap2::MmapMut;
use smallvec::SmallVec;

use crate::error::DataError;
use crate::schema::{Field, Kind, Schema};

/// Bytes of memory for a slot. A device hands in its own, such as pinned memory.
pub trait Memory: Send + Sync {
    fn bytes(&self) -> &[u8];
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// Where slots get their memory: at least `bytes` of it, aligned to 64 bytes. A disk writes straight to where a page begins.
pub trait Allocator: Send + Sync {
    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>, DataError>;
}

/// Ordinary memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heap;

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

struct Lines(Box<[Line]>);

impl Memory for Lines {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

struct Pages(Box<[Page]>);

impl Memory for Pages {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

struct Mapped(MmapMut);

impl Memory for Mapped {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// From this size on memory begins at a page …
const PAGED: usize = 64 << 10;
/// … and from this size on it comes in large pages, where the system has them.
const LARGE: usize = 4 << 20;

impl Allocator for Heap {
    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>, DataError> {
        if bytes >= LARGE
            && let Ok(map) = MmapMut::map_anon(bytes)
        {
            // a hint: without it the first epoch of large batches is mostly spent on taking small pages
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            return Ok(Box::new(Mapped(map)));
        }
        let refused = |()| DataError::TooLarge {
            what: "a buffer for batches".into(),
            bytes: bytes as u128,
            next: "use a smaller batch or less prefetch".into(),
        };
        if bytes >= PAGED {
            let pages = bytemuck::allocation::try_zeroed_slice_box(bytes.div_ceil(4096));
            return Ok(Box::new(Pages(pages.map_err(refused)?)));
        }
        let lines = bytemuck::allocation::try_zeroed_slice_box(bytes.div_ceil(64));
        Ok(Box::new(Lines(lines.map_err(refused)?)))
    }
}

/// The values of one field for some rows, to be written; row-major.
#[derive(Debug)]
pub enum FieldMut<'a> {
    U8(&'a mut [u8]),
    I32(&'a mut [i32]),
    F32(&'a mut [f32]),
}

/// The values of one field for some rows, written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FieldRef<'a> {
    U8(&'a [u8]),
    I32(&'a [i32]),
    F32(&'a [f32]),
}

/// Fields on the stack: a batch costs no allocation.
pub type FieldsMut<'a> = SmallVec<[FieldMut<'a>; 4]>;
pub type FieldsRef<'a> = SmallVec<[FieldRef<'a>; 4]>;

impl<'a> FieldMut<'a> {
    pub fn kind(&self) -> Kind {
        match self {
            FieldMut::U8(_) => Kind::U8,
            FieldMut::I32(_) => Kind::I32,
            FieldMut::F32(_) => Kind::F32,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            FieldMut::U8(values) => values,
            FieldMut::I32(values) => bytemuck::cast_slice(values),
            FieldMut::F32(values) => bytemuck::cast_slice(values),
        }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            FieldMut::U8(values) => values,
            FieldMut::I32(values) => bytemuck::cast_slice_mut(values),
            FieldMut::F32(values) => bytemuck::cast_slice_mut(values),
        }
    }

    /// Typed values of aligned bytes.
    pub fn of(kind: Kind, bytes: &'a mut [u8]) -> FieldMut<'a> {
        match kind {
            Kind::U8 => FieldMut::U8(bytes),
            Kind::I32 => FieldMut::I32(bytemuck::cast_slice_mut(bytes)),
            Kind::F32 => FieldMut::F32(bytemuck::cast_slice_mut(bytes)),
        }
    }

    /// A part of the values.
    pub fn part(&mut self, range: std::ops::Range<usize>) -> FieldMut<'_> {
        match self {
            FieldMut::U8(values) => FieldMut::U8(&mut values[range]),
            FieldMut::I32(values) => FieldMut::I32(&mut values[range]),
            FieldMut::F32(values) => FieldMut::F32(&mut values[range]),
        }
    }
}

impl<'a> FieldRef<'a> {
    pub fn of(kind: Kind, bytes: &'a [u8]) -> FieldRef<'a> {
        match kind {
            Kind::U8 => FieldRef::U8(bytes),
            Kind::I32 => FieldRef::I32(bytemuck::cast_slice(bytes)),
            Kind::F32 => FieldRef::F32(bytemuck::cast_slice(bytes)),
        }
    }

    pub fn bytes(&self) -> &'a [u8] {
        match self {
            FieldRef::U8(values) => values,
            FieldRef::I32(values) => bytemuck::cast_slice(values),
            FieldRef::F32(values) => bytemuck::cast_slice(values),
        }
    }

    pub fn f32(&self) -> Option<&'a [f32]> {
        match self {
            FieldRef::F32(values) => Some(values),
            _ => None,
        }
    }

    pub fn i32(&self) -> Option<&'a [i32]> {
        match self {
            FieldRef::I32(values) => Some(values),
            _ => None,
        }
    }

    pub fn u8(&self) -> Option<&'a [u8]> {
        match self {
            FieldRef::U8(values) => Some(values),
            _ => None,
        }
    }
}

/// Room for a number of rows of a schema.
pub struct Slot {
    fields: Vec<(Kind, usize, Box<dyn Memory>)>,
    capacity: usize,
}

impl Slot {
    /// Takes memory for `rows` rows.
    pub fn new(schema: &Schema, rows: usize, allocator: &dyn Allocator) -> Result<Slot, DataError> {
        let room = |field: &Field| {
            let bytes = rows.saturating_mul(field.bytes());
            Ok((field.kind, field.width(), allocator.allocate(bytes)?))
        };
        let fields = schema.fields.iter().map(room).collect::<Result<_, DataError>>()?;
        Ok(Slot { fields, capacity: rows })
    }

    /// Writes to every page what is there. The system hands out memory when it is first written: better now than in the first epoch.
    pub fn touch(&mut self) {
        const PAGE: usize = 4096;
        for (_, _, memory) in &mut self.fields {
            memory.bytes_mut().iter_mut().step_by(PAGE).for_each(|byte| *byte = std::hint::black_box(*byte));
        }
    }

    /// Rows there is room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The rows `range`, to be written.
    pub fn rows_mut(&mut self, range: std::ops::Range<usize>) -> FieldsMut<'_> {
        self.fields
            .iter_mut()
            .map(|(kind, width, memory)| {
                let row = *width * kind.bytes();
                FieldMut::of(*kind, &mut memory.bytes_mut()[range.start * row..range.end * row])
            })
            .collect()
    }

    /// All rows of a field, as written.
    pub fn field(&self, number: usize) -> Option<FieldRef<'_>> {
        let (kind, width, memory) = self.fields.get(number)?;
        Some(FieldRef::of(*kind, &memory.bytes()[..self.capacity * *width * kind.bytes()]))
    }

    /// The rows `range`, as written.
    pub fn rows(&self, range: std::ops::Range<usize>) -> FieldsRef<'_> {
        self.fields
            .iter()
            .map(|(kind, width, memory)| {
                let row = *width * kind.bytes();
                FieldRef::of(*kind, &memory.bytes()[range.start * row..range.end * row])
            })
            .collect()
    }
}

/// The allocator everything uses unless told otherwise.
pub fn heap() -> Arc<dyn Allocator> {
    Arc::new(Heap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_slot_are_apart_and_aligned() {
        let schema = Schema::new(vec![Field::new("x", Kind::F32, &[3]), Field::new("y", Kind::U8, &[])]).unwrap();
        let mut slot = Slot::new(&schema, 4, &Heap).unwrap();
        for row in 0..4 {
            let mut fields = slot.rows_mut(row..row + 1);
            let [FieldMut::F32(x), FieldMut::U8(y)] = &mut fields[..] else { panic!() };
            x.fill(row as f32);
            y.fill(row as u8 + 10);
        }
        let fields = slot.rows(1..3);
        assert_eq!(fields[0].f32().unwrap(), [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
        assert_eq!(fields[1].u8().unwrap(), [11, 12]);
        assert_eq!(slot.rows(0..4)[0].bytes().as_ptr() as usize % 64, 0);
        assert_eq!(Slot::new(&schema, 1 << 17, &Heap).unwrap().rows(0..1)[1].bytes().as_ptr() as usize % 4096, 0);
        assert!(Slot::new(&schema, usize::MAX / 4, &Heap).is_err());
    }
}
