use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::patches::patches;
use crate::{Activation, LearnedPositions, Linear, Module, TransformerEncoder, TransformerEncoderLayer};

/// A vision transformer without a class token: pictures `[n,c,h,w] → [n,classes]`. Patches through linear layer
/// `patch`, learned `positions`, encoder layers `layers.0` … with norms first and gelu, 4·width between their linear
/// layers, `norm`, mean over the patches, linear layer `head`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vit {
    pub channels: usize,
    /// Side of a patch in pixels; it divides the picture.
    pub patch: usize,
    pub width: usize,
    pub heads: usize,
    pub layers: usize,
    pub classes: usize,
    #[serde(default)]
    pub dropout: f64,
}

impl Module for Vit {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let cut = match patches(x, self.channels, self.patch) {
            Ok(cut) => cut,
            Err(problem) => {
                g.report(&self.describe(), problem);
                return g.full(0.0, &[1, self.classes]);
            }
        };
        let count = cut.dims()[1];
        let layer = TransformerEncoderLayer::new("", self.width, self.heads)
            .feedforward(4 * self.width)
            .dropout(self.dropout)
            .activation(Activation::Gelu)
            .norm_first(true);
        let h = Linear::new("patch", self.channels * self.patch * self.patch, self.width).forward(&cut);
        let h = LearnedPositions::new("positions", count, self.width).std(0.02).forward(&h);
        let h = TransformerEncoder::new("", layer, self.layers).norm(true).forward(&h);
        Linear::new("head", self.width, self.classes).forward(&h.mean(&[1], false))
    }

    fn describe(&self) -> String {
        let Vit { patch, width, heads, layers, classes, .. } = self;
        format!("vit patches of {patch}×{patch}, {layers} × {width} by {heads} heads, {classes} classes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn patches_must_divide_the_picture() {
        let model = Vit { channels: 3, patch: 4, width: 8, heads: 2, layers: 1, classes: 10, dropout: 0.0 };
        for (dims, problem) in [
            (&[2, 3, 8, 10][..], "patches of 4×4 do not divide a picture of 8×10"),
            (&[2, 1, 8, 8][..], "must be [n,3,h,w]"),
            (&[2, 3, 8][..], "must be [n,3,h,w]"),
        ] {
            let g = Graph::new();
            model.forward(&g.input("x", dims));
            let message = g.check().unwrap_err().to_string();
            assert!(message.contains(problem) && message.contains("vit.rs"), "{message}");
        }
    }
}
