//! A run in the middle, saved so that it goes on exactly. One file holds all of it: `checkpoint.safetensors` has every value
//! and, in its header, the state that `checkpoint.json` repeats for people. Values are as a person sees them, not as they are
//! stored, which is another matter on another device.

use std::path::{Path, PathBuf};

use citius_cpu::Memory;
use citius_data::memory;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fit::{Fit, Progress};
use crate::model::write_json;
use crate::tensors::{TensorFile, Tensors};
use crate::weights::Weights;
use crate::{Device, Metrics, Settings, TrainError, Wishes};

const VERSION: u64 = 3;
const KEY: &str = "citius-checkpoint";
const OLDER: &str = "start the run again";

/// Where a run stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    pub version: u64,
    pub citius: String,
    pub wishes: Wishes,
    pub settings: Settings,
    /// Where it runs.
    pub device: Device,
    /// Of the data.
    pub fingerprint: u64,
    /// Of the search for the best number of epochs, once it is over.
    pub search: Option<Search>,
    pub progress: Progress,
    /// Instruction set of the processor that trains: another one rounds otherwise.
    pub isa: Option<String>,
    /// Weights that are kept and are not in the file, since they equal others that are.
    #[serde(default)]
    pub shared: Shared,
    /// The run is over: no step follows, so the file holds no values. The weights are those of `model.safetensors`.
    #[serde(default)]
    pub finished: bool,
}

/// Copies that are not written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Shared {
    /// The weights of the last whole epoch are those in memory.
    pub good: bool,
    /// The best weights are those of the last whole epoch.
    pub best: bool,
}

/// What a training with validation told the one without.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Search {
    /// To train for.
    pub epochs: usize,
    pub best_epoch: usize,
    /// After as many epochs.
    pub validation: Metrics,
    pub steps: u64,
    pub seconds: f64,
    pub stopped_early: bool,
}

/// Paths that hold wherever the run is resumed from.
fn anchored(wishes: &Wishes) -> Wishes {
    let mut wishes = wishes.clone();
    for path in
        [&mut wishes.source, &mut wishes.train_rows, &mut wishes.test_rows, &mut wishes.weights].into_iter().flatten()
    {
        if let Ok(full) = std::path::absolute(&*path) {
            *path = full;
        }
    }
    wishes
}

/// A last validation loss this many times the best one is no chance: training has gone on for too long.
const CLEARLY_WORSE: f64 = 1.1;

impl Search {
    /// What a finished fit says: all epochs unless the end was clearly worse than the best. The best of many noisy
    /// validations is often luck, and the end of the schedule is where weights settle.
    pub fn of(progress: &Progress) -> Search {
        let last = progress.last_validation.unwrap_or_default();
        let loss = |m: &Metrics| m.loss.unwrap_or(f64::INFINITY);
        let (epochs, validation, best_epoch) = match &progress.best {
            Some(best) if progress.stopped_early || loss(&last) > CLEARLY_WORSE * loss(&best.metrics) => {
                (best.epoch, best.metrics, best.epoch)
            }
            Some(best) => (progress.epoch, last, best.epoch),
            None => (progress.epoch, last, progress.epoch),
        };
        Search {
            epochs: epochs.max(1),
            best_epoch,
            validation,
            steps: progress.step,
            seconds: progress.seconds,
            stopped_early: progress.stopped_early,
        }
    }
}

/// No run takes so many.
const MOST_STEPS: u64 = 1 << 48;

/// What a run goes on from.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    /// Parameters, moments and all that layers keep.
    pub memory: &'a Memory,
    /// Weights after the last whole epoch.
    pub good: &'a Weights,
    /// Weights with the best validation loss.
    pub best: Option<&'a Weights>,
}

/// A copy of what a run goes on from, which can be written while the run goes on.
pub(crate) struct Snapshot {
    memory: Memory,
    good: Weights,
    best: Option<Weights>,
}

impl Snapshot {
    /// `None` where there is no memory to spare for a copy.
    pub fn of(values: Values) -> Option<Snapshot> {
        let bytes = 4 * values.memory.leaves().map(|(_, leaf)| leaf.shape.elements() as u64).sum::<u64>();
        let spare = memory::available().is_none_or(|free| bytes.saturating_mul(LEAST_SPARE) <= free);
        if !spare {
            return None;
        }
        let best = match values.best {
            Some(best) => Some(best.try_clone()?),
            None => None,
        };
        Some(Snapshot { memory: values.memory.try_clone().ok()?, good: values.good.try_clone()?, best })
    }

    pub fn values(&self) -> Values<'_> {
        Values { memory: &self.memory, good: &self.good, best: self.best.as_ref() }
    }
}

/// A copy is made where this many of them would fit.
const LEAST_SPARE: u64 = 4;

fn path_in(directory: &Path) -> PathBuf {
    directory.join("checkpoint.safetensors")
}

/// Prefixes of the tensors' names.
const MEMORY: &str = "memory/";
const GOOD: &str = "good/";
const BEST: &str = "best/";

impl State {
    pub fn new(wishes: &Wishes, settings: &Settings, device: Device, fingerprint: u64) -> State {
        State {
            version: VERSION,
            citius: env!("CARGO_PKG_VERSION").into(),
            wishes: anchored(wishes),
            settings: settings.clone(),
            device,
            fingerprint,
            search: None,
            progress: Progress::default(),
            isa: None,
            shared: Shared::default(),
            finished: false,
        }
    }

    /// Saves a run that goes on from `values`.
    pub fn save(&self, directory: &Path, values: Values) -> Result<(), TrainError> {
        let Values { memory, good, best } = values;
        let shared = Shared { good: good.equals(memory), best: best == Some(good) };
        let state = State { shared, finished: false, ..self.clone() };
        let mut file = state.file(directory)?;
        for name in memory.tensors() {
            if let Some(view) = memory.view(&name) {
                file.add(format!("{MEMORY}{name}"), view);
            }
        }
        let kept = [(GOOD, Some(good).filter(|_| !shared.good)), (BEST, best.filter(|_| !shared.best))];
        for (prefix, weights) in kept {
            for (name, view) in weights.iter().flat_map(|w| w.views(memory)) {
                file.add(format!("{prefix}{name}"), view);
            }
        }
        file.save(&path_in(directory))?;
        state.describe(directory)
    }

    /// Saves that the run is over, once its model is saved in the same directory.
    pub fn save_finished(&self, directory: &Path) -> Result<(), TrainError> {
        let state = State { finished: true, ..self.clone() };
        state.file(directory)?.save(&path_in(directory))?;
        state.describe(directory)
    }

    /// A file without values yet.
    fn file<'a>(&self, directory: &Path) -> Result<TensorFile<'a>, TrainError> {
        let internal =
            |e| TrainError::saved(&path_in(directory), format!("cannot be written: {e}"), "please report this");
        // as a model's card is written: one way is compiled once
        let text = serde_json::to_string_pretty(self).map_err(internal)?;
        Ok(TensorFile::with_note(KEY, text).sealed())
    }

    /// Writes `checkpoint.json`.
    pub fn describe(&self, directory: &Path) -> Result<(), TrainError> {
        write_json(&directory.join("checkpoint.json"), self)
    }

    /// The state of a run on disk, without its values.
    pub fn peek(directory: &Path) -> Option<State> {
        let text = Tensors::read_note(&path_in(directory), KEY)?;
        serde_json::from_str(&text).ok()
    }

    /// Whether there is nothing left to train.
    pub fn is_done(&self) -> bool {
        let Progress { epoch, stopped_early, .. } = self.progress;
        let searched = self.search.is_some() || !self.settings.refit;
        let epochs = self.search.as_ref().map_or(self.settings.epochs, |search| search.epochs);
        searched && (stopped_early || epoch >= epochs)
    }

    pub fn load(directory: &Path) -> Result<(State, Tensors), TrainError> {
        let path = path_in(directory);
        if !path.is_file() {
            let (problem, next) = match directory.is_dir() {
                true => ("holds no checkpoint to resume", "give the directory of an interrupted run"),
                false => ("no such directory", "give the directory of an interrupted run, such as runs/houses-1"),
            };
            return Err(TrainError::saved(directory, problem, next));
        }
        let tensors = Tensors::load(&path, OLDER)?;
        let damaged = |problem: String| TrainError::saved(&path, problem, OLDER);
        let Some((_, text)) = tensors.note.as_ref().filter(|(key, _)| key == KEY) else {
            return Err(damaged("is not a citius checkpoint".into()));
        };
        let value: Value = serde_json::from_str(text).map_err(|e| damaged(format!("damaged ({e})")))?;
        match value.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            other => {
                let found = other.map_or("an unknown version".into(), |v| format!("version {v}"));
                return Err(damaged(format!("has {found}, this citius reads version {VERSION}")));
            }
        }
        if !tensors.sealed {
            return Err(damaged("damaged: it has no checksum".into()));
        }
        let state: State = serde_json::from_value(value).map_err(|e| damaged(format!("damaged ({e})")))?;
        state.check().map_err(|problem| damaged(format!("damaged: {problem}")))?;
        Ok((state, tensors))
    }

    /// Whether the numbers are such as a run can come to.
    fn check(&self) -> Result<(), String> {
        let Progress { epoch, step, in_epoch, loss_sum, epoch_losses, seconds, best, .. } = &self.progress;
        let epochs = self.search.as_ref().map_or(self.settings.epochs, |search| search.epochs);
        let most = MOST_STEPS as usize;
        match () {
            () if self.settings.batch_size == 0 => Err("a batch of 0 rows".into()),
            () if self.settings.accumulate == 0 || self.settings.validate_every == 0 => {
                Err("a number of batches or epochs that is 0".into())
            }
            () if epochs == 0 || epochs > most => Err(format!("a run of {epochs} epochs")),
            () if *epoch > epochs => Err(format!("it stands at epoch {epoch} of {epochs}")),
            () if epoch_losses.len() != *epoch => Err(format!("{} losses of {epoch} epochs", epoch_losses.len())),
            () if *step > MOST_STEPS || in_epoch > step => {
                Err(format!("it stands at step {step}, {in_epoch} of its epoch"))
            }
            () if best.as_ref().is_some_and(|best| best.epoch > *epoch) => {
                Err("its best epoch is still to come".into())
            }
            () if !(loss_sum.is_finite() && seconds.is_finite() && *seconds >= 0.0) => {
                Err("sums that are not finite".into())
            }
            () => Ok(()),
        }
    }

    /// Puts the saved values into a fit of the same network, on whatever device.
    pub fn restore(&self, directory: &Path, tensors: &Tensors, fit: &mut Fit) -> Result<(), TrainError> {
        let path = path_in(directory);
        let (rows, steps) = (fit.rows() as u64, fit.steps_per_epoch());
        let Progress { epoch, step, in_epoch, loss_rows, .. } = &self.progress;
        if *in_epoch > steps || (*epoch as u64).checked_mul(steps) != Some(step - in_epoch) || *loss_rows > rows {
            let problem = format!("damaged: step {step} in epoch {} of {steps} steps", epoch + 1);
            return Err(TrainError::saved(&path, problem, OLDER));
        }
        let kept = |tensors: &Tensors, prefix: &str| {
            let own = tensors.by_name.iter();
            let named = own.filter_map(|(name, (_, values))| Some((name.strip_prefix(prefix)?, values.as_slice())));
            fit.values().good.with_values(fit.memory(), named)
        };
        let other = || TrainError::saved(&path, "holds the weights of another network", OLDER);
        if self.finished {
            let model = directory.join("model.safetensors");
            let weights = kept(&Tensors::load(&model, OLDER)?, "").ok_or_else(other)?;
            return fit.restore(self.progress.clone(), |_| Ok(()), weights, None);
        }
        let holds = |prefix: &str| tensors.by_name.keys().any(|name| name.starts_with(prefix));
        let good = kept(tensors, if self.shared.good { MEMORY } else { GOOD }).ok_or_else(other)?;
        let best = match self.shared.best {
            true => Some(good.try_clone().ok_or_else(|| TrainError::no_memory("the best weights"))?),
            false if holds(BEST) => Some(kept(tensors, BEST).ok_or_else(other)?),
            false => None,
        };
        let fill = |memory: &mut Memory| {
            for name in memory.tensors() {
                let saved = tensors.by_name.get(&format!("{MEMORY}{name}"));
                if !saved.is_some_and(|(_, values)| memory.set_user_view(&name, values)) {
                    let problem = format!("{name:?} is missing or of another size");
                    return Err(TrainError::saved(&path, problem, OLDER));
                }
            }
            Ok(())
        };
        fit.restore(self.progress.clone(), fill, good, best)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::AtomicBool;

    use citius_data::{Dataset, Features, Target};
    use citius_graph::random;
    use citius_nn::{Activation, Adam, Loss, Network, OptimizerConfig, ScheduleConfig};

    use super::*;
    use crate::{EpochEnd, FitData, Machine, Material, Silent};

    /// A layer wide enough for strips, an average, and gradients that accumulate: every kind of state.
    pub fn settings() -> Settings {
        Settings {
            network: Network::Mlp,
            row: None,
            hidden: vec![64, 48],
            activation: Activation::Relu,
            dropout: 0.0,
            loss: Loss::Mse,
            optimizer: OptimizerConfig::Adam(Adam::default()),
            lr: 1e-3,
            schedule: ScheduleConfig::default(),
            clip: None,
            accumulate: 3,
            precision: Default::default(),
            batch_size: 32,
            epochs: 4,
            validate_every: 1,
            patience: None,
            average: Some(0.9),
            refit: false,
            seed: 5,
            transfer: Default::default(),
            recompute: false,
            swa: None,
            details: Default::default(),
            augment: Vec::new(),
        }
    }

    pub fn rows() -> Material {
        let x: Vec<f32> = (0..200 * 64).map(|i| random::uniform(1, 1, i)).collect();
        let y = x.chunks(64).map(|row| row[0] - row[1]).collect();
        Material::Resident(
            Dataset::new(200, Features::F32 { data: x, width: 64 }, Target::Values { data: y, width: 1 }).unwrap(),
        )
    }

    fn fit<'a>(settings: &'a Settings, train: &'a Material, whole: bool) -> Fit<'a> {
        // as it suits a GPU, or a processor
        let device = if whole { Device::Cuda(0) } else { Device::Cpu };
        let model = settings.model_for(device, 64, 1).unwrap();
        let validation = train.resident();
        Fit::new(model, settings, FitData { train, validation, scale: (0.0, 1.0), labels: &[] }, 4, Machine::default())
            .unwrap()
    }

    /// Processors keep wide layers in strips, GPUs whole: what one saves, the other takes up.
    #[test]
    fn a_run_goes_on_however_its_layers_are_stored() {
        let (settings, train) = (settings(), rows());
        let go = |fit: &mut Fit| drop(fit.epoch(&mut Silent, &AtomicBool::new(false)).unwrap());
        for whole in [true, false] {
            let mut before = fit(&settings, &train, !whole);
            (0..2).for_each(|_| go(&mut before));
            let mut state = State::new(&Wishes::default(), &settings, Device::Cpu, 0);
            state.progress = before.progress().clone();
            let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
            state.save(folders[0].path(), before.values()).unwrap();

            let (saved, tensors) = State::load(folders[0].path()).unwrap();
            let mut after = fit(&settings, &train, whole);
            let count = |fit: &Fit| fit.memory().leaves().count();
            assert_ne!(count(&before), count(&after), "both are stored alike");
            saved.restore(folders[0].path(), &tensors, &mut after).unwrap();
            saved.save(folders[1].path(), after.values()).unwrap();
            let (_, again) = State::load(folders[1].path()).unwrap();
            assert!(tensors.by_name == again.by_name && again.by_name.contains_key("memory/0.weight.exp_avg"));
            assert_eq!(again.by_name["good/0.weight"].0, [64, 64]);

            go(&mut before);
            go(&mut after);
            let losses = |fit: &Fit| fit.progress().epoch_losses.clone();
            assert_eq!(losses(&before)[..2], losses(&after)[..2]);
            let (a, b) = (losses(&before)[2], losses(&after)[2]);
            assert!((a - b).abs() < 1e-5 * a.abs(), "{a} and {b}");
        }
    }

    /// A GPU has steps under way when it is told to stop: they count, and the run goes on behind them with the same bits.
    #[test]
    fn steps_after_the_stop_count() {
        let (settings, train) = (settings(), rows());
        let all = |fit: &mut Fit| while fit.epoch(&mut Silent, &AtomicBool::new(false)).unwrap() != EpochEnd::Done {};
        let mut expected = fit(&settings, &train, true);
        all(&mut expected);

        let mut first = fit(&settings, &train, true);
        first.pretence().late = 2;
        // 7 steps an epoch: in its middle; then beyond the last full batch
        for step in [3, 6, 7] {
            let end = first.epoch(&mut Silent, &AtomicBool::new(true)).unwrap();
            assert_eq!((end, first.progress().step), (EpochEnd::Interrupted, step));
        }
        let folder = tempfile::tempdir().unwrap();
        let mut state = State::new(&Wishes::default(), &settings, Device::Cpu, 0);
        state.progress = first.progress().clone();
        state.save(folder.path(), first.values()).unwrap();
        let mut second = fit(&settings, &train, true);
        let (saved, tensors) = State::load(folder.path()).unwrap();
        saved.restore(folder.path(), &tensors, &mut second).unwrap();
        all(&mut second);
        assert_eq!(second.progress().epoch_losses, expected.progress().epoch_losses);
        assert_eq!(second.values().good, expected.values().good);
    }

    #[test]
    fn the_first_trouble_is_told_whatever_follows() {
        let wild = Settings { lr: 1e30, accumulate: 1, ..settings() };
        let train = rows();
        let diverged = |late: u64| {
            let mut fit = fit(&wild, &train, true);
            fit.pretence().late = late;
            let EpochEnd::Diverged(divergence) = fit.epoch(&mut Silent, &AtomicBool::new(false)).unwrap() else {
                panic!("it does not diverge")
            };
            (divergence, fit.progress().step)
        };
        let (at_once, step) = diverged(0);
        let (late, later) = diverged(3);
        assert_eq!((&late, later), (&at_once, step + 3));
        assert_eq!(at_once.step, step);
    }

    #[test]
    fn impossible_counters_are_refused_whatever_the_checksum_says() {
        let (settings, train) = (settings(), rows());
        let mut before = fit(&settings, &train, false);
        before.epoch(&mut Silent, &AtomicBool::new(false)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let resumes = |change: &dyn Fn(&mut State)| -> Result<(), String> {
            let mut state = State::new(&Wishes::default(), &settings, Device::Cpu, 0);
            state.progress = before.progress().clone();
            change(&mut state);
            state.save(folder.path(), before.values()).unwrap();
            let (saved, tensors) = State::load(folder.path()).map_err(|e| e.to_string())?;
            let mut after = fit(&settings, &train, false);
            saved.restore(folder.path(), &tensors, &mut after).map_err(|e| e.to_string())
        };
        assert_eq!(resumes(&|_| ()), Ok(()));
        let changes: [&dyn Fn(&mut State); 9] = [
            &|s| s.settings.batch_size = 0,
            &|s| s.settings.accumulate = 0,
            &|s| s.settings.epochs = 1 << 62,
            &|s| s.progress.epoch = 1 << 62,
            &|s| s.progress.epoch = 2,
            &|s| s.progress.step = 1 << 63,
            &|s| s.progress.step += 1,
            &|s| s.progress.in_epoch = 1000,
            &|s| s.progress.loss_rows = 1 << 40,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let message = resumes(change).expect_err(&format!("change {number} is taken"));
            assert!(message.contains("damaged"), "change {number}: {message}");
        }
    }

    #[test]
    fn weights_that_equal_others_are_written_once() {
        let plain = Settings { average: None, ..settings() };
        let train = rows();
        let mut before = fit(&plain, &train, false);
        before.epoch(&mut Silent, &AtomicBool::new(false)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut state = State::new(&Wishes::default(), &plain, Device::Cpu, 0);
        state.progress = before.progress().clone();
        state.save(folder.path(), before.values()).unwrap();
        let (saved, tensors) = State::load(folder.path()).unwrap();
        assert_eq!(saved.shared, Shared { good: true, best: true });
        assert!(tensors.by_name.keys().all(|name| name.starts_with(MEMORY)));
        let mut after = fit(&plain, &train, false);
        saved.restore(folder.path(), &tensors, &mut after).unwrap();
        assert!(after.values().good == before.values().good && after.values().best == before.values().best);
    }
}
