//! A feature column that is used: where it is, how it is encoded, and what cells it refuses.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::calendar::Dates;
use super::feature::Encoding;
use super::fit::Fit;
use super::impute::Impute;
use super::logarithm::Log;
use super::options::Wish;
use super::scale::is_false;
use crate::error::DataError;
use crate::suggest;
use crate::table::{Column, DateFormat, MISSING, Table, Values};

/// A column that is used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct FeatureColumn {
    pub name: String,
    pub index: usize,
    pub encoding: Encoding,
    /// Read as numbers, though taken as labels.
    #[serde(default, skip_serializing_if = "is_false")]
    numeric: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub refuse_missing: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub refuse_negative: bool,
}

impl FeatureColumn {
    /// The column, unless it was dropped.
    pub(super) fn new(table: &Table, index: usize, fit: Fit, wish: &Wish) -> Option<FeatureColumn> {
        let encoding = fit.encoding?;
        let column = &table.columns[index];
        Some(FeatureColumn {
            name: column.name.clone(),
            index,
            numeric: encoding.is_text() && matches!(column.values, Values::Number(_)),
            encoding,
            refuse_missing: wish.refuse_missing(),
            refuse_negative: wish.refuse_negative(),
        })
    }

    /// Read as text in training.
    pub(super) fn is_text(&self) -> bool {
        self.encoding.is_text() && !self.numeric
    }

    /// The column with its labels as training spelled them: `1.0` is `1` where they are numbers.
    pub(super) fn as_trained<'c>(&self, column: &'c Column) -> Cow<'c, Column> {
        let Values::Text { codes, labels } = &column.values else { return Cow::Borrowed(column) };
        if !self.numeric {
            return Cow::Borrowed(column);
        }
        let spelled = |label: &String| match label.parse::<f64>() {
            Ok(value) if value.is_finite() => (value + 0.0).to_string(),
            _ => label.clone(),
        };
        let labels = labels.iter().map(spelled).collect();
        Cow::Owned(Column { name: column.name.clone(), values: Values::Text { codes: codes.clone(), labels } })
    }
}

impl Wish {
    pub(super) fn refuse_missing(&self) -> bool {
        self.impute == Some(Impute::Error)
    }

    pub(super) fn refuse_negative(&self) -> bool {
        self.log == Some(Log::Plain)
    }
}

/// Refuses a missing or a negative cell where it was told to.
pub(super) fn refuse_cells(
    table: &Table,
    place: usize,
    rows: &[u32],
    refuse_missing: bool,
    refuse_negative: bool,
) -> Result<(), DataError> {
    let column = &table.columns[place];
    let refuse = |row: usize, problem: String, next: &str| {
        Err(DataError::Cell { place: table.place(row, place), problem, next: next.to_owned() })
    };
    let mut cells = rows.iter().map(|row| *row as usize);
    if refuse_missing && let Some(row) = cells.clone().find(|row| column.is_missing(*row)) {
        let next = "fill it, leave the row out, or let prepare.impute fill it when training";
        return refuse(row, "a missing cell, and impute = \"error\" allows none".to_owned(), next);
    }
    if refuse_negative {
        let values = column.numbers().map_err(|row| not_a_number(table, row, place))?;
        if let Some(row) = cells.find(|row| values[*row] < 0.0) {
            let problem = format!("{} is negative, and the column is taken as log(1 + x)", values[row]);
            return refuse(row, problem, "correct it, or put the column in signed-log when training");
        }
    }
    Ok(())
}

/// Cells that are dates, at least, for a column to be one of dates but for a few.
const ENOUGH_DATES: usize = 20;
/// Labels looked at before all are.
const FIRST_LABELS: usize = 200;

/// Refuses a column of dates for the cell that is none, as a column of numbers is: taken as labels, it would say nothing of time.
pub(super) fn refuse_stray_dates(table: &Table, place: usize, wish: &Wish) -> Result<(), DataError> {
    let as_labels = wish.own_categories || wish.own_text || wish.dates == Some(Dates::Labels);
    let stray = if as_labels { None } else { StrayDate::of(&table.columns[place]) };
    let Some(StrayDate { row, label, dates, present }) = stray else { return Ok(()) };
    let label = suggest::short(label);
    Err(DataError::Cell {
        place: table.place(row, place),
        problem: format!("{label:?} is not a date, and {dates} of {present} cells of the column are"),
        next: format!(
            "correct it, mark it as missing with --missing {label:?}, or take dates as labels with prepare.dates = \"labels\""
        ),
    })
}

/// The first cell that is no date in a column of which nearly all cells are.
pub(super) struct StrayDate<'a> {
    row: usize,
    label: &'a str,
    /// Cells that are dates, of those that are not missing.
    dates: usize,
    present: usize,
}

impl<'a> StrayDate<'a> {
    pub(super) fn of(column: &'a Column) -> Option<StrayDate<'a>> {
        let Values::Text { codes, labels } = &column.values else { return None };
        let is_date = |label: &String| DateFormat::of_column(std::iter::once(label.as_str())).is_some();
        let first = &labels[..labels.len().min(FIRST_LABELS)];
        if first.iter().filter(|label| is_date(label)).count() * 2 < first.len() {
            return None;
        }
        let are_dates: Vec<bool> = labels.iter().map(is_date).collect();
        let known = || codes.iter().enumerate().filter(|(_, code)| **code != MISSING);
        let is_stray = |(_, code): &(usize, &u32)| !are_dates[**code as usize];
        let (row, code) = known().find(is_stray)?;
        let present = known().count();
        let dates = present - known().filter(is_stray).count();
        let of_dates = labels.iter().zip(&are_dates).filter(|(_, date)| **date).map(|(label, _)| label.as_str());
        let nearly_all = dates >= ENOUGH_DATES && (present - dates) * 10 <= present;
        let label = &labels[*code as usize];
        (nearly_all && DateFormat::of_column(of_dates).is_some()).then_some(StrayDate { row, label, dates, present })
    }
}

pub(super) fn not_a_number(table: &Table, row: usize, column: usize) -> DataError {
    DataError::Cell {
        place: table.place(row, column),
        problem: format!(
            "{:?} is not a number, and the column was numeric in training",
            shown_cell(table, row, column)
        ),
        next: "correct it, or leave the cell empty to mark it as missing".to_owned(),
    }
}

/// `form` is how the dates of training were written.
pub(super) fn not_a_date(table: &Table, row: usize, column: usize, form: &str) -> DataError {
    let cell = shown_cell(table, row, column);
    DataError::Cell {
        place: table.place(row, column),
        problem: format!("{cell:?} is not a date, and the column held dates as {form} in training"),
        next: format!("correct it, leave the cell empty, or mark it as missing with --missing {cell:?}"),
    }
}

fn shown_cell(table: &Table, row: usize, column: usize) -> String {
    suggest::short(match table.columns.get(column).map(|c: &Column| &c.values) {
        Some(Values::Text { codes, labels }) => {
            codes.get(row).and_then(|code| labels.get(*code as usize)).map_or("", String::as_str)
        }
        _ => "",
    })
}
