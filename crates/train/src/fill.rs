//! A loader's next batch, into the inputs of the step that takes it.

use citius_cpu::{Flow, Slots};
use citius_data::{DataError, FieldMut, INPUT, Loader, TARGET};

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
