//! The CUDA executor, as one block, a cluster and a grid, against the reference and against PyTorch.

use citius_cuda::Precision;
use citius_testkit::{Cuda, Tolerance, golden};

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
