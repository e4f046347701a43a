//! The CUDA executor, as one block, a cluster and a grid, against the reference and against PyTorch.

use citius_cuda::Precision;
use citius_graph::{DType, Graph};
use citius_nn::{Activation, Conv2d, Flatten, Linear, Module, Pool, ResNet9, Sequential, Vgg, cross_entropy};
use citius_testkit::{Cuda, Evaluate, Tolerance, Values, cases::numbers, golden};

const F32: Tolerance = Tolerance { relative: 2e-6, absolute: 2e-6 };

fn each(test: impl Fn(&Cuda) + Sync) {
    let all = Cuda::all().expect("a GPU");
    // compiling kernels takes the time
    std::thread::scope(|scope| all.iter().for_each(|cuda| drop(scope.spawn(|| test(cuda)))));
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn map_ops() {
    each(|cuda| citius_testkit::map_ops(cuda, F32));
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn big_ops() {
    each(|cuda| citius_testkit::big_ops(cuda, F32));
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn wide_recurrences() {
    each(|cuda| citius_testkit::wide_recurrences(cuda, Tolerance::new(2e-5, 2e-5)));
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn products() {
    each(|cuda| citius_testkit::products(cuda, Tolerance::new(1e-5, 2e-5)));
}

/// Factors of 11 and 8 bits, sums of up to 328 products of numbers in ±2.
#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn products_on_matrix_units() {
    for (precision, absolute) in [(Precision::Tf32, 0.03), (Precision::Bf16, 0.25), (Precision::Fp16, 0.03)] {
        let cuda = Cuda::in_precision(precision).expect("a GPU");
        citius_testkit::products(&cuda, Tolerance::new(0.01, absolute));
    }
}

/// Gradients of convolutional networks with batch norm, residual blocks and the largest of windows. Numbers of 8 bits are off by up to
/// 0.4 %, which deep networks multiply; a gradient that goes astray is off by all of it.
#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn gradients_of_pictures_in_halves() {
    let net9 = |width| ResNet9 { inputs: 3, outputs: 10, width };
    let vgg = Vgg { inputs: 3, outputs: 10, channels: vec![64, 128], dropout: 0.0 };
    let plain = Sequential::new()
        .with(Conv2d::new("first", 3, 64, 3))
        .with(Activation::Relu)
        .with(Pool::max(2))
        .with(Conv2d::new("second", 64, 128, 3))
        .with(Activation::Relu)
        .with(Pool::max(2))
        .with(Flatten)
        .with(Linear::new("fc", 128 * 2 * 2, 10));
    let overlapping = Sequential::new()
        .with(Conv2d::new("first", 8, 24, 3).padding(1))
        .with(Pool::max(3).stride(2))
        .with(Flatten)
        .with(Linear::new("fc", 24 * 6 * 5, 10));
    let nets: [(&dyn Module, [usize; 4]); 6] = [
        (&net9(64), [32, 3, 16, 16]),
        (&net9(8), [48, 3, 21, 19]),
        (&net9(5), [48, 3, 16, 16]),
        (&vgg, [32, 3, 17, 13]),
        (&plain, [32, 3, 14, 14]),
        (&overlapping, [32, 8, 13, 11]),
    ];
    for (net, dims) in nets {
        let exact = gradients(Precision::Fp32, net, dims);
        for (precision, share) in [(Precision::Tf32, 0.02), (Precision::Fp16, 0.02), (Precision::Bf16, 0.1)] {
            let halves = gradients(precision, net, dims);
            for (name, expected) in exact.iter() {
                let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
                let off = norm(&mut halves[name].iter().zip(expected).map(|(a, b)| a - b));
                let of = norm(&mut expected.iter().copied());
                eprintln!("{} {dims:?} {precision}: {name}: {:.5} {of:.2e}", net.describe(), off / of);
                assert!(
                    off <= share * of,
                    "{} of {dims:?}, {precision}: {name} is off by {}",
                    net.describe(),
                    off / of
                );
            }
        }
    }
}

/// Of cross-entropy, by parameter.
fn gradients(precision: Precision, net: &dyn Module, dims: [usize; 4]) -> Values {
    let g = Graph::new();
    let loss = cross_entropy(&net.forward(&g.input("x", &dims)), &g.input_of("y", &[dims[0]], DType::I32), 0.0, None);
    let (leaves, parameters): (Vec<_>, Vec<_>) = g.trainable().into_iter().unzip();
    // small numbers of 16 bits have few digits
    for (leaf, gradient) in leaves.iter().zip(g.gradients(&(loss * 256.0), &parameters)) {
        g.output(&leaf.name, &gradient.expect("all of the network counts"));
    }
    let classes = (0..dims[0]).map(|i| (i * 7 % 10) as f64).collect();
    let inputs = Values::from([("x".into(), numbers("x", dims.iter().product())), ("y".into(), classes)]);
    let cuda = Cuda::in_precision(precision).expect("a GPU");
    cuda.run(&g, &Values::new(), &[inputs]).expect("one step").remove(0)
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn composed() {
    each(|cuda| citius_testkit::composed(cuda, Tolerance::new(1e-4, 1e-4), 128));
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn golden_ops() {
    each(|cuda| golden::ops(cuda, F32));
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn golden_layers() {
    each(|cuda| golden::layers(cuda, F32));
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn golden_losses() {
    each(|cuda| golden::losses(cuda, F32));
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn golden_optimizers() {
    each(|cuda| golden::optimizers(cuda, F32));
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn golden_schedules() {
    each(|cuda| golden::schedules(cuda, Tolerance::new(2e-5, 1e-9)));
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn golden_models() {
    each(|cuda| golden::models(cuda, Tolerance::new(1e-5, 1e-7)));
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn golden_recurrent() {
    each(|cuda| golden::recurrent(cuda, F32));
}
