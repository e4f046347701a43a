use citius_graph::{Mode, Tensor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::layers::Residual;
use crate::{Activation, BatchNorm, Dropout, LayerNorm, Linear, Module, Sequential, WeightInit, name_or_table};

/// A hidden layer of an mlp: linear, norm, activation, dropout. What is left open is the network's.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HiddenLayer {
    pub units: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "init")]
    pub init: Option<WeightInit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<LayerNormKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// Adds what goes in to what comes out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub residual: bool,
    /// No gradient flows from this layer to those before it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub detach: bool,
    /// The mode that norm and dropout are always in; open: that of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<LayerMode>,
}

/// What normalises a hidden layer before its activation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerNormKind {
    None,
    Batch,
    Layer,
}

/// [`Mode`] in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerMode {
    Train,
    Eval,
}

impl From<LayerMode> for Mode {
    fn from(mode: LayerMode) -> Mode {
        match mode {
            LayerMode::Train => Mode::Train,
            LayerMode::Eval => Mode::Eval,
        }
    }
}

fn init<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<WeightInit>, D::Error> {
    name_or_table(deserializer).map(Some)
}

fn is_false(value: &bool) -> bool {
    !*value
}

impl HiddenLayer {
    pub fn new(units: usize) -> HiddenLayer {
        HiddenLayer {
            units,
            activation: None,
            init: None,
            norm: None,
            dropout: None,
            residual: false,
            detach: false,
            mode: None,
        }
    }

    /// `Err` says what does not fit a layer of so many inputs, and what to write.
    pub fn check(&self, inputs: usize) -> Result<(), String> {
        let units = self.units;
        if units == 0 {
            return Err("a layer of 0 units passes nothing on; leave it out".into());
        }
        if let Some(dropout) = self.dropout.filter(|p| !(0.0..1.0).contains(p)) {
            return Err(format!("the dropout of a layer is {dropout}, it must be at least 0 and below 1"));
        }
        match self.residual && inputs != units {
            true => Err(format!("a residual layer gives what it gets: it has {units} units, write units = {inputs}")),
            false => Ok(()),
        }
    }

    /// Linear, activation and dropout alone.
    pub(super) fn is_plain(&self) -> bool {
        self.norm() == LayerNormKind::None && !self.residual && !self.detach && self.mode.is_none()
    }

    fn norm(&self) -> LayerNormKind {
        self.norm.unwrap_or(LayerNormKind::None)
    }
}

/// A hidden layer with nothing left open.
pub(super) struct Block {
    pub linear: Linear,
    pub activation: Activation,
    pub dropout: f64,
    pub layer: HiddenLayer,
    /// Number of the linear layer, in PyTorch's count.
    pub number: usize,
}

impl Block {
    /// Layers that it is in PyTorch's count.
    pub fn count(layer: &HiddenLayer, dropout: f64) -> usize {
        2 + usize::from(layer.norm() != LayerNormKind::None) + usize::from(dropout != 0.0)
    }
}

impl Module for Block {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _mode = self.layer.mode.map(|mode| g.in_mode(mode.into()));
        let x = if self.layer.detach { x.detach() } else { x.clone() };
        let mut body = Sequential::new().with(self.linear.clone());
        let path = (self.number + 1).to_string();
        match self.layer.norm() {
            LayerNormKind::None => {}
            LayerNormKind::Batch => body.push(BatchNorm::new_1d(path, self.layer.units)),
            LayerNormKind::Layer => body.push(LayerNorm::new(path, self.layer.units)),
        }
        body.push(self.activation);
        if self.dropout != 0.0 {
            body.push(Dropout::new(self.dropout));
        }
        if self.layer.residual { Residual::new(body).forward(&x) } else { body.forward(&x) }
    }

    /// `64 relu, norm batch, residual`
    fn describe(&self) -> String {
        let HiddenLayer { units, residual, detach, mode, .. } = self.layer;
        let parts = [
            Some(format!("{units} {}", self.activation)),
            (self.layer.norm() != LayerNormKind::None).then(|| format!("{:?} norm", self.layer.norm()).to_lowercase()),
            (self.dropout != 0.0).then(|| format!("dropout {}", self.dropout)),
            residual.then(|| "residual".to_owned()),
            detach.then(|| "detached".to_owned()),
            mode.map(|mode| format!("always in {mode:?} mode").to_lowercase()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
