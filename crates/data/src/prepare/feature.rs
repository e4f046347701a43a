//! One feature column: how it is encoded, or why it is not used.

use serde::{Deserialize, Serialize};

use super::moments::Moments;
use crate::suggest;
use crate::table::{Column, MISSING, Values};

/// Categories with a column of their own; the rest share one.
const MAX_CATEGORIES: usize = 64;
/// More different values than this, nearly one per row, are names of the rows.
const IDENTIFIER: usize = 50;
/// Beyond this skewness positive values are taken as their logarithm.
const SKEWED: f64 = 4.0;
/// No standardised input goes beyond this: a wild value is told from the rest, and stays finite.
pub(super) const LIMIT: f64 = 1e6;

/// What becomes of a column's cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Encoding {
    /// `(x - mean) / std` of the number or its logarithm, the mean where missing; then, if
    /// `missing`, 1 where missing.
    Number { mean: f64, std: f64, log: bool, missing: bool },
    /// 1 for the second label, 0 for the first, its share of the training rows for any other cell;
    /// then, if `missing`, 1 where missing.
    Switch { labels: [String; 2], share: f32, missing: bool },
    /// 1 in the column of the label; labels are sorted, then come the other labels, then missing.
    OneHot { labels: Vec<String>, other: bool, missing: bool },
    /// 1 where there is a value: all that differs in a column of one value.
    Present { text: bool },
}

/// The outcome for one column: `None` if it is dropped. Remarks are grouped by their words.
pub(super) struct Fit {
    pub encoding: Option<Encoding>,
    pub remarks: Vec<&'static str>,
}

impl Fit {
    /// Looks at the training rows.
    pub(super) fn column(column: &Column, rows: &[u32]) -> Fit {
        match &column.values {
            Values::Number(values) => fit_number(values, rows),
            Values::Text { codes, labels } => fit_text(codes, labels, rows),
        }
    }

    fn drop(reason: &'static str) -> Fit {
        Fit { encoding: None, remarks: vec![reason] }
    }
}

const ALL_MISSING: &str = "dropped, no value in the training rows";
const CONSTANT: &str = "dropped, the same value in all training rows";
const IDENTIFIER_LIKE: &str = "dropped, nearly every value is different (an identifier or free text)";
const PRESENT: &str = "one value or none, kept as whether there is one";
const FILLED: &str = "missing values filled with the mean, and marked in an input of their own";
const MARKED: &str = "missing values marked in an input of their own";
const LOG: &str = "logarithm taken before standardising (strongly skewed)";
const MOSTLY_NUMBERS: &str =
    "read as text, though most labels are numbers (name what stands for missing, --missing TOKEN, to have numbers)";
const RARE: &str = "only the 64 most frequent labels have an input, the rest share one";

fn fit_number(values: &[f64], rows: &[u32]) -> Fit {
    let used = rows.iter().map(|row| values[*row as usize]);
    let mut moments = Moments::of(used.clone());
    let missing = moments.count < rows.len();
    if moments.count == 0 {
        return Fit::drop(ALL_MISSING);
    }
    if moments.constant() {
        return match missing {
            false => Fit::drop(CONSTANT),
            true => Fit { encoding: Some(Encoding::Present { text: false }), remarks: vec![PRESENT] },
        };
    }
    let mut remarks = Vec::new();
    let flag = used.clone().filter(|v| v.is_finite()).all(|v| v == moments.min || v == moments.max);
    let mut log = moments.skewness > SKEWED && moments.min >= 0.0 && !flag;
    if log {
        let logs = Moments::of(used.map(signed_log));
        log = !logs.constant();
        if log {
            moments = logs;
            remarks.push(LOG);
        }
    }
    if missing {
        remarks.push(FILLED);
    }
    Fit { encoding: Some(Encoding::Number { mean: moments.mean, std: moments.std, log, missing }), remarks }
}

fn fit_text(codes: &[u32], labels: &[String], rows: &[u32]) -> Fit {
    let mut counts = vec![0usize; labels.len()];
    let mut present = 0;
    for row in rows {
        let code = codes[*row as usize];
        if code != MISSING {
            counts[code as usize] += 1;
            present += 1;
        }
    }
    let missing = present < rows.len();
    let mut seen: Vec<usize> = (0..labels.len()).filter(|code| counts[*code] > 0).collect();
    let identifier = seen.len() > IDENTIFIER && seen.len() * 10 >= present * 9;
    match (seen.len(), missing) {
        (0, _) => return Fit::drop(ALL_MISSING),
        (1, false) => return Fit::drop(CONSTANT),
        (1, true) => {
            return Fit { encoding: Some(Encoding::Present { text: true }), remarks: vec![PRESENT] };
        }
        _ => {}
    }
    let mut remarks = Vec::new();
    let numbers = seen.iter().filter(|code| labels[**code].parse::<f64>().is_ok()).count();
    if seen.len() > 2 && numbers * 2 > seen.len() {
        remarks.push(MOSTLY_NUMBERS);
    }
    if identifier {
        remarks.push(IDENTIFIER_LIKE);
        return Fit { encoding: None, remarks };
    }
    // The most frequent, in doubt the first by name.
    seen.sort_by(|a, b| counts[*b].cmp(&counts[*a]).then_with(|| labels[*a].cmp(&labels[*b])));
    let other = seen.len() > MAX_CATEGORIES;
    seen.truncate(MAX_CATEGORIES);
    seen.sort_by(|a, b| labels[*a].cmp(&labels[*b]));

    if other {
        remarks.push(RARE);
    }
    if missing {
        remarks.push(MARKED);
    }
    let encoding = match seen[..] {
        [zero, one] => Encoding::Switch {
            labels: [labels[zero].clone(), labels[one].clone()],
            share: (counts[one] as f64 / present as f64) as f32,
            missing,
        },
        _ => Encoding::OneHot { labels: seen.iter().map(|code| labels[*code].clone()).collect(), other, missing },
    };
    Fit { encoding: Some(encoding), remarks }
}

impl Encoding {
    /// Number of inputs.
    pub(super) fn width(&self) -> usize {
        match self {
            Encoding::Number { missing, .. } | Encoding::Switch { missing, .. } => 1 + *missing as usize,
            Encoding::OneHot { labels, other, missing } => labels.len() + *other as usize + *missing as usize,
            Encoding::Present { .. } => 1,
        }
    }

    /// Read as text in training.
    pub(super) fn is_text(&self) -> bool {
        match self {
            Encoding::Number { .. } => false,
            Encoding::Switch { .. } | Encoding::OneHot { .. } => true,
            Encoding::Present { text } => *text,
        }
    }

    /// The names of the inputs.
    pub(super) fn names(&self, column: &str) -> Vec<String> {
        let named = |label: &str| format!("{column}={label}");
        let (mut names, missing) = match self {
            Encoding::Number { missing, .. } => (vec![column.to_owned()], *missing),
            Encoding::Switch { labels, missing, .. } => (vec![named(&labels[1])], *missing),
            Encoding::OneHot { labels, other, missing } => {
                let mut names: Vec<String> = labels.iter().map(|label| named(label)).collect();
                names.extend(other.then(|| named("(other)")));
                (names, *missing)
            }
            Encoding::Present { .. } => (vec![named("(present)")], false),
        };
        names.extend(missing.then(|| named("(missing)")));
        names
    }

    /// Writes the inputs of `rows` at `offset` into rows of `stride` zeros; the error is the first
    /// row, counted from 0, that holds no number where one is needed.
    pub(super) fn write(
        &self,
        column: &Column,
        rows: &[u32],
        out: &mut [f32],
        stride: usize,
        offset: usize,
    ) -> Result<(), usize> {
        let cells = rows.iter().map(|row| *row as usize);
        let inputs = out.chunks_exact_mut(stride.max(1)).map(|row| &mut row[offset..offset + self.width()]);
        let pairs = cells.zip(inputs);
        match self {
            Encoding::Number { mean, std, log, missing } => {
                let values = column.numbers()?;
                for (row, input) in pairs {
                    let value = values[row];
                    if value.is_nan() {
                        if *missing {
                            input[1] = 1.0;
                        }
                        continue;
                    }
                    let value = if *log { signed_log(value) } else { value };
                    input[0] = ((value - mean) / std).clamp(-LIMIT, LIMIT) as f32;
                }
            }
            Encoding::Switch { labels, share, missing } => {
                let (codes, names) = column.labels();
                let value = |name: &String| match labels.iter().position(|label| label == name) {
                    Some(which) => which as f32,
                    None => *share,
                };
                let values: Vec<f32> = names.iter().map(value).collect();
                for (row, input) in pairs {
                    input[0] = values.get(codes[row] as usize).copied().unwrap_or(*share);
                    if *missing && codes[row] == MISSING {
                        input[1] = 1.0;
                    }
                }
            }
            Encoding::OneHot { labels, other, missing } => {
                let (codes, names) = column.labels();
                let rest = other.then_some(labels.len());
                let place = |name: &String| labels.binary_search(name).ok().or(rest);
                let places: Vec<Option<usize>> = names.iter().map(place).collect();
                let absent = missing.then_some(labels.len() + *other as usize);
                for (row, input) in pairs {
                    let place = match codes[row] {
                        MISSING => absent,
                        code => places[code as usize],
                    };
                    if let Some(place) = place {
                        input[place] = 1.0;
                    }
                }
            }
            Encoding::Present { .. } => {
                for (row, input) in pairs {
                    input[0] = !column.is_missing(row) as u8 as f32;
                }
            }
        }
        Ok(())
    }

    /// Says so when a new file has labels that were not seen in training.
    pub(super) fn unseen_note(&self, column: &Column, name: &str) -> Option<String> {
        let (known, fate): (&[String], &str) = match self {
            Encoding::Switch { labels, .. } => (labels, "taken as unknown"),
            Encoding::OneHot { labels, other: false, .. } => (labels, "taken as none of the known ones"),
            _ => return None,
        };
        let (_, names) = column.labels();
        let unseen = names.iter().filter(|label| !known.contains(label));
        let unseen: Vec<&str> = unseen.map(String::as_str).collect();
        (!unseen.is_empty())
            .then(|| format!("labels of {name:?} not seen in training, {fate}: {}", suggest::list(unseen, 10)))
    }
}

/// log(1 + x), continued to negative values, which training had none of, by symmetry.
pub(super) fn signed_log(value: f64) -> f64 {
    value.signum() * value.abs().ln_1p()
}
