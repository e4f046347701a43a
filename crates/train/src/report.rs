//! What a run came to.

use citius_data::Task;
use serde::{Deserialize, Serialize};

use crate::events::{Divergence, Rows};
use crate::{ClassReport, Ledger, Metrics};

/// The result of a run; `--json` prints it. Sets without rows have empty metrics.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    pub task: Task,
    pub data: String,
    pub model: String,
    pub ending: Ending,
    /// Of the training that made the weights.
    pub epochs: usize,
    /// Of all training, a search for the best number of epochs included; so are `seconds`, without validation and saving.
    pub steps: u64,
    pub seconds: f64,
    pub us_per_step: f64,
    /// Of the processor; on a GPU, groups of threads.
    pub threads: usize,
    /// `cpu`, `cuda` or `cuda:1`.
    #[serde(default)]
    pub device: String,
    /// The instruction set, or the name of the GPU.
    #[serde(default)]
    pub hardware: String,
    pub seed: u64,
    pub rows: Rows,
    /// The epoch with the best validation loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_epoch: Option<usize>,
    /// Whether the weights come from a second training on training and validation rows together.
    pub refit: bool,
    pub out: String,
    pub train: Metrics,
    pub validation: Metrics,
    pub test: Metrics,
    /// Class by class, on the test rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<ClassReport>,
    /// Mean training loss of each epoch.
    pub epoch_losses: Vec<f64>,
    /// Where the time went, up to here.
    #[serde(default)]
    pub ledger: Ledger,
}

/// How a run ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All epochs were run.
    Completed,
    /// Validation did not improve any more.
    EarlyStopped,
    /// Asked to stop; a checkpoint was saved.
    Interrupted,
    Diverged(Divergence),
}
