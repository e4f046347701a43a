//! The data and networks of the workloads.

use std::path::Path;

use citius_data::{Dataset, Features, Images, Target, image_dataset, mnist_dir};
use citius_graph::{Tensor, random};
use citius_nn::{
    Activation, Cell, Conv2d, Depth, Linear, Module, ResNet, Stem, TransformerClassifier, forecaster, mlp,
};

pub const SEED: u64 = 0;

/// Name, shapes, batch and rate of `torch_bench.py`; all learn with Adam.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// 10-64-1 on 10,000 rows, mean squared error, batch 32
    Regress,
    /// 100-50-10 on 100,000 rows, cross-entropy, batch 32
    Tabular,
    /// 784-128-64-10 on 60,000 images, cross-entropy, batch 64
    Mnist,
    /// 4096-4096-4096-4096 on 16,384 rows, cross-entropy, batch 8192: for GPUs
    Wide,
    /// GRU 10→20 through 100 steps, then linear to 1, on 3,200 rows, mean squared error, batch 32
    Gru,
    /// Convolution 3→16 of 3×3 on pictures of 32×32, then linear to 10, on 3,200 rows, cross-entropy, batch 32
    Cnn,
    /// Embedding of 100 tokens, two encoder layers of width 256 with 4 heads, on 1,600 rows of 50, cross-entropy, batch 32
    Transformer,
    /// The same without dropout, as `jax_bench.py` has it; `torch_bench.py` drops a tenth
    TransformerPlain,
    /// ResNet-18 for pictures of 32×32, on 5,120 rows, cross-entropy, batch 512: for GPUs
    Resnet,
}

impl Workload {
    pub fn name(self) -> &'static str {
        match self {
            Workload::Regress => "regress",
            Workload::Tabular => "tabular",
            Workload::Mnist => "mnist",
            Workload::Wide => "wide",
            Workload::Gru => "gru",
            Workload::Cnn => "cnn",
            Workload::Transformer => "transformer",
            Workload::TransformerPlain => "transformer-plain",
            Workload::Resnet => "resnet",
        }
    }

    /// Of rows of features; `whole` where wide layers are better kept in one piece.
    pub fn forward(self, x: &Tensor, whole: bool) -> Tensor {
        let sizes: &[usize] = match self {
            Workload::Regress => &[10, 64, 1],
            Workload::Tabular => &[100, 50, 10],
            Workload::Mnist => &[784, 128, 64, 10],
            Workload::Wide => &[4096; 4],
            Workload::Gru => {
                let [steps, inputs] = GRU_STEPS;
                let model = forecaster(Cell::Gru, inputs, 20, 1);
                let model = if whole { model.whole() } else { model };
                return model.forward(&x.reshape(&[x.dims()[0], steps, inputs]));
            }
            Workload::Resnet => {
                let [inputs, side, _] = PICTURE;
                let model = ResNet { inputs, outputs: 10, depth: Depth::Eighteen, stem: Stem::Cifar, width: 64 };
                return model.forward(&x.reshape(&[x.dims()[0], inputs, side, side]));
            }
            Workload::Cnn => {
                let [channels, side, _] = PICTURE;
                let pictures = x.reshape(&[x.dims()[0], channels, side, side]);
                let seen = Conv2d::new("conv", channels, 16, 3).forward(&pictures).relu();
                return Linear::new("fc", 16 * (side - 2) * (side - 2), 10).forward(&seen.flatten(1));
            }
            // PyTorch's defaults, as the peer's
            Workload::Transformer => return TransformerClassifier::default().forward(x),
            Workload::TransformerPlain => {
                return TransformerClassifier { dropout: 0.0, ..TransformerClassifier::default() }.forward(x);
            }
        };
        let model = mlp(sizes, Activation::Relu, 0.0);
        if whole { model.whole() } else { model }.forward(x)
    }

    pub fn rate(self) -> f64 {
        match self {
            Workload::Regress | Workload::Tabular | Workload::Mnist | Workload::Wide => 1e-3,
            Workload::Cnn | Workload::Transformer | Workload::TransformerPlain => 1e-3,
            // random rows would be learned by heart, and a GPU that multiplies zeros is faster
            Workload::Resnet => 1e-7,
            Workload::Gru => 1e-2,
        }
    }

    pub fn batch(self) -> usize {
        match self {
            Workload::Regress | Workload::Tabular | Workload::Gru | Workload::Cnn => 32,
            Workload::Transformer | Workload::TransformerPlain => 32,
            Workload::Mnist => 64,
            Workload::Wide => 8192,
            Workload::Resnet => 512,
        }
    }

    pub fn data(self, mnist: Option<&Path>) -> Result<Dataset, String> {
        let data = match self {
            Workload::Regress => {
                let uniform = |stream, n| (0..n).map(|i| random::uniform(SEED, stream, i)).collect();
                let x = Features::F32 { data: uniform(1, 100_000), width: 10 };
                Dataset::new(10_000, x, Target::Values { data: uniform(2, 10_000), width: 1 })
            }
            Workload::Tabular => {
                let x = (0..10_000_000).map(|i| random::normal(SEED, i)).collect();
                let y = (0..100_000).map(|i| (random::uniform(SEED, 2, i) * 10.0) as i32).collect();
                let target = Target::Classes { data: y, classes: 10 };
                Dataset::new(100_000, Features::F32 { data: x, width: 100 }, target)
            }
            Workload::Wide => {
                let x = (0..16_384 * 4096).map(|i| random::uniform(SEED, 1, i)).collect();
                let y = (0..16_384).map(|i| (random::uniform(SEED, 2, i) * 4096.0) as i32).collect();
                let target = Target::Classes { data: y, classes: 4096 };
                Dataset::new(16_384, Features::F32 { data: x, width: 4096 }, target)
            }
            Workload::Gru => {
                let normal = |from: u64, n: u64| (from..from + n).map(|i| random::normal(SEED, i)).collect();
                let width = GRU_STEPS.iter().product();
                let x = Features::F32 { data: normal(0, 3200 * width as u64), width };
                Dataset::new(3200, x, Target::Values { data: normal(1 << 32, 3200), width: 1 })
            }
            Workload::Cnn | Workload::Resnet => {
                let rows = if self == Workload::Cnn { 3200 } else { 5120 };
                let width: usize = PICTURE.iter().product();
                let x = (0..(rows * width) as u64).map(|i| random::normal(SEED, i)).collect();
                let y = (0..rows as u64).map(|i| (random::uniform(SEED, 2, i) * 10.0) as i32).collect();
                Dataset::new(rows, Features::F32 { data: x, width }, Target::Classes { data: y, classes: 10 })
            }
            Workload::Transformer | Workload::TransformerPlain => {
                let below = |most: f32, stream, n: u64| {
                    (0..n).map(|i| (random::uniform(SEED, stream, i) * most) as i32).collect::<Vec<_>>()
                };
                let x = Features::I32 { data: below(100.0, 1, 1600 * TOKENS as u64), width: TOKENS };
                Dataset::new(1600, x, Target::Classes { data: below(10.0, 2, 1600), classes: 10 })
            }
            Workload::Mnist => {
                let (images, labels) = match mnist {
                    Some(dir) => mnist_dir(dir).map_err(|e| e.to_string())?.train,
                    None => random_images(),
                };
                image_dataset(images, &labels, 10, Some((0.1307, 0.3081)))
            }
        };
        data.map_err(|e| e.to_string())
    }
}

/// Steps of a sequence, features of a step.
const GRU_STEPS: [usize; 2] = [100, 10];
/// Channels, height and width.
const PICTURE: [usize; 3] = [3, 32, 32];
/// Of a sequence.
const TOKENS: usize = 50;

/// Noise of MNIST's shape: the same work, nothing to learn.
fn random_images() -> (Images, Vec<u8>) {
    let word = |i: u64| random::philox(SEED, 1, i / 4)[i as usize % 4];
    let pixels = (0..60_000 * 784 / 4).flat_map(|i| word(i).to_le_bytes()).collect();
    let labels = (0..60_000).map(|i| (random::uniform(SEED, 2, i) * 10.0) as u8).collect();
    (Images { count: 60_000, height: 28, width: 28, pixels }, labels)
}
