//! `citius data pack`: a source as one file of rows ready to train on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use citius_data::packed::Summary;
use citius_data::{DataError, Escaped, Found, OnError, PackOptions, pack_source, pack_stream, shell_word};
use citius_train::{SourceKind, count};
use clap::Args;
use serde_json::json;

use super::packing::{Packing, What, prepare};
use super::rows::Stoppable;
use super::{Progress, SourceArgs};
use crate::args::on_error;
use crate::error::{Done, Failure};
use crate::reading::{ColumnArgs, SeriesArgs};
use crate::screen::{self, Sink, line, number, seconds};
use crate::train::interruption;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PackArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    #[command(flatten)]
    pub(super) columns: ColumnArgs,
    /// The file to write
    #[arg(value_name = "OUT.citius")]
    out: PathBuf,
    /// Sides of the square that pictures are brought to [default: 32]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(super) size: Option<u16>,
    /// What to do about pictures that cannot be read: fail, or take the next one in its place
    #[arg(long, value_name = "fail|skip", value_parser = on_error)]
    pub(super) on_error: Option<OnError>,
    /// Rows of a series that predict what follows
    #[arg(long, value_name = "N")]
    pub(super) window: Option<usize>,
    /// From one window to the next [default: 1]
    #[arg(long, value_name = "N")]
    pub(super) stride: Option<usize>,
    /// Rows to predict behind a window [default: 1]
    #[arg(long, value_name = "N")]
    pub(super) horizon: Option<usize>,
    #[command(flatten)]
    pub(super) series: SeriesArgs,
    /// Pack the test half of MNIST's or CIFAR's files [default: the training half]
    #[arg(long)]
    pub(super) test: bool,
    /// Replace a file that is already there
    #[arg(long)]
    force: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  citius data pack houses.csv houses.citius --target price
  citius data pack pets/ pets.citius --size 64
  citius data pack hourly.csv hourly.citius --window 96 --horizon 24
  citius data pack cifar-10/ cifar-test.citius --test";

pub fn run(args: &PackArgs) -> Result<Done, Failure> {
    let found = args.source.find()?;
    check_flags(args, &found)?;
    check_out(args)?;
    let stop = interruption()?;
    let began = Instant::now();
    let packing = prepare(args, found)?;
    let mut told = packing.told.clone();
    let pictures = match &packing.what {
        What::Pictures(source) => Some(source.clone()),
        _ => None,
    };
    let schema = packing.schema.to_string();
    let summary = match write(args, packing, &stop) {
        Ok(summary) => summary,
        Err(_) if stop.load(Ordering::Relaxed) => {
            line(Sink::Stderr, "interrupted; nothing was written");
            return Ok(Done::Interrupted);
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(skipped) = pictures.map(|source| source.skipped()).filter(|skipped| !skipped.is_empty()) {
        let named: Vec<&str> = skipped.iter().take(4).map(|(path, _)| path.as_str()).collect();
        let more = if skipped.len() > 4 { ", …" } else { "" };
        told.push(format!(
            "{} cannot be read, the next picture is in its place: {}{more}",
            count(skipped.len()),
            named.join(", ")
        ));
    }
    report(args, &summary, &schema, &told, began.elapsed().as_secs_f64());
    Ok(Done::Well)
}

/// A flag that means nothing here is a mistake, not a wish.
fn check_flags(args: &PackArgs, found: &Found) -> Result<(), Failure> {
    let pictures = matches!(found, Found::Pictures(_));
    let halves = matches!(found, Found::Mnist(_) | Found::Cifar(_));
    let table = matches!(found, Found::Tables(_));
    let windows = args.window.is_some() || args.source.reading.kind == Some(SourceKind::Series);
    let wrong = [
        (args.size.is_some() && !pictures, "--size is for a folder of pictures"),
        (args.on_error.is_some() && !pictures, "--on-error is for a folder of pictures"),
        (args.test && !halves, "--test is for MNIST's or CIFAR's files"),
        (args.window.is_some() && !table, "--window is for a table in the order of time"),
        (
            args.window.is_some() && args.source.reading.kind == Some(SourceKind::Table),
            "--window makes a series of a table",
        ),
        ((args.horizon.is_some() || args.stride.is_some()) && !windows, "--horizon and --stride need --window"),
        (args.series.time.is_some() && !windows, "--time is for a series, which --window makes of a table"),
        (args.series.fill.is_some() && !windows, "--fill is for a series, which --window makes of a table"),
        (args.source.reading.target.is_some() && !table, "--target is for a table"),
        (args.columns.drop().is_some() && !table, "--drop is for a table"),
        (args.columns.only().is_some() && !table, "--only is for a table"),
    ];
    if !table {
        args.source.refuse_reading()?;
    }
    match wrong.into_iter().find(|(wrong, _)| *wrong) {
        Some((_, problem)) => Err(Failure::Usage(format!("{problem}; leave it out"))),
        None => Ok(()),
    }
}

/// Before anything is read: it may take long.
fn check_out(args: &PackArgs) -> Result<(), Failure> {
    let out = args.out.escaped();
    let full = |path: &Path| std::fs::canonicalize(path).ok();
    if full(&args.out).is_some_and(|path| full(&args.source.source) == Some(path)) {
        return Err(Failure::Usage(format!("{out}: is the source itself; choose another name")));
    }
    if args.out.exists() && !args.force {
        return Err(Failure::Usage(format!("{out}: exists already; choose another name, or replace it with --force")));
    }
    Ok(())
}

fn write(args: &PackArgs, packing: Packing, stop: &Arc<AtomicBool>) -> Result<Summary, DataError> {
    let Packing { what, schema, notes, order, .. } = packing;
    let options = PackOptions { notes, overwrite: args.force, ..PackOptions::default() };
    let progress = Progress::new("rows");
    let mut tell = |done: u32, all: u32| progress.at(done as u64, all as u64);
    let stop = stop.clone();
    match what {
        What::Source(source) => {
            let rows = Stoppable { rows: source.as_ref(), schema, order, stop };
            pack_source(&rows, &args.out, options, &mut tell)
        }
        What::Pictures(source) => {
            let rows = Stoppable { rows: source.as_ref(), schema, order, stop };
            pack_source(&rows, &args.out, options, &mut tell)
        }
        What::Stream(stream) => {
            let rows = Stoppable { rows: stream.as_ref(), schema, order, stop };
            pack_stream(&rows, &args.out, options, &mut tell)
        }
    }
}

fn report(args: &PackArgs, summary: &Summary, schema: &str, told: &[String], time: f64) {
    let next = format!("citius train {}", shell_word(&args.out));
    let rate = summary.bytes as f64 / 1e6 / time.max(1e-9);
    if args.json {
        let object = json!({
            "out": args.out,
            "rows": summary.rows,
            "blocks": summary.blocks,
            "bytes": summary.bytes,
            "schema": schema,
            "seconds": time,
            "mb_per_second": rate,
            "notes": told,
            "next": next,
        });
        return screen::json(&object.to_string());
    }
    let (rows, megabytes) = (count(summary.rows as usize), number(summary.bytes as f64 / 1e6));
    line(Sink::Stdout, &format!("{}: {rows} rows of {schema}", args.out.escaped()));
    told.iter().for_each(|told| line(Sink::Stdout, &format!("  {told}")));
    line(Sink::Stdout, &format!("  {megabytes} MB in {}, {} MB/s", seconds(time), number(rate)));
    line(Sink::Stdout, "");
    line(Sink::Stdout, &format!("next: {next}"));
}
