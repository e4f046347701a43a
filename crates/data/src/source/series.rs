//! Windows over the rows of a table in the order of time: some rows, and what follows them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::scale::{ColumnScale, SeriesScale};
use super::stored::check;
use super::{Rows, Source};
use crate::error::DataError;
use crate::schema::{Field, INPUT, Kind, Schema, TARGET};
use crate::slot::FieldMut;
use crate::split::Splits;
use crate::table::{Table, Values};

/// What a series is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesOptions {
    /// Columns a window holds, by name or index; all with numbers if empty.
    pub columns: Vec<String>,
    /// Columns to predict; the last with numbers if empty.
    pub targets: Vec<String>,
    /// Rows of a window.
    pub length: usize,
    /// From a window to the next.
    pub stride: usize,
    /// Rows to predict behind a window.
    pub horizon: usize,
    /// Rows that mean and deviation are taken from: those for training. All if `None`.
    pub fit_rows: Option<Range<usize>>,
    /// Means and deviations a model was trained with, instead of those of `fit_rows`.
    pub scale: Option<SeriesScale>,
    pub missing: Missing,
}

impl Default for SeriesOptions {
    fn default() -> SeriesOptions {
        SeriesOptions {
            columns: Vec::new(),
            targets: Vec::new(),
            length: 96,
            stride: 1,
            horizon: 1,
            fit_rows: None,
            scale: None,
            missing: Missing::Refuse,
        }
    }
}

/// What to do with a missing value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missing {
    #[default]
    Refuse,
    /// The value of the row before takes its place.
    Previous,
}

/// Rows are windows: `x f32[length, columns]`, `y f32[horizon, targets]`; all scaled to mean 0 and deviation 1.
pub struct SeriesWindows {
    name: String,
    /// `[table rows, columns]`
    x: Vec<f32>,
    /// `[table rows, targets]`
    y: Vec<f32>,
    table_rows: usize,
    length: usize,
    stride: usize,
    horizon: usize,
    scale: SeriesScale,
    notes: Vec<String>,
    schema: Schema,
    rows: u32,
}

impl SeriesWindows {
    pub fn new(table: &Table, options: &SeriesOptions) -> Result<SeriesWindows, DataError> {
        table.check()?;
        let SeriesOptions { length, stride, horizon, .. } = *options;
        if length == 0 || stride == 0 || horizon == 0 {
            return Err(DataError::Inconsistent(format!(
                "{}: windows of {length} rows every {stride}, {horizon} to predict; each must be at least 1",
                table.name
            )));
        }
        let Some(room) = length.checked_add(horizon).and_then(|need| table.rows.checked_sub(need)) else {
            return Err(DataError::Empty {
                file: table.name.clone(),
                what: format!(
                    "{} rows are too few for a window of {length} and {horizon} to predict behind it",
                    table.rows
                ),
                next: "use shorter windows or a longer series".into(),
            });
        };
        let rows = u32::try_from(room / stride + 1)
            .map_err(|_| DataError::Inconsistent(format!("{}: more than {} windows", table.name, u32::MAX)))?;

        let (columns, targets, notes) = pick(table, options)?;
        let scale = match &options.scale {
            Some(scale) => scale.clone().of(table, &columns, &targets)?,
            None => SeriesScale::fit(table, &columns, &targets, options.fit_rows.clone())?,
        };
        let x = scaled(table, 0..table.rows, &columns, &scale.columns, options.missing)?;
        let y = scaled(table, 0..table.rows, &targets, &scale.targets, options.missing)?;
        let schema = Schema::new(vec![
            Field::new(INPUT, Kind::F32, &[length, columns.len()]),
            Field::new(TARGET, Kind::F32, &[horizon, targets.len()]),
        ])?;
        let (name, table_rows) = (table.name.clone(), table.rows);
        Ok(SeriesWindows { name, x, y, table_rows, length, stride, horizon, scale, notes, schema, rows })
    }

    /// How values were scaled, to be kept with a model.
    pub fn scale(&self) -> &SeriesScale {
        &self.scale
    }

    /// What was left out, for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The windows that predict rows of the table within `rows` alone; with `reach_back` their inputs may lie before.
    pub fn windows_in(&self, rows: Range<usize>, reach_back: bool) -> Range<u32> {
        let end = rows.end.min(self.table_rows);
        let first = match reach_back {
            true => rows.start.saturating_sub(self.length),
            false => rows.start,
        }
        .div_ceil(self.stride);
        // starts s with s + length + horizon ≤ end
        let after = match end.checked_sub(self.length + self.horizon) {
            Some(last) => last / self.stride + 1,
            None => 0,
        };
        first.min(after) as u32..after as u32
    }

    /// Windows for ranges of table rows, apart from each other: no window crosses a border. With `reach_back` the inputs
    /// of validation and test windows may lie before theirs, as they are known by then.
    pub fn split(
        &self,
        train: Range<usize>,
        validation: Range<usize>,
        test: Range<usize>,
        reach_back: bool,
    ) -> Result<Splits, DataError> {
        let parts = [("training", train, false), ("validation", validation, reach_back), ("test", test, reach_back)];
        for (i, (what, rows, _)) in parts.iter().enumerate() {
            let overlapping = |other: &Range<usize>| rows.start < other.end && other.start < rows.end;
            if let Some((other, ..)) = parts[..i].iter().find(|(_, other, _)| overlapping(other) && !rows.is_empty()) {
                return Err(DataError::Split(format!("{}: {other} and {what} rows overlap", self.name)));
            }
        }
        let [train, validation, test] = parts.map(|(what, rows, reach_back)| {
            let windows = self.windows_in(rows.clone(), reach_back);
            match windows.is_empty() && !rows.is_empty() {
                false => Ok(windows.collect()),
                true => Err(DataError::Split(format!(
                    "{}: {} rows for {what} hold no window of {} rows with {} to predict",
                    self.name,
                    rows.len(),
                    self.length,
                    self.horizon
                ))),
            }
        });
        Ok(Splits { train: train?, validation: validation?, test: test? })
    }
}

impl Source for SeriesWindows {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u32 {
        self.rows
    }

    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        check(self, rows, into)?;
        let [FieldMut::F32(x), FieldMut::F32(y)] = into else { return Ok(()) };
        let copy = |from: &[f32], width: usize, skip: usize, count: usize, to: &mut [f32]| {
            for (row, to) in rows.numbers.iter().zip(to.chunks_exact_mut((count * width).max(1))) {
                to.copy_from_slice(&from[(*row as usize * self.stride + skip) * width..][..count * width]);
            }
        };
        copy(&self.x, self.scale.columns.len(), 0, self.length, x);
        copy(&self.y, self.scale.targets.len(), self.length, self.horizon, y);
        Ok(())
    }
}

impl SeriesScale {
    /// Rows of a table as windows hold them, `[rows, columns]`. The columns to predict need not be there.
    pub fn inputs(&self, table: &Table, rows: Range<usize>) -> Result<Vec<f32>, DataError> {
        table.check()?;
        if rows.start > rows.end || rows.end > table.rows {
            let problem = format!("{}: rows {rows:?} of a table of {}", table.name, table.rows);
            return Err(DataError::Inconsistent(problem));
        }
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let columns = numeric(table, &names)?;
        scaled(table, rows, &columns, &self.columns, Missing::Refuse)
    }
}

/// Columns of windows, columns to predict, and what was left out.
type Picked = (Vec<usize>, Vec<usize>, Vec<String>);

fn pick(table: &Table, options: &SeriesOptions) -> Result<Picked, DataError> {
    let all = || (0..table.columns.len()).filter(|column| is_numeric(table, *column));
    let Some(last) = all().next_back() else {
        return Err(DataError::NoFeatures { file: table.name.clone(), why: "no column holds numbers".into() });
    };
    let mut notes = Vec::new();
    let columns = match options.columns.is_empty() {
        false => numeric(table, &options.columns)?,
        true => {
            for column in table.columns.iter().filter(|column| matches!(column.values, Values::Text { .. })) {
                notes.push(format!("column {:?} holds text and is left out", column.name));
            }
            all().collect()
        }
    };
    let targets = if options.targets.is_empty() { vec![last] } else { numeric(table, &options.targets)? };
    Ok((columns, targets, notes))
}

/// The columns of these names or indices, which must hold numbers.
fn numeric(table: &Table, specs: &[String]) -> Result<Vec<usize>, DataError> {
    let columns = specs.iter().map(|spec| table.column(spec)).collect::<Result<Vec<_>, _>>()?;
    match columns.iter().find(|column| !is_numeric(table, **column)) {
        None => Ok(columns),
        Some(column) => Err(DataError::NoFeatures {
            file: table.name.clone(),
            why: format!("column {:?} holds text; a series is made of numbers", table.columns[*column].name),
        }),
    }
}

fn is_numeric(table: &Table, column: usize) -> bool {
    matches!(table.columns[column].values, Values::Number(_))
}

/// Rows of the columns beside each other, row-major, scaled.
fn scaled(
    table: &Table,
    rows: Range<usize>,
    columns: &[usize],
    scales: &[ColumnScale],
    missing: Missing,
) -> Result<Vec<f32>, DataError> {
    let mut out = vec![0.0; rows.len() * columns.len()];
    for (at, (column, scale)) in columns.iter().zip(scales).enumerate() {
        let Values::Number(values) = &table.columns[*column].values else { continue };
        let mut previous = None;
        for (i, value) in values[rows.clone()].iter().enumerate() {
            let wrong = |problem: &str, next: &str| DataError::Cell {
                place: table.place(rows.start + i, *column),
                problem: problem.to_owned(),
                next: next.to_owned(),
            };
            let value = match (value.is_nan(), missing, previous) {
                (false, ..) => *value,
                (true, Missing::Previous, Some(previous)) => previous,
                (true, Missing::Previous, None) => {
                    return Err(wrong("the value is missing, and so is any before it", "remove the first rows"));
                }
                (true, Missing::Refuse, _) => {
                    return Err(wrong("the value is missing", "fill it, or let the previous value take its place"));
                }
            };
            previous = Some(value);
            let number = ((value - scale.mean) / scale.deviation) as f32;
            if !number.is_finite() {
                return Err(wrong(&format!("{value} is too far from the other values"), "correct or remove it"));
            }
            out[i * columns.len() + at] = number;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ReadOptions;

    fn table(text: &str) -> Table {
        Table::from_bytes("s.csv", text.as_bytes(), &ReadOptions::default()).unwrap()
    }

    /// a = 0, 1, 2 …, b = 10 · a
    fn ramp(rows: usize) -> Table {
        let lines = (0..rows).map(|i| format!("2020-01-{:02},{i},{}\n", i % 28 + 1, i * 10));
        table(&format!("date,a,b\n{}", lines.collect::<String>()))
    }

    fn options(length: usize, stride: usize, horizon: usize) -> SeriesOptions {
        SeriesOptions { length, stride, horizon, ..Default::default() }
    }

    fn row(windows: &SeriesWindows, row: u32) -> (Vec<f32>, Vec<f32>) {
        let width = |f: usize| windows.schema().fields[f].width();
        let (mut x, mut y) = (vec![0.0; width(0)], vec![0.0; width(1)]);
        let rows = Rows { numbers: &[row], seed: 0, epoch: 0 };
        windows.gather(&rows, &mut [FieldMut::F32(&mut x), FieldMut::F32(&mut y)]).unwrap();
        (x, y)
    }

    fn column(name: &str, mean: f64, deviation: f64) -> ColumnScale {
        ColumnScale { name: name.to_owned(), mean, deviation }
    }

    #[test]
    fn windows_hold_what_the_table_has() {
        let scale = SeriesScale {
            columns: vec![column("a", 0.0, 1.0), column("b", 10.0, 10.0)],
            targets: vec![column("b", 10.0, 10.0)],
        };
        let windows = SeriesWindows::new(&ramp(10), &SeriesOptions { scale: Some(scale), ..options(3, 2, 2) }).unwrap();
        assert_eq!(windows.schema().to_string(), "x f32[3, 2], y f32[2, 1]");
        assert_eq!(windows.notes(), ["column \"date\" holds text and is left out"]);
        assert_eq!(windows.rows(), 3); // 0..5, 2..7, 4..9
        let (x, mut y) = row(&windows, 2);
        assert_eq!(x, [4.0, 3.0, 5.0, 4.0, 6.0, 5.0]);
        windows.scale().restore(&mut y);
        assert_eq!(y, [70.0, 80.0]);
    }

    #[test]
    fn the_scale_is_that_of_the_training_rows() {
        let fit = |fit_rows| {
            let options = SeriesOptions { fit_rows: Some(fit_rows), columns: vec!["b".into()], ..options(2, 1, 1) };
            SeriesWindows::new(&ramp(9), &options)
        };
        let scale = fit(0..3).unwrap().scale().clone();
        assert_eq!(scale.columns, scale.targets);
        assert_eq!(scale.columns[0].mean, 10.0);
        assert!((scale.columns[0].deviation - (200f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(fit(4..5).unwrap().scale().targets[0].deviation, 1.0, "a constant is only moved");
        assert!(fit(3..3).is_err() && fit(0..10).is_err());
    }

    #[test]
    fn splits_cross_no_border() {
        for stride in 1..4 {
            let windows = SeriesWindows::new(&ramp(60), &options(5, stride, 2)).unwrap();
            for reach_back in [false, true] {
                let splits = windows.split(0..30, 30..45, 45..60, reach_back).unwrap();
                let parts = [(&splits.train, 0..30), (&splits.validation, 30..45), (&splits.test, 45..60)];
                for (i, (part, rows)) in parts.into_iter().enumerate() {
                    let reach = if reach_back && i > 0 { 5 } else { 0 };
                    let inside = |window: &u32| {
                        let start = *window as usize * stride;
                        start + reach >= rows.start && start + 7 <= rows.end
                    };
                    let want: Vec<u32> = (0..windows.rows()).filter(inside).collect();
                    assert_eq!(*part, want, "stride {stride}, part {i}");
                }
            }
        }
        let windows = SeriesWindows::new(&ramp(60), &options(5, 1, 2)).unwrap();
        assert!(windows.split(0..30, 20..40, 40..60, true).unwrap_err().to_string().contains("overlap"));
        let error = windows.split(0..50, 50..54, 54..60, false).unwrap_err().to_string();
        assert!(error.contains("4 rows for validation hold no window of 5 rows"), "{error}");
        assert!(windows.split(0..40, 40..40, 40..60, false).unwrap().validation.is_empty());
    }

    #[test]
    fn missing_values_are_told_or_filled() {
        let gaps = table("a,b\n1,2\n,3\n3,4\n4,5\n");
        let ask = |missing| SeriesWindows::new(&gaps, &SeriesOptions { missing, ..options(2, 1, 1) });
        let error = ask(Missing::Refuse).err().unwrap().to_string();
        assert!(error.contains("row 2, column \"a\""), "{error}");
        let windows = ask(Missing::Previous).unwrap();
        let (x, _) = row(&windows, 0);
        assert_eq!(x[0], x[2]);
        let late = table("a,b\n,2\n1,3\n3,4\n4,5\n");
        let error = SeriesWindows::new(&late, &SeriesOptions { missing: Missing::Previous, ..options(2, 1, 1) });
        assert!(error.err().unwrap().to_string().contains("row 1"));
    }

    #[test]
    fn inputs_are_those_of_windows() {
        let columns = vec![column("a", 0.0, 1.0), column("b", 10.0, 10.0)];
        let scale = SeriesScale { columns, targets: vec![column("c", 0.0, 1.0)] };
        assert_eq!(scale.inputs(&ramp(10), 8..10).unwrap(), [8.0, 7.0, 9.0, 8.0]);
        assert!(scale.inputs(&ramp(10), 8..11).is_err());
        let gap = table("a,b\n,2\n1,3\n3,\n");
        assert_eq!(scale.inputs(&gap, 1..2).unwrap(), [1.0, -0.7]);
        let error = scale.inputs(&gap, 1..3).unwrap_err().to_string();
        assert!(error.contains("row 3, column \"b\""), "{error}");
        assert!(scale.inputs(&table("a\n1\n"), 0..1).unwrap_err().to_string().contains("no column \"b\""));
    }

    #[test]
    fn mistakes_are_told() {
        let ask = |options: SeriesOptions| SeriesWindows::new(&ramp(10), &options).err().unwrap().to_string();
        let error = ask(options(8, 1, 3));
        assert!(error.contains("10 rows are too few for a window of 8 and 3"), "{error}");
        assert!(ask(options(usize::MAX, 1, 1)).contains("too few"));
        assert!(ask(options(1, 0, 1)).contains("at least 1"));
        let columns = |name: &str| SeriesOptions { columns: vec![name.into()], ..options(2, 1, 1) };
        assert!(ask(columns("date")).contains("holds text"));
        assert!(ask(columns("c")).contains("no column \"c\""));
        let scale = SeriesScale { columns: Vec::new(), targets: Vec::new() };
        assert!(ask(SeriesOptions { scale: Some(scale), ..options(2, 1, 1) }).contains("a, b"));
    }
}
