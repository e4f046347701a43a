use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::patches::patches;
use crate::{LayerNorm, Linear, Module};

/// MLP-Mixer: pictures `[n,c,h,w] → [n,classes]`. Patches through linear layer `patch`; blocks `blocks.0` … that mix
/// first the patches, then the channels of each, both by two linear layers with gelu between and a residual; `norm`,
/// mean over the patches, linear layer `head`. In a block: `norm1`, `patches1`, `patches2`, `norm2`, `channels1`,
/// `channels2`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mixer {
    pub channels: usize,
    /// Side of a patch in pixels; it divides the picture.
    pub patch: usize,
    pub width: usize,
    /// Widths between the linear layers that mix patches, and those that mix channels.
    pub mix_patches: usize,
    pub mix_channels: usize,
    pub blocks: usize,
    pub classes: usize,
}

impl Mixer {
    #[track_caller]
    fn block(&self, x: &Tensor, i: usize) -> Tensor {
        let layer = |name: &str| format!("blocks.{i}.{name}");
        let norm = |name: &str, x: &Tensor| LayerNorm::new(layer(name), self.width).forward(x);
        let mix = |name: &str, x: &Tensor, hidden: usize| {
            let width = x.dims()[2];
            let h = Linear::new(layer(&format!("{name}1")), width, hidden).forward(x).gelu();
            Linear::new(layer(&format!("{name}2")), hidden, width).forward(&h)
        };
        let h = x + mix("patches", &norm("norm1", x).t(), self.mix_patches).t();
        &h + mix("channels", &norm("norm2", &h), self.mix_channels)
    }
}

impl Module for Mixer {
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
        let h = Linear::new("patch", self.channels * self.patch * self.patch, self.width).forward(&cut);
        let h = (0..self.blocks).fold(h, |h, i| self.block(&h, i));
        let h = LayerNorm::new("norm", self.width).forward(&h);
        Linear::new("head", self.width, self.classes).forward(&h.mean(&[1], false))
    }

    fn describe(&self) -> String {
        let Mixer { patch, width, blocks, classes, .. } = self;
        format!("mixer patches of {patch}×{patch}, {blocks} × {width}, {classes} classes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn patches_must_divide_the_picture() {
        let sizes = Mixer { channels: 1, patch: 3, width: 8, mix_patches: 4, mix_channels: 16, blocks: 1, classes: 10 };
        let g = Graph::new();
        sizes.forward(&g.input("x", &[2, 1, 8, 9]));
        let message = g.check().unwrap_err().to_string();
        assert!(
            message.contains("patches of 3×3 do not divide a picture of 8×9") && message.contains("mixer.rs"),
            "{message}"
        );
    }
}
