//! Windows over a text: the tokens of each, and what comes next.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::stored::check;
use super::vocabulary::{Unit, Vocabulary};
use super::{Rows, Source};
use crate::encoding::{self, TextEncoding};
use crate::error::DataError;
use crate::file;
use crate::rng::{SplitMix64, mix};
use crate::schema::{Field, INPUT, Kind, Schema, TARGET};
use crate::slot::FieldMut;

/// A text as numbers.
#[derive(Debug)]
pub struct Text {
    name: String,
    vocabulary: Vocabulary,
    tokens: Tokens,
}

/// Most texts have at most 256 different characters.
#[derive(Debug)]
enum Tokens {
    Few(Vec<u8>),
    Many(Vec<u32>),
}

/// What is predicted from a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predict {
    /// The token behind it.
    Next,
    /// The token behind each of its tokens.
    Sequence,
}

/// Rows are windows of `length` tokens, `stride` tokens apart: `x i32[length]`, and `y` as [`Predict`] says.
#[derive(Clone)]
pub struct TextWindows {
    text: Arc<Text>,
    length: usize,
    stride: usize,
    predict: Predict,
    one_hot: bool,
    /// Tokens the windows, with what is predicted, lie in.
    range: Range<usize>,
    /// Windows are moved by up to so many tokens, all alike, anew in every epoch.
    drift: usize,
    schema: Schema,
    rows: u32,
}

impl Text {
    /// Reads a text, also as `.gz`. Characters that occur are numbered in their order; bytes are their own numbers.
    pub fn open(path: impl AsRef<Path>, unit: Unit) -> Result<Text, DataError> {
        Text::open_encoded(path, unit, None)
    }

    /// As [`Text::open`], for a text in an encoding of its own.
    pub fn open_encoded(path: impl AsRef<Path>, unit: Unit, encoding: Option<TextEncoding>) -> Result<Text, DataError> {
        let path = path.as_ref();
        Text::from_bytes(&file::name(path), read_utf8(path, encoding)?, unit)
    }

    /// As [`Text::open_encoded`], with the numbers of another text, that a model was trained on.
    pub fn open_with(
        path: impl AsRef<Path>,
        vocabulary: &Vocabulary,
        encoding: Option<TextEncoding>,
    ) -> Result<Text, DataError> {
        let path = path.as_ref();
        Text::numbered(&file::name(path), read_utf8(path, encoding)?, vocabulary.clone())
    }

    /// As [`Text::open`], from bytes already in memory; `name` is used in messages.
    pub fn from_bytes(name: &str, bytes: Vec<u8>, unit: Unit) -> Result<Text, DataError> {
        let vocabulary = match unit {
            Unit::Bytes => Vocabulary::bytes(),
            Unit::Chars => Vocabulary::of(characters(name, &bytes)?),
        };
        Text::numbered(name, bytes, vocabulary)
    }

    fn numbered(name: &str, bytes: Vec<u8>, vocabulary: Vocabulary) -> Result<Text, DataError> {
        let tokens = match vocabulary.unit {
            Unit::Bytes => Tokens::Few(bytes),
            Unit::Chars => {
                let text = characters(name, &bytes)?;
                let number = |(at, c): (usize, char)| vocabulary.number(c).ok_or((at, c));
                let numbers = text.char_indices().map(number);
                let tokens = match vocabulary.size() {
                    ..=256 => numbers.map(|n| n.map(|n| n as u8)).collect::<Result<_, _>>().map(Tokens::Few),
                    _ => numbers.collect::<Result<_, _>>().map(Tokens::Many),
                };
                tokens.map_err(|(at, c)| DataError::Unsupported {
                    file: name.to_owned(),
                    what: format!("line {}: the character {c:?} is not in the vocabulary", line(&text[..at])),
                    next: "remove it, or train on a text that has it".into(),
                })?
            }
        };
        match tokens.len() {
            0 => Err(DataError::Empty {
                file: name.to_owned(),
                what: "is empty".into(),
                next: "a text needs at least two characters".into(),
            }),
            _ => Ok(Text { name: name.to_owned(), vocabulary, tokens }),
        }
    }

    /// Of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Tokens {
    fn len(&self) -> usize {
        match self {
            Tokens::Few(tokens) => tokens.len(),
            Tokens::Many(tokens) => tokens.len(),
        }
    }

    fn copy(&self, from: usize, to: &mut [i32]) {
        match self {
            Tokens::Few(tokens) => to.iter_mut().zip(&tokens[from..]).for_each(|(to, token)| *to = *token as i32),
            Tokens::Many(tokens) => to.iter_mut().zip(&tokens[from..]).for_each(|(to, token)| *to = *token as i32),
        }
    }

    fn at(&self, at: usize) -> u32 {
        match self {
            Tokens::Few(tokens) => tokens[at] as u32,
            Tokens::Many(tokens) => tokens[at],
        }
    }
}

impl TextWindows {
    /// Windows over the whole text.
    pub fn new(text: Arc<Text>, length: usize, stride: usize, predict: Predict) -> Result<TextWindows, DataError> {
        let range = 0..text.len();
        TextWindows::build(text, length, stride, predict, false, range)
    }

    /// `x f32[length · vocabulary]`, one of each `vocabulary` values 1 and the others 0: for models without
    /// embeddings.
    pub fn one_hot(self) -> Result<TextWindows, DataError> {
        TextWindows::build(self.text, self.length, self.stride, self.predict, true, self.range)
    }

    /// Windows over some tokens of the text only.
    pub fn within(self, range: Range<usize>) -> Result<TextWindows, DataError> {
        TextWindows::build(self.text, self.length, self.stride, self.predict, self.one_hot, range)
    }

    /// Windows over the first `share` of these tokens, and over the rest; no token is in both.
    pub fn split(&self, share: f64) -> Result<(TextWindows, TextWindows), DataError> {
        if !(share > 0.0 && share < 1.0) {
            return Err(DataError::Split(format!("a share of {share} is not between 0 and 1")));
        }
        let border = self.range.start + (self.range.len() as f64 * share) as usize;
        let (first, last) = (self.range.start..border, border..self.range.end);
        Ok((self.clone().within(first)?, self.clone().within(last)?))
    }

    /// Windows end to end that lie elsewhere in every epoch: all are moved by as many tokens as (seed, epoch) say, so that in time each
    /// token is seen at each place. Their number is a multiple of `batch` where there are as many.
    pub fn drifting(mut self, batch: usize) -> Result<TextWindows, DataError> {
        self = TextWindows::build(self.text, self.length, self.length, self.predict, self.one_hot, self.range)?;
        let least = (self.length - 1).min(self.slack(self.rows as usize / 2));
        // as few rows less as leave room to move by any part of a window
        let roomy = (1..=self.rows as usize).rev().find(|rows| self.slack(*rows) >= least).unwrap_or(1);
        let whole = roomy / batch.max(1) * batch.max(1);
        self.rows = if whole > 0 { whole } else { roomy } as u32;
        self.drift = self.slack(self.rows as usize);
        Ok(self)
    }

    /// Tokens that so many windows end to end leave over.
    fn slack(&self, rows: usize) -> usize {
        self.range.len().saturating_sub(rows * self.length + 1)
    }

    pub fn text(&self) -> &Text {
        &self.text
    }

    fn build(
        text: Arc<Text>,
        length: usize,
        stride: usize,
        predict: Predict,
        one_hot: bool,
        range: Range<usize>,
    ) -> Result<TextWindows, DataError> {
        if length == 0 || stride == 0 {
            return Err(DataError::Inconsistent(format!(
                "{}: windows of {length} tokens every {stride}; both must be at least 1",
                text.name
            )));
        }
        let range = range.start.min(text.len())..range.end.min(text.len());
        // a window needs `length` tokens and the one behind
        let Some(room) = range.len().checked_sub(length.saturating_add(1)) else {
            return Err(DataError::Empty {
                file: text.name.clone(),
                what: format!("{} tokens are too few for a window of {length} and the one behind it", range.len()),
                next: "use shorter windows or a longer text".into(),
            });
        };
        let rows = u32::try_from(room / stride + 1).map_err(|_| {
            let count = room / stride + 1;
            DataError::Inconsistent(format!("{}: {count} windows are too many; use a larger stride", text.name))
        })?;
        let size = text.vocabulary.size();
        let x = match one_hot {
            true => Field::new(INPUT, Kind::F32, &[length.saturating_mul(size)]),
            false => Field::new(INPUT, Kind::I32, &[length]),
        };
        let mut y = Field::classes(TARGET, text.vocabulary.labels());
        if predict == Predict::Sequence {
            y.shape = vec![length];
        }
        let schema = Schema::new(vec![x, y])?;
        Ok(TextWindows { schema, text, length, stride, predict, one_hot, range, drift: 0, rows })
    }
}

impl Source for TextWindows {
    fn name(&self) -> &str {
        &self.text.name
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u32 {
        self.rows
    }

    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        check(self, rows, into)?;
        let (tokens, length) = (&self.text.tokens, self.length);
        let moved = match self.drift {
            0 => 0,
            drift => SplitMix64::new(mix(rows.seed) ^ rows.epoch).below(drift as u32 + 1) as usize,
        };
        let start = |row: &u32| self.range.start + moved + *row as usize * self.stride;
        let [x, FieldMut::I32(y)] = into else { return Ok(()) };
        match x {
            FieldMut::I32(x) => {
                for (row, to) in rows.numbers.iter().zip(x.chunks_exact_mut(length)) {
                    tokens.copy(start(row), to);
                }
            }
            FieldMut::F32(x) => {
                let size = self.text.vocabulary.size();
                x.fill(0.0);
                for (row, to) in rows.numbers.iter().zip(x.chunks_exact_mut(length * size)) {
                    for (at, to) in (start(row)..).zip(to.chunks_exact_mut(size)) {
                        to[tokens.at(at) as usize] = 1.0;
                    }
                }
            }
            FieldMut::U8(_) => {}
        }
        match self.predict {
            Predict::Next => {
                for (row, to) in rows.numbers.iter().zip(y.iter_mut()) {
                    *to = tokens.at(start(row) + length) as i32;
                }
            }
            Predict::Sequence => {
                for (row, to) in rows.numbers.iter().zip(y.chunks_exact_mut(length)) {
                    tokens.copy(start(row) + 1, to);
                }
            }
        }
        Ok(())
    }
}

/// The bytes of a text, those of another encoding as UTF-8.
fn read_utf8(path: &Path, encoding: Option<TextEncoding>) -> Result<Vec<u8>, DataError> {
    let bytes = file::read(path)?;
    match TextEncoding::of_file(&bytes, encoding) {
        None => Ok(bytes),
        Some(_) => Ok(encoding::text_of(&file::name(path), &bytes, encoding, <[u8]>::len)?.into_owned().into_bytes()),
    }
}

/// The bytes as text without a byte order mark.
pub(crate) fn characters<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, DataError> {
    let text = std::str::from_utf8(bytes).map_err(|error| DataError::NotUtf8 {
        file: name.to_owned(),
        line: bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1,
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn line(before: &str) -> usize {
    before.bytes().filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, unit: Unit) -> Result<Arc<Text>, DataError> {
        Text::from_bytes("t.txt", text.as_bytes().to_vec(), unit).map(Arc::new)
    }

    fn all(windows: &TextWindows) -> (Vec<i32>, Vec<i32>) {
        let numbers: Vec<u32> = (0..windows.rows()).collect();
        let width = |field: &Field| field.width() * numbers.len();
        let (mut x, mut y) =
            (vec![-1; width(&windows.schema().fields[0])], vec![-1; width(&windows.schema().fields[1])]);
        let rows = Rows { numbers: &numbers, seed: 0, epoch: 0 };
        windows.gather(&rows, &mut [FieldMut::I32(&mut x), FieldMut::I32(&mut y)]).unwrap();
        (x, y)
    }

    #[test]
    fn windows_and_what_comes_next() {
        let text = text("b\nacab", Unit::Chars).unwrap();
        assert_eq!(text.vocabulary().labels(), ["\\n", "a", "b", "c"]);
        let next = TextWindows::new(text.clone(), 2, 1, Predict::Next).unwrap();
        assert_eq!(next.schema().to_string(), "x i32[2], y i32 (4 classes)");
        assert_eq!(all(&next), (vec![2, 0, 0, 1, 1, 3, 3, 1], vec![1, 3, 1, 2]));
        let sequence = TextWindows::new(text, 2, 3, Predict::Sequence).unwrap();
        assert_eq!(all(&sequence), (vec![2, 0, 1 + 2, 1], vec![0, 1, 1, 2]));
    }

    #[test]
    fn one_hot_rows_have_one_one_per_token() {
        let text = text("aabc", Unit::Chars).unwrap();
        let windows = TextWindows::new(text, 2, 1, Predict::Next).unwrap().one_hot().unwrap();
        let (mut x, mut y) = (vec![9.0; 12], vec![0; 2]);
        let rows = Rows { numbers: &[1, 0], seed: 0, epoch: 0 };
        windows.gather(&rows, &mut [FieldMut::F32(&mut x), FieldMut::I32(&mut y)]).unwrap();
        assert_eq!(x, [1., 0., 0., 0., 1., 0., 1., 0., 0., 1., 0., 0.]);
        assert_eq!(y, [2, 1]);
    }

    #[test]
    fn a_split_shares_no_token() {
        let text = text(&"abcdefghij".repeat(10), Unit::Bytes).unwrap();
        let windows = TextWindows::new(text, 4, 1, Predict::Next).unwrap();
        let (train, validation) = windows.split(0.9).unwrap();
        assert_eq!((windows.rows(), train.rows(), validation.rows()), (96, 86, 6));
        assert_eq!(all(&validation).0[..4], [b'a' as i32, 98, 99, 100]);
        for share in [0.0, 1.0, f64::NAN, -1.0] {
            assert!(windows.split(share).is_err());
        }
        assert!(windows.split(0.99).err().unwrap().to_string().contains("1 tokens are too few"));
    }

    #[test]
    fn windows_that_drift_show_every_token_at_every_place() {
        let long = text(&"abcdefghij".repeat(10), Unit::Bytes).unwrap();
        let windows = TextWindows::new(long, 8, 1, Predict::Sequence).unwrap().drifting(5).unwrap();
        assert_eq!((windows.rows(), windows.drift), (10, 19));
        let mut starts = std::collections::BTreeSet::new();
        for epoch in 0..200 {
            let (mut x, mut y) = (vec![0; 80], vec![0; 80]);
            let rows = Rows { numbers: &(0..10).collect::<Vec<_>>(), seed: 1, epoch };
            windows.gather(&rows, &mut [FieldMut::I32(&mut x), FieldMut::I32(&mut y)]).unwrap();
            assert_eq!(x[1..], y[..79], "end to end");
            starts.insert(x[0] - 97);
        }
        assert_eq!(starts.len(), 10, "{starts:?}");
        // a text hardly longer than a window
        let short = text("abcdefghij", Unit::Bytes).unwrap();
        let windows = TextWindows::new(short, 8, 1, Predict::Sequence).unwrap().drifting(5).unwrap();
        assert_eq!((windows.rows(), windows.drift), (1, 1));
    }

    #[test]
    fn a_vocabulary_serves_other_texts() {
        let many: String = ('\u{4e00}'..'\u{4f00}').chain("aé\n".chars()).collect();
        let text = text(&many, Unit::Chars).unwrap();
        assert!(matches!(text.tokens, Tokens::Many(_)));
        let vocabulary = text.vocabulary();
        assert_eq!(vocabulary.decode(&vocabulary.encode("é\n一").unwrap()), "é\n一");
        assert_eq!((vocabulary.encode("ax"), vocabulary.decode(&[1, -1])), (Err('x'), "a�".into()));
        let again: Vocabulary = serde_json::from_str(&serde_json::to_string(vocabulary).unwrap()).unwrap();
        assert_eq!(again, *vocabulary);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("t"), "a\nax").unwrap();
        let error = Text::open_with(dir.path().join("t"), vocabulary, None).unwrap_err().to_string();
        assert!(error.contains("line 2: the character 'x'"), "{error}");
    }

    #[test]
    fn mistakes_are_told() {
        assert!(text("", Unit::Chars).unwrap_err().to_string().contains("is empty"));
        let error = Text::from_bytes("t", b"a\nb\xff".to_vec(), Unit::Chars).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
        let short = text("abc", Unit::Bytes).unwrap();
        let windows = |length, stride| TextWindows::new(short.clone(), length, stride, Predict::Next);
        assert_eq!(windows(2, usize::MAX).unwrap().rows(), 1);
        let error = windows(3, 1).err().unwrap().to_string();
        assert!(error.contains("3 tokens are too few for a window of 3"), "{error}");
        assert!(windows(usize::MAX, 1).is_err());
        assert!(windows(0, 1).is_err() && windows(1, 0).is_err());
    }
}
