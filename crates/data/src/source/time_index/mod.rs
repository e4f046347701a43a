//! The time index of a series: its time column, and the step from row to row (pandas: a `DatetimeIndex` and its `freq`).
//!
//! Rows are sorted by time. A step that the file lacks becomes a row without values, which [`GapFill`](super::GapFill) fills. A gap
//! that is too long to fill becomes a break, which no window crosses.

mod step;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use step::TimeStep;

use crate::error::DataError;
use crate::table::{Column, DateFormat, MISSING, Table, Values};

/// A `--time` of this name takes the rows in the order of the file.
const NO_TIME: &str = "none";
/// Names that make a column of numbers the time.
const NAMES: [&str; 12] = [
    "time",
    "date",
    "datetime",
    "timestamp",
    "date_time",
    "date time",
    "ts",
    "ds",
    "unixtime",
    "unix_time",
    "epoch",
    "year",
];
/// A column with at least this share of dates is meant to hold dates.
const MOSTLY: f64 = 0.5;
/// Labels that are tried for that.
const TRIED: usize = 1000;
/// Above this share of rows with the time of another, a file holds several series.
const REPEATED: f64 = 0.05;

/// Which column holds the time, how it is written, and how far rows are apart; kept with a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimeIndex {
    pub column: String,
    pub format: TimeFormat,
    /// From one row to the next; open where rows come at irregular times.
    pub step: Option<TimeStep>,
}

/// How times are written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeFormat {
    Date(DateFormat),
    /// A number in a unit of its own: seconds since 1970, a year, a count.
    Number,
}

/// The rows of a table in the order of time, one per step.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedRows {
    pub table: Table,
    /// None where rows are taken in the order of the file.
    pub index: Option<TimeIndex>,
    /// The time of each row, in seconds since 1970 or the unit of the column; empty without an index.
    pub times: Vec<f64>,
    /// Rows that a long gap lies before: no window holds such a row and the one before it.
    pub breaks: Vec<usize>,
    /// What was done to the rows so that they follow each other, for people.
    pub remarks: Vec<String>,
}

/// What was done to rows so that they follow each other.
#[derive(Default)]
struct Changes {
    /// Rows left out, as they have no time.
    without_time: usize,
    /// Rows that stood behind a later one.
    late: usize,
    /// Rows joined with another of the same time; their numbers are averaged.
    joined: usize,
    /// Gaps that are filled, and the rows made for them.
    short_gaps: usize,
    rows_made: usize,
    /// Gaps that are too long to fill.
    long_gaps: usize,
    /// Steps of the longest gap, and the time of the row before it.
    longest: Option<(f64, f64)>,
}

/// What was found out about the time of a table's rows.
struct Found {
    column: usize,
    format: TimeFormat,
}

impl TimedRows {
    /// A table's rows by the time column that is named, or found; in the order of the file where there is none. Gaps of more than
    /// `longest` steps are not filled.
    pub fn new(table: Table, named: Option<&str>, longest: usize) -> Result<TimedRows, DataError> {
        match TimeIndex::detect(&table, named)? {
            Some(index) => index.arrange(table, longest),
            None => Ok(TimedRows::as_they_stand(table, named)),
        }
    }

    /// The same for further rows of a series whose index is known.
    pub fn like(table: Table, known: Option<&TimeIndex>, longest: usize) -> Result<TimedRows, DataError> {
        match known {
            Some(known) => known.of(&table)?.arrange(table, longest),
            None => Ok(TimedRows::as_they_stand(table, Some(NO_TIME))),
        }
    }

    fn as_they_stand(table: Table, named: Option<&str>) -> TimedRows {
        let remarks = match (named, table.columns.iter().find(|column| format_of_dates(column).is_some())) {
            (None, Some(shared)) => vec![format!(
                "many rows share a value of {:?}: rows are taken in the order of the file; --time names another column",
                shared.name
            )],
            (None, None) => {
                vec!["no column holds dates: rows are taken in the order of the file; --time names a column".to_owned()]
            }
            (Some(_), _) => Vec::new(),
        };
        TimedRows { table, index: None, times: Vec::new(), breaks: Vec::new(), remarks }
    }

    /// For people: `a row every hour by "date", from 2024-01-01 00:00 to 2024-12-31 23:00`.
    pub fn described(&self) -> Option<String> {
        let index = self.index.as_ref()?;
        let (first, last) = (self.written(0)?, self.written(self.times.len().checked_sub(1)?)?);
        let step = index.step.map_or("at irregular times".to_owned(), |step| step.described(&index.format));
        Some(format!("a row {step} by {:?}, from {first} to {last}", index.column))
    }

    /// The time of a row as the column writes it; of a row behind the last, too.
    pub fn written(&self, row: usize) -> Option<String> {
        let index = self.index.as_ref()?;
        let last = self.times.len().checked_sub(1)?;
        let time = match row.checked_sub(last) {
            None | Some(0) => self.times[row],
            Some(steps) => index.step?.after(self.times[last], steps, &index.format),
        };
        Some(index.format.write(time))
    }
}

impl TimeIndex {
    /// The column that is named, or the first that holds dates, or numbers under a name such as `timestamp`.
    pub fn detect(table: &Table, named: Option<&str>) -> Result<Option<TimeIndex>, DataError> {
        table.check()?;
        let found = match named {
            Some(NO_TIME) if !table.names().any(|name| name == NO_TIME) => None,
            Some(name) => {
                let column = table.column(name)?;
                Some(Found { column, format: TimeFormat::of(table, column)? })
            }
            None => find(table)?,
        };
        let Some(Found { column, format }) = found else { return Ok(None) };
        let name = table.columns[column].name.clone();
        let column = &table.columns[column];
        // where the dates leave open whether day or month comes first, the order with fewer gaps is meant, then the one with days
        let other = match &format {
            TimeFormat::Date(date) => date.exchanged().map(TimeFormat::Date),
            TimeFormat::Number => None,
        };
        let orders = [Some(format.clone()), other].into_iter().flatten().filter_map(|format| {
            let times = format.sorted(column);
            let step = TimeStep::detect(&times, &format)?;
            let gaps = step.between(*times.first()?, *times.last()?, &format) - times.len() as f64;
            Some((gaps.round(), step.typical(), format, step))
        });
        let best = orders.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Ok(Some(match best {
            Some((_, _, format, step)) => TimeIndex { column: name, format, step: Some(step) },
            None => TimeIndex { column: name, format, step: None },
        }))
    }

    /// The index of further rows: the same column and step, however their times are written.
    fn of(&self, table: &Table) -> Result<TimeIndex, DataError> {
        table.check()?;
        let Some(column) = table.names().position(|name| name == self.column) else {
            return Err(DataError::MissingColumns {
                file: table.name.clone(),
                missing: format!("the column {:?}, which says when each row was", self.column),
                columns: table.names().collect::<Vec<_>>().join(", "),
            });
        };
        let format = match (TimeFormat::of(table, column)?, &self.format) {
            // what these rows leave open, those of the training have settled
            (TimeFormat::Date(found), TimeFormat::Date(known)) => match found.exchanged() {
                Some(other) if other.order == known.order => TimeFormat::Date(other),
                _ => TimeFormat::Date(found),
            },
            (found, _) => found,
        };
        let found = TimeStep::detect(&format.sorted(&table.columns[column]), &format);
        match (self.step, found) {
            (Some(step), Some(found)) if !step.is_like(found) => Err(DataError::Unsupported {
                file: table.name.clone(),
                what: format!(
                    "there is a row {}, the model was trained on rows {}",
                    found.described(&format),
                    step.described(&self.format)
                ),
                next: "bring the rows to that step".to_owned(),
            }),
            _ => Ok(TimeIndex { format, ..self.clone() }),
        }
    }

    /// Rows sorted, those of one time joined, and a row for each step of a short gap.
    fn arrange(&self, table: Table, longest: usize) -> Result<TimedRows, DataError> {
        let at = table.column(&self.column)?;
        let seconds = self.format.seconds(&table.columns[at]).map_err(|row| not_a_time(&table, row, at))?;
        let mut changes = Changes::default();
        let mut order: Vec<u32> = (0..table.rows as u32).filter(|row| !seconds[*row as usize].is_nan()).collect();
        changes.without_time = table.rows - order.len();
        let mut latest = f64::NEG_INFINITY;
        for row in &order {
            changes.late += usize::from(seconds[*row as usize] < latest);
            latest = latest.max(seconds[*row as usize]);
        }
        order.sort_by(|a, b| seconds[*a as usize].total_cmp(&seconds[*b as usize]));
        if order.is_empty() && table.rows > 0 {
            return Err(no_times(&table, at));
        }
        let same = |a: &u32, b: &u32| seconds[*a as usize] == seconds[*b as usize];
        let groups: Vec<&[u32]> = order.chunk_by(same).collect();
        changes.joined = order.len() - groups.len();
        if changes.joined as f64 > REPEATED * order.len() as f64 {
            return Err(self.several_series(&table, at, &groups));
        }

        let (mut rows, mut times, mut breaks) = (Vec::new(), Vec::new(), Vec::new());
        for group in &groups {
            let time = seconds[group[0] as usize];
            if let (Some(&before), Some(step)) = (times.last(), self.step) {
                let gap = step.between(before, time, &self.format).round() - 1.0;
                if gap >= 1.0 && changes.longest.is_none_or(|(longest, _)| gap > longest) {
                    changes.longest = Some((gap, before));
                }
                if gap > longest as f64 {
                    changes.long_gaps += 1;
                    breaks.push(rows.len());
                } else if gap >= 1.0 {
                    changes.short_gaps += 1;
                    changes.rows_made += gap as usize;
                    for i in 1..=gap as usize {
                        rows.push(&[][..]);
                        times.push(step.after(before, i, &self.format));
                    }
                }
            }
            rows.push(group);
            times.push(time);
        }
        let in_order = rows.len() == table.rows
            && rows.iter().enumerate().all(|(at, rows)| matches!(rows, [row] if *row as usize == at));
        let table = if in_order { table } else { joined(table, &rows) };
        let remarks = changes.lines(self);
        Ok(TimedRows { table, index: Some(self.clone()), times, breaks, remarks })
    }

    fn several_series(&self, table: &Table, column: usize, groups: &[&[u32]]) -> DataError {
        let twice = groups.iter().find(|group| group.len() > 1).map_or(&[][..], |group| group);
        let (first, second) = (twice.first().copied().unwrap_or(0), twice.get(1).copied().unwrap_or(0));
        DataError::Cell {
            place: table.place(second as usize, column),
            problem: format!(
                "row {} has the same time: the file seems to hold several series, and a series has one row per time",
                first + 1
            ),
            next: format!(
                "keep the rows of one series, name another column with --time, or take the rows in their order with --time \
                 {NO_TIME}"
            ),
        }
    }
}

impl TimeFormat {
    /// How a column that is known to hold times writes them.
    fn of(table: &Table, column: usize) -> Result<TimeFormat, DataError> {
        let empty = || no_times(table, column);
        match &table.columns[column].values {
            Values::Number(values) => {
                let mut known = values.iter().copied().filter(|value| !value.is_nan()).peekable();
                known.peek().ok_or_else(empty)?;
                Ok(compact(known).map_or(TimeFormat::Number, TimeFormat::Date))
            }
            Values::Text { codes, labels } => {
                let mut used = codes.iter().filter(|code| **code != MISSING).peekable();
                used.peek().ok_or_else(empty)?;
                if let Some(format) = DateFormat::of_named_column(labels.iter().map(String::as_str)) {
                    return Ok(TimeFormat::Date(format));
                }
                let wrong = |code: u32| code != MISSING && !is_date(&labels[code as usize]);
                match codes.iter().position(|code| wrong(*code)) {
                    Some(row) => Err(not_a_time(table, row, column)),
                    None => Err(DataError::Unsupported {
                        file: table.name.clone(),
                        what: format!(
                            "the column {:?} holds dates that are written in several ways",
                            table.columns[column].name
                        ),
                        next: "write them alike, such as 2024-01-31 18:30".to_owned(),
                    }),
                }
            }
        }
    }

    /// Per row; NaN where missing. The first row with something else, counted from 0, is the error.
    fn seconds(&self, column: &Column) -> Result<Vec<f64>, usize> {
        match (self, &column.values) {
            (TimeFormat::Number, Values::Number(values)) => Ok(values.clone()),
            (TimeFormat::Number, Values::Text { codes, .. }) => {
                codes.iter().position(|code| *code != MISSING).map_or(Ok(vec![f64::NAN; codes.len()]), Err)
            }
            (TimeFormat::Date(format), Values::Number(values)) => {
                let of = |(row, value): (usize, &f64)| match value.is_nan() {
                    true => Ok(f64::NAN),
                    false => format.parse(&value.to_string()).ok_or(row),
                };
                values.iter().enumerate().map(of).collect()
            }
            (TimeFormat::Date(format), Values::Text { codes, labels }) => {
                let known: Vec<Option<f64>> = labels.iter().map(|label| format.parse(label)).collect();
                let of = |(row, code): (usize, &u32)| match *code {
                    MISSING => Ok(f64::NAN),
                    code => known.get(code as usize).copied().flatten().ok_or(row),
                };
                codes.iter().enumerate().map(of).collect()
            }
        }
    }

    /// The times of a column, each once; none where one cannot be read.
    fn sorted(&self, column: &Column) -> Vec<f64> {
        let mut times = self.seconds(column).unwrap_or_default();
        times.retain(|time| !time.is_nan());
        times.sort_by(f64::total_cmp);
        times.dedup();
        times
    }

    pub fn write(&self, time: f64) -> String {
        match self {
            TimeFormat::Date(format) => format.write(time),
            TimeFormat::Number => time.to_string(),
        }
    }
}

/// The first column of dates, or of numbers under a name that says so, which tells rows apart.
fn find(table: &Table) -> Result<Option<Found>, DataError> {
    let formats: [fn(&Column) -> Option<TimeFormat>; 2] = [format_of_dates, format_of_named_numbers];
    for format in formats {
        for (column, values) in table.columns.iter().enumerate() {
            if let Some(format) = format(values)
                && orders_rows(table, values, &format)
            {
                return Ok(Some(Found { column, format }));
            }
        }
    }
    for (column, values) in table.columns.iter().enumerate() {
        let Values::Text { labels, .. } = &values.values else { continue };
        let tried = &labels[..labels.len().min(TRIED)];
        let dates = tried.iter().filter(|label| is_date(label)).count();
        if dates > 0 && dates as f64 >= MOSTLY * tried.len() as f64 && format_of_dates(values).is_none() {
            return Ok(Some(Found { column, format: TimeFormat::of(table, column)? }));
        }
    }
    Ok(None)
}

fn format_of_dates(column: &Column) -> Option<TimeFormat> {
    match &column.values {
        Values::Text { labels, .. } => DateFormat::of_column(labels.iter().map(String::as_str)).map(TimeFormat::Date),
        Values::Number(_) => None,
    }
}

fn format_of_named_numbers(column: &Column) -> Option<TimeFormat> {
    match &column.values {
        Values::Number(values) if NAMES.contains(&column.name.trim().to_ascii_lowercase().as_str()) => {
            let format = compact(values.iter().copied().filter(|value| !value.is_nan()));
            Some(format.map_or(TimeFormat::Number, TimeFormat::Date))
        }
        _ => None,
    }
}

/// Whether few rows share a time. A day that many rows share, in rising order, says nothing about their order, unless another
/// column names the series of each row; in another order the rows are those of several series, and an error says so. Numbers that
/// rows share may be anything.
fn orders_rows(table: &Table, column: &Column, format: &TimeFormat) -> bool {
    let times = format.seconds(column).unwrap_or_default();
    let known: Vec<f64> = times.into_iter().filter(|time| !time.is_nan()).collect();
    let distinct = format.sorted(column).len();
    let shared = (known.len() - distinct) as f64 > REPEATED * known.len() as f64;
    let number = matches!(column.values, Values::Number(_));
    distinct > 1 && !(shared && (number || (known.is_sorted() && !names_series(table, column, format))))
}

/// Whether a column of text tells apart the rows that share a time: the store of each row, not the hour of a day.
fn names_series(table: &Table, times: &Column, format: &TimeFormat) -> bool {
    let seconds = format.seconds(times).unwrap_or_default();
    table.columns.iter().filter(|column| column.name != times.name).any(|column| {
        let Values::Text { codes, labels } = &column.values else { return false };
        let is_clock = |label: &String| label.contains(':') && label.bytes().any(|byte| byte.is_ascii_digit());
        let mut rows: Vec<(u64, u32)> = seconds.iter().map(|time| time.to_bits()).zip(codes.iter().copied()).collect();
        let all = rows.len();
        rows.sort_unstable();
        rows.dedup();
        let unique = rows.len() as f64 >= (1.0 - REPEATED) * all as f64;
        labels.len() > 1 && labels.len() * 4 <= all && unique && !labels.iter().any(is_clock)
    })
}

fn is_date(label: &str) -> bool {
    DateFormat::of_column(std::iter::once(label)).is_some()
}

/// Numbers such as 20240131, where all are dates.
fn compact(values: impl Iterator<Item = f64>) -> Option<DateFormat> {
    let mut written = Vec::new();
    for value in values {
        if value.fract() != 0.0 || !(1e7..1e8).contains(&value) {
            return None;
        }
        written.push(value.to_string());
    }
    DateFormat::of_named_column(written.iter().map(String::as_str))
}

fn no_times(table: &Table, column: usize) -> DataError {
    DataError::Empty {
        file: table.name.clone(),
        what: format!("the column {:?} holds no time", table.columns[column].name),
        next: format!("name another with --time, or take the rows in their order with --time {NO_TIME}"),
    }
}

fn not_a_time(table: &Table, row: usize, column: usize) -> DataError {
    let cell = match &table.columns[column].values {
        Values::Number(values) => values[row].to_string(),
        Values::Text { codes, labels } => labels.get(codes[row] as usize).cloned().unwrap_or_default(),
    };
    DataError::Cell {
        place: table.place(row, column),
        problem: format!("{:?} is not a time as the others are", crate::suggest::short(&cell)),
        next: format!(
            "correct it, name another column with --time, or take the rows in their order with --time {NO_TIME}"
        ),
    }
}

/// A row per group: the mean of its numbers, its first label; missing where the group is empty.
fn joined(table: Table, groups: &[&[u32]]) -> Table {
    let of = |column: Column| Column {
        name: column.name,
        values: match column.values {
            Values::Number(values) => Values::Number(groups.iter().map(|rows| mean(&values, rows)).collect()),
            Values::Text { codes, labels } => {
                let first = |rows: &&[u32]| {
                    let codes = rows.iter().map(|row| codes[*row as usize]);
                    codes.into_iter().find(|code| *code != MISSING).unwrap_or(MISSING)
                };
                Values::Text { codes: groups.iter().map(first).collect(), labels }
            }
        },
    };
    Table { rows: groups.len(), columns: table.columns.into_iter().map(of).collect(), ..table }
}

fn mean(values: &[f64], rows: &[u32]) -> f64 {
    if let [row] = rows {
        return values[*row as usize];
    }
    let known = rows.iter().map(|row| values[*row as usize]).filter(|value| !value.is_nan());
    let count = known.clone().count() as f64;
    // in parts: a sum of large values may overflow; of none it is 0 / 0
    if count == 0.0 { f64::NAN } else { known.map(|value| value / count).sum() }
}

impl Changes {
    /// A line for each thing that was done, for people.
    fn lines(&self, index: &TimeIndex) -> Vec<String> {
        use crate::{count, plural};
        let mut lines = Vec::new();
        if self.without_time > 0 {
            lines.push(format!("left out: {} without a value of {:?}", plural(self.without_time, "row"), index.column));
        }
        if self.late > 0 {
            lines.push(format!("sorted: {} stood behind a later one", plural(self.late, "row")));
        }
        if self.joined > 0 {
            lines.push(format!("averaged: {} with the time of another", plural(self.joined, "row")));
        }
        if let Some((steps, before)) = self.longest {
            let gaps = plural(self.short_gaps + self.long_gaps, "gap");
            let made = match self.rows_made {
                0 => String::new(),
                rows => format!(", {} filled in", plural(rows, "row")),
            };
            let kept = match self.long_gaps {
                0 => String::new(),
                1 => ", 1 too long to fill: no window crosses it".to_owned(),
                gaps => format!(", {} too long to fill: no window crosses them", count(gaps)),
            };
            let longest = format!("the longest of {} behind {}", Steps(steps), index.format.write(before));
            lines.push(format!("{gaps} between rows{made}{kept}; {longest}"));
        }
        lines
    }
}

struct Steps(f64);

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = if self.0 == 1.0 { "step" } else { "steps" };
        match self.0 < 1e15 {
            true => write!(f, "{} {steps}", crate::count(self.0 as usize)),
            false => write!(f, "{:e} {steps}", self.0),
        }
    }
}
