//! What encoder and decoder layers share.

use citius_graph::Tensor;

use super::{LayerNorm, Masks, MultiheadAttention, rows, under};
use crate::{Activation, Dropout, Linear, Module};

#[derive(Clone, Debug)]
pub(super) struct TransformerBlock {
    pub path: String,
    pub width: usize,
    pub heads: usize,
    pub feedforward: usize,
    pub dropout: f64,
    pub activation: Activation,
    pub norm_first: bool,
}

impl TransformerBlock {
    /// PyTorch's defaults.
    pub fn new(path: String, width: usize, heads: usize) -> TransformerBlock {
        let (feedforward, dropout, activation) = (2048, 0.1, Activation::Relu);
        TransformerBlock { path, width, heads, feedforward, dropout, activation, norm_first: false }
    }

    /// x and a change of it: `norm(x + change(x))`, or, with the norm first, `x + change(norm(x))`.
    #[track_caller]
    pub fn changed(&self, x: &Tensor, norm: &str, change: impl Fn(&Tensor) -> Tensor) -> Tensor {
        let norm = LayerNorm::new(under(&self.path, norm), self.width);
        let dropped = |x: &Tensor| self.drop(&change(x));
        match self.norm_first {
            true => x + dropped(&norm.forward(x)),
            false => norm.forward(&(x + dropped(x))),
        }
    }

    /// Attention `name` of x to `other`, or to itself; x `[batch·tokens,width]` is seen as `dims`.
    #[track_caller]
    pub fn attend(&self, name: &str, x: &Tensor, dims: &[usize], other: Option<&Tensor>, masks: &Masks) -> Tensor {
        let x = x.reshape(dims);
        let other = other.unwrap_or(&x);
        let attention = MultiheadAttention::new(under(&self.path, name), self.width, self.heads);
        rows(&attention.dropout(self.dropout).attend(&x, other, other, masks))
    }

    /// `linear2(activation(linear1(x)))`
    #[track_caller]
    pub fn feed(&self, x: &Tensor) -> Tensor {
        let inner = Linear::new(under(&self.path, "linear1"), self.width, self.feedforward).forward(x);
        let inner = match self.activation {
            Activation::Relu => Dropout::new(self.dropout).after_relu(&inner),
            other => self.drop(&other.forward(&inner)),
        };
        Linear::new(under(&self.path, "linear2"), self.feedforward, self.width).forward(&inner)
    }

    #[track_caller]
    fn drop(&self, x: &Tensor) -> Tensor {
        Dropout::new(self.dropout).forward(x)
    }

    pub fn sizes(&self) -> String {
        format!("{} by {} heads, {}", self.width, self.heads, self.feedforward)
    }
}
