//! Windows over the rows of a table in the order of time: some rows, and what follows them.

use std::borrow::Cow;
use std::ops::Range;

use super::gap_fill::{GapFill, fill};
use super::scale::{ColumnScale, SeriesScale};
use super::stored::check;
use super::time_index::TimedRows;
use super::{Rows, Source};
use crate::error::DataError;
use crate::plural;
use crate::schema::{Field, INPUT, Kind, Schema, TARGET};
use crate::slot::FieldMut;
use crate::split::Splits;
use crate::table::{Column, Table, Values};

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
    /// What takes the place of missing values, and of the rows of gaps.
    pub fill: GapFill,
    /// Runs of more missing values are not filled, and no window holds one of them.
    pub longest_fill: usize,
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
            fill: GapFill::default(),
            longest_fill: longest_fill(96),
        }
    }
}

/// The longest run of missing values that is filled in windows of so many rows. Of two weeks of hours it is 14 hours: more of a
/// window should not be made up.
pub fn longest_fill(length: usize) -> usize {
    (length / 24).max(3)
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
    horizon: usize,
    scale: SeriesScale,
    notes: Vec<String>,
    schema: Schema,
    /// The first row of each window, rising.
    starts: Vec<u32>,
}

impl SeriesWindows {
    pub fn new(series: &TimedRows, options: &SeriesOptions) -> Result<SeriesWindows, DataError> {
        let table = &series.table;
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
        u32::try_from(table.rows)
            .map_err(|_| DataError::Inconsistent(format!("{}: more than {} rows", table.name, u32::MAX)))?;

        let (columns, targets, mut notes) = pick(series, options)?;
        let scale = match &options.scale {
            Some(scale) => scale.clone().of(table, &columns, &targets)?,
            None => SeriesScale::fit(table, &columns, &targets, options.fit_rows.clone())?,
        };
        let (rule, longest) = (options.fill, options.longest_fill);
        let x = scaled(series, &columns, &scale.columns, rule, longest)?;
        let y = scaled(series, &targets, &scale.targets, rule, longest)?;
        // columns to predict that windows hold are not told twice
        let others = y.notes.iter().filter(|note| !x.notes.contains(note));
        notes.extend(x.notes.iter().chain(others).cloned());
        let usable: Vec<bool> = x.usable.iter().zip(&y.usable).map(|(x, y)| *x && *y).collect();
        let unbroken = unbroken(&usable, &series.breaks);
        let whole = |start: &usize| unbroken[start + length + horizon - 1] >= length + horizon;
        let starts: Vec<u32> = (0..=room).step_by(stride).filter(whole).map(|start| start as u32).collect();
        if starts.is_empty() {
            return Err(DataError::Empty {
                file: table.name.clone(),
                what: format!(
                    "no {} rows in a row are without a long gap, as a window and what follows need",
                    length + horizon
                ),
                next: "use shorter windows, or fill the gaps of the file".into(),
            });
        }
        let schema = Schema::new(vec![
            Field::new(INPUT, Kind::F32, &[length, columns.len()]),
            Field::new(TARGET, Kind::F32, &[horizon, targets.len()]),
        ])?;
        let (name, table_rows) = (table.name.clone(), table.rows);
        Ok(SeriesWindows { name, x: x.values, y: y.values, table_rows, length, horizon, scale, notes, schema, starts })
    }

    /// How values were scaled, to be kept with a model.
    pub fn scale(&self) -> &SeriesScale {
        &self.scale
    }

    /// What was left out or filled, for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The windows that predict rows of the table within `rows` alone; with `reach_back` their inputs may lie before.
    pub fn windows_in(&self, rows: Range<usize>, reach_back: bool) -> Range<u32> {
        let end = rows.end.min(self.table_rows);
        let first = match reach_back {
            true => rows.start.saturating_sub(self.length),
            false => rows.start,
        };
        let begin_before = |row: usize| self.starts.partition_point(|start| (*start as usize) < row) as u32;
        // starts s with s + length + horizon ≤ end
        let after = end.checked_sub(self.length + self.horizon).map_or(0, |last| begin_before(last + 1));
        begin_before(first).min(after)..after
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
        self.starts.len() as u32
    }

    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        check(self, rows, into)?;
        let [FieldMut::F32(x), FieldMut::F32(y)] = into else { return Ok(()) };
        let copy = |from: &[f32], width: usize, skip: usize, count: usize, to: &mut [f32]| {
            for (row, to) in rows.numbers.iter().zip(to.chunks_exact_mut((count * width).max(1))) {
                let first = self.starts[*row as usize] as usize + skip;
                to.copy_from_slice(&from[first * width..][..count * width]);
            }
        };
        copy(&self.x, self.scale.columns.len(), 0, self.length, x);
        copy(&self.y, self.scale.targets.len(), self.length, self.horizon, y);
        Ok(())
    }
}

/// Rows of a series as windows hold them.
pub struct SeriesInputs {
    /// `[rows, columns]`
    pub values: Vec<f32>,
    /// Up to each row: how many follow each other without a break, or a value that is missing still.
    pub unbroken: Vec<usize>,
    /// What was filled, for people.
    pub notes: Vec<String>,
}

impl SeriesScale {
    /// The rows of a series as windows hold them. The columns to predict need not be there.
    pub fn inputs(&self, series: &TimedRows, rule: GapFill, longest: usize) -> Result<SeriesInputs, DataError> {
        series.table.check()?;
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let columns = numeric(&series.table, &names)?;
        let Scaled { values, usable, notes } = scaled(series, &columns, &self.columns, rule, longest)?;
        Ok(SeriesInputs { values, unbroken: unbroken(&usable, &series.breaks), notes })
    }
}

/// Up to each row: how many that are usable follow each other without a break.
fn unbroken(usable: &[bool], breaks: &[usize]) -> Vec<usize> {
    let (mut run, mut breaks) = (0, breaks.iter().peekable());
    let count = |(row, usable): (usize, &bool)| {
        let fresh = breaks.next_if(|next| **next == row).is_some();
        run = match (usable, fresh) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => run + 1,
        };
        run
    };
    usable.iter().enumerate().map(count).collect()
}

/// Columns of windows, columns to predict, and what was left out.
type Picked = (Vec<usize>, Vec<usize>, Vec<String>);

fn pick(series: &TimedRows, options: &SeriesOptions) -> Result<Picked, DataError> {
    let table = &series.table;
    let is_time = |name: &str| series.index.as_ref().is_some_and(|index| index.column == name);
    let usable = |column: &usize| is_numeric(table, *column) && !is_time(&table.columns[*column].name);
    let all = || (0..table.columns.len()).filter(usable);
    let Some(last) = all().next_back() else {
        return Err(DataError::NoFeatures { file: table.name.clone(), why: "no column holds numbers".into() });
    };
    let mut notes = Vec::new();
    let columns = match options.columns.is_empty() {
        false => numeric(table, &options.columns)?,
        true => {
            let text = |column: &&Column| matches!(column.values, Values::Text { .. }) && !is_time(&column.name);
            for column in table.columns.iter().filter(text) {
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

/// Rows of some columns beside each other.
struct Scaled {
    values: Vec<f32>,
    /// Rows without a missing value.
    usable: Vec<bool>,
    notes: Vec<String>,
}

fn scaled(
    series: &TimedRows,
    columns: &[usize],
    scales: &[ColumnScale],
    rule: GapFill,
    longest: usize,
) -> Result<Scaled, DataError> {
    let table = &series.table;
    let (mut out, mut usable, mut notes) = (vec![0.0; table.rows * columns.len()], vec![true; table.rows], Vec::new());
    for (at, (column, scale)) in columns.iter().zip(scales).enumerate() {
        let name = &table.columns[*column].name;
        let Values::Number(values) = &table.columns[*column].values else { continue };
        let wrong = |row: usize, problem: &str, next: &str| DataError::Cell {
            place: table.place(row, *column),
            problem: problem.to_owned(),
            next: next.to_owned(),
        };
        let mut values = Cow::Borrowed(values);
        if let Some(first) = values.iter().position(|value| value.is_nan()) {
            if rule == GapFill::Refuse {
                let next = "correct it, or let a rule fill it: --fill previous or linear";
                return Err(wrong(first, "the value is missing", next));
            }
            let missing = values.iter().filter(|value| value.is_nan()).count();
            let mut filled = 0;
            let mut from = 0;
            for to in series.breaks.iter().copied().chain([table.rows]) {
                filled += fill(&mut values.to_mut()[from..to], rule, longest);
                from = to;
            }
            if filled > 0 {
                let values = plural(filled, "missing value");
                notes.push(format!("{values} of {name:?} filled with {}", rule.described()));
            }
            if missing > filled {
                let values = plural(missing - filled, "missing value");
                notes.push(format!(
                    "{values} of {name:?} not filled, as more than {longest} are in a row, or none is before them: no window \
                     holds them"
                ));
            }
        }
        for (row, value) in values.iter().enumerate() {
            if value.is_nan() {
                usable[row] = false;
                continue;
            }
            let number = ((value - scale.mean) / scale.deviation) as f32;
            if !number.is_finite() {
                return Err(wrong(row, &format!("{value} is too far from the other values"), "correct or remove it"));
            }
            out[row * columns.len() + at] = number;
        }
    }
    Ok(Scaled { values: out, usable, notes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ReadOptions;

    fn series(text: &str, time: Option<&str>) -> TimedRows {
        let table = Table::from_bytes("s.csv", text.as_bytes(), &ReadOptions::default()).unwrap();
        TimedRows::new(table, time, 3).unwrap()
    }

    fn table(text: &str) -> TimedRows {
        series(text, Some("none"))
    }

    /// a = 0, 1, 2 …, b = 10 · a
    fn ramp(rows: usize) -> TimedRows {
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
        let ask = |fill| SeriesWindows::new(&gaps, &SeriesOptions { fill, ..options(2, 1, 1) });
        let error = ask(GapFill::Refuse).err().unwrap().to_string();
        assert!(error.contains("row 2, column \"a\"") && error.contains("--fill previous"), "{error}");
        let windows = ask(GapFill::Previous).unwrap();
        let (x, _) = row(&windows, 0);
        assert_eq!(x[0], x[2]);
        assert_eq!(windows.notes(), ["1 missing value of \"a\" filled with the value before them"]);
        let (x, _) = row(&ask(GapFill::Linear).unwrap(), 0);
        assert!(x[0] < x[2] && x[2] < 0.0, "halfway from 1 to 3");
    }

    #[test]
    fn no_window_holds_what_is_not_filled() {
        // the first value has none before it, and rows 8 to 12 are too many
        let value = |row: usize| if row == 0 || (8..13).contains(&row) { String::new() } else { row.to_string() };
        let rows: String = (0..20).map(|row| format!("{},{row}\n", value(row))).collect();
        let windows = SeriesWindows::new(&table(&format!("a,b\n{rows}")), &options(3, 1, 1)).unwrap();
        assert_eq!(windows.starts, [1, 2, 3, 4, 13, 14, 15, 16]);
        assert_eq!((windows.windows_in(0..8, false), windows.windows_in(8..20, true)), (0..4, 4..8));
        assert!(windows.notes()[0].starts_with("6 missing values of \"a\" not filled"), "{:?}", windows.notes());
        let all: String = (0..20)
            .map(|row| format!("{},{row}\n", if row % 6 == 0 { row.to_string() } else { String::new() }))
            .collect();
        let error = SeriesWindows::new(&table(&format!("a,b\n{all}")), &options(3, 1, 1)).err().unwrap().to_string();
        assert!(error.contains("no 4 rows in a row are without a long gap"), "{error}");
    }

    #[test]
    fn windows_cross_no_long_gap_in_time() {
        // two days are filled, ten are not
        let days = (1..=8).chain(11..=18).map(|day| format!("2024-01-{day:02},{day}\n"));
        let later = (1..=8).map(|day| format!("2024-02-{day:02},{}\n", 100 + day));
        let text = format!("day,a\n{}", days.chain(later).collect::<String>());
        let gaps = series(&text, None);
        assert_eq!((gaps.table.rows, &gaps.breaks[..]), (26, &[18][..]));
        let windows = SeriesWindows::new(&gaps, &options(3, 1, 1)).unwrap();
        let expected: Vec<u32> = (0..=14).chain(18..=22).collect();
        assert_eq!(windows.starts, expected);
        assert_eq!(windows.scale().columns.len(), 1, "the time is no input");
    }

    #[test]
    fn inputs_are_those_of_windows() {
        let columns = vec![column("a", 0.0, 1.0), column("b", 10.0, 10.0)];
        let scale = SeriesScale { columns, targets: vec![column("c", 0.0, 1.0)] };
        let inputs = scale.inputs(&ramp(10), GapFill::Refuse, 0).unwrap();
        assert_eq!((&inputs.values[16..], inputs.unbroken[9]), (&[8.0, 7.0, 9.0, 8.0][..], 10));
        let gap = table("a,b\n,2\n1,3\n3,\n4,5\n");
        let inputs = scale.inputs(&gap, GapFill::Previous, 3).unwrap();
        assert_eq!((&inputs.values[2..6], &inputs.unbroken[..]), (&[1.0, -0.7, 3.0, -0.7][..], &[0, 1, 2, 3][..]));
        let error = scale.inputs(&gap, GapFill::Refuse, 3).err().unwrap().to_string();
        assert!(error.contains("row 1, column \"a\""), "{error}");
        assert!(
            scale.inputs(&table("a\n1\n"), GapFill::Refuse, 0).err().unwrap().to_string().contains("no column \"b\"")
        );
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
