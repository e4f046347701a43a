//! The CPU executor, every instruction set of this machine, against the reference and against PyTorch.

use citius_testkit::{Cpu, Tolerance, golden};

const F32: Tolerance = Tolerance { relative: 2e-6, absolute: 2e-6 };

fn each(test: impl Fn(&Cpu)) {
    Cpu::all().iter().for_each(test);
}

#[test]
fn map_ops() {
    each(|cpu| citius_testkit::map_ops(cpu, F32));
}

#[test]
fn big_ops() {
    each(|cpu| citius_testkit::big_ops(cpu, F32));
}

#[test]
fn products() {
    each(|cpu| citius_testkit::products(cpu, Tolerance::new(1e-5, 2e-5)));
}

/// Factors of 8 bits, sums of up to 328 products of numbers in ±2.
#[test]
fn products_in_bfloat16() {
    Cpu::with_halves().iter().for_each(|cpu| citius_testkit::products(cpu, Tolerance::new(0.01, 0.25)));
}

#[test]
fn composed() {
    each(|cpu| citius_testkit::composed(cpu, Tolerance::new(1e-4, 1e-4), 128));
}

#[test]
fn golden_ops() {
    each(|cpu| golden::ops(cpu, F32));
}

#[test]
fn golden_layers() {
    each(|cpu| golden::layers(cpu, F32));
}

#[test]
fn golden_losses() {
    each(|cpu| golden::losses(cpu, F32));
}

#[test]
fn golden_optimizers() {
    each(|cpu| golden::optimizers(cpu, F32));
}

#[test]
fn golden_schedules() {
    each(|cpu| golden::schedules(cpu, Tolerance::new(2e-5, 1e-9)));
}

#[test]
fn golden_models() {
    each(|cpu| golden::models(cpu, Tolerance::new(1e-5, 1e-7)));
}

#[test]
fn golden_recurrent() {
    each(|cpu| golden::recurrent(cpu, F32));
}
