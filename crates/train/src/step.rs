//! The training step of a data set, traced and compiled: gather a batch, forward, loss, backward, update.

use citius_cpu::{Executable, Inputs, Memory, Options};
use citius_data::{Dataset, Features, Target};
use citius_graph::{DType, Graph, Init, Mode, Tensor};
use citius_nn::{Learning, Module};
use citius_plan::{Plan, compile};

use crate::settings::Settings;
use crate::{TrainError, settings};

/// Traces and compiles the step that learns from `batch` rows of `data`, resident as a whole.
///
/// Inputs are the tables `x` and `y` and the slot `rows`, i32 `[batch]`; outputs those of [`Learning::record`]. `updates` is the
/// length of the run, which schedules need.
pub fn plan_step(
    model: &dyn Module,
    settings: &Settings,
    data: &Dataset,
    batch: usize,
    updates: usize,
) -> Result<Plan, TrainError> {
    let g = Graph::with_mode(Mode::Train);
    let rows = g.input_of("rows", &[batch], DType::I32);
    let prediction = model.forward(&features(&g, data).gathered(&rows));
    let loss = settings.loss.apply(&prediction, &target(&g, data).gather_rows(&rows));
    let learned = learning(settings, updates).record(&loss)?;
    if let Some(decay) = settings.average {
        // early averages forget faster, so that the first weights do not linger
        let count = g.step() + 1.0;
        let keep = (&count / (&count + 10.0)).minimum(&g.scalar(decay));
        for p in &learned.parameters {
            let average = g.state(&average_name(&p.name), &p.value.dims(), Init::Zeros);
            g.assign(&average, &(&p.value + (&average - &p.value) * &keep));
        }
    }
    g.check()?;
    Ok(compile(&g)?)
}

/// Where the running average of a parameter is kept.
pub(crate) fn average_name(parameter: &str) -> String {
    format!("{parameter}.average")
}

fn learning(settings: &Settings, updates: usize) -> Learning {
    Learning::new(settings.optimizer.clone(), settings.lr)
        .schedule(settings.schedule.clone().over(updates))
        .clip(settings.clip)
        .accumulate(settings.accumulate)
}

/// The table of features, and how its bytes become numbers.
struct Table {
    tensor: Tensor,
    affine: Option<(f64, f64)>,
}

impl Table {
    fn gathered(&self, rows: &Tensor) -> Tensor {
        let batch = self.tensor.gather_rows(rows);
        match self.affine {
            // in this order: the planner folds it into the gather
            Some((scale, shift)) => batch.to_f32() * scale + shift,
            None => batch,
        }
    }
}

fn features(g: &Graph, data: &Dataset) -> Table {
    match &data.features {
        Features::F32 { width, .. } => {
            Table { tensor: g.input_of("x", &[data.rows, *width], DType::F32), affine: None }
        }
        Features::U8 { width, scale, shift, .. } => Table {
            tensor: g.input_of("x", &[data.rows, *width], DType::U8),
            affine: Some((*scale as f64, *shift as f64)),
        },
    }
}

fn target(g: &Graph, data: &Dataset) -> Tensor {
    match &data.target {
        Target::Values { width, .. } => g.input_of("y", &[data.rows, *width], DType::F32),
        Target::Classes { .. } => g.input_of("y", &[data.rows], DType::I32),
    }
}

/// Steps of a whole epoch: the full batches, and the smaller one at its end.
pub(crate) struct EpochSteps {
    pub full: Option<Batches>,
    pub last: Option<Batches>,
}

/// Batches of one size.
pub(crate) struct Batches {
    pub executable: Executable,
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
    /// Parameter, and sum of squares of its gradient.
    pub gradients: Vec<(String, usize)>,
}

impl EpochSteps {
    pub fn new(
        model: &dyn Module,
        settings: &Settings,
        data: &Dataset,
        epochs: usize,
        memory: &mut Memory,
        options: Options,
    ) -> Result<EpochSteps, TrainError> {
        if settings::is_empty(data) {
            return Err(TrainError::Setting("there are no rows to train on".into()));
        }
        let updates = settings.updates(data.rows, epochs);
        let batch = settings.batch_size.clamp(1, data.rows.max(1));
        let mut compiled = |size: usize, count: usize| match size * count {
            0 => Ok(None),
            _ => {
                let plan = plan_step(model, settings, data, size, updates)?;
                Batches::new(Executable::new(plan, memory, options)?, size, count as u64).map(Some)
            }
        };
        Ok(EpochSteps { full: compiled(batch, data.rows / batch)?, last: compiled(data.rows % batch, 1)? })
    }

    pub fn per_epoch(&self) -> u64 {
        [&self.full, &self.last].into_iter().flatten().map(|b| b.count).sum()
    }
}

impl Batches {
    fn new(executable: Executable, size: usize, count: u64) -> Result<Batches, TrainError> {
        let place = |name: &str| {
            let missing = || TrainError::Setting(format!("internal error: the step has no output {name:?}"));
            executable.output(name).ok_or_else(missing)
        };
        let (loss, grad_norm, rate) = (place("loss")?, place("grad_norm")?, place("lr")?);
        let named = executable.plan().outputs.iter().enumerate();
        let gradients =
            named.filter_map(|(i, (name, _))| Some((name.strip_prefix("probe.grad.")?.to_owned(), i))).collect();
        let places = Places { loss, grad_norm, rate, gradients };
        Ok(Batches { executable, size, count, places })
    }
}

/// The tables, to be bound for a run.
pub(crate) fn tables(data: &Dataset) -> Inputs<'_> {
    let inputs = Inputs::new();
    let inputs = match &data.features {
        Features::F32 { data, .. } => inputs.f32("x", data),
        Features::U8 { data, .. } => inputs.u8("x", data),
    };
    match &data.target {
        Target::Values { data, .. } => inputs.f32("y", data),
        Target::Classes { data, .. } => inputs.i32("y", data),
    }
}
