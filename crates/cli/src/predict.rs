//! `citius predict`: raw rows in, a CSV of answers out.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use citius_train::{Predictions, SavedModel};
use clap::Args;

use crate::args::MachineArgs;
use crate::error::{Done, Failure};
use crate::screen::{Sink, line};

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PredictArgs {
    /// Directory that `citius train` wrote
    model: PathBuf,
    /// New rows, as raw as the training table; the target column may be there or not
    file: PathBuf,
    /// Where to write the CSV [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArgs,
}

const EXAMPLES: &str = "Examples:
  citius predict runs/houses-1 houses-new.csv
  citius predict runs/houses-1 houses-new.csv --out predictions.csv";

pub fn run(args: &PredictArgs) -> Result<Done, Failure> {
    let mut model = SavedModel::load(&args.model, args.machine.options()?)?;
    let (predictions, notes) = model.predict(&args.file)?;
    for note in notes {
        line(Sink::Stderr, &format!("note: {note}"));
    }
    let labels = model.card.input.labels().to_vec();
    match &args.out {
        None => match write(&mut BufWriter::new(io::stdout().lock()), &predictions, &labels) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::Failed(format!("cannot write the predictions: {error}")))
            }
            _ => Ok(Done::Well),
        },
        Some(path) => {
            let mut text = Vec::new();
            let written = write(&mut text, &predictions, &labels).and_then(|()| whole(path, &text));
            written.map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))?;
            line(Sink::Stderr, &format!("{} predictions in {}", predictions.values.len(), path.display()));
            Ok(Done::Well)
        }
    }
}

fn write(out: &mut impl Write, predictions: &Predictions, labels: &[String]) -> io::Result<()> {
    if labels.is_empty() {
        writeln!(out, "prediction")?;
        for value in &predictions.values {
            writeln!(out, "{value}")?;
        }
        return out.flush();
    }
    let labels: Vec<String> = labels.iter().map(|label| quoted(label)).collect();
    let names: Vec<String> = labels.iter().map(|label| prefixed(label)).collect();
    writeln!(out, "prediction,{}", names.join(","))?;
    for (class, row) in predictions.values.iter().zip(&predictions.probabilities) {
        write!(out, "{}", labels.get(*class as usize).map_or("", String::as_str))?;
        for p in row {
            write!(out, ",{p:.6}")?;
        }
        writeln!(out)?;
    }
    out.flush()
}

/// `probability of a`, inside the quotes where there are any.
fn prefixed(label: &str) -> String {
    match label.strip_prefix('"') {
        Some(rest) => format!("\"probability of {rest}"),
        None => format!("probability of {label}"),
    }
}

/// A CSV cell.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// Written whole or not at all.
fn whole(path: &std::path::Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
