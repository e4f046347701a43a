//! Small batches that several threads read are gathered, or filled in, by each of them: reading rows of a table twice costs less
//! than passing the batch from core to core. Thread 0 keeps the original; the others have copies, and tasks that read those.

use citius_graph::LeafKind;
use citius_plan::{BufferId, Plan, Storage, Work};

use crate::isa::Isa;
use crate::kernels::Task;
use crate::memory::Aligned;
use crate::run::Slot;
use crate::schedule::{Part, Schedule, Span};

/// A batch larger than this is gathered once, by all threads together, or filled in by thread 0.
const MOST_BYTES: usize = 1 << 15;

#[derive(Default)]
pub struct Copies {
    buffers: Vec<(BufferId, usize, Aligned)>,
    /// (task, thread) of each task after the plan's own.
    tasks: Vec<(usize, usize)>,
}

/// The inputs of a step as one thread has them, where it is not thread 0.
#[derive(Default)]
pub struct Own {
    /// A place for each input; none where they are too large to be filled twice.
    pub slots: Vec<Slot>,
    /// From the original, to the copy, bytes.
    copied: Vec<(*const u8, *mut u8, usize)>,
    /// Inputs that this thread does not read.
    unread: Vec<Aligned>,
}

impl Own {
    /// Whether this thread can fill the inputs by itself.
    pub fn can_write(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Copies what thread 0 has.
    ///
    /// SAFETY: the originals are filled, and nobody writes them meanwhile; this thread alone touches its copies.
    pub unsafe fn copy(&self) {
        for (from, to, bytes) in &self.copied {
            std::ptr::copy_nonoverlapping(*from, *to, *bytes);
        }
    }
}

impl Copies {
    /// Adds tasks that gather into copies and read them, and has the schedules use them.
    pub fn new(plan: &Plan, isa: Isa, tasks: &mut Vec<Task>, schedules: &mut [Schedule]) -> Copies {
        let mut copies = Copies::default();
        let gathers = plan.calls.iter().enumerate().filter_map(|(i, call)| match &call.work {
            Work::Gather(work) if matches!(tasks[i], Task::Gather(_)) => Some((work.out, Some(i))),
            _ => None,
        });
        let batches: Vec<(BufferId, Option<usize>)> = inputs(plan).map(|id| (id, None)).chain(gathers).collect();
        for (batch, gather) in batches {
            let reads = |i: &usize| plan.calls[*i].work.touches().0.contains(&batch);
            let readers: Vec<usize> = (0..plan.calls.len()).filter(reads).collect();
            // a loop's units may meet in a fold; those of a product never do
            let products = readers.iter().all(|&i| is_dense(&tasks[i]));
            if bytes(plan, batch) > MOST_BYTES || !products {
                continue;
            }
            for schedule in schedules.iter_mut() {
                let reading =
                    |thread: &usize| schedule.waves[*thread].iter().flatten().any(|part| readers.contains(&part.task));
                let threads: Vec<usize> = (0..schedule.waves.len()).filter(reading).collect();
                if threads.len() < 2 || threads[0] != 0 {
                    continue;
                }
                for (thread, waves) in schedule.waves.iter_mut().enumerate() {
                    let wave = gather.map(|gather| (gather, plan.calls[gather].wave));
                    if let Some((gather, wave)) = wave {
                        waves[wave].retain(|part| part.task != gather);
                    }
                    if !threads.contains(&thread) {
                        continue;
                    }
                    let mut own = |task: usize| copies.task(plan, isa, tasks, task, thread);
                    for part in waves.iter_mut().flatten().filter(|part| readers.contains(&part.task)) {
                        part.task = own(part.task);
                    }
                    match wave {
                        Some((gather, wave)) => {
                            let task = own(gather);
                            waves[wave].insert(0, Part { task, units: 0..tasks[task].units(), heap: None });
                        }
                        None => schedule.apart[thread] = thread > 0,
                    }
                    copies.buffer(batch, thread, bytes(plan, batch));
                }
            }
        }
        copies
    }

    /// The task that does for `thread` what `task` does: itself for thread 0.
    fn task(&mut self, plan: &Plan, isa: Isa, tasks: &mut Vec<Task>, task: usize, thread: usize) -> usize {
        if thread == 0 {
            return task;
        }
        let own = plan.calls.len();
        if let Some(found) = self.tasks.iter().position(|t| *t == (task, thread)) {
            return own + found;
        }
        tasks.push(Task::new(&plan.calls[task].work, plan, isa, &Default::default()));
        self.tasks.push((task, thread));
        tasks.len() - 1
    }

    fn buffer(&mut self, id: BufferId, thread: usize, size: usize) {
        if thread > 0 && !self.buffers.iter().any(|b| (b.0, b.1) == (id, thread)) {
            self.buffers.push((id, thread, Aligned::new(size)));
        }
    }

    /// The call that a task does, or does for a thread.
    pub fn call_of(&self, plan: &Plan, task: usize) -> usize {
        task.checked_sub(plan.calls.len()).map_or(task, |n| self.tasks[n].0)
    }

    /// What a task reads and writes, of a plan with so many calls.
    pub fn touches(&self, plan: &Plan, task: usize) -> [Vec<Span>; 2] {
        let copied = task.checked_sub(plan.calls.len()).map(|n| self.tasks[n]);
        let (reads, writes) = plan.calls[copied.map_or(task, |c| c.0)].work.touches();
        let span = |id: BufferId| {
            let copy = copied.and_then(|(_, thread)| self.buffers.iter().position(|b| (b.0, b.1) == (id, thread)));
            copy.map_or(original(plan, id), |copy| (1 + plan.buffers.len() + copy, 0, bytes(plan, id)))
        };
        [reads, writes].map(|ids| ids.into_iter().map(span).collect())
    }

    /// Where the buffers of task `own + n` are, given where the plan's are. Inputs that are `bound` for the run need no copies.
    pub fn pointers(&self, n: usize, pointers: &[*mut u8], bound: &[BufferId]) -> Vec<*mut u8> {
        let mut pointers = pointers.to_vec();
        for (id, thread, bytes) in &self.buffers {
            if *thread == self.tasks[n].1 && !bound.contains(id) {
                pointers[*id] = bytes.pointer();
            }
        }
        pointers
    }

    /// What a thread fills where thread 0 fills `slots`, which are at `pointers`.
    pub fn own(&self, thread: usize, slots: &[Slot], pointers: &[*mut u8]) -> Own {
        let mut own = Own::default();
        let bytes = |slot: &Slot| slot.elements * slot.dtype.bytes();
        let small = slots.iter().map(bytes).sum::<usize>() <= MOST_BYTES;
        for slot in slots {
            let copy = self.buffers.iter().find(|b| b.1 == thread && pointers[b.0] == slot.now);
            let to = match copy {
                Some((_, _, copy)) => {
                    own.copied.push((slot.now, copy.pointer(), bytes(slot)));
                    copy.pointer()
                }
                None if small => {
                    let unread = Aligned::new(bytes(slot));
                    let pointer = unread.pointer();
                    own.unread.push(unread);
                    pointer
                }
                None => continue,
            };
            if small {
                own.slots.push(slot.at(to));
            }
        }
        own
    }
}

/// The inputs of a plan.
pub fn inputs(plan: &Plan) -> impl Iterator<Item = BufferId> {
    let is_input = |id: &BufferId| matches!(plan.buffers[*id].storage, Storage::Leaf { kind: LeafKind::Input, .. });
    (0..plan.buffers.len()).filter(is_input)
}

/// Where a buffer of the plan is.
pub fn original(plan: &Plan, id: BufferId) -> Span {
    let bytes = bytes(plan, id);
    match plan.buffers[id].storage {
        // values share the bytes of the arena
        Storage::Scratch { offset } => (0, offset, offset + bytes),
        _ => (1 + id, 0, bytes),
    }
}

fn bytes(plan: &Plan, id: BufferId) -> usize {
    let buffer = &plan.buffers[id];
    buffer.shape.elements() * buffer.dtype.bytes()
}

/// A product that reads its operands as they are: none that walks lists made elsewhere, or whose sides are packed.
fn is_dense(task: &Task) -> bool {
    match task {
        #[cfg(target_arch = "x86_64")]
        Task::Matmul(product) => product.sparse().is_none() && !product.is_of_pairs(),
        #[cfg(not(target_arch = "x86_64"))]
        Task::Matmul(_) => true,
        _ => false,
    }
}
