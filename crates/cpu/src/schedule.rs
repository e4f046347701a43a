//! Which thread does what, decided once, when the plan is compiled. A call goes to the thread that last wrote its operands, as
//! long as the wave stays balanced: moving a cache line between cores costs more than the arithmetic on it. What belongs to
//! nobody is dealt out by units.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use citius_plan::Plan;

use crate::kernels::Task;

/// A stretch of one call's units.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub task: usize,
    pub units: Range<usize>,
    /// They are nobody's yet: each thread takes some from this heap whenever it has nothing else to do.
    pub heap: Option<usize>,
}

/// The units of a long call. How fast a core is at the moment, and how many zeros there are to skip, nobody knows beforehand. Each thread
/// begins at a place of its own, the same in every call, and so meets what it has written; then it helps the others.
pub struct Heap {
    /// Of the stretch of each thread.
    taken: Vec<AtomicUsize>,
    /// Units taken at a time.
    grain: usize,
}

impl Heap {
    fn new(threads: usize, grain: usize) -> Heap {
        Heap { taken: (0..threads).map(|_| AtomicUsize::new(0)).collect(), grain }
    }

    /// Some of these units, until all are taken.
    pub fn take(&self, units: &Range<usize>, thread: usize) -> Option<Range<usize>> {
        let threads = self.taken.len();
        // stretches of whole grains
        let grains = units.len().div_ceil(self.grain);
        (0..threads).map(|n| (thread + n) % threads).find_map(|t| {
            let [start, end] = [t, t + 1].map(|t| units.end.min(units.start + grains * t / threads * self.grain));
            let start = start + self.taken[t].fetch_add(self.grain, Ordering::Relaxed);
            (start < end).then(|| start..end.min(start + self.grain))
        })
    }

    /// All are there again; while no thread takes any.
    pub fn refill(&self) {
        self.taken.iter().for_each(|taken| taken.store(0, Ordering::Relaxed));
    }
}

pub struct Schedule {
    /// For each thread, for each wave, its parts.
    pub waves: Vec<Vec<Vec<Part>>>,
    pub heaps: Vec<Heap>,
    /// For each thread, its parts that gather rows of a table.
    pub gathers: Vec<Vec<Part>>,
    /// For each wave, whether threads wait for each other after it.
    pub barriers: Vec<bool>,
    /// Waves after these are thread 0's alone.
    pub together: usize,
    /// Threads with copies of their own of inputs (`copies.rs`).
    pub apart: Vec<bool>,
    /// Where each thread has filled its own: whether they wait for each other before the first wave.
    pub meet_first: bool,
    /// What thread 1 of two reads before the first wave.
    pub early: Vec<Span>,
}

/// A stretch of bytes: in which memory, from, to.
pub type Span = (usize, usize, usize);

/// A wave may be this much out of balance for the sake of locality; one that takes long, in nanoseconds, has little to gain by it: what its
/// calls read has left the caches of whoever wrote it.
const SLACK: f64 = 1.25;
const LONG_SLACK: f64 = 1.05;
const LONG_WAVE: f64 = 30e3;
/// Bytes that do not stay in a core's own cache.
const FAR: usize = 2 << 20;
/// A call that takes more nanoseconds than this is shared out while it runs.
const LONG: f64 = 1e6;
/// Turns in which each thread takes its share of a long call.
const TURNS: usize = 8;
/// A call is somebody's when this share of its owned bytes is theirs.
const CLEARLY: f64 = 0.7;
/// Nanoseconds that thread 0 needs before the first wave, to feed the next step.
const FEEDING: f64 = 100.0;

impl Schedule {
    pub fn new(plan: &Plan, tasks: &[Task], threads: usize) -> Schedule {
        let owned = vec![vec![0.0; threads]; plan.buffers.len()];
        let mut dealer = Dealer { plan, tasks, threads, owned, heaps: vec![] };
        // the second pass knows who wrote the parameters at the end of the first
        dealer.deal();
        let waves = dealer.deal();
        Schedule {
            heaps: dealer.heaps,
            gathers: vec![vec![]; threads],
            waves,
            barriers: vec![],
            together: 0,
            apart: vec![false; threads],
            meet_first: false,
            early: vec![],
        }
    }

    /// Once the parts are what they will be. `touches` tells what a task reads and what it writes; `inputs` are the step's.
    pub fn complete(&mut self, tasks: &[Task], inputs: &[Span], touches: &dyn Fn(usize) -> [Vec<Span>; 2]) {
        let gather = |p: &&Part| tasks[p.task].gathers();
        self.gathers = self.waves.iter().map(|w| w.iter().flatten().filter(gather).cloned().collect()).collect();
        let others = |n: &usize| self.waves.iter().skip(1).any(|w| !w[*n].is_empty());
        let count = self.waves.iter().map(|w| w.len()).max().unwrap_or(0);
        self.together = (0..count).rev().find(others).map_or(0, |last| last + 1);
        // where others fill copies of theirs, thread 0 fills the inputs while they do
        let filled = if self.apart.contains(&true) { inputs } else { &[] };
        (self.meet_first, self.barriers) = self.crossings(count, filled, touches);
        // what thread 0 does between steps concerns everyone
        self.barriers[self.together..].fill(false);
        self.barriers[..self.together].last_mut().into_iter().for_each(|last| *last = true);
    }

    /// After which waves something crosses from thread to thread: is read or overwritten by one after another has written or
    /// read it. Calls of one wave do not depend on each other, so threads that pass on nothing may be in different waves.
    /// `filled` is what thread 0 writes before the first wave; the first result: whether they meet before it too.
    pub fn crossings(
        &self,
        waves: usize,
        filled: &[Span],
        touches: &dyn Fn(usize) -> [Vec<Span>; 2],
    ) -> (bool, Vec<bool>) {
        let meets = |a: &[Span], b: &[Span]| a.iter().any(|x| b.iter().any(|y| x.0 == y.0 && x.1 < y.2 && y.1 < x.2));
        let (mut meet_first, mut barriers) = (false, vec![false; waves]);
        // what each thread has read and written since they last met
        let mut since = vec![[vec![], vec![]]; self.waves.len()];
        since[0][1].extend_from_slice(filled);
        since.iter_mut().skip(1).take(1).for_each(|second| second[0].extend_from_slice(&self.early));
        for n in 0..waves {
            let now: Vec<[Vec<Span>; 2]> = self
                .waves
                .iter()
                .map(|w| {
                    let mut both = [vec![], vec![]];
                    for part in &w[n] {
                        both.iter_mut().zip(touches(part.task)).for_each(|(all, spans)| all.extend(spans));
                    }
                    both
                })
                .collect();
            let crosses = |a: usize, b: usize| {
                let ([reads, writes], [read, written]) = (&now[a], &since[b]);
                a != b && (meets(reads, written) || meets(writes, written) || meets(writes, read))
            };
            let threads = 0..self.waves.len();
            if threads.clone().any(|a| threads.clone().any(|b| crosses(a, b))) {
                *n.checked_sub(1).map_or(&mut meet_first, |before| &mut barriers[before]) = true;
                since.iter_mut().flatten().for_each(Vec::clear);
            }
            for (all, spans) in since.iter_mut().flatten().zip(now.into_iter().flatten()) {
                all.extend(spans);
            }
        }
        (meet_first, barriers)
    }
}

struct Dealer<'a> {
    plan: &'a Plan,
    tasks: &'a [Task],
    threads: usize,
    /// Share of each buffer that each thread wrote last.
    owned: Vec<Vec<f64>>,
    heaps: Vec<Heap>,
}

impl Dealer<'_> {
    fn deal(&mut self) -> Vec<Vec<Vec<Part>>> {
        let mut schedule = vec![vec![Vec::new(); self.plan.waves]; self.threads];
        self.heaps.clear();
        for wave in 0..self.plan.waves {
            let mut calls: Vec<usize> =
                (0..self.plan.calls.len()).filter(|&i| self.plan.calls[i].wave == wave).collect();
            let share = calls.iter().map(|&i| self.price(i)).sum::<f64>() / self.threads as f64;
            let slack = if share > LONG_WAVE { LONG_SLACK } else { SLACK };
            let mut load = vec![0.0; self.threads];
            // dear calls choose first
            calls.sort_by(|&a, &b| self.price(b).total_cmp(&self.price(a)));
            let mut common = Vec::new();
            for i in calls {
                if self.threads > 1 && self.price(i) > LONG && !self.tasks[i].gathers() {
                    self.share(i, &mut load, wave, &mut schedule);
                    continue;
                }
                match self.owner(i) {
                    Some(t) if load[t] + self.price(i) <= share * slack + 50.0 => {
                        load[t] += self.price(i);
                        schedule[t][wave].push(Part { task: i, units: 0..self.tasks[i].units(), heap: None });
                        self.record(i, t, 1.0);
                    }
                    _ => common.push(i),
                }
            }
            for i in common {
                self.spread(i, share, &mut load, wave, &mut schedule);
            }
            for parts in schedule.iter_mut().map(|waves| &mut waves[wave]) {
                // what is a thread's own first; the rest evens out what that left uneven
                let rank = |p: &Part| (p.heap.is_some(), -self.price(p.task));
                parts.sort_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal));
            }
        }
        schedule
    }

    /// Leaves the units of a call to whoever comes first.
    fn share(&mut self, i: usize, load: &mut [f64], wave: usize, schedule: &mut [Vec<Vec<Part>>]) {
        let (units, heap) = (self.tasks[i].units(), Some(self.heaps.len()));
        let grain = self.tasks[i].grain(units.div_ceil(self.threads * TURNS));
        self.heaps.push(Heap::new(self.threads, grain));
        let each = self.price(i) / self.threads as f64;
        for (t, load) in load.iter_mut().enumerate() {
            schedule[t][wave].push(Part { task: i, units: 0..units, heap });
            *load += each;
            self.record(i, t, 1.0 / self.threads as f64);
        }
    }

    /// Deals the units of a call to the threads with room, the emptiest first.
    fn spread(&mut self, i: usize, share: f64, load: &mut [f64], wave: usize, schedule: &mut [Vec<Vec<Part>>]) {
        let units = self.tasks[i].units();
        let each = self.price(i) / units.max(1) as f64;
        let mut order: Vec<usize> = (0..self.threads).collect();
        // the owner of the larger share first, then the emptiest
        let affinity = self.affinity(i);
        let before = |t: usize| if t == 0 && wave == 0 && units == 1 { FEEDING } else { 0.0 };
        let rank = |t: usize| before(t) + load[t] - affinity[t] / 30.0;
        order.sort_by(|&a, &b| rank(a).total_cmp(&rank(b)));
        let (mut takes, mut left) = (vec![0; self.threads], units);
        for (n, &t) in order.iter().enumerate() {
            let last = n + 1 == self.threads;
            let room = ((share - load[t]) / each).round().max(0.0) as usize;
            takes[t] = if last { left } else { room.min(left) };
            left -= takes[t];
        }
        // in the order of the threads: neighbours in one call are often neighbours in the next
        let mut start = 0;
        for (t, take) in takes.into_iter().enumerate().filter(|(_, take)| *take > 0) {
            schedule[t][wave].push(Part { task: i, units: start..start + take, heap: None });
            load[t] += take as f64 * each;
            self.record(i, t, take as f64 / units as f64);
            start += take;
        }
    }

    /// Nanoseconds, roughly: arithmetic, bytes, and a call's own cost.
    fn price(&self, i: usize) -> f64 {
        let cost = self.plan.calls[i].cost;
        // rows of a gather lie anywhere in memory
        let bandwidth = match self.tasks[i].gathers() {
            true => 20.0,
            false if cost.bytes > FAR => 30.0,
            false => 60.0,
        };
        cost.flops as f64 * self.tasks[i].share() / (80.0 * self.tasks[i].pace()) + cost.bytes as f64 / bandwidth + 15.0
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads; in each wave a task each, which reads and writes the spans given.
    fn barriers(touched: &[[[Vec<Span>; 2]; 2]]) -> Vec<bool> {
        crossings(&[], touched).1
    }

    /// The same, where thread 0 has filled something before.
    fn crossings(filled: &[Span], touched: &[[[Vec<Span>; 2]; 2]]) -> (bool, Vec<bool>) {
        let part = |task| vec![Part { task, units: 0..1, heap: None }];
        let waves = (0..2).map(|thread| (0..touched.len()).map(|n| part(2 * n + thread)).collect()).collect();
        let (gathers, barriers, apart) = (vec![], vec![], vec![]);
        let (heaps, early) = (vec![], vec![]);
        let schedule = Schedule { waves, heaps, gathers, barriers, together: 0, apart, meet_first: false, early };
        schedule.crossings(touched.len(), filled, &|task| touched[task / 2][task % 2].clone())
    }

    #[test]
    fn every_unit_of_a_heap_is_taken_once() {
        let heap = Heap::new(3, 3);
        for _ in 0..2 {
            let taken = std::thread::scope(|scope| {
                let all = |t| std::iter::from_fn(|| heap.take(&(0..100), t)).flatten().collect::<Vec<_>>();
                let threads: Vec<_> = (0..3).map(|t| scope.spawn(move || all(t))).collect();
                threads.into_iter().flat_map(|t| t.join().unwrap()).collect::<Vec<usize>>()
            });
            let mut sorted = taken.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..100).collect::<Vec<_>>());
            heap.refill();
        }
    }

    #[test]
    fn threads_meet_where_something_crosses() {
        let at = |start: usize| vec![(0, start, start + 8)];
        let made = |a, b| [[vec![], at(a)], [vec![], at(b)]];
        let reads = |a, b| [[at(a), vec![]], [at(b), vec![]]];
        assert_eq!(barriers(&[made(0, 8), reads(0, 8), reads(0, 8)]), [false; 3], "to each its own");
        assert_eq!(barriers(&[made(0, 8), reads(0, 8), reads(8, 0)]), [false, true, false], "read by the other");
        assert_eq!(barriers(&[made(0, 8), made(12, 20)]), [true, false], "overwritten in part");
        assert_eq!(barriers(&[reads(0, 8), made(8, 0)]), [true, false], "overwritten while it may still be read");
        assert_eq!(barriers(&[made(0, 8), reads(8, 0), reads(8, 0)]), [true, false, false], "once is enough");
        assert_eq!(barriers(&[reads(0, 0), reads(8, 0)]), [false; 2], "reading disturbs nobody");
        let filled = |touched: [_; 2]| crossings(&at(0), &touched);
        assert_eq!(filled([reads(0, 8), reads(8, 8)]), (false, vec![false; 2]), "read by who filled it");
        assert_eq!(filled([reads(8, 0), reads(8, 0)]), (true, vec![false; 2]), "read at once by the other");
        assert_eq!(filled([reads(8, 8), reads(8, 0)]), (false, vec![true, false]), "read later by the other");
    }
}
