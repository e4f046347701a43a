//! Windows over a time series: the past predicts what follows, judged on the latest rows.

use std::path::Path;
use std::sync::Arc;

use citius_data::source::{ColumnScale, SeriesOptions, SeriesScale, SeriesWindows, TimedRows, longest_fill};
use citius_data::{Features, Scale, Source, Table, Target};
use citius_nn::Network;

use super::data_memory::{DataMemory, refuse_larger};
use super::given::refuse_row_files;
use super::rows::{Parts, RowsFrom, RowsInput, dataset_of};
use super::{Problem, count, plural, read_options, refuse_other_preparation, stem};
use crate::config::TrackedWishes;
use crate::{Choice, TrainError};

/// Rows seen when nobody says otherwise, two weeks of hours; at most the twentieth part of the table.
const LENGTH: usize = 336;
const PARTS: usize = 20;

impl Problem {
    pub(super) fn series(path: &Path, wishes: &TrackedWishes<'_>) -> Result<Problem, TrainError> {
        let why = "the rows of a series are divided by their order in time, and its windows overlap; \
                   use --validation and --test, shares of the latest rows";
        refuse_row_files(wishes, why)?;
        refuse_larger(path, "a series", wishes)?;
        let table = Table::read(path, &read_options(wishes)?)?;
        let (stride, horizon) = (wishes.stride.unwrap_or(1), wishes.horizon.unwrap_or(1));
        let length = wishes.window.unwrap_or(LENGTH.min(table.rows / PARTS).max(1));
        let (fill, longest) = (wishes.fill.unwrap_or_default(), longest_fill(length));
        let series = TimedRows::new(table, wishes.time.as_deref(), longest)?;
        let table = &series.table;
        // the latest rows are kept for judging, and before them those that decide when to stop
        let after = |share: f64, end: usize| end - (end as f64 * share.clamp(0.0, 1.0)) as usize;
        let test = after(wishes.test.unwrap_or(0.2), table.rows);
        let validation = after(wishes.validation.unwrap_or(0.2), test);
        // a column's own past says most about it, and a straight line of it overlooks the others
        let alone = match &*wishes.model {
            Some(network) => *network == Network::Nlinear,
            None => wishes.hidden.is_none() && wishes.layers.is_none(),
        };
        let targets: Vec<String> = wishes.target.clone().into_iter().collect();
        let options = SeriesOptions {
            columns: match (alone, &targets[..]) {
                (true, []) => vec![last_numeric(&series)],
                (true, _) => targets.clone(),
                (false, _) => Vec::new(),
            },
            targets,
            length,
            stride,
            horizon,
            fit_rows: Some(0..validation),
            fill,
            longest_fill: longest,
            ..SeriesOptions::default()
        };
        let mut windows = SeriesWindows::new(&series, &options)?;
        if let Some(scale) = rescaled(windows.scale(), wishes)? {
            windows = SeriesWindows::new(&series, &SeriesOptions { scale: Some(scale), ..options })?;
        }
        let splits = windows.split(0..validation, validation..test, test..table.rows, true)?;
        let scale = windows.scale().clone();
        let names = |columns: &[citius_data::source::ColumnScale]| {
            columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let mut choices = vec![
            Choice::new("data", format!("{}: {} rows in the order of time", table.name, count(table.rows)), ""),
            Choice::new("order", series.described().unwrap_or("the order of the file".to_owned()), ""),
            Choice::new("task", format!("the next {horizon} of {}", names(&scale.targets)), "regression"),
            Choice::new("inputs", format!("{length} rows of {}", names(&scale.columns)), "standardised"),
            Choice::new("split", "training rows first, then validation, test rows last", "windows cross no border"),
        ];
        choices.extend(
            (series.remarks.iter().chain(&table.reading.notes()).chain(windows.notes()))
                .map(|note| Choice::new("note", note.as_str(), "")),
        );
        let season = series.index.as_ref().and_then(|index| index.step?.season(&index.format));
        for (period, why) in [
            (Some(1), "if the last value of a window stayed".to_owned()),
            (season, format!("if the last {} of a window came again", plural(season.unwrap_or(0), "value"))),
        ] {
            let Some(period) = period.filter(|period| *period <= length) else { continue };
            if let Some(rmse) = repeated_values(&windows, &splits.test, period)? {
                choices.push(Choice::new("baseline", format!("rmse {rmse:.4} on the test rows"), why));
            }
        }
        let target_scale = match &scale.targets[..] {
            [one] => (one.mean, one.deviation),
            _ => (0.0, 1.0),
        };
        let input = RowsInput {
            from: RowsFrom::Series { length, stride, horizon, scale, time: series.index.clone(), fill },
            schema: flat_target(windows.schema())?,
            bytes: (1.0, 0.0),
            target_scale,
        };
        let source: Arc<dyn Source> = Arc::new(windows);
        let (name, stem) = (table.name.clone(), stem(path));
        let parts = Parts {
            name,
            stem,
            input,
            train: source.clone(),
            judged: source,
            constant: true,
            mix: None,
            splits,
            why_rows: None,
            choices,
        };
        Problem::of_parts(parts, super::loading(wishes), DataMemory::of(wishes).bytes)
    }
}

/// The scale that was asked for, where it is not the usual one.
fn rescaled(fitted: &SeriesScale, wishes: &TrackedWishes<'_>) -> Result<Option<SeriesScale>, TrainError> {
    let told = wishes.prepare.clone().unwrap_or_default();
    refuse_other_preparation(&told, &["scale", "scale-times", "scale-target"], "series")?;
    let raw = |scale: Option<Scale>, what: &str| match scale {
        None | Some(Scale::Standard) => Ok(false),
        Some(Scale::None) => Ok(true),
        Some(Scale::MinMax | Scale::Robust) => {
            Err(TrainError::Setting(format!("prepare.{what}: the columns of a series know standard and none")))
        }
    };
    let (columns, targets) = (raw(told.scale, "scale")?, raw(told.scale_target, "scale-target")?);
    let times = told.scale_times.unwrap_or(1);
    if !(1..=4).contains(&times) {
        let problem = format!("columns cannot be scaled {times} times; leave scale-times out, or use 1 to 4");
        return Err(TrainError::Setting(problem));
    }
    if !columns && !targets && times == 1 {
        return Ok(None);
    }
    let of = |column: &ColumnScale, raw: bool, times: usize| {
        let ColumnScale { name, mean, deviation } = column.clone();
        let (m, s) = if raw { (0.0, 1.0) } else { (mean, deviation) };
        let (mean, deviation) = (1..times).fold((m, s), |(mean, deviation), _| (mean + m * deviation, deviation * s));
        ColumnScale { name, mean, deviation }
    };
    Ok(Some(SeriesScale {
        columns: fitted.columns.iter().map(|column| of(column, columns, times)).collect(),
        targets: fitted.targets.iter().map(|column| of(column, targets, 1)).collect(),
    }))
}

/// The column predicted when none is named.
fn last_numeric(series: &TimedRows) -> String {
    let numeric = |column: &&citius_data::table::Column| {
        let is_time = series.index.as_ref().is_some_and(|index| index.column == column.name);
        matches!(column.values, citius_data::table::Values::Number(_)) && !is_time
    };
    // none: said where the windows are made
    series.table.columns.iter().rev().find(numeric).map_or_else(|| "-1".to_owned(), |column| column.name.clone())
}

/// Root of the mean squared error of saying that the last `period` values of a window come again, in the units of the only target.
fn repeated_values(windows: &SeriesWindows, rows: &[u32], period: usize) -> Result<Option<f64>, TrainError> {
    let SeriesScale { columns, targets } = windows.scale();
    let [target] = &targets[..] else { return Ok(None) };
    let Some(at) = columns.iter().position(|column| column.name == target.name) else { return Ok(None) };
    let (mut squares, mut terms) = (0.0, 0.0);
    for some in rows.chunks(SOME) {
        let data = dataset_of(windows, some, (1.0, 0.0))?;
        let (Features::F32 { data: x, width }, Target::Values { data: y, width: ahead }) =
            (&data.features, &data.target)
        else {
            return Ok(None);
        };
        for (x, y) in x.chunks_exact(*width).zip(y.chunks_exact(*ahead)) {
            let value = |step: usize| x[width - (period - step % period) * columns.len() + at] as f64;
            squares += y.iter().enumerate().map(|(step, y)| (*y as f64 - value(step)).powi(2)).sum::<f64>();
            terms += y.len() as f64;
        }
    }
    Ok((terms > 0.0).then(|| (squares / terms).sqrt() * target.deviation))
}

/// Windows looked at together.
const SOME: usize = 256;

/// A network of plain layers gives one row of numbers: `y` without its shape.
fn flat_target(schema: &citius_data::Schema) -> Result<citius_data::Schema, TrainError> {
    let mut fields = schema.fields.clone();
    for field in fields.iter_mut().filter(|field| field.name == citius_data::schema::TARGET) {
        field.shape = vec![field.width()];
    }
    Ok(citius_data::Schema::new(fields)?)
}
