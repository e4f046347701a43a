//! One column: its range, middle and spread, or its labels.

use serde::Serialize;

use crate::prepare::identifier::{RowNumber, row_number};
use crate::prepare::is_free_text;
use crate::prepare::moments::Moments;
use crate::prepare::scale::{quantile, sorted};
use crate::rng;
use crate::table::{Column, MISSING, Values};

/// Bars of a histogram.
pub(super) const BARS: usize = 10;
/// Labels told of a column.
const MOST_LABELS: usize = 8;

/// What a column holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ColumnSummary {
    pub name: String,
    /// `number`, `whole number`, `text`, `date`, `empty`; the shape for a field of a source.
    pub kind: String,
    pub missing: usize,
    pub missing_share: f64,
    /// Different values; `None` where they were not counted.
    pub distinct: Option<usize>,
    /// Of a column of numbers that has any.
    pub numbers: Option<Numbers>,
    /// The most frequent labels of a column of text, that one first.
    pub labels: Vec<Label>,
}

/// The shape of a column of numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Numbers {
    pub min: f64,
    pub median: f64,
    pub mean: f64,
    pub max: f64,
    /// Divided by n.
    pub deviation: f64,
    /// Values in ten equal parts from min to max.
    pub histogram: Vec<usize>,
}

/// A label and the rows that have it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Label {
    pub label: String,
    pub rows: usize,
    /// Of the rows that have a label.
    pub share: f64,
}

/// What warnings are made from.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Facts {
    /// Equal for equal columns.
    pub hash: u64,
    /// The smallest and the largest number: the number, its rows, and the distance to the next one.
    pub ends: Vec<End>,
    /// Whole numbers or dates, each larger than the one before.
    pub rising: bool,
    /// Text, though most labels are numbers.
    pub mostly_numbers: bool,
    /// Numbers that name or count the rows.
    pub row_number: Option<RowNumber>,
    /// Text whose cells share words.
    pub free_text: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct End {
    pub value: f64,
    pub rows: usize,
    /// To the nearest other value.
    pub gap: f64,
    /// From that value to the other end.
    pub rest: f64,
}

pub(super) fn summarise(column: &Column) -> (ColumnSummary, Facts) {
    let (mut summary, mut facts) = match &column.values {
        Values::Number(values) => of_numbers(values),
        Values::Text { codes, labels } => of_labels(codes, labels),
    };
    if let Values::Number(values) = &column.values {
        facts.row_number = row_number(&column.name, values);
    }
    summary.name = column.name.clone();
    (summary, facts)
}

fn of_numbers(values: &[f64]) -> (ColumnSummary, Facts) {
    let sorted = sorted(values.iter().copied());
    let runs = || sorted.chunk_by(|a, b| a == b);
    let whole = sorted.iter().all(|value| value.fract() == 0.0);
    let complete = sorted.len() == values.len();
    let summary = ColumnSummary {
        name: String::new(),
        kind: match (sorted.is_empty(), whole) {
            (true, _) => "empty",
            (_, true) => "whole number",
            (_, false) => "number",
        }
        .to_owned(),
        missing: values.len() - sorted.len(),
        missing_share: share(values.len() - sorted.len(), values.len()),
        distinct: Some(runs().count()),
        numbers: Numbers::of(&sorted),
        labels: Vec::new(),
    };
    let ends = match (runs().next(), runs().next_back()) {
        (Some(low), Some(high)) if low[0] < high[0] => {
            let (min, max) = (low[0], high[0]);
            let (second, last_but_one) = (sorted[low.len()], sorted[sorted.len() - high.len() - 1]);
            vec![
                End { value: min, rows: low.len(), gap: second - min, rest: max - second },
                End { value: max, rows: high.len(), gap: max - last_but_one, rest: last_but_one - min },
            ]
        }
        _ => Vec::new(),
    };
    let rising = whole && complete && values.len() > 1 && values.windows(2).all(|pair| pair[0] < pair[1]);
    let hash = values.iter().fold(1, |hash, value| combined(hash, number_bits(*value)));
    (summary, Facts { hash, ends, rising, ..Facts::default() })
}

fn of_labels(codes: &[u32], labels: &[String]) -> (ColumnSummary, Facts) {
    let mut counts = vec![0usize; labels.len()];
    for code in codes.iter().filter(|code| **code != MISSING) {
        counts[*code as usize] += 1;
    }
    let mut seen: Vec<usize> = (0..labels.len()).filter(|code| counts[*code] > 0).collect();
    let present: usize = counts.iter().sum();
    let dates = !seen.is_empty() && seen.iter().all(|code| is_date(&labels[*code]));
    let numbers = seen.iter().filter(|code| labels[**code].parse::<f64>().is_ok()).count();
    let rising = dates
        && present == codes.len()
        && codes.windows(2).all(|pair| labels[pair[0] as usize] < labels[pair[1] as usize]);
    let hashes: Vec<u64> = labels.iter().map(|label| text_bits(label)).collect();
    let cells: Vec<(&str, usize)> = seen.iter().map(|code| (labels[*code].as_str(), counts[*code])).collect();
    let bits = |code: &u32| hashes.get(*code as usize).copied().unwrap_or(0);
    let facts = Facts {
        hash: codes.iter().fold(2, |hash, code| combined(hash, bits(code))),
        ends: Vec::new(),
        rising,
        mostly_numbers: numbers * 2 > seen.len(),
        row_number: None,
        free_text: !dates && is_free_text(&cells),
    };
    let distinct = seen.len();
    seen.sort_by(|a, b| counts[*b].cmp(&counts[*a]).then_with(|| labels[*a].cmp(&labels[*b])));
    let label = |code: &usize| Label {
        label: labels[*code].clone(),
        rows: counts[*code],
        share: share(counts[*code], present),
    };
    let kind = match (present, dates) {
        (0, _) => "empty",
        (_, true) => "date",
        (_, false) => "text",
    };
    let summary = ColumnSummary {
        name: String::new(),
        kind: kind.to_owned(),
        missing: codes.len() - present,
        missing_share: share(codes.len() - present, codes.len()),
        distinct: Some(distinct),
        numbers: None,
        labels: seen.iter().take(MOST_LABELS).map(label).collect(),
    };
    (summary, facts)
}

impl Numbers {
    /// Of sorted values, unless there are none.
    pub(super) fn of(sorted: &[f64]) -> Option<Numbers> {
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let moments = Moments::of(sorted.iter().copied());
        let edge = |bar: usize| {
            let part = bar as f64 / BARS as f64;
            min * (1.0 - part) + max * part
        };
        // Rounded edges of a narrow range may fall back: no bar ends before it begins.
        let mut ends: Vec<usize> = (1..BARS).map(|bar| sorted.partition_point(|value| *value < edge(bar))).collect();
        ends.push(sorted.len());
        let mut begin = 0;
        let histogram = ends.into_iter().map(|end| {
            let rows = end.saturating_sub(begin);
            begin = begin.max(end);
            rows
        });
        Some(Numbers {
            min,
            median: quantile(sorted, 0.5),
            mean: moments.mean,
            max,
            deviation: moments.std,
            histogram: histogram.collect(),
        })
    }
}

pub(super) fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// One more value into the hash of a row or a column.
pub(super) fn combined(hash: u64, bits: u64) -> u64 {
    rng::mix(hash.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ bits)
}

/// The same for equal numbers; all missing ones are one.
pub(super) fn number_bits(value: f64) -> u64 {
    if value.is_nan() { u64::MAX } else { (value + 0.0).to_bits() }
}

/// The same for equal labels, in every column.
pub(super) fn text_bits(label: &str) -> u64 {
    label.bytes().fold(3, |hash, byte| combined(hash, byte as u64))
}

/// `2016-07-01` or `2016/07/01`, perhaps with a time.
fn is_date(label: &str) -> bool {
    let bytes = label.as_bytes();
    let digits = |range: std::ops::Range<usize>| bytes.get(range).is_some_and(|b| b.iter().all(u8::is_ascii_digit));
    let between = bytes.get(4).filter(|byte| matches!(byte, b'-' | b'/'));
    digits(0..4) && between.is_some() && digits(5..7) && bytes.get(7) == between && digits(8..10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_by_hand() {
        let column = Column { name: "a".into(), values: Values::Number(vec![1.0, f64::NAN, 10.0, 2.0, 3.0, 2.0]) };
        let (summary, facts) = summarise(&column);
        let numbers = summary.numbers.unwrap();
        assert_eq!((numbers.min, numbers.median, numbers.mean, numbers.max), (1.0, 2.0, 3.6, 10.0));
        assert!((numbers.deviation - 10.64f64.sqrt()).abs() < 1e-12);
        assert_eq!(numbers.histogram, [1, 2, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((summary.missing, summary.distinct), (1, Some(4)));
        assert_eq!(summary.kind, "whole number");
        assert_eq!(facts.ends[1], End { value: 10.0, rows: 1, gap: 7.0, rest: 2.0 });
    }

    #[test]
    fn extremes_and_nothing() {
        let of = |values: Vec<f64>| summarise(&Column { name: "a".into(), values: Values::Number(values) }).0;
        let wide = of(vec![f64::MIN, 0.0, f64::MAX]).numbers.unwrap();
        assert_eq!(wide.histogram, [1, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
        assert!(wide.mean.is_finite() && wide.deviation.is_finite());
        assert_eq!(of(vec![5.0; 3]).numbers.unwrap().histogram.iter().sum::<usize>(), 3);
        assert_eq!((of(vec![]).numbers, of(vec![f64::NAN]).kind.as_str()), (None, "empty"));
    }

    #[test]
    fn dates_are_told() {
        assert!(is_date("2016-07-01") && is_date("2016/07/01 00:00:00"));
        assert!(!is_date("2016-07/01") && !is_date("20160701") && !is_date("1-1-2016") && !is_date(""));
    }
}
