//! `citius predict`: raw rows, pictures or the latest of a series in, a CSV of answers out; or a text, and how it goes on.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use citius_data::source::Vocabulary;
use citius_data::{Escaped, OnError, TextEncoding, WholeFile, bounded};
use citius_train::{PredictOptions, Sampling, SavedModel, TrainError, count};
use clap::Args;

use crate::answers::{AnswerFormat, AnswerWriter};
use crate::args::{MachineArgs, on_error};
use crate::error::{Done, Failure};
use crate::reading::{List, list};
use crate::screen::{Sink, TerminalLines, line};

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PredictArgs {
    /// Directory that `citius train` wrote
    model: PathBuf,
    /// New rows, as raw as the training table; the target column may be there or not. Several files, a pattern such as
    /// 'part-*.csv', or - for standard input; files of any size are read in bounded memory. For a model of pictures, any number of
    /// pictures, folders of them and tables with a column of their paths, labelled or not; each line begins with the path as
    /// given, in a folder relative to it. For a model of a series, a table whose last rows are the latest: the CSV goes on
    /// behind them, step by step. For a model of texts, a text to go on with
    #[arg(value_name = "FILE", required_unless_present = "prompt")]
    files: Vec<PathBuf>,
    /// For a model of a series: predict behind every window of the file, as far apart as in training, not behind the last row
    /// alone. Lines begin with the row of step 1 (the header not counted, the first row is 0) and the step, so that row
    /// first_row + step - 1 is predicted
    #[arg(long)]
    every_window: bool,
    /// What to do about rows and pictures that cannot be read: fail, or skip, which leaves their answers empty and counts them
    #[arg(long, value_name = "fail|skip", value_parser = on_error, default_value = "fail")]
    on_error: OnError,
    /// Columns of the table to write in front of each prediction, such as an identifier
    #[arg(long, value_name = "COLUMN,…", value_parser = list)]
    keep: Option<Vec<List>>,
    /// Tokens that stand for a missing cell, besides those of the training
    #[arg(long, value_name = "TOKEN,…", value_parser = list, allow_hyphen_values = true)]
    missing: Option<Vec<List>>,
    /// Encoding of a table that is text, such as latin-1 or utf-16 [default: utf-8]
    #[arg(long)]
    encoding: Option<TextEncoding>,
    /// Write a JSON object per prediction and line, not a CSV
    #[arg(long)]
    json: bool,
    /// For a model of texts: what to go on with, in place of a file
    #[arg(long, value_name = "TEXT", conflicts_with = "files")]
    prompt: Option<String>,
    /// For a model of texts: characters to write [default: 300]
    #[arg(long, value_name = "N")]
    length: Option<usize>,
    /// For a model of texts: below 1 likelier characters are preferred, at 0 the likeliest is always taken [default: 0.8]
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,
    /// For a model of texts: another one writes another text [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where to write the CSV [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArgs,
}

const EXAMPLES: &str = "Examples:
  citius predict runs/houses-1 houses-new.csv
  citius predict runs/houses-1 houses-new.csv --keep id --out predictions.csv
  gunzip -c houses.csv.gz | citius predict runs/houses-1 - --on-error skip --json
  citius predict runs/photos-1 new.jpg other.jpg
  citius predict runs/photos-1 folder/ --on-error skip
  citius predict runs/load-1 until-now.csv
  citius predict runs/load-1 last-year.csv --every-window
  citius predict runs/shakespeare-1 --prompt 'ROMEO:' --length 500";

/// Bytes of a text to go on with.
const PROMPT: u64 = 64 << 20;

pub fn run(args: &PredictArgs) -> Result<Done, Failure> {
    let mut model = SavedModel::load(&args.model, args.machine.processor_options()?)?;
    if let Some(vocabulary) = model.vocabulary().cloned() {
        refuse_flags(&args.of_tables(), "is for rows, and this model goes on with a text")?;
        return go_on(args, &mut model, &vocabulary);
    }
    refuse_flags(&args.of_texts(), "is for models of texts, and this is none")?;
    if args.prompt.is_some() {
        let problem =
            format!("{} was not trained on a text: give it a file of rows, not --prompt", args.model.escaped());
        return Err(Failure::Usage(problem));
    }
    refuse_own_input(args)?;
    let listed = |lists: &Option<Vec<List>>| lists.as_ref().map(|lists| lists.concat()).unwrap_or_default();
    let options = PredictOptions {
        on_error: args.on_error,
        every_window: args.every_window,
        keep: listed(&args.keep),
        missing: listed(&args.missing),
        encoding: args.encoding,
    };
    let format = if args.json { AnswerFormat::JsonLines } else { AnswerFormat::Csv };
    let classes = model.card.input.labels().to_vec();
    let quantiles = model.quantile_names();
    let mut writer = AnswerWriter::new(format, &classes, &quantiles);
    let notes = match &args.out {
        None => {
            let stdout = io::stdout();
            let mut out: Box<dyn Write> = match stdout.is_terminal() {
                true => Box::new(TerminalLines::new(stdout.lock())),
                false => Box::new(BufWriter::new(stdout.lock())),
            };
            write_all(&mut model, &args.files, &options, &mut writer, out.as_mut())?
        }
        Some(path) => {
            let cannot = |error: io::Error| cannot_write(path, &error);
            let mut out = BufWriter::new(WholeFile::create(path).map_err(cannot)?);
            let notes = write_all(&mut model, &args.files, &options, &mut writer, &mut out)?;
            if notes.is_some() {
                out.into_inner().map_err(|error| error.into_error()).and_then(WholeFile::finish).map_err(cannot)?;
                line(Sink::Stderr, &format!("{} predictions in {}", count(writer.written()), path.escaped()));
            }
            notes
        }
    };
    for note in notes.into_iter().flatten() {
        line(Sink::Stderr, &format!("note: {note}"));
    }
    Ok(Done::Well)
}

impl PredictArgs {
    /// Flags for rows alone, and whether they were given.
    fn of_tables(&self) -> [(&'static str, bool); 6] {
        [
            ("--every-window", self.every_window),
            ("--keep", self.keep.is_some()),
            ("--missing", self.missing.is_some()),
            ("--encoding", self.encoding.is_some()),
            ("--json", self.json),
            ("--on-error", self.on_error == OnError::Skip),
        ]
    }

    /// Flags for texts alone.
    fn of_texts(&self) -> [(&'static str, bool); 3] {
        [
            ("--length", self.length.is_some()),
            ("--temperature", self.temperature.is_some()),
            ("--seed", self.seed.is_some()),
        ]
    }
}

fn refuse_flags(flags: &[(&str, bool)], why: &str) -> Result<(), Failure> {
    match flags.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(Failure::Usage(format!("{flag} {why}; leave it out"))),
    }
}

/// Keys of a line of `--json` about a row of a table.
const JSON_KEYS: [&str; 4] = ["row", "prediction", "probabilities", "quantiles"];

/// Refuses what would take the place of what is read, or of an answer.
fn refuse_own_input(args: &PredictArgs) -> Result<(), Failure> {
    if let Some(out) = &args.out
        && let Ok(place) = out.canonicalize()
        && place.is_file()
    {
        let same = |file: &PathBuf| file.canonicalize().is_ok_and(|file| file == place);
        let of_model = ["model.json", "model.safetensors", "checkpoint.json", "checkpoint.safetensors", "events.jsonl"];
        if args.files.iter().any(same) {
            let problem = format!("--out {}: the rows are read from this file; name another one", out.escaped());
            return Err(Failure::Usage(problem));
        }
        if of_model.iter().any(|name| same(&args.model.join(name))) {
            let problem = format!("--out {}: is a part of the model; name another file", out.escaped());
            return Err(Failure::Usage(problem));
        }
    }
    let mut kept = args.keep.iter().flatten().flat_map(|list| list.iter());
    match kept.find(|name| args.json && JSON_KEYS.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let problem = format!("--keep {name:?}: --json has a key of that name; rename the column, or write a CSV");
            Err(Failure::Usage(problem))
        }
    }
}

/// Predicts and writes, part by part; no notes where nobody reads any more.
fn write_all(
    model: &mut SavedModel,
    files: &[PathBuf],
    options: &PredictOptions,
    writer: &mut AnswerWriter<'_>,
    out: &mut dyn Write,
) -> Result<Option<Vec<String>>, Failure> {
    let mut failed: Option<io::Error> = None;
    let notes = model.predict_each(files, options, &mut |part| match writer.write(out, part) {
        Ok(()) => Ok(()),
        Err(error) => {
            let problem = format!("cannot write the predictions: {error}");
            failed = Some(error);
            Err(TrainError::Setting(problem))
        }
    });
    let written = notes.map(Some).map_err(Failure::from);
    let error = match (failed, &written) {
        (None, Ok(_)) => writer.finish(out).err(),
        (failed, _) => failed,
    };
    match error {
        None => written,
        Some(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
        Some(error) => Err(Failure::Failed(format!("cannot write the predictions: {error}"))),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("cannot write {}: {error}", path.escaped()))
}

/// Writes a text and how it goes on, character by character as they come.
fn go_on(args: &PredictArgs, model: &mut SavedModel, vocabulary: &Vocabulary) -> Result<Done, Failure> {
    let prompt = match (&args.prompt, &args.files[..]) {
        (Some(prompt), _) => prompt.clone(),
        (None, [path]) => bounded::read_small(path, PROMPT)
            .and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other))
            .map_err(|error| Failure::Failed(format!("cannot read {}: {error}", path.escaped())))?,
        (None, _) => return Err(Failure::Usage("a text goes on from one file; give one, or --prompt".into())),
    };
    let mut file = match &args.out {
        None => None,
        Some(path) => Some((path, WholeFile::create(path).map_err(|error| cannot_write(path, &error))?)),
    };
    let mut stdout: Box<dyn Write> = match io::stdout().is_terminal() {
        true => Box::new(TerminalLines::new(io::stdout().lock())),
        false => Box::new(io::stdout().lock()),
    };
    let out: &mut dyn Write = match &mut file {
        None => stdout.as_mut(),
        Some((_, file)) => file,
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(Done::Well),
        _ => Err(Failure::Failed(format!("cannot write the text: {error}"))),
    };
    let sampling = Sampling { temperature: args.temperature.unwrap_or(0.8), seed: args.seed.unwrap_or(0) };
    let mut writer = model.writer(&prompt, sampling)?;
    if let Err(error) = out.write_all(prompt.as_bytes()) {
        return failed(error);
    }
    for _ in 0..args.length.unwrap_or(300) {
        let token = writer.next_token()?;
        if let Err(error) = out.write_all(vocabulary.decode(&[token]).as_bytes()).and_then(|()| out.flush()) {
            return failed(error);
        }
    }
    if let Err(error) = out.write_all(b"\n").and_then(|()| out.flush()) {
        return failed(error);
    }
    if let Some((path, file)) = file {
        file.finish().map_err(|error| cannot_write(path, &error))?;
    }
    Ok(Done::Well)
}
