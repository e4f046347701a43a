//! The data of the workloads.

use std::path::Path;

use citius_data::{Dataset, Features, Images, Target, image_dataset, mnist_dir};
use citius_graph::random;

use super::DATA_DIR;

pub const SEED: u64 = 0;

/// Name, shapes and batch of `torch_bench.py`; all learn with Adam at 1e-3.
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
}

impl Workload {
    pub fn name(self) -> &'static str {
        match self {
            Workload::Regress => "regress",
            Workload::Tabular => "tabular",
            Workload::Mnist => "mnist",
            Workload::Wide => "wide",
        }
    }

    pub fn sizes(self) -> &'static [usize] {
        match self {
            Workload::Regress => &[10, 64, 1],
            Workload::Tabular => &[100, 50, 10],
            Workload::Mnist => &[784, 128, 64, 10],
            Workload::Wide => &[4096; 4],
        }
    }

    pub fn batch(self) -> usize {
        match self {
            Workload::Regress | Workload::Tabular => 32,
            Workload::Mnist => 64,
            Workload::Wide => 8192,
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
            Workload::Mnist => {
                let (images, labels) = match mnist.map(Path::to_owned).or_else(found) {
                    Some(dir) => mnist_dir(&dir).map_err(|e| e.to_string())?.train,
                    None => random_images(),
                };
                image_dataset(images, &labels, 10, Some((0.1307, 0.3081)))
            }
        };
        data.map_err(|e| e.to_string())
    }
}

fn found() -> Option<std::path::PathBuf> {
    Some(Path::new(DATA_DIR).join("mnist")).filter(|dir| dir.is_dir())
}

/// Noise of MNIST's shape: the same work, nothing to learn.
fn random_images() -> (Images, Vec<u8>) {
    let word = |i: u64| random::philox(SEED, 1, i / 4)[i as usize % 4];
    let pixels = (0..60_000 * 784 / 4).flat_map(|i| word(i).to_le_bytes()).collect();
    let labels = (0..60_000).map(|i| (random::uniform(SEED, 2, i) * 10.0) as u8).collect();
    (Images { count: 60_000, height: 28, width: 28, pixels }, labels)
}
