use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use crate::{BatchNorm, Conv2d, Dropout, GlobalPool, Linear, Module, Pool};

/// A small network in the manner of VGG: stages of two 3×3 convolutions with batch norm and relu, the largest of each 2×2 behind a
/// stage, the mean over what is left of the picture, and a linear layer. `[n,inputs,h,w] → [n,outputs]`; parameters
/// `stages.0.conv1`, `stages.0.bn1`, …, `fc`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Vgg {
    pub inputs: usize,
    pub outputs: usize,
    /// Channels of each stage.
    pub channels: Vec<usize>,
    #[serde(default)]
    pub dropout: f64,
}

impl Module for Vgg {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        let (mut x, mut inputs) = (x.clone(), self.inputs);
        for (stage, &channels) in self.channels.iter().enumerate() {
            for half in 1..=2 {
                let path = |layer: &str| format!("stages.{stage}.{layer}{half}");
                let conv = Conv2d::new(path("conv"), inputs, channels, 3).padding(1).bias(false);
                let norm = BatchNorm::new_2d(path("bn"), channels);
                x = x.graph().may_recompute(|| norm.forward(&conv.forward(&x)).relu());
                inputs = channels;
            }
            // a picture of one pixel has no windows left
            if x.dims()[2..].iter().all(|side| *side >= 2) {
                x = Pool::max(2).forward(&x);
            }
        }
        let x = GlobalPool.forward(&x);
        let x = if self.dropout > 0.0 { Dropout::new(self.dropout).forward(&x) } else { x };
        Linear::new("fc", inputs, self.outputs).forward(&x)
    }

    fn describe(&self) -> String {
        let channels: Vec<String> = self.channels.iter().map(usize::to_string).collect();
        format!("vgg {}-{}-{}", self.inputs, channels.join("-"), self.outputs)
    }
}
