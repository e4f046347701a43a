use citius_graph::Tensor;

use crate::Module;

/// A part of a model whose inner values are computed again for the gradient instead of being kept: gradient checkpointing. The same
/// numbers for less memory and about a third more arithmetic. Parts one after the other, such as the blocks of a deep network, do
/// best; layers of [`crate::TransformerEncoder`], blocks of [`crate::ResNet`] and others are taken so by themselves where
/// [`citius_graph::Graph::save_memory`] is asked for.
pub struct Checkpoint {
    segment: Box<dyn Module>,
}

/// See [`Checkpoint`].
pub fn checkpoint(segment: impl Module + 'static) -> Checkpoint {
    Checkpoint { segment: Box::new(segment) }
}

impl Module for Checkpoint {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        x.graph().recomputed(|| self.segment.forward(x))
    }

    fn describe(&self) -> String {
        format!("checkpoint ({})", self.segment.describe())
    }
}
