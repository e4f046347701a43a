//! One feature column that is used: how its cells become inputs.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::calendar::Calendar;
use super::category::{Embedding, Hash, Ordinal};
use super::logarithm::signed_log;
use super::scale::Scaling;
use super::text::HashedText;
use crate::table::{Column, MISSING};

/// What becomes of a column's cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Encoding {
    /// `(x - mean) / std` of the number or its logarithm, `fill` where missing (0, the mean, unless told); then, if
    /// `missing`, 1 where missing.
    Number {
        #[serde(flatten)]
        scaling: Scaling,
        log: bool,
        missing: bool,
        #[serde(default, skip_serializing_if = "is_zero")]
        fill: f32,
    },
    /// 1 for the second label, 0 for the first, its share of the training rows for any other cell;
    /// `fill` where missing, if told; then, if `missing`, 1 where missing.
    Switch {
        labels: [String; 2],
        share: f32,
        missing: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fill: Option<f32>,
    },
    /// 1 in the column of the label; labels are sorted, then come the other labels, then missing. A missing cell is
    /// also 1 in column `fill`, if told.
    OneHot {
        labels: Vec<String>,
        other: bool,
        missing: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fill: Option<usize>,
    },
    /// 1 where there is a value: all that differs in a column of one value.
    Present {
        text: bool,
    },
    Ordinal(Ordinal),
    Hash(Hash),
    Embedding(Embedding),
    Calendar(Calendar),
    Text(HashedText),
}

impl Encoding {
    /// Number of inputs.
    pub(super) fn width(&self) -> usize {
        match self {
            Encoding::Number { missing, .. } | Encoding::Switch { missing, .. } => 1 + *missing as usize,
            Encoding::OneHot { labels, other, missing, .. } => labels.len() + *other as usize + *missing as usize,
            Encoding::Present { .. } | Encoding::Embedding(_) => 1,
            Encoding::Ordinal(ordinal) => ordinal.width(),
            Encoding::Hash(hash) => hash.width(),
            Encoding::Calendar(calendar) => calendar.width(),
            Encoding::Text(text) => text.width(),
        }
    }

    /// Taken as labels in training.
    pub(super) fn is_text(&self) -> bool {
        match self {
            Encoding::Number { .. } => false,
            Encoding::Switch { .. } | Encoding::OneHot { .. } => true,
            Encoding::Ordinal(_) | Encoding::Hash(_) | Encoding::Embedding(_) => true,
            Encoding::Calendar(_) | Encoding::Text(_) => true,
            Encoding::Present { text } => *text,
        }
    }

    /// The names of the inputs.
    pub(super) fn names(&self, column: &str) -> Vec<String> {
        let named = |label: &str| format!("{column}={label}");
        let (mut names, missing) = match self {
            Encoding::Number { missing, .. } => (vec![column.to_owned()], *missing),
            Encoding::Switch { labels, missing, .. } => (vec![named(&labels[1])], *missing),
            Encoding::OneHot { labels, other, missing, .. } => {
                let mut names: Vec<String> = labels.iter().map(|label| named(label)).collect();
                names.extend(other.then(|| named("(other)")));
                (names, *missing)
            }
            Encoding::Present { .. } => (vec![named("(present)")], false),
            Encoding::Ordinal(ordinal) => return ordinal.names(column),
            Encoding::Hash(hash) => return hash.names(column),
            Encoding::Text(text) => return text.names(column),
            Encoding::Embedding(_) => return vec![named("(index)")],
            Encoding::Calendar(calendar) => return calendar.names(column),
        };
        names.extend(missing.then(|| named("(missing)")));
        names
    }

    /// Writes the inputs of `rows` at `offset` into rows of `stride` zeros; the error is the first
    /// row, counted from 0, that holds no number, or no date, where one is needed.
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
            Encoding::Number { scaling, log, missing, fill } => {
                let values = column.numbers()?;
                for (row, input) in pairs {
                    let value = values[row];
                    if value.is_nan() {
                        input[0] = *fill;
                        if *missing {
                            input[1] = 1.0;
                        }
                        continue;
                    }
                    let value = if *log { signed_log(value) } else { value };
                    input[0] = scaling.apply(value);
                }
            }
            Encoding::Switch { labels, share, missing, fill } => {
                let (codes, names) = column.labels();
                let value = |name: &String| match labels.iter().position(|label| label == name) {
                    Some(which) => which as f32,
                    None => *share,
                };
                let values: Vec<f32> = names.iter().map(value).collect();
                for (row, input) in pairs {
                    input[0] = values.get(codes[row] as usize).copied().or(*fill).unwrap_or(*share);
                    if *missing && codes[row] == MISSING {
                        input[1] = 1.0;
                    }
                }
            }
            Encoding::OneHot { labels, other, missing, fill } => {
                let (codes, names) = column.labels();
                let rest = other.then_some(labels.len());
                let place = |name: &String| labels.binary_search(name).ok().or(rest);
                let places: Vec<Option<usize>> = names.iter().map(place).collect();
                let absent = missing.then_some(labels.len() + *other as usize);
                for (row, input) in pairs {
                    let (place, mark) = match codes[row] {
                        MISSING => (*fill, absent),
                        code => (places[code as usize], None),
                    };
                    for place in [place, mark].into_iter().flatten() {
                        if let Some(cell) = input.get_mut(place) {
                            *cell = 1.0;
                        }
                    }
                }
            }
            Encoding::Present { .. } => {
                for (row, input) in pairs {
                    input[0] = !column.is_missing(row) as u8 as f32;
                }
            }
            Encoding::Ordinal(ordinal) => ordinal.write(column, pairs),
            Encoding::Hash(hash) => hash.write(column, pairs),
            Encoding::Text(text) => text.write(column, pairs),
            Encoding::Embedding(embedding) => embedding.write(column, pairs),
            Encoding::Calendar(calendar) => calendar.write(column, pairs)?,
        }
        Ok(())
    }

    /// Says so when a new file has labels that were not seen in training.
    pub(super) fn unseen(&self, column: &Column) -> Option<(&'static str, Vec<String>)> {
        let (known, fate): (&[String], &'static str) = match self {
            Encoding::Switch { labels, .. } => (labels, "taken as unknown"),
            Encoding::OneHot { labels, other: false, .. } => (labels, "taken as none of the known ones"),
            Encoding::Ordinal(ordinal) => (ordinal.labels(), "taken as the mean"),
            Encoding::Embedding(embedding) => (embedding.labels(), "taken as unknown, index 0"),
            Encoding::OneHot { .. } | Encoding::Number { .. } | Encoding::Present { .. } => return None,
            Encoding::Hash(_) | Encoding::Calendar(_) | Encoding::Text(_) => return None,
        };
        let (_, names) = column.labels();
        let known: HashSet<&String> = known.iter().collect();
        let unseen: Vec<String> = names.iter().filter(|label| !known.contains(label)).cloned().collect();
        (!unseen.is_empty()).then_some((fate, unseen))
    }
}

fn is_zero(value: &f32) -> bool {
    *value == 0.0
}
