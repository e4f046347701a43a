use citius_graph::Tensor;

use super::same_shape;

/// Mean of `|p − t|`.
#[track_caller]
pub fn mae(prediction: &Tensor, target: &Tensor) -> Tensor {
    if !same_shape("mae", prediction, target) {
        return prediction.mean_all();
    }
    (prediction - target).abs().mean_all()
}
