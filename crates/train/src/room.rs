//! A step that there is no room for computes values again on the way back instead of keeping them; where that is not enough, the batch is
//! taken in pieces, as `accumulate` does it: the gradients of the micro-batches of a batch add up to those of the whole. Where the batch
//! does not divide the rows, an update at the end of an epoch takes rows of the next.

use citius_cuda::{Device as Gpu, Options, bytes_needed};
use citius_data::{byte_size, memory};
use citius_graph::{Graph, Mode};
use citius_plan::Plan;

use crate::step::{Arrival, plan_step};
use crate::{Choice, Device, Material, Settings, TrainError};

/// Share of the free memory that a run may plan with: the step of the last batch and other programs want some too.
const SHARE: f64 = 0.9;

/// What a person has said about the memory of a step.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked {
    /// For what a step computes.
    pub limit: Option<u64>,
    /// Whether values are computed again; as memory demands when open.
    pub recompute: Option<bool>,
}

/// The settings as they fit, and a line that says what had to change; `None` where nothing has.
pub(crate) fn in_room(
    settings: &Settings,
    material: &Material,
    gpu: Option<(&Gpu, Options)>,
    asked: Asked,
) -> Result<Option<(Settings, Choice)>, TrainError> {
    let limit = asked.limit.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let (free, whose, device) = match gpu {
        Some((gpu, _)) => (gpu.memory().0, "the GPU has", Device::Cuda(0)),
        None => {
            let free = memory::available().map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
            if limit.is_none() && !is_large(settings, material, free)? {
                return Ok(None);
            }
            (free, "this machine has", Device::Cpu)
        }
    };
    let (room, whose) = match limit.filter(|limit| (*limit as f64) < free as f64 * SHARE) {
        Some(limit) => (limit, "a step may take"),
        None => ((free as f64 * SHARE) as usize, whose),
    };
    let form = material.form();
    let batch = settings.batch_size.clamp(1, form.rows.max(1));
    let model = settings.model_for(device, form.width, form.outputs())?;
    let resident = material.resident().is_some();
    let bytes = |plan: &Plan| match gpu {
        Some((gpu, options)) => bytes_needed(plan, gpu, &|name| resident && name != "rows", options),
        None => plan.scratch_bytes,
    };
    let needed = |settings: &Settings, rows: usize| -> Result<usize, TrainError> {
        // pieces keep what they add up
        let settings = Settings { accumulate: settings.accumulate * (batch / rows), ..settings.clone() };
        Ok(bytes(&plan_step(model.as_ref(), &settings, &form, Arrival::of(material), rows, 1)?))
    };
    let whole = needed(settings, batch)?;
    if whole <= room {
        return Ok(None);
    }
    let mut fitted = settings.clone();
    let mut value = Vec::new();
    if asked.recompute.is_none() {
        let again = Settings { recompute: true, ..settings.clone() };
        let less = needed(&again, batch)?;
        if less < whole {
            fitted = again;
            value.push(format!(
                "blocks are computed again on the way back, {} in place of {}",
                byte_size(less as u64),
                byte_size(whole as u64)
            ));
        }
    }
    let parts = pieces(batch, room, |rows| needed(&fitted, rows))?;
    if parts > 1 {
        value.push(format!("{batch} as {parts} micro-batches of {}", batch / parts));
        (fitted.batch_size, fitted.accumulate) = (batch / parts, settings.accumulate * parts);
    }
    let why = format!(
        "{whose} {}{}, the whole batch needs {}",
        byte_size(room as u64),
        if limit == Some(room) { "" } else { " to spare" },
        byte_size(whole as u64)
    );
    Ok(Some((fitted, Choice::new("memory", value.join("; "), why))))
}

/// Whether a step might need more than half of the free memory, by the values of one row: cheaper than a plan.
fn is_large(settings: &Settings, material: &Material, free: usize) -> Result<bool, TrainError> {
    let form = material.form();
    let model = settings.model_for(Device::Cpu, form.width, form.outputs())?;
    let g = Graph::with_mode(Mode::Eval);
    model.forward(&settings.row_of(form.width).input(&g, 2)); // one row alone has no variance
    let values: u128 = g.nodes().iter().map(|node| node.shape.elements() as u128).sum();
    Ok(values * 2 * settings.batch_size.min(form.rows) as u128 > free as u128 / 2)
}

/// Into how few equal pieces a batch has to be cut for a step of one to fit into `room` bytes.
fn pieces(batch: usize, room: usize, needed: impl Fn(usize) -> Result<usize, TrainError>) -> Result<usize, TrainError> {
    for parts in (1..=batch).filter(|parts| batch.is_multiple_of(*parts)) {
        if needed(batch / parts)? <= room {
            return Ok(parts);
        }
    }
    let least = byte_size(needed(1)? as u64);
    Err(TrainError::Setting(format!(
        "even one row at a time needs {least}, there are {}: use a smaller network, another --device, or close other programs",
        byte_size(room as u64)
    )))
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
