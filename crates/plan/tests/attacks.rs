//! Plans made by hand that would leave their memory: each is refused.
#![forbid(unsafe_code)]

use citius_graph::{Graph, Init};
use citius_plan::{Instr, Plan, Storage, Work, compile, verify};

/// A step with a product, a loop and scratch values.
fn honest() -> Plan {
    let g = Graph::new();
    let w = g.parameter("w", &[8, 8], Init::Zeros);
    let y = g.input("x", &[4, 8]).matmul(&w).relu();
    g.output("y", &y);
    g.output("loss", &y.square().sum_all());
    compile(&g).expect("a plan")
}

fn refused(change: impl Fn(&mut Plan)) -> String {
    let mut plan = honest();
    change(&mut plan);
    verify(&plan).expect_err("a plan that leaves its memory")
}

fn first_scratch(plan: &mut Plan) -> &mut Storage {
    let scratch = plan.buffers.iter_mut().find(|b| matches!(b.storage, Storage::Scratch { .. }));
    &mut scratch.expect("a scratch buffer").storage
}

fn product(plan: &mut Plan) -> &mut citius_plan::Matmul {
    let works = plan.calls.iter_mut().map(|call| &mut call.work);
    works.filter_map(|work| if let Work::Matmul(m) = work { Some(m) } else { None }).next().expect("a product")
}

#[test]
fn an_honest_plan_is_accepted() {
    verify(&honest()).unwrap();
}

#[test]
fn scratch_beyond_the_arena_is_refused() {
    assert!(refused(|p| *first_scratch(p) = Storage::Scratch { offset: 1 << 30 }).contains("beyond the arena"));
    assert!(refused(|p| *first_scratch(p) = Storage::Scratch { offset: usize::MAX - 63 }).contains("beyond the arena"));
    assert!(refused(|p| *first_scratch(p) = Storage::Scratch { offset: 4 }).contains("no multiple"));
    assert!(refused(|p| p.scratch_bytes = 0).contains("beyond the arena"));
    // of no call, and read by its name after the step
    assert!(refused(|p| (p.calls, p.scratch_bytes) = (vec![], 0)).contains("beyond the arena"));
}

#[test]
fn strides_that_wrap_around_are_refused() {
    // −1 as an unsigned stride
    refused(|p| product(p).a.row = usize::MAX);
    refused(|p| product(p).a.col = usize::MAX / 2 + 1);
    refused(|p| product(p).operands[0].offset = usize::MAX);
    refused(|p| product(p).operands[0].row = usize::MAX / 3 + 1);
    refused(|p| product(p).a.outer = vec![1, 1]);
}

#[test]
fn sizes_that_wrap_around_are_refused() {
    let huge = |p: &mut Plan| p.buffers[0].shape = vec![1 << 33, 1 << 33].into();
    assert!(refused(huge).contains("larger than memory"));
    refused(|p| product(p).m = usize::MAX);
}

#[test]
fn what_is_not_there_is_refused() {
    refused(|p| product(p).a.buffer = 999);
    refused(|p| p.outputs.push(("z".into(), 999)));
    refused(|p| product(p).program.instrs.push(Instr::Load(77)));
    refused(|p| product(p).program.instrs.push(Instr::Unary(citius_graph::scalar::Unary::Neg, 500)));
    refused(|p| product(p).stores[0].0 = 500);
    refused(|p| product(p).stores[0].1 = 500);
}

#[test]
fn a_constant_shorter_than_its_shape_is_refused() {
    let short = |p: &mut Plan| *first_scratch(p) = Storage::Constant(vec![0.0]);
    assert!(refused(short).contains("holds 1 numbers"));
}
