use citius_graph::Tensor;

use super::{Masks, MultiheadAttention, rows, under};
use crate::layers::LayerNorm;
use crate::{Activation, Dropout, Linear, Module};

/// Self-attention, then two linear layers on each token, each with a residual and a norm, as PyTorch's with `batch_first=True`:
/// parameters `self_attn.…`, `linear1`, `linear2`, `norm1`, `norm2` under `{path}`.
///
/// `h = norm1(x + attention(x))`, `y = norm2(h + linear2(activation(linear1(h))))`, or, with `norm_first`,
/// `h = x + attention(norm1(x))`, `y = h + linear2(activation(linear1(norm2(h))))`.
#[derive(Clone, Debug)]
pub struct TransformerEncoderLayer {
    path: String,
    width: usize,
    heads: usize,
    feedforward: usize,
    dropout: f64,
    activation: Activation,
    norm_first: bool,
    causal: bool,
    eps: f64,
}

impl TransformerEncoderLayer {
    /// PyTorch's defaults: 2048 wide between the linear layers, dropout 0.1, relu, norms last.
    pub fn new(path: impl Into<String>, width: usize, heads: usize) -> TransformerEncoderLayer {
        TransformerEncoderLayer {
            path: path.into(),
            width,
            heads,
            feedforward: 2048,
            dropout: 0.1,
            activation: Activation::Relu,
            norm_first: false,
            causal: false,
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

    /// No token attends to later ones, whatever else is masked.
    pub fn causal(mut self, causal: bool) -> Self {
        self.causal = causal;
        self
    }

    pub(super) fn at(&self, path: String) -> Self {
        TransformerEncoderLayer { path, ..self.clone() }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// `[batch,tokens,width] → [batch,tokens,width]`
    #[track_caller]
    pub fn encode(&self, x: &Tensor, masks: &Masks) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        let masks = Masks { causal: masks.causal || self.causal, ..masks.clone() };
        let dims = x.dims();
        let attend = |x: &Tensor| {
            let x = x.reshape(&dims);
            rows(&self.drop(&self.attention().attend(&x, &x, &x, &masks)))
        };
        // plain rows, as the products give them: what is added to a product is then added on its registers
        let x = rows(x);
        let y = match self.norm_first {
            true => {
                let h = &x + attend(&self.norm("norm1").forward(&x));
                &h + self.feed(&self.norm("norm2").forward(&h))
            }
            false => {
                let h = self.norm("norm1").forward(&(&x + attend(&x)));
                self.norm("norm2").forward(&(&h + self.feed(&h)))
            }
        };
        y.reshape(&dims)
    }

    fn attention(&self) -> MultiheadAttention {
        MultiheadAttention::new(under(&self.path, "self_attn"), self.width, self.heads).dropout(self.dropout)
    }

    fn norm(&self, name: &str) -> LayerNorm {
        LayerNorm::new(under(&self.path, name), self.width).eps(self.eps)
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
}

impl Module for TransformerEncoderLayer {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        self.encode(x, &Masks::default())
    }

    fn describe(&self) -> String {
        format!("TransformerEncoderLayer {} by {} heads, {}", self.width, self.heads, self.feedforward)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn mistakes_name_the_inner_layer_and_the_callers_line() {
        let g = Graph::new();
        TransformerEncoderLayer::new("layers.0", 6, 4).forward(&g.input("x", &[2, 3, 6]));
        let message = g.check().unwrap_err().to_string();
        assert!(message.contains("4 heads do not divide a width of 6"), "{message}");
        assert!(
            message.contains("layers.0.self_attn") && message.contains("transformer_encoder_layer.rs"),
            "{message}"
        );
    }
}
