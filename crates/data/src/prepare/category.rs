//! Categories as numbers, other than one-hot.
//!
//! ```text
//! ordinal    the place of the label among the sorted ones, 0 … n−1, scaled as a number is
//! hash       1 in input h(label) of n: no list of labels, and new ones have a place too
//! embedding  1 … n by sorted label, 0 for any other and for missing: an index into a table of vectors
//! ```
//!
//! Labels that are all numbers are sorted by size, others by name. The hash is
//! `h(label) = ⌊n · mix(FNV-1a64(UTF-8 bytes)) / 2⁶⁴⌋`, `mix` being SplitMix64's finaliser: the same on every machine,
//! for good.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::moments::Moments;
use super::scale::{Scale, Scaling};
use crate::rng;
use crate::table::{Column, MISSING};

/// More inputs than one column should have.
pub(super) const MOST_BUCKETS: u32 = 1 << 16;
/// Labels an f32 can count exactly.
const MOST_LABELS: usize = (1 << 24) - 1;

/// How labels become numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Categorical {
    /// An input per label, 64 at most, the rest sharing one.
    OneHot,
    /// One input, the place of the label.
    Ordinal,
    /// As many inputs as said, each shared by the labels that fall there.
    Hash(u32),
    /// A learned vector per label: one input, an index for [`super::Preparation::embeddings`].
    Embedding,
}

/// The place of a label among the sorted ones, scaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Ordinal {
    labels: Vec<String>,
    #[serde(flatten)]
    scaling: Scaling,
    /// For labels not seen in training: the mean.
    unknown: f32,
    /// For missing cells: a label's, or the mean.
    fill: f32,
    missing: bool,
}

/// One input per bucket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Hash {
    buckets: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fill: Option<u32>,
    missing: bool,
}

/// An index from 1 by label, 0 for what is unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Embedding {
    labels: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    fill: u32,
}

/// What the training rows hold of a column of labels.
pub(super) struct Counted<'a> {
    /// Labels with their rows, cells that were filled among them.
    pub labels: Vec<(&'a str, usize)>,
    /// What stands for missing cells.
    pub fill: Option<&'a str>,
    pub missing: bool,
}

impl Ordinal {
    pub(super) fn fit(counted: Counted<'_>, scale: Option<Scale>) -> Ordinal {
        let (labels, rows): (Vec<&str>, Vec<usize>) = in_order(counted.labels).into_iter().unzip();
        let codes = rows.iter().enumerate().flat_map(|(code, rows)| std::iter::repeat_n(code as f64, *rows));
        let moments = Moments::of(codes.clone());
        let scaling = Scaling::fit(scale.unwrap_or(Scale::Standard), &moments, codes);
        let unknown = scaling.apply(moments.mean);
        let filled = counted.fill.and_then(|fill| labels.iter().position(|label| *label == fill));
        Ordinal {
            labels: labels.into_iter().map(str::to_owned).collect(),
            unknown,
            fill: filled.map_or(unknown, |code| scaling.apply(code as f64)),
            scaling,
            missing: counted.missing,
        }
    }

    pub(super) fn width(&self) -> usize {
        1 + self.missing as usize
    }

    pub(super) fn names(&self, column: &str) -> Vec<String> {
        with_missing(vec![column.to_owned()], column, self.missing)
    }

    pub(super) fn write<'o>(&self, column: &Column, cells: impl Iterator<Item = (usize, &'o mut [f32])>) {
        let (codes, places) = places_of(column, &self.labels);
        let value = |place: &Option<usize>| place.map_or(self.unknown, |place| self.scaling.apply(place as f64));
        let values: Vec<f32> = places.iter().map(value).collect();
        for (row, input) in cells {
            input[0] = values.get(codes[row] as usize).copied().unwrap_or(self.fill);
            if self.missing && codes[row] == MISSING {
                input[1] = 1.0;
            }
        }
    }

    pub(super) fn labels(&self) -> &[String] {
        &self.labels
    }
}

impl Hash {
    pub(super) fn fit(counted: &Counted<'_>, buckets: u32) -> Hash {
        Hash { buckets, fill: counted.fill.map(|label| bucket(label, buckets)), missing: counted.missing }
    }

    pub(super) fn width(&self) -> usize {
        self.buckets as usize + self.missing as usize
    }

    pub(super) fn names(&self, column: &str) -> Vec<String> {
        let names = (0..self.buckets).map(|bucket| format!("{column}#{bucket}")).collect();
        with_missing(names, column, self.missing)
    }

    pub(super) fn write<'o>(&self, column: &Column, cells: impl Iterator<Item = (usize, &'o mut [f32])>) {
        let (codes, names) = column.labels();
        let places: Vec<u32> = names.iter().map(|name| bucket(name, self.buckets)).collect();
        for (row, input) in cells {
            if let Some(place) = places.get(codes[row] as usize).copied().or(self.fill)
                && let Some(cell) = input.get_mut(place as usize)
            {
                *cell = 1.0;
            }
            if self.missing && codes[row] == MISSING {
                input[self.buckets as usize] = 1.0;
            }
        }
    }
}

impl Embedding {
    pub(super) fn fit(counted: Counted<'_>) -> Embedding {
        let mut labels = counted.labels;
        if labels.len() > MOST_LABELS {
            labels.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
            labels.truncate(MOST_LABELS);
        }
        let labels: Vec<String> = in_order(labels).into_iter().map(|(label, _)| label.to_owned()).collect();
        let filled = counted.fill.and_then(|fill| labels.iter().position(|label| label == fill));
        Embedding { fill: filled.map_or(0, |place| place as u32 + 1), labels }
    }

    /// Labels, and one for what is unknown.
    pub(super) fn vocabulary(&self) -> usize {
        self.labels.len() + 1
    }

    pub(super) fn write<'o>(&self, column: &Column, cells: impl Iterator<Item = (usize, &'o mut [f32])>) {
        let (codes, places) = places_of(column, &self.labels);
        for (row, input) in cells {
            input[0] = match codes[row] {
                MISSING => self.fill as f32,
                code => places[code as usize].map_or(0.0, |place| place as f32 + 1.0),
            };
        }
    }

    pub(super) fn labels(&self) -> &[String] {
        &self.labels
    }
}

/// The bucket of a label, below `buckets`.
fn bucket(label: &str, buckets: u32) -> u32 {
    let fnv = |hash: u64, byte: u8| (hash ^ byte as u64).wrapping_mul(0x0100_0000_01b3);
    let hash = rng::mix(label.bytes().fold(0xcbf2_9ce4_8422_2325, fnv));
    ((hash as u128 * buckets as u128) >> 64) as u32
}

/// The codes of a column, and for each code its place in `known`.
fn places_of<'c>(column: &'c Column, known: &[String]) -> (std::borrow::Cow<'c, [u32]>, Vec<Option<usize>>) {
    let (codes, names) = column.labels();
    let known: HashMap<&str, usize> = known.iter().enumerate().map(|(place, label)| (label.as_str(), place)).collect();
    let places = names.iter().map(|name| known.get(name.as_str()).copied()).collect();
    (codes, places)
}

/// Labels that are all numbers by size, others by name.
fn in_order(mut labels: Vec<(&str, usize)>) -> Vec<(&str, usize)> {
    let number = |label: &str| label.parse::<f64>().ok().filter(|value| !value.is_nan());
    match labels.iter().all(|(label, _)| number(label).is_some()) {
        true => labels.sort_by(|a, b| {
            let (x, y) = (number(a.0).unwrap_or(0.0), number(b.0).unwrap_or(0.0));
            x.total_cmp(&y).then_with(|| a.0.cmp(b.0))
        }),
        false => labels.sort_by(|a, b| a.0.cmp(b.0)),
    }
    labels
}

fn with_missing(mut names: Vec<String>, column: &str, missing: bool) -> Vec<String> {
    names.extend(missing.then(|| format!("{column}=(missing)")));
    names
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl fmt::Display for Categorical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Categorical::OneHot => f.write_str("one-hot"),
            Categorical::Ordinal => f.write_str("ordinal"),
            Categorical::Hash(buckets) => write!(f, "hashed to {buckets}"),
            Categorical::Embedding => f.write_str("index of an embedding"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Values;

    fn column(cells: &[&str]) -> Column {
        let mut labels: Vec<String> = Vec::new();
        let codes = cells.iter().map(|cell| match *cell {
            "" => MISSING,
            cell => labels.iter().position(|l| l == cell).unwrap_or_else(|| {
                labels.push(cell.to_owned());
                labels.len() - 1
            }) as u32,
        });
        let codes = codes.collect();
        Column { name: "c".into(), values: Values::Text { codes, labels } }
    }

    fn counted<'a>(labels: &[(&'a str, usize)], fill: Option<&'a str>, missing: bool) -> Counted<'a> {
        Counted { labels: labels.to_vec(), fill, missing }
    }

    fn written(
        width: usize,
        rows: usize,
        write: impl FnOnce(&mut dyn Iterator<Item = (usize, &mut [f32])>),
    ) -> Vec<f32> {
        let mut out = vec![0f32; width * rows];
        write(&mut out.chunks_mut(width).enumerate());
        out
    }

    /// scikit-learn 1.9: `OrdinalEncoder().fit_transform([red, blue, green, blue])` is 2 0 1 0.
    #[test]
    fn ordinal_as_scikit_learn() {
        let labels = [("red", 1), ("blue", 2), ("green", 1)];
        let ordinal = Ordinal::fit(counted(&labels, None, false), Some(Scale::None));
        let c = column(&["red", "blue", "green", "blue", "pink", ""]);
        let got = written(1, 6, |cells| ordinal.write(&c, cells));
        assert_eq!(got, [2.0, 0.0, 1.0, 0.0, 0.75, 0.75]);
        let scaled = Ordinal::fit(counted(&labels, Some("red"), true), None);
        let got = written(2, 6, |cells| scaled.write(&c, cells));
        assert!((got[0] as f64 - 1.25 / 0.6875f64.sqrt()).abs() < 1e-6);
        assert_eq!((got[8], got[9]), (0.0, 0.0), "an unknown label is the mean");
        assert_eq!((got[10], got[11]), (got[0], 1.0), "a missing cell is red, and marked");
    }

    #[test]
    fn numbers_are_ordered_by_size() {
        let ordinal = Ordinal::fit(counted(&[("10", 1), ("9", 1), ("-2", 1)], None, false), None);
        assert_eq!(ordinal.labels(), ["-2", "9", "10"]);
    }

    /// Kept for good: models are stored with these places. FNV-1a of "" and "a" are the published ones.
    #[test]
    fn hash_is_stable() {
        let places: Vec<u32> = ["", "a", "red", "été"].iter().map(|label| bucket(label, 1000)).collect();
        let fnv = [0xcbf2_9ce4_8422_2325u64, 0xaf63_dc4c_8601_ec8c];
        let want: Vec<u32> = fnv.iter().map(|hash| ((rng::mix(*hash) as u128 * 1000) >> 64) as u32).collect();
        assert_eq!(places[..2], want);
        assert_eq!(places[2..], [733, 845]);
        assert!((0..1000).map(|i| bucket(&i.to_string(), 7)).all(|place| place < 7));
    }

    #[test]
    fn hashed_cells() {
        let hash = Hash::fit(&counted(&[], None, true), 3);
        let got = written(4, 2, |cells| hash.write(&column(&["red", ""]), cells));
        assert_eq!(got[..4].iter().sum::<f32>(), 1.0);
        assert_eq!(got[4..], [0.0, 0.0, 0.0, 1.0]);
        let filled = Hash::fit(&counted(&[], Some("red"), false), 3);
        let got = written(3, 2, |cells| filled.write(&column(&["red", ""]), cells));
        assert_eq!(got[..3], got[3..]);
    }

    #[test]
    fn embedding_counts_from_one() {
        let embedding = Embedding::fit(counted(&[("b", 1), ("a", 2)], None, true));
        let got = written(1, 4, |cells| embedding.write(&column(&["a", "b", "z", ""]), cells));
        assert_eq!((got, embedding.vocabulary()), (vec![1.0, 2.0, 0.0, 0.0], 3));
        let filled = Embedding::fit(counted(&[("b", 1), ("a", 2)], Some("a"), true));
        assert_eq!(written(1, 1, |cells| filled.write(&column(&[""]), cells)), [1.0]);
    }
}
