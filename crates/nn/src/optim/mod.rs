//! Optimisers, one file each, with PyTorch's formulas and defaults, or those of the paper where PyTorch has none.

mod adam;
mod adamw;
mod lamb;
mod lion;
mod muon;
mod rmsprop;
mod sgd;

use citius_graph::{Graph, Init, Tensor};
use serde::{Deserialize, Serialize};

pub use adam::Adam;
pub use adamw::AdamW;
pub use lamb::Lamb;
pub use lion::Lion;
pub use muon::{Muon, MuonSize};
pub use rmsprop::RmsProp;
pub use sgd::Sgd;

use crate::ByName;
use crate::config::from_name;

/// Turns a gradient into a new value of the parameter, as graph code.
pub trait Optimizer {
    /// The parameter after this update. What is remembered goes through [`Update::state`] and [`Update::keep`].
    #[track_caller]
    fn update(&self, u: &Update) -> Tensor;
}

/// One parameter at one update.
pub struct Update<'a> {
    pub name: &'a str,
    /// As stored, with the shape of `gradient`.
    pub parameter: &'a Tensor,
    pub gradient: &'a Tensor,
    /// Learning rate, a scalar.
    pub rate: &'a Tensor,
    /// Number of this update, 1 for the first, a scalar.
    pub count: &'a Tensor,
    /// While gradients accumulate: 1 in the steps that update, 0 in the others.
    pub(crate) applies: Option<&'a Tensor>,
}

impl Update<'_> {
    pub fn graph(&self) -> &Graph {
        self.parameter.graph()
    }

    /// The gradient, turned round where what is trained is to become large.
    #[track_caller]
    pub fn downhill(&self, maximize: bool) -> Tensor {
        if maximize { -self.gradient } else { self.gradient.clone() }
    }

    /// Something remembered for each element of the parameter, 0 at the start, saved as `{parameter}.{name}`.
    #[track_caller]
    pub fn state(&self, name: &str) -> Tensor {
        let named = |parameter: &str| format!("{parameter}.{name}");
        self.graph().state_of(self.name, &self.parameter.dims(), Init::Zeros, named)
    }

    /// `state` becomes `value` when this update happens; returns `value`.
    #[track_caller]
    pub fn keep(&self, state: &Tensor, value: &Tensor) -> Tensor {
        match self.applies {
            Some(applies) => self.graph().assign(state, &applies.choose(value, state)),
            None => self.graph().assign(state, value),
        }
        value.clone()
    }
}

/// An optimiser by name with its settings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum OptimizerConfig {
    Sgd(Sgd),
    RmsProp(RmsProp),
    Adam(Adam),
    AdamW(AdamW),
    Lamb(Lamb),
    Lion(Lion),
    Muon(Muon),
}

impl ByName for OptimizerConfig {
    /// `momentum` and `nesterov` are SGD with a momentum of 0.9.
    fn by_name(name: &str) -> Result<Self, String> {
        match name {
            "momentum" => Ok(OptimizerConfig::Sgd(Sgd { momentum: 0.9, ..Sgd::default() })),
            "nesterov" => Ok(OptimizerConfig::Sgd(Sgd { momentum: 0.9, nesterov: true, ..Sgd::default() })),
            _ => from_name(name).map_err(|error: String| error.replacen("`sgd`", "`sgd`, `momentum`, `nesterov`", 1)),
        }
    }
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        OptimizerConfig::Adam(Adam::default())
    }
}

impl OptimizerConfig {
    pub fn name(&self) -> &'static str {
        match self {
            OptimizerConfig::Sgd(_) => "sgd",
            OptimizerConfig::RmsProp(_) => "rmsprop",
            OptimizerConfig::Adam(_) => "adam",
            OptimizerConfig::AdamW(_) => "adamw",
            OptimizerConfig::Lamb(_) => "lamb",
            OptimizerConfig::Lion(_) => "lion",
            OptimizerConfig::Muon(_) => "muon",
        }
    }

    /// PyTorch's default learning rate, or that of the paper.
    pub fn default_rate(&self) -> f64 {
        match self {
            OptimizerConfig::RmsProp(_) => 1e-2,
            OptimizerConfig::Lion(_) => 1e-4,
            OptimizerConfig::Sgd(_) | OptimizerConfig::Adam(_) | OptimizerConfig::AdamW(_) => 1e-3,
            OptimizerConfig::Lamb(_) | OptimizerConfig::Muon(_) => 1e-3,
        }
    }
}

impl OptimizerConfig {
    /// Whether it climbs.
    pub fn maximize(&self) -> bool {
        match self {
            OptimizerConfig::Sgd(o) => o.maximize,
            OptimizerConfig::RmsProp(o) => o.maximize,
            OptimizerConfig::Adam(o) => o.maximize,
            OptimizerConfig::AdamW(o) => o.maximize,
            OptimizerConfig::Lamb(o) => o.maximize,
            OptimizerConfig::Lion(o) => o.maximize,
            OptimizerConfig::Muon(o) => o.maximize,
        }
    }

    /// `Err` names the first field that no run can mean, and what to write.
    pub fn check(&self) -> Result<(), String> {
        let share = |what: &str, value: f64| match (0.0..1.0).contains(&value) {
            true => Ok(()),
            false => Err(format!("the optimizer's {what} is {value}, it must be at least 0 and below 1, such as 0.9")),
        };
        let both = |betas: (f64, f64)| share("first beta", betas.0).and(share("second beta", betas.1));
        let small = |eps: f64| match eps.is_finite() && eps >= 0.0 {
            true => Ok(()),
            false => Err(format!("the optimizer's eps is {eps}, it must be a number of at least 0, such as 1e-8")),
        };
        match self {
            // as PyTorch refuses it
            OptimizerConfig::Sgd(o) if o.nesterov && (o.momentum == 0.0 || o.dampening != 0.0) => {
                Err("the optimizer's nesterov needs a momentum, such as 0.9, and no dampening".to_owned())
            }
            OptimizerConfig::Sgd(o) if o.dampening != 0.0 && o.momentum == 0.0 => {
                Err("the optimizer's dampening is of its momentum, which is 0; leave it out".to_owned())
            }
            OptimizerConfig::Sgd(o) => share("momentum", o.momentum).and(share("dampening", o.dampening)),
            OptimizerConfig::RmsProp(o) => share("momentum", o.momentum).and(share("alpha", o.alpha)).and(small(o.eps)),
            OptimizerConfig::Adam(o) => both(o.betas).and(small(o.eps)),
            OptimizerConfig::AdamW(o) => both(o.betas).and(small(o.eps)),
            OptimizerConfig::Lamb(o) => both(o.betas).and(small(o.eps)),
            OptimizerConfig::Lion(o) => both(o.betas),
            OptimizerConfig::Muon(o) => share("momentum", o.momentum).and(small(o.eps)),
        }
    }
}

fn is_false(value: &bool) -> bool {
    !*value
}

impl Optimizer for OptimizerConfig {
    #[track_caller]
    fn update(&self, u: &Update) -> Tensor {
        match self {
            OptimizerConfig::Sgd(o) => o.update(u),
            OptimizerConfig::RmsProp(o) => o.update(u),
            OptimizerConfig::Adam(o) => o.update(u),
            OptimizerConfig::AdamW(o) => o.update(u),
            OptimizerConfig::Lamb(o) => o.update(u),
            OptimizerConfig::Lion(o) => o.update(u),
            OptimizerConfig::Muon(o) => o.update(u),
        }
    }
}

/// `1 − βᵗ` for a scalar t, accurate in f32: −expm1(y) with y = t·ln β, and expm1(y) = 2h/(1−h) with h = tanh(y/2).
#[track_caller]
fn one_minus_power(beta: f64, t: &Tensor) -> Tensor {
    let h = (t * (0.5 * beta.ln())).tanh();
    &h * 2.0 / (h - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bias_correction() {
        let g = Graph::new();
        for (beta, t) in [(0.9, 1.0), (0.999, 1.0), (0.999, 3.0), (0.999, 1e6), (0.0, 1.0)] {
            let value = one_minus_power(beta, &g.scalar(t)).as_constant().unwrap();
            assert!((value - (1.0 - f64::powf(beta, t))).abs() < 1e-14, "{beta}^{t}: {value}");
        }
    }
}
