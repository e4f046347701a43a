use citius_graph::{Graph, Tensor};
use serde::{Deserialize, Serialize};

use crate::{ByName, Module};

/// What the outputs of a network go through at its end. Most losses want `none`: cross-entropy and bce take logits, and a number to
/// predict has no bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Head {
    #[default]
    None,
    /// Nothing below 0.
    Relu,
    /// Above 0.
    Softplus,
    /// Between 0 and 1.
    Sigmoid,
    /// Between −1 and 1.
    Tanh,
    /// Shares that sum to 1 along an axis: 1 for the classes of a row, 0 for the rows of a batch, which is hardly ever meant.
    Softmax {
        #[serde(default = "classes")]
        axis: usize,
    },
    /// Their logarithms, as nll takes them.
    LogSoftmax {
        #[serde(default = "classes")]
        axis: usize,
    },
}

fn classes() -> usize {
    1
}

impl ByName for Head {
    fn by_name(name: &str) -> Result<Head, String> {
        crate::config::from_name(name)
    }
}

impl Head {
    pub const NAMES: &str = "none, relu, softplus, sigmoid, tanh, softmax or log-softmax";

    pub fn name(self) -> &'static str {
        match self {
            Head::None => "none",
            Head::Relu => "relu",
            Head::Softplus => "softplus",
            Head::Sigmoid => "sigmoid",
            Head::Tanh => "tanh",
            Head::Softmax { .. } => "softmax",
            Head::LogSoftmax { .. } => "log-softmax",
        }
    }

    /// `Err` says what to write.
    pub fn check(self) -> Result<(), String> {
        match self {
            Head::Softmax { axis } | Head::LogSoftmax { axis } if axis > 1 => {
                let name = self.name();
                Err(format!(
                    "{name} goes along axis 1, the classes of a row, or 0, the rows of a batch; not along {axis}"
                ))
            }
            _ => Ok(()),
        }
    }

    #[track_caller]
    pub fn apply(self, x: &Tensor) -> Tensor {
        if let Err(problem) = self.check() {
            x.graph().report("head", problem);
            return x.clone();
        }
        match self {
            Head::None => x.clone(),
            Head::Relu => x.relu(),
            Head::Softplus => x.softplus(),
            Head::Sigmoid => x.sigmoid(),
            Head::Tanh => x.tanh(),
            Head::Softmax { axis } => x.softmax(axis),
            Head::LogSoftmax { axis } => x.log_softmax(axis),
        }
    }
}

/// A network with a head.
pub(super) struct Headed {
    pub net: Box<dyn Module>,
    pub head: Head,
}

impl Module for Headed {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g: &Graph = x.graph();
        let _line = g.called_here();
        let y = self.net.forward(x);
        let _layer = g.scope(format!("head {}", self.head.name()));
        self.head.apply(&y)
    }

    fn describe(&self) -> String {
        format!("{} → {}", self.net.describe(), self.head.name())
    }
}
