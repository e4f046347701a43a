//! `citius predict`: raw rows in, a CSV of answers out; or a text, and how it goes on.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use citius_data::source::Vocabulary;
use citius_train::{Predictions, Sampling, SavedModel};
use clap::Args;

use crate::args::MachineArgs;
use crate::error::{Done, Failure};
use crate::screen::{Sink, line};

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PredictArgs {
    /// Directory that `citius train` wrote
    model: PathBuf,
    /// New rows, as raw as the training table; the target column may be there or not. For a model of texts, a text to go on with
    #[arg(required_unless_present = "prompt")]
    file: Option<PathBuf>,
    /// For a model of texts: what to go on with, in place of a file
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    prompt: Option<String>,
    /// For a model of texts: characters to write
    #[arg(long, value_name = "N", default_value_t = 300)]
    length: usize,
    /// For a model of texts: below 1 likelier characters are preferred, at 0 the likeliest is always taken
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    temperature: f64,
    /// For a model of texts: another one writes another text
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Where to write the CSV [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArgs,
}

const EXAMPLES: &str = "Examples:
  citius predict runs/houses-1 houses-new.csv
  citius predict runs/houses-1 houses-new.csv --out predictions.csv
  citius predict runs/shakespeare-1 --prompt 'ROMEO:' --length 500";

pub fn run(args: &PredictArgs) -> Result<Done, Failure> {
    let mut model = SavedModel::load(&args.model, args.machine.options()?)?;
    if let Some(vocabulary) = model.vocabulary().cloned() {
        return go_on(args, &mut model, &vocabulary);
    }
    let Some(file) = &args.file else {
        let problem =
            format!("{} was not trained on a text: give it a file of rows, not --prompt", args.model.display());
        return Err(Failure::Usage(problem));
    };
    let (predictions, notes) = model.predict(file)?;
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

/// Writes a text and how it goes on, character by character as they come.
fn go_on(args: &PredictArgs, model: &mut SavedModel, vocabulary: &Vocabulary) -> Result<Done, Failure> {
    let prompt = match (&args.prompt, &args.file) {
        (Some(prompt), _) => prompt.clone(),
        (None, Some(path)) => fs::read_to_string(path)
            .map_err(|error| Failure::Failed(format!("cannot read {}: {error}", path.display())))?,
        (None, None) => String::new(),
    };
    let mut out: Box<dyn Write> = match &args.out {
        None => Box::new(io::stdout().lock()),
        Some(path) => Box::new(BufWriter::new(
            fs::File::create(path)
                .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))?,
        )),
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(Done::Well),
        _ => Err(Failure::Failed(format!("cannot write the text: {error}"))),
    };
    let sampling = Sampling { temperature: args.temperature, seed: args.seed };
    let mut writer = model.writer(&prompt, sampling)?;
    if let Err(error) = out.write_all(prompt.as_bytes()) {
        return failed(error);
    }
    for _ in 0..args.length {
        let token = writer.next_token()?;
        if let Err(error) = out.write_all(vocabulary.decode(&[token]).as_bytes()).and_then(|()| out.flush()) {
            return failed(error);
        }
    }
    match out.write_all(b"\n").and_then(|()| out.flush()) {
        Ok(()) => Ok(Done::Well),
        Err(error) => failed(error),
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
