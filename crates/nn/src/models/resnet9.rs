use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::resnet::convolution;
use crate::layers::under;
use crate::{BatchNorm, GlobalPool, Linear, Module, Pool};

/// A residual network of nine layers that learns small pictures fast, in the manner of Page's "davidnet":
/// `[n,inputs,h,w] → [n,outputs]`. A 3×3 convolution `conv1`; three stages `layer1` … of twice the channels each, a convolution `conv`
/// and the largest of each 2×2; behind the first and the last of them a residual block `res`; the mean over what is left of the
/// picture, and a linear layer `fc`. Batch norm and relu follow every convolution.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResNet9 {
    pub inputs: usize,
    pub outputs: usize,
    /// Channels of the first convolution.
    pub width: usize,
}

impl Module for ResNet9 {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let layer = |path: &str, number: &str, inputs: usize, outputs: usize, x: &Tensor| {
            let y = convolution(&under(path, &format!("conv{number}")), inputs, outputs, 3, 1).forward(x);
            BatchNorm::new_2d(under(path, &format!("bn{number}")), outputs).forward(&y).relu()
        };
        let mut x = layer("", "1", self.inputs, self.width, x);
        for stage in 1..=3 {
            let (path, channels) = (format!("layer{stage}"), self.width << stage);
            x = g.may_recompute(|| {
                let mut y = layer(&path, "", channels / 2, channels, &x);
                // a picture of one pixel has no windows left
                if y.dims()[2..].iter().all(|side| *side >= 2) {
                    y = Pool::max(2).forward(&y);
                }
                y
            });
            if stage != 2 {
                let path = under(&path, "res");
                let y = g.may_recompute(|| {
                    layer(&path, "2", channels, channels, &layer(&path, "1", channels, channels, &x))
                });
                x = x + y;
            }
        }
        Linear::new("fc", 8 * self.width, self.outputs).forward(&GlobalPool.forward(&x))
    }

    fn describe(&self) -> String {
        format!("resnet-9 of width {}, {}→{}", self.width, self.inputs, self.outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn pictures_of_any_size() {
        for side in [1, 4, 32, 33] {
            let g = Graph::new();
            let y = ResNet9 { inputs: 3, outputs: 10, width: 4 }.forward(&g.input("x", &[2, 3, side, side]));
            g.check().unwrap();
            assert_eq!(y.dims(), [2, 10], "{side}");
        }
    }
}
