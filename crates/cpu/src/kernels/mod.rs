//! A kernel per kind of work, matched exhaustively. Each cuts its work into units by shape alone, never by the number of
//! threads, so that results are the same bits for any number.

mod argmax;
mod gather;
mod loops;
mod matmul;
mod random;
mod scatter;
mod transpose;

use std::ops::Range;

use citius_plan::{Plan, Work};

use crate::isa::Isa;

/// What a step is keyed by.
pub struct Context {
    pub seed: u64,
    pub step: u64,
}

/// A call with its kernel chosen and its operands resolved.
pub enum Task {
    Loop(loops::LoopTask),
    Transpose(transpose::TransposeTask),
    Matmul(matmul::MatmulTask),
    Gather(gather::GatherTask),
    Scatter(scatter::ScatterTask),
    Random(random::RandomTask),
    ArgMax(argmax::ArgMaxTask),
}

impl Task {
    pub fn new(work: &Work, plan: &Plan, isa: Isa) -> Task {
        match work {
            Work::Loop(l) => match transpose::TransposeTask::new(l, isa) {
                Some(task) => Task::Transpose(task),
                None => Task::Loop(loops::LoopTask::new(l, isa)),
            },
            Work::Matmul(m) => Task::Matmul(matmul::MatmulTask::new(m, isa)),
            Work::Gather(g) => Task::Gather(gather::GatherTask::new(g, plan, isa)),
            Work::Scatter(s) => Task::Scatter(scatter::ScatterTask::new(s)),
            Work::Random(r) => Task::Random(random::RandomTask::new(r)),
            Work::ArgMax(a) => Task::ArgMax(argmax::ArgMaxTask::new(a)),
        }
    }

    /// Points the kernel at its buffers. `next` finds where the next step's values of a fed input are.
    pub fn bind(&mut self, pointers: &[*mut u8], next: &dyn Fn(usize) -> Option<*const u8>) {
        match self {
            Task::Loop(t) => t.bind(pointers),
            Task::Transpose(t) => t.bind(pointers),
            Task::Matmul(t) => t.bind(pointers),
            Task::Gather(t) => t.bind(pointers, next),
            Task::Scatter(t) => t.bind(pointers),
            Task::Random(t) => t.bind(pointers),
            Task::ArgMax(t) => t.bind(pointers),
        }
    }

    /// Pieces that can go to different threads.
    pub fn units(&self) -> usize {
        match self {
            Task::Loop(t) => t.units(),
            Task::Transpose(t) => t.units(),
            Task::Matmul(t) => t.units(),
            Task::Gather(t) => t.units(),
            Task::Scatter(t) => t.units(),
            Task::Random(t) => t.units(),
            Task::ArgMax(t) => t.units(),
        }
    }

    /// Between waves: lets a gather ask for part `n` of `of` of what these units will read in the next step.
    ///
    /// SAFETY: as [`Task::run`].
    pub unsafe fn ask_ahead(&self, units: &Range<usize>, n: usize, of: usize) {
        if let Task::Gather(t) = self {
            t.ask_ahead(units, n, of);
        }
    }

    /// SAFETY: `bind` was called with pointers to live buffers of the plan, and no other thread runs the same units or touches
    /// their targets before the wave's barrier.
    pub unsafe fn run(&self, units: Range<usize>, context: &Context) {
        match self {
            Task::Loop(t) => t.run(units),
            Task::Transpose(t) => t.run(units),
            Task::Matmul(t) => t.run(units),
            Task::Gather(t) => t.run(units),
            Task::Scatter(t) => t.run(units),
            Task::Random(t) => t.run(units, context),
            Task::ArgMax(t) => t.run(units),
        }
    }
}
