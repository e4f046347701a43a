//! What would be, if: the same steps with a cached batch, without the copy, with nothing computed, with other batches, workers, threads
//! and precisions. All are run in turns, so that whatever else the machine does happens to all of them, and each is told as a ratio to
//! the steps as they are, with an interval.

use std::time::{Duration, Instant};

use citius_cuda::Precision;
use serde::{Deserialize, Serialize};

use crate::ledger::{reached, working_set};
use crate::rig::{Held, Rig, Supply};
use crate::{Ceilings, Device, Engine, Machine, Material, Settings, TrainError};

/// What steps cost otherwise, and what follows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Counterfactuals {
    /// Microseconds of a step as it is, the median, and rows of a step.
    pub step_us: f64,
    pub batch: usize,
    /// How far two measurements of the same differ: everything below is known no better. Intervals contain it.
    pub noise: f64,
    pub others: Vec<Counterfactual>,
    /// The part of the step's time that no executor could do without: what its FLOPs and bytes take at the machine's ceilings.
    /// `None` on a GPU.
    pub roofline: Option<f64>,
    pub verdict: Verdict,
    /// The verdict in one line.
    pub says: String,
}

/// One way in which things could be otherwise.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Counterfactual {
    pub what: What,
    pub name: String,
    /// Time per row, as a share of what it is now: the median, and a 95% interval.
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    /// Microseconds per step of as many rows as now.
    pub step_us: f64,
    /// Seconds saved in the whole run, by the median; below 0 where it would take longer.
    pub saves: f64,
    /// By the ends of the interval.
    pub saves_low: f64,
    pub saves_high: f64,
}

impl Counterfactual {
    /// It saves time that somebody would tell of, and how much is not well known.
    fn is_vague(&self) -> bool {
        let told = self.ratio < 1.0 - WORTH && self.saves > WORTH_SECONDS;
        told && self.high - self.low > PRECISE * (1.0 - self.ratio)
    }
}

/// What is changed.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The same batch again and again: nothing is loaded.
    CachedBatch,
    /// Nothing is copied or gathered either.
    NoCopy,
    /// Nothing is computed.
    NoCompute,
    /// Rows of a step.
    Batch(usize),
    /// Threads that load.
    Workers(usize),
    /// Threads that compute.
    Threads(usize),
    Precision(Precision),
    /// Batches in pinned memory on their way to a GPU.
    Pinned,
    /// Steps on the processor instead of a GPU.
    Processor,
}

/// What keeps steps from being faster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    DataBound,
    CopyBound,
    /// What every step costs, however little it computes.
    LaunchBound,
    MemoryBound,
    ComputeBound,
    NothingLeftToGain,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::DataBound => "data-bound",
            Verdict::CopyBound => "copy-bound",
            Verdict::LaunchBound => "launch-bound",
            Verdict::MemoryBound => "memory-bound",
            Verdict::ComputeBound => "compute-bound",
            Verdict::NothingLeftToGain => "nothing left to gain",
        }
    }
}

/// Turns of each, and where there is little time or steps are long.
const TURNS: usize = 9;
const FEW_TURNS: usize = 5;
/// Seconds from which a step is long: what it costs to start is none of its troubles.
const LONG_STEP: f64 = 0.1;
/// Operations a second that no core comes near, whatever its vectors and the zeros it skips.
const BEYOND_A_CORE: f64 = 5e11;
/// What saves time is priced: it has more turns until its interval is this part of the saving, or so much time and so many turns are over.
const PRECISE: f64 = 0.2;
const LONGER: Duration = Duration::from_secs(3);
const MOST_TURNS: usize = 45;
/// Seconds for threads and workers to be tried out.
const WARM_UP: f64 = 0.1;
/// Batches that are timed, in what workers hold ready: they hand over many at a time, and many workers in bursts. Where that would take
/// longer than some seconds, as many as are held ready must do.
const STOCKS: u64 = 12;
const LONG_TURN: f64 = 0.2;
/// Time in which only what matters most is measured.
const SHORT: Duration = Duration::from_secs(2);
/// Noise from which the machine is said to be busy with something else.
const BUSY: f64 = 0.05;

/// Measures, in about this time, and up to three seconds more where a price would be vague.
pub fn counterfactuals(
    material: &Material,
    settings: &Settings,
    machine: Machine,
    budget: Duration,
) -> Result<Counterfactuals, TrainError> {
    let held = Held::new(material, settings)?;
    let rig =
        |supply, settings: &Settings, machine, workers| Rig::new(material, settings, machine, supply, &held, workers);
    let mut as_is = rig(Supply::Real, settings, machine, None)?;
    let step = as_is.warm_up(WARM_UP)?;
    let (batch, workers) = (as_is.batch, as_is.workers());
    let out_of_reach = |engine: &mut Engine| {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = if machine.cpu.threads == 0 { cores } else { machine.cpu.threads };
        engine.plan(0).total().flops as f64 > step * BEYOND_A_CORE * threads as f64
    };
    let hopeless = as_is.engine().is_some_and(out_of_reach);
    if workers.is_some() {
        // as many as have turned out fastest, from now on
        as_is = rig(Supply::Real, settings, machine, workers)?;
    }
    let mut all = vec![(None, as_is), (None, rig(Supply::Real, settings, machine, workers)?)];
    let (short, long) = (budget < SHORT, step > LONG_STEP);
    for (what, supply, settings, machine, others) in variants(material, settings, machine, batch) {
        let known = workers.is_some_and(|n| what == What::Workers(n)) || (what == What::Processor && hopeless);
        let matters = match long {
            true => what.matters_in_long_steps(),
            false => !short || what.matters(batch, workers.is_some()),
        };
        if known || !matters {
            continue;
        }
        let workers = others.or(workers);
        // what does not fit, or needs what this machine has not, is left out
        if let Ok(rig) = rig(supply, &settings, machine, workers) {
            all.push((Some(what), rig));
        }
    }
    let turns = if short || long { FEW_TURNS } else { TURNS };
    let mut race = Race::new(all, turns, budget)?;
    let mut open = vec![true; race.rigs.len()];
    for _ in 0..turns {
        race.turn(&open)?;
    }
    // trained anew on all rows, where that was asked for
    let times = if settings.refit { 2.0 } else { 1.0 };
    let run_rows = material.rows() as f64 * settings.epochs as f64 * times;
    let (kinds, longer) = (race.kinds(), Instant::now());
    let remedies = |what: &What| what.is_remedy(batch, matches!(machine.device, Device::Cuda(_)));
    while longer.elapsed() < LONGER && race.seconds[0].len() < MOST_TURNS {
        let told = judge(&kinds, &race.seconds, batch, run_rows, None).others;
        let vague = |what: What| told.iter().any(|other| other.what == what && other.is_vague() && remedies(&what));
        open.iter_mut().zip(&kinds).for_each(|(open, kind)| *open &= kind.is_none_or(vague));
        if kinds.iter().zip(&open).all(|(kind, open)| kind.is_none() || !open) {
            break;
        }
        race.turn(&open)?;
    }
    let roofline = roofline(&mut race.rigs[0].1, machine, median(&race.seconds[0]) * batch as f64);
    Ok(judge(&kinds, &race.seconds, batch, run_rows, roofline))
}

/// Rigs that take turns, so that whatever else the machine does happens to all of them.
struct Race<'a> {
    rigs: Vec<(Option<What>, Rig<'a>)>,
    /// Of a turn.
    steps: Vec<u64>,
    /// Turns are of whole epochs, of all or of none.
    whole_epochs: bool,
    /// Per row, of each turn.
    seconds: Vec<Vec<f64>>,
}

impl<'a> Race<'a> {
    /// The timed steps of so many turns take about this time; with those before them, half as long again.
    fn new(mut rigs: Vec<(Option<What>, Rig<'a>)>, turns: usize, time: Duration) -> Result<Race<'a>, TrainError> {
        let each = time.as_secs_f64() / (rigs.len() * turns).max(1) as f64;
        let steps: Vec<u64> = rigs.iter_mut().map(|(_, rig)| long_enough(rig, each)).collect::<Result<_, _>>()?;
        let seconds = vec![Vec::with_capacity(MOST_TURNS); rigs.len()];
        let whole_epochs = rigs.iter().zip(&steps).all(|((_, rig), steps)| *steps >= 2 * rig.epoch());
        Ok(Race { rigs, steps, whole_epochs, seconds })
    }

    fn kinds(&self) -> Vec<Option<What>> {
        self.rigs.iter().map(|(what, _)| *what).collect()
    }

    /// A turn of each that is still in it. One that is out stays out: its turns are compared with those of the others.
    fn turn(&mut self, open: &[bool]) -> Result<(), TrainError> {
        let (turn, count) = (self.seconds.first().map_or(0, Vec::len), self.rigs.len());
        for n in 0..count {
            // not always after the same neighbour
            let n = if turn.is_multiple_of(2) { n } else { count - 1 - n };
            if open[n] {
                let rig = &mut self.rigs[n].1;
                self.seconds[n].push(rig.turn(self.steps[n], self.whole_epochs)? / rig.batch as f64);
            }
        }
        Ok(())
    }
}

/// What a step takes, batches as they come in training.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepCost {
    /// The median.
    pub seconds: f64,
    /// As a share of that of the first, with a 96% interval.
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

/// Steps of each, run in turns, so that whatever else the machine does happens to all of them.
pub fn step_costs(
    of: &[(&Material, &Settings)],
    device: Device,
    cpu: citius_cpu::Options,
    budget: Duration,
) -> Result<Vec<StepCost>, TrainError> {
    let held = of.iter().map(|(material, settings)| Held::new(material, settings)).collect::<Result<Vec<_>, _>>()?;
    let mut rigs = Vec::new();
    for ((material, settings), held) in of.iter().zip(&held) {
        let machine = Machine::of(device, cpu, settings, material);
        rigs.push((None, Rig::new(material, settings, machine, Supply::Real, held, None)?));
    }
    let (mut race, open) = (Race::new(rigs, TURNS, budget)?, vec![true; of.len()]);
    for _ in 0..TURNS {
        race.turn(&open)?;
    }
    let batches = race.rigs.iter().map(|(_, rig)| rig.batch as f64);
    let seconds: Vec<Vec<f64>> =
        race.seconds.iter().zip(batches).map(|(turns, batch)| turns.iter().map(|s| s * batch).collect()).collect();
    let cost = |turns: &Vec<f64>| {
        let ratios: Vec<f64> = turns.iter().zip(&seconds[0]).map(|(t, first)| t / first.max(1e-12)).collect();
        let (ratio, low, high) = interval(&ratios);
        StepCost { seconds: median(turns), ratio, low, high }
    };
    Ok(seconds.iter().map(cost).collect())
}

/// Warms up; steps of a turn that takes about so many seconds, and tells what it is to tell.
fn long_enough(rig: &mut Rig, seconds: f64) -> Result<u64, TrainError> {
    let step = rig.warm_up(WARM_UP)?;
    let bursts = (STOCKS * rig.stock()).min((LONG_TURN / step) as u64);
    Ok(((seconds / step) as u64).max(bursts).max(rig.stock()).max(1))
}

type Variant = (What, Supply, Settings, Machine, Option<usize>);

/// What is worth a try.
fn variants(material: &Material, settings: &Settings, machine: Machine, batch: usize) -> Vec<Variant> {
    let on_gpu = matches!(machine.device, Device::Cuda(_));
    let mut all: Vec<Variant> =
        [(What::CachedBatch, Supply::Cached), (What::NoCopy, Supply::Bound), (What::NoCompute, Supply::Alone)]
            .map(|(what, supply)| (what, supply, settings.clone(), machine, None))
            .into_iter()
            .collect();
    let sizes = [batch / 2, batch * 2, batch * 4];
    for size in sizes.into_iter().filter(|size| (1..=material.rows()).contains(size) && *size != batch) {
        let other = Settings { batch_size: size, ..settings.clone() };
        let machine = machine.for_steps_of(&other, material);
        all.push((What::Batch(size), Supply::Real, other, machine, None));
    }
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    if let Material::Loaded(loaded) = material {
        let mut numbers = vec![0, 1, cores.div_ceil(2), cores];
        numbers.dedup();
        for workers in numbers.into_iter().filter(|n| loaded.options.workers != Some(*n)) {
            all.push((What::Workers(workers), Supply::Real, settings.clone(), machine, Some(workers)));
        }
    }
    if on_gpu {
        for precision in [Precision::Tf32, Precision::Bf16].into_iter().filter(|p| *p != settings.precision) {
            let other = Settings { precision, ..settings.clone() };
            let cuda = citius_cuda::Options { precision, ..machine.cuda };
            all.push((What::Precision(precision), Supply::Real, other, Machine { cuda, ..machine }, None));
        }
        if machine.cuda.unpinned {
            let cuda = citius_cuda::Options { unpinned: false, ..machine.cuda };
            all.push((What::Pinned, Supply::Real, settings.clone(), Machine { cuda, ..machine }, None));
        }
        let processor = Machine { device: Device::Cpu, ..machine };
        all.push((What::Processor, Supply::Real, settings.clone(), processor, None));
        return all;
    }
    for threads in [1, cores].into_iter().filter(|t| cores > 1 && machine.cpu.threads != *t) {
        let cpu = citius_cpu::Options { threads, ..machine.cpu };
        all.push((What::Threads(threads), Supply::Real, settings.clone(), Machine { cpu, ..machine }, None));
    }
    if citius_cpu::gains_from_halves() && settings.precision == Precision::Fp32 {
        let other = Settings { precision: Precision::Bf16, ..settings.clone() };
        let cpu = citius_cpu::Options { halves_from: Some(citius_cpu::LARGE_PRODUCT), ..machine.cpu };
        all.push((What::Precision(Precision::Bf16), Supply::Real, other, Machine { cpu, ..machine }, None));
    }
    all
}

/// What FLOPs and bytes of the step take at least, as a share of what it takes; and which of them takes longer.
fn roofline(rig: &mut Rig, machine: Machine, step: f64) -> Option<(f64, bool)> {
    if matches!(machine.device, Device::Cuda(_)) {
        return None;
    }
    let engine = rig.engine()?;
    let times = engine.times(0).filter(|times| times.timed > 0)?;
    let (plan, threads) = (engine.plan(0), engine.threads(0));
    let ceilings = Ceilings::get().on(threads, working_set(plan));
    // by arithmetic, by bytes, and by the longer of them, call by call
    let (mut least, mut known, mut busy) = ([0.0; 3], 0.0, 0.0);
    for (i, call) in plan.calls.iter().enumerate() {
        let (seconds, done) = (times.calls[i], times.done[i] / times.pace[i]);
        let (flops, bytes) = (call.cost.flops as f64 * done, call.cost.bytes as f64);
        let seconds = seconds / threads as f64;
        busy += seconds;
        if let Some(reached) = reached(ceilings.seconds(flops, bytes), seconds) {
            known += seconds;
            least[0] += flops / ceilings.flops;
            least[1] += bytes / ceilings.memory;
            least[2] += reached * seconds;
        }
    }
    let reached = if known > 0.0 { least[2] / known } else { return None };
    Some(((reached * busy / step).min(1.0), least[1] > least[0]))
}

/// `seconds`: per row, of each turn; the first two are of steps as they are.
fn judge(
    kinds: &[Option<What>],
    seconds: &[Vec<f64>],
    batch: usize,
    run_rows: f64,
    roofline: Option<(f64, bool)>,
) -> Counterfactuals {
    let now = median(&seconds[0].iter().chain(&seconds[1]).copied().collect::<Vec<_>>());
    // of each turn, against what came about before and after it
    let ratios = |of: &[f64]| -> Vec<f64> {
        let base = seconds[0].iter().zip(&seconds[1]).map(|(a, b)| (a + b) / 2.0);
        of.iter().zip(base).map(|(of, base)| of / base.max(1e-12)).collect()
    };
    let same: Vec<f64> = seconds[0].iter().zip(&seconds[1]).map(|(a, b)| b / a.max(1e-12)).collect();
    let (_, low, high) = interval(&same);
    let noise = ((high - low) / 2.0).max((median(&same) - 1.0).abs());
    let others: Vec<Counterfactual> = kinds
        .iter()
        .zip(seconds)
        .filter_map(|(what, seconds)| Some((((*what)?), seconds)))
        .map(|(what, seconds)| {
            let (ratio, low, high) = interval(&ratios(seconds));
            // known no better than two measurements of the same, which differ by a share: what takes a hundredth does so on a busy machine too
            let noise = noise * ratio;
            let (low, high) = (low.min(ratio - noise).max(0.0), high.max(ratio + noise));
            let saved = |ratio: f64| (1.0 - ratio) * now * run_rows;
            Counterfactual {
                what,
                name: what.name(),
                ratio,
                low,
                high,
                step_us: ratio * now * batch as f64 * 1e6,
                saves: saved(ratio),
                saves_low: saved(high),
                saves_high: saved(low),
            }
        })
        .collect();
    let (verdict, says) = verdict(&others, batch, roofline, noise);
    let (step_us, roofline) = (now * batch as f64 * 1e6, roofline.map(|r| r.0));
    Counterfactuals { step_us, batch, noise, others, roofline, verdict, says }
}

/// A gain that is worth a word: at least this share of the time …
pub const WORTH: f64 = 0.1;
/// … and so many seconds of the whole run.
pub const WORTH_SECONDS: f64 = 0.5;
/// Of what the machine can do, the part from which there is nothing left to gain.
const NEAR: f64 = 0.8;
/// A step of four times the rows that takes this much less per row pays for what every step costs.
const LAUNCHES: f64 = 0.3;

fn verdict(others: &[Counterfactual], batch: usize, roofline: Option<(f64, bool)>, noise: f64) -> (Verdict, String) {
    let find = |what: What| others.iter().find(|o| o.what == what);
    // what is gained for certain
    let sure = |o: &Counterfactual| (1.0 - o.high).max(0.0);
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let between = |o: &Counterfactual| {
        format!("{} ({} to {})", percent(1.0 - o.ratio), percent(1.0 - o.high), percent(1.0 - o.low))
    };
    let data = find(What::CachedBatch).filter(|o| sure(o) > WORTH);
    let copy = find(What::NoCopy).filter(|o| sure(o) > WORTH + data.map_or(0.0, |d| 1.0 - d.ratio));
    let larger = find(What::Batch(4 * batch)).filter(|o| sure(o) > LAUNCHES);
    let (verdict, why) = match (data, copy, larger, roofline) {
        (Some(data), None, _, _) => {
            (Verdict::DataBound, format!("with the batch at hand steps would take {} less", between(data)))
        }
        (_, Some(copy), _, _) => (
            Verdict::CopyBound,
            format!("without gathering and copying the batch steps would take {} less", between(copy)),
        ),
        (_, _, _, Some((near, _))) if near >= NEAR => {
            (Verdict::NothingLeftToGain, format!("at {} of this machine's roofline: stop tuning speed", percent(near)))
        }
        (_, _, Some(larger), _) => {
            (Verdict::LaunchBound, format!("a row takes {} less in batches of {}", between(larger), 4 * batch))
        }
        (_, _, _, Some((near, true))) => (
            Verdict::MemoryBound,
            format!("moving the step's bytes takes {} of its time at the machine's ceiling", percent(near)),
        ),
        (_, _, _, Some((near, false))) => (
            Verdict::ComputeBound,
            format!("the step's arithmetic takes {} of its time at the machine's ceiling", percent(near)),
        ),
        (_, _, _, None) => (Verdict::ComputeBound, "neither data nor copies nor launches take long".to_owned()),
    };
    let busy = match noise > BUSY {
        true => format!(
            "; the machine is busy with something else: two measurements of the same differ by {}",
            percent(noise)
        ),
        false => String::new(),
    };
    (verdict, format!("{}: {why}{busy}", verdict.name()))
}

impl What {
    /// Whether it is asked for even where there is little time.
    fn matters(&self, batch: usize, loaded: bool) -> bool {
        match self {
            What::CachedBatch | What::NoCopy | What::Workers(_) | What::Pinned | What::Processor => true,
            What::Precision(_) => !loaded,
            What::Batch(rows) => !loaded && *rows == 4 * batch,
            What::NoCompute | What::Threads(_) => false,
        }
    }

    /// The same where a step takes a tenth of a second: all but what tells of starting it, and takes as long again.
    fn matters_in_long_steps(&self) -> bool {
        !matches!(self, What::Batch(_) | What::Threads(_) | What::NoCompute)
    }

    /// Whether a check of the doctor's tells what it saves, so that this should be well known.
    fn is_remedy(&self, batch: usize, on_gpu: bool) -> bool {
        match self {
            What::CachedBatch | What::Workers(_) | What::Pinned | What::Processor => true,
            What::Precision(precision) => *precision == Precision::Bf16,
            What::Batch(rows) => on_gpu && *rows == 4 * batch,
            What::NoCopy => on_gpu,
            What::NoCompute | What::Threads(_) => false,
        }
    }

    pub fn name(&self) -> String {
        match self {
            What::CachedBatch => "a cached batch".to_owned(),
            What::NoCopy => "no gathering or copying".to_owned(),
            What::NoCompute => "nothing computed".to_owned(),
            What::Batch(rows) => format!("batches of {rows}"),
            What::Workers(0) => "no workers".to_owned(),
            What::Workers(1) => "1 worker".to_owned(),
            What::Workers(n) => format!("{n} workers"),
            What::Threads(1) => "1 thread".to_owned(),
            What::Threads(n) => format!("{n} threads"),
            What::Precision(precision) => precision.to_string(),
            What::Pinned => "pinned memory".to_owned(),
            What::Processor => "on the processor".to_owned(),
        }
    }
}

/// The median and its interval of about 95%: of five values the first and the last in order, of nine the second and the last but one.
fn interval(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let outer = (n as f64 / 2.0 - 0.98 * (n as f64).sqrt()).max(0.0) as usize;
    (middle(&sorted), sorted[outer], sorted[n - 1 - outer])
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    middle(&sorted)
}

/// Of an even number of values the mean of the two in the middle.
fn middle(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::tests::{rows, settings};

    fn judged(times: &[(Option<What>, f64)], noise: f64, roofline: Option<(f64, bool)>) -> Counterfactuals {
        let wobble = |t: f64, n: usize| t * (1.0 + noise * ((n * 7 % TURNS) as f64 / 4.0 - 1.0));
        let turns = |(i, (_, t)): (usize, &(Option<What>, f64))| (0..TURNS).map(|turn| wobble(*t, turn + i)).collect();
        let seconds: Vec<Vec<f64>> = times.iter().enumerate().map(turns).collect();
        judge(&times.iter().map(|t| t.0).collect::<Vec<_>>(), &seconds, 32, 1e6, roofline)
    }

    fn case(cached: f64, bound: f64, larger: f64, roofline: f64, by_memory: bool) -> Counterfactuals {
        let times = [
            (None, 1e-6),
            (None, 1e-6),
            (Some(What::CachedBatch), cached),
            (Some(What::NoCopy), bound),
            (Some(What::Batch(128)), larger),
        ];
        judged(&times, 0.01, Some((roofline, by_memory)))
    }

    #[test]
    fn verdicts_follow_from_what_would_be() {
        assert_eq!(case(2e-7, 2e-7, 9e-7, 0.1, false).verdict, Verdict::DataBound);
        assert_eq!(case(9.9e-7, 5e-7, 9e-7, 0.1, false).verdict, Verdict::CopyBound);
        assert_eq!(case(9.9e-7, 9.7e-7, 3e-7, 0.1, false).verdict, Verdict::LaunchBound);
        assert_eq!(case(9.9e-7, 9.7e-7, 9e-7, 0.5, true).verdict, Verdict::MemoryBound);
        assert_eq!(case(9.9e-7, 9.7e-7, 9e-7, 0.5, false).verdict, Verdict::ComputeBound);
        let near = case(9.9e-7, 9.7e-7, 9e-7, 0.92, false);
        assert_eq!(near.verdict, Verdict::NothingLeftToGain);
        assert!(near.says.contains("at 92% of this machine's roofline"), "{}", near.says);
    }

    #[test]
    fn a_price_is_vague_where_turns_scatter_and_somebody_would_hear_it() {
        let of = |cached: f64, noise: f64| {
            judged(&[(None, 1e-6), (None, 1e-6), (Some(What::CachedBatch), cached)], noise, None).others[0].clone()
        };
        // of a run of 1 s
        assert!(of(4e-7, 0.3).is_vague());
        assert!(!of(4e-7, 0.01).is_vague(), "it is well known");
        assert!(!of(7e-7, 0.3).is_vague(), "too little is saved");
    }

    #[test]
    fn intervals_narrow_as_turns_are_added() {
        let width = |count: usize| {
            let (middle, low, high) = interval(&(0..count).map(|n| n as f64 / (count - 1) as f64).collect::<Vec<_>>());
            assert_eq!(middle, 0.5);
            high - low
        };
        assert_eq!([width(5), width(9)], [1.0, 0.75]);
        assert!(width(45) < 0.35);
    }

    #[test]
    fn a_gain_is_told_in_seconds_with_an_interval() {
        let data = &case(2e-7, 2e-7, 9e-7, 0.1, false).others[0];
        assert!((data.ratio - 0.2).abs() < 0.01 && (data.saves - 0.8).abs() < 0.02, "{data:?}");
        assert!(data.low < data.ratio && data.ratio < data.high && data.saves_low < data.saves, "{data:?}");
    }

    #[test]
    fn a_busy_machine_widens_the_intervals_and_is_told() {
        let times = [(None, 1e-6), (None, 1e-6), (Some(What::CachedBatch), 8.5e-7)];
        let quiet = judged(&times, 0.01, None);
        let busy = judged(&times, 0.4, None);
        let width = |c: &Counterfactuals| c.others[0].high - c.others[0].low;
        assert!(busy.noise > 5.0 * quiet.noise && width(&busy) > 5.0 * width(&quiet), "{busy:?}");
        assert_eq!((quiet.verdict, busy.verdict), (Verdict::DataBound, Verdict::ComputeBound), "not known for certain");
        let plain = judged(&[(None, 1e-6), (None, 1e-6), (Some(What::CachedBatch), 1e-8)], 0.9, None);
        assert_eq!(plain.verdict, Verdict::DataBound, "beyond doubt all the same: {plain:?}");
        assert!(busy.says.contains("busy with something else") && !quiet.says.contains("busy"), "{}", busy.says);
    }

    #[test]
    fn larger_batches_are_compiled_for_fewer_steps() {
        let (settings, material) = (settings(), rows());
        let machine = Machine::of(Device::Cuda(0), citius_cpu::Options::default(), &settings, &material);
        for (what, _, settings, variant, _) in variants(&material, &settings, machine, settings.batch_size) {
            let trained = Machine::of(variant.device, variant.cpu, &settings, &material);
            assert_eq!(variant.cuda.steps, trained.cuda.steps, "as a training with {} is", what.name());
        }
    }

    #[test]
    fn the_steps_of_a_run_are_measured_otherwise() {
        let (settings, material) = (settings(), rows());
        let told = counterfactuals(&material, &settings, Machine::default(), Duration::from_millis(200)).unwrap();
        let whats: Vec<What> = told.others.iter().map(|o| o.what).collect();
        for what in [What::CachedBatch, What::NoCopy] {
            assert!(whats.contains(&what), "{whats:?}");
        }
        assert!(told.step_us > 0.0 && told.others.iter().all(|o| o.ratio > 0.0 && o.low <= o.high));
        let larger = Settings { batch_size: 2 * settings.batch_size, ..settings.clone() };
        let both = [(&material, &settings), (&material, &larger)];
        let costs = step_costs(&both, Device::Cpu, citius_cpu::Options::default(), Duration::from_millis(50));
        let [first, second] = costs.unwrap()[..] else { panic!("two were asked for") };
        assert!((first.ratio, first.low, first.high) == (1.0, 1.0, 1.0) && first.seconds > 0.0, "{first:?}");
        assert!(second.low <= second.ratio && second.ratio <= second.high, "{second:?}");
    }
}
