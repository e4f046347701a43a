//! What a file says about itself: JSON lines or delimiter, leading comments, width, header, numeric columns.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::cell::{Cell, MissingTokens};
use super::json_lines::{JsonKeys, looks_like_json_lines};
use super::rows::{RowFormat, for_each_row};
use super::writing::{Leaning, Ways, Writing};
use super::{Delimiter, MAX_COLUMNS, ReadOptions};
use crate::suggest;

/// Rows looked at before deciding.
const SAMPLE: usize = 1000;
/// Share of a column's cells, in tenths, that must be numbers for the column to be numeric.
const NUMERIC_TENTHS: usize = 9;

/// How to read the text.
#[derive(Debug)]
pub(super) struct Layout {
    pub format: RowFormat,
    /// Bytes of comment lines to skip at the start.
    pub skip: usize,
    /// Cells per row.
    pub width: usize,
    /// The first row holds the names.
    pub header: bool,
    /// Why the first row was taken as it was, where that is not plain to see.
    pub header_note: Option<String>,
    /// Per column: the cells of the first rows.
    pub tallies: Vec<Tally>,
}

/// Looks at the first rows; `None` when there are none.
pub(super) fn sniff(text: &str, options: &ReadOptions, missing: &MissingTokens) -> Option<Layout> {
    if looks_like_json_lines(text) {
        return Some(sniff_json_lines(text, options, missing));
    }
    let delimiter = options.delimiter.unwrap_or_else(|| find_delimiter(text, &options.expect_columns, missing));
    let skip = comment_bytes(text, delimiter);
    let format = RowFormat::Delimited(delimiter);
    let sample = Sample::take(&text[skip..], &format, missing);
    if sample.rows == 0 {
        return None;
    }
    let width = sample.usual_width();
    let (header, header_note) = match options.header {
        Some(told) => (told, None),
        None => sample.find_header(&options.expect_columns, delimiter),
    };
    let tallies = (0..width).map(|at| sample.columns.get(at).map_or(Tally::default(), |c| c.below)).collect();
    Some(Layout { format, skip, width, header, header_note, tallies })
}

fn sniff_json_lines(text: &str, options: &ReadOptions, missing: &MissingTokens) -> Layout {
    let mut keys = JsonKeys::of(text, options.for_model);
    if options.for_model {
        keys.expect(&options.expect_columns);
    }
    let width = keys.names().len();
    // such a text is refused, and looking at all its cells would take long
    let text = if keys.scattered.is_some() { "" } else { text };
    let format = RowFormat::JsonLines(Arc::new(keys));
    let sample = Sample::take(text, &format, missing);
    let tally = |column: &ColumnSample| {
        let mut tally = column.first;
        tally.add(column.below);
        tally
    };
    let tallies = (0..width).map(|at| sample.columns.get(at).map_or(Tally::default(), tally)).collect();
    Layout { format, skip: 0, width, header: false, header_note: None, tallies }
}

/// Numbers against other cells, missing ones aside.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    /// Plain ones.
    pub numbers: usize,
    pub others: usize,
    /// The others that are numbers all the same.
    pub ways: Ways,
}

impl Tally {
    /// Nine in ten cells are plain numbers, or all but a single stray one.
    pub(super) fn numeric(self) -> bool {
        mostly(self.numbers, self.others)
    }

    /// The same of numbers written as some of the cells are.
    pub(super) fn written(self, delimiter: Delimiter, expected: Option<Writing>, leans: Leaning) -> Option<Writing> {
        let (writing, cells) = self.ways.best(self.numbers, delimiter, expected, leans)?;
        mostly(self.numbers + cells, self.others - cells).then_some(writing)
    }

    /// Numeric, however it is written.
    fn reads_as_numbers(self, delimiter: Delimiter) -> bool {
        self.numeric() || self.written(delimiter, None, Leaning::default()).is_some()
    }

    pub(super) fn add(&mut self, other: Tally) {
        self.numbers += other.numbers;
        self.others += other.others;
        self.ways.add(other.ways);
    }

    pub(super) fn count(&mut self, cell: Cell) {
        match cell {
            Cell::Missing => {}
            Cell::Number(_) => self.numbers += 1,
            Cell::Text(cell) => {
                self.others += 1;
                self.ways.count(cell);
            }
        }
    }
}

fn mostly(numbers: usize, others: usize) -> bool {
    let most = numbers * 10 >= (numbers + others) * NUMERIC_TENTHS;
    let stray = others == 1 && numbers >= 2;
    numbers > 0 && (most || stray)
}

/// What the first rows hold.
#[derive(Default)]
struct Sample {
    rows: usize,
    first: Vec<String>,
    columns: Vec<ColumnSample>,
    widths: HashMap<usize, usize>,
}

#[derive(Default, Clone)]
struct ColumnSample {
    /// The first row's cell.
    first: Tally,
    /// The cells of the rows below it.
    below: Tally,
    /// The first row's cell occurs again below.
    recurs: bool,
    /// The smallest and the largest plain number below.
    range: Option<(f64, f64)>,
}

impl Sample {
    fn take(text: &str, format: &RowFormat, missing: &MissingTokens) -> Sample {
        let mut sample = Sample::default();
        format.for_each_row(text, |_, cells| {
            sample.add(cells, missing);
            match sample.rows < SAMPLE {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        sample
    }

    fn add(&mut self, cells: &[&str], missing: &MissingTokens) {
        let kept = &cells[..cells.len().min(MAX_COLUMNS)];
        *self.widths.entry(cells.len()).or_default() += 1;
        if self.columns.len() < kept.len() {
            self.columns.resize(kept.len(), ColumnSample::default());
        }
        for (at, (column, cell)) in self.columns.iter_mut().zip(kept).enumerate() {
            match self.rows {
                0 => column.first.count(missing.classify(cell)),
                _ => {
                    let value = missing.classify(cell);
                    column.below.count(value);
                    if let Cell::Number(number) = value {
                        let (least, most) = column.range.unwrap_or((number, number));
                        column.range = Some((least.min(number), most.max(number)));
                    }
                    column.recurs |= self.first.get(at).is_some_and(|first| first == cell);
                }
            }
        }
        if self.rows == 0 {
            self.first = kept.iter().map(|cell| (*cell).to_owned()).collect();
        }
        self.rows += 1;
    }

    /// The most frequent number of cells; in doubt the first row's.
    fn usual_width(&self) -> usize {
        let first = self.first.len();
        self.widths
            .iter()
            .max_by_key(|(width, count)| (**count, **width == first, **width))
            .map_or(first, |(width, _)| *width)
    }

    /// Whether the first row holds names, and what to say of it.
    fn find_header(&self, expected: &[String], delimiter: Delimiter) -> (bool, Option<String>) {
        let note = |as_what: &str, why: &str, other: &str| {
            let cells = suggest::list(self.first.iter().map(String::as_str), 5);
            Some(format!("the first row ({cells}) is taken as {as_what}: {why}; --header {other} says otherwise"))
        };
        if self.has_header(expected, delimiter) {
            return (true, None);
        }
        if self.counts_up() {
            return (true, note("the header", "its numbers count up and are unlike those below", "false"));
        }
        match self.stands_apart() {
            true => (false, note("data", "it holds numbers, though unlike those below", "true")),
            false => (false, None),
        }
    }

    /// The first cells of the columns of plain numbers, if those are whole, each beside the range of the numbers below.
    fn whole_firsts(&self) -> Option<Vec<(f64, (f64, f64))>> {
        let numeric = self.columns.iter().zip(&self.first).filter(|(column, _)| column.below.numeric());
        let whole = |cell: &String| cell.parse().ok().filter(|number: &f64| number.fract() == 0.0);
        numeric.map(|(column, cell)| Some((whole(cell)?, column.range?))).collect()
    }

    /// The first row numbers the columns: years one after the other, or 0, 1, 2 … as tables without names are saved;
    /// in no column one that occurs below.
    fn counts_up(&self) -> bool {
        let Some(firsts) = self.whole_firsts().filter(|firsts| firsts.len() >= 2 && self.rows > 2) else {
            return false;
        };
        let rising = firsts.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1.0);
        let years = firsts.iter().all(|(number, (least, most))| {
            let year = |number: f64| (1900.0..=2100.0).contains(&number);
            year(*number) && !(year(*least) && year(*most))
        });
        let places = firsts.len() == self.first.len() && firsts.len() >= 3 && firsts[0].0 == 0.0;
        let anew = self.columns.iter().all(|column| !column.recurs);
        rising && anew && (years || places)
    }

    /// All numbers of the first row are whole ones, far from those below.
    fn stands_apart(&self) -> bool {
        let apart = |(number, (least, most)): &(f64, (f64, f64))| {
            let width = most - least;
            *number < least - width || *number > most + width
        };
        self.rows > 3 && self.whole_firsts().is_some_and(|firsts| firsts.len() >= 2 && firsts.iter().all(apart))
    }

    fn has_header(&self, expected: &[String], delimiter: Delimiter) -> bool {
        let is_number = |c: &ColumnSample| c.first.reads_as_numbers(delimiter);
        let known = expected.iter().filter(|n| self.first.contains(n)).count();
        if known > 0 && known * 2 >= expected.len() {
            return true;
        }
        if self.rows == 1 {
            return !self.columns.iter().any(is_number);
        }
        let numeric: Vec<_> = self.columns.iter().filter(|c| c.below.reads_as_numbers(delimiter)).collect();
        if !numeric.is_empty() {
            // Words above numbers. A name may look like a number, such as a year: most do not.
            let numbers = numeric.iter().filter(|c| is_number(c)).count();
            let words = numeric.iter().filter(|c| c.first.others > 0 && !is_number(c)).count();
            return words > numbers;
        }
        // All text: names are distinct, not empty, and do not come back below.
        let mut names: Vec<&String> = self.first.iter().collect();
        names.sort();
        names.dedup();
        names.len() == self.first.len()
            && self.first.iter().all(|name| !name.is_empty())
            && self.columns.iter().all(|c| !c.recurs && !is_number(c))
    }
}

/// The delimiter that cuts most lines into the same number of cells, at least two; before all others one that finds the names
/// of expected columns in the first row, as a file may have a single column of words.
fn find_delimiter(text: &str, expected: &[String], missing: &MissingTokens) -> Delimiter {
    let scores = Delimiter::ALL.map(|delimiter| (delimiter, score(text, delimiter, expected, missing)));
    let most_names = scores.iter().map(|(_, score)| score.names).max().unwrap_or(0);
    if most_names > 0 {
        let with_names = scores.iter().filter(|(_, score)| score.names == most_names);
        let best = with_names.fold(None, |best: Option<&(_, Score)>, s| match best {
            Some(b) if b.1.share >= s.1.share => Some(b),
            _ => Some(s),
        });
        match best {
            Some((delimiter, score)) if score.share > 0.0 => return *delimiter,
            // a single column, which nothing divides
            Some(_) => return Delimiter::Comma,
            None => {}
        }
    }
    let [(_, tab), .., (_, spaces)] = scores;
    let best = scores[..4].iter().fold(None, |best: Option<&(_, Score)>, s| match best {
        Some(b) if b.1.share >= s.1.share => Some(b),
        _ => Some(s),
    });
    match best {
        // Tabs mixed with blanks, or doubled: only as numbers is this safe to say.
        Some((Delimiter::Tab, _)) if spaces.numeric && spaces.share > tab.share => Delimiter::Spaces,
        Some((delimiter, score)) if score.share >= 0.5 => *delimiter,
        _ if spaces.share >= 0.5 => Delimiter::Spaces,
        Some((delimiter, score)) if score.share > spaces.share => *delimiter,
        _ if spaces.share > 0.0 && spaces.numeric => Delimiter::Spaces,
        _ => Delimiter::Comma,
    }
}

#[derive(Debug, Clone, Copy)]
struct Score {
    /// Share of lines with the usual number of cells; 0 if that is one.
    share: f64,
    /// Every cell below the first row is a number or missing.
    numeric: bool,
    /// Names of expected columns in the first row, if it is as wide as most.
    names: usize,
}

fn score(text: &str, delimiter: Delimiter, expected: &[String], missing: &MissingTokens) -> Score {
    let sample = Sample::take(text, &RowFormat::Delimited(delimiter), missing);
    let width = sample.usual_width();
    let usual = sample.widths.get(&width).copied().unwrap_or(0);
    Score {
        share: match width {
            0 | 1 => 0.0,
            _ => usual as f64 / sample.rows as f64,
        },
        numeric: sample.columns.iter().all(|c| c.below.others == 0),
        names: match sample.first.len() == width {
            true => expected.iter().filter(|name| sample.first.contains(name)).count(),
            false => 0,
        },
    }
}

/// Bytes of leading lines that begin with `|` or `#` and have another number of cells than the lines
/// below them.
fn comment_bytes(text: &str, delimiter: Delimiter) -> usize {
    let marked = || text.split_inclusive('\n').take_while(|line| line.starts_with(['|', '#']));
    let block: usize = marked().map(str::len).sum();
    if block == 0 {
        return 0;
    }
    let mut below = HashSet::new();
    let mut rows = 0;
    for_each_row(&text[block..], delimiter, |_, cells| {
        below.insert(cells.len());
        rows += 1;
        if rows < SAMPLE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let is_comment = |line: &&str| {
        let width = for_each_row(line, delimiter, |_, cells| ControlFlow::Break(cells.len()));
        !below.is_empty() && width.is_none_or(|width| !below.contains(&width))
    };
    marked().take_while(is_comment).map(str::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(text: &str) -> Layout {
        let options = ReadOptions::default();
        sniff(text, &options, &MissingTokens::new(&[])).unwrap()
    }

    #[test]
    fn delimiters() {
        for (text, want) in [
            ("a,b\n1,2\n", Delimiter::Comma),
            ("\"a\";\"b, c\"\n1;2\n", Delimiter::Semicolon),
            ("1,5;2\n1,7;3\n", Delimiter::Semicolon),
            ("a\tb c\n1\t2\n", Delimiter::Tab),
            ("a|b\n1|2\n", Delimiter::Pipe),
            ("id|name\n1|Roe, Jane\n2|Poe, Edgar\n", Delimiter::Pipe),
            ("name,tags\nx,a|b\ny,c|d\n", Delimiter::Comma),
            (" 1  2\n3 4 \n", Delimiter::Spaces),
            ("1\t2\t3\n4\t\t5\t6\n7\t8\t9\n", Delimiter::Spaces),
            ("1 \t2 \t3\n4 \t5 \t6\n", Delimiter::Tab),
            ("2016-07-01 00:00:00,1\n2016-07-02 00:00:00,2,3\n", Delimiter::Comma),
            ("x\n1\n2\n", Delimiter::Comma),
            ("name,tags\nx,a;b\ny,c;d\n", Delimiter::Comma),
        ] {
            assert_eq!(layout(text).format.delimiter(), want, "{text:?}");
        }
    }

    #[test]
    fn a_column_of_words_is_found_by_its_name() {
        let text = "review\nit was very good\nit was not bad\nnever seen words\n";
        let options = ReadOptions { expect_columns: vec!["review".into()], ..ReadOptions::default() };
        let found = sniff(text, &options, &MissingTokens::new(&[])).unwrap();
        assert_eq!((found.format.delimiter(), found.width, found.header), (Delimiter::Comma, 1, true));
    }

    #[test]
    fn headers() {
        for (text, want) in [
            ("a,b\n1,2\n", true),
            ("1,2\n3,4\n", false),
            ("39, Private, 1\n50, Private, 2\n", false),
            (",a,b\n0,1,2\n1,2,3\n", true),
            ("name,colour\nbob,red\namy,red\n", true),
            ("bob,red\namy,red\n", false),
            ("?,1\nx,2\n", false),
            ("place,1990,size\nx,2,3\ny,2,3\n", false),
            ("year,1990,size\n1,2,3\n4,2,3\n", true),
            ("a,b\n", true),
            ("a,1\n", false),
            ("name,2019,2020,2021\nn0,262,212,474\nn1,656,43,699\n", true),
            ("2019,2020\n2021,2022\n2020,2019\n", false),
            ("0,1,2\n5,7,9\n4,8,3.5\n", true),
            ("1,2,3\n5,7,9\n4,8,3\n", false),
            ("0,1\n5,7\n4,8\n", false),
            ("0,1,2\n0,7,9\n4,8,3\n", false),
        ] {
            assert_eq!(layout(text).header, want, "{text:?}");
        }
        let options = ReadOptions { expect_columns: vec!["1990".into(), "1991".into()], ..Default::default() };
        let sniffed = sniff("1990,1991\n5,6\n", &options, &MissingTokens::new(&[]));
        assert!(sniffed.unwrap().header, "names a model knows");
    }

    #[test]
    fn a_first_row_that_may_be_either_is_told() {
        let note = |text: &str| layout(text).header_note.unwrap_or_default();
        let told = note("name,2019,2020\nn0,262,212\nn1,656,43\n");
        assert!(told.starts_with("the first row (name, 2019, 2020) is taken as the header: "), "{told}");
        assert!(told.ends_with("--header false says otherwise"), "{told}");
        let told = note("100,200\n1.5,2\n2.5,3\n3.5,7\n");
        assert!(told.contains("is taken as data: ") && told.ends_with("--header true says otherwise"), "{told}");
        assert_eq!(note("a,b\n1,2\n") + &note("1,2\n3,4\n2,1\n0,9\n"), "");
    }

    #[test]
    fn comments() {
        assert_eq!(layout("|1x3 Cross validator\n1, 2\n3, 4\n").skip, 21);
        assert_eq!(layout("# a\n# b\n1,2\n3,4\n").skip, 8);
        assert_eq!(layout("#a,b\n1,2\n").skip, 0, "names, not a comment");
    }
}
