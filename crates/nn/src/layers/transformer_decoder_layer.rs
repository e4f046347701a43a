use citius_graph::Tensor;

use super::transformer_block::TransformerBlock;
use super::{Masks, rows};
use crate::Activation;

/// Self-attention, attention to a memory, then two linear layers on each token, each with a residual and a norm, as
/// PyTorch's with `batch_first=True`: parameters `self_attn.…`, `multihead_attn.…`, `linear1`, `linear2`, `norm1`,
/// `norm2`, `norm3` under `{path}`. Norms come last, or first of each part with `norm_first`, as in the encoder's
/// layer.
#[derive(Clone, Debug)]
pub struct TransformerDecoderLayer {
    block: TransformerBlock,
}

impl TransformerDecoderLayer {
    /// PyTorch's defaults: 2048 wide between the linear layers, dropout 0.1, relu, norms last.
    pub fn new(path: impl Into<String>, width: usize, heads: usize) -> TransformerDecoderLayer {
        TransformerDecoderLayer { block: TransformerBlock::new(path.into(), width, heads) }
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

    pub(super) fn at(&self, path: String) -> Self {
        TransformerDecoderLayer { block: TransformerBlock { path, ..self.block.clone() } }
    }

    pub(super) fn width(&self) -> usize {
        self.block.width
    }

    /// `target` `[batch,tokens,width]` attends to itself under `own` and to `memory` `[batch,others,width]` under
    /// `across`.
    #[track_caller]
    pub fn decode(&self, target: &Tensor, memory: &Tensor, own: &Masks, across: &Masks) -> Tensor {
        let g = target.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.block.path, self.describe()));
        let (block, dims) = (&self.block, target.dims());
        // plain rows, as the products give them: sums over leading axes walk them evenly
        let h = block.changed(&rows(target), "norm1", |h| block.attend("self_attn", h, &dims, None, own));
        let h = block.changed(&h, "norm2", |h| block.attend("multihead_attn", h, &dims, Some(memory), across));
        block.changed(&h, "norm3", |h| block.feed(h)).reshape(&dims)
    }

    pub fn describe(&self) -> String {
        format!("TransformerDecoderLayer {}", self.block.sizes())
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
