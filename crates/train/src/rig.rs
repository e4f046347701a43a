//! A step that is run to be measured, on a throw-away copy of the model: with its batches as they come in training, or otherwise.

use std::time::Instant;

use citius_cpu::{Batch, Driver, Flow, Inputs, Outputs, RowOrder, Slots};
use citius_data::{DataError, FieldRef, INPUT, Loader, Order, TARGET};
use citius_graph::{DType, Graph};
use citius_plan::{Plan, compile};

use crate::fill::{Filler, fields, row_order, write_left};
use crate::material::{FeatureForm, Form, TargetForm};
use crate::step::{Arrival, plan_step, tables};
use crate::{Engine, Loaded, Machine, Material, Settings, TrainError};

/// What a loader with workers holds at least: one chunk of batches that is read, and one that is filled.
const LEAST_CHUNKS: usize = 2;
/// Seconds after which nothing more is tried out.
const LONGEST_WARM_UP: f64 = 1.5;

/// How a rig gets its batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Supply {
    /// As in training.
    Real,
    /// The first one again and again.
    Cached,
    /// None is brought: the step reads one where it is.
    Bound,
    /// As in training, and nothing is computed.
    Alone,
}

/// One batch, held in memory.
pub(crate) struct Held {
    x: Values,
    y: Values,
}

enum Values {
    U8(Vec<u8>),
    I32(Vec<i32>),
    F32(Vec<f32>),
}

impl Held {
    pub fn new(material: &Material, settings: &Settings) -> Result<Held, TrainError> {
        let form = material.form();
        let rows = settings.batch_size.clamp(1, form.rows.max(1));
        let mut fields = Vec::new();
        match material {
            Material::Resident(_) => {
                let values = |dtype: DType, width: usize| match dtype {
                    DType::U8 => Values::U8(vec![0; rows * width]),
                    DType::I32 => Values::I32(vec![0; rows * width]),
                    DType::F32 => Values::F32(vec![0.0; rows * width]),
                };
                let (x, y) = (of_features(&form), of_target(&form));
                let mut held = Held { x: values(x.0, x.1), y: values(y.0, y.1) };
                held.take(&tables(material));
                return Ok(held);
            }
            Material::Loaded(loaded) => {
                let mut loader = loaded.loader(rows, settings.seed, 0, 0)?;
                let batch = loader.next_batch()?;
                let read = batch.iter().flat_map(|batch| batch.fields());
                fields.extend(read.map(|field| match field {
                    FieldRef::U8(v) => Values::U8(v.to_vec()),
                    FieldRef::I32(v) => Values::I32(v.to_vec()),
                    FieldRef::F32(v) => Values::F32(v.to_vec()),
                }));
            }
        }
        match (fields.pop(), fields.pop()) {
            (Some(y), Some(x)) => Ok(Held { x, y }),
            _ => Err(TrainError::Setting("there are no rows to train on".into())),
        }
    }

    /// The first rows of tables.
    fn take(&mut self, tables: &Inputs) {
        for (name, values) in [(INPUT, &mut self.x), (TARGET, &mut self.y)] {
            match values {
                Values::U8(to) => copy(to, tables.bytes(name)),
                Values::I32(to) => copy(to, tables.whole_numbers(name)),
                Values::F32(to) => copy(to, tables.numbers(name)),
            }
        }
    }

    fn inputs(&self) -> Inputs<'_> {
        [(INPUT, &self.x), (TARGET, &self.y)].into_iter().fold(Inputs::new(), |inputs, (name, values)| match values {
            Values::U8(v) => inputs.u8(name, v),
            Values::I32(v) => inputs.i32(name, v),
            Values::F32(v) => inputs.f32(name, v),
        })
    }
}

fn copy<T: Copy>(to: &mut [T], from: &[T]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

fn of_features(form: &Form) -> (DType, usize) {
    let dtype = match form.features {
        FeatureForm::Numbers => DType::F32,
        FeatureForm::Bytes(..) => DType::U8,
        FeatureForm::Tokens => DType::I32,
    };
    (dtype, form.width)
}

fn of_target(form: &Form) -> (DType, usize) {
    match form.target {
        TargetForm::Values(width) | TargetForm::Shares(width) => (DType::F32, width),
        TargetForm::Classes(_) => (DType::I32, 1),
        TargetForm::Sequence { length, .. } => (DType::I32, length),
    }
}

/// A step ready to be measured.
pub(crate) struct Rig<'a> {
    engine: Option<Engine>,
    inputs: Inputs<'a>,
    feeder: Feeder,
    step: u64,
    /// Rows of a step.
    pub batch: usize,
}

struct Feeder {
    bringer: Bringer,
    rows: u32,
    seed: u64,
    /// Steps of an epoch.
    steps: u64,
    cached: bool,
    fed: bool,
    failure: Option<DataError>,
}

enum Bringer {
    Order { order: Box<Order>, epoch: u64, batch: usize },
    Loader(Box<Own>),
    Nobody,
}

/// A loader of the rig's own.
struct Own(Loader);

impl Batch for Own {
    fn write(&self, slots: &mut Slots) {
        write_left(&self.0, slots);
    }
}

impl<'a> Rig<'a> {
    /// `workers`: of a loader, where not as the material says.
    pub fn new(
        material: &'a Material,
        settings: &Settings,
        machine: Machine,
        supply: Supply,
        held: &'a Held,
        workers: Option<usize>,
    ) -> Result<Rig<'a>, TrainError> {
        let form = material.form();
        let batch = settings.batch_size.clamp(1, form.rows.max(1));
        let arrival = if supply == Supply::Bound { Arrival::Given } else { Arrival::of(material) };
        let inputs = if supply == Supply::Bound { held.inputs() } else { tables(material) };
        let plan = match (supply, material) {
            (Supply::Alone, Material::Loaded(_)) => None,
            (Supply::Alone, Material::Resident(_)) => Some(gather_alone(&form, batch)?),
            _ => {
                let model = settings.model_for(machine.device, form.width, form.outputs())?;
                let updates = settings.updates(form.rows, settings.epochs);
                Some(plan_step(model.as_ref(), settings, &form, arrival, batch, updates)?)
            }
        };
        let engine = plan.map(|plan| Engine::new(vec![plan], settings.seed, &inputs, machine)).transpose()?;
        let bringer = match (supply, material) {
            (Supply::Bound, _) => Bringer::Nobody,
            (_, Material::Resident(_)) => {
                Bringer::Order { order: Box::new(Order::new(form.rows as u32, settings.seed, 0)), epoch: 0, batch }
            }
            (_, Material::Loaded(loaded)) => {
                let workers = workers.or(loaded.options.workers);
                let loader = |prefetch: usize| {
                    let prefetch = loaded.options.prefetch.or(Some(prefetch));
                    let options = crate::LoadingOptions { workers, prefetch, ..loaded.options.clone() };
                    let loaded = Loaded { feed: loaded.feed.clone(), form: loaded.form, options };
                    loaded.loader(batch, settings.seed, 0, 0)
                };
                // as little held ready as works (see `turn`), and yet enough for all workers to be busy, as in training
                let least = loader(1)?;
                let chunk = least.report().prefetch / LEAST_CHUNKS;
                let loader = match workers.filter(|n| *n > 0 && loaded.options.prefetch.is_none()) {
                    Some(workers) => {
                        drop(least);
                        loader((workers + 2) * chunk)?
                    }
                    None => least,
                };
                Bringer::Loader(Box::new(Own(loader)))
            }
        };
        let (rows, seed) = (form.rows as u32, settings.seed);
        let steps = match &bringer {
            // the last batch of an epoch may be a small one
            Bringer::Loader(loader) => loader.0.batches_per_epoch(),
            Bringer::Order { .. } | Bringer::Nobody => (form.rows / batch).max(1) as u64,
        };
        let cached = supply == Supply::Cached;
        let feeder = Feeder { bringer, rows, seed, steps, cached, fed: false, failure: None };
        let mut rig = Rig { engine, inputs, feeder, step: 0, batch };
        rig.rest();
        Ok(rig)
    }

    /// A turn among others: about so many steps, after some that are not timed; seconds of each. Its loader rests then.
    pub fn turn(&mut self, steps: u64, whole_epochs: bool) -> Result<f64, TrainError> {
        // batches that workers hold ready would make them seem fast; and what is this rig's has left the caches while others had their turns
        self.run(self.stock().max(steps / 2))?;
        let epoch = self.epoch();
        let seconds = match whole_epochs {
            // their ends cost what they cost in training
            true => {
                self.run((epoch - self.step % epoch) % epoch)?;
                self.run((steps / epoch).max(1) * epoch)?
            }
            false => self.run(steps)?,
        };
        self.rest();
        Ok(seconds)
    }

    /// Steps of an epoch.
    pub fn epoch(&self) -> u64 {
        self.feeder.steps
    }

    /// Its loader is in nobody's way until it is needed.
    pub fn rest(&mut self) {
        if let Bringer::Loader(loader) = &mut self.feeder.bringer {
            loader.0.rest();
        }
    }

    /// Takes so many steps; seconds of each.
    pub fn run(&mut self, steps: u64) -> Result<f64, TrainError> {
        let start = Instant::now();
        match &mut self.engine {
            Some(engine) => {
                let end = self.step + steps;
                while self.step < end {
                    // an epoch at a time, as in training: a GPU is waited for at its end
                    let left = (end - self.step).min(self.feeder.steps - self.step % self.feeder.steps);
                    let ran = engine.run(0, &self.inputs, self.step, left, &mut self.feeder)?;
                    self.step += ran;
                    if ran < left {
                        break;
                    }
                }
            }
            None => {
                let Bringer::Loader(loader) = &mut self.feeder.bringer else { return Ok(0.0) };
                for _ in 0..steps {
                    if loader.0.next_batch()?.is_none() {
                        loader.0.next_batch()?;
                    }
                    self.step += 1;
                }
            }
        }
        if let Some(failure) = self.feeder.failure.take() {
            return Err(failure.into());
        }
        Ok(start.elapsed().as_secs_f64() / steps.max(1) as f64)
    }

    /// Takes steps until threads and workers have been tried out, for at least so long; seconds of each of the last.
    pub fn warm_up(&mut self, least: f64) -> Result<f64, TrainError> {
        let (start, mut steps, mut first) = (Instant::now(), 1, true);
        loop {
            let each = self.run(steps)?.max(1e-9);
            let cold = std::mem::take(&mut first);
            let spent = start.elapsed().as_secs_f64();
            let loading = match &self.feeder.bringer {
                Bringer::Loader(loader) => !loader.0.report().settled,
                Bringer::Order { .. } | Bringer::Nobody => false,
            };
            let settled = !loading && self.engine.as_ref().is_none_or(|engine| engine.settled(0));
            if spent >= least && (settled && !cold || spent >= LONGEST_WARM_UP) {
                self.rest();
                return Ok(each);
            }
            steps = ((least / 4.0 / each) as u64).clamp(1, 1 << 14);
        }
    }

    /// Threads that load, where any do.
    pub fn workers(&self) -> Option<usize> {
        match &self.feeder.bringer {
            Bringer::Loader(loader) => Some(loader.0.report().workers),
            Bringer::Order { .. } | Bringer::Nobody => None,
        }
    }

    /// Batches that workers hold ready at most; fewer steps tell nothing of their speed.
    pub fn stock(&self) -> u64 {
        match &self.feeder.bringer {
            Bringer::Loader(loader) if !self.feeder.cached => {
                let report = loader.0.report();
                if report.workers == 0 { 0 } else { report.prefetch as u64 }
            }
            Bringer::Loader(_) | Bringer::Order { .. } | Bringer::Nobody => 0,
        }
    }

    pub fn engine(&mut self) -> Option<&mut Engine> {
        self.engine.as_mut()
    }
}

/// Gathers a batch, and that is all.
fn gather_alone(form: &Form, batch: usize) -> Result<Plan, TrainError> {
    let g = Graph::new();
    let rows = g.input_of("rows", &[batch], DType::I32);
    let ((x_type, width), (y_type, outputs)) = (of_features(form), of_target(form));
    let x = g.input_of(INPUT, &[form.rows, width], x_type).gather_rows(&rows);
    let y = match form.target {
        TargetForm::Classes(_) => g.input_of(TARGET, &[form.rows], y_type),
        TargetForm::Values(_) | TargetForm::Shares(_) | TargetForm::Sequence { .. } => {
            g.input_of(TARGET, &[form.rows, outputs], y_type)
        }
    };
    let x = match form.features {
        FeatureForm::Bytes(scale, shift) => x.to_f32() * scale as f64 + shift as f64,
        FeatureForm::Numbers | FeatureForm::Tokens => x,
    };
    g.output(INPUT, &x);
    g.output(TARGET, &y.gather_rows(&rows));
    Ok(compile(&g)?)
}

impl Driver for Feeder {
    fn feed(&mut self, step: u64, slots: &mut Slots) {
        match &mut self.bringer {
            Bringer::Order { order, epoch, batch } => {
                if self.cached && self.fed {
                    return;
                }
                let Some(slot) = slots.i32("rows") else { return };
                if step / self.steps != *epoch {
                    *epoch = step / self.steps;
                    **order = Order::new(self.rows, self.seed, *epoch);
                }
                order.draw((step % self.steps) as u32 * *batch as u32, slot);
                self.fed = true;
            }
            Bringer::Loader(loader) if !(self.cached && self.fed) => Filler(&mut loader.0).look_ahead(slots),
            Bringer::Loader(_) | Bringer::Nobody => {}
        }
    }

    fn rows(&self, input: &str, step: u64) -> Option<RowOrder> {
        match &self.bringer {
            Bringer::Order { order, batch, .. } if input == "rows" => {
                Some(row_order(order, (step % self.steps) * *batch as u64))
            }
            _ => None,
        }
    }

    fn fill(&mut self, _: u64, slots: &mut Slots) -> Flow {
        let Bringer::Loader(loader) = &mut self.bringer else { return Flow::Continue };
        if self.cached && self.fed {
            return Flow::Continue;
        }
        self.fed = true;
        let Some(mut into) = fields(slots) else { return Flow::Stop };
        let mut next = || loader.0.next_or_leave(&mut into, || !self.cached && slots.leave());
        // `None`: an epoch has ended, the next begins
        match next().and_then(|rows| rows.map_or_else(&mut next, |rows| Ok(Some(rows)))) {
            Ok(_) => Flow::Continue,
            Err(error) => {
                self.failure = Some(error);
                Flow::Stop
            }
        }
    }

    fn left(&self) -> Option<&dyn Batch> {
        match &self.bringer {
            Bringer::Loader(loader) => Some(&**loader),
            Bringer::Order { .. } | Bringer::Nobody => None,
        }
    }

    fn after(&mut self, _: u64, _: &Outputs) -> Flow {
        Flow::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::tests::{rows, settings};

    #[test]
    fn turns_of_some_epochs_are_whole_ones() {
        let (settings, material) = (settings(), rows());
        let held = Held::new(&material, &settings).unwrap();
        let mut rig = Rig::new(&material, &settings, Machine::default(), Supply::Real, &held, None).unwrap();
        let epoch = rig.feeder.steps;
        assert!(epoch > 1);
        rig.run(1).unwrap();
        rig.turn(2 * epoch + 1, true).unwrap();
        assert_eq!(rig.step, 4 * epoch, "half as many untimed, to the end of an epoch, then two");
        rig.turn(2 * epoch + 1, false).unwrap();
        assert_eq!(rig.step, 4 * epoch + epoch + 2 * epoch + 1, "as many as told");
    }
}
