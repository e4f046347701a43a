//! Small batches that several threads read are gathered by each of them: reading rows of a table twice costs less than passing
//! the batch from core to core. Thread 0 keeps the original; the others have copies, and tasks that read those.

use citius_plan::{BufferId, Plan, Storage, Work};

use crate::isa::Isa;
use crate::kernels::Task;
use crate::memory::Aligned;
use crate::schedule::{Part, Schedule, Span};

/// A batch larger than this is gathered once, by all threads together.
const MOST_BYTES: usize = 1 << 15;

#[derive(Default)]
pub struct Copies {
    buffers: Vec<(BufferId, usize, Aligned)>,
    /// (task, thread) of each task after the plan's own.
    tasks: Vec<(usize, usize)>,
}

impl Copies {
    /// Adds tasks that gather into copies and read them, and has the schedules use them.
    pub fn new(plan: &Plan, isa: Isa, tasks: &mut Vec<Task>, schedules: &mut [Schedule]) -> Copies {
        let mut copies = Copies::default();
        for (gather, call) in plan.calls.iter().enumerate() {
            let Work::Gather(work) = &call.work else { continue };
            let size = work.rows * work.width * plan.buffers[work.out].dtype.bytes();
            let reads = |i: &usize| plan.calls[*i].work.touches().0.contains(&work.out);
            let readers: Vec<usize> = (0..plan.calls.len()).filter(reads).collect();
            // a loop's units may meet in a fold; those of a product never do
            let products = readers.iter().all(|&i| matches!(plan.calls[i].work, Work::Matmul(_)));
            if size > MOST_BYTES || !products || !matches!(tasks[gather], Task::Gather(_)) {
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
                    waves[call.wave].retain(|part| part.task != gather);
                    if !threads.contains(&thread) {
                        continue;
                    }
                    let mut own = |task: usize| copies.task(plan, isa, tasks, task, thread);
                    for part in waves.iter_mut().flatten().filter(|part| readers.contains(&part.task)) {
                        part.task = own(part.task);
                    }
                    let task = own(gather);
                    waves[call.wave].insert(0, Part { task, units: 0..tasks[task].units() });
                    copies.buffer(work.out, thread, size);
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

    /// What a task reads and writes, of a plan with so many calls.
    pub fn touches(&self, plan: &Plan, task: usize) -> [Vec<Span>; 2] {
        let copied = task.checked_sub(plan.calls.len()).map(|n| self.tasks[n]);
        let (reads, writes) = plan.calls[copied.map_or(task, |c| c.0)].work.touches();
        let span = |id: BufferId| {
            let buffer = &plan.buffers[id];
            let bytes = buffer.shape.elements() * buffer.dtype.bytes();
            let copy = copied.and_then(|(_, thread)| self.buffers.iter().position(|b| (b.0, b.1) == (id, thread)));
            match (copy, &buffer.storage) {
                (Some(copy), _) => (1 + plan.buffers.len() + copy, 0, bytes),
                // values share the bytes of the arena
                (None, Storage::Scratch { offset }) => (0, *offset, offset + bytes),
                (None, _) => (1 + id, 0, bytes),
            }
        };
        [reads, writes].map(|ids| ids.into_iter().map(span).collect())
    }

    /// Where the buffers of task `own + n` are, given where the plan's are.
    pub fn pointers(&self, n: usize, pointers: &[*mut u8]) -> Vec<*mut u8> {
        let mut pointers = pointers.to_vec();
        for (id, thread, bytes) in &self.buffers {
            if *thread == self.tasks[n].1 {
                pointers[*id] = bytes.pointer();
            }
        }
        pointers
    }
}
