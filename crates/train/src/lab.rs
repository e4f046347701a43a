//! A network on the bench: batches of your choice, every result seen, weights to be set and read between steps.

use citius_cpu::{Driver, Flow, Inputs, Memory, Options, Outputs, Slots};
use citius_data::{Dataset, Features, FieldRef, Order, Target};

use crate::material::{FeatureForm, Form, TargetForm};
use crate::predictor::Predictor;
use crate::quantiles::Quantiles;
use crate::step::{Arrival, Forward, plan_watched_step, tables_of};
use crate::weights::Weights;
use crate::{Device, Engine, Machine, Material, Settings, TrainError};

/// Operations of a step below which one thread takes it.
const ONE_THREAD: usize = 1 << 23;

/// Steps of one batch size on rows in memory, on the processor.
pub struct Lab<'a> {
    engine: Engine,
    inputs: Inputs<'a>,
    predictor: Predictor,
    names: Vec<String>,
    batch: usize,
    step: u64,
    /// Levels of the quantiles that are predicted, and how many numbers a target has.
    quantiles: Vec<f64>,
    targets: usize,
}

impl<'a> Lab<'a> {
    /// The step of these settings, with initial weights of their seed. `updates` is the length of the run that schedules see; `watch`
    /// may record more outputs.
    pub fn new(
        settings: &Settings,
        data: &'a Dataset,
        updates: usize,
        cpu: Options,
        watch: &mut dyn FnMut(&Forward),
    ) -> Result<Lab<'a>, TrainError> {
        let form = Form::from(data);
        if form.is_empty() {
            return Err(TrainError::Setting("there are no rows to train on".into()));
        }
        let model = || settings.model_for(Device::Cpu, form.width, form.outputs());
        let batch = settings.batch_size.clamp(1, form.rows);
        let plan =
            plan_watched_step(model()?.as_ref(), settings, &form, Arrival::Gathered, batch, updates.max(1), watch)?;
        // threads that wait for each other on a busy machine take longer than a small step
        let small = cpu.threads == 0 && plan.total().flops < ONE_THREAD;
        let cpu = if small { Options { threads: 1, ..cpu } } else { cpu };
        let inputs = tables_of(data);
        let names = plan.outputs.iter().map(|(name, _)| name.clone()).collect();
        let engine = Engine::new(vec![plan], settings.seed, &inputs, Machine::from(cpu))?;
        let predictor = Predictor::new(model()?, settings.row_of(form.width), cpu)?;
        let (quantiles, targets) = (settings.loss.quantiles().to_vec(), form.outputs());
        Ok(Lab { engine, inputs, predictor, names, batch, step: 0, quantiles, targets })
    }

    /// Rows of a step.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Names of all that a step gives, by index.
    pub fn outputs(&self) -> &[String] {
        &self.names
    }

    pub fn output(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| n == name)
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        self.step
    }

    pub fn memory(&self) -> &Memory {
        self.engine.memory()
    }

    pub fn memory_mut(&mut self) -> &mut Memory {
        self.engine.memory_mut()
    }

    /// Takes up to `steps` steps: `rows` says which rows a step learns from, `see` gets what it gave and may stop. Returns how many were
    /// taken.
    pub fn run(
        &mut self,
        steps: u64,
        rows: &mut dyn FnMut(u64, &mut [i32]),
        see: &mut dyn FnMut(u64, &Outputs) -> Flow,
    ) -> Result<u64, TrainError> {
        let taken = self.engine.run(0, &self.inputs, self.step, steps, &mut Hand { rows, see })?;
        self.step += taken;
        Ok(taken)
    }

    /// What the network, in the mode of prediction, gives for other rows: with its weights, or with their running average if it keeps one.
    pub fn predict(&mut self, features: &Features, average: bool) -> Result<Vec<f32>, TrainError> {
        let weights = Weights::of(self.engine.memory(), self.predictor.stored());
        let mut weights = weights.ok_or_else(|| TrainError::no_memory("a copy of the weights"))?;
        weights.read_from(self.engine.memory(), average);
        weights.write_to(self.predictor.weights_mut());
        self.predictor.outputs(features)
    }
}

impl Lab<'_> {
    /// The same as one answer per number or class of a target: of quantiles the median.
    pub fn predict_points(&mut self, features: &Features, average: bool) -> Result<Vec<f32>, TrainError> {
        let outputs = self.predict(features, average)?;
        Ok(match &self.quantiles[..] {
            [] => outputs,
            levels => Quantiles::of(&outputs, levels, self.targets).points(),
        })
    }
}

struct Hand<'a> {
    rows: &'a mut dyn FnMut(u64, &mut [i32]),
    see: &'a mut dyn FnMut(u64, &Outputs) -> Flow,
}

impl Driver for Hand<'_> {
    fn feed(&mut self, step: u64, slots: &mut Slots) {
        if let Some(slot) = slots.i32("rows") {
            (self.rows)(step, slot);
        }
    }

    fn after(&mut self, step: u64, outputs: &Outputs) -> Flow {
        (self.see)(step, outputs)
    }
}

/// Rows asked of a loader at a time.
const AT_A_TIME: usize = 64;

impl Material {
    /// Some rows in memory: drawn from what is there, or the first that a loader brings. `None` where targets are shares of classes.
    pub fn sample(&self, rows: usize, seed: u64) -> Result<Option<Dataset>, TrainError> {
        let loaded = match self {
            Material::Resident(data) => {
                let mut drawn = vec![0; rows.min(data.rows)];
                Order::new(data.rows as u32, seed, 0).fill(0, &mut drawn);
                return Ok(Some(data.select(&drawn)));
            }
            Material::Loaded(loaded) => loaded,
        };
        let (form, width) = (loaded.form, loaded.form.width);
        let mut features = match form.features {
            FeatureForm::Numbers => Features::F32 { data: Vec::new(), width },
            FeatureForm::Bytes(scale, shift) => Features::U8 { data: Vec::new(), width, scale, shift },
            FeatureForm::Tokens => Features::I32 { data: Vec::new(), width },
        };
        let mut target = match form.target {
            TargetForm::Values(width) => Target::Values { data: Vec::new(), width },
            TargetForm::Classes(classes) => Target::Classes { data: Vec::new(), classes },
            TargetForm::Sequence { length, classes } => Target::Sequence { data: Vec::new(), length, classes },
            TargetForm::Shares(_) => return Ok(None),
        };
        let wanted = rows.min(form.rows);
        let mut loader = loaded.loader(AT_A_TIME.min(wanted.max(1)), seed, 0, 0)?;
        let mut found = 0;
        while found < wanted {
            let Some(batch) = loader.next_batch()? else { break };
            found += batch.rows();
            let fields = batch.fields();
            let [x, y] = &fields[..] else { return Ok(None) };
            match (&mut features, x) {
                (Features::F32 { data, .. }, FieldRef::F32(more)) => data.extend_from_slice(more),
                (Features::U8 { data, .. }, FieldRef::U8(more)) => data.extend_from_slice(more),
                (Features::I32 { data, .. }, FieldRef::I32(more)) => data.extend_from_slice(more),
                _ => return Ok(None),
            }
            match (&mut target, y) {
                (Target::Values { data, .. }, FieldRef::F32(more)) => data.extend_from_slice(more),
                (Target::Classes { data, .. } | Target::Sequence { data, .. }, FieldRef::I32(more)) => {
                    data.extend_from_slice(more)
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(Dataset::new(found, features, target)?))
    }
}
