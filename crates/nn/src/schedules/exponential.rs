use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::{Schedule, power};

/// `base · gammaᵗ`
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Exponential {
    pub gamma: f64,
}

impl Default for Exponential {
    fn default() -> Self {
        Exponential { gamma: 0.999 }
    }
}

impl Schedule for Exponential {
    #[track_caller]
    fn rate(&self, base: f64, t: &Tensor) -> Tensor {
        power("exponential schedule", self.gamma, t) * base
    }
}
