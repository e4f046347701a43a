//! What is in a packed file: from the statistics it keeps of all its rows, and from some blocks of it.

use std::path::Path;

use citius_data::inspect::{self, ColumnSummary, Label};
use citius_data::packed::{ColumnStats, Metadata};
use citius_data::picture::Layout;
use citius_data::source::Stored;
use citius_data::table::{Column, Values};
use citius_data::{
    DataError, FieldMut, Grid, Inspection, Kind, MISSING, PackedFile, Preparation, Schema, Source, Stream, Table,
    schema, shell_word,
};
use citius_train::{PREPARATION_NOTE, count};
use serde_json::json;

use super::Progress;
use super::inspect::{InspectArgs, Told};
use crate::error::Failure;

/// Rows read where nobody says otherwise, and the bytes they may take.
const SAMPLED: usize = 20_000;
const SAMPLED_BYTES: usize = 256 << 20;
/// Inputs told one by one.
const MOST_INPUTS: usize = 1024;

pub(super) fn tell(args: &InspectArgs, path: &Path) -> Result<Told, Failure> {
    let file = PackedFile::open(path)?;
    let mut notes = Vec::new();
    if args.verify {
        let progress = Progress::new("blocks");
        file.verify(&mut |done, all| progress.at(done as u64, all as u64))?;
        drop(progress);
        let blocks = file.blocks().len().saturating_sub(1);
        notes.push(format!("every byte of its {} blocks was read and fits its checksum", count(blocks)));
    }
    let meta = file.metadata();
    let room = SAMPLED_BYTES / meta.schema.row_bytes().max(1);
    let wanted = args.rows.map_or(SAMPLED, |rows| rows as usize).min(room.max(1));
    let sample = Stored::from_stream(&Spread::of(&file, wanted))?;
    let preparation = preparation(meta);
    let table = preparation.as_ref().and_then(|preparation| as_table(&file, &sample, preparation));
    let mut inspection = match &table {
        Some(table) => inspect::table(table, Some(table.columns.len() - 1))?,
        None => inspect::source(&sample, usize::MAX)?,
    };
    inspection.name = file.name().to_owned();
    inspection.rows = meta.rows as usize;
    inspection.schema = Some(meta.schema.to_string());
    let known = exact(&mut inspection, meta, preparation.filter(|_| table.is_some()));
    let part = match (inspection.rows_read < inspection.rows, known) {
        (false, _) => "",
        (true, true) => "; min, max, mean and deviation are those of all rows",
        (true, false) => "; told from the rows that were read",
    };
    notes.push(format!("packed from {}{part}", meta.source));
    let mut told = Told::of(inspection, "packed file", notes, format!("citius train {}", shell_word(path)));
    told.object["statistics"] = json!(meta.statistics);
    told.object["source"] = json!(meta.source);
    told.object["verified"] = json!(args.verify);
    told.pictures = pictures(&file, &sample);
    Ok(told)
}

/// Blocks evenly spread over a file.
struct Spread<'a> {
    file: &'a PackedFile,
    chosen: Vec<usize>,
    starts: Vec<u32>,
}

impl<'a> Spread<'a> {
    /// As many as hold about `rows` rows.
    fn of(file: &'a PackedFile, rows: usize) -> Spread<'a> {
        let all = file.blocks().len().saturating_sub(1);
        let largest = file.blocks().windows(2).map(|cut| cut[1] - cut[0]).max().unwrap_or(1).max(1) as usize;
        let wanted = rows.div_ceil(largest).clamp(1, all.max(1)).min(all);
        let chosen: Vec<usize> = (0..wanted).map(|i| i * all / wanted).collect();
        let mut starts = vec![0];
        for block in &chosen {
            starts.push(starts[starts.len() - 1] + file.blocks()[block + 1] - file.blocks()[*block]);
        }
        Spread { file, chosen, starts }
    }
}

impl Stream for Spread<'_> {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn schema(&self) -> &Schema {
        Stream::schema(self.file)
    }

    fn blocks(&self) -> &[u32] {
        &self.starts
    }

    fn read(&self, block: usize, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        self.file.read(self.chosen[block], into)
    }
}

/// What a packed table was, where its inputs can be told one by one.
fn preparation(meta: &Metadata) -> Option<Preparation> {
    let preparation: Preparation = serde_json::from_value(meta.notes.get(PREPARATION_NOTE)?.clone()).ok()?;
    let width = meta.schema.field(schema::INPUT)?.width();
    (preparation.features() == width && width <= MOST_INPUTS).then_some(preparation)
}

/// The inputs of a packed table as columns, the target behind them.
fn as_table(file: &PackedFile, sample: &Stored, preparation: &Preparation) -> Option<Table> {
    let [x, y] = &Stream::schema(file).fields[..] else { return None };
    let view = sample.view(0..sample.rows());
    let values = view[0].f32().filter(|_| x.kind == Kind::F32)?;
    let (rows, width) = (sample.rows() as usize, x.width());
    let column = |place: usize| Values::Number((0..rows).map(|row| values[row * width + place] as f64).collect());
    let named = |(place, name): (usize, String)| Column { name, values: column(place) };
    let mut columns: Vec<Column> = preparation.feature_names().into_iter().enumerate().map(named).collect();
    let labels = preparation.class_labels().to_vec();
    let code = |class: i64| if (0..labels.len() as i64).contains(&class) { class as u32 } else { MISSING };
    let values = match (view[1].f32(), view[1].i32()) {
        (Some(values), _) if y.width() == 1 && labels.is_empty() => {
            Values::Number(values.iter().map(|value| *value as f64).collect())
        }
        (Some(values), _) if y.width() == 1 => {
            Values::Text { codes: values.iter().map(|value| code(*value as i64)).collect(), labels: labels.clone() }
        }
        (_, Some(values)) if y.width() == 1 => {
            Values::Text { codes: values.iter().map(|value| code(*value as i64)).collect(), labels: labels.clone() }
        }
        _ => return None,
    };
    columns.push(Column { name: preparation.target_name().to_owned(), values });
    (columns.len() == width + 1).then(|| Table {
        name: file.name().to_owned(),
        rows,
        header: true,
        columns,
        reading: Default::default(),
    })
}

/// What the file knows of all rows takes the place of what a sample told; whether it knows all of it.
fn exact(inspection: &mut Inspection, meta: &Metadata, preparation: Option<Preparation>) -> bool {
    let [x, y] = &meta.statistics[..] else { return false };
    let mut stats: Vec<ColumnStats> = Vec::new();
    for (field, known) in meta.schema.fields.iter().zip([x, y]) {
        match field.shape[..] {
            _ if !field.labels.is_empty() => {} // classes, below
            _ if preparation.is_some() => stats.extend(&known.columns),
            [channels @ 2..=16, height, width] => {
                let planes = known.columns.chunks((height * width).max(1)).map(merged);
                stats.extend(planes.take(channels));
            }
            _ => stats.push(known.all),
        }
    }
    // a target of classes is the last column of a table
    let numbers = inspection.columns.iter_mut().filter(|column| column.numbers.is_some());
    let known = stats.len() >= numbers.count();
    if known {
        let numbers = inspection.columns.iter_mut().filter(|column| column.numbers.is_some());
        numbers.zip(&stats).for_each(|(column, stats)| put(column, stats));
    }
    let labels = match (meta.schema.field(schema::TARGET), &preparation) {
        (_, Some(preparation)) => preparation.class_labels(),
        (Some(field), None) => &field.labels,
        (None, None) => &[],
    };
    // of two classes that are kept as 0 and 1, the mean is the share of the second
    let ones = (y.all.mean.clamp(0.0, 1.0) * y.all.count as f64).round() as u64;
    let pair = [y.all.count.saturating_sub(ones), ones];
    let counts = if y.classes.is_empty() && labels.len() == 2 { &pair[..] } else { &y.classes };
    if counts.len() == labels.len() && !labels.is_empty() {
        let all: u64 = counts.iter().sum();
        let class = |(label, rows): (&String, &u64)| Label {
            label: label.clone(),
            rows: *rows as usize,
            share: *rows as f64 / all.max(1) as f64,
        };
        inspection.classes = labels.iter().zip(counts).map(class).collect();
    }
    known
}

/// The statistics of several columns as those of one: E[x²] = Σ n (σ² + μ²) / Σ n.
fn merged(columns: &[ColumnStats]) -> ColumnStats {
    let count: u64 = columns.iter().map(|c| c.count).sum();
    let filled = || columns.iter().filter(|c| c.count > 0);
    let over =
        |value: fn(&ColumnStats) -> f64| filled().map(|c| value(c) * c.count as f64).sum::<f64>() / count.max(1) as f64;
    let mean = over(|c| c.mean);
    let square = over(|c| c.deviation * c.deviation + c.mean * c.mean);
    ColumnStats {
        count,
        missing: columns.iter().map(|c| c.missing).sum(),
        infinite: columns.iter().map(|c| c.infinite).sum(),
        min: filled().map(|c| c.min).fold(f64::INFINITY, f64::min),
        max: filled().map(|c| c.max).fold(f64::NEG_INFINITY, f64::max),
        mean,
        deviation: (square - mean * mean).max(0.0).sqrt(),
    }
}

fn put(column: &mut ColumnSummary, stats: &ColumnStats) {
    let all = stats.count + stats.missing + stats.infinite;
    column.missing = stats.missing as usize;
    column.missing_share = stats.missing as f64 / all.max(1) as f64;
    if let Some(numbers) = &mut column.numbers {
        (numbers.min, numbers.max) = (stats.min, stats.max);
        // what is left of a mean of 0 after rounding says nothing
        let zero = stats.mean.abs() < stats.deviation * 1e-6;
        (numbers.mean, numbers.deviation) = (if zero { 0.0 } else { stats.mean }, stats.deviation);
    }
}

/// Rows of bytes with one or three channels, and classes.
fn pictures(file: &PackedFile, sample: &Stored) -> Option<Box<dyn citius_data::Pictures>> {
    let [x, y] = &Stream::schema(file).fields[..] else { return None };
    let [channels @ (1 | 3), height, width] = x.shape[..] else { return None };
    let view = sample.view(0..sample.rows());
    let (pixels, classes) = (view[0].u8()?.to_vec(), view[1].i32()?.to_vec());
    let shape = [height, width, channels];
    let grid = Grid::new(file.name(), shape, Layout::Chw, pixels, classes, y.labels.clone()).ok()?;
    Some(Box::new(grid))
}
