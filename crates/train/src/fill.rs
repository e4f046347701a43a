//! What a step is fed: a loader's next batch, or the order of rows.

use citius_cpu::{Batch, Flow, RowOrder, Slots};
use citius_data::{DataError, FieldMut, INPUT, Loader, Network, Order, TARGET};

/// Fills a step's inputs from a loader.
pub struct Filler<'a>(pub &'a mut Loader);

impl Filler<'_> {
    /// The next batch, or leaves it to the threads that read it. Stops where there is none.
    pub fn fill(&mut self, slots: &mut Slots) -> Result<Flow, DataError> {
        let Some(mut fields) = fields(slots) else { return Ok(Flow::Stop) };
        Ok(match self.0.next_or_leave(&mut fields, || slots.leave())? {
            Some(_) => Flow::Continue,
            None => Flow::Stop,
        })
    }

    /// Has memory asked for the batch after.
    pub fn look_ahead(&mut self, slots: &mut Slots) {
        self.0.show_next(|table, width, rows| slots.will_read(table, width, rows));
    }
}

impl Batch for Filler<'_> {
    fn write(&self, slots: &mut Slots) {
        write_left(self.0, slots);
    }
}

/// Writes the batch that a loader has left.
pub(crate) fn write_left(loader: &Loader, slots: &mut Slots) {
    let written = fields(slots).map(|mut fields| loader.write_left(&mut fields));
    debug_assert!(matches!(written, Some(Ok(()))), "the same buffers were fit when it was left: {written:?}");
}

pub(crate) fn fields<'a>(slots: &mut Slots<'a>) -> Option<[FieldMut<'a>; 2]> {
    let x = slots.f32(INPUT).map(FieldMut::F32).or_else(|| slots.u8(INPUT).map(FieldMut::U8));
    let x = x.or_else(|| slots.i32(INPUT).map(FieldMut::I32))?;
    let y = slots.f32(TARGET).map(FieldMut::F32).or_else(|| slots.i32(TARGET).map(FieldMut::I32))?;
    Some([x, y])
}

/// The rows from this position of an order on, for a device that draws them itself.
pub fn row_order(order: &Order, position: u64) -> RowOrder {
    let Network { blocks, low_bits, rounds, keys } = order.network();
    RowOrder { start: position as u32, rows: order.len(), blocks, low_bits, rounds, keys }
}
