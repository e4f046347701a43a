//! Which thread does what, decided once, when the plan is compiled. A call goes to the thread that last wrote its operands, as
//! long as the wave stays balanced: moving a cache line between cores costs more than the arithmetic on it. What belongs to
//! nobody is dealt out by units.

use std::ops::Range;

use citius_plan::Plan;

use crate::kernels::Task;

/// A stretch of one call's units.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub task: usize,
    pub units: Range<usize>,
}

pub struct Schedule {
    /// For each thread, for each wave, its parts.
    pub waves: Vec<Vec<Vec<Part>>>,
    /// For each thread, its parts that gather rows of a table.
    pub gathers: Vec<Vec<Part>>,
}

/// A wave may be this much out of balance for the sake of locality.
const SLACK: f64 = 1.25;
/// A call is somebody's when this share of its owned bytes is theirs.
const CLEARLY: f64 = 0.7;

impl Schedule {
    pub fn new(plan: &Plan, tasks: &[Task], threads: usize) -> Schedule {
        let mut dealer = Dealer { plan, tasks, threads, owned: vec![vec![0.0; threads]; plan.buffers.len()] };
        // the second pass knows who wrote the parameters at the end of the first
        dealer.deal();
        let waves = dealer.deal();
        let gather = |p: &&Part| tasks[p.task].gathers();
        let gathers = waves.iter().map(|w| w.iter().flatten().filter(gather).cloned().collect()).collect();
        Schedule { waves, gathers }
    }
}

struct Dealer<'a> {
    plan: &'a Plan,
    tasks: &'a [Task],
    threads: usize,
    /// Share of each buffer that each thread wrote last.
    owned: Vec<Vec<f64>>,
}

impl Dealer<'_> {
    fn deal(&mut self) -> Vec<Vec<Vec<Part>>> {
        let mut schedule = vec![vec![Vec::new(); self.plan.waves]; self.threads];
        for wave in 0..self.plan.waves {
            let mut calls: Vec<usize> =
                (0..self.plan.calls.len()).filter(|&i| self.plan.calls[i].wave == wave).collect();
            let share = calls.iter().map(|&i| self.price(i)).sum::<f64>() / self.threads as f64;
            let mut load = vec![0.0; self.threads];
            // dear calls choose first
            calls.sort_by(|&a, &b| self.price(b).total_cmp(&self.price(a)));
            let mut common = Vec::new();
            for i in calls {
                match self.owner(i) {
                    Some(t) if load[t] + self.price(i) <= share * SLACK + 50.0 => {
                        load[t] += self.price(i);
                        schedule[t][wave].push(Part { task: i, units: 0..self.tasks[i].units() });
                        self.record(i, t, 1.0);
                    }
                    _ => common.push(i),
                }
            }
            for i in common {
                self.spread(i, share, &mut load, wave, &mut schedule);
            }
        }
        schedule
    }

    /// Deals the units of a call to the threads with room, the emptiest first.
    fn spread(&mut self, i: usize, share: f64, load: &mut [f64], wave: usize, schedule: &mut [Vec<Vec<Part>>]) {
        let units = self.tasks[i].units();
        let each = self.price(i) / units.max(1) as f64;
        let mut order: Vec<usize> = (0..self.threads).collect();
        // the owner of the larger share first, then the emptiest
        let affinity = self.affinity(i);
        order.sort_by(|&a, &b| (load[a] - affinity[a] / 30.0).total_cmp(&(load[b] - affinity[b] / 30.0)));
        let mut start = 0;
        for (n, &t) in order.iter().enumerate() {
            let last = n + 1 == self.threads;
            let room = ((share - load[t]) / each).round().max(0.0) as usize;
            let take = if last { units - start } else { room.min(units - start) };
            if take > 0 {
                schedule[t][wave].push(Part { task: i, units: start..start + take });
                load[t] += take as f64 * each;
                self.record(i, t, take as f64 / units as f64);
                start += take;
            }
        }
    }

    /// Nanoseconds, roughly: arithmetic, bytes, and a call's own cost.
    fn price(&self, i: usize) -> f64 {
        let cost = self.plan.calls[i].cost;
        // rows of a gather lie anywhere in memory
        let bandwidth = if self.tasks[i].gathers() { 20.0 } else { 60.0 };
        cost.flops as f64 / 80.0 + cost.bytes as f64 / bandwidth + 15.0
    }

    /// Bytes that a call reads and each thread wrote last. What it only writes does not count: a copy belongs with its source,
    /// not with whoever happened to make it the last time.
    fn affinity(&self, i: usize) -> Vec<f64> {
        let (reads, _) = self.plan.calls[i].work.touches();
        let mut bytes = vec![0.0; self.threads];
        for id in reads {
            let buffer = &self.plan.buffers[id];
            let size = (buffer.shape.elements() * buffer.dtype.bytes()) as f64;
            bytes.iter_mut().zip(&self.owned[id]).for_each(|(b, o)| *b += o * size);
        }
        bytes
    }

    fn owner(&self, i: usize) -> Option<usize> {
        let bytes = self.affinity(i);
        let total: f64 = bytes.iter().sum();
        (0..self.threads).find(|&t| total > 0.0 && bytes[t] >= CLEARLY * total)
    }

    fn record(&mut self, i: usize, thread: usize, share: f64) {
        for id in self.plan.calls[i].work.touches().1 {
            let fresh = self.owned[id].iter().sum::<f64>() > 0.999;
            if fresh {
                self.owned[id].fill(0.0);
            }
            self.owned[id][thread] += share;
        }
    }
}
