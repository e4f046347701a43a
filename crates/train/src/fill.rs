//! What a step is fed: a loader's next batch, or the order of rows.

use citius_cpu::{Flow, RowOrder, Slots};
use citius_data::{DataError, FieldMut, INPUT, Loader, Network, Order, TARGET};

/// Stops where the loader has no further batch.
pub fn fill_from(loader: &mut Loader, slots: &mut Slots) -> Result<Flow, DataError> {
    let x = slots.f32(INPUT).map(FieldMut::F32).or_else(|| slots.u8(INPUT).map(FieldMut::U8));
    let y = slots.f32(TARGET).map(FieldMut::F32).or_else(|| slots.i32(TARGET).map(FieldMut::I32));
    let (Some(x), Some(y)) = (x, y) else { return Ok(Flow::Stop) };
    Ok(match loader.next_into(&mut [x, y])? {
        Some(_) => Flow::Continue,
        None => Flow::Stop,
    })
}

/// The rows from this position of an order on, for a device that draws them itself.
pub fn row_order(order: &Order, position: u64) -> RowOrder {
    let Network { blocks, low_bits, rounds, keys } = order.network();
    RowOrder { start: position as u32, rows: order.len(), blocks, low_bits, rounds, keys }
}
