use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use crate::layers::under;
use crate::{BatchNorm, Conv2d, GlobalPool, Linear, Module, Pool, WeightInit};

/// He's residual networks, `[n,inputs,h,w] → [n,outputs]`, with torchvision's names: `conv1`, `bn1`, `layer1.0.conv1`, …,
/// `layer2.0.downsample.0`, …, `fc`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ResNet {
    pub inputs: usize,
    pub outputs: usize,
    pub depth: Depth,
    pub stem: Stem,
    /// Channels of the first stage; doubled by each of the others.
    #[serde(default = "usual_width")]
    pub width: usize,
}

fn usual_width() -> usize {
    64
}

/// Layers of convolutions and the last linear one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Depth {
    #[serde(rename = "18")]
    Eighteen,
    #[serde(rename = "34")]
    ThirtyFour,
    #[serde(rename = "50")]
    Fifty,
}

/// What comes before the first block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stem {
    /// 7×7, every second pixel, then the largest of each 3×3, every second again: for pictures of some hundred pixels.
    Imagenet,
    /// 3×3 and nothing left out: for pictures of some ten pixels.
    Cifar,
}

impl Depth {
    fn blocks(self) -> [usize; 4] {
        match self {
            Depth::Eighteen => [2, 2, 2, 2],
            Depth::ThirtyFour | Depth::Fifty => [3, 4, 6, 3],
        }
    }

    /// Channels behind a block, for each of its own.
    fn expansion(self) -> usize {
        if self == Depth::Fifty { 4 } else { 1 }
    }

    fn number(self) -> usize {
        match self {
            Depth::Eighteen => 18,
            Depth::ThirtyFour => 34,
            Depth::Fifty => 50,
        }
    }
}

/// As torchvision starts them.
pub(super) fn convolution(path: &str, inputs: usize, outputs: usize, size: usize, stride: usize) -> Conv2d {
    let fan_out = outputs * size * size;
    let std = (2.0 / fan_out.max(1) as f64).sqrt();
    let init = WeightInit::Normal { mean: 0.0, std };
    Conv2d::new(path, inputs, outputs, size).stride(stride).padding(size / 2).bias(false).init(init)
}

impl ResNet {
    #[track_caller]
    fn block(&self, path: &str, x: &Tensor, inputs: usize, width: usize, stride: usize) -> Tensor {
        let outputs = width * self.depth.expansion();
        let layer = |name: &str| under(path, name);
        let norm = |name: &str, channels: usize, x: &Tensor| BatchNorm::new_2d(layer(name), channels).forward(x);
        let y = match self.depth {
            Depth::Eighteen | Depth::ThirtyFour => {
                let y = convolution(&layer("conv1"), inputs, width, 3, stride).forward(x);
                let y = norm("bn1", width, &y).relu();
                norm("bn2", width, &convolution(&layer("conv2"), width, width, 3, 1).forward(&y))
            }
            Depth::Fifty => {
                let y = norm("bn1", width, &convolution(&layer("conv1"), inputs, width, 1, 1).forward(x)).relu();
                let y = norm("bn2", width, &convolution(&layer("conv2"), width, width, 3, stride).forward(&y)).relu();
                norm("bn3", outputs, &convolution(&layer("conv3"), width, outputs, 1, 1).forward(&y))
            }
        };
        let shortcut = match inputs == outputs && stride == 1 {
            true => x.clone(),
            false => {
                let y = convolution(&layer("downsample.0"), inputs, outputs, 1, stride).forward(x);
                norm("downsample.1", outputs, &y)
            }
        };
        (y + shortcut).relu()
    }
}

impl Module for ResNet {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        let (size, stride) = match self.stem {
            Stem::Imagenet => (7, 2),
            Stem::Cifar => (3, 1),
        };
        let x = convolution("conv1", self.inputs, self.width, size, stride).forward(x);
        let mut x = BatchNorm::new_2d("bn1", self.width).forward(&x).relu();
        if self.stem == Stem::Imagenet {
            x = Pool::max(3).stride(2).padding(1).forward(&x);
        }
        let mut channels = self.width;
        for (stage, blocks) in self.depth.blocks().into_iter().enumerate() {
            let width = self.width << stage;
            for block in 0..blocks {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let path = format!("layer{}.{block}", stage + 1);
                x = x.graph().may_recompute(|| self.block(&path, &x, channels, width, stride));
                channels = width * self.depth.expansion();
            }
        }
        Linear::new("fc", channels, self.outputs).forward(&GlobalPool.forward(&x))
    }

    fn describe(&self) -> String {
        format!("resnet-{} of width {}, {}→{}", self.depth.number(), self.width, self.inputs, self.outputs)
    }
}
