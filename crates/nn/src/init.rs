use citius_graph::Init;
use serde::{Deserialize, Serialize};

use crate::{Activation, ByName};

/// How a weight matrix starts. Formulas are PyTorch's.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum WeightInit {
    /// As PyTorch's `Linear`: weight and bias uniform within ±1/√fan_in.
    #[default]
    Default,
    /// Uniform within ±gain·√(3/fan_in).
    KaimingUniform {
        #[serde(default)]
        nonlinearity: Activation,
    },
    /// Standard deviation gain/√fan_in.
    KaimingNormal {
        #[serde(default)]
        nonlinearity: Activation,
    },
    /// Uniform within ±√(6/(fan_in+fan_out)).
    XavierUniform,
    /// Standard deviation √(2/(fan_in+fan_out)).
    XavierNormal,
    Normal {
        #[serde(default)]
        mean: f64,
        #[serde(default = "one")]
        std: f64,
    },
    Uniform {
        #[serde(default)]
        low: f64,
        #[serde(default = "one")]
        high: f64,
    },
    Constant {
        value: f64,
    },
    Zeros,
}

impl ByName for WeightInit {
    fn by_name(name: &str) -> Result<WeightInit, String> {
        crate::config::from_name(name)
    }

    fn is_its_name(&self) -> Option<&'static str> {
        use WeightInit::*;
        let none = matches!(self, Default | XavierUniform | XavierNormal | Zeros);
        none.then_some("this init has none; normal has `mean` and `std`, uniform `low` and `high`")
    }
}

impl WeightInit {
    /// Numbers that weights can start from, or why not.
    pub fn check(self) -> Result<(), String> {
        let finite = |what: &str, value: f64| match value.is_finite() {
            true => Ok(()),
            false => Err(format!("the {what} of init is {value}, it must be a number")),
        };
        match self {
            WeightInit::Normal { mean, std } => {
                finite("mean", mean)?;
                match std.is_finite() && std >= 0.0 {
                    true => Ok(()),
                    false => Err(format!("the std of init is {std}, it must be a number of at least 0")),
                }
            }
            WeightInit::Uniform { low, high } => {
                finite("low", low)?;
                finite("high", high)?;
                match low <= high {
                    true => Ok(()),
                    false => Err(format!("init goes from low = {low} to high = {high}, low must be the smaller one")),
                }
            }
            WeightInit::Constant { value } => finite("value", value),
            WeightInit::Default
            | WeightInit::KaimingUniform { .. }
            | WeightInit::KaimingNormal { .. }
            | WeightInit::XavierUniform
            | WeightInit::XavierNormal
            | WeightInit::Zeros => Ok(()),
        }
    }

    pub fn weight(self, fan_in: usize, fan_out: usize) -> Init {
        // a layer without inputs has nothing to scale by
        let (fan_in, fan_out) = (fan_in.max(1) as f64, fan_out.max(1) as f64);
        match self {
            WeightInit::Default => within(1.0 / fan_in.sqrt()),
            WeightInit::KaimingUniform { nonlinearity } => within(gain(nonlinearity) * (3.0 / fan_in).sqrt()),
            WeightInit::KaimingNormal { nonlinearity } => normal(0.0, gain(nonlinearity) / fan_in.sqrt()),
            WeightInit::XavierUniform => within((6.0 / (fan_in + fan_out)).sqrt()),
            WeightInit::XavierNormal => normal(0.0, (2.0 / (fan_in + fan_out)).sqrt()),
            WeightInit::Normal { mean, std } => normal(mean, std),
            WeightInit::Uniform { low, high } => Init::Uniform { low: low as f32, high: high as f32 },
            WeightInit::Constant { value } => Init::Constant(value as f32),
            WeightInit::Zeros => Init::Zeros,
        }
    }

    /// ±1/√fan_in beside PyTorch's default weight, 0 beside any other.
    pub fn bias(self, fan_in: usize) -> Init {
        match self {
            WeightInit::Default => within(1.0 / (fan_in.max(1) as f64).sqrt()),
            _ => Init::Zeros,
        }
    }
}

/// What keeps the scale of the signal through a nonlinearity: PyTorch's `calculate_gain`, and √2 for relu's smooth relatives.
pub fn gain(nonlinearity: Activation) -> f64 {
    match nonlinearity {
        Activation::Identity | Activation::Sigmoid => 1.0,
        Activation::Tanh => 5.0 / 3.0,
        Activation::LeakyRelu => (2.0 / (1.0 + 0.01f64 * 0.01)).sqrt(),
        Activation::Relu | Activation::Elu | Activation::Gelu | Activation::GeluTanh => 2f64.sqrt(),
        Activation::Silu | Activation::Softplus => 2f64.sqrt(),
    }
}

fn within(bound: f64) -> Init {
    Init::Uniform { low: -bound as f32, high: bound as f32 }
}

fn normal(mean: f64, std: f64) -> Init {
    Init::Normal { mean: mean as f32, std: std as f32 }
}

fn one() -> f64 {
    1.0
}
