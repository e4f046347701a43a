use citius_graph::Tensor;

use super::{same_shape, vector};

/// Binary cross-entropy of logits x and targets y: mean of `−[w·y·log σ(x) + (1−y)·log(1−σ(x))]`, never through σ itself.
/// `pos_weight` is w, one number or one per output (the last axis).
#[track_caller]
pub fn bce_with_logits(logits: &Tensor, targets: &Tensor, pos_weight: Option<&[f64]>) -> Tensor {
    if !same_shape("bce", logits, targets) {
        return logits.mean_all();
    }
    let Some(weight) = pos_weight else {
        // log(1 + eˣ) − x·y
        return (logits.softplus() - logits * targets).mean_all();
    };
    let outputs = logits.dims().last().copied().unwrap_or(1);
    let g = logits.graph();
    let weight = match weight.len() {
        1 => g.scalar(weight[0]),
        n if n == outputs => vector(g, weight),
        n => {
            g.report("bce", format!("{n} positive weights for {outputs} outputs of {}", logits.shape()));
            return logits.mean_all();
        }
    };
    // (1−y)·x + (1 + (w−1)·y)·log(1 + e⁻ˣ)
    let scale = targets * (weight - 1.0) + 1.0;
    ((1.0 - targets) * logits + scale * (-logits).softplus()).mean_all()
}
