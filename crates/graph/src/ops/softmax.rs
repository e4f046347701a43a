//! Softmax, log-softmax and log-sum-exp over one axis, safe for large logits. Written as graph code: the planner fuses it.

use crate::Tensor;

impl Tensor {
    #[track_caller]
    pub fn softmax(&self, axis: usize) -> Tensor {
        let shifted = self - self.max(&[axis], true).detach();
        let e = shifted.exp();
        &e / e.sum(&[axis], true)
    }

    #[track_caller]
    pub fn log_softmax(&self, axis: usize) -> Tensor {
        let shifted = self - self.max(&[axis], true).detach();
        &shifted - shifted.exp().sum(&[axis], true).log()
    }

    /// `log Σ exp(x)` over `axis`, which is kept with size 1.
    #[track_caller]
    pub fn log_sum_exp(&self, axis: usize) -> Tensor {
        let largest = self.max(&[axis], true).detach();
        (self - &largest).exp().sum(&[axis], true).log() + largest
    }
}
