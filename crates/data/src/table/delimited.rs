//! Rows of text to columns: delimited text and JSON lines, in one pass over the text unless a late cell changes a column's kind.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::cell::{Cell, MissingTokens};
use super::read::too_many_rows;
use super::rows::{RowFormat, line_of_row, open_quote, refuse_long_lines};
use super::sniff::{Layout, Tally, sniff};
use super::writing::{Leaning, Writing};
use super::{
    Column, MAX_COLUMNS, MISSING, ReadOptions, Reading, Table, Values, find_column, select_columns, unique_names,
};
use crate::error::{DataError, Place};
use crate::suggest;

/// Reads a table from text; `name` is used in messages.
pub(super) fn parse(name: &str, text: &str, options: &ReadOptions) -> Result<Table, DataError> {
    refuse_long_lines(name, text)?;
    let plan = Plan::new(name, text, options)?;
    let line = |offset: usize| line_of_row(text, plan.layout.skip + offset);
    let source = Source {
        name,
        body: &text[plan.layout.skip..],
        plan: &plan,
        header: plan.layout.header,
        first_row: 0,
        line: &line,
    };
    let table = source.table(source.columns()?)?;
    match table.rows {
        0 => Err(no_rows(name)),
        _ => Ok(table),
    }
}

/// How a column is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Number,
    /// Numbers that are not written the plain way.
    Written(Writing),
    Text,
    /// Text because someone said so.
    ForcedText,
    /// Not asked for.
    Skipped,
}

/// What is known about a text before its rows are read.
#[derive(Debug)]
pub(super) struct Plan {
    pub layout: Layout,
    /// Of all columns of the text.
    pub names: Vec<String>,
    pub kinds: Vec<Kind>,
    /// How a model knows each column.
    expected: Vec<Option<Writing>>,
    missing: MissingTokens,
    /// The rows are for a model: messages name what can be done then.
    for_model: bool,
}

impl Plan {
    /// What the first rows suggest and the options say.
    pub(super) fn new(name: &str, text: &str, options: &ReadOptions) -> Result<Plan, DataError> {
        let missing = MissingTokens::new(&options.missing);
        let layout = sniff(text, options, &missing).ok_or_else(|| DataError::Empty {
            file: name.to_owned(),
            what: "is empty".to_owned(),
            next: "a table needs at least one row".to_owned(),
        })?;
        refuse_unused(name, text, &layout, options)?;
        if layout.width > MAX_COLUMNS {
            return Err(DataError::Unsupported {
                file: name.to_owned(),
                what: format!("more than {MAX_COLUMNS} cells in a line, not a table"),
                next: format!("at most {MAX_COLUMNS} columns are read"),
            });
        }
        let mut plan = Plan {
            layout,
            names: Vec::new(),
            kinds: Vec::new(),
            expected: Vec::new(),
            missing,
            for_model: options.for_model,
        };
        let line = |offset: usize| line_of_row(text, plan.layout.skip + offset);
        let body = &text[plan.layout.skip..];
        let source = Source { name, body, plan: &plan, header: plan.layout.header, first_row: 0, line: &line };
        plan.names = source.names()?;
        plan.expected = plan.names.iter().map(|name| options.expect_written.get(name).copied()).collect();
        plan.kinds = kinds(name, &plan, options)?;
        Ok(plan)
    }

    /// Where in the text the rows below the header begin.
    pub(super) fn rows_begin(&self, text: &str) -> usize {
        let skip = self.layout.skip;
        if !self.layout.header {
            return skip;
        }
        let mut rows = 0;
        let second = self.layout.format.for_each_row(&text[skip..], |offset, _| {
            rows += 1;
            if rows == 2 { ControlFlow::Break(skip + offset) } else { ControlFlow::Continue(()) }
        });
        let begin = second.unwrap_or(text.len());
        // a line ends with both
        let between = text[..begin].ends_with('\r') && text[begin..].starts_with('\n');
        begin + between as usize
    }

    /// What their cells make of columns that may be either numbers or text.
    pub(super) fn settle(&self, kinds: &mut [Kind], tallies: &[Tally]) {
        let delimiter = self.layout.format.delimiter();
        let leans = Leaning::of(tallies.iter().map(|tally| tally.ways));
        for ((kind, tally), expected) in kinds.iter_mut().zip(tallies).zip(&self.expected) {
            if !matches!(kind, Kind::ForcedText | Kind::Skipped) {
                *kind = match tally.written(delimiter, *expected, leans) {
                    Some(writing) => Kind::Written(writing),
                    None if tally.numeric() => Kind::Number,
                    None => Kind::Text,
                };
            }
        }
    }

    /// What was decided of the columns that are read.
    fn reading(&self, columns: &[Builder]) -> Reading {
        let written = self.names.iter().zip(columns).filter_map(|(name, column)| match column.kind {
            Kind::Written(writing) => Some((name.clone(), writing)),
            _ => None,
        });
        let rounded = self.names.iter().zip(columns).filter(|(_, column)| column.rounded);
        let named_text = self.names.iter().zip(&self.kinds).filter(|(_, kind)| **kind == Kind::ForcedText);
        Reading {
            written: written.collect(),
            rounded: rounded.map(|(name, _)| name.clone()).collect(),
            named_text: named_text.map(|(name, _)| name.clone()).collect(),
            header: self.layout.header_note.clone(),
        }
    }

    /// The columns have names of their own.
    pub(super) fn has_names(&self) -> bool {
        self.layout.header || self.layout.format.names().is_some()
    }

    /// The names of the columns that are read.
    pub(super) fn columns(&self) -> Vec<String> {
        let read = self.names.iter().zip(&self.kinds).filter(|(_, kind)| **kind != Kind::Skipped);
        read.map(|(name, _)| name.clone()).collect()
    }
}

/// Settings of delimited text that JSON lines have no use for, and texts that are JSON but not lines of it.
fn refuse_unused(name: &str, text: &str, layout: &Layout, options: &ReadOptions) -> Result<(), DataError> {
    let RowFormat::JsonLines(keys) = &layout.format else { return Ok(()) };
    let names = keys.names();
    if let Some((rows, found)) = keys.scattered {
        return Err(DataError::Unsupported {
            file: name.to_owned(),
            what: format!("{found} different keys in the first {rows} lines: nearly all cells would be missing"),
            next: "give all lines the same keys, or keep what differs as one text".to_owned(),
        });
    }
    let refused = |what: &str, next: &str| {
        Err(DataError::Unsupported { file: name.to_owned(), what: what.to_owned(), next: next.to_owned() })
    };
    if options.header.is_some() {
        return refused("JSON lines have no header: each line names its cells", "leave --header out");
    }
    if options.delimiter.is_some() {
        return refused("JSON lines have no delimiter: each line is an object", "leave --delimiter out");
    }
    // an object that goes on in the next line
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    if names.is_empty() && lines.next().is_some_and(|first| first == "{" || first.ends_with([',', '{', '['])) {
        let next = "write one object per line, as pandas' to_json(FILE, orient=\"records\", lines=True) does";
        return refused("is one JSON document over many lines, not JSON lines", next);
    }
    if names.is_empty() && lines.next().is_none() && text.trim().trim_matches(['{', '}']).trim().is_empty() {
        return refused("has no keys", "write one object per line, such as {\"a\": 1, \"b\": \"x\"}");
    }
    Ok(())
}

fn kinds(file: &str, plan: &Plan, options: &ReadOptions) -> Result<Vec<Kind>, DataError> {
    let mut kinds = vec![Kind::Text; plan.layout.width];
    plan.settle(&mut kinds, &plan.layout.tallies);
    let names: Vec<&str> = plan.names.iter().map(String::as_str).collect();
    for spec in &options.text {
        kinds[find_column(file, &names, spec)?] = Kind::ForcedText;
    }
    for (kind, name) in kinds.iter_mut().zip(names) {
        if options.expect_text.iter().any(|expected| expected == name) {
            *kind = Kind::ForcedText;
        }
    }
    let mut chosen = select_columns(file, &plan.names, &options.columns)?.into_iter().peekable();
    for (index, kind) in kinds.iter_mut().enumerate() {
        if chosen.next_if_eq(&index).is_none() {
            *kind = Kind::Skipped;
        }
    }
    Ok(kinds)
}

/// Whole rows of a text with everything that is known about it.
pub(super) struct Source<'a> {
    pub name: &'a str,
    pub body: &'a str,
    pub plan: &'a Plan,
    /// The first row holds the names.
    pub header: bool,
    /// The number of the first row of values, for messages.
    pub first_row: usize,
    /// The line of a byte of the body, for messages.
    pub line: &'a dyn Fn(usize) -> usize,
}

impl Source<'_> {
    /// Column names: the first row's, made unique, or the indices.
    fn names(&self) -> Result<Vec<String>, DataError> {
        let mut names: Vec<String> = self.plan.layout.format.names().unwrap_or_default().to_vec();
        if self.header {
            let found = self.plan.layout.format.for_each_row(self.body, |offset, cells| {
                names = cells.iter().map(|cell| (*cell).to_owned()).collect();
                ControlFlow::Break((cells.len() != self.plan.layout.width).then_some(offset))
            });
            if let Some(Some(offset)) = found {
                return Err(self.ragged(offset, names.len(), names.iter().any(|n| n.contains('\n'))));
            }
        }
        names.resize(self.plan.layout.width, String::new());
        unique_names(&mut names);
        Ok(names)
    }

    /// Every column, read again where the whole text says otherwise than its first rows.
    fn columns(&self) -> Result<Vec<Builder>, DataError> {
        let columns = self.pass(&self.plan.kinds)?;
        let tallies: Vec<Tally> = columns.iter().map(|column| column.tally).collect();
        let mut verdicts = self.plan.kinds.clone();
        self.plan.settle(&mut verdicts, &tallies);
        if verdicts == self.plan.kinds {
            return Ok(columns);
        }
        drop(columns);
        self.pass(&verdicts)
    }

    /// The columns that are read, unless a cell is not what its column is.
    pub(super) fn table(&self, columns: Vec<Builder>) -> Result<Table, DataError> {
        let rows = columns.first().map_or(0, |column| column.rows);
        let reading = self.plan.reading(&columns);
        let columns = columns
            .into_iter()
            .zip(&self.plan.names)
            .enumerate()
            .filter(|(_, (column, _))| column.kind != Kind::Skipped)
            .map(|(index, (column, name))| self.finish(index, name.clone(), column))
            .collect::<Result<_, _>>()?;
        Ok(Table { name: self.name.to_owned(), columns, rows, header: self.plan.has_names(), reading })
    }

    /// Reads all rows as columns of these kinds.
    pub(super) fn pass(&self, kinds: &[Kind]) -> Result<Vec<Builder>, DataError> {
        self.pass_beside(kinds, &mut Beside::default())
    }

    /// The same, with what is wanted beside the columns.
    pub(super) fn pass_beside(&self, kinds: &[Kind], beside: &mut Beside) -> Result<Vec<Builder>, DataError> {
        let mut columns: Vec<Builder> = kinds.iter().map(|kind| Builder::new(*kind)).collect();
        let mut row = 0;
        let mut last = 0;
        let mut at_header = self.header;
        let problem = self.plan.layout.format.for_each_row(self.body, |offset, cells| {
            last = offset;
            let ragged = cells.len() != columns.len();
            if ragged {
                let open_quote = cells.iter().any(|cell| cell.contains('\n'));
                let problem = self.ragged(offset, cells.len(), open_quote);
                if !beside.skip || at_header {
                    return ControlFlow::Break(problem);
                }
                beside.unreadable.push((row, problem.to_string()));
            }
            if std::mem::take(&mut at_header) {
                return ControlFlow::Continue(());
            }
            if row == MISSING as usize {
                return ControlFlow::Break(too_many_rows(self.name));
            }
            for (at, column) in columns.iter_mut().enumerate() {
                let cell = if ragged { "" } else { cells[at] };
                column.push(cell, &self.plan.missing, row, offset);
            }
            for (at, kept) in &mut beside.kept {
                kept.push(cells.get(*at).copied().unwrap_or_default().to_owned());
            }
            row += 1;
            ControlFlow::Continue(())
        });
        match problem.or_else(|| self.open_quote(last)) {
            None => Ok(columns),
            Some(problem) => Err(problem),
        }
    }

    /// The columns that are read, and the rows in which a cell is not what its column is.
    pub(super) fn table_with_unreadable(
        &self,
        mut columns: Vec<Builder>,
        beside: &mut Beside,
    ) -> Result<Table, DataError> {
        for (index, column) in columns.iter_mut().enumerate() {
            let rows = std::mem::take(&mut column.refused);
            let Some(problem) = self.problem_of(index, &self.plan.names[index], column) else { continue };
            // the first says what is wrong, the others are counted
            let why = problem.to_string();
            beside.unreadable.extend(rows.into_iter().map(|row| (row as usize, why.clone())));
            (column.stray, column.infinite) = (None, None);
            column.numbers.iter_mut().filter(|number| number.is_infinite()).for_each(|number| *number = f64::NAN);
        }
        beside.unreadable.sort();
        beside.unreadable.dedup_by_key(|(row, _)| *row);
        self.table(columns)
    }

    /// A quote that nothing closes swallows the rest of the file, from the last row on.
    fn open_quote(&self, last: usize) -> Option<DataError> {
        let opened = open_quote(&self.body[last..], &self.plan.layout.format)?;
        Some(DataError::OpenQuote { file: self.name.to_owned(), line: (self.line)(last + opened) })
    }

    /// The column, unless some of its cells are not what the others are.
    fn finish(&self, index: usize, name: String, column: Builder) -> Result<Column, DataError> {
        if let Some(problem) = self.problem_of(index, &name, &column) {
            return Err(problem);
        }
        let values = match column.kind {
            Kind::Number | Kind::Written(_) => Values::Number(column.numbers),
            Kind::Text | Kind::ForcedText | Kind::Skipped => {
                Values::Text { codes: column.codes, labels: column.labels }
            }
        };
        Ok(Column { name, values })
    }

    /// The first cell that is not what the others of its column are.
    fn problem_of(&self, index: usize, name: &str, column: &Builder) -> Option<DataError> {
        let place = |spot: &Spot| {
            Box::new(Place {
                file: self.name.to_owned(),
                line: Some((self.line)(spot.offset)),
                row: self.first_row + spot.row + 1,
                column: name.to_owned(),
                index,
            })
        };
        if let Some(spot) = &column.stray {
            let others = column.strays;
            let numbers = column.numbers.iter().filter(|number| !number.is_nan()).count();
            let written = match column.kind {
                Kind::Written(writing) => format!(" ({writing})"),
                _ => String::new(),
            };
            let cell = suggest::short(&spot.cell);
            let same = match (column.same_stray, others) {
                (_, 1) => String::new(),
                (true, _) => format!(" (it occurs {others} times)"),
                (false, _) => format!(" (as are {} more)", others - 1),
            };
            let (problem, remedy) = match self.plan.for_model {
                true => (
                    format!("{cell:?} is not a number{same}, and the column was numeric in training{written}"),
                    "pass over such rows with --on-error skip".to_owned(),
                ),
                false => (
                    format!("{cell:?} is not a number{same}, though {numbers} other cells of this column are{written}"),
                    format!("read the column as text with --text {name:?}"),
                ),
            };
            let next = format!("correct it, mark it as missing with --missing {cell:?}, or {remedy}");
            return Some(DataError::Cell { place: place(spot), problem, next });
        }
        column.infinite.as_ref().map(|spot| DataError::Cell {
            place: place(spot),
            problem: format!("{:?} is infinite", suggest::short(&spot.cell)),
            next: format!("correct it, or mark it as missing with --missing {:?}", suggest::short(&spot.cell)),
        })
    }

    fn ragged(&self, offset: usize, found: usize, open_quote: bool) -> DataError {
        let line = (self.line)(offset);
        let skip = if self.plan.for_model { "; pass over such rows with --on-error skip" } else { "" };
        if let RowFormat::JsonLines(keys) = &self.plan.layout.format {
            let text = self.body[offset..].trim_start().lines().next().unwrap_or_default();
            let (why, next) = keys.problem_of(text.trim());
            let (file, what) = (self.name.to_owned(), format!("line {line} {why}"));
            return DataError::Unsupported { file, what, next: format!("{next}{skip}") };
        }
        let hint = if open_quote {
            "; a quote that opens here may not be closed where it should be".to_owned()
        } else if line == 1 {
            "; if the first line is a title, remove it".to_owned()
        } else {
            let delimiter = self.plan.layout.format.delimiter();
            format!("; cells were separated by {delimiter}, a cell that holds one needs quotes")
        };
        let (file, hint) = (self.name.to_owned(), format!("{hint}{skip}"));
        DataError::Ragged { file, line, expected: self.plan.layout.width, found, hint }
    }
}

pub(super) fn no_rows(name: &str) -> DataError {
    DataError::Empty {
        file: name.to_owned(),
        what: "has a header but no rows below it".to_owned(),
        next: "add rows, or say that the first row is data with --header false".to_owned(),
    }
}

/// What is read beside the columns.
#[derive(Default)]
pub(super) struct Beside {
    /// Rows that cannot be read are passed over, not an error.
    pub skip: bool,
    /// Those rows, and why.
    pub unreadable: Vec<(usize, String)>,
    /// Columns by index whose cells are kept as they are written.
    pub kept: Vec<(usize, Vec<String>)>,
}

/// A column while it is read.
pub(super) struct Builder {
    kind: Kind,
    pub rows: usize,
    pub tally: Tally,
    numbers: Vec<f64>,
    codes: Vec<u32>,
    labels: Vec<String>,
    known: HashMap<String, u32>,
    /// The first cell that is neither number nor missing, and how many there are.
    stray: Option<Spot>,
    strays: usize,
    /// All such cells are the same.
    same_stray: bool,
    infinite: Option<Spot>,
    /// The rows of all of them.
    refused: Vec<u32>,
    /// Some whole number is not the one that is written.
    rounded: bool,
}

struct Spot {
    row: usize,
    offset: usize,
    cell: String,
}

impl Builder {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            rows: 0,
            tally: Tally::default(),
            numbers: Vec::new(),
            codes: Vec::new(),
            labels: Vec::new(),
            known: HashMap::new(),
            stray: None,
            strays: 0,
            same_stray: true,
            infinite: None,
            refused: Vec::new(),
            rounded: false,
        }
    }

    /// An infinite number has been met.
    pub(super) fn is_infinite(&self) -> bool {
        self.infinite.is_some()
    }

    fn push(&mut self, cell: &str, missing: &MissingTokens, row: usize, offset: usize) {
        self.rows += 1;
        if self.kind == Kind::Skipped {
            return;
        }
        let value = missing.classify(cell);
        self.tally.count(value);
        let value = match (self.kind, value) {
            (Kind::Number, value) | (Kind::Written(_), value @ Cell::Missing) => value,
            (Kind::Written(writing), Cell::Text(text)) => writing.number(text).map_or(value, Cell::Number),
            (Kind::Written(writing), Cell::Number(_)) if writing.doubts(cell) => Cell::Text(cell),
            (Kind::Written(_), Cell::Number(_)) => value,
            (Kind::Text | Kind::ForcedText | Kind::Skipped, value) => {
                let code = match value {
                    Cell::Missing => MISSING,
                    Cell::Number(_) | Cell::Text(_) => self.code(cell),
                };
                self.codes.push(code);
                return;
            }
        };
        let spot = || Spot { row, offset, cell: cell.to_owned() };
        self.numbers.push(match value {
            Cell::Number(number) => {
                if number.abs() >= EXACT {
                    self.rounded |= is_rounded(number, cell);
                    if number.is_infinite() {
                        self.refused.push(row as u32);
                        self.infinite.get_or_insert_with(spot);
                    }
                }
                number
            }
            Cell::Missing => f64::NAN,
            Cell::Text(_) => {
                self.strays += 1;
                self.refused.push(row as u32);
                match &self.stray {
                    None => self.stray = Some(spot()),
                    Some(first) => self.same_stray &= first.cell == cell,
                }
                f64::NAN
            }
        });
    }

    fn code(&mut self, cell: &str) -> u32 {
        if let Some(code) = self.known.get(cell) {
            return *code;
        }
        let code = self.labels.len() as u32;
        self.labels.push(cell.to_owned());
        self.known.insert(cell.to_owned(), code);
        code
    }
}

/// Up to here each whole number is one of floating point, too.
const EXACT: f64 = (1u64 << 53) as f64;

/// The cell spells a whole number, and it is another one.
fn is_rounded(number: f64, cell: &str) -> bool {
    cell.parse().is_ok_and(|whole: i128| whole != number as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Table, DataError> {
        parse("t.csv", text, &ReadOptions::default())
    }

    fn message(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    fn numbers(table: &Table, column: usize) -> &[f64] {
        match &table.columns[column].values {
            Values::Number(values) => values,
            Values::Text { .. } => panic!("text"),
        }
    }

    #[test]
    fn numbers_text_and_missing() {
        let t = read("a,b\n1,x\n?, y\n3,x\n4,NA\n").unwrap();
        assert_eq!((t.rows, t.header), (4, true));
        assert!(numbers(&t, 0)[1].is_nan());
        assert_eq!(numbers(&t, 0)[2..], [3.0, 4.0]);
        let want = Values::Text { codes: vec![0, 1, 0, MISSING], labels: vec!["x".into(), "y".into()] };
        assert_eq!(t.columns[1].values, want);
    }

    #[test]
    fn numbers_as_people_write_them() {
        let t = read("sqft,rate,price,n\n\"1,003\",3.4%,\"$1,500\",1\n950,-4%,$20,2\n,5 %,$7.5,3\n").unwrap();
        assert_eq!(numbers(&t, 0)[..2], [1003.0, 950.0]);
        assert!(numbers(&t, 0)[2].is_nan());
        assert_eq!(numbers(&t, 1), [3.4, -4.0, 5.0]);
        assert_eq!(numbers(&t, 2), [1500.0, 20.0, 7.5]);
        let want = [
            "read as numbers, in percent: rate",
            "read as numbers, thousands separated by commas: sqft",
            "read as numbers, thousands separated by commas, in $: price",
        ];
        assert_eq!(t.reading.notes(), want);
        let t = read("\"1,003\",7%\n\"2,000\",8%\n").unwrap();
        assert_eq!((t.header, t.rows, t.reading.written.len()), (false, 2, 2), "numbers are no names");
    }

    #[test]
    fn commas_mean_what_the_file_says() {
        // the second column leaves open what its commas mean
        let t = read("a;b\n0,5;1,288\n1,25;7,899\n").unwrap();
        assert_eq!((numbers(&t, 0), numbers(&t, 1)), (&[0.5, 1.25][..], &[1.288, 7.899][..]));
        let t = read("a;b\n1,000,000;1,288\n2,000;7,899\n").unwrap();
        assert_eq!((numbers(&t, 0)[0], numbers(&t, 1)), (1e6, &[1288.0, 7899.0][..]));
        assert_eq!(numbers(&read("a\tb\n1,288\t1\n7,899\t2\n").unwrap(), 0), [1288.0, 7899.0]);
        assert_eq!(numbers(&read("a;b\n1,288;1\n7,899;2\n").unwrap(), 0), [1.288, 7.899]);
        let known = read("a;b\n0,5;1\n1,25;2\n").unwrap().reading.written;
        let options = ReadOptions { expect_written: known, ..Default::default() };
        let t = parse("t.csv", "a,b\n\"1,288\",1\n", &options).unwrap();
        assert_eq!(numbers(&t, 0), [1.288], "as the model was trained");
        let t = parse("t.csv", "a,b\n1.288,1\n", &options).unwrap();
        assert_eq!(numbers(&t, 0), [1.288], "a plain number is one");
    }

    #[test]
    fn what_may_mean_two_things_is_no_number() {
        for text in ["a,n\n$5,1\n€6,2\n$7,3\n", "a,n\n5%,1\n6,2\n7%,3\n", "a,n\n\"1,5\",1\n\"2,5\",2\n"] {
            let t = read(text).unwrap();
            assert!(matches!(t.columns[0].values, Values::Text { .. }), "{text:?}");
            assert!(t.reading.written.is_empty());
        }
        let got = message("a;n\n0,5;1\n1,5;2\n2.5;3\n");
        assert!(got.contains("\"2.5\" is not a number") && got.contains("(a comma before the decimals)"), "{got}");
        let got = message("a,n\n$5,1\n$6,2\nfree,3\n");
        assert!(got.contains("line 4") && got.contains("\"free\" is not a number, though 2 other"), "{got}");
    }

    #[test]
    fn whole_numbers_that_are_rounded_are_known() {
        let t = read("a,b,c\n9007199254740993,9007199254740992,1e20\n1,-9223372036854775808,1.5\n").unwrap();
        assert_eq!(t.reading.rounded.into_iter().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn a_stray_cell_is_named() {
        let got = message("price,n\n1,1\n2,2\n3,3\nabc,4\n5,5\n");
        assert!(got.starts_with(r#"t.csv: line 5 (row 4), column "price" (index 0): "abc" is not a number"#), "{got}");
        assert!(got.contains(r#"--missing "abc""#) && got.contains(r#"--text "price""#));
        let options = ReadOptions { text: vec!["price".into()], ..Default::default() };
        let t = parse("t.csv", "price,n\n1,1\n2,2\n3,3\nabc,4\n5,5\n", &options).unwrap();
        assert!(matches!(t.columns[0].values, Values::Text { .. }));
        let options = ReadOptions { missing: vec!["abc".into()], ..Default::default() };
        let t = parse("t.csv", "price,n\n1,1\n2,2\n3,3\nabc,4\n5,5\n", &options).unwrap();
        assert!(numbers(&t, 0)[3].is_nan());
    }

    #[test]
    fn a_repeated_stray_token_is_counted() {
        let mut text = String::from("a\n");
        (0..40).for_each(|i| text += &format!("{i}\n"));
        text += "none\nnone\n";
        assert!(message(&text).contains("it occurs 2 times"));
    }

    #[test]
    fn infinite_values_are_named() {
        let got = message("a,b\n1,2\n1e999,3\n");
        assert!(got.contains("line 3") && got.contains("infinite"), "{got}");
    }

    #[test]
    fn ragged_rows_name_the_line() {
        let got = message("a,b,c\n1,2,3\n1,2\n1,2,3\n");
        assert!(got.contains("line 3 has 2 cells, expected 3"), "{got}");
        let got = message("My title\na,b,c\n1,2,3\n1,2,3\n");
        assert!(got.contains("line 1 has 1 cells, expected 3"), "{got}");
        let got = message("a,b\n1,\"2\n3,4\n5,6\n7,8\n9,1,2\n");
        assert!(got.contains("quote"), "{got}");
    }

    #[test]
    fn nothing_to_read() {
        assert!(message("").contains("empty"));
        assert!(message(" \n\n").contains("empty"));
        assert!(message("a,b\n").contains("no rows below"));
    }

    #[test]
    fn a_column_that_turns_to_text_late() {
        let mut text = String::from("a,b\n");
        (0..1500).for_each(|i| text += &format!("{i},{i}\n"));
        (0..1500).for_each(|i| text += &format!("x{i},{i}\n"));
        let t = read(&text).unwrap();
        match &t.columns[0].values {
            Values::Text { labels, .. } => assert_eq!(labels[7], "7"),
            Values::Number(_) => panic!("numbers"),
        }
        assert_eq!(numbers(&t, 1).len(), 3000);
    }

    #[test]
    fn names_are_unique() {
        let t = read("x,x,,x.1\n1,2,3,4\n").unwrap();
        assert_eq!(t.names().collect::<Vec<_>>(), ["x", "x.1", "2", "x.1.1"]);
        let t = read("1,2\n3,4\n").unwrap();
        assert_eq!(t.names().collect::<Vec<_>>(), ["0", "1"]);
        assert!(!t.header);
    }
}
