use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::{Optimizer, Update, one_minus_power};

/// `m' = m + (1−β₁)(g − m)`, `v' = β₂v + (1−β₂)g²`, `p' = p − rate/(1−β₁ᵗ) · m'/(√v'/√(1−β₂ᵗ) + eps)`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adam {
    pub betas: (f64, f64),
    pub eps: f64,
    /// Added to the gradient; for decay of its own, [`super::AdamW`].
    pub weight_decay: f64,
    /// Climbs instead: for what is to become large. A loss is to become small.
    #[serde(skip_serializing_if = "super::is_false")]
    pub maximize: bool,
}

impl Default for Adam {
    fn default() -> Self {
        Adam { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0, maximize: false }
    }
}

impl Optimizer for Adam {
    #[track_caller]
    fn update(&self, u: &Update) -> Tensor {
        let mut g = u.downhill(self.maximize);
        if self.weight_decay != 0.0 {
            g = g + u.parameter * self.weight_decay;
        }
        u.parameter - step(u, &g, self.betas, self.eps)
    }
}

/// What Adam subtracts from the parameter. All that is the same for every element is done on scalars.
#[track_caller]
pub(super) fn step(u: &Update, g: &Tensor, betas: (f64, f64), eps: f64) -> Tensor {
    let size = u.rate / one_minus_power(betas.0, u.count);
    let unbias = 1.0 / one_minus_power(betas.1, u.count).sqrt();
    let (m, v) = (u.state("exp_avg"), u.state("exp_avg_sq"));
    let m = u.keep(&m, &(&m + (g - &m) * (1.0 - betas.0)));
    let v = u.keep(&v, &(&v * betas.1 + g.square() * (1.0 - betas.1)));
    size * m / (v.sqrt() * unbias + eps)
}
