use citius_graph::Tensor;

use super::same_shape;

/// Mean of `(p − t)²`.
#[track_caller]
pub fn mse(prediction: &Tensor, target: &Tensor) -> Tensor {
    if !same_shape("mse", prediction, target) {
        return prediction.mean_all();
    }
    (prediction - target).square().mean_all()
}
