use citius_graph::{Init, Mode, Tensor};

/// Keeps, per unit, the largest value `h` `[…,width]` has had: state `probe.active.{path}` `[width]`, 0 at the start. Units still
/// at 0 after an epoch were never active. Records nothing in eval mode.
#[track_caller]
pub fn active_units(h: &Tensor, path: &str) {
    let g = h.graph();
    let (Mode::Train, Some(&width)) = (g.mode(), h.dims().last()) else { return };
    if h.elements() == 0 {
        return;
    }
    let largest = g.state(&format!("probe.active.{path}"), &[width], Init::Zeros);
    let batch: Vec<usize> = (0..h.rank() - 1).collect();
    g.assign(&largest, &largest.maximum(&h.max(&batch, false)));
}
