//! What kind of answer the target asks for.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::table::{MISSING, Table, Values};

/// More classes than this are not a classification anyone meant.
const MAX_CLASSES: usize = 1000;

/// What is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// A number.
    Regression,
    /// One of two classes.
    Binary,
    /// One of several classes.
    Classes,
}

/// The task a target suggests over these rows: two values make it binary, other numbers regression,
/// other text classes.
pub fn infer_task(table: &Table, target: usize, rows: &[u32]) -> Result<Task, DataError> {
    let distinct = Distinct::of(table, target, rows)?;
    Ok(match (distinct.values, distinct.numeric) {
        (2, _) => Task::Binary,
        (_, true) => Task::Regression,
        (_, false) => Task::Classes,
    })
}

/// The different values of a target over some rows.
pub(super) struct Distinct {
    pub values: usize,
    pub numeric: bool,
    /// Rows that have a value.
    pub rows: Vec<u32>,
    /// All values are whole numbers.
    pub whole: bool,
}

impl Distinct {
    /// Counts, and refuses a target that holds nothing or one value only.
    pub(super) fn of(table: &Table, target: usize, rows: &[u32]) -> Result<Distinct, DataError> {
        let column = table
            .columns
            .get(target)
            .ok_or_else(|| DataError::Inconsistent(format!("{}: no column {target} for a target", table.name)))?;
        let rows: Vec<u32> = rows.iter().copied().filter(|row| !column.is_missing(*row as usize)).collect();
        let used = || rows.iter().map(|row| *row as usize);
        let (values, numeric, whole) = match &column.values {
            Values::Number(values) => {
                let bits = |row: usize| values.get(row).map(|v| (v + 0.0).to_bits());
                let seen: HashSet<u64> = used().filter_map(bits).collect();
                let whole = seen.iter().all(|bits| f64::from_bits(*bits).fract() == 0.0);
                (seen.len(), true, whole)
            }
            Values::Text { codes, .. } => {
                let code = |row: usize| codes.get(row).copied();
                let seen: HashSet<u32> = used().filter_map(code).filter(|c| *c != MISSING).collect();
                (seen.len(), false, false)
            }
        };
        let distinct = Distinct { values, numeric, rows, whole };
        if numeric && distinct.values <= 2 && table.reading.rounded.contains(&column.name) {
            let problem = "its whole numbers differ only beyond what a floating-point number of 64 bits holds (2^53)";
            let next = "subtract the smallest of them, or read the column as text with --text";
            return Err(target_error(table, target, problem, next));
        }
        let problem = match distinct.values {
            0 => "no training row has a value",
            1 => "all training rows have the same value, so there is nothing to learn",
            _ => return Ok(distinct),
        };
        Err(target_error(table, target, problem, "choose another target, or give rows that differ"))
    }

    /// Whether these values can be classes.
    pub(super) fn check_classes(&self, table: &Table, target: usize) -> Result<(), DataError> {
        let next = match self.numeric {
            true => "use --task regression",
            false => "choose another target, or group its values",
        };
        let rows = self.rows.len();
        if self.values > 20 && self.values * 10 >= rows * 9 {
            let problem = format!("{} different values in {rows} rows: it looks like an identifier", self.values);
            return Err(target_error(table, target, &problem, next));
        }
        if self.values > MAX_CLASSES {
            let problem = format!("{} classes, more than {MAX_CLASSES}", self.values);
            return Err(target_error(table, target, &problem, next));
        }
        Ok(())
    }
}

pub(super) fn target_error(table: &Table, target: usize, problem: &str, next: &str) -> DataError {
    DataError::Target {
        file: table.name.clone(),
        column: table.columns.get(target).map_or_else(|| target.to_string(), |c| c.name.clone()),
        problem: problem.to_owned(),
        next: next.to_owned(),
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Task::Regression => "regression",
            Task::Binary => "binary",
            Task::Classes => "classes",
        })
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "regression" => Ok(Task::Regression),
            "binary" => Ok(Task::Binary),
            "classes" | "classification" => Ok(Task::Classes),
            other => Err(format!("{other:?} is not a task; use regression, binary or classes")),
        }
    }
}
