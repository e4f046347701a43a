//! What is written into a packed file, made of each kind of source, with the notes that go with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use citius_data::picture::transform::{Resize, Size};
use citius_data::picture::{Channels, Output, Pictures};
use citius_data::source::{SeriesOptions, SeriesWindows, TimedRows, longest_fill, open_files, tables};
use citius_data::{
    DataError, Encoded, Escaped, FieldMut, Found, Grid, Images, InMemory, OnError, Order, PictureSource, Pipeline,
    Preparation, PrepareOptions, Rows, Schema, Source, Stream, Table, Transform, mnist_dir, pixel_mean_std, read_cifar,
    schema, shell_word,
};
use citius_train::{
    BYTES_NOTE, FROM_NOTE, PREPARATION_NOTE, RowsFrom, SourceKind, TrackedWishes, blocks_within, count,
    larger_than_memory, larger_when_encoded, most_sampled, open_pictures,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::inspect::{as_it_is, name_of};
use super::pack::PackArgs;
use crate::error::Failure;

/// Rows that a preparation is fitted on where a table is larger than memory.
const FITTED: usize = 100_000;
/// Pictures whose mean and deviation stand for all.
const MEASURED: usize = 1000;
/// Sides of the square that pictures become when nobody says otherwise.
const SIDE: u16 = 32;
/// A share of the latest rows of a series that training keeps for judging, and again of the rest: their mean and
/// deviation are not known beforehand.
const LATEST: f64 = 0.2;

/// Rows that are ready to be written.
pub(super) struct Packing {
    pub what: What,
    pub schema: Schema,
    pub notes: BTreeMap<String, Value>,
    /// For people: what was done to the rows.
    pub told: Vec<String>,
    pub order: Vec<u32>,
}

pub(super) enum What {
    Source(Arc<dyn Source>),
    Pictures(Arc<PictureSource>),
    Stream(Box<dyn Stream>),
}

pub(super) fn prepare(args: &PackArgs, found: Found) -> Result<Packing, Failure> {
    let windows = args.window.is_some() || args.source.reading.kind == Some(SourceKind::Series);
    match found {
        Found::Tables(paths) if windows => series(args, &paths),
        Found::Tables(paths) => match &paths[..] {
            _ if larger_than_memory(&paths, &TrackedWishes::new(&args.source.wishes())) => large_table(args, &paths),
            [path] => table(args, Table::read(path, &args.source.read_options()?)?, &paths),
            _ => table(args, tables(&paths, &args.source.read_options()?)?, &paths),
        },
        Found::Pictures(path) => folder(args, &path),
        Found::Mnist(path) => {
            let mnist = mnist_dir(&path)?;
            let name = name_of(&path);
            let scale = bytes_note(pixel_mean_std(&mnist.train.0));
            let (images, labels) = if args.test { mnist.test } else { mnist.train };
            grid(args, Grid::from_idx(&name, images, &labels, mnist.classes)?, scale, None)
        }
        Found::Cifar(path) => cifar(args, &path),
        Found::Packed(path) => {
            Err(Failure::Usage(format!("{}: is packed already; look at it with citius data inspect", path.escaped())))
        }
        Found::Text(path) => Err(Failure::Usage(format!(
            "{}: a text is not packed: its windows would take some thousand times its size; \
             train on it as it is, with citius train {}",
            path.escaped(),
            shell_word(&path)
        ))),
    }
}

fn table(args: &PackArgs, table: Table, paths: &[PathBuf]) -> Result<Packing, Failure> {
    let target = table.column(args.source.reading.target.as_deref().unwrap_or("-1"))?;
    let all: Vec<u32> = (0..table.rows as u32).collect();
    let rows: Vec<u32> = all.into_iter().filter(|row| !table.columns[target].is_missing(*row as usize)).collect();
    let preparation = Preparation::fit(&table, target, &rows, &prepare_options(args))?;
    if larger_when_encoded(&preparation, &table, &TrackedWishes::new(&args.source.wishes())) {
        drop(table);
        return large_table(args, paths);
    }
    let mut told = vec![format!("prepared as all its {} rows say", count(rows.len()))];
    told.extend(table.reading.notes());
    if rows.len() < table.rows {
        told.push(format!("{} rows without a target are left out", count(table.rows - rows.len())));
    }
    let data = preparation.encode(&table, &rows)?;
    let source = InMemory::new(&table.name, Arc::new(data))?;
    let mut schema = source.schema().clone();
    for field in schema.fields.iter_mut().filter(|field| !field.labels.is_empty()) {
        field.labels = preparation.class_labels().to_vec();
    }
    let notes = BTreeMap::from([(PREPARATION_NOTE.to_owned(), value(&preparation)?)]);
    Ok(Packing { what: What::Source(Arc::new(source)), schema, notes, told, order: Vec::new() })
}

fn large_table(args: &PackArgs, paths: &[PathBuf]) -> Result<Packing, Failure> {
    let options = args.source.read_options()?;
    let (wishes, blocks) = (args.source.wishes(), open_files(paths, &options, usize::MAX)?);
    let wishes = TrackedWishes::new(&wishes);
    let sample = Encoded::sample(blocks.as_ref(), most_sampled(paths, blocks.as_ref(), &wishes).min(FITTED), 0)?;
    let target = sample.column(args.source.reading.target.as_deref().unwrap_or("-1"))?;
    let has_target = |row: &u32| !sample.columns[target].is_missing(*row as usize);
    let rows: Vec<u32> = (0..sample.rows as u32).filter(has_target).collect();
    let preparation = Preparation::fit(&sample, target, &rows, &prepare_options(args))?;
    let mut told =
        vec![format!("larger than memory: prepared as {} rows drawn from all over it say", count(sample.rows))];
    told.extend(sample.reading.notes());
    let notes = BTreeMap::from([(PREPARATION_NOTE.to_owned(), value(&preparation)?)]);
    let blocks = blocks_within(blocks, &preparation, paths, &options, &wishes)?;
    let stream = Encoded::new(blocks, preparation)?;
    if stream.unlabelled() > 0 {
        told.push(format!("{} rows without a target are left out", count(stream.unlabelled() as usize)));
    }
    let schema = stream.schema().clone();
    Ok(Packing { what: What::Stream(Box::new(stream)), schema, notes, told, order: Vec::new() })
}

fn prepare_options(args: &PackArgs) -> PrepareOptions {
    PrepareOptions {
        missing: args.source.reading.missing().unwrap_or_default(),
        drop: args.columns.drop().unwrap_or_default(),
        only: args.columns.only().unwrap_or_default(),
        ..PrepareOptions::default()
    }
}

fn series(args: &PackArgs, paths: &[PathBuf]) -> Result<Packing, Failure> {
    let [path] = paths else {
        return Err(Failure::Usage("--window needs one table, in the order of time".into()));
    };
    let table = Table::read(path, &args.source.read_options()?)?;
    let (length, stride, horizon) = (args.window.unwrap_or(96), args.stride.unwrap_or(1), args.horizon.unwrap_or(1));
    let (fill, longest) = (args.series.fill.unwrap_or_default(), longest_fill(length));
    let series = TimedRows::new(table, args.series.time.as_deref(), longest)?;
    let earlier = |rows: usize| rows - (rows as f64 * LATEST) as usize;
    let fitted = earlier(earlier(series.table.rows));
    let options = SeriesOptions {
        targets: args.source.reading.target.clone().into_iter().collect(),
        length,
        stride,
        horizon,
        fit_rows: Some(0..fitted),
        fill,
        longest_fill: longest,
        ..SeriesOptions::default()
    };
    let windows = SeriesWindows::new(&series, &options)?;
    let mut told = vec![format!("scaled by mean and deviation of the first {} rows", count(fitted))];
    told.extend(series.remarks.iter().chain(windows.notes()).cloned());
    let (scale, time) = (windows.scale().clone(), series.index.clone());
    let from = RowsFrom::Series { length, stride, horizon, scale, time, fill };
    let notes = BTreeMap::from([(FROM_NOTE.to_owned(), value(&from)?)]);
    let schema = windows.schema().clone();
    Ok(Packing { what: What::Source(Arc::new(windows)), schema, notes, told, order: Vec::new() })
}

fn folder(args: &PackArgs, path: &Path) -> Result<Packing, Failure> {
    let side = args.size.unwrap_or(SIDE) as usize;
    let resize = Transform::Resize(Resize { size: Size::Both([side, side]) });
    let pipeline = Pipeline { channels: Channels::Rgb, transforms: vec![resize], output: Output::U8 };
    let source = PictureSource::new(open_pictures(path)?, pipeline.clone(), args.on_error.unwrap_or_default())?;
    let rows = source.rows();
    let mut order = vec![0; rows as usize];
    Order::new(rows, 0, 0).fill(0, &mut order);
    let some: Vec<u32> = order.iter().copied().take(MEASURED).collect();
    let scale = bytes_note(measure(&source, &some)?);
    let notes = BTreeMap::from([
        (BYTES_NOTE.to_owned(), scale),
        (FROM_NOTE.to_owned(), value(&RowsFrom::Pictures { pipeline })?),
    ]);
    let told = vec![
        format!("resized to {side}×{side}, RGB"),
        "in random order, as neighbours in a folder are of one class".to_owned(),
    ];
    let schema = source.schema().clone();
    Ok(Packing { what: What::Pictures(Arc::new(source)), schema, notes, told, order })
}

fn cifar(args: &PackArgs, path: &Path) -> Result<Packing, Failure> {
    let cifar = read_cifar(path)?;
    let measured = cifar.train.as_ref().or(cifar.test.as_ref()).map_or(Vec::new(), |part| part.pixels.clone());
    let scale = bytes_note(pixel_mean_std(&Images { count: 1, height: 1, width: measured.len(), pixels: measured }));
    let (train, test) = cifar.grids(&name_of(path))?;
    let half = if args.test { test } else { train };
    let Some(half) = half else {
        let (missing, next) = match args.test {
            true => ("test pictures", "leave out --test"),
            false => ("training pictures", "pack the test pictures with --test"),
        };
        return Err(Failure::Failed(format!("{}: there are no {missing} in it; {next}", path.escaped())));
    };
    grid(args, half, scale, Some(RowsFrom::Cifar))
}

/// Pictures of one size, as they are.
fn grid(args: &PackArgs, grid: Grid, scale: Value, from: Option<RowsFrom>) -> Result<Packing, Failure> {
    let pipeline = as_it_is(&grid);
    let half = if args.test { "test" } else { "training" };
    let told = vec![format!("the {half} half, {} pictures in their order", count(grid.len()))];
    let source = PictureSource::new(Box::new(grid), pipeline, OnError::Fail)?;
    let mut notes = BTreeMap::from([(BYTES_NOTE.to_owned(), scale)]);
    if let Some(from) = from {
        notes.insert(FROM_NOTE.to_owned(), value(&from)?);
    }
    let schema = source.schema().clone();
    Ok(Packing { what: What::Source(Arc::new(source)), schema, notes, told, order: Vec::new() })
}

/// Mean and deviation of `byte / 255`.
fn measure(source: &PictureSource, rows: &[u32]) -> Result<(f32, f32), DataError> {
    let width = source.schema().field(schema::INPUT).map_or(0, |field| field.width());
    let (mut pixels, mut classes) = (vec![0; rows.len() * width], vec![0; rows.len()]);
    let into = &mut [FieldMut::U8(&mut pixels), FieldMut::I32(&mut classes)];
    source.gather(&Rows { numbers: rows, seed: 0, epoch: 0 }, into)?;
    Ok(pixel_mean_std(&Images { count: rows.len(), height: 1, width, pixels }))
}

/// byte · scale + shift = (byte / 255 − mean) / deviation
fn bytes_note((mean, deviation): (f32, f32)) -> Value {
    json!([1.0 / (255.0 * deviation), -mean / deviation])
}

fn value(of: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(of).map_err(|error| Failure::Failed(error.to_string()))
}
