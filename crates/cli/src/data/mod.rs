//! `citius data`: look at data, and pack it for fast reading.
//!
//! ```text
//! mod.rs      what both commands share: the source, its reading, progress
//! inspect.rs  what is in it
//! packed.rs   what is in a packed file
//! pack.rs     into a packed file
//! packing.rs  what is written for each kind of source
//! rows.rs     rows on their way into it, that can be stopped
//! ```

mod inspect;
mod pack;
mod packed;
mod packing;
mod rows;

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use citius_data::{Found, ReadOptions, shell_word};
use citius_train::{Bytes, SourceKind, TrackedWishes, Wishes, count, read_options};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::error::{Done, Failure};
use crate::reading::{ReadingArgs, listed};

#[derive(Args)]
pub struct DataArgs {
    #[command(subcommand)]
    command: DataCommand,
}

#[derive(Subcommand)]
enum DataCommand {
    /// Tell what is in a table, a packed file, pictures or a text
    Inspect(Box<inspect::InspectArgs>),
    /// Write a table, pictures or windows over a series as one file that is read at the speed of the disk
    Pack(Box<pack::PackArgs>),
}

pub fn run(args: &DataArgs) -> Result<Done, Failure> {
    match &args.command {
        DataCommand::Inspect(args) => inspect::run(args),
        DataCommand::Pack(args) => pack::run(args),
    }
}

/// What is read, and how.
#[derive(Args)]
struct SourceArgs {
    /// A table (.csv, .tsv, .txt, .jsonl, .npy, .npz, .parquet, .arrow …, also .gz and .zst; several as 'part-*.csv'), a packed
    /// file (.citius), a folder of pictures per class, a directory of MNIST's or CIFAR's files, or a text
    source: PathBuf,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Memory for data; of a table that needs more, a sample decides [default: half of what is free, at most 4GiB]
    #[arg(long, value_name = "512MB")]
    memory: Option<Bytes>,
}

impl SourceArgs {
    /// What the path holds, or is said to hold.
    fn find(&self) -> Result<Found, Failure> {
        let path = self.source.clone();
        Ok(match (self.reading.kind, Found::at(&path)) {
            (None, found) => found?,
            (Some(SourceKind::Pictures), _) => Found::Pictures(path),
            (Some(SourceKind::Text), _) => Found::Text(path),
            (Some(SourceKind::Table | SourceKind::Series), Ok(Found::Tables(paths))) => Found::Tables(paths),
            (Some(SourceKind::Table | SourceKind::Series), _) => Found::Tables(vec![path]),
        })
    }

    /// Refuses what says how the text of a table is read, where none is.
    fn refuse_reading(&self) -> Result<(), Failure> {
        let reading = &self.reading;
        let given = [
            ("--header", reading.header.is_some()),
            ("--delimiter", reading.delimiter.is_some()),
            ("--encoding", reading.encoding.is_some()),
            ("--missing", reading.missing().is_some()),
            ("--text", reading.text().is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((flag, _)) => Err(Failure::Usage(format!("{flag} is for a table; leave it out"))),
        }
    }

    fn read_options(&self) -> Result<ReadOptions, Failure> {
        Ok(read_options(&TrackedWishes::new(&self.wishes()))?)
    }

    fn wishes(&self) -> Wishes {
        Wishes { memory: self.memory, ..self.reading.wishes() }
    }

    /// The flags that reading this source needs, as they would be given to `citius train`.
    fn reading_flags(&self) -> String {
        let reading = &self.reading;
        let flag = |flag: &str, values: Option<Vec<String>>| {
            values.map_or(String::new(), |values| format!(" --{flag} {}", shell_word(listed(&values))))
        };
        let header = reading.header.map_or(String::new(), |header| format!(" --header {header}"));
        let delimiter =
            reading.delimiter.as_ref().map_or(String::new(), |name| format!(" --delimiter {}", shell_word(name)));
        let encoding = reading.encoding.map_or(String::new(), |encoding| format!(" --encoding {encoding}"));
        flag("missing", reading.missing()) + &flag("text", reading.text()) + &header + &delimiter + &encoding
    }
}

/// A bar on a terminal, nothing elsewhere.
struct Progress(Option<ProgressBar>);

impl Progress {
    fn new(what: &'static str) -> Progress {
        if !io::stderr().is_terminal() {
            return Progress(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        let template = "  {bar:30} {done}  {rate}/s  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            let done = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                let (done, all) = (state.pos() as usize, state.len().unwrap_or(0) as usize);
                let _ = write!(out, "{} of {} {what}", count(done), count(all));
            };
            let rate = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                let _ = write!(out, "{} {what}", count(state.per_sec() as usize));
            };
            bar.set_style(style.with_key("done", done).with_key("rate", rate).progress_chars("━╸─"));
        }
        Progress(Some(bar))
    }

    fn at(&self, done: u64, all: u64) {
        if let Some(bar) = &self.0 {
            bar.set_length(all);
            bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
