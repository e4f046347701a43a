use std::fmt;

use citius_graph::{DType, Graph, Tensor};
use serde::{Deserialize, Serialize};

use super::embedded::Embedded;
use super::head::Headed;
use super::start::Started;
use super::{Depth, Gpt, Head, HiddenLayer, LeNet, Mlp, NLinear, ResNet, ResNet9, Stem, Vgg, Vit, forecaster, mlp};
use crate::{Activation, ByName, Cell, Module, WeightInit};

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
    /// Numbers of tokens, i32 `[length]`.
    Tokens { length: usize },
}

impl RowShape {
    /// The input `x` `[rows,elements]` of a graph.
    pub fn input(self, g: &Graph, rows: usize) -> Tensor {
        let dtype = if matches!(self, RowShape::Tokens { .. }) { DType::I32 } else { DType::F32 };
        g.input_of("x", &[rows, self.elements()], dtype)
    }

    pub fn elements(self) -> usize {
        match self {
            RowShape::Flat { width } => width,
            RowShape::Picture { channels, height, width } => channels.saturating_mul(height).saturating_mul(width),
            RowShape::Series { length, features } => length.saturating_mul(features),
            RowShape::Tokens { length } => length,
        }
    }
}

impl fmt::Display for RowShape {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            RowShape::Flat { width } => write!(f, "{width} numbers"),
            RowShape::Picture { channels, height, width } => write!(f, "pictures {channels}×{height}×{width}"),
            RowShape::Series { length, features } => write!(f, "{length} steps of {features} numbers"),
            RowShape::Tokens { length } => write!(f, "{length} tokens"),
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
    /// Stages of two 3×3 convolutions.
    Vgg {
        #[serde(default = "vgg_channels")]
        channels: Vec<usize>,
    },
    /// Residual networks of so many layers; the one of nine for small pictures.
    #[serde(rename = "resnet-9")]
    Resnet9 {
        #[serde(default = "resnet9_width")]
        width: usize,
    },
    #[serde(rename = "resnet-18")]
    Resnet18 {
        #[serde(default = "resnet_width")]
        width: usize,
    },
    #[serde(rename = "resnet-34")]
    Resnet34 {
        #[serde(default = "resnet_width")]
        width: usize,
    },
    #[serde(rename = "resnet-50")]
    Resnet50 {
        #[serde(default = "resnet_width")]
        width: usize,
    },
    /// A recurrent network, and a linear layer behind its last state.
    Gru {
        #[serde(default = "recurrent_hidden")]
        hidden: usize,
        #[serde(default = "recurrent_layers")]
        layers: usize,
    },
    Lstm {
        #[serde(default = "recurrent_hidden")]
        hidden: usize,
        #[serde(default = "recurrent_layers")]
        layers: usize,
    },
    /// What follows a series as a straight line of its past, measured from the last value.
    Nlinear,
    /// A transformer that says of each token of a text which comes next.
    Gpt {
        #[serde(default = "gpt_width")]
        width: usize,
        #[serde(default = "gpt_heads")]
        heads: usize,
        #[serde(default = "gpt_layers")]
        layers: usize,
    },
    /// A transformer over squares of a picture.
    Vit {
        #[serde(default = "vit_patch")]
        patch: usize,
        #[serde(default = "vit_width")]
        width: usize,
        #[serde(default = "vit_heads")]
        heads: usize,
        #[serde(default = "vit_layers")]
        layers: usize,
    },
}

fn lenet_channels() -> [usize; 2] {
    [16, 32]
}

fn lenet_hidden() -> usize {
    128
}

fn vgg_channels() -> Vec<usize> {
    vec![16, 32, 64]
}

fn resnet9_width() -> usize {
    32
}

fn resnet_width() -> usize {
    64
}

fn recurrent_hidden() -> usize {
    32
}

fn recurrent_layers() -> usize {
    1
}

fn gpt_width() -> usize {
    256
}

fn gpt_heads() -> usize {
    4
}

fn gpt_layers() -> usize {
    4
}

fn vit_patch() -> usize {
    4
}

fn vit_width() -> usize {
    128
}

fn vit_heads() -> usize {
    4
}

fn vit_layers() -> usize {
    4
}

/// Layers, or stages, that a network may have. Deeper ones than this have not been trained; a file that asks for a million is damaged.
pub const MOST_LAYERS: usize = 2000;

/// Sides from which a picture is large enough for a stem that leaves pixels out.
const LARGE_PICTURE: usize = 96;

impl ByName for Network {
    fn by_name(name: &str) -> Result<Network, String> {
        crate::config::from_name(name)
    }

    fn is_its_name(&self) -> Option<&'static str> {
        match self {
            Network::Mlp => {
                Some("the layers of an mlp are `hidden` beside `model`, as in hidden = [64, 32], or `layers`")
            }
            Network::Nlinear => Some("nlinear has none; its sizes are those of the data"),
            _ => None,
        }
    }
}

/// What a network is built for.
#[derive(Clone, Debug)]
pub struct Frame {
    pub row: RowShape,
    pub outputs: usize,
    /// Of an mlp.
    pub hidden: Vec<usize>,
    pub activation: Activation,
    pub dropout: f64,
    /// Of an mlp whose layers differ, instead of `hidden`.
    pub layers: Vec<HiddenLayer>,
    /// How weights start; each layer's own way where it is the default.
    pub init: WeightInit,
    /// The same for those that a pattern covers; the first that does counts.
    pub inits: Vec<(String, WeightInit)>,
    pub head: Head,
    /// Inputs of an mlp that are codes of categories with learned vectors, and how many codes each has.
    pub embeddings: Vec<(usize, usize)>,
    /// Keep wide layers in one piece: see [`super::Mlp::whole`].
    pub whole: bool,
}

impl Frame {
    /// Nothing but the usual.
    pub fn plain(row: RowShape, outputs: usize) -> Frame {
        Frame {
            row,
            outputs,
            hidden: Vec::new(),
            activation: Activation::Relu,
            dropout: 0.0,
            layers: Vec::new(),
            init: WeightInit::Default,
            inits: Vec::new(),
            head: Head::None,
            embeddings: Vec::new(),
            whole: false,
        }
    }
}

impl Network {
    /// The network for rows `[n,elements]`. `Err` says what does not fit.
    pub fn build(&self, frame: &Frame) -> Result<Box<dyn Module>, String> {
        self.check_depth(frame)?;
        let mut net = self.body(frame)?;
        // an mlp's layers know `init` themselves, some have their own
        let all = if *self == Network::Mlp { WeightInit::Default } else { frame.init };
        if all != WeightInit::Default || !frame.inits.is_empty() {
            net = Box::new(Started { net, all, some: frame.inits.clone() });
        }
        frame.head.check()?;
        Ok(if frame.head == Head::None { net } else { Box::new(Headed { net, head: frame.head }) })
    }

    /// Before anything is traced, which takes time and memory for each layer.
    fn check_depth(&self, frame: &Frame) -> Result<(), String> {
        let (setting, count) = match self {
            Network::Mlp if !frame.layers.is_empty() => ("layers", frame.layers.len()),
            Network::Mlp => ("hidden", frame.hidden.len()),
            Network::Gru { layers, .. } | Network::Lstm { layers, .. } => ("layers", *layers),
            Network::Gpt { layers, .. } | Network::Vit { layers, .. } => ("layers", *layers),
            Network::Vgg { channels } => ("channels", channels.len()),
            Network::Lenet { .. } | Network::Nlinear | Network::Resnet9 { .. } => return Ok(()),
            Network::Resnet18 { .. } | Network::Resnet34 { .. } | Network::Resnet50 { .. } => return Ok(()),
        };
        match count <= MOST_LAYERS {
            true => Ok(()),
            false => Err(format!(
                "{}: `{setting}` asks for {count} layers, and at most {MOST_LAYERS} can be trained; give fewer",
                self.name()
            )),
        }
    }

    fn body(&self, frame: &Frame) -> Result<Box<dyn Module>, String> {
        let Frame { row, outputs, dropout, .. } = *frame;
        let misfit = |kind: &str, instead: &str| {
            Err(format!("{} is for {kind}, a row here is {row}; use --model {instead}", self.name()))
        };
        match (self, row) {
            (&Network::Gpt { width, heads, layers }, RowShape::Tokens { length: context }) => {
                if heads == 0 || width % heads != 0 {
                    return Err(format!(
                        "gpt: {heads} heads do not divide a width of {width}; choose a number that does"
                    ));
                }
                let vocabulary = outputs;
                return Ok(Box::new(Gpt { vocabulary, context, width, heads, layers, dropout, tied: false }));
            }
            (_, RowShape::Tokens { .. }) => return misfit("numbers", "gpt"),
            (Network::Gpt { .. }, _) => return misfit("the tokens of a text", "mlp"),
            _ => {}
        }
        if *self == Network::Mlp {
            let inputs = Embedded::inputs(row.elements(), &frame.embeddings)?;
            let net = match &frame.layers[..] {
                [] => mlp(&[&[inputs], &frame.hidden[..], &[outputs]].concat(), frame.activation, dropout),
                layers => {
                    let mut width = inputs;
                    for layer in layers {
                        layer.check(width)?;
                        width = layer.units;
                    }
                    Mlp::of_layers(inputs, layers, outputs).activation(frame.activation).dropout(dropout)
                }
            };
            let net = net.init(frame.init);
            let net: Box<dyn Module> = Box::new(if frame.whole { net.whole() } else { net });
            return Ok(match frame.embeddings.is_empty() {
                true => net,
                false => Box::new(Embedded { net, categories: frame.embeddings.clone() }),
            });
        }
        if !frame.embeddings.is_empty() {
            return Err(format!(
                "categorical = \"embedding\" is for an mlp, and the model is {}; use --model mlp, or another encoding",
                self.name()
            ));
        }
        if !frame.layers.is_empty() {
            return Err(format!("layers are those of an mlp, and the model is {}; leave one of them out", self.name()));
        }
        if let Network::Gru { .. } | Network::Lstm { .. } | Network::Nlinear = *self {
            let RowShape::Series { length, features } = row else { return misfit("sequences", "mlp") };
            let dims = vec![length, features];
            let recurrent = |cell: Cell, hidden: usize, layers: usize| -> Box<dyn Module> {
                let net = forecaster(cell, features, hidden, outputs).layers(layers).dropout(dropout);
                Box::new(if frame.whole { net.whole() } else { net })
            };
            let net: Box<dyn Module> = match *self {
                Network::Gru { hidden, layers } => recurrent(Cell::Gru, hidden, layers),
                Network::Lstm { hidden, layers } => recurrent(Cell::Lstm, hidden, layers),
                _ if features > 0 && outputs % features == 0 => {
                    Box::new(NLinear { length, columns: features, horizon: outputs / features })
                }
                _ => {
                    return Err(format!(
                        "nlinear says how each column goes on, and {outputs} numbers are no rows of {features} columns; use --model gru"
                    ));
                }
            };
            return Ok(Box::new(Shaped { dims, net }));
        }
        let RowShape::Picture { channels: inputs, height, width: across } = row else {
            return misfit("pictures", "mlp");
        };
        let residual = |depth: Depth, width: usize| {
            let stem = if height.min(across) < LARGE_PICTURE { Stem::Cifar } else { Stem::Imagenet };
            Box::new(ResNet { inputs, outputs, depth, stem, width })
        };
        let net: Box<dyn Module> = match self {
            Network::Mlp | Network::Gru { .. } | Network::Lstm { .. } | Network::Nlinear | Network::Gpt { .. } => {
                unreachable!("built above")
            }
            Network::Lenet { channels, hidden } => {
                let (channels, hidden) = (*channels, *hidden);
                Box::new(LeNet { inputs, size: [height, across], channels, hidden, outputs, dropout })
            }
            Network::Vgg { channels } if channels.is_empty() || channels.contains(&0) => {
                return Err(format!("the channels of a vgg are {channels:?}; give one number above 0 for each stage"));
            }
            Network::Vgg { channels } => Box::new(Vgg { inputs, outputs, channels: channels.clone(), dropout }),
            Network::Resnet9 { width } => Box::new(ResNet9 { inputs, outputs, width: *width }),
            Network::Resnet18 { width } => residual(Depth::Eighteen, *width),
            Network::Resnet34 { width } => residual(Depth::ThirtyFour, *width),
            Network::Resnet50 { width } => residual(Depth::Fifty, *width),
            &Network::Vit { patch, width, heads, layers } => {
                Box::new(Vit { channels: inputs, patch, width, heads, layers, classes: outputs, dropout })
            }
        };
        Ok(Box::new(Shaped { dims: vec![inputs, height, across], net }))
    }

    /// Whether any of its layers drops units at random.
    pub fn has_dropout(&self) -> bool {
        !matches!(
            self,
            Network::Nlinear
                | Network::Resnet9 { .. }
                | Network::Resnet18 { .. }
                | Network::Resnet34 { .. }
                | Network::Resnet50 { .. }
        )
    }

    pub fn name(&self) -> &'static str {
        match self {
            Network::Mlp => "mlp",
            Network::Lenet { .. } => "lenet",
            Network::Vgg { .. } => "vgg",
            Network::Resnet9 { .. } => "resnet-9",
            Network::Resnet18 { .. } => "resnet-18",
            Network::Resnet34 { .. } => "resnet-34",
            Network::Resnet50 { .. } => "resnet-50",
            Network::Gru { .. } => "gru",
            Network::Lstm { .. } => "lstm",
            Network::Nlinear => "nlinear",
            Network::Gpt { .. } => "gpt",
            Network::Vit { .. } => "vit",
        }
    }
}

/// Takes each row `[n,elements]` in the shape of `dims`.
struct Shaped {
    dims: Vec<usize>,
    net: Box<dyn Module>,
}

impl Module for Shaped {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        self.net.forward(&x.reshape(&[&[x.dims()[0]], &self.dims[..]].concat()))
    }

    fn describe(&self) -> String {
        self.net.describe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    fn frame(row: RowShape) -> Frame {
        Frame { hidden: vec![16], dropout: 0.1, ..Frame::plain(row, 10) }
    }

    #[test]
    fn a_depth_beyond_all_sense_is_refused_before_tracing() {
        let rows = [RowShape::Series { length: 4, features: 2 }, RowShape::Tokens { length: 4 }];
        let picture = RowShape::Picture { channels: 1, height: 8, width: 8 };
        for (network, row) in [
            (Network::Gru { hidden: 2, layers: 1_000_000_000 }, rows[0]),
            (Network::Lstm { hidden: 2, layers: usize::MAX }, rows[0]),
            (Network::Gpt { width: 4, heads: 2, layers: 1_000_000 }, rows[1]),
            (Network::Vit { patch: 4, width: 4, heads: 2, layers: MOST_LAYERS + 1 }, picture),
            (Network::Vgg { channels: vec![1; 1_000_000] }, picture),
        ] {
            let problem = network.build(&Frame::plain(row, 2)).err().unwrap();
            assert!(problem.contains("at most 2000") && problem.contains(network.name()), "{problem}");
        }
        let flat = Frame::plain(RowShape::Flat { width: 2 }, 1);
        let deep = |n: usize| Network::Mlp.build(&Frame { hidden: vec![2; n], ..flat.clone() });
        assert!(deep(1_000_000).err().unwrap().contains("`hidden` asks for 1000000 layers"));
        assert!(deep(MOST_LAYERS).is_ok());
    }

    #[test]
    fn every_name_builds_for_pictures() {
        let row = RowShape::Picture { channels: 3, height: 32, width: 32 };
        for name in ["mlp", "lenet", "vgg", "resnet-9", "resnet-18", "resnet-34", "resnet-50", "vit"] {
            let network = Network::by_name(name).unwrap();
            assert_eq!(network.name(), name);
            let g = Graph::new();
            let y = network.build(&frame(row)).unwrap().forward(&g.input("x", &[4, row.elements()]));
            g.check().unwrap();
            assert_eq!(y.dims(), [4, 10], "{name}");
        }
    }

    #[test]
    fn sequences_go_through_recurrent_networks() {
        let row = RowShape::Series { length: 12, features: 3 };
        for name in ["mlp", "gru", "lstm"] {
            let g = Graph::new();
            let y = Network::by_name(name).unwrap().build(&frame(row)).unwrap().forward(&g.input("x", &[4, 36]));
            g.check().unwrap();
            assert_eq!(y.dims(), [4, 10], "{name}");
        }
        let nlinear = Network::by_name("nlinear").unwrap();
        let g = Graph::new();
        let y = nlinear.build(&Frame { outputs: 6, ..frame(row) }).unwrap().forward(&row.input(&g, 4));
        g.check().unwrap();
        assert_eq!(y.dims(), [4, 6]);
        assert!(nlinear.build(&frame(row)).err().unwrap().contains("no rows of 3 columns"));
    }

    #[test]
    fn tokens_go_through_a_gpt() {
        let row = RowShape::Tokens { length: 12 };
        let g = Graph::new();
        let y = Network::by_name("gpt").unwrap().build(&frame(row)).unwrap().forward(&row.input(&g, 4));
        g.check().unwrap();
        assert_eq!(y.dims(), [4, 12, 10]);
        let problem = Network::by_name("gru").unwrap().build(&frame(row)).err().unwrap();
        assert!(problem.contains("gru is for numbers, a row here is 12 tokens; use --model gpt"), "{problem}");
        let odd = Network::Gpt { width: 10, heads: 3, layers: 1 }.build(&frame(row)).err().unwrap();
        assert!(odd.contains("3 heads do not divide a width of 10"), "{odd}");
        let flat = frame(RowShape::Flat { width: 7 });
        assert!(Network::by_name("gpt").unwrap().build(&flat).err().unwrap().contains("tokens of a text"));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let flat = frame(RowShape::Flat { width: 7 });
        let problem = Network::by_name("lenet").unwrap().build(&flat).err().unwrap();
        assert!(problem.contains("lenet is for pictures, a row here is 7 numbers"), "{problem}");
        assert!(Network::by_name("alexnet").unwrap_err().contains("resnet-18"));
        let g = Graph::new();
        let tiny = frame(RowShape::Picture { channels: 1, height: 8, width: 8 });
        Network::by_name("lenet").unwrap().build(&tiny).unwrap().forward(&g.input("x", &[2, 64]));
        assert!(g.check().unwrap_err().to_string().contains("at least 16×16"));
    }
}
