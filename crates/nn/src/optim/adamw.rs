use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::{Optimizer, Update, adam};

/// Adam with weight decay of its own: `p` is first scaled by `1 − rate·weight_decay`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamW {
    pub betas: (f64, f64),
    pub eps: f64,
    pub weight_decay: f64,
    /// Climbs instead: for what is to become large. A loss is to become small.
    #[serde(skip_serializing_if = "super::is_false")]
    pub maximize: bool,
}

impl Default for AdamW {
    fn default() -> Self {
        AdamW { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 1e-2, maximize: false }
    }
}

impl Optimizer for AdamW {
    #[track_caller]
    fn update(&self, u: &Update) -> Tensor {
        let shrink = 1.0 - u.rate * self.weight_decay;
        u.parameter * shrink - adam::step(u, &u.downhill(self.maximize), self.betas, self.eps)
    }
}
