//! A run as its events tell it: `events.jsonl` of a run's directory, finished or not, or the events of a run under way.

use std::io;
use std::path::Path;

use citius_data::{Escaped, bounded};
use citius_train::{Event, Wishes};
use serde_json::Value;

/// Bytes that events or a checkpoint's description have at most.
const LARGEST: u64 = 1 << 30;

fn text_of(path: &Path) -> io::Result<String> {
    String::from_utf8(bounded::read_plain(path, LARGEST)?).map_err(io::Error::other)
}

/// A run so far.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub epochs: Vec<EpochFacts>,
    /// Asked for.
    pub epochs_planned: usize,
    pub steps_per_epoch: u64,
    pub rows_validation: usize,
    /// `the loss is NaN`, and the step.
    pub diverged: Option<(String, u64)>,
    pub stopped_early: Option<usize>,
    pub finished: bool,
    /// Where its time went, as it said last.
    pub time: Option<citius_train::Ledger>,
}

/// One epoch.
#[derive(Clone, Copy, Debug, Default)]
pub struct EpochFacts {
    pub epoch: usize,
    pub loss: f64,
    pub lr: f64,
    pub grad_norm: f64,
    pub seconds: f64,
    pub validation: Option<f64>,
}

impl Ledger {
    /// Takes an event into account.
    pub fn hear(&mut self, event: &Event) {
        if let Ok(value) = serde_json::to_value(event) {
            self.read_event(&value);
        }
    }

    /// Reads a run's directory. `Err` says what is wrong with it, and what to do.
    pub fn read(directory: &Path) -> Result<(Ledger, Option<Value>), String> {
        let path = directory.join("events.jsonl");
        let text = text_of(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!(
                "{}: a run's directory has an events.jsonl, this one has none; give the directory that `citius train` wrote, \
                 or a source or settings file",
                directory.escaped()
            ),
            _ => format!("{}: cannot be read: {error}", path.escaped()),
        })?;
        let mut ledger = Ledger::default();
        let mut started = None;
        let mut lines = text.split('\n').peekable();
        let (mut number, mut unknown) = (0, 0);
        while let Some(line) = lines.next() {
            number += 1;
            if line.trim().is_empty() {
                continue;
            }
            let event: Value = match serde_json::from_str(line) {
                Ok(event) => event,
                // the last line may be half written
                Err(_) if lines.peek().is_none() => break,
                Err(error) => {
                    return Err(format!("{}: line {number} is damaged ({error}); give another run", path.escaped()));
                }
            };
            match event.get("event").and_then(Value::as_str) {
                Some("run_started") => started = Some(event.clone()),
                Some(_) => {}
                None => unknown += 1,
            }
            ledger.read_event(&event);
        }
        if started.is_none() {
            let why = match unknown > 0 {
                true => "was written by another version of citius",
                false => "does not tell of the start of a run; it may have been cut off before anything began",
            };
            return Err(format!("{} {why}; run `citius train` again, or give its settings file", path.escaped()));
        }
        Ok((ledger, started))
    }

    /// What a run was asked for: its checkpoint knows. `Err` where there is none yet.
    pub fn wishes(directory: &Path) -> Result<Wishes, String> {
        let path = directory.join("checkpoint.json");
        let missing = || {
            format!(
                "{}: the run has no checkpoint yet, so what it was asked for is not known; look again later, or give its \
                 settings file",
                directory.escaped()
            )
        };
        let text = text_of(&path).map_err(|_| missing())?;
        let other = "was written by another version of citius; give the settings file of the run instead";
        let state: Value = serde_json::from_str(&text).map_err(|_| format!("{} {other}", path.escaped()))?;
        let wishes = state.get("wishes").cloned().unwrap_or(Value::Null);
        Wishes::from_json(wishes).map_err(|_| format!("{} {other}", path.escaped()))
    }

    fn read_event(&mut self, event: &Value) {
        let number = |name: &str| event.get(name).and_then(Value::as_f64);
        let count = |name: &str| event.get(name).and_then(Value::as_u64).unwrap_or(0);
        match event.get("event").and_then(Value::as_str).unwrap_or_default() {
            "run_started" => {
                self.steps_per_epoch = count("steps_per_epoch");
                let of = |outer: &str, inner: &str| {
                    event.get(outer).and_then(|v| v.get(inner)).and_then(Value::as_u64).unwrap_or(0) as usize
                };
                self.epochs_planned = of("settings", "epochs");
                self.rows_validation = of("rows", "validation");
            }
            // the search is over; what follows is another training, on all rows
            "refitting" => self.finished = true,
            "epoch_ended" if !self.finished => self.epochs.push(EpochFacts {
                epoch: count("epoch") as usize,
                // a number that is not finite is null in JSON
                loss: number("loss").unwrap_or(f64::NAN),
                lr: number("lr").unwrap_or(f64::NAN),
                grad_norm: number("grad_norm").unwrap_or(f64::NAN),
                seconds: number("seconds").unwrap_or(0.0),
                validation: None,
            }),
            "validated" if !self.finished => {
                let loss = event.get("metrics").and_then(|m| m.get("loss")).and_then(Value::as_f64);
                if let Some(epoch) = self.epochs.last_mut() {
                    epoch.validation = loss;
                }
            }
            "early_stopped" => self.stopped_early = Some(count("best_epoch") as usize),
            "diverged" => {
                let what = event.get("what").and_then(Value::as_str).unwrap_or("diverged").to_owned();
                self.diverged = Some((what, count("step")));
                self.finished = true;
            }
            "ledger" => self.time = serde_json::from_value(event.clone()).ok(),
            "finished" => self.finished = true,
            _ => {}
        }
    }
}
