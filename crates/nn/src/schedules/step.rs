use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::{Schedule, power};

/// `base · gamma^⌊t/step_size⌋`
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    pub step_size: usize,
    pub gamma: f64,
}

impl Default for Step {
    fn default() -> Self {
        Step { step_size: 1000, gamma: 0.1 }
    }
}

impl Schedule for Step {
    #[track_caller]
    fn rate(&self, base: f64, t: &Tensor) -> Tensor {
        // ½ more: no rounding of the quotient can cross a whole number
        let drops = ((t + 0.5) / self.step_size.max(1) as f64).floor();
        power("step schedule", self.gamma, &drops) * base
    }
}
