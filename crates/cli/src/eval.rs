//! `citius eval`: how good a model is on rows whose target is known.

use std::path::PathBuf;

use citius_data::{OnError, TextEncoding};
use citius_train::{EvalOptions, Evaluation, SavedModel};
use clap::Args;
use serde_json::json;

use crate::args::{MachineArgs, on_error};
use crate::error::{Done, Failure};
use crate::reading::{List, list};
use crate::screen::{self, Sink, line};

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct EvalArgs {
    /// Directory that `citius train` wrote
    model: PathBuf,
    /// Rows with their target; for a model of pictures a folder per class, some or all of the model's, or a table of paths and
    /// labels; for one of MNIST or CIFAR a directory of their files
    file: PathBuf,
    /// What to do about rows and pictures that cannot be read: fail, or skip, which leaves them out and counts them
    #[arg(long, value_name = "fail|skip", value_parser = on_error, default_value = "fail")]
    on_error: OnError,
    /// Of two classes, the one whose F1 is shown [default: the second, as the model has them]
    #[arg(long, value_name = "CLASS")]
    positive: Option<String>,
    /// Tokens that stand for a missing cell, besides those of the training
    #[arg(long, value_name = "TOKEN,…", value_parser = list, allow_hyphen_values = true)]
    missing: Option<Vec<List>>,
    /// Encoding of a table that is text, such as latin-1 or utf-16 [default: utf-8]
    #[arg(long)]
    encoding: Option<TextEncoding>,
    /// Print the metrics as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

const EXAMPLES: &str = "Examples:
  citius eval runs/adult-1 adult.test
  citius eval runs/cards-1 may.csv --positive fraud
  citius eval runs/photos-1 photos-of-may/ --on-error skip
  citius eval runs/mnist-1 mnist/ --json";

pub fn run(args: &EvalArgs) -> Result<Done, Failure> {
    let mut model = SavedModel::load(&args.model, args.machine.processor_options()?)?;
    let options = EvalOptions {
        on_error: args.on_error,
        missing: args.missing.as_ref().map(|lists| lists.concat()).unwrap_or_default(),
        encoding: args.encoding,
        positive: args.positive.clone(),
    };
    let Evaluation { metrics, rows, classes, notes } = model.evaluate_with(&args.file, &options)?;
    for note in notes {
        line(Sink::Stderr, &format!("note: {note}"));
    }
    if args.json {
        let object = json!({ "task": model.task(), "rows": rows, "metrics": metrics, "classes": classes });
        screen::json(&object.to_string());
    } else {
        screen::show_metrics(Sink::Stdout, "", &metrics, rows);
        if let Some(classes) = &classes {
            screen::show_classes(Sink::Stdout, classes);
        }
    }
    Ok(Done::Well)
}
