//! One feature column of the training rows: what encoding suits it, or why it is not used.

use std::borrow::Cow;

use super::calendar::{Calendar, Dates};
use super::category::{Categorical, Counted, Embedding, Hash, Ordinal};
use super::feature::Encoding;
use super::identifier::{RowNumber, labels_identify, row_number};
use super::impute::Impute;
use super::logarithm::signed_log;
use super::moments::Moments;
use super::options::Wish;
use super::scale::{Scale, Scaling};
use super::text::{HashedText, is_free_text};
use crate::table::DateFormat;
use crate::table::{Column, MISSING, Values};

/// Categories with a column of their own; the rest share one.
const MAX_CATEGORIES: usize = 64;
/// Beyond this skewness positive values are taken as their logarithm.
const SKEWED: f64 = 4.0;

/// The outcome for one column: `None` if it is dropped. Remarks are grouped by their words.
pub(super) struct Fit {
    pub encoding: Option<Encoding>,
    pub remarks: Vec<Cow<'static, str>>,
}

impl Fit {
    /// Looks at the training rows; `unnamed` if the file names other columns, `rounded` if numbers are not those of the file.
    pub(super) fn column(column: &Column, unnamed: bool, rows: &[u32], wish: &Wish, rounded: bool) -> Fit {
        match &column.values {
            Values::Number(values) if wish.categorical.is_none() => {
                let name = if unnamed { "" } else { &column.name };
                let row_number = if wish.keeps_identifier() { None } else { row_number(name, values) };
                if row_number == Some(RowNumber::Identifier) {
                    return Fit::drop(IDENTIFIER_NUMBER);
                }
                let mut fit = fit_number(values, rows, wish);
                if row_number == Some(RowNumber::Counter) && fit.encoding.is_some() {
                    fit.remarks.push(COUNTER.into());
                }
                if rounded {
                    fit.remarks.push(ROUNDED.into());
                }
                fit
            }
            values => {
                let (codes, labels) = column.labels();
                let as_labels = wish.own_categories || wish.own_text || wish.dates == Some(Dates::Labels);
                if !as_labels && let Some(format) = DateFormat::of_column(labels.iter().map(String::as_str)) {
                    return fit_dates(format, &codes, &labels, rows, wish);
                }
                fit_labels(&codes, &labels, rows, wish, matches!(values, Values::Text { .. }))
            }
        }
    }

    pub(super) fn drop(reason: &'static str) -> Fit {
        Fit { encoding: None, remarks: vec![reason.into()] }
    }
}

const ALL_MISSING: &str = "dropped, no value in the training rows";
pub(super) const CONSTANT: &str = "dropped, the same value in all training rows";
const ROUNDED: &str = "whole numbers beyond 2^53, rounded to what a floating-point number of 64 bits holds (subtract \
    the smallest of them, or read them as text with --text)";
const IDENTIFIER_LIKE: &str = "dropped, nearly every value is different (an identifier or free text)";
const IDENTIFIER_NUMBER: &str =
    "dropped, an identifier of the rows by its name and values (--only COLUMN,… keeps what it names)";
const COUNTER: &str = "used, though it counts the rows (--drop COLUMN leaves it out if it is an identifier)";
const PRESENT: &str = "one value or none, kept as whether there is one";
const MARKED: &str = "missing values marked in an input of their own";
const UNKNOWN: &str = "missing values taken as unknown, index 0";
const LOG: &str = "logarithm taken before standardising (strongly skewed)";
const LOG_TOLD: &str = "logarithm taken, as told";
const MOSTLY_NUMBERS: &str =
    "read as text, though most labels are numbers (name what stands for missing, --missing TOKEN, to have numbers)";
const RARE: &str = "only the 64 most frequent labels have an input, the rest share one";

fn filled(with: &Impute) -> Cow<'static, str> {
    format!("missing values filled with {with}, and marked in an input of their own").into()
}

fn fit_number(values: &[f64], rows: &[u32], wish: &Wish) -> Fit {
    let used = rows.iter().map(|row| values[*row as usize]);
    let mut moments = Moments::of(used.clone());
    let missing = moments.count < rows.len();
    if moments.count == 0 {
        return Fit::drop(ALL_MISSING);
    }
    if moments.constant() {
        return match missing {
            false => Fit::drop(CONSTANT),
            true => Fit { encoding: Some(Encoding::Present { text: false }), remarks: vec![PRESENT.into()] },
        };
    }
    let mut remarks = Vec::new();
    let flag = used.clone().filter(|v| v.is_finite()).all(|v| v == moments.min || v == moments.max);
    let skewed = moments.skewness > SKEWED && moments.min >= 0.0 && !flag;
    let mut log = wish.log.is_some() || (skewed && wish.scale.is_none());
    if log {
        let logs = Moments::of(used.clone().map(signed_log));
        log = !logs.constant();
        if log {
            moments = logs;
            remarks.push(if wish.log.is_some() { LOG_TOLD } else { LOG }.into());
        }
    }
    if let (Some(scale), true) = (wish.scale, wish.own_scale) {
        remarks.push(format!("{scale}, as told").into());
    }
    let as_used = |value: f64| if log { signed_log(value) } else { value };
    let scaling = Scaling::fit(wish.scale.unwrap_or(Scale::Standard), &moments, used.clone().map(as_used))
        .repeated(wish.scale_times.unwrap_or(1));
    let impute = wish.impute.as_ref().unwrap_or(&Impute::Mean);
    let fill = scaling.apply(impute.number(moments.mean, used.map(as_used), as_used));
    if missing {
        remarks.push(filled(impute));
    }
    Fit { encoding: Some(Encoding::Number { scaling, log, missing, fill }), remarks }
}

fn fit_dates(format: DateFormat, codes: &[u32], labels: &[String], rows: &[u32], wish: &Wish) -> Fit {
    let counted = Labels::of(codes, labels, rows);
    let missing = counted.present < rows.len();
    if counted.present == 0 {
        return Fit::drop(ALL_MISSING);
    }
    let fill = wish.impute.as_ref().and_then(|impute| impute.label(&counted.seen));
    let Some(calendar) = Calendar::fit(format, &counted.seen, fill.as_deref(), missing, wish.scale) else {
        return match missing {
            false => Fit::drop(CONSTANT),
            true => Fit { encoding: Some(Encoding::Present { text: true }), remarks: vec![PRESENT.into()] },
        };
    };
    let mut remarks = vec![calendar.remark().into()];
    if missing {
        remarks.push(match (&wish.impute, fill) {
            (Some(impute), Some(_)) => filled(impute),
            _ => MARKED.into(),
        });
    }
    Fit { encoding: Some(Encoding::Calendar(calendar)), remarks }
}

/// Labels of the training rows, each with its rows.
struct Labels<'a> {
    seen: Vec<(&'a str, usize)>,
    /// Rows that have a label.
    present: usize,
}

impl Labels<'_> {
    fn of<'a>(codes: &[u32], labels: &'a [String], rows: &[u32]) -> Labels<'a> {
        let mut counts = vec![0usize; labels.len()];
        for row in rows {
            let code = codes[*row as usize];
            if code != MISSING {
                counts[code as usize] += 1;
            }
        }
        let present = counts.iter().sum();
        let seen = labels.iter().map(String::as_str).zip(counts).filter(|(_, count)| *count > 0).collect();
        Labels { seen, present }
    }
}

fn fit_labels(codes: &[u32], labels: &[String], rows: &[u32], wish: &Wish, text: bool) -> Fit {
    let Labels { mut seen, present } = Labels::of(codes, labels, rows);
    let missing = present < rows.len();
    let identifier = labels_identify(seen.len(), present);
    match (seen.len(), missing) {
        (0, _) => return Fit::drop(ALL_MISSING),
        (1, false) => return Fit::drop(CONSTANT),
        (1, true) => {
            return Fit { encoding: Some(Encoding::Present { text }), remarks: vec![PRESENT.into()] };
        }
        _ => {}
    }
    let mut remarks: Vec<Cow<'static, str>> = Vec::new();
    let numbers = seen.iter().filter(|(label, _)| label.parse::<f64>().is_ok()).count();
    if text && !wish.read_as_text && seen.len() > 2 && numbers * 2 > seen.len() {
        remarks.push(MOSTLY_NUMBERS.into());
    }
    let many = seen.len() > MAX_CATEGORIES && seen.len() * 2 >= present && wish.categorical.is_none();
    let looks_like_text = || text && !wish.own_categories && (identifier || many) && is_free_text(&seen);
    if wish.own_text || looks_like_text() {
        return fit_text(&seen, wish, rows.len(), missing);
    }
    if identifier && !wish.keeps_identifier() {
        remarks.push(IDENTIFIER_LIKE.into());
        return Fit { encoding: None, remarks };
    }
    if let (Some(categorical), true) = (wish.categorical, wish.own_categories) {
        remarks.push(format!("{categorical}, as told").into());
    }
    let fill = wish.impute.as_ref().and_then(|impute| impute.label(&seen));
    if missing {
        remarks.push(match (&wish.impute, &fill, wish.categorical) {
            (Some(impute), Some(_), Some(Categorical::Embedding)) => format!("missing values taken as {impute}").into(),
            (Some(impute), Some(_), _) => filled(impute),
            (_, _, Some(Categorical::Embedding)) => UNKNOWN.into(),
            _ => MARKED.into(),
        });
    }
    if let (Some(fill), true) = (&fill, missing) {
        match seen.iter_mut().find(|(label, _)| label == fill) {
            Some((_, count)) => *count += rows.len() - present,
            None => seen.push((fill, rows.len() - present)),
        }
    }
    let fill = fill.as_deref();
    let encoding = match wish.categorical {
        None | Some(Categorical::OneHot) => {
            if seen.len() > MAX_CATEGORIES {
                remarks.insert(remarks.len() - missing as usize, RARE.into());
            }
            fit_one_hot(seen, fill, missing, wish.categorical.is_none())
        }
        Some(Categorical::Ordinal) => {
            Encoding::Ordinal(Ordinal::fit(Counted { labels: seen, fill, missing }, wish.scale))
        }
        Some(Categorical::Hash(buckets)) => {
            Encoding::Hash(Hash::fit(&Counted { labels: seen, fill, missing }, buckets))
        }
        Some(Categorical::Embedding) => Encoding::Embedding(Embedding::fit(Counted { labels: seen, fill, missing })),
    };
    Fit { encoding: Some(encoding), remarks }
}

/// Hashed words.
fn fit_text(cells: &[(&str, usize)], wish: &Wish, rows: usize, missing: bool) -> Fit {
    let fill = wish.impute.as_ref().and_then(|impute| impute.label(cells));
    let wished = wish.text.unwrap_or_default();
    let text = HashedText::fit(cells, wished, rows, fill.as_deref(), missing);
    let mut remarks: Vec<Cow<'static, str>> = vec![text.remark(wished.hash.is_some() || wish.own_text, rows).into()];
    if missing {
        remarks.push(match (&wish.impute, &fill) {
            (Some(impute), Some(_)) => filled(impute),
            _ => MARKED.into(),
        });
    }
    Fit { encoding: Some(Encoding::Text(text)), remarks }
}

/// An input per label, or one for two labels where that is left to us.
fn fit_one_hot(mut seen: Vec<(&str, usize)>, fill: Option<&str>, missing: bool, automatic: bool) -> Encoding {
    let rows: usize = seen.iter().map(|(_, count)| count).sum();
    // The most frequent, in doubt the first by name.
    seen.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let other = seen.len() > MAX_CATEGORIES;
    seen.truncate(MAX_CATEGORIES);
    seen.sort_by(|a, b| a.0.cmp(b.0));
    let place = fill.and_then(|fill| seen.iter().position(|(label, _)| *label == fill));
    match seen[..] {
        [(zero, _), (one, ones)] if automatic => Encoding::Switch {
            labels: [zero.to_owned(), one.to_owned()],
            share: (ones as f64 / rows as f64) as f32,
            missing,
            fill: place.map(|place| place as f32),
        },
        _ => Encoding::OneHot {
            fill: place.or((fill.is_some() && other).then_some(seen.len())),
            labels: seen.into_iter().map(|(label, _)| label.to_owned()).collect(),
            other,
            missing,
        },
    }
}
