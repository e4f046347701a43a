//! `citius data inspect`: what is in a source, before anything is trained on it.

use std::path::{Path, PathBuf};

use citius_data::picture::{Channels, Output, Pictures, contact_sheet};
use citius_data::source::{SeriesOptions, TimeIndex, TimedRows, longest_fill, open_files, tables};
use citius_data::table::{Column, Values};
use citius_data::{
    Encoded, Escaped, Found, Grid, Inspection, PictureSource, Pipeline, Table, inspect, mnist_dir, read_cifar,
    shell_word,
};
use citius_train::{SourceKind, TrackedWishes, count, larger_than_memory, most_sampled, open_pictures};
use clap::Args;
use serde_json::{Value, json};

use super::{SourceArgs, packed};
use crate::error::{Done, Failure};
use crate::screen::{self, Sink, line, page};

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct InspectArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    /// Write a picture of the pictures: some of every class
    #[arg(long, value_name = "OUT.png")]
    sheet: Option<PathBuf>,
    /// Rows or pictures to look at, evenly spread [default: all rows of a table, 1000 pictures of a folder]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rows: Option<u32>,
    /// Read every byte of a packed file and check it
    #[arg(long)]
    pub(super) verify: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  citius data inspect houses.csv --target price
  citius data inspect pets/ --sheet pets.png
  citius data inspect houses.citius --verify
  citius data inspect mnist/ --json";

/// Rows that stand for a table too large for memory.
const SAMPLED: usize = 100_000;
/// Pictures that are decoded where nobody says otherwise.
const DECODED: usize = 1000;
/// Pictures of a class on a contact sheet.
const PER_CLASS: usize = 8;

/// What a source told about itself.
pub(super) struct Told {
    pub kind: &'static str,
    /// A page for people.
    pub page: String,
    /// The same for programs.
    pub object: Value,
    /// Said below the page.
    pub notes: Vec<String>,
    /// The command to go on with.
    pub next: String,
    /// What a contact sheet can be made of.
    pub pictures: Option<Box<dyn Pictures>>,
}

pub fn run(args: &InspectArgs) -> Result<Done, Failure> {
    let found = args.source.find()?;
    if args.verify && !matches!(found, Found::Packed(_)) {
        return Err(Failure::Usage("--verify checks packed files alone; other files have no checksums".into()));
    }
    match &found {
        Found::Tables(_) => {}
        // an encoding is a text's too
        Found::Text(_) if args.source.reading.encoding.is_some() => {}
        _ => args.source.refuse_reading()?,
    }
    if args.source.reading.target.is_some() && !matches!(found, Found::Tables(_)) {
        return Err(Failure::Usage("--target is for a table; leave it out".into()));
    }
    let mut told = match &found {
        Found::Tables(paths) => table(args, paths)?,
        Found::Packed(path) => packed::tell(args, path)?,
        Found::Mnist(path) => mnist(args, path)?,
        Found::Cifar(path) => cifar(args, path)?,
        Found::Pictures(path) => folder(args, path)?,
        Found::Text(path) => text(args, path)?,
    };
    if let Some(path) = &args.sheet {
        let Some(pictures) = &told.pictures else {
            let problem =
                "--sheet shows pictures: a folder of them, MNIST's or CIFAR's files, or a packed file of these";
            return Err(Failure::Usage(format!("{problem}; this is a {}", told.kind)));
        };
        contact_sheet(pictures.as_ref(), PER_CLASS, path)?;
        told.notes.push(format!("contact sheet of up to {PER_CLASS} pictures a class in {}", path.escaped()));
    }
    if args.json {
        let mut object = told.object;
        object["kind"] = json!(told.kind);
        object["notes"] = json!(told.notes);
        object["sheet"] = json!(args.sheet);
        object["next"] = json!(told.next);
        screen::json(&object.to_string());
        return Ok(Done::Well);
    }
    page(Sink::Stdout, told.page.trim_end());
    if !told.notes.is_empty() {
        line(Sink::Stdout, "");
        told.notes.iter().for_each(|note| line(Sink::Stdout, note));
    }
    line(Sink::Stdout, "");
    line(Sink::Stdout, &format!("next: {}", told.next));
    Ok(Done::Well)
}

fn table(args: &InspectArgs, paths: &[PathBuf]) -> Result<Told, Failure> {
    let options = args.source.read_options()?;
    let mut notes = Vec::new();
    let (mut table, all) = match paths {
        _ if larger_than_memory(paths, &TrackedWishes::new(&args.source.wishes())) => {
            let blocks = open_files(paths, &options, usize::MAX)?;
            let all = blocks.blocks().last().copied().unwrap_or(0) as usize;
            let wanted = args.rows.map_or(SAMPLED, |rows| rows as usize).min(most_sampled(
                paths,
                blocks.as_ref(),
                &TrackedWishes::new(&args.source.wishes()),
            ));
            let sample = Encoded::sample(blocks.as_ref(), wanted, 0)?;
            notes.push(format!(
                "larger than the memory it may take: told from {} of {} rows, drawn from all over it",
                count(sample.rows),
                count(all)
            ));
            (sample, all)
        }
        [path] => whole(Table::read(path, &options)?),
        _ => whole(tables(paths, &options)?),
    };
    if table.rows == all {
        notes.extend(of_series(&table));
    }
    if let Some(rows) = args.rows {
        table = spread(table, rows as usize);
    }
    let target = match (&args.source.reading.target, table.columns.len()) {
        (Some(name), _) => Some(table.column(name)?),
        (None, 0 | 1) => None,
        (None, columns) => Some(columns - 1),
    };
    let mut inspection = inspect::table(&table, target)?;
    inspection.rows = all;
    if !table.header {
        notes.push("the file has no header: columns are named by their place, from 0".into());
    }
    if paths.len() > 1 {
        notes.push(format!("{} files as one table", count(paths.len())));
    }
    let next = match &args.source.reading.target {
        // a series is trained on without a name for its rows
        target if args.source.reading.kind == Some(SourceKind::Series) || in_time(&inspection) => {
            let target = target.as_ref().map_or(String::new(), |name| format!(" --target {}", shell_word(name)));
            format!("--window 96 --horizon 24{target}")
        }
        Some(name) => format!("--target {}", shell_word(name)),
        None => match &inspection.target {
            Some(last) => {
                notes.push("no --target was given: the last column is taken, as citius train does".into());
                format!("--target {}", shell_word(last))
            }
            None => String::new(),
        },
    };
    let next = format!("citius train {}{} {next}", shell_word(&args.source.source), args.source.reading_flags());
    Ok(Told::of(inspection, "table", notes, next.trim_end().to_owned()))
}

/// How rows follow each other in time, where they come at a steady pace.
fn of_series(table: &Table) -> Vec<String> {
    let Ok(Some(index)) = TimeIndex::detect(table, None) else { return Vec::new() };
    let column = table.columns.iter().filter(|column| column.name == index.column && index.step.is_some());
    let times = Table {
        name: table.name.clone(),
        columns: column.cloned().collect(),
        rows: table.rows,
        header: table.header,
        reading: Default::default(),
    };
    let longest = longest_fill(SeriesOptions::default().length);
    let Ok(series) = TimedRows::new(times, Some(&index.column), longest) else { return Vec::new() };
    series.described().map(|told| format!("as a series: {told}")).into_iter().chain(series.remarks).collect()
}

fn whole(table: Table) -> (Table, usize) {
    let rows = table.rows;
    (table, rows)
}

/// Rows with a date each, rising.
fn in_time(inspection: &Inspection) -> bool {
    inspection.warnings.iter().any(|warning| warning.starts_with("rows are in order of time"))
}

/// At most so many rows, evenly spread.
fn spread(table: Table, most: usize) -> Table {
    if table.rows <= most {
        return table;
    }
    let rows: Vec<usize> = (0..most).map(|i| (i as u128 * table.rows as u128 / most as u128) as usize).collect();
    let some = |column: Column| Column {
        name: column.name,
        values: match column.values {
            Values::Number(values) => Values::Number(rows.iter().map(|row| values[*row]).collect()),
            Values::Text { codes, labels } => {
                Values::Text { codes: rows.iter().map(|row| codes[*row]).collect(), labels }
            }
        },
    };
    Table { rows: rows.len(), columns: table.columns.into_iter().map(some).collect(), ..table }
}

fn mnist(args: &InspectArgs, path: &Path) -> Result<Told, Failure> {
    let mnist = mnist_dir(path)?;
    let (name, classes) = (name_of(path), mnist.classes);
    let grid = |(images, labels)| Grid::from_idx(&name, images, labels, classes);
    let train = grid((mnist.train.0, &mnist.train.1[..]))?;
    let test = grid((mnist.test.0, &mnist.test.1[..]))?;
    grids(args, "MNIST directory", train, Some(test))
}

fn cifar(args: &InspectArgs, path: &Path) -> Result<Told, Failure> {
    let (train, test) = read_cifar(path)?.grids(&name_of(path))?;
    match (train, test) {
        (Some(train), test) => grids(args, "CIFAR directory", train, test),
        (None, Some(test)) => grids(args, "CIFAR directory", test, None),
        (None, None) => Err(Failure::Failed(format!("{}: there are no pictures in it", path.escaped()))),
    }
}

/// Pictures of one size, in memory: classes and pixels of the training half, the size of the other.
fn grids(args: &InspectArgs, kind: &'static str, train: Grid, test: Option<Grid>) -> Result<Told, Failure> {
    let mut notes = Vec::new();
    let mut object_test = Value::Null;
    if let Some(test) = &test {
        let mut counts = vec![0usize; test.labels().len()];
        (0..test.len()).for_each(|i| counts[test.label(i) as usize] += 1);
        let (least, most) = (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
        let share = if least == most { count(most) } else { format!("{} to {}", count(least), count(most)) };
        let test = count(test.len());
        notes.push(format!("told from the training half; the test half has {test} pictures, {share} a class"));
        object_test = json!({ "rows": test.len(), "classes": counts });
    }
    let source = PictureSource::new(Box::new(train.clone()), as_it_is(&train), Default::default())?;
    let mut inspection = inspect::source(&source, args.rows.map_or(usize::MAX, |rows| rows as usize))?;
    as_pictures(&mut inspection, &train);
    let next = format!("citius train {}", shell_word(&args.source.source));
    let mut told = Told::of(inspection, kind, notes, next);
    told.object["test"] = object_test;
    told.pictures = Some(Box::new(train));
    Ok(told)
}

/// Fields in the words for pictures.
fn as_pictures(inspection: &mut Inspection, grid: &Grid) {
    let (height, width, channels) = grid.uniform().unwrap_or_default();
    let (names, kind): (&[&str], _) = match channels {
        1 => (&["grey"], "grey"),
        _ => (&["red", "green", "blue"], "RGB"),
    };
    inspection.unit = "picture";
    inspection.target = None;
    inspection.schema = Some(format!("{height}×{width} {kind}, {} classes", count(grid.labels().len())));
    inspection.columns.iter_mut().zip(names).for_each(|(column, name)| column.name = name.to_string());
    for warning in &mut inspection.warnings {
        if let Some(problem) = warning.strip_prefix("x: ") {
            *warning = format!("pixels: {problem}");
        }
    }
}

/// Bytes as they are, `[channels, height, width]`.
pub(super) fn as_it_is(grid: &Grid) -> Pipeline {
    let channels =
        if grid.uniform().is_some_and(|(_, _, channels)| channels == 1) { Channels::Grey } else { Channels::Rgb };
    Pipeline { channels, transforms: Vec::new(), output: Output::U8 }
}

fn folder(args: &InspectArgs, path: &Path) -> Result<Told, Failure> {
    let pictures = open_pictures(path)?;
    let inspection = inspect::pictures(pictures.as_ref(), args.rows.map_or(DECODED, |rows| rows as usize));
    let kind = if args.source.reading.kind.is_some() { " --kind pictures" } else { "" };
    let next = format!("citius train {}{kind}", shell_word(path));
    let mut told = Told::of(inspection, "folder of pictures", Vec::new(), next);
    told.pictures = Some(pictures);
    Ok(told)
}

fn text(args: &InspectArgs, path: &Path) -> Result<Told, Failure> {
    let inspection = inspect::text(path)?;
    let kind = if args.source.reading.kind.is_some() { " --kind text" } else { "" };
    Ok(Told {
        kind: "text",
        page: inspection.to_string(),
        object: object(&inspection)?,
        notes: Vec::new(),
        next: format!("citius train {}{kind} --window 32", shell_word(path)),
        pictures: None,
    })
}

impl Told {
    pub fn of(inspection: Inspection, kind: &'static str, notes: Vec<String>, next: String) -> Told {
        let object = object(&inspection).unwrap_or_default();
        Told { kind, page: inspection.to_string(), object, notes, next, pictures: None }
    }
}

fn object(told: &impl serde::Serialize) -> Result<Value, Failure> {
    serde_json::to_value(told).map_err(|error| Failure::Failed(error.to_string()))
}

pub(super) fn name_of(path: &Path) -> String {
    let full = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    full.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
