//! Full training epochs. The time holds all that an epoch needs:
//! the shuffle, the gather of each batch, the step with its probes, and the smaller last batch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use citius_cpu::{
    Batch, Driver, Flow, Inputs, LARGE_PRODUCT, Options, Outputs, RowOrder, Slots, Times, Timing, gains_from_halves,
};
use citius_cuda::Precision;
use citius_data::{Dataset, Features, InMemory, Loader, LoaderOptions, Order, Source, Target};
use citius_graph::{DType, Graph, Tensor};
use citius_nn::{Adam, Learning, cross_entropy, mse};
use citius_plan::Plan;
use citius_train::{Device, Engine, Filler, Machine, Workers, row_order};

use crate::args::threads_used;
use crate::screen::{self, Sink};

use super::workload::{SEED, Workload};
use super::{IsaName, StepArgs, Variant, median, rounded};

const MOST_EPOCHS: usize = 200;

pub fn run(args: &StepArgs) -> Result<(), String> {
    let halves_from = (args.precision == Precision::Bf16).then_some(LARGE_PRODUCT);
    let gains = halves_from.is_some() && gains_from_halves();
    if args.precision != Precision::Fp32 && args.device == Device::Cpu && !gains {
        let why = if halves_from.is_some() { "is no faster in 16 bits" } else { "has none" };
        screen::line(
            Sink::Stderr,
            &format!("{}: this processor {why}, everything is computed in 32 bits", args.precision),
        );
    }
    let isa = args.isa.map(IsaName::available).transpose()?;
    let threads = threads_used(args.threads);
    let cpu = Options { threads, isa, halves_from, timing: Timing::Sampled, ..Options::default() };
    let cuda = citius_cuda::Options { precision: args.precision, ..Default::default() };
    let machine = Machine { device: args.device, cpu, cuda };
    let budget =
        Duration::try_from_secs_f64(args.seconds).map_err(|_| format!("--seconds {} is no time", args.seconds))?;
    if !args.json && !args.ledger_cost {
        println!("{HEAD}");
    }
    for &workload in &args.workloads {
        let data = Arc::new(workload.data(args.mnist.as_deref())?);
        if args.ledger_cost {
            let cost = ledger_cost(workload, args, &data, machine, budget)?;
            let json = serde_json::to_string(&cost).map_err(|e| e.to_string())?;
            println!("{}", if args.json { json } else { cost.row() });
            continue;
        }
        let result = match args.device {
            Device::Auto => faster(workload, args, &data, machine, budget)?,
            _ => measure(workload, args, &data, machine, budget)?,
        };
        println!("{}", if args.json { result.json()? } else { result.row() });
    }
    Ok(())
}

/// On the processor and, where there is one, on a GPU; the faster counts.
fn faster(
    workload: Workload,
    args: &StepArgs,
    data: &Arc<Dataset>,
    machine: Machine,
    budget: Duration,
) -> Result<Measured, String> {
    let on = |device| measure(workload, args, data, Machine { device, ..machine }, budget);
    let cpu = on(Device::Cpu)?;
    if !citius_cuda::Device::has_driver() {
        return Ok(cpu);
    }
    match on(Device::Cuda(0)) {
        Ok(gpu) if gpu.us_per_step < cpu.us_per_step => Ok(gpu),
        Ok(_) => Ok(cpu),
        Err(problem) => {
            screen::line(Sink::Stderr, &format!("{}: on the processor alone: {problem}", workload.name()));
            Ok(cpu)
        }
    }
}

/// Trains until the budget is spent, at least two epochs after the first; the median of those counts.
fn measure(
    workload: Workload,
    args: &StepArgs,
    data: &Arc<Dataset>,
    machine: Machine,
    budget: Duration,
) -> Result<Measured, String> {
    let mut trainer = Trainer::new(workload, args.variant, args.workers, data, machine)?;
    let inputs = trainer.inputs(data);
    let start = Instant::now();
    let mut seconds = Vec::new();
    while seconds.len() < 3 || (start.elapsed() < budget && seconds.len() < MOST_EPOCHS) {
        let epoch = Instant::now();
        trainer.epoch(&inputs)?;
        seconds.push(epoch.elapsed().as_secs_f64());
    }
    let epoch_s = median(&seconds[1..]);
    let steps = trainer.steps_per_epoch();
    Ok(Measured {
        peer: concat!("citius ", env!("CARGO_PKG_VERSION")),
        workload: workload.name(),
        variant: args.variant.name(),
        workers: trainer.loader.as_ref().map(|loader| loader.report().workers),
        device: trainer.engine.device(),
        epoch_s: rounded(epoch_s, 7),
        steps,
        us_per_step: rounded(epoch_s / steps as f64 * 1e6, 3),
        last_loss: rounded(trainer.loss as f64, 5),
        threads: trainer.engine.threads(0),
        isa: trainer.engine.hardware(),
        first_epoch_s: rounded(seconds[0], 7),
        gflops: rounded(trainer.flops_per_epoch() as f64 / epoch_s / 1e9, 2),
        ledger: trainer.engine.ledger(0).map(StepLedger::from),
        parts: trainer.engine.times(0).as_ref().and_then(parts),
    })
}

/// A stretch of steps takes at least so long, many times what lies between two timed steps.
const STRETCH: f64 = 0.02;

/// Steps in a row by which numbers of threads are told apart.
const SETTLING: u64 = 8;

/// What keeping account of the time costs: pairs of stretches of as many steps, one with timed steps and one without, each first as often
/// as the other.
fn ledger_cost(
    workload: Workload,
    args: &StepArgs,
    data: &Arc<Dataset>,
    machine: Machine,
    budget: Duration,
) -> Result<LedgerCost, String> {
    let mut trainer = Trainer::new(workload, args.variant, args.workers, data, machine)?;
    let inputs = trainer.inputs(data);
    // threads are tried out, and how often to time a step
    let mut steps = 1;
    let began = Instant::now();
    loop {
        let tried = steps.max(SETTLING);
        let seconds = trainer.stretch(&inputs, tried)?;
        steps = ((STRETCH / seconds * tried as f64).ceil() as u64).clamp(1, 1 << 20);
        if began.elapsed().as_secs_f64() > 10.0 * STRETCH && trainer.engine.settled(0) {
            break;
        }
    }
    let mut cost = LedgerCost { workload: workload.name(), steps, pairs: Vec::new() };
    let start = Instant::now();
    while cost.pairs.len() < 3 || start.elapsed() < budget {
        let mut pair = Pair::default();
        let first = cost.pairs.len() % 2 == 1;
        for paused in [first, !first] {
            trainer.engine.pause_timing(paused);
            let us = rounded(trainer.stretch(&inputs, steps)? / steps as f64 * 1e6, 4);
            let threads = trainer.engine.threads(0);
            match paused {
                true => (pair.without_us, pair.threads_without) = (us, threads),
                false => (pair.with_us, pair.threads_with) = (us, threads),
            }
        }
        cost.pairs.push(pair);
    }
    Ok(cost)
}

/// Pairs of stretches of so many steps.
#[derive(serde::Serialize)]
struct LedgerCost {
    workload: &'static str,
    steps: u64,
    pairs: Vec<Pair>,
}

/// Microseconds of a step, and how many threads took it.
#[derive(Clone, Copy, Default, serde::Serialize)]
struct Pair {
    with_us: f64,
    without_us: f64,
    threads_with: usize,
    threads_without: usize,
}

impl LedgerCost {
    fn row(&self) -> String {
        let ratios: Vec<f64> = self.pairs.iter().map(|pair| pair.with_us / pair.without_us - 1.0).collect();
        let (cost, pairs) = (median(&ratios) * 100.0, self.pairs.len());
        format!("{:<12} {cost:>+6.2}%  the middle of {pairs} pairs of {} steps", self.workload, self.steps)
    }
}

/// A model with the compiled steps that train it: one for full batches, one for what is left at the end of an epoch.
struct Trainer {
    /// Plan 0 is the step of full batches, plan 1 that of the last.
    engine: Engine,
    has_last: bool,
    /// Brings the batches, unless the step gathers them.
    loader: Option<Loader>,
    rows: usize,
    batch: usize,
    epochs: u64,
    /// Steps of stretches.
    taken: u64,
    loss: f32,
}

impl Trainer {
    fn new(
        workload: Workload,
        variant: Variant,
        workers: Workers,
        data: &Arc<Dataset>,
        machine: Machine,
    ) -> Result<Trainer, String> {
        let (rows, batch) = (data.rows, workload.batch());
        let sizes = [batch, rows % batch].into_iter().filter(|size| *size > 0);
        let whole = matches!(machine.device, Device::Cuda(_));
        let plans =
            sizes.map(|size| training_step(workload, variant, data, size, whole)).collect::<Result<Vec<_>, _>>()?;
        let has_last = plans.len() > 1;
        let inputs = if variant == Variant::Resident { bound(data) } else { Inputs::new() };
        let engine = Engine::new(plans, SEED, &inputs, machine).map_err(|e| e.to_string())?;
        let loader = match variant {
            Variant::Resident => None,
            Variant::Loader => {
                let source: Arc<dyn Source> =
                    Arc::new(InMemory::new(workload.name(), data.clone()).map_err(|e| e.to_string())?);
                let options =
                    LoaderOptions { batch_size: batch, seed: SEED, workers: workers.0, ..LoaderOptions::default() };
                Some(Loader::new(source, options).map_err(|e| e.to_string())?)
            }
        };
        Ok(Trainer { engine, has_last, loader, rows, batch, epochs: 0, taken: 0, loss: f32::NAN })
    }

    /// What stays the same for every step.
    fn inputs<'a>(&self, data: &'a Dataset) -> Inputs<'a> {
        match self.loader {
            Some(_) => Inputs::new(),
            None => bound(data),
        }
    }

    fn steps_per_epoch(&self) -> usize {
        self.rows.div_ceil(self.batch)
    }

    fn flops_per_epoch(&self) -> usize {
        let last = if self.has_last { self.engine.plan(1).total().flops } else { 0 };
        self.rows / self.batch * self.engine.plan(0).total().flops + last
    }

    /// So many full batches of the rows that an order of its own has first, over and over; seconds.
    fn stretch(&mut self, inputs: &Inputs, steps: u64) -> Result<f64, String> {
        let per_epoch = (self.rows / self.batch).max(1) as u64;
        let loss = self.engine.output(0, "loss").ok_or("the step has no loss")?;
        let start = Instant::now();
        let mut left = steps;
        while left > 0 {
            let first = self.taken;
            let order = Box::new(Order::new(self.rows as u32, SEED, self.epochs));
            let batches = Batches::Drawn { order, first, batch: self.batch };
            let mut feeder = Feeder { batches, loss, last_loss: 0.0, trouble: None };
            let some = left.min(per_epoch);
            self.engine.run(0, inputs, first, some, &mut feeder).map_err(|e| e.to_string())?;
            (self.taken, self.epochs, left) = (first + some, self.epochs + 1, left - some);
        }
        Ok(start.elapsed().as_secs_f64())
    }

    /// All rows once, in an order of this epoch's own.
    fn epoch(&mut self, inputs: &Inputs) -> Result<(), String> {
        let first = self.epochs * self.steps_per_epoch() as u64;
        let full_steps = (self.rows / self.batch) as u64;
        let loss = self.engine.output(0, "loss").ok_or("the step has no loss")?;
        let batches = match &mut self.loader {
            Some(loader) => Batches::Loaded(Filler(loader)),
            None => {
                let order = Box::new(Order::new(self.rows as u32, SEED, self.epochs));
                Batches::Drawn { order, first, batch: self.batch }
            }
        };
        let mut feeder = Feeder { batches, loss, last_loss: 0.0, trouble: None };
        self.engine.run(0, inputs, first, full_steps, &mut feeder).map_err(|e| e.to_string())?;
        if self.has_last {
            feeder.loss = self.engine.output(1, "loss").ok_or("the step has no loss")?;
            self.engine.run(1, inputs, first + full_steps, 1, &mut feeder).map_err(|e| e.to_string())?;
        }
        if let Some(trouble) = feeder.trouble {
            return Err(trouble);
        }
        self.loss = feeder.last_loss;
        if let Some(loader) = &mut self.loader
            && loader.next_batch().map_err(|e| e.to_string())?.is_some()
        {
            return Err("the loader brings more batches than an epoch has".into());
        }
        self.epochs += 1;
        Ok(())
    }
}

/// Gives each step its batch, and keeps the loss.
struct Feeder<'a> {
    batches: Batches<'a>,
    /// Index of the output.
    loss: usize,
    last_loss: f32,
    trouble: Option<String>,
}

enum Batches<'a> {
    /// Row numbers, drawn from the epoch's order, whose first step has the number `first`.
    Drawn { order: Box<Order>, first: u64, batch: usize },
    /// The rows themselves.
    Loaded(Filler<'a>),
}

impl Driver for Feeder<'_> {
    fn feed(&mut self, step: u64, slots: &mut Slots) {
        match &mut self.batches {
            Batches::Drawn { order, first, batch } => {
                let Some(rows) = slots.i32("rows") else { return };
                order.draw((step - *first) as u32 * *batch as u32, rows);
            }
            Batches::Loaded(filler) => filler.look_ahead(slots),
        }
    }

    fn rows(&self, input: &str, step: u64) -> Option<RowOrder> {
        match &self.batches {
            Batches::Drawn { order, first, batch } if input == "rows" => {
                Some(row_order(order, (step - first) * *batch as u64))
            }
            _ => None,
        }
    }

    fn fill(&mut self, _: u64, slots: &mut Slots) -> Flow {
        let Batches::Loaded(filler) = &mut self.batches else { return Flow::Continue };
        filler.fill(slots).unwrap_or_else(|error| {
            self.trouble = Some(error.to_string());
            Flow::Stop
        })
    }

    fn left(&self) -> Option<&dyn Batch> {
        match &self.batches {
            Batches::Drawn { .. } => None,
            Batches::Loaded(filler) => Some(filler),
        }
    }

    fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
        self.last_loss = outputs.scalar(self.loss);
        Flow::Continue
    }
}

/// Forward, loss, gradients, Adam and probes for one batch size, compiled. Inputs `x` and `y` are a batch, or all rows of the data
/// with `rows`, which of them make this batch.
fn training_step(
    workload: Workload,
    variant: Variant,
    data: &Dataset,
    batch: usize,
    whole: bool,
) -> Result<Plan, String> {
    let g = Graph::new();
    g.for_gpu(whole);
    let rows = (variant == Variant::Resident).then(|| g.input_of("rows", &[batch], DType::I32));
    let input = |name: &str, width: Option<usize>, dtype: DType| -> Tensor {
        let height = if rows.is_some() { data.rows } else { batch };
        let shape: Vec<usize> = [height].into_iter().chain(width).collect();
        let table = g.input_of(name, &shape, dtype);
        rows.as_ref().map_or(table.clone(), |rows| table.gather_rows(rows))
    };
    let x = match &data.features {
        Features::F32 { width, .. } => input("x", Some(*width), DType::F32),
        Features::U8 { width, scale, shift, .. } => {
            input("x", Some(*width), DType::U8).to_f32() * *scale as f64 + *shift as f64
        }
        Features::I32 { width, .. } => input("x", Some(*width), DType::I32),
    };
    let output = workload.forward(&x, whole);
    let loss = match &data.target {
        Target::Values { width, .. } => mse(&output, &input("y", Some(*width), DType::F32)),
        Target::Classes { .. } => cross_entropy(&output, &input("y", None, DType::I32), 0.0, None),
        Target::Sequence { length, classes, .. } => {
            let places = output.elements() / classes.max(&1);
            let y = input("y", Some(*length), DType::I32).reshape(&[places]);
            cross_entropy(&output.reshape(&[places, *classes]), &y, 0.0, None)
        }
    };
    Learning::new(Adam::default(), workload.rate()).record(&loss).map_err(|e| e.to_string())?;
    citius_plan::compile(&g).map_err(|e| e.to_string())
}

/// The data set as the inputs `x` and `y` of every step.
fn bound(data: &Dataset) -> Inputs<'_> {
    let inputs = match &data.features {
        Features::F32 { data, .. } => Inputs::new().f32("x", data),
        Features::U8 { data, .. } => Inputs::new().u8("x", data),
        Features::I32 { data, .. } => Inputs::new().i32("x", data),
    };
    match &data.target {
        Target::Values { data, .. } => inputs.f32("y", data),
        Target::Classes { data, .. } | Target::Sequence { data, .. } => inputs.i32("y", data),
    }
}

/// One line of output; the keys of the peers first, then ours.
#[derive(serde::Serialize)]
struct Measured {
    peer: &'static str,
    workload: &'static str,
    variant: &'static str,
    device: &'static str,
    epoch_s: f64,
    steps: usize,
    us_per_step: f64,
    last_loss: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    workers: Option<usize>,
    threads: usize,
    isa: String,
    first_epoch_s: f64,
    gflops: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger: Option<StepLedger>,
    /// On the processor: microseconds of a step, by what they went to, and how many steps were timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<BTreeMap<&'static str, f64>>,
}

/// Where the time of a step went on the processor, by what timed steps show.
fn parts(times: &Times) -> Option<BTreeMap<&'static str, f64>> {
    if times.timed == 0 {
        return None;
    }
    let named = Times::PARTS.into_iter().zip(&times.parts).map(|(name, part)| (name, rounded(part.mean * 1e6, 4)));
    Some(
        named
            .chain([
                ("timed", times.timed as f64),
                ("p50", rounded(times.quantiles[0] * 1e6, 3)),
                ("p99", rounded(times.quantiles[2] * 1e6, 3)),
            ])
            .collect(),
    )
}

/// Microseconds of a step on a GPU; filling, copying and computing go on at the same time.
#[derive(serde::Serialize)]
struct StepLedger {
    filling_us: f64,
    copying_us: f64,
    computing_us: f64,
    waiting_us: f64,
}

impl From<citius_cuda::Ledger> for StepLedger {
    fn from(l: citius_cuda::Ledger) -> StepLedger {
        let each = |seconds: f64| rounded(seconds / l.steps.max(1) as f64 * 1e6, 3);
        StepLedger {
            filling_us: each(l.filling),
            copying_us: each(l.copying),
            computing_us: each(l.computing),
            waiting_us: each(l.waiting),
        }
    }
}

const HEAD: &str = "workload   µs/step   GFLOP/s   threads   isa        epoch ms   first ms   last loss";

impl Measured {
    fn json(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|e| e.to_string())
    }

    fn row(&self) -> String {
        format!(
            "{:<8} {:>9.2} {:>9.1} {:>9}   {:<8} {:>10.2} {:>10.2} {:>11.4}",
            self.workload,
            self.us_per_step,
            self.gflops,
            self.threads,
            self.isa,
            self.epoch_s * 1e3,
            self.first_epoch_s * 1e3,
            self.last_loss
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::random;

    /// A tenth of regress with a ragged end, and something to learn: the first feature.
    #[test]
    fn an_epoch_learns_however_the_batches_come() {
        let x: Vec<f32> = (0..10_000).map(|i| random::uniform(SEED, 1, i)).collect();
        let y = x.chunks(10).map(|row| row[0]).collect();
        let features = Features::F32 { data: x, width: 10 };
        let data = Arc::new(Dataset::new(1000, features, Target::Values { data: y, width: 1 }).unwrap());
        let losses = [Variant::Resident, Variant::Loader].map(|variant| {
            let machine = Machine::from(Options { threads: 1, ..Options::default() });
            let mut trainer = Trainer::new(Workload::Regress, variant, Workers(None), &data, machine).unwrap();
            assert_eq!(trainer.steps_per_epoch(), 32);
            assert!(trainer.has_last && trainer.flops_per_epoch() > 31 * 32 * 3 * 2 * 640);
            let inputs = trainer.inputs(&data);
            (0..20).for_each(|_| trainer.epoch(&inputs).unwrap());
            trainer.loss
        });
        assert!(losses[0] < 0.02, "{} after 20 epochs, the variance is 0.083", losses[0]);
        assert_eq!(losses[0], losses[1], "the same batches");
    }

    /// A hundredth of tabular, small enough for every thread to have each batch to itself.
    #[test]
    fn the_loss_is_the_same_for_any_threads_and_workers() {
        let x = (0..100_000).map(|i| random::uniform(SEED, 1, i)).collect();
        let y = (0..1000).map(|i| (random::uniform(SEED, 2, i) * 10.0) as i32).collect();
        let target = Target::Classes { data: y, classes: 10 };
        let data = Arc::new(Dataset::new(1000, Features::F32 { data: x, width: 100 }, target).unwrap());
        let loss = |variant, workers, threads| {
            let machine = Machine::from(Options { threads, ..Options::default() });
            let mut trainer = Trainer::new(Workload::Tabular, variant, Workers(workers), &data, machine).unwrap();
            let inputs = trainer.inputs(&data);
            (0..3).for_each(|_| trainer.epoch(&inputs).unwrap());
            trainer.loss
        };
        let resident = loss(Variant::Resident, None, 1);
        for (workers, threads) in [(Some(0), 1), (Some(0), 2), (Some(2), 2), (None, 2), (None, 0)] {
            assert_eq!(loss(Variant::Loader, workers, threads), resident, "{workers:?} workers, {threads} threads");
        }
    }
}
