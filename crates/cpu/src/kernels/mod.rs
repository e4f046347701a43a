//! A kernel per kind of work, matched exhaustively. Each cuts its work into units by shape alone, never by the number of
//! threads, so that results are the same bits for any number. (Strips of products on matrix units are as long as there are threads
//! for; each of their sums is the same whatever the strip.)

mod argmax;
mod gather;
#[cfg(target_arch = "x86_64")]
mod in_place;
mod loops;
mod matmul;
#[cfg(target_arch = "x86_64")]
mod matrix;
#[cfg(target_arch = "x86_64")]
mod nonzeros;
#[cfg(target_arch = "x86_64")]
mod pairs;
#[cfg(target_arch = "x86_64")]
mod parts;
mod random;
mod recurrence;
mod scatter;
#[cfg(target_arch = "x86_64")]
mod skipping;
#[cfg(target_arch = "x86_64")]
mod skipping_pairs;
mod transpose;

use std::ops::Range;

use citius_plan::{Call, Plan, Work};

use crate::halves::Halves;
#[cfg(target_arch = "x86_64")]
use crate::halves::{Packing, Product};
use crate::isa::Isa;
use crate::prefetch::Share;

#[cfg(target_arch = "x86_64")]
pub use {
    matrix::{BLOCK, MatrixTask},
    skipping::FEW as FEW_SKIPPED,
    skipping::Sides,
    skipping_pairs::{FEW, PANEL},
};

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
    #[cfg(target_arch = "x86_64")]
    Enter(nonzeros::EnterTask),
    #[cfg(target_arch = "x86_64")]
    Pairs(pairs::PairsTask),
    #[cfg(target_arch = "x86_64")]
    SkippingPairs(skipping_pairs::SkippingPairs),
    #[cfg(target_arch = "x86_64")]
    Parts(parts::PartsTask),
    #[cfg(target_arch = "x86_64")]
    Matrix(MatrixTask),
    Scatter(scatter::ScatterTask),
    Random(random::RandomTask),
    ArgMax(argmax::ArgMaxTask),
    Recurrence(recurrence::RecurrenceTask),
    RecurrenceGradient(recurrence::RecurrenceGradientTask),
}

/// Batches of bytes that are listed by what is not zero, with the buffers that hold them.
#[cfg(target_arch = "x86_64")]
pub type Found = Vec<(citius_plan::BufferId, std::sync::Arc<nonzeros::Nonzeros>)>;
#[cfg(not(target_arch = "x86_64"))]
pub type Found = ();

/// Buffers whose zeros are listed as they enter: products leave them out already.
#[cfg(target_arch = "x86_64")]
pub fn listed(plan: &Plan, isa: Isa) -> Vec<citius_plan::BufferId> {
    nonzeros::Nonzeros::find(plan, isa).into_iter().map(|found| found.0).collect()
}

/// The calls of a plan as tasks for up to so many threads. `Err`: the system gives no memory for the code of one that has no other way.
pub fn tasks(plan: &Plan, isa: Isa, halves: &Halves, threads: usize) -> Result<Vec<Task>, String> {
    #[cfg(target_arch = "x86_64")]
    let found = nonzeros::Nonzeros::find(plan, isa);
    #[cfg(not(target_arch = "x86_64"))]
    let found = ();
    let task = |(i, call): (usize, &Call)| match Task::of_halves(&call.work, i, halves, threads) {
        Some(task) => Ok(task),
        None if halves.products.contains_key(&i) => Err(format!("no executable memory for call {i} ({})", call.label)),
        None => Ok(Task::new(&call.work, plan, isa, &found)),
    };
    let tasks: Vec<Task> = plan.calls.iter().enumerate().map(task).collect::<Result<_, _>>()?;
    #[cfg(target_arch = "x86_64")]
    for (buffer, lists) in &found {
        let walks = |t: &&Task| matches!(t, Task::Matmul(m) if m.sparse().is_some_and(|s| s.walks(lists)));
        lists.settle(plan, *buffer, tasks.iter().filter(walks).count());
    }
    Ok(tasks)
}

impl Task {
    /// A copy that packs pairs, or a product of pairs.
    #[cfg(target_arch = "x86_64")]
    fn of_halves(work: &Work, call: usize, halves: &Halves, threads: usize) -> Option<Task> {
        match work {
            Work::Loop(l) => halves.packs.get(&call).map(|packing| match packing {
                Packing::Tiles(tiling) => Task::Parts(parts::PartsTask::new(l, *tiling)),
                packing => Task::Pairs(pairs::PairsTask::new(l, *packing)),
            }),
            Work::Matmul(m) => match halves.products.get(&call)? {
                Product::Pairs => matmul::MatmulTask::of_pairs(m).map(Task::Matmul),
                Product::Tiles { parts, raw, flipped } => {
                    MatrixTask::new(m, *parts, *raw, *flipped, threads).map(Task::Matrix)
                }
                Product::Skipping(sides) => Some(Task::SkippingPairs(skipping_pairs::SkippingPairs::new(m, *sides))),
            },
            _ => None,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of_halves(_: &Work, _: usize, _: &Halves, _: usize) -> Option<Task> {
        None
    }

    pub fn new(work: &Work, plan: &Plan, isa: Isa, found: &Found) -> Task {
        #[cfg(target_arch = "x86_64")]
        if let Some(task) = nonzeros::EnterTask::new(work, plan, found) {
            return Task::Enter(task);
        }
        match work {
            Work::Loop(l) => match transpose::TransposeTask::new(l, isa) {
                Some(task) => Task::Transpose(task),
                None => Task::Loop(loops::LoopTask::new(l, isa)),
            },
            Work::Matmul(m) => Task::Matmul(matmul::MatmulTask::new(m, plan, isa, found)),
            Work::Gather(g) => Task::Gather(gather::GatherTask::new(g, plan, isa)),
            Work::Scatter(s) => Task::Scatter(scatter::ScatterTask::new(s)),
            Work::Random(r) => Task::Random(random::RandomTask::new(r)),
            Work::ArgMax(a) => Task::ArgMax(argmax::ArgMaxTask::new(a)),
            Work::Recurrence(r) => Task::Recurrence(recurrence::RecurrenceTask::new(r, isa)),
            Work::RecurrenceGradient(r) => Task::RecurrenceGradient(recurrence::RecurrenceGradientTask::new(r, isa)),
        }
    }

    /// Points the kernel at its buffers. `next` finds where the next step's values of a fed input are.
    pub fn bind(&mut self, pointers: &[*mut u8], next: &dyn Fn(usize) -> Option<*const u8>) {
        match self {
            Task::Loop(t) => t.bind(pointers),
            Task::Transpose(t) => t.bind(pointers),
            Task::Matmul(t) => t.bind(pointers),
            Task::Gather(t) => t.bind(pointers, next),
            #[cfg(target_arch = "x86_64")]
            Task::Enter(t) => t.bind(pointers, next),
            #[cfg(target_arch = "x86_64")]
            Task::Pairs(t) => t.bind(pointers),
            #[cfg(target_arch = "x86_64")]
            Task::SkippingPairs(t) => t.bind(pointers),
            #[cfg(target_arch = "x86_64")]
            Task::Parts(t) => t.bind(pointers),
            #[cfg(target_arch = "x86_64")]
            Task::Matrix(t) => t.bind(pointers),
            Task::Scatter(t) => t.bind(pointers),
            Task::Random(t) => t.bind(pointers),
            Task::ArgMax(t) => t.bind(pointers),
            Task::Recurrence(t) => t.bind(pointers),
            Task::RecurrenceGradient(t) => t.bind(pointers),
        }
    }

    /// Pieces that can go to different threads.
    pub fn units(&self) -> usize {
        match self {
            Task::Loop(t) => t.units(),
            Task::Transpose(t) => t.units(),
            Task::Matmul(t) => t.units(),
            Task::Gather(t) => t.units(),
            #[cfg(target_arch = "x86_64")]
            Task::Enter(t) => t.units(),
            #[cfg(target_arch = "x86_64")]
            Task::Pairs(t) => t.units(),
            #[cfg(target_arch = "x86_64")]
            Task::SkippingPairs(t) => t.units(),
            #[cfg(target_arch = "x86_64")]
            Task::Parts(t) => t.units(),
            #[cfg(target_arch = "x86_64")]
            Task::Matrix(t) => t.units(),
            Task::Scatter(t) => t.units(),
            Task::Random(t) => t.units(),
            Task::ArgMax(t) => t.units(),
            Task::Recurrence(t) => t.units(),
            Task::RecurrenceGradient(t) => t.units(),
        }
    }

    /// The part of its arithmetic that a call is expected to do.
    pub fn share(&self) -> f64 {
        match self {
            Task::Matmul(t) => t.share(),
            #[cfg(target_arch = "x86_64")]
            Task::SkippingPairs(t) => t.share(),
            _ => 1.0,
        }
    }

    /// How many times as many operations as multiply-adds in 32 bits its instructions can do at most.
    pub fn pace(&self) -> f64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Task::Matmul(t) if t.is_of_pairs() => 2.0,
            #[cfg(target_arch = "x86_64")]
            Task::SkippingPairs(_) => 2.0,
            #[cfg(target_arch = "x86_64")]
            Task::Matrix(t) => t.pace(),
            _ => 1.0,
        }
    }

    /// About `units` units that are best run together.
    pub fn grain(&self, units: usize) -> usize {
        match self {
            Task::Matmul(t) => t.grain(units),
            #[cfg(target_arch = "x86_64")]
            Task::SkippingPairs(_) => 1,
            #[cfg(target_arch = "x86_64")]
            Task::Matrix(t) => t.grain(units),
            _ => units.max(1),
        }
    }

    /// Between waves: lets a gather ask for a share of what these units will read in the next step.
    ///
    /// SAFETY: as [`Task::run`].
    pub unsafe fn ask_ahead(&self, units: &Range<usize>, share: Share) {
        match self {
            Task::Gather(t) => t.ask_ahead(units, share),
            #[cfg(target_arch = "x86_64")]
            Task::Enter(t) => t.ask_ahead(units, share),
            _ => {}
        }
    }

    /// Lines of memory that [`Task::ask_ahead`] asks for in all.
    pub fn lines_ahead(&self) -> usize {
        match self {
            Task::Gather(t) => t.lines_ahead(),
            #[cfg(target_arch = "x86_64")]
            Task::Enter(t) => t.lines_ahead(),
            _ => 0,
        }
    }

    /// Does it read rows that lie anywhere in memory?
    pub fn gathers(&self) -> bool {
        match self {
            Task::Gather(_) => true,
            #[cfg(target_arch = "x86_64")]
            Task::Enter(_) => true,
            _ => false,
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
            #[cfg(target_arch = "x86_64")]
            Task::Enter(t) => t.run(units),
            #[cfg(target_arch = "x86_64")]
            Task::Pairs(t) => t.run(units),
            #[cfg(target_arch = "x86_64")]
            Task::SkippingPairs(t) => t.run(units),
            #[cfg(target_arch = "x86_64")]
            Task::Parts(t) => t.run(units),
            #[cfg(target_arch = "x86_64")]
            Task::Matrix(t) => t.run(units),
            Task::Scatter(t) => t.run(units),
            Task::Random(t) => t.run(units, context),
            Task::ArgMax(t) => t.run(units),
            Task::Recurrence(t) => t.run(units),
            Task::RecurrenceGradient(t) => t.run(units),
        }
    }
}
