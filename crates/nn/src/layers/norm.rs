//! What the normalising layers share.

use citius_graph::{Graph, Init, Tensor};

/// Mean and variance (divided by the number of elements) over some axes, which are kept with size 1.
pub(super) struct Moments {
    pub mean: Tensor,
    pub variance: Tensor,
}

/// `x − mean` and the moments of x over `axes`. Two passes: the mean of squares less the square of the mean loses all
/// digits where the mean is large.
#[track_caller]
pub(super) fn deviations(x: &Tensor, axes: &[usize]) -> (Tensor, Moments) {
    let mean = x.mean(axes, true);
    let deviation = x - &mean;
    let variance = deviation.square().mean(axes, true);
    (deviation, Moments { mean, variance })
}

/// `deviation / √(variance + eps)`
#[track_caller]
pub(super) fn scaled(deviation: &Tensor, variance: &Tensor, eps: f64) -> Tensor {
    deviation * (1.0 / (variance + eps).sqrt())
}

/// `x · weight + bias`, the parameters `{path}.weight` (1 at the start) and `{path}.bias` (0) seen with sizes `view`.
#[track_caller]
pub(super) fn affine(x: &Tensor, path: &str, dims: &[usize], view: &[usize], bias: bool) -> Tensor {
    let g: &Graph = x.graph();
    let y = x * g.parameter(&format!("{path}.weight"), dims, Init::Constant(1.0)).reshape(view);
    match bias {
        true => y + g.parameter(&format!("{path}.bias"), dims, Init::Zeros).reshape(view),
        false => y,
    }
}

/// The order of axes that puts channels last, `[n,c,h,w]` as `[n,h,w,c]`, and the one that puts them back.
pub(super) fn channels_last(rank: usize) -> (Vec<usize>, Vec<usize>) {
    let there = [0].into_iter().chain(2..rank).chain([1]).collect();
    let back = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    (there, back)
}

/// `256`, or `[4,5]` for several axes.
pub(super) fn sizes(dims: &[usize]) -> String {
    match dims {
        [one] => one.to_string(),
        _ => citius_graph::Shape::new(dims).to_string(),
    }
}
