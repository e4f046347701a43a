//! Which columns go together.
//!
//! Two columns of numbers have Pearson's correlation; text of two labels counts as 0 and 1. Between labels and numbers
//! it is the correlation ratio `√(1 − (Σ(x−x̄_label)²/(n−k)) / (Σ(x−x̄)²/(n−1)))`, between labels and labels Cramér's V,
//! both with the correction that makes them 0 on average where nothing is related.

use std::collections::HashMap;

use serde::Serialize;

use super::figures::count;
use crate::prepare::correlation::{Standardised, spread};
use crate::table::{Column, MISSING, Table, Values};

/// Rows and columns that are compared; more take too long for a first look.
const MOST_ROWS: usize = 20_000;
const MOST_COLUMNS: usize = 64;
/// Relations that are told.
const MOST_TOLD: usize = 8;
/// Weaker ones between columns are not told.
const WEAK: f64 = 0.5;
/// Labels beyond which a column is names, not groups.
const MOST_LABELS: usize = 50;

/// Two columns that go together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Relation {
    pub a: String,
    pub b: String,
    /// From −1 to 1, or from 0 to 1 where labels are involved.
    pub value: f64,
    pub measure: Measure,
}

/// What the value of a [`Relation`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    Correlation,
    CorrelationRatio,
    CramersV,
}

#[derive(Debug, Default)]
pub(super) struct Relations {
    pub with_target: Vec<Relation>,
    pub between: Vec<Relation>,
    pub note: Option<String>,
}

/// A column over the sampled rows.
enum Sampled {
    Numbers(Standardised, Vec<f64>),
    /// Labels from 0; `MISSING` where missing.
    Groups(Vec<u32>),
}

impl Relations {
    pub(super) fn of(table: &Table, target: Option<usize>) -> Relations {
        let rows: Vec<usize> = spread(table.rows, MOST_ROWS).collect();
        let target = target.and_then(|index| Some((index, Sampled::of(&table.columns[index], &rows)?)));
        let others = (0..table.columns.len()).filter(|index| target.as_ref().is_none_or(|(at, _)| at != index));
        let sampled: Vec<(usize, Sampled)> = others
            .filter_map(|index| Some((index, Sampled::of(&table.columns[index], &rows)?)))
            .take(MOST_COLUMNS)
            .collect();
        let name = |index: &usize| table.columns[*index].name.clone();
        let relation = |a: &(usize, Sampled), b: &(usize, Sampled)| {
            let (value, measure) = a.1.with(&b.1)?;
            Some(Relation { a: name(&a.0), b: name(&b.0), value, measure })
        };
        let with_target: Vec<Relation> =
            target.iter().flat_map(|target| sampled.iter().filter_map(|column| relation(column, target))).collect();
        let mut between = Vec::new();
        for (place, b) in sampled.iter().enumerate() {
            for a in sampled[..place].iter().filter(|a| a.1.is_numbers() && b.1.is_numbers()) {
                between.extend(relation(a, b).filter(|relation| relation.value.abs() >= WEAK));
            }
        }
        let columns_left = table.columns.len() > MOST_COLUMNS && sampled.len() == MOST_COLUMNS;
        let mut parts = Vec::new();
        if columns_left {
            parts.push(format!("the first {MOST_COLUMNS} of {} columns", count(table.columns.len())));
        }
        if rows.len() < table.rows {
            parts.push(format!("{} of {} rows, evenly spread", count(rows.len()), count(table.rows)));
        }
        let note = (!parts.is_empty()).then(|| format!("from {}", parts.join(" and ")));
        Relations { with_target: strongest(with_target), between: strongest(between), note }
    }
}

fn strongest(mut relations: Vec<Relation>) -> Vec<Relation> {
    relations.sort_by(|a, b| b.value.abs().total_cmp(&a.value.abs()));
    relations.truncate(MOST_TOLD);
    relations
}

impl Sampled {
    /// `None` for what is neither quantity nor group.
    fn of(column: &Column, rows: &[usize]) -> Option<Sampled> {
        let numbers = |values: Vec<f64>| Sampled::Numbers(Standardised::of(values.iter().copied()), values);
        let (codes, labels) = match &column.values {
            Values::Number(values) => return Some(numbers(rows.iter().map(|row| values[*row]).collect())),
            Values::Text { codes, labels } => (codes, labels),
        };
        let mut order: Vec<u32> = (0..labels.len() as u32).collect();
        match labels.len() {
            2 => {
                order.sort_by_key(|code| &labels[*code as usize]);
                let value = |code: u32| if code == MISSING { f64::NAN } else { (code == order[1]) as u8 as f64 };
                Some(numbers(rows.iter().map(|row| value(codes[*row])).collect()))
            }
            3..=MOST_LABELS => Some(Sampled::Groups(rows.iter().map(|row| codes[*row]).collect())),
            _ => None,
        }
    }

    fn is_numbers(&self) -> bool {
        matches!(self, Sampled::Numbers(..))
    }

    fn with(&self, other: &Sampled) -> Option<(f64, Measure)> {
        match (self, other) {
            (Sampled::Numbers(a, _), Sampled::Numbers(b, _)) => Some((a.with(b)?, Measure::Correlation)),
            (Sampled::Groups(groups), Sampled::Numbers(_, values))
            | (Sampled::Numbers(_, values), Sampled::Groups(groups)) => {
                Some((correlation_ratio(groups, values)?, Measure::CorrelationRatio))
            }
            (Sampled::Groups(a), Sampled::Groups(b)) => Some((cramers_v(a, b)?, Measure::CramersV)),
        }
    }
}

fn correlation_ratio(groups: &[u32], values: &[f64]) -> Option<f64> {
    let pairs = || groups.iter().zip(values).filter(|(group, value)| **group != MISSING && !value.is_nan());
    // In units of the largest: squares stay finite.
    let unit = pairs().map(|(_, value)| value.abs()).fold(0.0, f64::max);
    if unit == 0.0 {
        return None;
    }
    let mut sums: HashMap<u32, (f64, f64)> = HashMap::new();
    let (mut n, mut sum) = (0.0, 0.0);
    for (group, value) in pairs() {
        let of_group = sums.entry(*group).or_default();
        *of_group = (of_group.0 + 1.0, of_group.1 + value / unit);
        n += 1.0;
        sum += value / unit;
    }
    let (mut within, mut total) = (0.0, 0.0);
    for (group, value) in pairs() {
        let (count, of_group) = sums[group];
        within += (value / unit - of_group / count).powi(2);
        total += (value / unit - sum / n).powi(2);
    }
    let k = sums.len() as f64;
    let known = k > 1.0 && n > k && total > n * 1e-24;
    known.then(|| (1.0 - (within / (n - k)) / (total / (n - 1.0))).max(0.0).sqrt())
}

fn cramers_v(a: &[u32], b: &[u32]) -> Option<f64> {
    let mut joint: HashMap<(u32, u32), f64> = HashMap::new();
    let (mut a_counts, mut b_counts): (HashMap<u32, f64>, HashMap<u32, f64>) = Default::default();
    let mut n = 0.0;
    for (a, b) in a.iter().zip(b).filter(|(a, b)| **a != MISSING && **b != MISSING) {
        *joint.entry((*a, *b)).or_default() += 1.0;
        *a_counts.entry(*a).or_default() += 1.0;
        *b_counts.entry(*b).or_default() += 1.0;
        n += 1.0;
    }
    // χ²/n = Σ joint² / (a · b) − 1; sorted, since the map has no order of its own.
    let mut terms: Vec<f64> = joint.iter().map(|((a, b), both)| both * both / (a_counts[a] * b_counts[b])).collect();
    terms.sort_unstable_by(f64::total_cmp);
    let phi = terms.iter().sum::<f64>() - 1.0;
    let (k, r) = (a_counts.len() as f64, b_counts.len() as f64);
    let phi = (phi - (k - 1.0) * (r - 1.0) / (n - 1.0)).max(0.0);
    let corrected = |k: f64| k - (k - 1.0).powi(2) / (n - 1.0) - 1.0;
    let least = corrected(k).min(corrected(r));
    (n > 1.0 && least > 0.0).then(|| (phi / least).sqrt().min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_say_all_or_nothing() {
        let groups: Vec<u32> = (0..90).map(|i| i % 3).collect();
        let told: Vec<f64> = groups.iter().map(|g| *g as f64 * 10.0).collect();
        assert_eq!(correlation_ratio(&groups, &told), Some(1.0));
        let apart: Vec<f64> = (0..90).map(|i| (i / 3 % 2) as f64).collect();
        assert_eq!(correlation_ratio(&groups, &apart), Some(0.0));
        assert_eq!(correlation_ratio(&[0, 1, 2], &[1.0, 2.0, 3.0]), None, "a group per row tells nothing");
        assert_eq!(correlation_ratio(&[0, 1], &[0.0, 0.0]), None);
        assert!((cramers_v(&groups, &groups).unwrap() - 1.0).abs() < 1e-9);
        let apart: Vec<u32> = (0..90).map(|i| i / 3 % 3).collect();
        assert_eq!(cramers_v(&groups, &apart), Some(0.0));
        assert_eq!(cramers_v(&[], &[]), None);
    }

    /// 1 − (6/6) / (20/8) = 0.6 by hand: three groups of three, means 1, 4, 2 and the same spread.
    #[test]
    fn correlation_ratio_by_hand() {
        let groups = [0, 0, 0, 1, 1, 1, 2, 2, 2];
        let values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 3.0, 2.0, 1.0];
        // Σwithin = 6, x̄ = 7/3, Σtotal = 20
        assert!((correlation_ratio(&groups, &values).unwrap() - 0.6f64.sqrt()).abs() < 1e-12);
    }
}
