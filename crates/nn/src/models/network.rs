use std::fmt;

use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::{LeNet, mlp};
use crate::{Activation, ByName, Module};

/// What one row of a batch is, laid out one element after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowShape {
    /// Numbers that have no neighbours.
    Flat { width: usize },
    /// `[channels,height,width]`
    Picture { channels: usize, height: usize, width: usize },
    /// `[length,features]`
    Series { length: usize, features: usize },
}

impl RowShape {
    pub fn elements(self) -> usize {
        match self {
            RowShape::Flat { width } => width,
            RowShape::Picture { channels, height, width } => channels * height * width,
            RowShape::Series { length, features } => length * features,
        }
    }
}

impl fmt::Display for RowShape {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            RowShape::Flat { width } => write!(f, "{width} numbers"),
            RowShape::Picture { channels, height, width } => write!(f, "pictures {channels}×{height}×{width}"),
            RowShape::Series { length, features } => write!(f, "{length} steps of {features} numbers"),
        }
    }
}

/// A network by name, with its sizes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Network {
    /// Linear layers of the sizes in `hidden`.
    #[default]
    Mlp,
    /// Two convolutions and two linear layers, for small pictures.
    Lenet {
        #[serde(default = "lenet_channels")]
        channels: [usize; 2],
        #[serde(default = "lenet_hidden")]
        hidden: usize,
    },
}

fn lenet_channels() -> [usize; 2] {
    [16, 32]
}

fn lenet_hidden() -> usize {
    128
}

impl ByName for Network {}

/// What a network is built for.
#[derive(Clone, Debug)]
pub struct Frame {
    pub row: RowShape,
    pub outputs: usize,
    /// Of an mlp.
    pub hidden: Vec<usize>,
    pub activation: Activation,
    pub dropout: f64,
    /// Keep wide layers in one piece: see [`super::Mlp::whole`].
    pub whole: bool,
}

impl Network {
    /// The network for rows `[n,elements]`. `Err` says what does not fit.
    pub fn build(&self, frame: &Frame) -> Result<Box<dyn Module>, String> {
        let Frame { row, outputs, dropout, .. } = *frame;
        match (self, row) {
            (Network::Mlp, row) => {
                let sizes = [&[row.elements()], &frame.hidden[..], &[outputs]].concat();
                let net = mlp(&sizes, frame.activation, dropout);
                Ok(Box::new(if frame.whole { net.whole() } else { net }))
            }
            (Network::Lenet { channels, hidden }, RowShape::Picture { channels: inputs, height, width }) => {
                let net =
                    LeNet { inputs, size: [height, width], channels: *channels, hidden: *hidden, outputs, dropout };
                Ok(Box::new(OnPictures { dims: [inputs, height, width], net }))
            }
            (Network::Lenet { .. }, row) => Err(format!("{} needs pictures, rows are {row}", self.name())),
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Network::Mlp => "mlp",
            Network::Lenet { .. } => "lenet",
        }
    }
}

/// Takes rows `[n,c·h·w]` as pictures `[n,c,h,w]`.
struct OnPictures<M> {
    dims: [usize; 3],
    net: M,
}

impl<M: Module> Module for OnPictures<M> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        let [channels, height, width] = self.dims;
        self.net.forward(&x.reshape(&[x.dims()[0], channels, height, width]))
    }

    fn describe(&self) -> String {
        self.net.describe()
    }
}
