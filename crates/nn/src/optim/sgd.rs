use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::{Optimizer, Update};

/// `p' = p − rate·g`, with momentum `b' = momentum·b + (1−dampening)·g` in place of g, or `g + momentum·b'` for Nesterov's.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sgd {
    pub momentum: f64,
    pub dampening: f64,
    pub nesterov: bool,
    pub weight_decay: f64,
    /// Climbs instead: for what is to become large. A loss is to become small.
    #[serde(skip_serializing_if = "super::is_false")]
    pub maximize: bool,
}

impl Optimizer for Sgd {
    #[track_caller]
    fn update(&self, u: &Update) -> Tensor {
        let mut g = u.downhill(self.maximize);
        if self.weight_decay != 0.0 {
            g = g + u.parameter * self.weight_decay;
        }
        if self.momentum != 0.0 {
            let buffer = u.state("momentum_buffer");
            let mut next = &buffer * self.momentum + &g * (1.0 - self.dampening);
            if self.dampening != 0.0 {
                // the first gradient enters undampened; without dampening the zero buffer gives that by itself
                let first = u.count.le(&u.count.constant(1.0));
                next = first.choose(&g, &next);
            }
            let next = u.keep(&buffer, &next);
            g = if self.nesterov { g + next * self.momentum } else { next };
        }
        u.parameter - u.rate * g
    }
}
