//! Zero configuration: what a run is made of when nobody says otherwise, each choice with its reason.

use citius_cuda::Precision;
use citius_data::{PreparationNote, Task};
use citius_nn::schedules::{Cosine, OneCycle};
use citius_nn::{
    Activation, Adam, AdamW, Clip, Head, Lamb, Lion, Loss, Muon, Network, OptimizerConfig, Reduction, RmsProp,
    RowShape, ScheduleConfig, Sgd, Vary,
};
use serde::{Deserialize, Serialize};

use crate::config::{TrackedWishes, Wishes};
use crate::problem::{Input, Problem, RowsFrom, TEXT_BATCH, count, has_gpu, in_step, plural};
use crate::{Details, Device, Settings, TrainError, Transfer};

/// One decision, for people: printed in one line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Choice {
    pub what: String,
    pub value: String,
    /// Empty where there is nothing to explain.
    pub why: String,
}

impl Choice {
    pub fn new(what: &str, value: impl Into<String>, why: impl Into<String>) -> Choice {
        Choice { what: what.to_owned(), value: value.into(), why: why.into() }
    }

    pub(crate) fn from_note(note: &PreparationNote) -> Choice {
        match note {
            PreparationNote::Task { task, target, why } => {
                Choice::new("task", format!("{task} of {target:?}"), why.as_str())
            }
            PreparationNote::Inputs { inputs, why } => Choice::new("inputs", inputs.to_string(), why.as_str()),
            PreparationNote::Constant { .. } | PreparationNote::Remark(_) => Choice::new("note", note.to_string(), ""),
        }
    }
}

/// Training rows up to which a second training, on all rows, costs little and gains much.
const REFIT_ROWS: usize = 100_000;
/// Steps between two validations, at least.
const STEPS_PER_VALIDATION: usize = 100;
/// Of the usual rate, for weights that another training has found.
const FINE: f64 = 0.1;
/// The smallest side of a picture that [`Network::Lenet`] takes.
const LENET_SIDE: usize = 16;
const AS_TOLD: &str = "as told";

/// All settings of a run on this problem, with a line for each.
pub fn choose(problem: &Problem, wishes: &Wishes) -> Result<(Settings, Vec<Choice>), TrainError> {
    let wishes = &TrackedWishes::new(wishes);
    wishes.mark_read(&problem.settings_read);
    wishes.mark_read(READ_ELSEWHERE);
    let chosen = chosen(problem, wishes)?;
    match problem.settings_read.is_empty() {
        true => {} // rows that a program has made: settings of data are not for them
        false => wishes.refuse_unread(problem.described())?,
    }
    Ok(chosen)
}

/// Settings of the run and of the doctor, not of data or network.
const READ_ELSEWHERE: &[&str] = &["device", "recompute", "step_memory", "silence"];

fn chosen(problem: &Problem, wishes: &TrackedWishes<'_>) -> Result<(Settings, Vec<Choice>), TrainError> {
    let pictures = match &problem.input {
        Input::Table { .. } => false,
        Input::Images { .. } => true,
        Input::Rows(rows) => matches!(rows.from, RowsFrom::Pictures { .. } | RowsFrom::Cifar),
    };
    let scale = match &problem.input {
        Input::Rows(rows) => match &rows.from {
            RowsFrom::Series { scale, .. } => Some(scale),
            _ => None,
        },
        Input::Table { .. } | Input::Images { .. } => None,
    };
    let series = scale.is_some();
    // each column of a window is one to predict, and the other way round
    let by_itself = scale.is_some_and(|scale| scale.columns == scale.targets);
    let cifar = matches!(&problem.input, Input::Rows(rows) if matches!(rows.from, RowsFrom::Cifar));
    let grey_side = match problem.input {
        Input::Images { height, width, .. } if !problem.embedded => Some(height.min(width)),
        _ => None,
    };
    let convolves = |network: &Network| *network != Network::Mlp;
    let layers = wishes.layers.clone().unwrap_or_default();
    let hidden = match (&*wishes.hidden, &layers[..]) {
        (Some(_), [_, ..]) => {
            let problem = "hidden and layers both say what an mlp's layers are; give one of them";
            return Err(TrainError::Setting(problem.to_owned()));
        }
        (hidden, []) => hidden.clone(),
        (None, layers) => Some(layers.iter().map(|layer| layer.units).collect()),
    };
    let row = problem.input.row_shape();
    let base = match (&*wishes.model, &hidden) {
        _ if matches!(row, RowShape::Tokens { .. }) => Base::text(wishes),
        (Some(Network::Gru { .. } | Network::Lstm { .. }), _) if series => Base::recurrent(problem),
        (None | Some(Network::Nlinear), None) if by_itself => Base::series(problem),
        (None, None) if series => Base::recurrent(problem),
        _ if !pictures => Base::table(problem),
        (Some(Network::Resnet9 { .. }), _) => Base::fast_residual(problem),
        (Some(network), _) if convolves(network) => Base::convolution(problem),
        (None, None) if grey_side.is_some_and(|side| side >= LENET_SIDE) => Base::grey(problem),
        (None, None) if grey_side.is_none() && !problem.embedded => Base::convolution(problem),
        _ => Base::pictures(),
    };
    let mut choices = Vec::new();
    let mut say = |what: &str, value: String, told: bool, why: &str| {
        choices.push(Choice::new(what, value, if told { AS_TOLD } else { why }));
    };
    let rows = problem.train.rows();

    let network = match (&*wishes.model, &hidden) {
        (Some(network), _) => network.clone(),
        (None, Some(_)) => Network::Mlp,
        (None, None) => base.network,
    };
    let tokens = matches!(row, RowShape::Tokens { .. });
    let idle = [("hidden", wishes.hidden.is_some()), ("activation", wishes.activation.is_some())];
    if let Some((flag, _)) = idle.iter().find(|(_, given)| *given && tokens && wishes.model.is_none()) {
        let problem = format!("--{flag} is an mlp's, and a text is read by a gpt; leave it out, or give --model mlp");
        return Err(TrainError::Setting(problem));
    }
    if let Some((flag, _)) = idle.iter().find(|(_, given)| *given && network != Network::Mlp) {
        let name = network.name();
        let sizes = "its sizes, where it has any, are in a file of settings: model = { name = …, … }";
        return Err(TrainError::Setting(format!("--{flag} is an mlp's, and the model is {name}; {sizes}")));
    }
    if network == Network::Nlinear && !by_itself {
        let problem =
            "nlinear goes on with columns of a series, and a row here is something else; use --model mlp or gru";
        return Err(TrainError::Setting(problem.to_owned()));
    }
    // without matrix units a GPU convolves several times slower, and what they round away is less than the noise of a batch
    let on_gpu = matches!(*wishes.device, Some(Device::Cuda(_)));
    let usual_precision = if pictures && convolves(&network) && on_gpu { Precision::Tf32 } else { Precision::Fp32 };
    if wishes.dropout.is_some_and(|share| share != 0.0) && !network.has_dropout() {
        let problem = format!("--dropout: a {} drops nothing; leave it out, or name another --model", network.name());
        return Err(TrainError::Setting(problem));
    }
    let of_hidden =
        [("activation", wishes.activation.is_some()), ("dropout", wishes.dropout.is_some_and(|p| p != 0.0))];
    if let (Some((flag, _)), Some([])) = (of_hidden.iter().find(|(_, given)| *given), hidden.as_deref())
        && network == Network::Mlp
        && wishes.layers.is_none()
    {
        let problem = format!("--{flag} is for hidden layers, and --hidden none has none; leave one of them out");
        return Err(TrainError::Setting(problem));
    }
    let hidden = hidden.unwrap_or(base.hidden);
    let activation = wishes.activation.unwrap_or(Activation::Relu);
    let dropout = wishes.dropout.unwrap_or(base.dropout);
    let loss = chosen_loss(problem.task, wishes)?;
    let optimizer = with_decay(wishes.optimizer.clone().unwrap_or(base.optimizer), *wishes.weight_decay);
    let lr = match (*wishes.lr, &*wishes.optimizer) {
        (Some(lr), _) => lr,
        // another optimiser wants another rate
        (None, Some(told)) => told.default_rate(),
        // what is known already is not to be swept away
        (None, None) if wishes.weights.is_some() => base.lr * FINE,
        (None, None) => base.lr,
    };
    let batch_size = wishes.batch_size.unwrap_or(base.batch_size);
    let steps = rows.div_ceil(batch_size.clamp(1, rows.max(1)));
    let epochs = wishes.epochs.unwrap_or_else(|| (base.steps / steps.max(1)).clamp(base.epochs.0, base.epochs.1));
    let averages = wishes.swa.is_some_and(|share| share != 0.0);
    let schedule = match &*wishes.schedule {
        Some(told) => told.clone(),
        None if averages => ScheduleConfig::Constant,
        None => base.schedule,
    };
    let why_schedule = if averages { "an average wants steps that still move" } else { base.why_schedule };
    let validates = problem.validation.is_some();
    let validate_every = match base.validations {
        Some(times) => epochs / times,
        None => STEPS_PER_VALIDATION.div_ceil(steps.max(1)),
    }
    .clamp(1, epochs.max(1));
    let patience = match *wishes.patience {
        Some(0) => None,
        Some(patience) => Some(patience),
        None if validates && epochs > 1 => Some((epochs / validate_every * 2 / 3).max(10)),
        None => None,
    };
    let resident = problem.train.resident().is_some();
    let refit = validates && wishes.refit.unwrap_or(!pictures && resident && rows <= REFIT_ROWS);
    let average = wishes.average.or(base.average).filter(|decay| *decay != 0.0);
    if let Some(decay) = average.filter(|decay| !(*decay > 0.0 && *decay < 1.0)) {
        let problem = format!("the decay of the average is {decay}, it must be at least 0 and below 1, such as 0.999");
        return Err(TrainError::Setting(problem));
    }
    let swa = wishes.swa.filter(|share| *share != 0.0);
    if let Some(share) = swa.filter(|share| !(*share > 0.0 && *share < 1.0)) {
        return Err(TrainError::Setting(format!("swa is {share}, it must be a share of the run, such as 0.75")));
    }
    if swa.is_some() && average.is_some() {
        let problem = "--swa and --average are two ways to the same end; give one of them";
        return Err(TrainError::Setting(problem.to_owned()));
    }
    if *wishes.refit == Some(true) && !resident {
        let problem = "--refit needs all rows in memory, these are loaded as they are needed";
        return Err(TrainError::Setting(problem.to_owned()));
    }
    if *wishes.refit == Some(true) && !validates {
        let problem = "--refit needs validation rows to find the number of epochs; give --validation";
        return Err(TrainError::Setting(problem.to_owned()));
    }
    let mut settings = Settings {
        network,
        row: Some(row),
        hidden,
        activation,
        dropout,
        loss,
        optimizer,
        lr,
        schedule,
        clip: wishes.clip_norm.or(base.clip_norm).map(|max_norm| Clip::Norm { max_norm }),
        accumulate: wishes.accumulate.unwrap_or(1),
        precision: wishes.precision.unwrap_or(usual_precision),
        batch_size,
        epochs,
        validate_every,
        patience,
        average,
        refit,
        seed: wishes.seed.unwrap_or(0),
        transfer: Transfer::default(),
        recompute: wishes.recompute.unwrap_or(false),
        swa,
        details: Details {
            layers,
            init: wishes.init.unwrap_or_default(),
            inits: wishes.inits.iter().flat_map(|i| &i.0).map(|(name, init)| (name.clone(), init.0)).collect(),
            head: wishes.head.unwrap_or_default(),
            embeddings: match &problem.input {
                Input::Table { preparation } => preparation.embeddings(),
                Input::Images { .. } | Input::Rows(_) => Vec::new(),
            },
            reduction: wishes.reduction.unwrap_or_default(),
            broadcast: wishes.broadcast.unwrap_or(false),
            misfit: wishes.misfit.unwrap_or(false),
            detach: wishes.detach.clone().unwrap_or_default(),
            mode: *wishes.mode,
            validation_mode: *wishes.validation_mode,
            positive: positive(problem, wishes)?,
        },
        augment: match (&*wishes.augment, problem.train.resident()) {
            (Some(told), Some(_)) => in_step(told, row).unwrap_or_default(),
            (None, Some(_)) if cifar => Base::of_cifar(row),
            _ => Vec::new(),
        },
    };
    settings.check(&problem.train.form(), problem.task)?;

    let form = problem.train.form();
    let (transfer, transferred) = Transfer::choose(wishes, &settings, &form)?;
    settings.transfer = transfer;
    let described = match settings.network {
        Network::Mlp if settings.details.is_plain_mlp() => {
            let sizes: Vec<String> = settings.sizes(form.width, form.outputs()).iter().map(usize::to_string).collect();
            let drop = if settings.dropout > 0.0 { format!(", dropout {}", settings.dropout) } else { String::new() };
            format!("{} {}{drop}", sizes.join("-"), settings.activation)
        }
        _ => settings.model_for(Device::Cpu, form.width, form.outputs())?.describe(),
    };
    let parameters = count(settings.parameters(&form) as usize);
    let told = wishes.hidden.is_some() || wishes.layers.is_some() || wishes.model.is_some();
    say("network", format!("{described}, {parameters} parameters"), told, base.why_hidden);
    if !settings.augment.is_empty() {
        let ways: Vec<String> = settings.augment.iter().map(Vary::name).collect();
        let why = "a thing stays what it is; --augment none for none";
        say("augment", format!("pictures are {}", ways.join(", ")), wishes.augment.is_some(), why);
    }
    let summed = if settings.details.reduction == Reduction::Sum { ", summed" } else { "" };
    let loss = match settings.loss.quantiles() {
        [] => settings.loss.name().to_owned(),
        levels => format!("pinball, of the quantiles {}", listed(levels)),
    };
    let told = wishes.loss.is_some() || wishes.quantiles.is_some();
    say("loss", format!("{loss}{summed}"), told, "fits the task");
    let rate = format!("{}, learning rate {}", optimizer_name(&settings), settings.lr);
    let why_rate = if wishes.weights.is_some() { "fine steps, for weights that know something" } else { base.why_rate };
    say("optimizer", rate, wishes.optimizer.is_some() || wishes.lr.is_some(), why_rate);
    say("schedule", settings.schedule.name().to_owned(), wishes.schedule.is_some(), why_schedule);
    say("batch", settings.batch_size.to_string(), wishes.batch_size.is_some(), base.why_batch);
    if wishes.precision.is_none() && settings.precision != Precision::Fp32 {
        let why = "convolutions on the GPU's matrix units; fp32 for every digit, bf16 for more speed";
        say("precision", settings.precision.to_string(), false, why);
    }
    let length = format!("{} of {}", count(settings.epochs), plural(steps, "step"));
    say("epochs", length, wishes.epochs.is_some(), base.why_epochs);
    if let Some(decay) = settings.average {
        let value = format!("running average of the weights, decay {decay}");
        say("weights", value, wishes.average.is_some(), "smoother than the last step's");
    }
    if let Some(share) = settings.swa {
        let value = format!("plain average of the weights from {}% of the run on", share * 100.0);
        say("weights", value, true, "");
    }
    let every = match settings.validate_every {
        1 => "each epoch".to_owned(),
        n => format!("every {n} epochs"),
    };
    match settings.patience.filter(|_| validates) {
        Some(patience) => say(
            "stopping",
            format!("after {patience} validations ({every}) without improvement"),
            wishes.patience.is_some(),
            "",
        ),
        None if validates => {
            say("stopping", format!("after the last epoch; best weights are kept ({every})"), false, "")
        }
        None => say("stopping", "after the last epoch".to_owned(), false, "no validation rows"),
    }
    if settings.refit {
        let value = "then trained anew on all rows, validation rows too".to_owned();
        say("refit", value, wishes.refit.is_some(), "more rows, better model");
    }
    say("seed", settings.seed.to_string(), wishes.seed.is_some(), "");
    let extras = [
        settings.clip.map(|clip| match clip {
            Clip::Norm { max_norm } => ("clipping", format!("gradients of a norm above {max_norm}")),
            Clip::Value { limit } => ("clipping", format!("gradients beyond {limit}")),
        }),
        settings.recompute.then(|| ("memory", "blocks are computed again on the way back".to_owned())),
        (settings.accumulate > 1).then(|| ("accumulate", format!("{} steps make one update", settings.accumulate))),
    ];
    for (what, value) in extras.into_iter().flatten().chain(detailed(&settings)) {
        let told = what != "clipping" || wishes.clip_norm.is_some();
        say(what, value, told, "keeps the first steps in bounds");
    }
    choices.extend(transferred);
    Ok((settings, choices))
}

/// The loss that was given, that of quantiles, or the usual one of the task.
fn chosen_loss(task: Task, wishes: &TrackedWishes<'_>) -> Result<Loss, TrainError> {
    let wrong = |problem: &str| Err(TrainError::Setting(problem.to_owned()));
    match (&*wishes.loss, &*wishes.quantiles) {
        (Some(_), Some(_)) => {
            wrong("--quantiles are trained with a loss of their own, the pinball loss; leave --loss out")
        }
        (Some(loss), None) => Ok(loss.clone()),
        (None, Some(quantiles)) => Ok(Loss::Quantile { quantiles: quantiles.clone() }),
        (None, None) => Ok(match task {
            Task::Regression => Loss::Mse,
            Task::Binary => Loss::Bce { pos_weight: None },
            Task::Classes => Loss::CrossEntropy { label_smoothing: 0.0, class_weights: None },
        }),
    }
}

/// The starting point for a kind of data.
struct Base {
    network: Network,
    hidden: Vec<usize>,
    why_hidden: &'static str,
    dropout: f64,
    optimizer: OptimizerConfig,
    lr: f64,
    why_rate: &'static str,
    schedule: ScheduleConfig,
    why_schedule: &'static str,
    batch_size: usize,
    why_batch: &'static str,
    /// As many epochs as make this many steps, within bounds.
    steps: usize,
    epochs: (usize, usize),
    why_epochs: &'static str,
    average: Option<f64>,
    clip_norm: Option<f64>,
    /// In the whole run; as often as they cost little when open.
    validations: Option<usize>,
}

impl Base {
    /// The plain settings such sets of pictures are usually met with.
    fn pictures() -> Base {
        Base {
            network: Network::Mlp,
            hidden: vec![128, 64],
            why_hidden: "small and plain; convolutions, as in --model lenet, are better and slower",
            dropout: 0.0,
            optimizer: OptimizerConfig::Adam(Adam::default()),
            lr: 1e-3,
            why_rate: "the usual start",
            schedule: ScheduleConfig::Constant,
            why_schedule: "the run is short",
            batch_size: 64,
            why_batch: "many updates in few epochs",
            steps: 0,
            epochs: (5, 5),
            why_epochs: "enough for a first look",
            average: None,
            clip_norm: None,
            validations: None,
        }
    }

    /// Small grey pictures, such as MNIST's: a network of two convolutions takes a second an epoch and is far better than an mlp.
    fn grey(problem: &Problem) -> Base {
        Base {
            network: Network::Lenet { channels: [16, 32], hidden: 128 },
            why_hidden: "two convolutions suit small grey pictures; --hidden 128,64 for an mlp",
            ..Base::convolution(problem)
        }
    }

    /// Pictures through convolutions.
    fn convolution(problem: &Problem) -> Base {
        let rows = problem.train.rows();
        let usual = match rows {
            0..200 => 8,
            200..1000 => 16,
            1000..5000 => 32,
            _ => 64,
        };
        // a last batch of one row has no variance for batch norm
        let batch_size = (usual..2 * usual).find(|batch| rows % batch != 1).unwrap_or(usual);
        Base {
            network: Network::Vgg { channels: vec![16, 32, 64] },
            why_hidden: "pictures are seen through convolutions; small enough for a processor",
            optimizer: OptimizerConfig::AdamW(AdamW::default()),
            lr: 3e-3,
            why_rate: "a schedule that warms up bears large steps",
            schedule: ScheduleConfig::OneCycle(OneCycle::default()),
            why_schedule: "warms up, and ends with fine steps",
            batch_size,
            why_batch: "more rows allow larger ones",
            steps: 8000,
            epochs: (6, 60),
            why_epochs: "about 8,000 steps, within 6 to 60 epochs",
            ..Base::pictures()
        }
    }

    /// A residual network that is made to learn small pictures fast.
    fn fast_residual(problem: &Problem) -> Base {
        let rows = problem.train.rows();
        // a last batch of another size would be one more step to compile
        let even = |batch: &usize| rows.is_multiple_of(*batch);
        let batch_size = match rows {
            0..2500 => Base::convolution(problem).batch_size,
            _ => (200..320).rev().find(even).unwrap_or(256),
        };
        Base {
            optimizer: OptimizerConfig::AdamW(AdamW { weight_decay: 0.05, ..AdamW::default() }),
            lr: 4e-3,
            batch_size,
            why_batch: "large for a GPU, and even where it can be",
            steps: 800,
            epochs: (10, 40),
            why_epochs: "about 800 steps, within 10 to 40 epochs",
            ..Base::convolution(problem)
        }
    }

    /// What leaves a photograph of a thing one of the same thing.
    fn of_cifar(row: RowShape) -> Vec<Vary> {
        let RowShape::Picture { width, .. } = row else { return Vec::new() };
        vec![Vary::Shift { pixels: width / 8 }, Vary::MirrorX { probability: 0.5 }]
    }

    /// Which token comes next.
    fn text(wishes: &TrackedWishes<'_>) -> Base {
        let large = wishes.model.is_some() || has_gpu(wishes);
        let (network, why_hidden) = match large {
            true => (Network::Gpt { width: 256, heads: 4, layers: 4 }, "tokens are read by a transformer"),
            false => (Network::Gpt { width: 128, heads: 4, layers: 2 }, "a transformer small enough for a processor"),
        };
        Base {
            network,
            hidden: Vec::new(),
            why_hidden,
            dropout: 0.1,
            optimizer: OptimizerConfig::AdamW(AdamW { betas: (0.9, 0.99), weight_decay: 0.1, ..AdamW::default() }),
            lr: 2e-3,
            why_rate: "a transformer of this size bears it once warm",
            schedule: ScheduleConfig::OneCycle(OneCycle { pct_start: 0.05, ..OneCycle::default() }),
            why_schedule: "warms up, and ends with fine steps",
            batch_size: TEXT_BATCH,
            why_batch: "windows that differ",
            steps: 2500,
            epochs: (1, 1000),
            why_epochs: "about 2,500 steps",
            average: None,
            clip_norm: Some(1.0),
            validations: Some(8),
        }
    }

    /// Windows over a series, each column by itself.
    fn series(problem: &Problem) -> Base {
        Base {
            network: Network::Nlinear,
            why_hidden: "a straight line of the past is hard to beat; see also gru",
            lr: 1e-3,
            ..Base::table(problem)
        }
    }

    /// Windows over a series, all columns together.
    fn recurrent(problem: &Problem) -> Base {
        Base {
            network: Network::Gru { hidden: 32, layers: 1 },
            why_hidden: "what came before matters in its order",
            ..Base::table(problem)
        }
    }

    fn table(problem: &Problem) -> Base {
        let rows = problem.train.rows();
        let batch_size = match rows {
            0..10_000 => 32,
            10_000..50_000 => 64,
            50_000..200_000 => 256,
            _ => 1024,
        };
        let (dropout, why_hidden) = match rows {
            0..5000 => (0.2, "suits most tables; few rows, so much dropout"),
            _ => (0.1, "suits most tables"),
        };
        Base {
            network: Network::Mlp,
            hidden: vec![128, 128],
            why_hidden,
            dropout,
            optimizer: OptimizerConfig::AdamW(AdamW::default()),
            lr: 3e-3,
            why_rate: "inputs and target are standardised",
            schedule: ScheduleConfig::Cosine(Cosine::default()),
            why_schedule: "large steps first, fine ones at the end",
            batch_size,
            why_batch: "more rows allow larger ones",
            steps: 12_000,
            epochs: (20, 400),
            why_epochs: "about 12,000 steps, within 20 to 400 epochs",
            average: None,
            clip_norm: None,
            validations: None,
        }
    }
}

/// The class that is reported as the positive one, if one is named.
fn positive(problem: &Problem, wishes: &TrackedWishes<'_>) -> Result<Option<String>, TrainError> {
    let (Some(label), labels) = (&*wishes.positive, problem.input.labels()) else { return Ok(None) };
    let wrong = |problem: String| Err(TrainError::Setting(problem));
    match labels {
        [first, second] if label == first || label == second => {
            if let Some(Loss::Bce { pos_weight: Some(weight) }) = &*wishes.loss
                && label == first
                && let [weight] = weight[..]
            {
                return wrong(format!(
                    "pos_weight weighs {second:?}, the second class, and positive is {first:?}; to weigh {first:?} {weight} times, write \
                     pos_weight = [{}]",
                    1.0 / weight
                ));
            }
            Ok(Some(label.clone()))
        }
        [first, second] => {
            wrong(format!("positive is {label:?}, which is no class of the target; write {first:?} or {second:?}"))
        }
        _ => wrong(format!("positive names one of two classes, and the target has {}; leave it out", classes(labels))),
    }
}

fn classes(labels: &[String]) -> String {
    match labels.len() {
        0 => "none".to_owned(),
        count => count.to_string(),
    }
}

/// What is not as usual.
fn detailed(settings: &Settings) -> Vec<(&'static str, String)> {
    let Details { init, inits, head, broadcast, detach, mode, validation_mode, .. } = &settings.details;
    let starts = inits.iter().map(|(name, init)| format!("{name} {init:?}").to_lowercase());
    let inits = [format!("{init:?}").to_lowercase()].into_iter().chain(starts).collect::<Vec<_>>().join(", ");
    let lines = [
        (inits != "default").then_some(("start", inits)),
        (*head != Head::None).then(|| ("head", head.name().to_owned())),
        broadcast.then(|| ("broadcast", "each prediction against all targets".to_owned())),
        (!detach.is_empty()).then(|| ("detached", detach.join(", "))),
        mode.map(|mode| ("mode", format!("{mode:?} while training").to_lowercase())),
        validation_mode.map(|mode| ("mode", format!("{mode:?} while judged").to_lowercase())),
        settings.optimizer.maximize().then(|| ("climbs", "the loss is made large".to_owned())),
    ];
    lines.into_iter().flatten().collect()
}

fn with_decay(optimizer: OptimizerConfig, decay: Option<f64>) -> OptimizerConfig {
    let Some(weight_decay) = decay else { return optimizer };
    match optimizer {
        OptimizerConfig::Sgd(o) => OptimizerConfig::Sgd(Sgd { weight_decay, ..o }),
        OptimizerConfig::RmsProp(o) => OptimizerConfig::RmsProp(RmsProp { weight_decay, ..o }),
        OptimizerConfig::Adam(o) => OptimizerConfig::Adam(Adam { weight_decay, ..o }),
        OptimizerConfig::AdamW(o) => OptimizerConfig::AdamW(AdamW { weight_decay, ..o }),
        OptimizerConfig::Lamb(o) => OptimizerConfig::Lamb(Lamb { weight_decay, ..o }),
        OptimizerConfig::Lion(o) => OptimizerConfig::Lion(Lion { weight_decay, ..o }),
        OptimizerConfig::Muon(o) => {
            OptimizerConfig::Muon(Muon { weight_decay, others: AdamW { weight_decay, ..o.others }, ..o })
        }
    }
}

/// `0.1, 0.5, 0.9`
fn listed(numbers: &[f64]) -> String {
    numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(", ")
}

/// `adamw, weight decay 0.01`
fn optimizer_name(settings: &Settings) -> String {
    let name = match &settings.optimizer {
        OptimizerConfig::Sgd(sgd) if sgd.momentum != 0.0 => {
            let kind = if sgd.nesterov { "Nesterov's momentum" } else { "momentum" };
            format!("sgd, {kind} {}", sgd.momentum)
        }
        other => other.name().to_owned(),
    };
    match settings.weight_decay() {
        0.0 => name,
        decay => format!("{name}, weight decay {decay}"),
    }
}
