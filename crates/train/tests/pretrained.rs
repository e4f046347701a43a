//! Weights that PyTorch has saved give PyTorch's outputs. `golden/pretrained.py` wrote files, inputs and outputs.

use std::path::{Path, PathBuf};

use citius_cpu::{Driver, Executable, Flow, Inputs, Isa, Memory, Options, Outputs, Slots};
use citius_graph::{Graph, Mode, Tensor};
use citius_nn::{Depth, Module, ResNet, Stem, TransformerEncoder, TransformerEncoderLayer};
use citius_train::Pretrained;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/pretrained").join(format!("{name}.safetensors"))
}

struct Read<'a>(&'a mut Vec<f32>);

impl Driver for Read<'_> {
    fn feed(&mut self, _: u64, _: &mut Slots) {}

    fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
        self.0.extend_from_slice(outputs.f32(0));
        Flow::Continue
    }
}

/// The largest difference from PyTorch's output, which is about 1 in size, over all instruction sets.
fn difference(name: &str, forward: impl Fn(&Tensor) -> Tensor) -> f32 {
    let (weights, known) =
        (Pretrained::read(&golden(name)).unwrap(), Pretrained::read(&golden(&format!("{name}.io"))).unwrap());
    let tensor = |name: &str| known.tensor(name).unwrap().unwrap();
    let ((dims, x), (shape, y)) = (tensor("x"), tensor("y"));
    let mut largest = 0f32;
    for isa in Isa::available() {
        let g = Graph::with_mode(Mode::Eval);
        let out = forward(&g.input("x", &dims));
        assert_eq!(out.dims(), shape);
        g.output("y", &out);
        let mut memory = Memory::new(0);
        let options = Options { threads: 2, isa: Some(isa), ..Options::default() };
        let mut executable = Executable::new(citius_plan::compile(&g).unwrap(), &mut memory, options).unwrap();
        let taken = weights.load(&mut memory).unwrap();
        assert_eq!(taken.tensors, memory.tensors().len());
        let mut found = Vec::new();
        executable.run(&mut memory, &Inputs::new().f32("x", &x), 0, 1, &mut Read(&mut found)).unwrap();
        assert_eq!(found.len(), y.len());
        largest = found.iter().zip(&y).fold(largest, |most, (a, b)| most.max((a - b).abs()));
    }
    assert!(y.iter().any(|v| v.abs() > 0.3), "{y:?}");
    largest
}

#[test]
fn a_resnet_of_torchvision() {
    let model = ResNet { inputs: 3, outputs: 5, depth: Depth::Eighteen, stem: Stem::Imagenet, width: 4 };
    let largest = difference("resnet18", |x| model.forward(x));
    assert!(largest < 1e-5, "{largest:e}");
}

#[test]
fn an_encoder_of_pytorch() {
    // PyTorch's default is [tokens,batch,width]
    let layer = TransformerEncoderLayer::new("", 16, 2).feedforward(24).batch_first(false);
    let model = TransformerEncoder::new("", layer, 2);
    let largest = difference("encoder", |x| model.forward(x));
    assert!(largest < 1e-5, "{largest:e}");
}

#[test]
fn a_network_of_other_sizes_is_told_what_differs() {
    let model = ResNet { inputs: 3, outputs: 7, depth: Depth::Eighteen, stem: Stem::Cifar, width: 4 };
    let g = Graph::with_mode(Mode::Eval);
    g.output("y", &model.forward(&g.input("x", &[1, 3, 32, 32])));
    let mut memory = Memory::new(0);
    Executable::new(citius_plan::compile(&g).unwrap(), &mut memory, Options::default()).unwrap();
    let message = Pretrained::read(&golden("resnet18")).unwrap().load(&mut memory).unwrap_err().to_string();
    for said in ["conv1.weight is [4,3,7,7] there and [4,3,3,3] here", "fc.bias is [5] there and [7] here"] {
        assert!(message.contains(said), "{message}");
    }
}
