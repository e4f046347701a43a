//! Free text as hashed n-grams: a bag of words and pairs of words by the hashing trick, weighted by tf-idf.
//!
//! ```text
//! words     runs of letters and digits (Unicode), in lower case
//! terms     1 … n words in a row, "not good" beside "not" and "good"
//! bucket    ⌊N · h / 2⁶³⌋ of 63 bits of h = mix(FNV-1a64(term)), the sign ±1 by the bit left
//! weight    Σ of its terms ±(1 + ln count) · idf, idf = 1 + ln((1 + n) / (1 + rows with the bucket)), of the training rows
//! cell      divided by its norm √Σ weight², times √10
//! ```
//!
//! Nothing but the idf is learned, so words that were not seen in training have their place too. What a cell becomes depends on the cell
//! alone. As scikit-learn's `HashingVectorizer` and `TfidfTransformer(sublinear_tf=True)`, but for the hash and the factor: √10 makes a
//! cell weigh about as much as ten standardised columns.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::category::MOST_BUCKETS;
use crate::rng;
use crate::table::{Column, MISSING};

/// Inputs of a column of free text unless the rows are many, and at least.
const BUCKETS: u32 = 2048;
const LEAST_BUCKETS: u32 = 256;
/// What the training rows may take, encoded: 1 GiB in 32 bits.
const MOST_NUMBERS: usize = 1 << 28;
/// Words in a row.
const NGRAMS: u32 = 2;
const MOST_NGRAMS: u32 = 4;
/// √10
const SCALE: f64 = 3.162_277_660_168_379_5;

/// Free text has at least so many words a cell, on average, …
const WORDS: f64 = 3.0;
/// … this share of them seen in other cells, too, …
const SHARED: f64 = 0.5;
/// … and this share of letters among what is not white space.
const LETTERS: f64 = 0.7;
/// Cells that are enough to tell it by, evenly spread.
const LOOKED_AT: usize = 2000;

/// How free text becomes inputs; what is open is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextFeatures {
    /// Number of inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<u32>,
    /// Words in a row that make a term, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ngrams: Option<u32>,
}

impl TextFeatures {
    /// What is wrong with it, and what to write.
    pub(super) fn mistake(&self) -> Option<(String, String)> {
        if let Some(hash) = self.hash.filter(|hash| !(1..=MOST_BUCKETS).contains(hash)) {
            return Some((format!("{hash} buckets"), format!("use 1 to {MOST_BUCKETS}")));
        }
        let ngrams = self.ngrams.filter(|ngrams| !(1..=MOST_NGRAMS).contains(ngrams))?;
        Some((format!("terms of {ngrams} words"), format!("use 1 to {MOST_NGRAMS}")))
    }
}

/// A column of free text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct HashedText {
    ngrams: u32,
    /// Per bucket.
    idf: Vec<f32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fill: Option<String>,
    missing: bool,
}

impl HashedText {
    /// `cells` are the different texts of the training rows, with how often each is there.
    pub(super) fn fit(
        cells: &[(&str, usize)],
        wished: TextFeatures,
        rows: usize,
        fill: Option<&str>,
        missing: bool,
    ) -> HashedText {
        let ngrams = wished.ngrams.unwrap_or(NGRAMS);
        let buckets = wished.hash.unwrap_or_else(|| buckets_for(rows));
        let mut with = vec![0usize; buckets as usize];
        let mut terms = Terms::default();
        let mut hit: Vec<u32> = Vec::new();
        for (cell, count) in cells {
            hit.clear();
            hit.extend(terms.of(cell, ngrams).iter().map(|term| place(*term, buckets).0));
            hit.sort_unstable();
            hit.dedup();
            hit.iter().for_each(|bucket| with[*bucket as usize] += count);
        }
        let all: usize = cells.iter().map(|(_, count)| count).sum();
        let idf = |with: &usize| (1.0 + ((1 + all) as f64 / (1 + with) as f64).ln()) as f32;
        HashedText { ngrams, idf: with.iter().map(idf).collect(), fill: fill.map(str::to_owned), missing }
    }

    /// What is said of the choice.
    pub(super) fn remark(&self, told: bool, rows: usize) -> String {
        let words = match self.ngrams {
            1 => "words".to_owned(),
            2 => "words and pairs of words".to_owned(),
            ngrams => format!("1 to {ngrams} words in a row"),
        };
        let buckets = self.idf.len();
        let why = match told {
            true => "as told".to_owned(),
            false if buckets < BUCKETS as usize => format!("no more, as {rows} rows take memory"),
            false => "free text: many cells, of several words that others have too".to_owned(),
        };
        format!("{words} hashed to {buckets} inputs, weighted by tf-idf ({why})")
    }

    pub(super) fn width(&self) -> usize {
        self.idf.len() + self.missing as usize
    }

    pub(super) fn names(&self, column: &str) -> Vec<String> {
        let names = (0..self.idf.len()).map(|bucket| format!("{column}#{bucket}"));
        names.chain(self.missing.then(|| format!("{column}=(missing)"))).collect()
    }

    pub(super) fn write<'o>(&self, column: &Column, cells: impl Iterator<Item = (usize, &'o mut [f32])>) {
        let (codes, texts) = column.labels();
        let mut terms = Terms::default();
        for (row, input) in cells {
            let text = match codes[row] {
                MISSING => self.fill.as_deref(),
                code => Some(texts[code as usize].as_str()),
            };
            if let Some(text) = text {
                self.write_cell(text, &mut terms, input);
            }
            if self.missing && codes[row] == MISSING {
                input[self.idf.len()] = 1.0;
            }
        }
    }

    /// Into zeros.
    fn write_cell(&self, text: &str, terms: &mut Terms, input: &mut [f32]) {
        let found = terms.of(text, self.ngrams);
        let buckets = self.idf.len() as u32;
        for equal in found.chunk_by(|a, b| a == b) {
            let (bucket, sign) = place(equal[0], buckets);
            let weight = sign * (1.0 + (equal.len() as f64).ln()) as f32;
            input[bucket as usize] += weight * self.idf[bucket as usize];
        }
        // a bucket is met several times where terms share it: it counts once
        let squares = input[..buckets as usize].iter().map(|x| *x as f64 * *x as f64).sum::<f64>();
        if squares > 0.0 {
            let factor = SCALE / squares.sqrt();
            input[..buckets as usize].iter_mut().filter(|x| **x != 0.0).for_each(|x| *x = (*x as f64 * factor) as f32);
        }
    }
}

/// Whether cells are free text, and not names of the rows, codes, dates or addresses of the web.
pub(crate) fn is_free_text(cells: &[(&str, usize)]) -> bool {
    let step = cells.len().div_ceil(LOOKED_AT).max(1);
    let looked_at: Vec<&str> = cells.iter().step_by(step).map(|(cell, _)| *cell).collect();
    let (mut letters, mut visible, mut words) = (0usize, 0usize, 0usize);
    let mut cells_with: HashMap<String, (usize, usize)> = HashMap::new();
    for (number, cell) in looked_at.iter().enumerate() {
        for c in cell.chars().filter(|c| !c.is_whitespace()) {
            visible += 1;
            letters += usize::from(c.is_alphabetic());
        }
        for word in cell.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)) {
            words += 1;
            let plain: String = word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
            // how often, and the only cell that has it
            let known = cells_with.entry(plain).or_insert((0, number));
            *known = (known.0 + 1, if known.1 == number { number } else { usize::MAX });
        }
    }
    let shared: usize = cells_with.values().filter(|(_, only)| *only == usize::MAX).map(|(times, _)| times).sum();
    let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
    share(words, looked_at.len()) >= WORDS && share(shared, words) >= SHARED && share(letters, visible) >= LETTERS
}

/// As many inputs as the memory for these rows allows.
fn buckets_for(rows: usize) -> u32 {
    let mut buckets = BUCKETS;
    while buckets > LEAST_BUCKETS && rows.saturating_mul(buckets as usize) > MOST_NUMBERS {
        buckets /= 2;
    }
    buckets
}

/// Bucket and sign of a term.
fn place(term: u64, buckets: u32) -> (u32, f32) {
    let bucket = (((term << 1) as u128 * buckets as u128) >> 64) as u32;
    (bucket, if term >> 63 == 0 { 1.0 } else { -1.0 })
}

/// Hashes of terms; memory that is used again.
#[derive(Default)]
struct Terms {
    found: Vec<u64>,
    /// FNV-1a of the terms that end at the word before, the longest last.
    open: Vec<u64>,
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

impl Terms {
    /// Hashes of the terms of a text, sorted; a term has words with a space between.
    fn of(&mut self, text: &str, ngrams: u32) -> &[u64] {
        self.found.clear();
        self.open.clear();
        for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            // of the terms that go on, those that would become too long end here
            self.open.truncate(ngrams as usize - 1);
            for hash in &mut self.open {
                *hash = fnv(*hash, b" ");
            }
            self.open.insert(0, FNV_START);
            let mut utf8 = [0; 4];
            for c in word.chars().flat_map(char::to_lowercase) {
                let bytes = c.encode_utf8(&mut utf8).as_bytes();
                self.open.iter_mut().for_each(|hash| *hash = fnv(*hash, bytes));
            }
            self.found.extend(self.open.iter().map(|hash| rng::mix(*hash)));
        }
        self.found.sort_unstable();
        &self.found
    }
}

fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ *byte as u64).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Values;

    fn encoded(text: &HashedText, cells: &[&str]) -> Vec<Vec<f32>> {
        let labels: Vec<String> = cells.iter().map(|cell| (*cell).to_owned()).collect();
        let codes = cells.iter().enumerate().map(|(i, cell)| if cell.is_empty() { MISSING } else { i as u32 });
        let column = Column { name: "c".into(), values: Values::Text { codes: codes.collect(), labels } };
        let mut out = vec![0f32; text.width() * cells.len()];
        text.write(&column, out.chunks_mut(text.width()).enumerate());
        out.chunks(text.width()).map(<[f32]>::to_vec).collect()
    }

    fn fitted(cells: &[(&str, usize)], ngrams: u32) -> HashedText {
        let wished = TextFeatures { hash: Some(4096), ngrams: Some(ngrams) };
        HashedText::fit(cells, wished, 10, None, true)
    }

    /// Kept for good: models are stored with these places.
    #[test]
    fn places_are_stable() {
        let mut terms = Terms::default();
        let of = |word: &str| rng::mix(fnv(FNV_START, word.as_bytes()));
        let mut want = vec![of("été"), of("été indien"), of("indien")];
        want.sort_unstable();
        assert_eq!(terms.of("  ÉTÉ, indien!", 2), want);
        let places: Vec<(u32, f32)> = ["good", "bad", "not good"].iter().map(|w| place(of(w), 2048)).collect();
        assert!(places.iter().all(|(bucket, _)| *bucket < 2048));
        assert_eq!(place(1 << 62, 8), (4, 1.0));
        assert_eq!(place(u64::MAX, 8), (7, -1.0));
    }

    #[test]
    fn terms_are_words_in_a_row() {
        let mut terms = Terms::default();
        assert_eq!(terms.of("a b c", 1).len(), 3);
        assert_eq!(terms.of("a b c", 2).len(), 5);
        assert_eq!(terms.of("a b c", 3).len(), 6);
        assert_eq!(terms.of("a b c", 4).len(), 6);
        assert_eq!(terms.of("... --- !", 2).len(), 0);
        // of "ab" and "a b" no terms are the same
        let pair: Vec<u64> = terms.of("a b", 2).to_vec();
        assert!(terms.of("ab", 2).iter().all(|term| !pair.contains(term)));
    }

    /// By hand: `x` is in both rows, idf 1; `y` in one of two, idf 1 + ln(3/2). The first row has x twice, weight 1 + ln 2.
    #[test]
    fn weights_are_tf_idf_of_norm_one() {
        let text = fitted(&[("x x y", 1), ("x", 1)], 1);
        let rows = encoded(&text, &["x x y", "x", "", "unseen"]);
        let (x, y) = (1.0 + 2f64.ln(), 1.0 + 1.5f64.ln());
        let norm = (x * x + y * y).sqrt();
        let mut weights: Vec<f64> = rows[0].iter().filter(|v| **v != 0.0).map(|v| v.abs() as f64 / SCALE).collect();
        weights.sort_by(f64::total_cmp);
        assert!((weights[0] - y / norm).abs() < 1e-6 && (weights[1] - x / norm).abs() < 1e-6, "{weights:?}");
        assert!((rows[1].iter().map(|v| v.abs() as f64).sum::<f64>() - SCALE).abs() < 1e-6);
        assert_eq!(rows[2].iter().position(|v| *v != 0.0), Some(4096), "a missing cell is marked");
        assert_eq!(rows[3].iter().filter(|v| **v != 0.0).count(), 1, "an unseen word has its place");
    }

    #[test]
    fn a_cell_is_the_same_beside_any_others() {
        let text = fitted(&[("some words of a text", 3), ("other words", 2)], 2);
        let together = encoded(&text, &["some words", "", "words of others, words of mine"]);
        assert_eq!(encoded(&text, &["words of others, words of mine"])[0], together[2]);
        assert_eq!(
            encoded(&text, &["WORDS of others -- words; of mine."])[0],
            together[2],
            "case and signs do not count"
        );
    }

    #[test]
    fn memory_bounds_the_inputs() {
        assert_eq!([1, 131_072, 131_073, 300_000, 10_000_000].map(buckets_for), [2048, 2048, 1024, 512, 256]);
    }

    #[test]
    fn text_is_told_from_names_codes_and_dates() {
        let words = ["the", "film", "was", "good", "bad", "and", "long", "I", "liked", "it", "not"];
        let some =
            |i: usize, n: usize| (0..n).map(|k| words[(i * 7 + k * k * 3 + k) % 11]).collect::<Vec<_>>().join(" ");
        type Cell<'a> = dyn Fn(usize) -> String + 'a;
        let kinds: [(&str, bool, &Cell<'_>); 9] = [
            ("reviews", true, &|i| format!("{}.", some(i, 5 + i % 9))),
            ("text in another script", true, &|i| format!("фильм был {} {}", words[i % 11], "очень хороший")),
            ("ids", false, &|i| format!("user{i}")),
            ("uuids", false, &|i| format!("{:08x}-{:04x}-4a3b-9c2d", i * 2_654_435_761 % 4_294_967_291, i)),
            ("orders", false, &|i| format!("order no {:06} of {:04}", i * 7919, i)),
            ("dates", false, &|i| format!("2024-{:02}-{:02} {:02}:00", i % 12 + 1, i % 28 + 1, i % 24)),
            ("names", false, &|i| format!("{}a {}son", i * i, i * 31)),
            ("addresses of the web", false, &|i| format!("https://example.org/the/film/was/good/{i}")),
            ("random words", false, &|i| format!("w{}a w{}b w{}c w{}d", i * 3, i * 5, i * 7, i * 11)),
        ];
        for (kind, expected, cell) in kinds {
            let cells: Vec<String> = (0..300).map(cell).collect();
            let cells: Vec<(&str, usize)> = cells.iter().map(|cell| (cell.as_str(), 1)).collect();
            assert_eq!(is_free_text(&cells), expected, "{kind}: {:?}", cells[7].0);
        }
    }
}
