use citius_graph::Tensor;

use super::transformer_block::TransformerBlock;
use super::{Masks, rows};
use crate::{Activation, Module};

/// Self-attention, then two linear layers on each token, each with a residual and a norm, as PyTorch's with
/// `batch_first=True`: parameters `self_attn.…`, `linear1`, `linear2`, `norm1`, `norm2` under `{path}`.
///
/// `h = norm1(x + attention(x))`, `y = norm2(h + linear2(activation(linear1(h))))`, or, with `norm_first`,
/// `h = x + attention(norm1(x))`, `y = h + linear2(activation(linear1(norm2(h))))`.
#[derive(Clone, Debug)]
pub struct TransformerEncoderLayer {
    block: TransformerBlock,
    causal: bool,
    batch_first: bool,
}

impl TransformerEncoderLayer {
    /// PyTorch's defaults: 2048 wide between the linear layers, dropout 0.1, relu, norms last.
    pub fn new(path: impl Into<String>, width: usize, heads: usize) -> TransformerEncoderLayer {
        TransformerEncoderLayer {
            block: TransformerBlock::new(path.into(), width, heads),
            causal: false,
            batch_first: true,
        }
    }

    /// The width between the two linear layers.
    pub fn feedforward(mut self, width: usize) -> Self {
        self.block.feedforward = width;
        self
    }

    pub fn dropout(mut self, p: f64) -> Self {
        self.block.dropout = p;
        self
    }

    pub fn activation(mut self, activation: Activation) -> Self {
        self.block.activation = activation;
        self
    }

    pub fn norm_first(mut self, norm_first: bool) -> Self {
        self.block.norm_first = norm_first;
        self
    }

    /// No token attends to later ones, whatever else is masked.
    pub fn causal(mut self, causal: bool) -> Self {
        self.causal = causal;
        self
    }

    /// `[batch,tokens,width]`, the default here; `false`: `[tokens,batch,width]`, PyTorch's default.
    pub fn batch_first(mut self, batch_first: bool) -> Self {
        self.batch_first = batch_first;
        self
    }

    pub(super) fn at(&self, path: String) -> Self {
        TransformerEncoderLayer { block: TransformerBlock { path, ..self.block.clone() }, ..*self }
    }

    pub(super) fn token_axis(&self) -> usize {
        usize::from(self.batch_first)
    }

    pub(super) fn width(&self) -> usize {
        self.block.width
    }

    /// `[batch,tokens,width] → [batch,tokens,width]`, or as [`TransformerEncoderLayer::batch_first`] says.
    #[track_caller]
    pub fn encode(&self, x: &Tensor, masks: &Masks) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.block.path, self.describe()));
        if !self.batch_first && x.rank() == 3 {
            let turned = self.clone().batch_first(true).encode(&x.transpose(&[1, 0, 2]), masks);
            return turned.transpose(&[1, 0, 2]);
        }
        let masks = Masks { causal: masks.causal || self.causal, ..masks.clone() };
        let dims = x.dims();
        // plain rows, as the products give them: sums over leading axes walk them evenly
        let h = self.block.changed(&rows(x), "norm1", |h| self.block.attend("self_attn", h, &dims, None, &masks));
        let y = self.block.changed(&h, "norm2", |h| self.block.feed(h)).reshape(&dims);
        if y.rank() == 3 {
            g.note_mixed(&y, 1);
        }
        y
    }
}

impl Module for TransformerEncoderLayer {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        self.encode(x, &Masks::default())
    }

    fn describe(&self) -> String {
        format!("TransformerEncoderLayer {}", self.block.sizes())
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
