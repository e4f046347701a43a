//! A batch that a GPU has no room for is taken in pieces, as `accumulate` does it: the gradients of the micro-batches of a batch add up
//! to those of the whole. Where the batch does not divide the rows, an update at the end of an epoch takes rows of the next.

use citius_cuda::{Device as Gpu, Options, bytes_needed};

use crate::step::{Arrival, plan_step};
use crate::{Choice, Device, Material, Settings, TrainError};

/// Share of the free memory that a run may plan with: the step of the last batch and other programs want some too.
const SHARE: f64 = 0.9;

/// The settings with a batch in as few equal pieces as fit, and a line that says so; `None` where the whole batch fits.
pub(crate) fn in_pieces(
    settings: &Settings,
    material: &Material,
    gpu: &Gpu,
    options: Options,
) -> Result<Option<(Settings, Choice)>, TrainError> {
    let form = material.form();
    let batch = settings.batch_size.clamp(1, form.rows.max(1));
    let model = settings.model_for(Device::Cuda(0), form.width, form.outputs())?;
    let resident = material.resident().is_some();
    let needed = |rows: usize| -> Result<usize, TrainError> {
        // pieces keep what they add up
        let settings = Settings { accumulate: settings.accumulate * (batch / rows), ..settings.clone() };
        let plan = plan_step(model.as_ref(), &settings, &form, Arrival::of(material), rows, 1)?;
        Ok(bytes_needed(&plan, gpu, &|name| resident && name != "rows", options))
    };
    let free = gpu.memory().0;
    let parts = pieces(batch, (free as f64 * SHARE) as usize, needed)?;
    if parts == 1 {
        return Ok(None);
    }
    let why = format!("the GPU has {} free, the whole batch needs {}", size(free), size(needed(batch)?));
    let value = format!("{batch} as {parts} micro-batches of {}", batch / parts);
    let smaller = Settings { batch_size: batch / parts, accumulate: settings.accumulate * parts, ..settings.clone() };
    Ok(Some((smaller, Choice::new("memory", value, why))))
}

/// Into how few equal pieces a batch has to be cut for a step of one to fit into `room` bytes.
fn pieces(batch: usize, room: usize, needed: impl Fn(usize) -> Result<usize, TrainError>) -> Result<usize, TrainError> {
    for parts in (1..=batch).filter(|parts| batch.is_multiple_of(*parts)) {
        if needed(batch / parts)? <= room {
            return Ok(parts);
        }
    }
    let least = size(needed(1)?);
    Err(TrainError::Setting(format!(
        "even one row at a time needs {least} on the GPU, {} are free: use a smaller network, --device cpu, or close \
         other programs on it",
        size(room)
    )))
}

fn size(bytes: usize) -> String {
    match bytes as f64 {
        b if b >= 1e9 => format!("{:.1} GB", b / 1e9),
        b => format!("{:.1} MB", b / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_cut_into_as_few_equal_pieces_as_fit() {
        // a model of 100 bytes, and 10 for each row
        let needed = |rows: usize| Ok(100 + 10 * rows);
        assert_eq!(pieces(64, 740, needed).unwrap(), 1);
        assert_eq!(pieces(64, 739, needed).unwrap(), 2);
        assert_eq!(pieces(64, 200, needed).unwrap(), 8);
        // 2 and 4 do not divide 15
        assert_eq!(pieces(15, 200, needed).unwrap(), 3);
        assert_eq!(pieces(7, 150, needed).unwrap(), 7);
        let error = pieces(7, 109, needed).unwrap_err().to_string();
        assert!(error.contains("even one row at a time"), "{error}");
    }
}
