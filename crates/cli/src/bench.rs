//! `citius bench`: full training epochs of the workloads our peers are measured on. The time holds all that an epoch needs:
//! the shuffle, the gather of each batch, the step with its probes, and the smaller last batch.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use citius_cpu::{Driver, Executable, Flow, Inputs, Isa, Memory, Options, Outputs, Plain, Slots, widest};
use citius_data::{Dataset, Features, Images, Order, Target, image_dataset, mnist_dir};
use citius_graph::{DType, Graph, random};
use citius_nn::{Activation, Adam, Learning, Module, cross_entropy, mlp, mse};
use citius_plan::Plan;

#[derive(clap::Args, Debug)]
pub struct BenchArgs {
    /// What to run, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "regress,tabular,mnist")]
    pub workloads: Vec<Workload>,
    /// Threads to use; 0 takes as many as turn out fastest
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    /// Seconds to spend on each workload
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Instruction set to use instead of the best one here
    #[arg(long, value_enum)]
    pub isa: Option<IsaName>,
    /// One JSON object per workload instead of the table
    #[arg(long)]
    pub json: bool,
    /// Directory of the four MNIST files; random pixels are used when there is none
    #[arg(long, value_name = "DIR")]
    pub mnist: Option<PathBuf>,
}

/// Name, shapes and batch of `torch_bench.py`; all learn with Adam at 1e-3.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// 10-64-1 on 10,000 rows, mean squared error, batch 32
    Regress,
    /// 100-50-10 on 100,000 rows, cross-entropy, batch 32
    Tabular,
    /// 784-128-64-10 on 60,000 images, cross-entropy, batch 64
    Mnist,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum IsaName {
    Portable,
    Avx2,
    Avx512,
}

/// Where MNIST is looked for when `--mnist` is not given.
const MNIST_DIR: &str = "../shared/data/mnist";
const SEED: u64 = 0;
const MOST_EPOCHS: usize = 200;
const MOST_THREADS: usize = 256;

pub fn run(args: &BenchArgs) -> Result<(), String> {
    if args.threads > MOST_THREADS {
        return Err(format!("--threads {}: at most {MOST_THREADS}", args.threads));
    }
    let options = Options { threads: args.threads, isa: args.isa.map(IsaName::available).transpose()? };
    let budget =
        Duration::try_from_secs_f64(args.seconds).map_err(|_| format!("--seconds {} is no time", args.seconds))?;
    if !args.json {
        println!("{HEAD}");
    }
    for &workload in &args.workloads {
        let data = workload.data(args.mnist.as_deref())?;
        let result = measure(workload, &data, options, budget)?;
        println!("{}", if args.json { result.json()? } else { result.row() });
    }
    Ok(())
}

/// Trains until the budget is spent, at least two epochs after the first; the median of those counts.
fn measure(workload: Workload, data: &Dataset, options: Options, budget: Duration) -> Result<Measured, String> {
    let mut trainer = Trainer::new(workload, data, options)?;
    let inputs = bound(data);
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
        variant: "resident",
        device: "cpu",
        epoch_s: rounded(epoch_s, 7),
        steps,
        us_per_step: rounded(epoch_s / steps as f64 * 1e6, 3),
        last_loss: rounded(trainer.loss as f64, 5),
        threads: trainer.full.threads(),
        isa: trainer.full.isa().to_string(),
        first_epoch_s: rounded(seconds[0], 7),
        gflops: rounded(trainer.flops_per_epoch() as f64 / epoch_s / 1e9, 2),
    })
}

/// A model with the compiled steps that train it: one for full batches, one for what is left at the end of an epoch.
struct Trainer {
    memory: Memory,
    full: Executable,
    last: Option<Executable>,
    rows: usize,
    batch: usize,
    epochs: u64,
    loss: f32,
}

impl Trainer {
    fn new(workload: Workload, data: &Dataset, options: Options) -> Result<Trainer, String> {
        let (rows, batch) = (data.rows, workload.batch());
        let mut memory = Memory::new(SEED);
        let mut compiled = |batch, options| {
            Executable::new(training_step(workload, data, batch)?, &mut memory, options).map_err(|e| e.to_string())
        };
        let full = compiled(batch, options)?;
        // one step per epoch: not worth waking a thread for
        let alone = Options { threads: 1, ..options };
        let last = (rows % batch > 0).then(|| compiled(rows % batch, alone)).transpose()?;
        Ok(Trainer { memory, full, last, rows, batch, epochs: 0, loss: f32::NAN })
    }

    fn steps_per_epoch(&self) -> usize {
        self.rows.div_ceil(self.batch)
    }

    fn flops_per_epoch(&self) -> usize {
        let last = self.last.as_ref().map_or(0, |e| e.plan().total().flops);
        self.rows / self.batch * self.full.plan().total().flops + last
    }

    /// All rows once, in an order of this epoch's own.
    fn epoch(&mut self, inputs: &Inputs) -> Result<(), String> {
        let first = self.epochs * self.steps_per_epoch() as u64;
        let full_steps = (self.rows / self.batch) as u64;
        let order = Order::new(self.rows as u32, SEED, self.epochs);
        let mut feeder =
            Feeder { order, first, batch: self.batch, drawn: vec![0; self.batch], loss: 0, last_loss: 0.0 };
        let memory = &mut self.memory;
        feeder.loss = self.full.output("loss").ok_or("the step has no loss")?;
        self.full.run(memory, inputs, first, full_steps, &mut feeder).map_err(|e| e.to_string())?;
        if let Some(last) = &mut self.last {
            feeder.loss = last.output("loss").ok_or("the step has no loss")?;
            last.run(memory, inputs, first + full_steps, 1, &mut feeder).map_err(|e| e.to_string())?;
        }
        self.loss = feeder.last_loss;
        self.epochs += 1;
        Ok(())
    }
}

/// Draws the rows of each batch from the epoch's order, and keeps the loss.
struct Feeder {
    order: Order,
    /// Number of the epoch's first step.
    first: u64,
    batch: usize,
    drawn: Vec<u32>,
    /// Index of the output.
    loss: usize,
    last_loss: f32,
}

impl Driver for Feeder {
    fn feed(&mut self, step: u64, slots: &mut Slots) {
        let Some(rows) = slots.i32("rows") else { return };
        let drawn = &mut self.drawn[..rows.len()];
        widest(Draw { order: &self.order, start: (step - self.first) as u32 * self.batch as u32, rows: drawn });
        rows.iter_mut().zip(drawn).for_each(|(row, drawn)| *row = *drawn as i32);
    }

    fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
        self.last_loss = outputs.scalar(self.loss);
        Flow::Continue
    }
}

struct Draw<'a> {
    order: &'a Order,
    start: u32,
    rows: &'a mut [u32],
}

impl Plain for Draw<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.order.fill(self.start, self.rows);
    }
}

/// Gather, forward, loss, gradients, Adam and probes for one batch size, compiled. Inputs: `x` and `y`, all rows of the data,
/// and `rows`, which of them make this batch.
fn training_step(workload: Workload, data: &Dataset, batch: usize) -> Result<Plan, String> {
    let g = Graph::new();
    let rows = g.input_of("rows", &[batch], DType::I32);
    let x = match &data.features {
        Features::F32 { width, .. } => g.input("x", &[data.rows, *width]).gather_rows(&rows),
        Features::U8 { width, scale, shift, .. } => {
            let bytes = g.input_of("x", &[data.rows, *width], DType::U8).gather_rows(&rows);
            bytes.to_f32() * *scale as f64 + *shift as f64
        }
    };
    let output = mlp(workload.sizes(), Activation::Relu, 0.0).forward(&x);
    let loss = match &data.target {
        Target::Values { width, .. } => mse(&output, &g.input("y", &[data.rows, *width]).gather_rows(&rows)),
        Target::Classes { .. } => {
            let classes = g.input_of("y", &[data.rows], DType::I32).gather_rows(&rows);
            cross_entropy(&output, &classes, 0.0, None)
        }
    };
    Learning::new(Adam::default(), 1e-3).record(&loss).map_err(|e| e.to_string())?;
    citius_plan::compile(&g).map_err(|e| e.to_string())
}

/// The data set as the inputs `x` and `y` of every step.
fn bound(data: &Dataset) -> Inputs<'_> {
    let inputs = match &data.features {
        Features::F32 { data, .. } => Inputs::new().f32("x", data),
        Features::U8 { data, .. } => Inputs::new().u8("x", data),
    };
    match &data.target {
        Target::Values { data, .. } => inputs.f32("y", data),
        Target::Classes { data, .. } => inputs.i32("y", data),
    }
}

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Workload::Regress => "regress",
            Workload::Tabular => "tabular",
            Workload::Mnist => "mnist",
        }
    }

    fn sizes(self) -> &'static [usize] {
        match self {
            Workload::Regress => &[10, 64, 1],
            Workload::Tabular => &[100, 50, 10],
            Workload::Mnist => &[784, 128, 64, 10],
        }
    }

    fn batch(self) -> usize {
        match self {
            Workload::Regress | Workload::Tabular => 32,
            Workload::Mnist => 64,
        }
    }

    fn data(self, mnist: Option<&Path>) -> Result<Dataset, String> {
        let data = match self {
            Workload::Regress => {
                let uniform = |stream, n| (0..n).map(|i| random::uniform(SEED, stream, i)).collect();
                let x = Features::F32 { data: uniform(1, 100_000), width: 10 };
                Dataset::new(10_000, x, Target::Values { data: uniform(2, 10_000), width: 1 })
            }
            Workload::Tabular => {
                let x = (0..10_000_000).map(|i| random::normal(SEED, i)).collect();
                let y = (0..100_000).map(|i| (random::uniform(SEED, 2, i) * 10.0) as i32).collect();
                let target = Target::Classes { data: y, classes: 10 };
                Dataset::new(100_000, Features::F32 { data: x, width: 100 }, target)
            }
            Workload::Mnist => {
                let (images, labels) = match mnist.or(Some(Path::new(MNIST_DIR)).filter(|dir| dir.is_dir())) {
                    Some(dir) => mnist_dir(dir).map_err(|e| e.to_string())?.train,
                    None => random_images(),
                };
                image_dataset(images, &labels, 10, Some((0.1307, 0.3081)))
            }
        };
        data.map_err(|e| e.to_string())
    }
}

/// Noise of MNIST's shape: the same work, nothing to learn.
fn random_images() -> (Images, Vec<u8>) {
    let word = |i: u64| random::philox(SEED, 1, i / 4)[i as usize % 4];
    let pixels = (0..60_000 * 784 / 4).flat_map(|i| word(i).to_le_bytes()).collect();
    let labels = (0..60_000).map(|i| (random::uniform(SEED, 2, i) * 10.0) as u8).collect();
    (Images { count: 60_000, height: 28, width: 28, pixels }, labels)
}

impl IsaName {
    fn available(self) -> Result<Isa, String> {
        let isa = match self {
            IsaName::Portable => Isa::Portable,
            IsaName::Avx2 => Isa::Avx2,
            IsaName::Avx512 => Isa::Avx512,
        };
        let here = Isa::available();
        match here.contains(&isa) {
            true => Ok(isa),
            false => Err(format!("this machine has no {isa}; the best it has is {}", Isa::detect())),
        }
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
    threads: usize,
    isa: String,
    first_epoch_s: f64,
    gflops: f64,
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

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tenth of regress with a ragged end, and something to learn: the first feature.
    #[test]
    fn an_epoch_learns() {
        let x: Vec<f32> = (0..10_000).map(|i| random::uniform(SEED, 1, i)).collect();
        let y = x.chunks(10).map(|row| row[0]).collect();
        let features = Features::F32 { data: x, width: 10 };
        let data = Dataset::new(1000, features, Target::Values { data: y, width: 1 }).unwrap();
        let mut trainer = Trainer::new(Workload::Regress, &data, Options { threads: 1, isa: None }).unwrap();
        assert_eq!(trainer.steps_per_epoch(), 32);
        assert!(trainer.last.is_some() && trainer.flops_per_epoch() > 31 * 32 * 3 * 2 * 640);
        for _ in 0..20 {
            trainer.epoch(&bound(&data)).unwrap();
        }
        assert!(trainer.loss < 0.02, "{} after 20 epochs, the variance is 0.083", trainer.loss);
    }

    #[test]
    fn middle_of_an_even_and_an_odd_number() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
