use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::{Optimizer, Update};

/// `p' = p·(1 − rate·weight_decay) − rate·sign(β₁m + (1−β₁)g)`, `m' = β₂m + (1−β₂)g` (Chen et al. 2023). Every element
/// moves by the rate, so it wants about a tenth of Adam's.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lion {
    pub betas: (f64, f64),
    pub weight_decay: f64,
    /// Climbs instead: for what is to become large. A loss is to become small.
    #[serde(skip_serializing_if = "super::is_false")]
    pub maximize: bool,
}

impl Default for Lion {
    fn default() -> Self {
        Lion { betas: (0.9, 0.99), weight_decay: 0.0, maximize: false }
    }
}

impl Optimizer for Lion {
    #[track_caller]
    fn update(&self, u: &Update) -> Tensor {
        let (m, zero) = (u.state("exp_avg"), u.parameter.constant(0.0));
        let gradient = &u.downhill(self.maximize);
        let direction = &m * self.betas.0 + gradient * (1.0 - self.betas.0);
        u.keep(&m, &(&m * self.betas.1 + gradient * (1.0 - self.betas.1)));
        let sign = direction.gt(&zero) - direction.lt(&zero);
        let kept = match self.weight_decay {
            0.0 => u.parameter.clone(),
            decay => u.parameter * (1.0 - u.rate * decay),
        };
        kept - u.rate * sign
    }
}
