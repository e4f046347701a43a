//! Stacks of transformer layers.

use citius_graph::Tensor;

use super::{LayerNorm, Masks, TransformerDecoderLayer, TransformerEncoderLayer, under};
use crate::Module;

/// Encoder layers one after the other, as PyTorch's: `{path}.layers.0.…`, and `{path}.norm` at the end when asked for.
#[derive(Clone, Debug)]
pub struct TransformerEncoder {
    path: String,
    layer: TransformerEncoderLayer,
    count: usize,
    norm: bool,
}

impl TransformerEncoder {
    /// `count` layers like `layer`, whose own path is not used.
    pub fn new(path: impl Into<String>, layer: TransformerEncoderLayer, count: usize) -> TransformerEncoder {
        TransformerEncoder { path: path.into(), layer, count, norm: false }
    }

    /// Ends with a norm.
    pub fn norm(mut self, norm: bool) -> TransformerEncoder {
        self.norm = norm;
        self
    }

    /// `[batch,tokens,width] → [batch,tokens,width]`, or as the layer's [`TransformerEncoderLayer::batch_first`] says.
    #[track_caller]
    pub fn encode(&self, x: &Tensor, masks: &Masks) -> Tensor {
        let _line = x.graph().called_here();
        let h = (0..self.count).fold(x.clone(), |h, i| {
            let path = under(&self.path, &format!("layers.{i}"));
            x.graph().may_recompute(|| self.layer.at(path).encode(&h, masks))
        });
        if !self.norm {
            return h;
        }
        let y = LayerNorm::new(under(&self.path, "norm"), self.layer.width()).forward(&h);
        if y.rank() == 3 && self.count > 0 {
            x.graph().note_mixed(&y, self.layer.token_axis());
        }
        y
    }
}

impl Module for TransformerEncoder {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        self.encode(x, &Masks::default())
    }

    fn describe(&self) -> String {
        format!("{} × {}", self.count, self.layer.describe())
    }
}

/// Decoder layers one after the other, as PyTorch's: `{path}.layers.0.…`, and `{path}.norm` at the end when asked for.
#[derive(Clone, Debug)]
pub struct TransformerDecoder {
    path: String,
    layer: TransformerDecoderLayer,
    count: usize,
    norm: bool,
}

impl TransformerDecoder {
    /// `count` layers like `layer`, whose own path is not used.
    pub fn new(path: impl Into<String>, layer: TransformerDecoderLayer, count: usize) -> TransformerDecoder {
        TransformerDecoder { path: path.into(), layer, count, norm: false }
    }

    /// Ends with a norm.
    pub fn norm(mut self, norm: bool) -> TransformerDecoder {
        self.norm = norm;
        self
    }

    /// As [`TransformerDecoderLayer::decode`], layer by layer.
    #[track_caller]
    pub fn decode(&self, target: &Tensor, memory: &Tensor, own: &Masks, across: &Masks) -> Tensor {
        let _line = target.graph().called_here();
        let h = (0..self.count).fold(target.clone(), |h, i| {
            let path = under(&self.path, &format!("layers.{i}"));
            target.graph().may_recompute(|| self.layer.at(path).decode(&h, memory, own, across))
        });
        if self.norm { LayerNorm::new(under(&self.path, "norm"), self.layer.width()).forward(&h) } else { h }
    }
}
