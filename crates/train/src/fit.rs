//! One network learning from one data set, an epoch at a time.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use citius_cpu::Memory;
use citius_data::{Dataset, Loader, Order};
use citius_nn::schedules::Plateau;
use citius_nn::{Module, PlateauWatch};
use serde::{Deserialize, Serialize};

use crate::checkpoint::Values;
use crate::events::{Asleep, Divergence, Event, Listener};
use crate::fill::Filler;
use crate::ledger::{Around, account};
use crate::predictor::Predictor;
use crate::step::{Batches, EpochSteps, tables};
use crate::transfer::Start;
use crate::walk::{Bringer, Seen, Trouble, View, Walk};
use crate::weights::Weights;
use crate::{Ceilings, Engine, Ledger, LoaderReport, Machine, Material, Metrics, Settings, TrainError};

/// A mean loss this many times the first batch's means that nothing is learned any more.
const EXPLODED: f64 = 1e4;

/// What a fit learns from and is judged by.
pub struct FitData<'a> {
    pub train: &'a Material,
    pub validation: Option<&'a Dataset>,
    /// Mean and deviation of a numeric target.
    pub scale: (f64, f64),
    /// Classes in the order of their numbers.
    pub labels: &'a [String],
}

/// A network while it learns.
pub struct Fit<'a> {
    settings: &'a Settings,
    data: FitData<'a>,
    epochs: usize,
    steps: EpochSteps,
    /// Between two epochs, its memory is at home.
    engine: Engine,
    predictor: Predictor,
    /// Brings the batches, unless they are gathered.
    loader: Option<Loader>,
    /// After the last whole epoch.
    good: Weights,
    /// Those with the best validation loss.
    best: Option<Weights>,
    progress: Progress,
    around: Around,
    /// When progress was last told.
    said: Instant,
}

/// Where a fit stands: with the memory, all that is needed to go on exactly.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Whole epochs.
    pub epoch: usize,
    pub step: u64,
    /// Steps taken in the epoch that has begun.
    pub in_epoch: u64,
    /// Over the rows of that epoch.
    pub loss_sum: f64,
    pub loss_rows: u64,
    /// Mean training loss of each epoch.
    pub epoch_losses: Vec<f64>,
    pub first_loss: Option<f64>,
    pub best: Option<Best>,
    pub last_validation: Option<Metrics>,
    /// Validations since the best.
    pub without_improvement: usize,
    pub plateau: Option<PlateauWatch>,
    /// Spent in training steps.
    pub seconds: f64,
    pub stopped_early: bool,
}

/// The best validation so far.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Best {
    pub epoch: usize,
    pub metrics: Metrics,
}

/// How an epoch ended.
#[derive(Clone, PartialEq, Debug)]
pub enum EpochEnd {
    /// There is more to do.
    Continue,
    /// The last epoch, or stopped early.
    Done,
    Interrupted,
    Diverged(Divergence),
}

impl<'a> Fit<'a> {
    /// Steps run on the machine's device (see [`Engine::new`]), validation on its processor.
    pub fn new(
        model: Box<dyn Module>,
        settings: &'a Settings,
        data: FitData<'a>,
        epochs: usize,
        machine: Machine,
    ) -> Result<Fit<'a>, TrainError> {
        let began = Instant::now();
        let (steps, engine) = EpochSteps::new(&*model, settings, data.train, epochs, machine)?;
        let mut predictor = Predictor::new(model, settings.row_of(data.train.width()), machine.cpu)?;
        if let Some(mode) = settings.details.validation_mode {
            predictor = predictor.in_mode(mode.into());
        }
        let good = Weights::of(engine.memory(), predictor.stored());
        let good = good.ok_or_else(|| TrainError::no_memory("a copy of the weights"))?;
        let plateau = settings.schedule.plateau().map(|p| p.watch(settings.lr));
        let progress = Progress { plateau, ..Progress::default() };
        let batch = settings.batch_size.min(data.train.rows());
        let loader = match data.train {
            Material::Resident(_) => None,
            Material::Loaded(loaded) => Some(loaded.loader(batch, settings.seed, 0, 0)?),
        };
        let around = Around { preparing: began.elapsed().as_secs_f64(), ..Around::default() };
        let (best, said) = (None, Instant::now());
        Ok(Fit { settings, data, epochs, steps, engine, predictor, loader, good, best, progress, around, said })
    }

    /// Takes over the weights of another training.
    pub(crate) fn begin_with(&mut self, start: &Start) -> Result<(), TrainError> {
        let began = Instant::now();
        start.load(self.engine.memory_mut(), &self.predictor.parameters())?;
        self.engine.send_out()?;
        self.good.read_from(self.engine.memory(), false);
        self.around.preparing += began.elapsed().as_secs_f64();
        Ok(())
    }

    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    pub fn memory(&self) -> &Memory {
        self.engine.memory()
    }

    /// What is allowed in the model, and yet hardly meant.
    pub fn warnings(&self) -> Vec<String> {
        let batches = self.steps.full.as_ref().or(self.steps.last.as_ref());
        let plan = batches.map(|b| self.engine.plan(b.plan));
        plan.map_or(Vec::new(), |plan| plan.warnings.iter().map(ToString::to_string).collect())
    }

    /// Where the steps run.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn epochs(&self) -> usize {
        self.epochs
    }

    /// Training rows.
    pub(crate) fn rows(&self) -> usize {
        self.data.train.rows()
    }

    pub fn steps_per_epoch(&self) -> u64 {
        self.steps.per_epoch()
    }

    /// Threads in use for the full batches.
    pub fn threads(&self) -> usize {
        let batches = self.steps.full.as_ref().or(self.steps.last.as_ref());
        batches.map_or(1, |b| self.engine.threads(b.plan))
    }

    /// What it goes on from.
    pub(crate) fn values(&self) -> Values<'_> {
        Values { memory: self.engine.memory(), good: &self.good, best: self.best.as_ref() }
    }

    /// Takes up a state saved before; the memory's values are set by `fill`.
    pub(crate) fn restore(
        &mut self,
        progress: Progress,
        fill: impl FnOnce(&mut Memory) -> Result<(), TrainError>,
        good: Weights,
        best: Option<Weights>,
    ) -> Result<(), TrainError> {
        fill(self.engine.memory_mut())?;
        self.engine.send_out()?;
        (self.progress, self.good, self.best) = (progress, good, best);
        Ok(())
    }

    pub fn done(&self) -> bool {
        self.progress.stopped_early || self.progress.epoch >= self.epochs
    }

    /// Goes on to the end of the epoch.
    pub fn epoch(&mut self, listener: &mut dyn Listener, stop: &AtomicBool) -> Result<EpochEnd, TrainError> {
        if self.done() {
            return Ok(EpochEnd::Done);
        }
        let started = Instant::now();
        let order = Order::new(self.data.train.rows() as u32, self.settings.seed, self.progress.epoch as u64);
        self.bring_loader()?;
        self.around.data += started.elapsed().as_secs_f64();
        let inputs = tables(self.data.train);
        let steps = self.steps.per_epoch();
        let (epochs, said) = (self.epochs, &mut self.said);
        let mut view = View { epochs, steps: steps * epochs as u64, said, listener, stop };
        let mut seen = Seen::default();
        // steps and rows of the epoch that came before
        let mut before = (0, 0);
        let taken = self.progress.step;
        for batches in [&self.steps.full, &self.steps.last].into_iter().flatten() {
            let Batches { plan, size, count, places } = batches;
            let epoch_start = self.progress.step - self.progress.in_epoch;
            let left = (before.0 + *count).saturating_sub(self.progress.in_epoch);
            let halted =
                seen.trouble.is_some() || seen.failure.is_some() || (view.stopped() && self.progress.step > taken);
            if left > 0 && !halted {
                let step = self.progress.step;
                let batches = match &mut self.loader {
                    Some(loader) => Bringer::Loader(Filler(loader)),
                    None => {
                        Bringer::Order { order: &order, batch: *size, first: epoch_start + before.0, start: before.1 }
                    }
                };
                let mut walk = Walk {
                    batches,
                    size: *size,
                    places,
                    progress: &mut self.progress,
                    view: &mut view,
                    seen: &mut seen,
                };
                let begun = Instant::now();
                let ran = self.engine.run(*plan, &inputs, step, left, &mut walk);
                self.around.steps += begun.elapsed().as_secs_f64();
                ran?;
            }
            before = (before.0 + *count, before.1 + *count * *size as u64);
        }
        let interrupted = view.stopped();
        let stepped = Instant::now();
        self.engine.bring_home()?;
        self.around.copy += stepped.elapsed().as_secs_f64();
        let seconds = started.elapsed().as_secs_f64();
        self.progress.seconds += seconds;
        if let Some(failure) = seen.failure {
            return Err(failure.into());
        }
        if let Some(trouble) = seen.trouble {
            return Ok(EpochEnd::Diverged(self.diverged(trouble)));
        }
        if self.progress.in_epoch < steps {
            return Ok(EpochEnd::Interrupted);
        }
        let judging = Instant::now();
        let exploded = self.finish_epoch(listener, &seen, seconds)?;
        self.around.metrics += judging.elapsed().as_secs_f64();
        if let Some(divergence) = exploded {
            return Ok(EpochEnd::Diverged(divergence));
        }
        Ok(match (self.done(), interrupted) {
            (true, _) => EpochEnd::Done,
            (false, true) => EpochEnd::Interrupted,
            (false, false) => EpochEnd::Continue,
        })
    }

    #[cfg(test)]
    pub(crate) fn pretence(&mut self) -> &mut crate::engine::tests::Pretence {
        &mut self.engine.pretence
    }

    /// How the batches are loaded, where they are.
    pub fn loading(&self) -> Option<LoaderReport> {
        self.loader.as_ref().map(Loader::report)
    }

    /// Where the time has gone so far.
    pub fn ledger(&mut self, ceilings: Option<&Ceilings>) -> Ledger {
        let loading = self.loading();
        let ledger = account(&self.around, &self.steps, &mut self.engine, loading, ceilings);
        let Around { preparing, steps, data, copy, metrics, .. } = self.around;
        ledger.of(preparing + steps + data + copy + metrics)
    }

    /// Has the loader stand where the progress does.
    fn bring_loader(&mut self) -> Result<(), TrainError> {
        let Some(mut loader) = self.loader.take() else { return Ok(()) };
        let wanted = (self.progress.epoch as u64, self.progress.in_epoch);
        if loader.position() == (wanted.0.wrapping_sub(1), loader.batches_per_epoch()) {
            loader.next_batch()?; // none: an epoch ends, the next begins
        }
        if loader.position() != wanted {
            self.around.loaded += loader.report().seconds;
            loader = loader.seek(wanted.0, wanted.1)?;
        }
        self.loader = Some(loader);
        Ok(())
    }

    /// The weights to keep (best, else last), now in the predictor; and how good they are.
    pub fn result(&mut self) -> &mut Predictor {
        let weights = self.best.as_ref().unwrap_or(&self.good);
        weights.write_to(self.predictor.weights_mut());
        &mut self.predictor
    }

    fn finish_epoch(
        &mut self,
        listener: &mut dyn Listener,
        seen: &Seen,
        seconds: f64,
    ) -> Result<Option<Divergence>, TrainError> {
        let p = &mut self.progress;
        let loss = p.loss_sum / p.loss_rows.max(1) as f64;
        let first = *p.first_loss.get_or_insert(loss);
        if loss > EXPLODED * first.max(1e-3) {
            let what = format!("the mean training loss has grown from {first:.3} to {loss:.3e}");
            let (step, lr) = (p.step, seen.lr);
            return Ok(Some(self.diverged(Trouble { what, step, lr })));
        }
        p.epoch_losses.push(loss);
        (p.epoch, p.in_epoch, p.loss_sum, p.loss_rows) = (p.epoch + 1, 0, 0.0, 0);
        let epoch = p.epoch;
        listener.on(&Event::EpochEnded { epoch, loss, lr: seen.lr, grad_norm: seen.grad_norm, seconds });
        if epoch == 1 {
            listener.on(&Event::Units { layers: asleep(self.engine.memory()) });
        }
        let average = self.settings.average.is_some() || self.settings.swa.is_some();
        self.good.read_from(self.engine.memory(), average);
        let validated = match self.data.validation {
            Some(rows) if epoch.is_multiple_of(self.settings.validate_every) || epoch == self.epochs => {
                Some(self.validate(rows, listener)?)
            }
            _ => None,
        };
        // without validation rows the plateau watches the training loss
        let observed = if self.data.validation.is_some() { validated } else { Some(loss) };
        if let (Some(watch), Some(observed)) = (&mut self.progress.plateau, observed)
            && let Some(scale) = watch.observe(observed)
        {
            self.engine.memory_mut().set(Plateau::SCALE, &[scale as f32]);
            self.engine.send_out()?;
            listener.on(&Event::RateReduced { epoch, factor: scale });
        }
        Ok(None)
    }

    /// The validation loss; keeps the weights if it is the best.
    fn validate(&mut self, rows: &Dataset, listener: &mut dyn Listener) -> Result<f64, TrainError> {
        self.good.write_to(self.predictor.weights_mut());
        let outputs = self.predictor.outputs(&rows.features)?;
        let metrics = match self.settings.details.positive {
            None => self.settings.measure(&outputs, &rows.target, self.data.scale),
            Some(_) => self.settings.evaluate(&outputs, &rows.target, self.data.scale, self.data.labels)?.0,
        };
        let p = &mut self.progress;
        let epoch = p.epoch;
        p.last_validation = Some(metrics);
        listener.on(&Event::Validated { epoch, metrics });
        let loss = metrics.loss.unwrap_or(f64::INFINITY);
        let before = p.best.as_ref().and_then(|b| b.metrics.loss).unwrap_or(f64::INFINITY);
        if loss < before || p.best.is_none() {
            p.best = Some(Best { epoch, metrics });
            p.without_improvement = 0;
            match &mut self.best {
                Some(best) => best.copy_from(&self.good),
                None => {
                    let copy = self.good.try_clone();
                    self.best = Some(copy.ok_or_else(|| TrainError::no_memory("a copy of the best weights"))?);
                }
            }
            listener.on(&Event::Improved { epoch, loss });
        } else {
            p.without_improvement += 1;
            if self.settings.patience.is_some_and(|patience| p.without_improvement >= patience) && epoch < self.epochs {
                p.stopped_early = true;
                let best_epoch = p.best.as_ref().map_or(epoch, |b| b.epoch);
                listener.on(&Event::EarlyStopped { epoch, best_epoch });
            }
        }
        Ok(loss)
    }

    fn diverged(&self, trouble: Trouble) -> Divergence {
        let p = &self.progress;
        let kept = match (&p.best, p.epoch) {
            (Some(best), _) => format!("those of epoch {}, the best", best.epoch),
            (None, 0) => "the initial ones".to_owned(),
            (None, epoch) => format!("those after epoch {epoch}"),
        };
        let Trouble { what, step, lr } = trouble;
        Divergence { what, epoch: p.epoch + 1, step, lr, kept }
    }
}

/// Of each layer with a bias, the units whose bias has had no gradient so far.
fn asleep(memory: &Memory) -> Vec<Asleep> {
    let mut layers: Vec<Asleep> = Vec::new();
    for (name, _) in memory.leaves() {
        let Some(bias) = name.strip_prefix("probe.awake.") else { continue };
        let values = memory.get(name).unwrap_or(&[]);
        // pieces of one layer, stored apart, are one layer
        let layer = bias.split('[').next().unwrap_or(bias).trim_end_matches(".bias").to_owned();
        let (units, still) = (values.len(), values.iter().filter(|v| **v == 0.0).count());
        match layers.iter_mut().find(|known| known.layer == layer) {
            Some(known) => (known.units, known.asleep) = (known.units + units, known.asleep + still),
            None => layers.push(Asleep { layer, units, asleep: still }),
        }
    }
    layers
}
