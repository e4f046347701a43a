use std::cell::Cell;
use std::sync::Arc;
use std::thread::available_parallelism;

use citius_graph::{DType, LeafKind, OutOfRange, Shape};
use citius_plan::{Buffer, Plan, Storage};

use crate::copies::{self, Copies, Own};
use crate::halves::{Goals, LARGE_PRODUCT, halve_products};
use crate::isa::Isa;
use crate::kernels::{self, Task};
use crate::memory::{Aligned, Memory};
use crate::pages::enlarge_pages;
use crate::pool::{Barrier, Pool};
use crate::prefetch::Wanted;
use crate::run::{Inputs, MOST_SLOTS, Slot, View};
use crate::schedule::{Schedule, Span};
use crate::timing::{self, Stopwatch, Times, Timing};
use crate::tuning::Tuning;

/// More would only wait for each other.
const MOST_THREADS: usize = 256;

/// How to run a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// 0: up to one per core, as many as turn out fastest; of large steps all, until that becomes slower.
    pub threads: usize,
    /// `None`: the best that this machine has.
    pub isa: Option<Isa>,
    /// Products of at least so many operations are multiplied in bfloat16, where the processor has it.
    pub halves_from: Option<usize>,
    /// Products of at least so many operations are multiplied in parts on matrix units, as exactly as in 32 bits, where the processor
    /// has them. `None`: those that gain.
    pub thirds_from: Option<usize>,
    /// Which steps are timed, call by call.
    pub timing: Timing,
}

#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    #[error("input \"{name}\" has {found} {found_type} values, the step was compiled for {expected} {expected_type}")]
    Input { name: String, found: usize, found_type: DType, expected: usize, expected_type: DType },
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    #[error("\"{name}\" is {found} in this memory, the step was compiled for {expected}")]
    Leaf { name: String, found: Shape, expected: Shape },
    #[error("{0} threads are more than the {MOST_THREADS} that an executable can use")]
    TooManyThreads(usize),
    #[error("\"{0}\" is missing from this memory: call admit() with the plan first")]
    Missing(String),
    #[error("this plan breaks its own rules: {0}")]
    Plan(String),
    #[error("{0}: leave some memory to this process, or allow it to make code")]
    Code(String),
    #[error("no memory for {0} bytes of weights or intermediate results: use a smaller network or a smaller batch")]
    OutOfMemory(usize),
    #[error("cannot start threads: {0}; leave this process more memory and threads, or use fewer of them")]
    Threads(#[from] std::io::Error),
}

/// A plan with its kernels, its arena and its threads.
pub struct Executable {
    plan: Plan,
    isa: Isa,
    /// Kept alive for the pointers into it.
    _arena: Aligned,
    /// Contents of constant buffers; kept alive for their pointers.
    _constants: Vec<Aligned>,
    step_value: Aligned,
    _slot_bytes: Vec<Aligned>,
    leaves: Vec<(usize, Arc<Aligned>)>,
    pointers: Vec<*mut u8>,
    /// Where the outputs are.
    pub(crate) views: Vec<View>,
    pub(crate) slots: Vec<Slot>,
    /// The same of each thread but 0, where it has copies.
    pub(crate) own: Vec<Own>,
    /// What thread 1 of two copies when a step begins (`copies.rs`): from, to, bytes.
    pub(crate) early: Vec<(*const u8, *mut u8, usize)>,
    /// The tasks point where `pointers` do.
    bound: bool,
    /// The plan's calls, then those on copies.
    pub(crate) tasks: Vec<Task>,
    copies: Copies,
    /// `schedules[t − 1]` for t threads.
    pub(crate) schedules: Vec<Schedule>,
    pub(crate) pool: Pool,
    pub(crate) barrier: Barrier,
    pub(crate) tuning: Tuning,
    pub(crate) wanted: Wanted,
    pub(crate) stopwatch: Stopwatch,
}

// SAFETY: the pointers lead to bytes this struct owns, shares by Arc, or re-binds at each `run`; running takes `&mut self`.
unsafe impl Send for Executable {}
// SAFETY: during `run` threads share `&self`; the schedule gives them disjoint elements between barriers.
unsafe impl Sync for Executable {}

impl Executable {
    /// Compiles kernels and takes memory. New leaves of the plan are admitted to `memory`.
    pub fn new(plan: Plan, memory: &mut Memory, options: Options) -> Result<Executable, CpuError> {
        if options.threads > MOST_THREADS {
            return Err(CpuError::TooManyThreads(options.threads));
        }
        citius_plan::verify(&plan).map_err(CpuError::Plan)?;
        memory.admit(&plan)?;
        let isa = options.isa.unwrap_or_else(Isa::detect).min(Isa::detect());
        let goals = Goals { halves: options.halves_from, thirds: options.thirds_from.unwrap_or(LARGE_PRODUCT) };
        let (plan, halves) = halve_products(plan, isa, goals);
        citius_plan::verify(&plan).map_err(CpuError::Plan)?;
        let cores = available_parallelism().map_or(1, |n| n.get());
        let tuning = Tuning::of(options.threads, cores, plan.total().flops);
        let most = tuning.candidates().iter().copied().max().unwrap_or(1);
        let arena = Aligned::try_new(plan.scratch_bytes)?;
        let step_value = Aligned::new(64);
        let mut constants = Vec::new();
        let mut leaves = Vec::new();
        let mut pointers = vec![std::ptr::null_mut(); plan.buffers.len()];
        for (id, buffer) in plan.buffers.iter().enumerate() {
            match &buffer.storage {
                // SAFETY: the planner sized the arena to hold every scratch buffer at its offset.
                Storage::Scratch { offset } => pointers[id] = unsafe { arena.pointer().add(*offset) },
                Storage::Step => pointers[id] = step_value.pointer(),
                Storage::Constant(values) => {
                    let bytes = Aligned::try_new(values.len() * 4)?;
                    // SAFETY: just allocated with room for these values.
                    unsafe {
                        std::ptr::copy_nonoverlapping(values.as_ptr() as *const u8, bytes.pointer(), values.len() * 4)
                    };
                    pointers[id] = bytes.pointer();
                    constants.push(bytes);
                }
                Storage::Leaf { kind: LeafKind::Input, .. } => {}
                Storage::Leaf { name, .. } => {
                    let leaf = memory.leaf(name).ok_or_else(|| CpuError::Missing(name.clone()))?;
                    if leaf.shape != buffer.shape {
                        let (name, found, expected) = (name.clone(), leaf.shape.clone(), buffer.shape.clone());
                        return Err(CpuError::Leaf { name, found, expected });
                    }
                    pointers[id] = leaf.bytes.pointer();
                    leaves.push((id, leaf.bytes.clone()));
                }
            }
        }
        let mut tasks = kernels::tasks(&plan, isa, &halves, most).map_err(CpuError::Code)?;
        let mut schedules: Vec<Schedule> = (1..=most).map(|t| Schedule::new(&plan, &tasks, t)).collect();
        let copies = Copies::new(&plan, isa, &mut tasks, &mut schedules);
        let inputs: Vec<Span> = copies::inputs(&plan).map(|id| copies::original(&plan, id)).collect();
        schedules.iter_mut().for_each(|s| s.complete(&tasks, &inputs, &|task| copies.touches(&plan, task)));
        let call_of = (0..tasks.len()).map(|task| copies.call_of(&plan, task));
        let stopwatch = Stopwatch::new(&plan, call_of, most, options.timing);
        Ok(Executable {
            isa,
            _arena: arena,
            _constants: constants,
            step_value,
            _slot_bytes: Vec::new(),
            leaves,
            pointers,
            views: Vec::new(),
            slots: Vec::new(),
            own: Vec::new(),
            early: Vec::new(),
            bound: false,
            tasks,
            copies,
            schedules,
            pool: Pool::new(most)?,
            barrier: Barrier::new(most),
            tuning,
            wanted: Wanted::new(),
            stopwatch,
            plan,
        })
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The number of threads in use, once tried out.
    pub fn threads(&self) -> usize {
        self.tuning.chosen()
    }

    /// Whether that number has been tried out.
    pub fn settled(&self) -> bool {
        self.tuning.settled()
    }

    /// Index of a named output, for [`crate::Outputs`].
    pub fn output(&self, name: &str) -> Option<usize> {
        self.plan.outputs.iter().position(|o| o.0 == name)
    }

    /// Bytes of scratch memory.
    pub fn scratch_bytes(&self) -> usize {
        self.plan.scratch_bytes
    }

    /// Where the time of all runs so far went.
    pub fn times(&mut self) -> Times {
        let calls = &self.tasks[..self.plan.calls.len()];
        let (done, pace) = calls.iter().map(|task| (task.share(), task.pace())).unzip();
        Times { done, pace, ..self.stopwatch.times() }
    }

    /// What each thread did and when, as far as it was kept (see [`Timing::Every`]).
    pub fn spans(&mut self) -> Vec<timing::Span> {
        self.stopwatch.spans()
    }

    /// Has no step timed until further notice, or steps timed again as before: to see what it costs.
    pub fn pause_timing(&mut self, paused: bool) {
        self.stopwatch.paused = paused;
    }

    /// Forgets the time of all runs so far.
    pub fn reset_times(&mut self) {
        self.stopwatch.reset();
    }

    /// Points the kernels at this run's data.
    pub(crate) fn bind(&mut self, memory: &Memory, inputs: &Inputs) -> Result<(), CpuError> {
        for (id, bytes) in &self.leaves {
            let Storage::Leaf { name, .. } = &self.plan.buffers[*id].storage else { continue };
            let same = memory.leaf(name).is_some_and(|l| Arc::ptr_eq(&l.bytes, bytes));
            if !same {
                return Err(CpuError::Missing(name.clone()));
            }
        }
        let mut moved = !self.bound;
        for (id, buffer) in self.plan.buffers.iter().enumerate() {
            let Storage::Leaf { name, kind: LeafKind::Input, .. } = &buffer.storage else { continue };
            let elements = buffer.shape.elements();
            let before = self.pointers[id];
            if let Some((pointer, found, dtype)) = inputs.find(name) {
                if found != elements || dtype != buffer.dtype {
                    return Err(CpuError::Input {
                        name: name.clone(),
                        found,
                        found_type: dtype,
                        expected: elements,
                        expected_type: buffer.dtype,
                    });
                }
                for limit in self.plan.limits.iter().filter(|limit| limit.input == *name) {
                    limit.check(inputs.whole_numbers(name))?;
                }
                self.pointers[id] = pointer as *mut u8;
                if self.pointers[id] != before {
                    enlarge_pages(pointer, elements * dtype.bytes());
                }
            } else if let Some(slot) = self.slots.iter().find(|s| s.name == *name) {
                // it may have been bound to data of the caller's in between
                self.pointers[id] = slot.now;
            } else {
                // not bound for the run: the driver fills it for every step
                if self.slots.len() == MOST_SLOTS {
                    return Err(CpuError::Plan(format!("more than {MOST_SLOTS} inputs to be filled for every step")));
                }
                let size = (elements * buffer.dtype.bytes()).next_multiple_of(64);
                let (now, next) = (Aligned::try_new(size)?, Aligned::try_new(size)?);
                self.pointers[id] = now.pointer();
                self.slots.push(Slot {
                    name: name.clone(),
                    elements,
                    dtype: buffer.dtype,
                    now: now.pointer(),
                    next: next.pointer(),
                    fed: Cell::new(false),
                });
                self._slot_bytes.extend([now, next]);
            }
            moved |= self.pointers[id] != before;
        }
        if !moved {
            return Ok(());
        }
        self.bound = true;
        let view = |(_, id): &(String, usize)| {
            let Buffer { shape, dtype, .. } = &self.plan.buffers[*id];
            View { pointer: self.pointers[*id], elements: shape.elements(), dtype: *dtype }
        };
        self.views = self.plan.outputs.iter().map(view).collect();
        let next = |id: usize| {
            let now = self.pointers[id];
            self.slots.iter().find(|s| s.now == now).map(|s| s.next as *const u8)
        };
        let filled = |id: usize| self.slots.iter().any(|s| s.now == self.pointers[id]);
        let bound: Vec<usize> = copies::inputs(&self.plan).filter(|id| !filled(*id)).collect();
        let own = self.plan.calls.len();
        for (i, task) in self.tasks.iter_mut().enumerate() {
            match i.checked_sub(own) {
                None => task.bind(&self.pointers, &next),
                Some(n) => task.bind(&self.copies.pointers(n, &self.pointers, &bound), &next),
            }
        }
        self.early = self.copies.early(&self.pointers);
        let threads = 1..self.schedules.len();
        self.own = threads.map(|thread| self.copies.own(thread, &self.slots, &self.pointers)).collect();
        Ok(())
    }

    /// Makes the fed inputs current and sets the step number.
    ///
    /// SAFETY: no thread is inside a step, and only the feeding thread calls this.
    pub(crate) unsafe fn advance(&self, step: u64) {
        for slot in self.slots.iter().filter(|slot| slot.fed.replace(false)) {
            std::ptr::copy_nonoverlapping(slot.next, slot.now, slot.elements * slot.dtype.bytes());
        }
        *(self.step_value.pointer() as *mut f32) = step as f32;
    }
}
