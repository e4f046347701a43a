use citius_graph::Tensor;

use super::same_shape;

/// Mean of `½d²` where `|d| < delta`, `delta·(|d| − ½delta)` beyond, with `d = p − t`.
#[track_caller]
pub fn huber(prediction: &Tensor, target: &Tensor, delta: f64) -> Tensor {
    if delta.is_nan() || delta <= 0.0 {
        prediction.graph().report("huber", format!("delta is {delta}, must be above 0"));
    } else if same_shape("huber", prediction, target) {
        // q = d brought into ±delta: q·(d − ½q) is both branches
        let d = prediction - target;
        let q = d.clamp(-delta, delta);
        return (&q * (d - &q * 0.5)).mean_all();
    }
    prediction.mean_all()
}
