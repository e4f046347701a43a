//! Values that are computed again on the way back: the same numbers, chance included, for less memory.

use citius_graph::{DType, Graph, LeafKind, Tensor};
use citius_nn::{
    Activation, Depth, Gpt, Learning, Linear, Module, ResNet, Sequential, Sgd, Stem, TransformerClassifier, Vgg,
    checkpoint, cross_entropy, gru,
};
use citius_plan::{Plan, compile};
use citius_testkit::{Cpu, Evaluate, Naive, Tolerance, Values, cases::numbers, compare};

/// The loss and all updates of a step.
fn step(save_memory: bool, model: &dyn Fn(&Graph) -> Tensor, classes: &[usize]) -> Graph {
    let g = Graph::new();
    g.save_memory(save_memory);
    let logits = model(&g);
    let width = logits.dims().last().copied().unwrap();
    let rows = logits.elements() / width;
    let loss = cross_entropy(
        &logits.reshape(&[rows, width]),
        &g.input_of("y", classes, DType::I32).reshape(&[rows]),
        0.0,
        None,
    );
    let learned = Learning::new(Sgd { momentum: 0.9, ..Sgd::default() }, 0.05).probes(false).record(&loss).unwrap();
    for p in &learned.parameters {
        g.output(&format!("after {}", p.name), &p.value);
    }
    g
}

fn inputs(g: &Graph, steps: usize, classes: usize) -> Vec<Values> {
    let of_step = |step: usize| {
        let given = g.leaves().into_iter().filter(|l| l.kind == LeafKind::Input);
        given
            .map(|leaf| {
                let t = g.tensor(leaf.node);
                let values = numbers(&format!("{} {step}", leaf.name), t.elements());
                let whole = |v: f64| ((v * 1000.0) as i64).rem_euclid(classes as i64) as f64;
                let values = if t.dtype() == DType::I32 { values.into_iter().map(whole).collect() } else { values };
                (leaf.name, values)
            })
            .collect()
    };
    (0..steps).map(of_step).collect()
}

/// Three steps with and without, which must be equal on the reference and nearly so on the processor.
fn same(name: &str, model: &dyn Fn(&Graph) -> Tensor, y: &[usize], classes: usize) -> (Plan, Plan) {
    let (plain, again) = (step(false, model, y), step(true, model, y));
    assert!(plain.segments() == 0 && again.segments() > 0, "{name}");
    let given = inputs(&plain, 3, classes);
    let check = |executor: &dyn Evaluate, tolerance: Tolerance| {
        let [a, b] = [&plain, &again].map(|g| executor.run(g, &Values::new(), &given).unwrap());
        for (step, (a, b)) in a.iter().zip(&b).enumerate() {
            assert!(a["loss"][0].is_finite());
            for (output, values) in a {
                compare(&b[output], values, tolerance)
                    .unwrap_or_else(|e| panic!("{name} on {}, step {step}, {output}: {e}", executor.name()));
            }
        }
    };
    check(&Naive, Tolerance::new(1e-12, 1e-13));
    for cpu in Cpu::all() {
        check(&cpu, Tolerance::new(2e-5, 2e-6));
    }
    (compile(&plain).unwrap(), compile(&again).unwrap())
}

#[test]
fn residual_blocks_with_batch_norm() {
    // sixteen values a channel at the end: batch norm over three or so magnifies rounding
    let net = ResNet { inputs: 1, outputs: 3, depth: Depth::Eighteen, stem: Stem::Cifar, width: 2 };
    same("resnet", &|g| net.forward(&g.input("x", &[4, 1, 12, 12])), &[4], 3);
    let net = Vgg { inputs: 1, outputs: 3, channels: vec![2, 3], dropout: 0.2 };
    same("vgg", &|g| net.forward(&g.input("x", &[4, 1, 8, 8])), &[4], 3);
}

/// Dropout draws the same numbers twice.
#[test]
fn transformers_with_dropout() {
    let net = TransformerClassifier {
        vocabulary: 3,
        width: 8,
        heads: 2,
        layers: 3,
        classes: 3,
        feedforward: 16,
        dropout: 0.3,
    };
    same("classifier", &|g| net.forward(&g.input_of("x", &[4, 5], DType::I32)), &[4], 3);
    let net = Gpt { vocabulary: 3, context: 6, width: 8, heads: 2, layers: 2, dropout: 0.2, tied: true };
    same("gpt", &|g| net.forward(&g.input_of("x", &[3, 6], DType::I32)), &[3, 6], 3);
}

#[test]
fn marked_by_hand() {
    let plain = |g: &Graph, mark: bool| {
        let block = |i: usize| {
            let layers = Sequential::new().with(Linear::new(format!("{i}.a"), 6, 12)).with(Activation::Gelu);
            layers.with(Linear::new(format!("{i}.b"), 12, 6)).with(Activation::Tanh)
        };
        let x = g.input("x", &[5, 6]);
        let h = (0..4).fold(x, |h, i| if mark { checkpoint(block(i)).forward(&h) } else { block(i).forward(&h) });
        let h = if mark { checkpoint(Last).forward(&h) } else { Last.forward(&h) };
        Linear::new("head", 4, 3).forward(&h)
    };
    let (a, b) = (step(false, &|g| plain(g, false), &[5]), step(false, &|g| plain(g, true), &[5]));
    assert_eq!((a.segments(), b.segments()), (0, 5));
    let given = inputs(&a, 2, 3);
    for executor in Cpu::all() {
        let [x, y] = [&a, &b].map(|g| executor.run(g, &Values::new(), &given).unwrap());
        for (output, values) in &x[1] {
            compare(&y[1][output], values, Tolerance::new(2e-5, 2e-6)).unwrap_or_else(|e| panic!("{output}: {e}"));
        }
    }
}

/// A recurrent layer over rows seen as sequences.
struct Last;

impl Module for Last {
    fn forward(&self, x: &Tensor) -> Tensor {
        let rows = x.dims()[0];
        let h = gru("rnn", 2, 4).batch_first(true).forward(&x.reshape(&[rows, 3, 2]));
        h.slice(1, 2, 3).reshape(&[rows, 4])
    }

    fn describe(&self) -> String {
        "last state".into()
    }
}

/// What is kept is what enters each block, and the inner values of one block at a time.
#[test]
fn memory_is_saved() {
    let net = |layers: usize| TransformerClassifier {
        vocabulary: 30,
        width: 32,
        heads: 4,
        layers,
        classes: 10,
        feedforward: 128,
        dropout: 0.1,
    };
    let bytes = |layers: usize, save: bool| {
        let g = step(save, &|g| net(layers).forward(&g.input_of("x", &[16, 24], DType::I32)), &[16]);
        compile(&g).unwrap().scratch_bytes
    };
    let (plain, again) = (bytes(8, false), bytes(8, true));
    assert!(again * 2 < plain, "{again} of {plain}");
    // a layer more costs little more than what enters it
    let [more_plain, more] =
        [(false, plain), (true, again)].map(|(save, before)| bytes(9, save) as i64 - before as i64);
    assert!(more * 4 < more_plain, "{more} of {more_plain}");

    let net = ResNet { inputs: 3, outputs: 10, depth: Depth::ThirtyFour, stem: Stem::Cifar, width: 4 };
    let bytes = |save: bool| {
        let g = step(save, &|g| net.forward(&g.input("x", &[8, 3, 32, 32])), &[8]);
        compile(&g).unwrap().scratch_bytes
    };
    let (plain, again) = (bytes(false), bytes(true));
    assert!(again * 3 < plain * 2, "{again} of {plain}");
}
