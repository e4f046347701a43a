//! A run in the middle, saved so that it goes on exactly. One file holds all of it: `checkpoint.safetensors` has every value
//! as stored and, in its header, the state that `checkpoint.json` repeats for people.

use std::path::Path;

use citius_cpu::Memory;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fit::{Fit, Progress};
use crate::model::write_json;
use crate::tensors::Tensors;
use crate::weights::Weights;
use crate::{Metrics, Settings, TrainError, Wishes};

const VERSION: u64 = 1;
const KEY: &str = "citius-checkpoint";
const OLDER: &str = "start the run again";

/// Where a run stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    pub version: u64,
    pub citius: String,
    pub wishes: Wishes,
    pub settings: Settings,
    /// Of the data.
    pub fingerprint: u64,
    /// Of the search for the best number of epochs, once it is over.
    pub search: Option<Search>,
    pub progress: Progress,
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
    for path in [&mut wishes.source, &mut wishes.train_rows, &mut wishes.test_rows].into_iter().flatten() {
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

/// Prefixes of the tensors' names.
const MEMORY: &str = "memory/";
const GOOD: &str = "good/";
const BEST: &str = "best/";

impl State {
    pub fn new(wishes: &Wishes, settings: &Settings, fingerprint: u64) -> State {
        State {
            version: VERSION,
            citius: env!("CARGO_PKG_VERSION").into(),
            wishes: anchored(wishes),
            settings: settings.clone(),
            fingerprint,
            search: None,
            progress: Progress::default(),
        }
    }

    pub fn save(&self, directory: &Path, fit: &Fit) -> Result<(), TrainError> {
        let path = directory.join("checkpoint.safetensors");
        let internal = |e| TrainError::saved(&path, format!("cannot be written: {e}"), "please report this");
        let text = serde_json::to_string(self).map_err(internal)?;
        let mut tensors = Tensors { note: Some((KEY.into(), text)), ..Tensors::default() };
        for (name, leaf) in fit.memory().leaves() {
            let values = fit.memory().get(name).unwrap_or(&[]).to_vec();
            tensors.add(format!("{MEMORY}{name}"), leaf.shape.dims().to_vec(), values);
        }
        let (good, best) = fit.kept();
        for (prefix, weights) in [(GOOD, Some(good)), (BEST, best)] {
            for (name, values) in weights.iter().flat_map(|w| &w.tensors) {
                tensors.add(format!("{prefix}{name}"), vec![values.len()], values.clone());
            }
        }
        tensors.save(&path)?;
        write_json(&directory.join("checkpoint.json"), self)
    }

    pub fn load(directory: &Path) -> Result<(State, Tensors), TrainError> {
        let path = directory.join("checkpoint.safetensors");
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
        let state = serde_json::from_value(value).map_err(|e| damaged(format!("damaged ({e})")))?;
        Ok((state, tensors))
    }

    /// Puts the saved values into a fit of the same network.
    pub fn restore(&self, directory: &Path, tensors: &Tensors, fit: &mut Fit) -> Result<(), TrainError> {
        let path = directory.join("checkpoint.safetensors");
        let weights = |prefix: &str| -> Option<Weights> {
            let own = tensors
                .by_name
                .iter()
                .filter_map(|(name, (_, values))| Some((name.strip_prefix(prefix)?.to_owned(), values.clone())));
            let tensors: Vec<_> = own.collect();
            (!tensors.is_empty()).then_some(Weights { tensors })
        };
        let fill = |memory: &mut Memory| {
            let names: Vec<String> = memory.leaves().map(|(name, _)| name.to_owned()).collect();
            for name in names {
                let saved = tensors.by_name.get(&format!("{MEMORY}{name}"));
                if !saved.is_some_and(|(_, values)| memory.set(&name, values)) {
                    let problem = format!("{name:?} is missing or of another size");
                    return Err(TrainError::saved(&path, problem, OLDER));
                }
            }
            Ok(())
        };
        let expected = fit.kept().0.clone();
        let (good, best) = (weights(GOOD).unwrap_or_default(), weights(BEST));
        for kept in [Some(&good), best.as_ref()].into_iter().flatten() {
            if !kept.fits(&expected) {
                return Err(TrainError::saved(&path, "holds the weights of another network", OLDER));
            }
        }
        fit.restore(self.progress.clone(), fill, good, best)
    }
}
