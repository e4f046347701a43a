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

/// Products and their gradients in tiles that words are multiplied in by groups of warps, whichever way both sides lie, against exact
/// ones: 11 bits of each factor, rounded and not cut off, which would make all of them smaller by 0.0007.
#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn large_products_of_words() {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for [m, k, n] in [[1600, 256, 2048], [1600, 2048, 256], [1000, 300, 1036]] {
        let run = |precision: Precision| {
            let g = Graph::new();
            let (x, w) = (g.input("x", &[m, k]), g.input("w", &[k, n]));
            let y = x.matmul(&w);
            g.output("y", &y);
            for (name, gradient) in ["dx", "dw"].iter().zip(g.gradients(&(&y * &y).sum_all(), &[x, w])) {
                g.output(name, &gradient.expect("both count"));
            }
            let inputs = Values::from([("x".into(), numbers("x", m * k)), ("w".into(), numbers("w", k * n))]);
            let cuda = Cuda::in_precision(precision).expect("a GPU");
            cuda.run(&g, &Values::new(), &[inputs]).expect("one step").remove(0)
        };
        let (exact, rounded) = (run(Precision::Fp32), run(Precision::Tf32));
        for (name, expected) in &exact {
            let squares = dot(expected, expected);
            let difference: Vec<f64> = rounded[name].iter().zip(expected).map(|(a, b)| a - b).collect();
            let (off, along) = ((dot(&difference, &difference) / squares).sqrt(), dot(&difference, expected) / squares);
            let told = format!("{name} of {m}×{k}×{n} is off by {off:.6}, {along:.6} along it");
            assert!(off > 1e-6 && off <= 2e-3 && along.abs() <= 2e-4, "{told}");
            println!("{told}");
        }
    }
}

/// Gradients of convolutional networks with batch norm, residual blocks and the largest of windows. Where a rounded number falls on the
/// other side of a relu, or another element of a window is the largest, a gradient goes elsewhere: of a share f of them, all are off by √f,
/// and the squares of that add up layer by layer. As many are lost as gained, so little of it is along the gradient. What goes astray
/// is off by all of it.
#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn gradients_of_pictures_in_halves() {
    type Net = fn() -> Box<dyn Module>;
    // with their convolutions
    let nets: [(Net, usize, [usize; 4]); 7] = [
        (|| Box::new(ResNet9 { inputs: 3, outputs: 10, width: 64 }), 8, [32, 3, 16, 16]),
        (|| Box::new(ResNet9 { inputs: 3, outputs: 10, width: 8 }), 8, [48, 3, 21, 19]),
        (|| Box::new(ResNet9 { inputs: 3, outputs: 10, width: 5 }), 8, [48, 3, 16, 16]),
        (|| Box::new(Vgg { inputs: 3, outputs: 10, channels: vec![64, 128], dropout: 0.0 }), 4, [32, 3, 17, 13]),
        (|| Box::new(pooled(Conv2d::new("conv", 8, 128, 3), Pool::max(2), 128 * 6 * 5)), 1, [32, 8, 14, 13]),
        (|| Box::new(pooled(Conv2d::new("conv", 8, 24, 3), Pool::max(3).stride(2), 24 * 5 * 4)), 1, [32, 8, 13, 11]),
        (|| Box::new(pooled(Conv2d::new("conv", 4, 320, 3), Pool::max(8), 320 * 7 * 7)), 1, [4, 4, 64, 64]),
    ];
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let check = |net: &dyn Module, layers: usize, dims: [usize; 4]| {
        let exact = gradients(Precision::Fp32, net, dims);
        for (precision, of_layer) in [(Precision::Tf32, 0.06), (Precision::Fp16, 0.06), (Precision::Bf16, 0.15)] {
            let rounded = gradients(precision, net, dims);
            let most = of_layer * (layers as f64).sqrt();
            for (name, expected) in &exact {
                let squares = dot(expected, expected);
                let difference: Vec<f64> = rounded[name].iter().zip(expected).map(|(a, b)| a - b).collect();
                let off = (dot(&difference, &difference) / squares).sqrt();
                let along = dot(&difference, expected) / squares;
                let told = format!("{name} is off by {off:.4}, {along:.4} along it");
                assert!(off <= most && along.abs() <= most / 2.0, "{} {dims:?} {precision}: {told}", net.describe());
            }
        }
    };
    std::thread::scope(|scope| {
        for (net, layers, dims) in nets {
            scope.spawn(move || check(net().as_ref(), layers, dims));
        }
    });
}

/// Without batch norm: what is compared is the product itself.
fn pooled(conv: Conv2d, pool: Pool, width: usize) -> Sequential {
    let first = Sequential::new().with(conv).with(Activation::Relu).with(pool);
    first.with(Flatten).with(Linear::new("fc", width, 10))
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

/// As a short training has its kernels compiled.
#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn quickly_compiled() {
    each(|cuda| {
        let quick = Cuda { device: cuda.device.clone(), quickly: true, ..*cuda };
        golden::models(&quick, Tolerance::new(1e-5, 1e-7));
        golden::recurrent(&quick, F32);
    });
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn golden_recurrent() {
    each(|cuda| golden::recurrent(cuda, F32));
}
