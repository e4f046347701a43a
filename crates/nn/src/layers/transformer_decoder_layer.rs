use citius_graph::Tensor;

use super::{Masks, MultiheadAttention, rows, under};
use crate::layers::LayerNorm;
use crate::{Activation, Dropout, Linear, Module};

/// Self-attention, attention to a memory, then two linear layers on each token, each with a residual and a norm, as PyTorch's with
/// `batch_first=True`: parameters `self_attn.…`, `multihead_attn.…`, `linear1`, `linear2`, `norm1`, `norm2`, `norm3` under `{path}`.
/// Norms come last, or first of each part with `norm_first`, as in the encoder's layer.
#[derive(Clone, Debug)]
pub struct TransformerDecoderLayer {
    path: String,
    width: usize,
    heads: usize,
    feedforward: usize,
    dropout: f64,
    activation: Activation,
    norm_first: bool,
    eps: f64,
}

impl TransformerDecoderLayer {
    /// PyTorch's defaults: 2048 wide between the linear layers, dropout 0.1, relu, norms last.
    pub fn new(path: impl Into<String>, width: usize, heads: usize) -> TransformerDecoderLayer {
        TransformerDecoderLayer {
            path: path.into(),
            width,
            heads,
            feedforward: 2048,
            dropout: 0.1,
            activation: Activation::Relu,
            norm_first: false,
            eps: 1e-5,
        }
    }

    /// The width between the two linear layers.
    pub fn feedforward(mut self, width: usize) -> Self {
        self.feedforward = width;
        self
    }

    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = p;
        self
    }

    pub fn activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }

    pub fn norm_first(mut self, norm_first: bool) -> Self {
        self.norm_first = norm_first;
        self
    }

    pub(super) fn at(&self, path: String) -> Self {
        TransformerDecoderLayer { path, ..self.clone() }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// `target` `[batch,tokens,width]` attends to itself under `own` and to `memory` `[batch,others,width]` under `across`.
    #[track_caller]
    pub fn decode(&self, target: &Tensor, memory: &Tensor, own: &Masks, across: &Masks) -> Tensor {
        let g = target.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        let dims = target.dims();
        let attend_self = |x: &Tensor| {
            let x = x.reshape(&dims);
            rows(&self.drop(&self.attention("self_attn").attend(&x, &x, &x, own)))
        };
        let attend_memory = |x: &Tensor| {
            let attention = self.attention("multihead_attn");
            rows(&self.drop(&attention.attend(&x.reshape(&dims), memory, memory, across)))
        };
        let feed = |x: &Tensor| self.feed(x);
        let parts: [(&str, &dyn Fn(&Tensor) -> Tensor); 3] =
            [("norm1", &attend_self), ("norm2", &attend_memory), ("norm3", &feed)];
        // plain rows, as the products give them: what is added to a product is then added on its registers
        let y = parts.iter().fold(rows(target), |x, (norm, part)| {
            let norm = LayerNorm::new(under(&self.path, norm), self.width).eps(self.eps);
            match self.norm_first {
                true => &x + part(&norm.forward(&x)),
                false => norm.forward(&(&x + part(&x))),
            }
        });
        y.reshape(&dims)
    }

    fn attention(&self, name: &str) -> MultiheadAttention {
        MultiheadAttention::new(under(&self.path, name), self.width, self.heads).dropout(self.dropout)
    }

    #[track_caller]
    fn feed(&self, x: &Tensor) -> Tensor {
        let inner = Linear::new(under(&self.path, "linear1"), self.width, self.feedforward).forward(x);
        let inner = self.drop(&self.activation.forward(&inner));
        self.drop(&Linear::new(under(&self.path, "linear2"), self.feedforward, self.width).forward(&inner))
    }

    #[track_caller]
    fn drop(&self, x: &Tensor) -> Tensor {
        Dropout::new(self.dropout).forward(x)
    }

    pub fn describe(&self) -> String {
        format!("TransformerDecoderLayer {} by {} heads, {}", self.width, self.heads, self.feedforward)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn mistakes_name_the_inner_layer_and_the_callers_line() {
        let g = Graph::new();
        let (x, memory) = (g.input("x", &[2, 3, 6]), g.input("memory", &[3, 5, 6]));
        TransformerDecoderLayer::new("layers.0", 6, 2).decode(&x, &memory, &Masks::causal(), &Masks::default());
        let message = g.check().unwrap_err().to_string();
        assert!(message.contains("query [2,3,6], key [3,5,6]"), "{message}");
        assert!(
            message.contains("layers.0.multihead_attn") && message.contains("transformer_decoder_layer.rs"),
            "{message}"
        );
    }
}
