//! `citius eval`: how good a model is on rows whose target is known.

use std::path::PathBuf;

use citius_train::SavedModel;
use clap::Args;
use serde_json::json;

use crate::args::MachineArgs;
use crate::error::{Done, Failure};
use crate::screen::{self, Sink, line};

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct EvalArgs {
    /// Directory that `citius train` wrote
    model: PathBuf,
    /// Rows with their target; or a directory with the MNIST files, for a model of images
    file: PathBuf,
    /// Print the metrics as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

const EXAMPLES: &str = "Examples:
  citius eval runs/adult-1 adult.test
  citius eval runs/mnist-1 mnist/ --json";

pub fn run(args: &EvalArgs) -> Result<Done, Failure> {
    let mut model = SavedModel::load(&args.model, args.machine.options()?)?;
    let (metrics, rows, notes) = model.evaluate(&args.file)?;
    for note in notes {
        line(Sink::Stderr, &format!("note: {note}"));
    }
    if args.json {
        let object = json!({ "task": model.task(), "rows": rows, "metrics": metrics });
        line(Sink::Stdout, &object.to_string());
    } else {
        screen::show_metrics(Sink::Stdout, "", &metrics, rows);
    }
    Ok(Done::Well)
}
