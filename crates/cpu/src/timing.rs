//! Where the time of steps goes. Whole runs are timed exactly. Within a step the clock is looked at after every call, which on a step
//! of 2 µs would cost more than a tenth of it: so only some steps are timed, as many as cost next to nothing, and what they show stands
//! for the others.

use std::cell::UnsafeCell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use citius_graph::Phase;
use citius_plan::Plan;

/// Which steps are timed call by call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Timing {
    Never,
    /// As many as cost a fraction of a percent.
    #[default]
    Sampled,
    /// All, and so many spans of each thread are kept, for a trace.
    Every {
        spans: usize,
    },
}

/// What a thread is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// The driver brings a batch: waits for a loader, or fills.
    Fill,
    /// The driver prepares the next batch: draws its rows.
    Feed,
    /// Inputs are brought to where this thread reads them.
    Copy,
    /// Waits for other threads.
    Wait,
    /// The driver looks at the results.
    Watch,
    /// A call of the plan.
    Call(usize),
}

/// A stretch of time on one thread, in seconds since the first of the trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Span {
    pub thread: usize,
    pub step: u64,
    pub doing: Doing,
    pub start: f64,
    pub end: f64,
}

/// Where the time went.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Times {
    /// Taken so far, and seconds inside of runs: exact.
    pub steps: u64,
    pub seconds: f64,
    /// Steps that were timed call by call; the means below are over these.
    pub timed: u64,
    /// Of the last run.
    pub threads: usize,
    /// Seconds per step on the caller's thread, of each of [`Times::PARTS`]; a thread waits for the others at barriers, so they make up
    /// the whole step.
    pub parts: [Mean; 9],
    /// For each call of the plan, seconds per step, summed over threads.
    pub calls: Vec<f64>,
    /// For each call, the part of its FLOPs that it is expected to do: products skip zeros.
    pub done: Vec<f64>,
    /// For each call, how many times as many FLOPs as multiply-adds in 32 bits its instructions can do at most.
    pub pace: Vec<f64>,
    /// Seconds per step at barriers, summed over threads.
    pub waiting: f64,
    /// The 50th, 90th and 99th percentile of seconds of a step.
    pub quantiles: [f64; 3],
    /// Seconds that a look at the clock takes, which are taken off everything above.
    pub look: f64,
}

/// A mean and its standard error.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Mean {
    pub mean: f64,
    pub error: f64,
}

impl Times {
    /// What [`Times::parts`] are of.
    pub const PARTS: [&str; 9] = ["fill", "feed", "copy", "wait", "watch", "batch", "forward", "backward", "update"];

    pub fn part(&self, name: &str) -> Mean {
        Times::PARTS.iter().position(|p| *p == name).map_or(Mean::default(), |i| self.parts[i])
    }
}

/// Steps between two timed ones before anything is known; odd, as all that follow: loaders work in chunks of a power of two.
const FIRST_STRIDE: u64 = 67;
const LONGEST_STRIDE: u64 = 2047;
/// Steps timed in a row where steps are short: the first only brings the code and counters of timing near.
const BURST: u64 = 4;
/// Strides from which that is worth it.
const LONG_STRIDE: u64 = 16;
/// Share of the time that timing may take, by our own estimate; twice as much is seen from outside.
const ALLOWED: f64 = 0.001;
/// Seconds that timing a step costs at least: its code and its counters are not in the nearest cache.
const COLD: f64 = 4e-7;
/// FLOP/s that no core exceeds: how long steps take at least, before any was taken.
const FASTEST: f64 = 3e11;

/// Times the steps of an executable.
pub(crate) struct Stopwatch {
    timing: Timing,
    /// One for each thread.
    lanes: Vec<UnsafeCell<Lane>>,
    /// While numbers of threads are tried out, lanes for later; then what was timed until then.
    others: Vec<UnsafeCell<Lane>>,
    settled: bool,
    /// Steps until then.
    trial_steps: u64,
    /// Part of each task's call, and the call: copies of a call are the call.
    tasks: Vec<(u8, u32)>,
    calls: usize,
    /// The next step to be timed, how far the one after is, and how many are timed in a row.
    pub due: u64,
    pub stride: u64,
    pub burst: u64,
    /// No step is timed until further notice.
    pub paused: bool,
    steps: u64,
    seconds: f64,
    threads: usize,
    /// Ticks of a look at the clock.
    look: u64,
}

#[repr(align(128))]
pub(crate) struct Lane {
    mark: u64,
    start: u64,
    step: u64,
    look: u64,
    /// By task.
    tasks: Vec<u64>,
    parts: [u64; 9],
    /// Of all timed steps: sums and sums of squares, in ticks.
    sums: [f64; 9],
    squares: [f64; 9],
    timed: u64,
    /// With the clock's own time, to see what timing costs.
    raw: u64,
    histogram: Box<[u32; BUCKETS]>,
    spans: Vec<(u64, Doing, u64, u64)>,
    most_spans: usize,
}

/// Eight buckets an octave.
const BUCKETS: usize = 64 * 8;

impl Stopwatch {
    /// `call_of`: the call that each task belongs to.
    pub fn new(plan: &Plan, call_of: impl Iterator<Item = usize>, threads: usize, timing: Timing) -> Stopwatch {
        started();
        let part = |call: usize| match plan.calls[call].phase {
            Phase::Batch => 5,
            Phase::Forward => 6,
            Phase::Backward => 7,
            Phase::Update => 8,
        };
        let tasks: Vec<(u8, u32)> = call_of.map(|call| (part(call), call as u32)).collect();
        let look = 0;
        let lane = |_| {
            let most_spans = if let Timing::Every { spans } = timing { spans } else { 0 };
            let (zeros, spans) = (vec![0; tasks.len()], Vec::with_capacity(most_spans));
            let histogram = Box::new([0; BUCKETS]);
            UnsafeCell::new(Lane {
                mark: 0,
                start: 0,
                step: 0,
                look,
                tasks: zeros,
                parts: [0; 9],
                sums: [0.0; 9],
                squares: [0.0; 9],
                timed: 0,
                raw: 0,
                histogram,
                spans,
                most_spans,
            })
        };
        let lanes = if timing == Timing::Never { 0 } else { threads };
        let mut stopwatch = Stopwatch {
            timing,
            lanes: (0..lanes).map(lane).collect(),
            others: (0..if timing == Timing::Sampled { lanes } else { 0 }).map(lane).collect(),
            settled: false,
            trial_steps: 0,
            calls: plan.calls.len(),
            tasks,
            due: 0,
            stride: 1,
            burst: 1,
            paused: false,
            steps: 0,
            seconds: 0.0,
            threads: 1,
            look,
        };
        stopwatch.calibrate();
        if timing == Timing::Sampled {
            let least = plan.total().flops as f64 / (FASTEST * threads.max(1) as f64);
            let looks = (2.0 + stopwatch.tasks.len() as f64) * stopwatch.look as f64 / per_second();
            stopwatch.pace(looks, least);
            // steps may take longer than they must
            if stopwatch.stride > FIRST_STRIDE {
                (stopwatch.stride, stopwatch.burst) = (FIRST_STRIDE, BURST);
            }
        }
        stopwatch
    }

    /// Finds out what it takes to look at the clock and write down what it says.
    fn calibrate(&mut self) {
        const LOOKS: u64 = 64;
        let Some(lane) = self.lanes.first_mut().map(UnsafeCell::get_mut) else { return };
        let mut turn = || {
            let mut watching = Watching { lane, tasks: &[], counts: 1 };
            watching.begin();
            (0..LOOKS).for_each(|_| watching.did(Doing::Wait));
            lane.mark.saturating_sub(lane.start) / LOOKS
        };
        let look = (0..8).map(|_| turn()).min().unwrap_or(0);
        self.look = look;
        self.lanes.iter_mut().chain(&mut self.others).for_each(|lane| lane.get_mut().look = look);
        self.forget();
    }

    /// Finds the first step to be timed, from this one on.
    pub fn next(&mut self, step: u64) {
        if self.timing == Timing::Never || self.paused {
            self.due = u64::MAX;
            return;
        }
        // steps are numbered anew where a run is taken up, and other plans take some between
        self.due = match self.due.checked_sub(step) {
            Some(ahead) if ahead <= self.stride => self.due,
            Some(_) => step + self.stride / 2,
            None => self.due + (step - self.due).div_ceil(self.stride) * self.stride,
        };
    }

    /// SAFETY: for thread `thread` alone, while it is inside a run.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn lane(&self, thread: usize) -> &mut Lane {
        &mut *self.lanes[thread].get()
    }

    /// `counts`: not the first of a burst.
    pub fn watch<'a>(&'a self, lane: &'a mut Lane, step: u64, counts: bool) -> Watching<'a> {
        lane.step = step;
        Watching { lane, tasks: &self.tasks, counts: counts as u64 }
    }

    /// After a run of so many steps.
    pub fn ran(&mut self, steps: u64, elapsed: Duration, threads: usize) {
        self.steps += steps;
        self.seconds += elapsed.as_secs_f64();
        self.threads = threads;
        if self.timing != Timing::Sampled || steps == 0 || self.paused {
            return;
        }
        let lane = self.lanes[0].get_mut();
        if lane.timed == 0 {
            return;
        }
        let step = self.seconds / self.steps as f64;
        let raw = lane.raw as f64 / lane.timed as f64 / per_second();
        // what the clock takes for certain, or what is seen to be lost
        let looks = (2.0 + lane.tasks.iter().filter(|t| **t > 0).count() as f64) * self.look as f64 / per_second();
        self.pace((raw - step).clamp(looks, looks + 1e-6), step);
    }

    /// Has as many steps timed as cost next to nothing. In seconds: what timing a step costs, and what a step takes.
    fn pace(&mut self, cost: f64, step: f64) {
        let stride = |burst: u64| ((burst as f64 * cost + COLD) / (ALLOWED * step)).ceil() as u64;
        self.burst = if stride(1) >= LONG_STRIDE { BURST } else { 1 };
        self.stride = stride(self.burst).clamp(1, LONGEST_STRIDE) | 1;
    }

    /// The number of threads is found, after so many steps of this run: what they have shown stands for themselves alone. Later numbers
    /// are tried again, for as long as may be, and are no other matter.
    pub fn settle(&mut self, taken: u64) {
        match (std::mem::replace(&mut self.settled, true), self.others.is_empty()) {
            (true, _) => {}
            (false, true) => self.forget(),
            (false, false) => {
                std::mem::swap(&mut self.lanes, &mut self.others);
                self.trial_steps = self.steps + taken;
            }
        }
    }

    /// Forgets what steps have shown; not the time of runs.
    fn forget(&mut self) {
        for lane in self.lanes.iter_mut().chain(&mut self.others).map(UnsafeCell::get_mut) {
            lane.tasks.fill(0);
            (lane.parts, lane.sums, lane.squares) = ([0; 9], [0.0; 9], [0.0; 9]);
            (lane.timed, lane.raw) = (0, 0);
            lane.histogram.fill(0);
            lane.spans.clear();
        }
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.forget();
        (self.steps, self.seconds, self.trial_steps) = (0, 0.0, 0);
    }

    pub fn times(&mut self) -> Times {
        let per_second = per_second();
        let mut times = Times {
            steps: self.steps,
            seconds: self.seconds,
            threads: self.threads,
            calls: vec![0.0; self.calls],
            look: self.look as f64 / per_second,
            ..Times::default()
        };
        let share = self.trial_steps as f64 / self.steps.max(1) as f64;
        let timed = |lanes: &mut Vec<UnsafeCell<Lane>>| lanes.first_mut().map_or(0, |lane| lane.get_mut().timed);
        let (now, before) = (timed(&mut self.lanes), if self.settled { timed(&mut self.others) } else { 0 });
        match (now > 0, before > 0) {
            (false, false) => {}
            (true, false) => add(&mut times, &mut self.lanes, &self.tasks, 1.0),
            (false, true) => add(&mut times, &mut self.others, &self.tasks, 1.0),
            (true, true) => {
                add(&mut times, &mut self.others, &self.tasks, share);
                // calls and quantiles are of the steps with as many threads as now
                times.calls.fill(0.0);
                add(&mut times, &mut self.lanes, &self.tasks, 1.0 - share);
                times.calls.iter_mut().for_each(|seconds| *seconds /= (1.0 - share).max(1e-12));
            }
        }
        times
    }

    /// What was kept for a trace, by thread and in order.
    pub fn spans(&mut self) -> Vec<Span> {
        let lanes = || self.lanes.iter().enumerate();
        // SAFETY: no run is under way: `&mut self`.
        let kept = || lanes().flat_map(|(thread, lane)| unsafe { &*lane.get() }.spans.iter().map(move |s| (thread, s)));
        let first = kept().map(|(_, span)| span.2).min().unwrap_or(0);
        let per_second = per_second();
        let seconds = |ticks: u64| (ticks - first) as f64 / per_second;
        kept()
            .map(|(thread, &(step, doing, start, end))| {
                let doing = match doing {
                    Doing::Call(task) => Doing::Call(self.tasks[task].1 as usize),
                    other => other,
                };
                Span { thread, step, doing, start: seconds(start), end: seconds(end) }
            })
            .collect()
    }
}

/// Adds what timed steps show, which stand for this share of all steps.
fn add(times: &mut Times, lanes: &mut [UnsafeCell<Lane>], tasks: &[(u8, u32)], share: f64) {
    let per_second = per_second();
    let mut lanes: Vec<&mut Lane> = lanes.iter_mut().map(UnsafeCell::get_mut).collect();
    let Some(timed) = lanes.first().map(|first| first.timed).filter(|timed| *timed > 0) else { return };
    let each = share / (timed as f64 * per_second);
    times.timed += timed;
    for lane in &lanes {
        for (ticks, (_, call)) in lane.tasks.iter().zip(tasks) {
            times.calls[*call as usize] += *ticks as f64 * each;
        }
        times.waiting += lane.sums[part_of(Doing::Wait)] * each;
    }
    let first = &mut lanes[0];
    for (part, (sum, square)) in times.parts.iter_mut().zip(first.sums.iter().zip(&first.squares)) {
        let n = timed as f64;
        let mean = sum / n;
        let variance = (square / n - mean * mean).max(0.0);
        part.mean += share * mean / per_second;
        part.error = part.error.hypot(share * (variance / n).sqrt() / per_second);
    }
    times.quantiles = [0.5, 0.9, 0.99].map(|q| quantile(&first.histogram[..], q) / per_second);
}

/// Is told what a thread has just done, in steps that are timed. A branch that is hardly ever taken costs less than a second copy of
/// the step's code, into which the kernels would no longer be built.
pub(crate) struct Watch<'a>(pub Option<Watching<'a>>);

impl Watch<'_> {
    #[inline(always)]
    pub fn begin(&mut self) {
        if let Some(watching) = &mut self.0 {
            watching.begin();
        }
    }

    #[inline(always)]
    pub fn did(&mut self, doing: Doing) {
        if let Some(watching) = &mut self.0 {
            watching.did(doing);
        }
    }

    #[inline(always)]
    pub fn end(&mut self) {
        if let Some(watching) = &mut self.0 {
            watching.end();
        }
    }
}

pub(crate) struct Watching<'a> {
    lane: &'a mut Lane,
    tasks: &'a [(u8, u32)],
    /// 1 or 0.
    counts: u64,
}

impl Watching<'_> {
    #[cold]
    #[inline(never)]
    fn begin(&mut self) {
        self.lane.mark = now();
        self.lane.start = self.lane.mark;
    }

    #[cold]
    #[inline(never)]
    fn did(&mut self, doing: Doing) {
        let lane = &mut *self.lane;
        let (start, end) = (lane.mark, now());
        let ticks = end.saturating_sub(start + lane.look) * self.counts;
        let part = match doing {
            Doing::Call(task) => {
                lane.tasks[task] += ticks;
                self.tasks[task].0 as usize
            }
            other => part_of(other),
        };
        lane.parts[part] += ticks;
        if lane.spans.len() < lane.most_spans {
            lane.spans.push((lane.step, doing, start, end));
        }
        lane.mark = end;
    }

    #[cold]
    #[inline(never)]
    fn end(&mut self) {
        let lane = &mut *self.lane;
        if self.counts == 0 {
            return;
        }
        let whole: u64 = lane.parts.iter().sum();
        for (part, (sum, square)) in lane.parts.iter().zip(lane.sums.iter_mut().zip(&mut lane.squares)) {
            *sum += *part as f64;
            *square += (*part as f64) * (*part as f64);
        }
        lane.raw += lane.mark.saturating_sub(lane.start);
        lane.parts = [0; 9];
        lane.timed += 1;
        lane.histogram[bucket(whole)] += 1;
    }
}

fn part_of(doing: Doing) -> usize {
    match doing {
        Doing::Fill => 0,
        Doing::Feed => 1,
        Doing::Copy => 2,
        Doing::Wait => 3,
        Doing::Watch => 4,
        Doing::Call(_) => 6,
    }
}

fn bucket(ticks: u64) -> usize {
    let ticks = ticks.max(8);
    let octave = ticks.ilog2();
    // the three bits behind the first
    (octave as usize * 8 + (ticks >> (octave - 3)) as usize % 8).min(BUCKETS - 1)
}

/// Ticks below which this share of the steps are: the middle of a bucket.
fn quantile(histogram: &[u32], share: f64) -> f64 {
    let all: u64 = histogram.iter().map(|n| *n as u64).sum();
    let wanted = (share * all as f64).ceil().max(1.0) as u64;
    let mut seen = 0;
    for (i, count) in histogram.iter().enumerate() {
        seen += *count as u64;
        if seen >= wanted {
            return 2f64.powi(i as i32 / 8) * (8.5 + (i % 8) as f64) / 8.0;
        }
    }
    0.0
}

/// The processor's clock, which takes some nanoseconds to read.
#[inline(always)]
fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 has it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        started().0.elapsed().as_nanos() as u64
    }
}

/// The same moment by both clocks.
fn started() -> &'static (Instant, u64) {
    static STARTED: OnceLock<(Instant, u64)> = OnceLock::new();
    STARTED.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        let ticks = now();
        #[cfg(not(target_arch = "x86_64"))]
        let ticks = 0;
        (Instant::now(), ticks)
    })
}

/// Ticks of the processor's clock in a second, as seen since the first executable was made.
fn per_second() -> f64 {
    const LONG_ENOUGH: Duration = Duration::from_millis(2);
    let (then, ticks) = started();
    loop {
        let (elapsed, passed) = (then.elapsed(), now().saturating_sub(*ticks));
        if elapsed >= LONG_ENOUGH {
            return passed.max(1) as f64 / elapsed.as_secs_f64();
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_buckets() {
        let mut histogram = [0; BUCKETS];
        (1..=100u64).for_each(|i| histogram[bucket(i * 1000)] += 1);
        let near = |q: f64, ticks: f64| (quantile(&histogram, q) / ticks - 1.0).abs() < 0.07;
        assert!(near(0.5, 50e3) && near(0.9, 90e3) && near(0.99, 99e3));
        assert_eq!((bucket(0), bucket(u64::MAX)), (bucket(8), BUCKETS - 1));
    }
}
