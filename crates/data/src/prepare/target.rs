//! The target column: standardised for regression, numbered for classes.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::moments::Moments;
use super::scale::{Scale, Scaling};
use super::task::{Distinct, Task, infer_task, target_error};
use super::used::not_a_number;
use crate::dataset::Target;
use crate::error::DataError;
use crate::suggest;
use crate::table::{Column, MISSING, Table};

/// Where the target is and how it is encoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TargetColumn {
    name: String,
    index: usize,
    encoding: TargetEncoding,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum TargetEncoding {
    /// `(value - mean) / std`
    Regression { mean: f64, std: f64 },
    /// 0 for the first label, 1 for the second.
    Binary { labels: Vec<String> },
    /// The number of the label.
    Classes { labels: Vec<String> },
}

/// A target that was fitted.
pub(super) struct FittedTarget {
    pub column: TargetColumn,
    /// The rows that have one.
    pub rows: Vec<u32>,
    /// Why the task is this one.
    pub why: String,
    /// What else was decided.
    pub notes: Vec<String>,
}

impl TargetColumn {
    /// Fits the target on the rows that have one.
    pub(super) fn fit(
        table: &Table,
        index: usize,
        rows: &[u32],
        task: Option<Task>,
        scale: Option<Scale>,
    ) -> Result<FittedTarget, DataError> {
        let distinct = Distinct::of(table, index, rows)?;
        let chosen = match task {
            Some(task) => task,
            None => infer_task(table, index, rows)?,
        };
        let column = &table.columns[index];
        let mut notes = Vec::new();
        let unlabelled = rows.len() - distinct.rows.len();
        if unlabelled > 0 {
            notes.push(format!("{unlabelled} of {} training rows have no target and are left out", rows.len()));
        }
        let encoding = match chosen {
            Task::Regression => fit_scale(table, index, &distinct.rows, scale.unwrap_or(Scale::Standard))?,
            Task::Binary if distinct.values != 2 => {
                let problem = format!("{} different values, a binary task has 2", distinct.values);
                let next = "use --task classes or --task regression";
                return Err(target_error(table, index, &problem, next));
            }
            Task::Binary => TargetEncoding::Binary { labels: fit_labels(column, &distinct.rows, &mut notes) },
            Task::Classes => {
                distinct.check_classes(table, index)?;
                TargetEncoding::Classes { labels: fit_labels(column, &distinct.rows, &mut notes) }
            }
        };
        if let (Task::Regression, Some(scale)) = (chosen, scale) {
            notes.push(format!("the target is {scale}, as told"));
        }
        let target = TargetColumn { name: column.name.clone(), index, encoding };
        let why = reason(chosen, task.is_some(), &distinct);
        Ok(FittedTarget { column: target, rows: distinct.rows, why, notes })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }

    pub(super) fn task(&self) -> Task {
        match self.encoding {
            TargetEncoding::Regression { .. } => Task::Regression,
            TargetEncoding::Binary { .. } => Task::Binary,
            TargetEncoding::Classes { .. } => Task::Classes,
        }
    }

    pub(super) fn labels(&self) -> &[String] {
        match &self.encoding {
            TargetEncoding::Regression { .. } => &[],
            TargetEncoding::Binary { labels } | TargetEncoding::Classes { labels } => labels,
        }
    }

    /// Some label is not how a number is spelled, so the column was read as text.
    pub(super) fn is_text(&self) -> bool {
        let spelled = |label: &String| label.parse::<f64>().is_ok_and(|value| (value + 0.0).to_string() == *label);
        !self.labels().iter().all(spelled)
    }

    pub(super) fn scale(&self) -> (f64, f64) {
        match self.encoding {
            TargetEncoding::Regression { mean, std } => (mean, std),
            TargetEncoding::Binary { .. } | TargetEncoding::Classes { .. } => (0.0, 1.0),
        }
    }

    /// The target of some rows, found in column `place` of a table.
    pub(super) fn encode(&self, table: &Table, place: usize, rows: &[u32]) -> Result<Target, DataError> {
        let column = &table.columns[place];
        if let Some(row) = rows.iter().find(|row| column.is_missing(**row as usize)) {
            return Err(DataError::Cell {
                place: table.place(*row as usize, place),
                problem: "the target is missing".to_owned(),
                next: "leave the row out".to_owned(),
            });
        }
        Ok(match &self.encoding {
            TargetEncoding::Regression { mean, std } => {
                let values = column.numbers().map_err(|row| not_a_number(table, row, place))?;
                // Far beyond any scale, yet finite in f32.
                let scaled = |row: &u32| ((values[*row as usize] - mean) / std).clamp(-1e30, 1e30);
                Target::Values { data: rows.iter().map(|row| scaled(row) as f32).collect(), width: 1 }
            }
            TargetEncoding::Binary { labels } => {
                Target::Values { data: self.classes(table, place, rows, labels, |class| class as f32)?, width: 1 }
            }
            TargetEncoding::Classes { labels } => Target::Classes {
                data: self.classes(table, place, rows, labels, |class| class as i32)?,
                classes: labels.len(),
            },
        })
    }

    /// Says so when labels are accepted but for their full stop.
    pub(super) fn stop_note(&self, column: &Column) -> Option<String> {
        let known = numbered(self.labels());
        if known.is_empty() {
            return None;
        }
        let (_, labels) = column.labels();
        let stopped = labels.iter().find(|label| matches!(find_class(&known, label), Some((_, true))))?;
        Some(format!("labels of {:?} such as {stopped:?} are taken without their trailing full stop", self.name))
    }

    fn classes<T>(
        &self,
        table: &Table,
        place: usize,
        rows: &[u32],
        labels: &[String],
        number: impl Fn(usize) -> T,
    ) -> Result<Vec<T>, DataError> {
        let known = numbered(labels);
        let (codes, names) = table.columns[place].labels();
        let classes: Vec<Option<usize>> =
            names.iter().map(|name| find_class(&known, name).map(|(class, _)| class)).collect();
        rows.iter()
            .map(|row| {
                let code = codes[*row as usize] as usize;
                match classes.get(code).copied().flatten() {
                    Some(class) => Ok(number(class)),
                    None => Err(DataError::Cell {
                        place: table.place(*row as usize, place),
                        problem: format!(
                            "class {:?} does not occur in the training rows ({})",
                            suggest::short(names.get(code).map_or("", String::as_str)),
                            suggest::list(labels.iter().map(String::as_str), 10)
                        ),
                        next: "leave the row out, or train on rows that have this class".to_owned(),
                    }),
                }
            })
            .collect()
    }
}

/// Why it is this task.
fn reason(task: Task, given: bool, distinct: &Distinct) -> String {
    let values = distinct.values;
    match (task, given) {
        (_, true) => "as told".to_owned(),
        (Task::Regression, _) if distinct.whole && values <= 20 => {
            format!("{values} different whole numbers; --task classes makes each a class")
        }
        (Task::Regression, _) => "the target is a number".to_owned(),
        (Task::Binary, _) if distinct.numeric => {
            "two different numbers; --task regression predicts the number".to_owned()
        }
        (Task::Binary, _) => "two labels".to_owned(),
        (Task::Classes, _) => format!("{values} labels"),
    }
}

fn fit_scale(table: &Table, index: usize, rows: &[u32], scale: Scale) -> Result<TargetEncoding, DataError> {
    let values = table.columns[index].numbers().map_err(|row| {
        let problem = format!("row {} holds no number, and regression predicts numbers", row + 1);
        target_error(table, index, &problem, "correct it, or use --task classes")
    })?;
    let moments = Moments::of(rows.iter().map(|row| values[*row as usize]));
    if !(moments.std > 0.0 && moments.std.is_finite()) {
        return Err(target_error(
            table,
            index,
            "its values are too large, or too near each other, to tell apart",
            "choose another unit for it",
        ));
    }
    let (mean, std) = Scaling::fit(scale, &moments, rows.iter().map(|row| values[*row as usize])).parts();
    Ok(TargetEncoding::Regression { mean, std })
}

/// The labels of some rows: numbers by size, text by name.
fn fit_labels(column: &Column, rows: &[u32], notes: &mut Vec<String>) -> Vec<String> {
    let (codes, names) = column.labels();
    let mut counts = vec![0usize; names.len()];
    for row in rows {
        let code = codes[*row as usize];
        if code != MISSING {
            counts[code as usize] += 1;
        }
    }
    let once: Vec<&str> = (0..names.len()).filter(|code| counts[*code] == 1).map(|code| names[code].as_str()).collect();
    if !once.is_empty() {
        notes.push(format!("classes seen in one training row only, hardly learnable: {}", suggest::list(once, 10)));
    }
    let mut labels: Vec<String> =
        (0..names.len()).filter(|code| counts[*code] > 0).map(|code| names[code].clone()).collect();
    let as_numbers: Option<Vec<f64>> = labels.iter().map(|l| l.parse().ok()).collect();
    match as_numbers {
        Some(_) => labels.sort_by(|a, b| {
            let value = |label: &String| label.parse::<f64>().unwrap_or(f64::NAN);
            value(a).total_cmp(&value(b)).then_with(|| a.cmp(b))
        }),
        None => labels.sort(),
    }
    labels
}

fn numbered(labels: &[String]) -> HashMap<&str, usize> {
    let numbered = labels.iter().enumerate();
    numbered.map(|(class, label)| (label.as_str(), class)).collect()
}

/// The class of a label, and whether a trailing full stop had to go.
fn find_class(known: &HashMap<&str, usize>, label: &str) -> Option<(usize, bool)> {
    let stop = || label.strip_suffix('.').and_then(|l| known.get(l));
    // `1.0` is the class `1`.
    let number = || known.get(label.parse::<f64>().ok()?.to_string().as_str());
    known
        .get(label)
        .map(|class| (*class, false))
        .or_else(|| stop().map(|class| (*class, true)))
        .or_else(|| number().map(|class| (*class, false)))
}
