//! From a file to a model: read, choose, train, judge, save.
//!
//! ```text
//! config.rs      what a person asks for: flags or TOML
//! problem.rs     a source, read, split and encoded
//! auto.rs        everything that was left open, chosen with a reason
//! settings.rs    the outcome: all that decides the numbers
//! transfer.rs    what is taken over from another training
//! step.rs        the compiled step of a data set
//! engine.rs      where it runs: processor or GPU
//! trial.rs       which of them, if that is left open
//! fill.rs        a loader's batch, into its inputs
//! room.rs        micro-batches where a GPU has no room for the whole
//! walk.rs        feeding it and watching every result
//! ledger.rs      where the time goes; ceilings.rs: where it could not
//! profile.rs     a look at a few steps; counterfactual.rs: and what they would cost otherwise; rig.rs: both run these
//! lab.rs         a network on the bench: chosen batches, every result seen
//! fit.rs         one network, epoch by epoch: validation, best weights, early stopping
//! training.rs    a run that is ready to start, or to go on
//! run.rs         the run itself: fit, refit, judge, save; log.rs: and what is heard of it
//! pretrained.rs  weights of another program, by name
//! inference.rs   a saved model predicts, or is evaluated
//! evaluation.rs  how good it is, class by class
//! predictor.rs   outputs of a model in large batches
//! predictions.rs answers of a model, and what each is about
//! writer.rs      a text that a model goes on with
//! metrics.rs     how good they are
//! events.rs      what happens, for whoever listens
//! report.rs      what it came to
//! model.rs       a model on disk
//! checkpoint.rs  a run on disk; checkpoint_writer.rs: written beside the training; folder.rs: who may write it
//! ```

pub mod auto;
mod ceilings;
mod checkpoint;
mod checkpoint_writer;
mod config;
mod counterfactual;
mod engine;
mod error;
mod evaluation;
pub mod events;
mod files;
mod fill;
mod fit;
mod folder;
mod inference;
mod lab;
mod ledger;
mod log;
mod material;
mod metrics;
mod model;
mod predictions;
mod predictor;
mod pretrained;
mod problem;
mod profile;
mod quantiles;
mod report;
mod rig;
mod room;
mod run;
mod settings;
mod step;
mod tensors;
mod training;
mod transfer;
mod trial;
mod walk;
mod weights;
mod writer;

pub use citius_cuda::Precision;
pub use citius_data::LoaderReport;

pub use auto::{Choice, choose};
pub use ceilings::Ceilings;
pub use config::{Bytes, Inits, NamedInit, SourceKind, TrackedWishes, Wishes, Workers};
pub use counterfactual::{
    Counterfactual, Counterfactuals, StepCost, Verdict, WORTH, WORTH_SECONDS, What, counterfactuals, step_costs,
};
pub use engine::{Device, Engine, Machine};
pub use error::TrainError;
pub use evaluation::{ClassMetrics, ClassReport, EvalOptions, Evaluation};
pub use events::{Asleep, Divergence, Event, Listener, Rows, Silent, Unwatched, Watch};
pub use fill::{Filler, row_order};
pub use fit::{Best, EpochEnd, Fit, FitData, Progress};
pub use folder::check_out;
pub use lab::Lab;
pub use ledger::{KernelTime, Ledger, Loading, Parts, StepTime};
pub use material::{FeatureForm, Feed, Form, Loaded, LoadingOptions, Material, TargetForm};
pub use metrics::{Metrics, softmax};
pub use model::{Architecture, ModelCard, SavedModel};
pub use predictions::{About, KeptColumn, PredictOptions, Predictions};
pub use predictor::Predictor;
pub use pretrained::{Matching, Pretrained, Taken};
pub use problem::{
    BYTES_NOTE, FROM_NOTE, Input, PREPARATION_NOTE, Problem, RowsFrom, RowsInput, blocks_within, count,
    larger_than_memory, larger_when_encoded, most_sampled, open_pictures, plural, read_options,
};
pub use profile::{Kinds, MemoryUse, Profile, ProfileOptions, Traced};
pub use report::{Ending, Report};
pub use settings::{Details, Settings};
pub use step::{Arrival, Forward, plan_step, plan_watched_step};
pub use training::{RunOptions, Training};
pub use transfer::{Rate, Transfer};
pub use writer::{Sampling, Writer};
