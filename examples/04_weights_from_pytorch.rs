//! Weights that PyTorch has trained, used here: a ResNet-18 of torchvision and an `nn.TransformerEncoder`.
//!
//! `cargo xtask pretrained --python PYTHON_WITH_TORCHVISION` writes both with an input and PyTorch's output, and runs this on them. By
//! hand: `python golden/pretrained.py --full DIR`, then `cargo run --release -p citius --example 04_weights_from_pytorch DIR`.

use std::error::Error;
use std::path::{Path, PathBuf};

use citius::cpu::{Driver, Flow, Outputs, Slots};
use citius::nn::{Depth, ResNet, Stem, TransformerEncoder, TransformerEncoderLayer};
use citius::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::args().nth(1).ok_or("give the directory with the files")?.into();
    compare(&folder, "resnet18", |x, sizes, _| {
        let conv = sizes.shapes().get("conv1.weight").map_or(64, |shape| shape[0]);
        let classes = sizes.shapes().get("fc.bias").map_or(1000, |shape| shape[0]);
        ResNet { inputs: 3, outputs: classes, depth: Depth::Eighteen, stem: Stem::Imagenet, width: conv }.forward(x)
    })?;
    compare(&folder, "encoder", |x, sizes, heads| {
        let inner = sizes.shapes().get("layers.0.linear1.bias").map_or(2048, |shape| shape[0]);
        let layers = sizes.shapes().keys().filter(|name| name.ends_with("linear1.bias")).count();
        // tokens first, PyTorch's default
        let layer = TransformerEncoderLayer::new("", x.dims()[2], heads).feedforward(inner).batch_first(false);
        TransformerEncoder::new("", layer, layers).forward(x)
    })
}

/// Runs a network with the file's weights on the file's input, and prints the largest difference from the file's output.
fn compare(
    folder: &Path,
    name: &str,
    network: impl Fn(&Tensor, &Pretrained, usize) -> Tensor,
) -> Result<(), Box<dyn Error>> {
    let weights = Pretrained::read(&folder.join(format!("{name}.safetensors")))?;
    let known = Pretrained::read(&folder.join(format!("{name}.io.safetensors")))?;
    let (dims, x) = known.tensor("x")?.ok_or("no x")?;
    let heads = known.tensor("heads")?.map_or(1, |(_, heads)| heads[0] as usize);
    let (_, expected) = known.tensor("y")?.ok_or("no y")?;

    let g = Graph::with_mode(Mode::Eval);
    g.output("y", &network(&g.input("x", &dims), &weights, heads));
    let mut memory = Memory::new(0);
    let mut executable = Executable::new(compile(&g)?, &mut memory, Options::default())?;
    let taken = weights.load(&mut memory)?;

    let mut y = Vec::new();
    executable.run(&mut memory, &Inputs::new().f32("x", &x), 0, 1, &mut Read(&mut y))?;
    let largest = |values: &mut dyn Iterator<Item = f32>| values.fold(0f32, |most, v| most.max(v.abs()));
    let difference = largest(&mut y.iter().zip(&expected).map(|(a, b)| a - b));
    let size = largest(&mut expected.iter().copied());
    println!(
        "{name}: {} tensors, x {dims:?}; outputs up to {size:.3}, largest difference {difference:.2e}",
        taken.tensors
    );
    if difference.is_nan() || difference > 1e-4 * size.max(1.0) {
        return Err(format!("{name} differs from PyTorch").into());
    }
    Ok(())
}

struct Read<'a>(&'a mut Vec<f32>);

impl Driver for Read<'_> {
    fn feed(&mut self, _: u64, _: &mut Slots) {}

    fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
        self.0.extend_from_slice(outputs.f32(0));
        Flow::Continue
    }
}
