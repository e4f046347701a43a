use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::{Optimizer, Update};

/// `v' = α·v + (1−α)·g²`, `p' = p − rate·g/(√v' + eps)`; centered: `√(v' − m'²)` with m' the running mean of g.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RmsProp {
    pub alpha: f64,
    pub eps: f64,
    pub momentum: f64,
    pub centered: bool,
    pub weight_decay: f64,
    /// Climbs instead: for what is to become large. A loss is to become small.
    #[serde(skip_serializing_if = "super::is_false")]
    pub maximize: bool,
}

impl Default for RmsProp {
    fn default() -> Self {
        RmsProp { alpha: 0.99, eps: 1e-8, momentum: 0.0, centered: false, weight_decay: 0.0, maximize: false }
    }
}

impl Optimizer for RmsProp {
    #[track_caller]
    fn update(&self, u: &Update) -> Tensor {
        let mut g = u.downhill(self.maximize);
        if self.weight_decay != 0.0 {
            g = g + u.parameter * self.weight_decay;
        }
        let v = u.state("square_avg");
        let v = u.keep(&v, &(&v * self.alpha + g.square() * (1.0 - self.alpha)));
        let spread = match self.centered {
            false => v.sqrt(),
            true => {
                let m = u.state("grad_avg");
                let m = u.keep(&m, &(&m + (&g - &m) * (1.0 - self.alpha)));
                // rounding may bring a variance of 0 below it
                (v - m.square()).maximum(&g.constant(0.0)).sqrt()
            }
        };
        let mut step = g / (spread + self.eps);
        if self.momentum != 0.0 {
            let buffer = u.state("momentum_buffer");
            step = u.keep(&buffer, &(&buffer * self.momentum + step));
        }
        u.parameter - u.rate * step
    }
}
