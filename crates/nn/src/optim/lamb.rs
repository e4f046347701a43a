use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::{Optimizer, Update, one_minus_power};

/// Adam's step with a length that follows the parameter's (You et al. 2019), for large batches: with Adam's moments,
/// `r = m̂/(√v̂ + eps) + weight_decay·p`, `p' = p − rate·‖p‖/‖r‖·r`; the quotient is 1 where either norm is 0.
///
/// The norms are those of the tensor as stored: a parameter kept in parts has a length for each.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lamb {
    pub betas: (f64, f64),
    pub eps: f64,
    pub weight_decay: f64,
    /// Climbs instead: for what is to become large. A loss is to become small.
    #[serde(skip_serializing_if = "super::is_false")]
    pub maximize: bool,
}

impl Default for Lamb {
    fn default() -> Self {
        Lamb { betas: (0.9, 0.999), eps: 1e-6, weight_decay: 1e-2, maximize: false }
    }
}

impl Optimizer for Lamb {
    #[track_caller]
    fn update(&self, u: &Update) -> Tensor {
        let (g, p, betas) = (&u.downhill(self.maximize), u.parameter, self.betas);
        let (m, v) = (u.state("exp_avg"), u.state("exp_avg_sq"));
        let m = u.keep(&m, &(&m + (g - &m) * (1.0 - betas.0)));
        let v = u.keep(&v, &(&v * betas.1 + g.square() * (1.0 - betas.1)));
        let unbias = (1.0 / one_minus_power(betas.0, u.count), 1.0 / one_minus_power(betas.1, u.count).sqrt());
        let mut r = m * unbias.0 / (v.sqrt() * unbias.1 + self.eps);
        if self.weight_decay != 0.0 {
            r = r + p * self.weight_decay;
        }
        let (long, step) = (p.square().sum_all().sqrt(), r.square().sum_all().sqrt());
        let both = long.gt(&p.constant(0.0)) * step.gt(&p.constant(0.0));
        let trust = both.choose(&(&long / both.choose(&step, &p.constant(1.0))), &p.constant(1.0));
        p - (u.rate * trust) * r
    }
}
