use citius_graph::{Init, Tensor};

/// Keeps, for each unit, the largest gradient its bias has had: state `probe.awake.{bias}`, 0 at the start. A unit still at 0
/// after an epoch learned nothing from any row: a relu that is never active, or an output nobody reads. One comparison inside
/// the bias's own update, so it costs nothing to always have.
#[track_caller]
pub fn awake_units(bias: &str, gradient: &Tensor) {
    let g = gradient.graph();
    let named = |bias: &str| format!("probe.awake.{bias}");
    let largest = g.state_of(bias, &gradient.dims(), Init::Zeros, named);
    g.assign(&largest, &largest.maximum(&gradient.abs()));
}
