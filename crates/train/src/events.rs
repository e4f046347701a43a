//! What happens in a run. Progress, `--json` and `events.jsonl` are all made from these.

use serde::{Deserialize, Serialize};

use crate::report::Report;
use crate::{Choice, Ledger, Metrics, Settings};

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    RunStarted {
        /// What is learned from.
        data: String,
        task: String,
        model: String,
        parameters: usize,
        rows: Rows,
        steps_per_epoch: u64,
        settings: Box<Settings>,
        choices: Vec<Choice>,
        out: String,
    },
    /// The step is compiled, and training begins.
    Ready {
        /// Since the run was started.
        seconds: f64,
    },
    /// The run goes on from a checkpoint.
    Resumed {
        epoch: usize,
        step: u64,
    },
    /// Training starts over on all rows.
    Refitting {
        epochs: usize,
        rows: usize,
    },
    /// Several times a second, between epochs or within.
    Progress {
        epoch: usize,
        epochs: usize,
        step: u64,
        steps: u64,
        loss: f64,
    },
    EpochEnded {
        epoch: usize,
        loss: f64,
        lr: f64,
        grad_norm: f64,
        seconds: f64,
    },
    Validated {
        epoch: usize,
        metrics: Metrics,
    },
    /// The best validation loss so far.
    Improved {
        epoch: usize,
        loss: f64,
    },
    /// The plateau schedule has acted.
    RateReduced {
        epoch: usize,
        factor: f64,
    },
    EarlyStopped {
        epoch: usize,
        best_epoch: usize,
    },
    CheckpointSaved {
        epoch: usize,
        step: u64,
        path: String,
    },
    Diverged(Divergence),
    Interrupted {
        epoch: usize,
        step: u64,
        out: String,
    },
    /// Something that is worth knowing and does not stop the run.
    Warning {
        message: String,
    },
    /// What the doctor saw in passing.
    Finding {
        /// One of its stable names.
        cause: String,
        message: String,
    },
    /// After the first epoch: units of each layer, and how many of them got no gradient from any row.
    Units {
        layers: Vec<Asleep>,
    },
    /// Where the time of the run has gone so far: now and then, and at the end.
    Ledger(Box<Ledger>),
    Finished(Box<Report>),
}

/// Units of a layer that learned nothing yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Asleep {
    pub layer: String,
    pub units: usize,
    pub asleep: usize,
}

/// Hears what a run says, and may say something about it: once for each thing, nothing where all is well.
pub trait Watch {
    /// What there is to say now.
    fn hear(&mut self, event: &Event) -> Vec<Event>;
}

/// Says nothing.
pub struct Unwatched;

impl Watch for Unwatched {
    fn hear(&mut self, _: &Event) -> Vec<Event> {
        Vec::new()
    }
}

/// Rows in each set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rows {
    pub train: usize,
    pub validation: usize,
    pub test: usize,
}

/// The first value that was not finite, or the loss that grew beyond reason.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Divergence {
    /// `the loss is NaN`, `the gradient of 0.weight is infinite`, …
    pub what: String,
    pub epoch: usize,
    pub step: u64,
    pub lr: f64,
    /// Which weights were kept.
    pub kept: String,
}

/// Gets every event of a run, in order, on the training thread.
pub trait Listener {
    fn on(&mut self, event: &Event);
}

impl<F: FnMut(&Event)> Listener for F {
    fn on(&mut self, event: &Event) {
        self(event)
    }
}

/// Hears nothing.
pub struct Silent;

impl Listener for Silent {
    fn on(&mut self, _: &Event) {}
}
