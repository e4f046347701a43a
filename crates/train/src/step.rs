//! The training step of a data set, traced and compiled: gather a batch, forward, loss, backward, update.

use citius_cpu::Inputs;
use citius_cuda::Precision;
use citius_data::{Dataset, Features, Target};
use citius_graph::{DType, Graph, Init, Mode, Names, NodeId, Tensor};
use citius_nn::{Learning, Loss, LossScaling, Module, RowShape, broadcast, vary};
use citius_plan::{Plan, compile};

use crate::material::{FeatureForm, Form, TargetForm};
use crate::{Engine, Machine, Material, Settings, TrainError};

/// How a batch reaches the step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// `x` and `y` are all rows, and the slot `rows`, i32 `[batch]`, says which to gather.
    Gathered,
    /// `x` and `y` are slots for a batch.
    Given,
}

/// The way forward of a step, for whoever wants to record more beside it.
pub struct Forward<'a> {
    pub x: &'a Tensor,
    pub y: &'a Tensor,
    pub prediction: &'a Tensor,
    pub loss: &'a Tensor,
}

/// Traces and compiles the step that learns from `batch` rows.
///
/// Inputs are as [`Arrival`] says; outputs those of [`Learning::record`]. `updates` is the length of the run, which schedules need.
pub fn plan_step(
    model: &dyn Module,
    settings: &Settings,
    form: &Form,
    arrival: Arrival,
    batch: usize,
    updates: usize,
) -> Result<Plan, TrainError> {
    plan_watched_step(model, settings, form, arrival, batch, updates, &mut |_| {})
}

/// The same; `watch` sees the way forward before the way back is recorded, and may add outputs of its own.
pub fn plan_watched_step(
    model: &dyn Module,
    settings: &Settings,
    form: &Form,
    arrival: Arrival,
    batch: usize,
    updates: usize,
    watch: &mut dyn FnMut(&Forward),
) -> Result<Plan, TrainError> {
    let g = Graph::with_mode(Mode::Train);
    g.freeze(Names(settings.transfer.freeze.clone()));
    g.cut(Names(settings.details.detach.clone()));
    g.save_memory(settings.recompute);
    let rows = (arrival == Arrival::Gathered).then(|| g.input_of("rows", &[batch], DType::I32));
    let input = |name: &str, width: Option<usize>, dtype: DType| {
        let height = if rows.is_some() { form.rows } else { batch };
        let table = g.input_of(name, &[height].into_iter().chain(width).collect::<Vec<_>>(), dtype);
        rows.as_ref().map_or(table.clone(), |rows| table.gather_rows(rows))
    };
    let x = match form.features {
        FeatureForm::Numbers => input("x", Some(form.width), DType::F32),
        FeatureForm::Bytes(scale, shift) if !settings.augment.is_empty() => {
            let pixels = input("x", Some(form.width), DType::U8).to_f32();
            let Some(RowShape::Picture { channels, height, width }) = settings.row else {
                return Err(TrainError::Setting("augment is for pictures; leave it out".into()));
            };
            let pictures = pixels.reshape(&[batch, channels, height, width]);
            vary(&pictures, &settings.augment, (scale as f64, shift as f64)).reshape(&[batch, form.width])
        }
        // in this order: the planner folds it into the gather
        FeatureForm::Bytes(scale, shift) => {
            input("x", Some(form.width), DType::U8).to_f32() * scale as f64 + shift as f64
        }
        FeatureForm::Tokens => input("x", Some(form.width), DType::I32),
    };
    let y = match form.target {
        TargetForm::Values(width) | TargetForm::Shares(width) => input("y", Some(width), DType::F32),
        TargetForm::Classes(_) => input("y", None, DType::I32),
        TargetForm::Sequence { length, .. } => input("y", Some(length), DType::I32),
    };
    let prediction = {
        let _mode = settings.details.mode.map(|mode| g.in_mode(mode.into()));
        model.forward(&x)
    };
    let loss = loss_of(settings, prediction.clone(), y.clone(), form.target);
    let kept = kept_by_layers(&g);
    watch(&Forward { x: &x, y: &y, prediction: &prediction, loss: &loss });
    let learned = learning(settings, updates).record(&loss)?;
    if let Some(decay) = settings.average {
        // early averages forget faster, so that the first weights do not linger
        let keep = (&learned.count / (&learned.count + 10.0)).minimum(&g.scalar(decay));
        for p in &learned.parameters {
            let average = g.state_of(&p.name, &p.value.dims(), Init::Zeros, average_name);
            let moved = &p.value + (&average - &p.value) * &keep;
            g.assign(&average, &learned.applies.as_ref().map_or(moved.clone(), |a| a.choose(&moved, &average)));
        }
    }
    if let Some(share) = settings.swa {
        // the mean of n: a' = p + (a − p)·(1 − 1/n); before it begins, n = 1
        let start = (share * updates as f64).floor();
        let n = (&learned.count - start).maximum(&g.scalar(1.0));
        let keep = 1.0 - 1.0 / n;
        let parameters = learned.parameters.iter().map(|p| (&p.name, &p.value));
        for (name, value) in parameters.chain(kept.iter().map(|(name, value)| (name, value))) {
            let average = g.state_of(name, &value.dims(), Init::Zeros, average_name);
            let moved = value + (&average - value) * &keep;
            g.assign(&average, &learned.applies.as_ref().map_or(moved.clone(), |a| a.choose(&moved, &average)));
        }
    }
    g.check()?;
    Ok(compile(&g)?)
}

/// The loss that the settings ask for. Losses of numbers see a class as 1 in its place and 0 in the others.
fn loss_of(settings: &Settings, mut prediction: Tensor, mut target: Tensor, form: TargetForm) -> Tensor {
    if let TargetForm::Sequence { length, classes } = form {
        // each place of a row is judged like a row
        let places = target.dims()[0] * length;
        (prediction, target) = (prediction.reshape(&[places, classes]), target.reshape(&[places]));
    }
    let of_classes = matches!(settings.loss, Loss::CrossEntropy { .. } | Loss::Nll);
    if let (TargetForm::Classes(classes), false) = (form, of_classes) {
        let rows = target.dims()[0];
        target = target.to_f32().reshape(&[rows, 1]).eq(&target.graph().iota(classes));
    }
    if settings.details.broadcast {
        (prediction, target) = broadcast(&prediction, &target);
    }
    settings.loss.reduced(&prediction, &target, settings.details.reduction)
}

/// What layers keep from step to step, such as running means, by name, and what they make of it.
fn kept_by_layers(g: &Graph) -> Vec<(String, Tensor)> {
    let leaves = g.leaves();
    let name = |id: NodeId| leaves.iter().find(|leaf| leaf.node == id).map(|leaf| leaf.name.clone());
    g.updates().into_iter().filter_map(|(leaf, value)| Some((name(leaf)?, g.tensor(value)))).collect()
}

/// Where the running average of a parameter is kept.
pub(crate) fn average_name(parameter: &str) -> String {
    format!("{parameter}.average")
}

fn learning(settings: &Settings, updates: usize) -> Learning {
    let rates: Vec<(&str, f64)> = settings.transfer.rates.iter().map(|r| (r.pattern.as_str(), r.factor)).collect();
    Learning::new(settings.optimizer.clone(), settings.lr)
        .schedule(settings.schedule.clone().over(updates))
        .clip(settings.clip)
        .rates(&rates)
        .allow_unreached(settings.details.cuts())
        .accumulate(settings.accumulate)
        .scaling((settings.precision == Precision::Fp16).then(LossScaling::default))
}

/// Steps of a whole epoch: the full batches, and the smaller one at its end.
pub(crate) struct EpochSteps {
    pub full: Option<Batches>,
    pub last: Option<Batches>,
}

/// Batches of one size.
pub(crate) struct Batches {
    /// Number of the plan in the engine.
    pub plan: usize,
    pub size: usize,
    /// In an epoch.
    pub count: u64,
    pub places: Places,
}

/// Where the outputs of a step are.
pub(crate) struct Places {
    pub loss: usize,
    pub grad_norm: usize,
    pub rate: usize,
    /// With gradients in 16 bits.
    pub loss_scale: Option<usize>,
    /// Parameter, and sum of squares of its gradient.
    pub gradients: Vec<(String, usize)>,
}

impl EpochSteps {
    /// The steps, and the engine that runs them.
    pub fn new(
        model: &dyn Module,
        settings: &Settings,
        material: &Material,
        epochs: usize,
        machine: Machine,
    ) -> Result<(EpochSteps, Engine), TrainError> {
        let form = material.form();
        if form.is_empty() {
            return Err(TrainError::Setting("there are no rows to train on".into()));
        }
        let updates = settings.updates(form.rows, epochs);
        let batch = settings.batch_size.clamp(1, form.rows.max(1));
        let arrival = Arrival::of(material);
        let mut plans = Vec::new();
        let mut compiled = |size: usize, count: usize| match size * count {
            0 => Ok(None),
            _ => {
                let plan = plan_step(model, settings, &form, arrival, size, updates)?;
                let places = Places::of(&plan)?;
                plans.push(plan);
                Ok::<_, TrainError>(Some(Batches { plan: plans.len() - 1, size, count: count as u64, places }))
            }
        };
        let steps = EpochSteps { full: compiled(batch, form.rows / batch)?, last: compiled(form.rows % batch, 1)? };
        Ok((steps, Engine::new(plans, settings.seed, &tables(material), machine)?))
    }

    pub fn per_epoch(&self) -> u64 {
        [&self.full, &self.last].into_iter().flatten().map(|b| b.count).sum()
    }
}

impl Arrival {
    /// Gathered where all rows are in memory.
    pub fn of(material: &Material) -> Arrival {
        match material {
            Material::Resident(_) => Arrival::Gathered,
            Material::Loaded(_) => Arrival::Given,
        }
    }
}

impl Places {
    fn of(plan: &Plan) -> Result<Places, TrainError> {
        let place = |name: &str| {
            let missing = || TrainError::Setting(format!("internal error: the step has no output {name:?}"));
            plan.outputs.iter().position(|o| o.0 == name).ok_or_else(missing)
        };
        let (loss, grad_norm, rate) = (place("loss")?, place("grad_norm")?, place("lr")?);
        let named = plan.outputs.iter().enumerate();
        let gradients =
            named.filter_map(|(i, (name, _))| Some((name.strip_prefix("probe.grad.")?.to_owned(), i))).collect();
        let loss_scale = plan.outputs.iter().position(|o| o.0 == "loss_scale");
        Ok(Places { loss, grad_norm, rate, loss_scale, gradients })
    }
}

/// What is bound for a run: the tables, or nothing where batches are brought.
pub(crate) fn tables(material: &Material) -> Inputs<'_> {
    match material {
        Material::Resident(data) => tables_of(data),
        Material::Loaded(_) => Inputs::new(),
    }
}

/// The tables of a data set.
pub(crate) fn tables_of(data: &Dataset) -> Inputs<'_> {
    let inputs = Inputs::new();
    let inputs = match &data.features {
        Features::F32 { data, .. } => inputs.f32("x", data),
        Features::U8 { data, .. } => inputs.u8("x", data),
        Features::I32 { data, .. } => inputs.i32("x", data),
    };
    match &data.target {
        Target::Values { data, .. } => inputs.f32("y", data),
        Target::Classes { data, .. } | Target::Sequence { data, .. } => inputs.i32("y", data),
    }
}
