use std::fmt;

use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use crate::Module;

/// A nonlinearity, element by element, with PyTorch's default settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    #[default]
    Relu,
    /// Slope 0.01 below 0.
    LeakyRelu,
    Elu,
    Gelu,
    GeluTanh,
    Silu,
    Sigmoid,
    Tanh,
    Softplus,
    Identity,
}

impl Activation {
    pub const ALL: [Activation; 10] = [
        Activation::Relu,
        Activation::LeakyRelu,
        Activation::Elu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Silu,
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Softplus,
        Activation::Identity,
    ];

    /// The name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Relu => "relu",
            Activation::LeakyRelu => "leaky-relu",
            Activation::Elu => "elu",
            Activation::Gelu => "gelu",
            Activation::GeluTanh => "gelu-tanh",
            Activation::Silu => "silu",
            Activation::Sigmoid => "sigmoid",
            Activation::Tanh => "tanh",
            Activation::Softplus => "softplus",
            Activation::Identity => "identity",
        }
    }

    /// `Err` lists the names there are.
    pub fn by_name(name: &str) -> Result<Activation, String> {
        Activation::ALL.into_iter().find(|a| a.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Activation::ALL.iter().map(|a| a.name()).collect();
            format!("no activation \"{name}\"; there are {}", names.join(", "))
        })
    }
}

impl Module for Activation {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            Activation::Relu => x.relu(),
            Activation::LeakyRelu => x.leaky_relu(0.01),
            Activation::Elu => x.elu(1.0),
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Silu => x.silu(),
            Activation::Sigmoid => x.sigmoid(),
            Activation::Tanh => x.tanh(),
            Activation::Softplus => x.softplus(),
            Activation::Identity => x.clone(),
        }
    }

    fn describe(&self) -> String {
        self.name().to_string()
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_serde() {
        for a in Activation::ALL {
            assert_eq!(serde_json::to_string(&a).unwrap(), format!("\"{a}\""));
            assert_eq!(Activation::by_name(a.name()), Ok(a));
        }
        assert!(Activation::by_name("swish").unwrap_err().contains("silu"));
    }
}
