//! Where the time of a run goes. `train` always keeps this account: what happens between steps is timed exactly, and so are the steps as
//! a whole; how a step divides is known from those that were timed call by call.

use std::collections::BTreeMap;

use citius_cpu::Times;
use citius_graph::Phase;
use citius_plan::{Plan, Work};
use serde::{Deserialize, Serialize};

use crate::ceilings::Ceilings;
use crate::step::{Batches, EpochSteps};
use crate::{Engine, LoaderReport};

/// The account of a run, or of a part of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// On the wall clock, since the run began, and what reading its data took before.
    pub seconds: f64,
    /// They add up to `seconds`.
    pub parts: Parts,
    pub steps: u64,
    /// Steps that were timed call by call; how the others divide is inferred from these.
    pub timed_steps: u64,
    /// Half the width of the 95% interval of forward, backward and update, each as a share of the steps: the largest.
    pub error: f64,
    /// The timed steps, scaled up to all, against the steps as they were timed as a whole: what the account is off by before it is made
    /// to fit.
    pub mismatch: f64,
    /// Microseconds of a step.
    pub step_us: StepTime,
    /// Threads of the processor, or groups of threads of a GPU.
    pub threads: usize,
    /// Of the steps.
    pub flops_per_second: f64,
    pub bytes_per_second: f64,
    /// What the steps reach of what the machine could, as far as its ceilings are known: the mean over calls, by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roofline: Option<f64>,
    /// How batches were loaded, where they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loading: Option<Loading>,
    /// The dearest first.
    pub kernels: Vec<KernelTime>,
}

/// Seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Parts {
    /// Before the run: rows were read, and what was left open was chosen.
    #[serde(default)]
    pub reading: f64,
    /// Before the first step: looking at the rows, planning, compiling, taking memory.
    pub preparing: f64,
    /// Steps waited for a batch, or for the thread that fills it.
    pub data: f64,
    /// Rows were brought into the batch, or to the device.
    pub copy: f64,
    pub forward: f64,
    pub backward: f64,
    pub update: f64,
    /// Threads waited for each other.
    pub threads: f64,
    /// Results were looked at, the network was judged.
    pub metrics: f64,
    pub checkpoint: f64,
    pub other: f64,
}

/// Quantiles are those of the timed steps.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct StepTime {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
}

/// What became of a loader.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Loading {
    /// Threads that fill batches beside the caller's.
    pub workers: usize,
    /// The caller was in the loader.
    pub seconds: f64,
    pub batches: u64,
}

/// One call of the step, over all steps.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct KernelTime {
    /// The kernel and its shape.
    pub name: String,
    /// The ops inside.
    pub ops: String,
    /// The line of the program, or the layer.
    pub place: String,
    pub phase: String,
    pub calls: u64,
    /// Its part of the time of steps: seconds of all threads over their number.
    pub seconds: f64,
    /// Of the steps.
    pub share: f64,
    /// In all calls, those by zeros that are skipped left out.
    pub flops: f64,
    pub bytes: f64,
    /// What it reaches of what the machine could at its proportion of FLOPs to bytes, where that is known: products that skip zeros do less
    /// than they seem to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roofline: Option<f64>,
}

/// Kernels that are told of in events and reports.
const MOST_KERNELS: usize = 24;

impl Parts {
    pub const NAMES: [&str; 11] = [
        "reading",
        "preparing",
        "data",
        "copy",
        "forward",
        "backward",
        "update",
        "threads",
        "metrics",
        "checkpoint",
        "other",
    ];

    pub fn values(&self) -> [f64; 11] {
        let Parts { reading, preparing, data, copy, forward, backward, update, threads, metrics, checkpoint, other } =
            *self;
        [reading, preparing, data, copy, forward, backward, update, threads, metrics, checkpoint, other]
    }

    pub fn sum(&self) -> f64 {
        self.values().iter().sum()
    }

    /// Of steps alone.
    pub fn of_steps(&self) -> f64 {
        self.data + self.copy + self.forward + self.backward + self.update + self.threads
    }

    fn add(&mut self, more: &Parts, factor: f64) {
        self.reading += more.reading * factor;
        self.preparing += more.preparing * factor;
        self.data += more.data * factor;
        self.copy += more.copy * factor;
        self.forward += more.forward * factor;
        self.backward += more.backward * factor;
        self.update += more.update * factor;
        self.threads += more.threads * factor;
        self.metrics += more.metrics * factor;
        self.checkpoint += more.checkpoint * factor;
        self.other += more.other * factor;
    }
}

impl Ledger {
    /// In one line: `91% steps (forward 30, backward 48, update 13), 2% data, …`; parts below half a percent are left out.
    pub fn summary(&self) -> String {
        let Parts { reading, preparing, data, copy, forward, backward, update, threads, metrics, checkpoint, other } =
            self.parts;
        let share = |seconds: f64| (seconds / self.seconds.max(1e-9) * 100.0).round().max(0.0) as u64;
        let inside = [("forward", forward), ("backward", backward), ("update", update), ("between threads", threads)];
        let inside: Vec<String> = inside
            .iter()
            .filter(|(_, seconds)| share(*seconds) > 0)
            .map(|(name, seconds)| format!("{name} {}", share(*seconds)))
            .collect();
        let steps = share(forward + backward + update + threads);
        let steps = match inside.is_empty() {
            true => format!("{steps}% steps"),
            false => format!("{steps}% steps ({})", inside.join(", ")),
        };
        let around = [
            ("waiting for data", data),
            ("copying", copy),
            ("metrics", metrics),
            ("checkpoints", checkpoint),
            ("reading", reading),
            ("preparing", preparing),
            ("other", other),
        ];
        let around = around.iter().filter(|(_, seconds)| share(*seconds) > 0);
        let all = [steps].into_iter().chain(around.map(|(name, seconds)| format!("{}% {name}", share(*seconds))));
        all.collect::<Vec<_>>().join(", ")
    }

    /// Adds what another training of the same run came to; of its steps, the later's are told of.
    pub(crate) fn after(mut self, earlier: &Ledger) -> Ledger {
        self.parts.add(&earlier.parts, 1.0);
        self.steps += earlier.steps;
        self.timed_steps += earlier.timed_steps;
        self
    }

    /// Makes it the account of `seconds` in all: what nothing else explains is other.
    pub(crate) fn of(mut self, seconds: f64) -> Ledger {
        self.seconds = seconds;
        self.parts.other = 0.0;
        self.parts.other = seconds - self.parts.sum();
        self
    }
}

/// What is timed exactly around the steps of a fit, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Around {
    pub preparing: f64,
    /// All steps, with whatever is fed to them.
    pub steps: f64,
    /// The loader was made ready for an epoch.
    pub data: f64,
    /// Weights were brought home from a device.
    pub copy: f64,
    pub metrics: f64,
    /// By loaders that are no more.
    pub loaded: f64,
}

/// The account of a fit so far.
pub(crate) fn account(
    around: &Around,
    steps: &EpochSteps,
    engine: &mut Engine,
    loading: Option<LoaderReport>,
    ceilings: Option<&Ceilings>,
) -> Ledger {
    let (mut ledger, mut inferred) = (Ledger::default(), 0.0);
    for Batches { plan, .. } in [&steps.full, &steps.last].into_iter().flatten() {
        inferred += ledger.add_plan(engine, *plan, ceilings);
    }
    ledger.kernels.truncate(MOST_KERNELS);
    ledger.loading =
        loading.map(|l| Loading { workers: l.workers, seconds: l.seconds + around.loaded, batches: l.batches });
    // the loader knows exactly how long it was waited for; timed steps are too few to meet each delay
    let waited = ledger.loading.map(|l| l.seconds);
    fit(&mut ledger.parts, inferred, around.steps, waited);
    ledger.parts.preparing = around.preparing;
    ledger.parts.data += around.data;
    ledger.parts.copy += around.copy;
    ledger.parts.metrics += around.metrics;
    ledger
}

/// The account of the first plan of an engine, whose steps have taken so many seconds.
pub(crate) fn of_plan(engine: &mut Engine, seconds: f64, ceilings: Option<&Ceilings>) -> Ledger {
    let mut ledger = Ledger::default();
    let inferred = ledger.add_plan(engine, 0, ceilings);
    fit(&mut ledger.parts, inferred, seconds, None);
    ledger.of(seconds)
}

impl Ledger {
    /// Adds the steps of one plan, and tells of its kernels if it is the first; the seconds that timed steps account for.
    fn add_plan(&mut self, engine: &mut Engine, which: usize, ceilings: Option<&Ceilings>) -> f64 {
        let threads = engine.threads(which);
        let timed = match engine.times(which) {
            Some(times) => on_processor(&times),
            None => on_gpu(engine, which),
        };
        let Some(timed) = timed else { return 0.0 };
        self.steps += timed.steps;
        self.timed_steps += timed.timed;
        // those of a few steps are as the others are
        if timed.timed == 0 {
            return 0.0;
        }
        self.parts.add(&timed.parts, 1.0);
        let inferred = timed.parts.sum();
        if self.threads == 0 {
            self.threads = threads;
            self.step_us = timed.step_us;
            self.error = timed.error;
            self.mismatch = inferred / timed.seconds.max(1e-12) - 1.0;
            let plan = engine.plan(which);
            self.kernels = kernels(plan, &timed, threads, ceilings);
            let per_second =
                |of: fn(&KernelTime) -> f64| self.kernels.iter().map(of).sum::<f64>() / timed.seconds.max(1e-12);
            (self.flops_per_second, self.bytes_per_second) = (per_second(|k| k.flops), per_second(|k| k.bytes));
            let known: Vec<_> = self.kernels.iter().filter_map(|k| Some((k.roofline?, k.seconds))).collect();
            let weight: f64 = known.iter().map(|k| k.1).sum();
            self.roofline = (weight > 0.0).then(|| known.iter().map(|k| k.0 * k.1).sum::<f64>() / weight);
        }
        inferred
    }
}

/// Makes the parts of steps add up to what all steps took.
fn fit(parts: &mut Parts, inferred: f64, seconds: f64, waited: Option<f64>) {
    match waited {
        Some(waited) => {
            let waited = waited.min(seconds);
            let rest = inferred - parts.data;
            let factor = if rest > 0.0 { (seconds - waited) / rest } else { 0.0 };
            let before = *parts;
            *parts = Parts::default();
            parts.add(&Parts { data: 0.0, ..before }, factor);
            parts.data = waited;
        }
        None if inferred > 0.0 => {
            let before = *parts;
            *parts = Parts::default();
            parts.add(&before, seconds / inferred);
        }
        None => {}
    }
}

/// What is known of the steps of one plan.
struct Timed {
    steps: u64,
    timed: u64,
    seconds: f64,
    /// Of all steps, as far as timed steps stand for them.
    parts: Parts,
    error: f64,
    step_us: StepTime,
    /// Seconds of each call in a step, of all threads.
    calls: Vec<f64>,
    /// The part of its FLOPs that each does.
    done: Vec<f64>,
    pace: Vec<f64>,
}

fn on_processor(times: &Times) -> Option<Timed> {
    if times.steps == 0 {
        return None;
    }
    let n = times.steps as f64;
    let part = |name: &str| times.part(name).mean * n;
    let parts = Parts {
        data: part("fill") + part("feed"),
        copy: part("copy") + part("batch"),
        forward: part("forward"),
        backward: part("backward"),
        update: part("update"),
        threads: part("wait"),
        metrics: part("watch"),
        ..Parts::default()
    };
    let whole = times.seconds / n;
    let error = ["forward", "backward", "update"].iter().map(|p| 1.96 * times.part(p).error / whole.max(1e-12));
    let [p50, p90, p99] = times.quantiles.map(|q| q * 1e6);
    Some(Timed {
        steps: times.steps,
        timed: times.timed,
        seconds: times.seconds,
        parts,
        error: error.fold(0.0, f64::max),
        step_us: StepTime { mean: whole * 1e6, p50, p90, p99 },
        calls: times.calls.clone(),
        done: times.done.clone(),
        pace: times.pace.clone(),
    })
}

/// Of a GPU it is known how long it computed; how that divides follows from what calls cost at least, unless its clocks were read.
fn on_gpu(engine: &Engine, which: usize) -> Option<Timed> {
    let ledger = engine.ledger(which).filter(|l| l.steps > 0)?;
    let plan = engine.plan(which);
    let seconds = ledger.wall.max(ledger.computing);
    let weights: Vec<f64> =
        plan.calls.iter().map(|c| H200_LIKE.seconds(c.cost.flops as f64, c.cost.bytes as f64)).collect();
    let weight: f64 = weights.iter().sum::<f64>().max(1e-12);
    let phase = |phase: Phase| {
        let own = plan.calls.iter().zip(&weights).filter(|(c, _)| c.phase == phase).map(|(_, w)| w).sum::<f64>();
        own / weight * ledger.computing
    };
    // what goes on while the GPU computes costs nothing
    let exposed = seconds - ledger.computing;
    let data = ledger.filling.min(exposed);
    let copy = ledger.copying.min(exposed - data);
    let parts = Parts {
        data,
        copy: copy + phase(Phase::Batch),
        forward: phase(Phase::Forward),
        backward: phase(Phase::Backward),
        update: phase(Phase::Update),
        threads: exposed - data - copy,
        ..Parts::default()
    };
    let mean = seconds / ledger.steps as f64 * 1e6;
    let each = ledger.computing / ledger.steps as f64 / weight;
    Some(Timed {
        steps: ledger.steps,
        timed: ledger.steps,
        seconds,
        parts,
        error: 0.0,
        step_us: StepTime { mean, p50: mean, p90: mean, p99: mean },
        calls: weights.iter().map(|w| w * each * engine.threads(which) as f64).collect(),
        done: vec![1.0; plan.calls.len()],
        pace: vec![1.0; plan.calls.len()],
    })
}

/// To divide the time of a GPU among calls.
const H200_LIKE: Ceilings = Ceilings { flops: 50e12, flops_one: 50e12, memory: 4e12, shared: 4e12, cache: 4e12 };

/// All calls of a plan, the dearest first.
fn kernels(plan: &Plan, timed: &Timed, threads: usize, ceilings: Option<&Ceilings>) -> Vec<KernelTime> {
    let in_cache = working_set(plan);
    let mut all: Vec<KernelTime> = plan
        .calls
        .iter()
        .enumerate()
        .map(|(i, call)| {
            let (n, done) = (timed.steps as f64, timed.done[i]);
            let seconds = timed.calls[i] / threads.max(1) as f64 * n;
            let (ops, place) = call.label.split_once("  # ").unwrap_or((&call.label, ""));
            let (flops, bytes) = (call.cost.flops as f64 * done * n, call.cost.bytes as f64 * n);
            let ideal = |c: &Ceilings| c.on(threads, in_cache).seconds(flops / timed.pace[i], bytes);
            KernelTime {
                name: call.work.shape(),
                ops: ops.to_owned(),
                place: place.to_owned(),
                phase: call.phase.name().to_owned(),
                calls: timed.steps,
                seconds,
                share: seconds / timed.seconds.max(1e-12),
                flops,
                bytes,
                roofline: ceilings.and_then(|c| reached(ideal(c), seconds)),
            }
        })
        .collect();
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    all
}

/// What is reached of the least time that work can take; `None` where more is reached than can be, because work was left out: products
/// skip zeros, and how many there are is known to nobody beforehand.
pub(crate) fn reached(ideal: f64, seconds: f64) -> Option<f64> {
    (seconds > 0.0 && ideal <= 1.05 * seconds).then(|| (ideal / seconds).min(1.0))
}

/// Bytes that a step touches again and again: all but the tables that rows are taken from.
pub(crate) fn working_set(plan: &Plan) -> f64 {
    let mut bytes: BTreeMap<usize, usize> = BTreeMap::new();
    for call in &plan.calls {
        let (reads, writes) = call.work.touches();
        let table = if let Work::Gather(gather) = &call.work { Some(gather.table) } else { None };
        for id in reads.into_iter().chain(writes).filter(|id| Some(*id) != table) {
            let buffer = &plan.buffers[id];
            bytes.insert(id, buffer.shape.elements() * buffer.dtype.bytes());
        }
    }
    bytes.values().sum::<usize>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Parts {
        Parts { data: 1.0, copy: 1.0, forward: 3.0, backward: 4.0, update: 1.0, ..Parts::default() }
    }

    #[test]
    fn parts_add_up_to_the_wall() {
        let mut fitted = parts();
        fit(&mut fitted, 10.0, 5.0, None);
        assert_eq!((fitted.forward, fitted.sum()), (1.5, 5.0));
        let mut waited = parts();
        fit(&mut waited, 10.0, 11.0, Some(2.0));
        assert_eq!((waited.data, waited.forward, waited.sum()), (2.0, 3.0, 11.0), "the loader's own measure counts");
        let ledger = Ledger { parts: waited, ..Ledger::default() }.of(12.0);
        assert!((ledger.parts.other - 1.0).abs() < 1e-12 && (ledger.parts.sum() - 12.0).abs() < 1e-12);
    }

    #[test]
    fn one_line_for_people() {
        let ledger = Ledger { parts: parts(), ..Ledger::default() }.of(20.0);
        assert_eq!(
            ledger.summary(),
            "40% steps (forward 15, backward 20, update 5), 5% waiting for data, 5% copying, 50% other"
        );
        assert_eq!(Ledger::default().of(0.0).summary(), "0% steps");
    }
}
