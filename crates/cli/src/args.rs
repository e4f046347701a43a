//! Flags that `train` and `plan` share, as wishes.

use std::path::PathBuf;
use std::thread::available_parallelism;

use citius_cpu::{Isa, Options};
use citius_data::{OnError, Transform};
use citius_nn::{Activation, ByName, Head, Loss, Network, OptimizerConfig, ScheduleConfig, WeightInit};
use citius_train::{Bytes, Device, Precision, Rate, Wishes, Workers};
use clap::Args;

use crate::bench::IsaName;
use crate::error::Failure;
use crate::reading::{ColumnArgs, ReadingArgs, SeriesArgs};
use crate::screen::{Sink, line};

#[derive(Args)]
pub struct WishArgs {
    /// A table (.csv, .tsv, .txt, .jsonl, .npy, .npz, .parquet, .arrow …, also .gz and .zst; several as 'part-*.csv'), a packed
    /// file (.citius), a folder of pictures per class, a directory of MNIST's or CIFAR's files, or a text; without it,
    /// digits drawn by citius itself
    pub source: Option<PathBuf>,
    /// Settings as TOML, the flags' names as keys; flags go before it
    #[arg(long, value_name = "F.toml")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    pub machine: MachineArgs,
}

#[derive(Args)]
#[command(next_help_heading = "Data")]
struct DataArgs {
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    columns: ColumnArgs,
    /// regression, binary or classes [default: from the target]
    #[arg(long)]
    task: Option<String>,
    /// File of 0-based row numbers to train on, one per line; rows are numbered as the source holds
    /// them, those of MNIST and CIFAR training files first
    #[arg(long, value_name = "F")]
    train_rows: Option<PathBuf>,
    /// File of 0-based row numbers to test on
    #[arg(long, value_name = "F")]
    test_rows: Option<PathBuf>,
    /// Share of the training rows that decides when to stop [default: 0.1]
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    validation: Option<f64>,
    /// Share of all rows kept for the final judgement [default: 0.1]
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    test: Option<f64>,
    /// Rows of a series, or characters of a text, that predict what follows [default: up to 336 rows, 256 characters]
    #[arg(long, value_name = "N")]
    window: Option<usize>,
    /// From one window to the next [default: 1; for a gpt end to end, moved in every epoch]
    #[arg(long, value_name = "N")]
    stride: Option<usize>,
    /// Rows to predict behind a window; makes a table a series, as --window does [default: 1]
    #[arg(long, value_name = "N")]
    horizon: Option<usize>,
    #[command(flatten)]
    series: SeriesArgs,
    /// Sides of the square that pictures are brought to [default: 32]
    #[arg(long, value_name = "PIXELS")]
    size: Option<usize>,
    /// What is done to training pictures, anew each time: random-crop=4 (pixels it may move), horizontal-flip, vertical-flip,
    /// random-erasing (or =0.5, a share of them), rotation=10 (degrees); none; more in a file [default: for CIFAR a crop and a flip]
    #[arg(long, value_name = "NAME=N,…", value_parser = augment)]
    augment: Option<Augment>,
    /// Memory for data; what needs more is read as it is needed [default: half of what is free, at most 4GiB]
    #[arg(long, value_name = "512MB")]
    memory: Option<Bytes>,
    /// Threads that load data where it is not held in memory, or auto
    #[arg(long, value_name = "N|auto")]
    workers: Option<Workers>,
    /// Batches held ready where data is loaded
    #[arg(long, value_name = "N")]
    prefetch: Option<usize>,
    /// Whether batches that are loaded lie in pinned memory on their way to a GPU; `false` to see what that saves
    #[arg(long, value_name = "true|false")]
    pinned: Option<bool>,
    /// Share of the training and validation rows that get the label of another, to see what a training bears
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    label_noise: Option<f64>,
    /// Microseconds of work to prepare each row, as if it had to be decoded, to see what a slow loader costs
    #[arg(long, value_name = "µs", allow_negative_numbers = true)]
    delay: Option<f64>,
    /// What to do about pictures and blocks that cannot be read: fail, or skip and count them
    #[arg(long, value_name = "fail|skip", value_parser = on_error)]
    on_error: Option<OnError>,
}

pub fn on_error(text: &str) -> Result<OnError, String> {
    match text {
        "fail" => Ok(OnError::Fail),
        "skip" => Ok(OnError::Skip),
        _ => Err("write fail or skip".to_owned()),
    }
}

#[derive(Args)]
#[command(next_help_heading = "Model and training (each has a default that fits the data)")]
struct ModelArgs {
    /// mlp; for pictures lenet, vgg, resnet-9, resnet-18, resnet-34, resnet-50, vit; for series nlinear, gru, lstm; for texts
    /// gpt; sizes in a file: `[model]`
    #[arg(long, value_parser = Network::by_name)]
    model: Option<Network>,
    /// Units of an mlp's hidden layers; `none` for a linear model
    #[arg(long, value_name = "128,64", value_parser = hidden)]
    hidden: Option<Hidden>,
    /// relu, leaky-relu, elu, gelu, gelu-tanh, silu, sigmoid, tanh, softplus
    #[arg(long, value_parser = Activation::by_name)]
    activation: Option<Activation>,
    /// Share of units switched off at random while training
    #[arg(long, allow_negative_numbers = true)]
    dropout: Option<f64>,
    /// How weights start: default (each layer's own way), kaiming-uniform, kaiming-normal, xavier-uniform, xavier-normal,
    /// normal, uniform or zeros
    #[arg(long, value_parser = WeightInit::by_name)]
    init: Option<WeightInit>,
    /// What the outputs go through: none, relu, softplus, sigmoid, tanh, softmax or log-softmax [default: none, as losses
    /// take logits]
    #[arg(long, value_parser = Head::by_name)]
    head: Option<Head>,
    /// auto, mse, mae, huber, bce, cross-entropy, nll (of a log-softmax head), or quantile (see --quantiles)
    #[arg(long, value_parser = loss)]
    loss: Option<LossArg>,
    /// Quantiles of a number to predict, such as 0.1,0.5,0.9, whose outermost are a prediction interval, here of 80%; trained
    /// with the pinball loss
    #[arg(long, value_name = "0.1,0.5,0.9", value_delimiter = ',', allow_negative_numbers = true)]
    quantiles: Option<Vec<f64>>,
    /// Of two classes, the one whose precision, recall and F1 are reported [default: the second in the order of labels]
    #[arg(long, value_name = "CLASS")]
    positive: Option<String>,
    /// sgd, momentum, nesterov, rmsprop, adam, adamw, lamb, lion or muon
    #[arg(long, value_parser = OptimizerConfig::by_name)]
    optimizer: Option<OptimizerConfig>,
    /// Learning rate
    #[arg(long, allow_negative_numbers = true)]
    lr: Option<f64>,
    /// constant, cosine, one-cycle, step, exponential, warmup or plateau
    #[arg(long, value_parser = ScheduleConfig::by_name)]
    schedule: Option<ScheduleConfig>,
    /// How strongly weights are pulled to 0
    #[arg(long, allow_negative_numbers = true)]
    weight_decay: Option<f64>,
    /// Largest norm of the gradient
    #[arg(long, value_name = "NORM", allow_negative_numbers = true)]
    clip_norm: Option<f64>,
    /// Steps whose gradients make one update
    #[arg(long, value_name = "N")]
    accumulate: Option<usize>,
    /// Rows per step
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// Passes over the training rows
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Validations without improvement before stopping; 0 never stops early
    #[arg(long, value_name = "N")]
    patience: Option<usize>,
    /// Decay of a running average of the weights, used in their place; 0 for none
    #[arg(long, value_name = "DECAY", allow_negative_numbers = true)]
    average: Option<f64>,
    /// Share of the run after which a plain average of the weights begins, used in their place (SWA), such as 0.75; 0 for none
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    swa: Option<f64>,
    /// Compute blocks of the network again on the way back instead of keeping their values [default: where memory is short]
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    recompute: Option<bool>,
    /// Memory for what a step computes [default: what the device has]
    #[arg(long, value_name = "2GiB")]
    step_memory: Option<Bytes>,
    /// Train anew on all rows once the best number of epochs is known
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    refit: Option<bool>,
    /// Seed of everything random [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Begin with the weights of a safetensors file (PyTorch's names) or of a run's directory; the last layer is made anew
    /// where its size differs
    #[arg(long, value_name = "FILE|DIR")]
    weights: Option<PathBuf>,
    /// Tensors of that file to leave out: names, or patterns with *
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    ignore: Option<Vec<String>>,
    /// Make the last layer anew even where the file's fits
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    new_head: Option<bool>,
    /// What stays as it is: names, patterns such as layer1.*, or body for all but the last layer
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    freeze: Option<Vec<String>>,
    /// Parts that learn slower or faster, with a factor of the learning rate: conv1.*=0.1,layer1.*=0.3
    #[arg(long, value_name = "NAME=FACTOR,…", value_delimiter = ',')]
    rates: Option<Vec<Rate>>,
}

#[derive(Args, Clone, Copy)]
#[command(next_help_heading = "Machine (changes the speed; devices and precisions differ in rounding)")]
pub struct MachineArgs {
    /// Where the steps run: cpu, cuda (an NVIDIA GPU), cuda:1 (the second), or auto, which tries both and takes the
    /// faster [default: auto]
    #[arg(long, value_name = "auto|cpu|cuda|cuda:N")]
    pub device: Option<Device>,
    /// Large products: fp32; on a GPU tf32, bf16, or fp16 with a scaled loss; bf16 also on processors that gain from it (AMX, AMD's AVX512-BF16).
    /// Weights and sums stay in 32 bits [default: fp32; tf32 for convolutions with --device cuda]
    #[arg(long, value_name = "fp32|tf32|bf16|fp16")]
    pub precision: Option<Precision>,
    /// Threads to use, at most one per core; 0 takes as many as turn out fastest
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
    /// Instruction set to use instead of the best one here
    #[arg(long, value_enum)]
    pub isa: Option<IsaName>,
}

impl WishArgs {
    /// Flags, then the settings file where they are silent.
    pub fn wishes(&self) -> Result<Wishes, Failure> {
        let flags = self.flags();
        Ok(match &self.config {
            Some(path) => flags.or(Wishes::read(path)?),
            None => flags,
        })
    }

    pub fn flags(&self) -> Wishes {
        let (d, m) = (&self.data, &self.model);
        Wishes {
            source: self.source.clone(),
            drop: d.columns.drop(),
            only: d.columns.only(),
            task: d.task.clone(),
            train_rows: d.train_rows.clone(),
            test_rows: d.test_rows.clone(),
            validation: d.validation,
            test: d.test,
            window: d.window,
            stride: d.stride,
            horizon: d.horizon,
            time: d.series.time.clone(),
            fill: d.series.fill,
            size: d.size,
            augment: d.augment.clone().map(|a| a.0),
            workers: d.workers,
            prefetch: d.prefetch,
            pinned: d.pinned,
            memory: d.memory,
            on_error: d.on_error,
            label_noise: d.label_noise,
            delay: d.delay,
            model: m.model.clone(),
            hidden: m.hidden.clone().map(|h| h.0),
            activation: m.activation,
            dropout: m.dropout,
            init: m.init,
            head: m.head,
            loss: m.loss.clone().and_then(|l| l.0),
            quantiles: m.quantiles.clone(),
            positive: m.positive.clone(),
            optimizer: m.optimizer.clone(),
            lr: m.lr,
            schedule: m.schedule.clone(),
            weight_decay: m.weight_decay,
            clip_norm: m.clip_norm,
            accumulate: m.accumulate,
            batch_size: m.batch_size,
            epochs: m.epochs,
            patience: m.patience,
            average: m.average,
            swa: m.swa,
            recompute: m.recompute,
            step_memory: m.step_memory,
            refit: m.refit,
            seed: m.seed,
            weights: m.weights.clone(),
            ignore: m.ignore.clone(),
            new_head: m.new_head,
            freeze: m.freeze.clone(),
            rates: m.rates.clone(),
            device: self.machine.device,
            precision: self.machine.precision,
            ..d.reading.wishes()
        }
    }
}

impl MachineArgs {
    /// As [`MachineArgs::options`], for what is computed on the processor in 32 bits whatever the training was.
    pub fn processor_options(self) -> Result<Options, Failure> {
        let other = [
            ("--device", self.device.is_some_and(|device| !matches!(device, Device::Cpu | Device::Auto))),
            ("--precision", self.precision.is_some_and(|precision| precision != Precision::Fp32)),
        ];
        match other.iter().find(|(_, given)| *given) {
            None => self.options(),
            Some((flag, _)) => {
                let problem = format!("{flag}: predictions are computed on the processor in 32 bits; leave it out");
                Err(Failure::Usage(problem))
            }
        }
    }

    pub fn options(self) -> Result<Options, Failure> {
        let threads = threads_used(self.threads);
        let isa = self.isa.map(|name| match name {
            IsaName::Portable => Isa::Portable,
            IsaName::Avx2 => Isa::Avx2,
            IsaName::Avx512 => Isa::Avx512,
            IsaName::Amx => Isa::Amx,
        });
        if let Some(isa) = isa.filter(|isa| !Isa::available().contains(isa)) {
            return Err(Failure::Usage(format!("this machine has no {isa}; the best it has is {}", Isa::detect())));
        }
        Ok(Options { threads, isa, ..Options::default() })
    }
}

/// `--threads`, at most one per core. More would take turns on the same cores and wait for each other; the results are the same bits.
pub fn threads_used(given: usize) -> usize {
    let (used, said) = capped(given, available_parallelism().map_or(1, |n| n.get()));
    said.iter().for_each(|said| line(Sink::Stderr, said));
    used
}

fn capped(given: usize, cores: usize) -> (usize, Option<String>) {
    let of_cores = if cores == 1 { "1 core: 1 is used".to_owned() } else { format!("{cores} cores: {cores} are used") };
    (given.min(cores), (given > cores).then(|| format!("note: --threads {given} on {of_cores}")))
}

#[derive(Clone)]
struct Hidden(Vec<usize>);

fn hidden(text: &str) -> Result<Hidden, String> {
    if text == "none" {
        return Ok(Hidden(Vec::new()));
    }
    let sizes = text.split(',').map(|size| size.trim().parse::<usize>());
    sizes
        .collect::<Result<_, _>>()
        .map(Hidden)
        .map_err(|_| "write layer sizes separated by commas, such as 128,64, or none".to_owned())
}

#[derive(Clone)]
struct Augment(Vec<Transform>);

/// Names of transforms, each with the number that says most about it.
fn augment(text: &str) -> Result<Augment, String> {
    let text = text.trim();
    if text == "none" {
        return Ok(Augment(Vec::new()));
    }
    let one = |part: &str| {
        let (name, number) = match part.trim().split_once('=') {
            Some((name, number)) => {
                let number: f64 = number.trim().parse().map_err(|_| format!("{number:?} is no number"))?;
                (name.trim(), Some(number))
            }
            None => (part.trim(), None),
        };
        let setting = match name {
            "random-crop" => "padding",
            "horizontal-flip" | "vertical-flip" | "random-erasing" => "probability",
            "rotation" => "degrees",
            _ if number.is_some() => return Err(format!("{name} takes no number here; write its settings in a file")),
            _ => "",
        };
        let mut object = serde_json::json!({ "name": name });
        match number {
            Some(number) if setting == "padding" && number >= 0.0 && number.fract() == 0.0 => {
                object[setting] = serde_json::json!(number as u64);
            }
            Some(number) => object[setting] = serde_json::json!(number),
            None if matches!(setting, "padding" | "degrees") => {
                return Err(format!("{name} needs a number, such as {name}=4"));
            }
            None => {}
        }
        serde_json::from_value::<Transform>(object).map_err(|error| format!("{name}: {error}"))
    };
    text.split(',').map(one).collect::<Result<_, _>>().map(Augment)
}

#[derive(Clone)]
struct LossArg(Option<Loss>);

fn loss(text: &str) -> Result<LossArg, String> {
    match text {
        "auto" => Ok(LossArg(None)),
        name => Loss::by_name(name).map(|loss| LossArg(Some(loss))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_cores_are_capped_and_said() {
        assert_eq!(capped(0, 2), (0, None));
        assert_eq!(capped(2, 2), (2, None));
        assert_eq!(capped(8, 2), (2, Some("note: --threads 8 on 2 cores: 2 are used".to_owned())));
        assert_eq!(capped(usize::MAX, 1).0, 1);
        assert!(capped(3, 1).1.unwrap().ends_with("on 1 core: 1 is used"));
    }
}
