//! Small batches that several threads read are gathered, or filled in, by each of them: reading rows of a table twice costs less
//! than passing the batch from core to core. Where two threads would share a short loop and wait for each other's results, both run
//! all of it. Thread 0 keeps the original; the others have copies, and tasks that read those.

use citius_graph::LeafKind;
use citius_plan::{BufferId, Plan, Storage, Work};

use crate::isa::Isa;
use crate::kernels::Task;
use crate::memory::Aligned;
use crate::run::Slot;
use crate::schedule::{Part, Schedule, Span};

/// A batch larger than this is gathered once, by all threads together, or filled in by thread 0.
const MOST_BYTES: usize = 1 << 15;

/// Two threads rather both run a loop of at most so many FLOPs and bytes than wait for each other once more.
const MOST_WORK: (usize, usize) = (12_000, 1 << 13);
/// A parameter that such a loop reads, and that is updated later in the step, is copied before if it has at most so many bytes.
const MOST_COPIED: usize = 1024;

#[derive(Default)]
pub struct Copies {
    buffers: Vec<OwnBuffer>,
    /// Tasks after the plan's own.
    tasks: Vec<OwnTask>,
    /// Parameters of which thread 1 has copies.
    copied: Vec<BufferId>,
}

/// A buffer as one thread has it.
struct OwnBuffer {
    of: BufferId,
    thread: usize,
    bytes: Aligned,
    size: usize,
    /// Whose it is: that task's, and those of the roles behind it.
    role: Role,
}

/// What one thread does of its own accord for a call.
#[derive(Clone, Copy, PartialEq)]
struct OwnTask {
    call: usize,
    thread: usize,
    role: Role,
}

/// Why a thread has a task of its own.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Role {
    /// It reads a batch.
    Batch,
    /// It reads what both threads have made.
    Reader,
    /// It is a loop that both threads run.
    Repeated,
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
                    let mut own =
                        |call: usize| copies.task(plan, isa, tasks, OwnTask { call, thread, role: Role::Batch });
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
                    copies.buffer(plan, batch, thread, Role::Batch);
                }
            }
        }
        if let Some(schedule) = schedules.get_mut(1) {
            (0..plan.calls.len()).for_each(|call| copies.repeat(plan, isa, tasks, schedule, call));
        }
        copies
    }

    /// Has both of two threads run all of a short loop that they share, if they then need to meet less often.
    fn repeat(&mut self, plan: &Plan, isa: Isa, tasks: &mut Vec<Task>, schedule: &mut Schedule, call: usize) {
        let Work::Loop(work) = &plan.calls[call].work else { return };
        let shared = schedule.waves.iter().all(|waves| waves.iter().flatten().any(|part| part.task == call));
        let cost = plan.calls[call].cost;
        let short = cost.flops <= MOST_WORK.0 && cost.bytes <= MOST_WORK.1;
        if !shared || !short || !work.folds.is_empty() {
            return;
        }
        let (read, made) = plan.calls[call].work.touches();
        let updated = |id: &&BufferId| {
            let written = || plan.calls.iter().any(|call| call.work.touches().1.contains(*id));
            matches!(plan.buffers[**id].storage, Storage::Leaf { .. }) && written()
        };
        let copied: Vec<BufferId> = read.iter().filter(updated).copied().collect();
        let scratch = |id: &BufferId| matches!(plan.buffers[*id].storage, Storage::Scratch { .. });
        let reads = |task: usize| {
            let (reads, _) = plan.calls[self.call_of(plan, task)].work.touches();
            made.iter().any(|id| reads.contains(id))
        };
        // units of a loop may meet in a fold
        let apart = |part: &Part| match &tasks[part.task] {
            Task::Loop(_) => part.units.len() == tasks[part.task].units(),
            other => is_dense(other),
        };
        let on = |thread: usize| schedule.waves[thread].iter().flatten().filter(|part| reads(part.task));
        let fits = on(0).chain(on(1)).all(|part| part.heap.is_none() && apart(part));
        let small = copied.iter().all(|id| bytes(plan, *id) <= MOST_COPIED);
        if !fits || !small || !made.iter().all(scratch) || on(1).next().is_none() {
            return;
        }
        let reading: Vec<usize> = on(1).map(|part| part.task).collect();
        let before = (schedule.waves.clone(), schedule.early.len(), tasks.len(), self.tasks.len(), self.buffers.len());
        let meetings = |copies: &Copies, schedule: &Schedule| {
            let (first, barriers) = schedule.crossings(plan.waves, &[], &|task| copies.touches(plan, task));
            (first, barriers.iter().filter(|barrier| **barrier).count())
        };
        let (_, meeting) = meetings(self, schedule);
        let units = 0..tasks[call].units();
        for part in schedule.waves[0].iter_mut().flatten().filter(|part| part.task == call) {
            part.units = units.clone();
        }
        made.iter().for_each(|id| self.buffer(plan, *id, 1, Role::Reader));
        copied.iter().for_each(|id| self.buffer(plan, *id, 1, Role::Repeated));
        schedule.early.extend(copied.iter().map(|id| original(plan, *id)));
        for part in schedule.waves[1].iter_mut().flatten() {
            let role = match part.task {
                task if task == call => Role::Repeated,
                task if reading.contains(&task) => Role::Reader,
                _ => continue,
            };
            if role == Role::Repeated {
                part.units = units.clone();
            }
            let call = self.call_of(plan, part.task);
            part.task = self.task(plan, isa, tasks, OwnTask { call, thread: 1, role });
        }
        let (first, fewer) = meetings(self, schedule);
        if first || fewer >= meeting {
            schedule.waves = before.0;
            schedule.early.truncate(before.1);
            tasks.truncate(before.2);
            self.tasks.truncate(before.3);
            self.buffers.truncate(before.4);
            return;
        }
        self.copied.extend(copied);
    }

    /// What thread 1 copies when a step begins, where it repeats loops: from the plan's buffers, to its own, bytes.
    pub fn early(&self, pointers: &[*mut u8]) -> Vec<(*const u8, *mut u8, usize)> {
        let of = |id: &BufferId| {
            let own = self.buffers.iter().find(|b| b.of == *id && b.role == Role::Repeated)?;
            Some((pointers[*id] as *const u8, own.bytes.pointer(), own.size))
        };
        self.copied.iter().filter_map(of).collect()
    }

    /// The task that does a call for a thread: the call itself for thread 0.
    fn task(&mut self, plan: &Plan, isa: Isa, tasks: &mut Vec<Task>, own: OwnTask) -> usize {
        if own.thread == 0 {
            return own.call;
        }
        let first = plan.calls.len();
        if let Some(found) = self.tasks.iter().position(|t| *t == own) {
            return first + found;
        }
        tasks.push(Task::new(&plan.calls[own.call].work, plan, isa, &Default::default()));
        self.tasks.push(own);
        tasks.len() - 1
    }

    fn buffer(&mut self, plan: &Plan, of: BufferId, thread: usize, role: Role) {
        let there = self.buffers.iter().any(|b| (b.of, b.thread, b.role) == (of, thread, role));
        if thread > 0 && !there {
            let size = bytes(plan, of);
            self.buffers.push(OwnBuffer { of, thread, bytes: Aligned::new(size), size, role });
        }
    }

    /// The copy of a buffer that a task has, if any.
    fn copy_for(&self, own: OwnTask, id: BufferId) -> Option<usize> {
        let fits = |b: &OwnBuffer| b.of == id && b.thread == own.thread && b.role <= own.role;
        self.buffers.iter().position(fits)
    }

    /// The call that a task does, or does for a thread.
    pub fn call_of(&self, plan: &Plan, task: usize) -> usize {
        task.checked_sub(plan.calls.len()).map_or(task, |n| self.tasks[n].call)
    }

    /// What a task reads and writes, of a plan with so many calls.
    pub fn touches(&self, plan: &Plan, task: usize) -> [Vec<Span>; 2] {
        let own = task.checked_sub(plan.calls.len()).map(|n| self.tasks[n]);
        let (reads, writes) = plan.calls[own.map_or(task, |own| own.call)].work.touches();
        let span = |id: BufferId| {
            let copy = own.and_then(|own| self.copy_for(own, id));
            copy.map_or(original(plan, id), |copy| (1 + plan.buffers.len() + copy, 0, bytes(plan, id)))
        };
        [reads, writes].map(|ids| ids.into_iter().map(span).collect())
    }

    /// Where the buffers of task `own + n` are, given where the plan's are. Inputs that are `bound` for the run need no copies.
    pub fn pointers(&self, n: usize, pointers: &[*mut u8], bound: &[BufferId]) -> Vec<*mut u8> {
        let at = |(id, pointer): (BufferId, &*mut u8)| match self.copy_for(self.tasks[n], id) {
            Some(copy) if !bound.contains(&id) => self.buffers[copy].bytes.pointer(),
            _ => *pointer,
        };
        pointers.iter().enumerate().map(at).collect()
    }

    /// What a thread fills where thread 0 fills `slots`, which are at `pointers`.
    pub fn own(&self, thread: usize, slots: &[Slot], pointers: &[*mut u8]) -> Own {
        let mut own = Own::default();
        let bytes = |slot: &Slot| slot.elements * slot.dtype.bytes();
        let small = slots.iter().map(bytes).sum::<usize>() <= MOST_BYTES;
        for slot in slots {
            let copy = self.buffers.iter().find(|b| b.thread == thread && pointers[b.of] == slot.now);
            let to = match copy {
                Some(copy) => {
                    own.copied.push((slot.now, copy.bytes.pointer(), bytes(slot)));
                    copy.bytes.pointer()
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

#[cfg(test)]
mod tests {
    use citius_graph::{DType, Graph};
    use citius_nn::{Activation, Adam, Learning, Module, cross_entropy, mlp};

    use super::*;
    use crate::kernels;

    /// What two threads do of a step of 100-50-10 on so many rows, and how often they meet.
    fn two_threads(rows: usize) -> (Copies, Schedule, usize) {
        let g = Graph::new();
        let (x, y) = (g.input("x", &[rows, 100]), g.input_of("y", &[rows], DType::I32));
        let loss = cross_entropy(&mlp(&[100, 50, 10], Activation::Relu, 0.0).forward(&x), &y, 0.0, None);
        Learning::new(Adam::default(), 1e-3).record(&loss).unwrap();
        let plan = citius_plan::compile(&g).unwrap();
        let isa = Isa::detect();
        let mut tasks = kernels::tasks(&plan, isa, &Default::default(), 2).unwrap();
        let mut schedules: Vec<Schedule> = (1..=2).map(|t| Schedule::new(&plan, &tasks, t)).collect();
        let copies = Copies::new(&plan, isa, &mut tasks, &mut schedules);
        let schedule = schedules.remove(1);
        let barriers = schedule.crossings(plan.waves, &[], &|task| copies.touches(&plan, task)).1;
        (copies, schedule, barriers.iter().filter(|barrier| **barrier).count())
    }

    #[test]
    fn a_short_loop_is_run_by_both() {
        let (copies, schedule, often) = two_threads(32);
        let of = |role| copies.tasks.iter().filter(|t| t.role == role).map(|t| t.call).collect::<Vec<_>>();
        let [repeated] = of(Role::Repeated)[..] else { panic!("{:?}", of(Role::Repeated)) };
        assert_eq!(of(Role::Reader).len(), 3, "two products and a fold read what thread 1 has made");
        assert_eq!(schedule.early.len(), 1, "the bias is copied before it is updated");
        let on = |thread: usize| schedule.waves[thread].iter().flatten();
        assert!(on(0).any(|part| part.task == repeated && part.units.len() == 2), "thread 0 makes the original");
        // a longer one is shared, and they meet once more
        let (copies, schedule, more) = two_threads(64);
        assert!(copies.tasks.iter().all(|t| t.role == Role::Batch) && schedule.early.is_empty());
        assert_eq!(more, often + 1);
    }
}
