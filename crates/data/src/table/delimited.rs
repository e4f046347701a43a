//! Delimited text to columns, in one pass over the text unless a late cell changes a column's kind.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::cell::{Cell, MissingTokens};
use super::rows::{for_each_row, line_of_row};
use super::sniff::{Layout, Tally, sniff};
use super::{Column, Delimiter, MAX_COLUMNS, MISSING, ReadOptions, Table, Values, find_column};
use crate::error::{DataError, Place};
use crate::suggest;

/// Reads a table from text; `name` is used in messages.
pub(super) fn parse(name: &str, text: &str, options: &ReadOptions) -> Result<Table, DataError> {
    let missing = MissingTokens::new(&options.missing);
    let empty = |what: &str, next: &str| DataError::Empty {
        file: name.to_owned(),
        what: what.to_owned(),
        next: next.to_owned(),
    };
    let layout = sniff(text, options, &missing).ok_or_else(|| empty("is empty", "a table needs at least one row"))?;
    if layout.width > MAX_COLUMNS {
        return Err(DataError::Unsupported {
            file: name.to_owned(),
            what: format!("{} cells in a line, not a table", layout.width),
            next: format!("at most {MAX_COLUMNS} columns are read"),
        });
    }
    let source = Source { name, text, layout: &layout, missing: &missing };
    let names = source.names()?;
    let kinds = kinds(name, &names, &layout, options)?;
    let columns = source.columns(kinds)?;
    let rows = columns.first().map_or(0, |column| column.rows);
    if rows == 0 {
        return Err(empty(
            "has a header but no rows below it",
            "add rows, or say that the first row is data with --header no",
        ));
    }
    let columns = columns
        .into_iter()
        .zip(names)
        .enumerate()
        .map(|(index, (column, name))| source.finish(index, name, column))
        .collect::<Result<_, _>>()?;
    Ok(Table { name: name.to_owned(), columns, rows, header: layout.header })
}

/// How a column is read.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Number,
    Text,
    /// Text because someone said so.
    ForcedText,
}

/// What the sample suggests and the options say.
fn kinds(file: &str, names: &[String], layout: &Layout, options: &ReadOptions) -> Result<Vec<Kind>, DataError> {
    let mut kinds: Vec<Kind> =
        layout.numeric.iter().map(|numeric| if *numeric { Kind::Number } else { Kind::Text }).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for spec in &options.text {
        kinds[find_column(file, &names, spec)?] = Kind::ForcedText;
    }
    for (kind, name) in kinds.iter_mut().zip(names) {
        if options.expect_text.iter().any(|expected| expected == name) {
            *kind = Kind::ForcedText;
        }
    }
    Ok(kinds)
}

/// The text with everything that is known about it.
struct Source<'a> {
    name: &'a str,
    text: &'a str,
    layout: &'a Layout,
    missing: &'a MissingTokens,
}

impl Source<'_> {
    /// Column names: the first row's, made unique, or the indices.
    fn names(&self) -> Result<Vec<String>, DataError> {
        let mut names: Vec<String> = Vec::new();
        if self.layout.header {
            let found = for_each_row(self.body(), self.layout.delimiter, |offset, cells| {
                names = cells.iter().map(|cell| (*cell).to_owned()).collect();
                ControlFlow::Break((cells.len() != self.layout.width).then_some(offset))
            });
            if let Some(Some(offset)) = found {
                return Err(self.ragged(offset, names.len(), names.iter().any(|n| n.contains('\n'))));
            }
        }
        names.resize(self.layout.width, String::new());
        let mut seen: HashMap<String, usize> = HashMap::new();
        for (index, name) in names.iter_mut().enumerate() {
            if name.is_empty() {
                *name = index.to_string();
            }
            let base = name.clone();
            let mut copy = seen.get(&base).copied().unwrap_or(0);
            while seen.contains_key(name.as_str()) {
                copy += 1;
                *name = format!("{base}.{copy}");
            }
            seen.insert(base, copy);
            seen.entry(name.clone()).or_insert(0);
        }
        Ok(names)
    }

    /// Every column, read again where the whole file says otherwise than its first rows.
    fn columns(&self, mut kinds: Vec<Kind>) -> Result<Vec<Builder>, DataError> {
        let columns = self.pass(&kinds)?;
        let verdicts: Vec<Kind> = columns.iter().map(Builder::verdict).collect();
        if verdicts == kinds {
            return Ok(columns);
        }
        drop(columns);
        kinds = verdicts;
        self.pass(&kinds)
    }

    fn pass(&self, kinds: &[Kind]) -> Result<Vec<Builder>, DataError> {
        let mut columns: Vec<Builder> = kinds.iter().map(|kind| Builder::new(*kind)).collect();
        let mut row = 0;
        let mut last = 0;
        let mut at_header = self.layout.header;
        let problem = for_each_row(self.body(), self.layout.delimiter, |offset, cells| {
            last = offset;
            if cells.len() != columns.len() {
                let open_quote = cells.iter().any(|cell| cell.contains('\n'));
                return ControlFlow::Break(self.ragged(offset, cells.len(), open_quote));
            }
            if std::mem::take(&mut at_header) {
                return ControlFlow::Continue(());
            }
            if row == MISSING as usize {
                return ControlFlow::Break(self.too_many_rows());
            }
            for (column, cell) in columns.iter_mut().zip(cells) {
                column.push(cell, self.missing, row, offset);
            }
            row += 1;
            ControlFlow::Continue(())
        });
        match problem.or_else(|| self.open_quote(last)) {
            None => Ok(columns),
            Some(problem) => Err(problem),
        }
    }

    /// A quote that nothing closes swallows the rest of the file into the last row.
    fn open_quote(&self, last: usize) -> Option<DataError> {
        let row = self.body()[last..].trim();
        let open = self.layout.delimiter != Delimiter::Spaces
            && row.contains('\n')
            && row.bytes().filter(|byte| *byte == b'"').count() % 2 == 1;
        open.then(|| DataError::OpenQuote { file: self.name.to_owned(), line: self.line(last) })
    }

    /// The column, unless some of its cells are not what the others are.
    fn finish(&self, index: usize, name: String, column: Builder) -> Result<Column, DataError> {
        let place = |spot: &Spot| {
            Box::new(Place {
                file: self.name.to_owned(),
                line: Some(self.line(spot.offset)),
                row: spot.row + 1,
                column: name.clone(),
                index,
            })
        };
        if let (Kind::Number, Some(spot)) = (column.kind, &column.stray) {
            let Tally { numbers, others } = column.tally;
            let cell = suggest::short(&spot.cell);
            let same = match (column.same_stray, others) {
                (_, 1) => String::new(),
                (true, _) => format!(" (it occurs {others} times)"),
                (false, _) => format!(" (as are {} more)", others - 1),
            };
            return Err(DataError::Cell {
                place: place(spot),
                problem: format!("{cell:?} is not a number{same}, though {numbers} other cells of this column are"),
                next: format!(
                    "correct it, mark it as missing with --missing {cell:?}, or read the column as text with --text {name:?}"
                ),
            });
        }
        if let (Kind::Number, Some(spot)) = (column.kind, &column.infinite) {
            return Err(DataError::Cell {
                place: place(spot),
                problem: format!("{:?} is infinite", suggest::short(&spot.cell)),
                next: format!("correct it, or mark it as missing with --missing {:?}", suggest::short(&spot.cell)),
            });
        }
        let values = match column.kind {
            Kind::Number => Values::Number(column.numbers),
            Kind::Text | Kind::ForcedText => Values::Text { codes: column.codes, labels: column.labels },
        };
        Ok(Column { name, values })
    }

    fn ragged(&self, offset: usize, found: usize, open_quote: bool) -> DataError {
        let line = self.line(offset);
        let hint = if open_quote {
            "; a quote that opens here may not be closed where it should be".to_owned()
        } else if line == 1 {
            "; if the first line is a title, remove it".to_owned()
        } else {
            format!("; cells were separated by {}, a cell that holds one needs quotes", self.layout.delimiter)
        };
        DataError::Ragged { file: self.name.to_owned(), line, expected: self.layout.width, found, hint }
    }

    fn too_many_rows(&self) -> DataError {
        DataError::Unsupported {
            file: self.name.to_owned(),
            what: format!("more than {} rows", MISSING - 1),
            next: "split the file".to_owned(),
        }
    }

    fn body(&self) -> &str {
        &self.text[self.layout.skip..]
    }

    fn line(&self, offset: usize) -> usize {
        line_of_row(self.text, self.layout.skip + offset)
    }
}

/// A column while it is read.
struct Builder {
    kind: Kind,
    rows: usize,
    tally: Tally,
    numbers: Vec<f64>,
    codes: Vec<u32>,
    labels: Vec<String>,
    known: HashMap<String, u32>,
    /// The first cell that is neither number nor missing.
    stray: Option<Spot>,
    /// All such cells are the same.
    same_stray: bool,
    infinite: Option<Spot>,
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
            same_stray: true,
            infinite: None,
        }
    }

    /// What the cells so far make the column.
    fn verdict(&self) -> Kind {
        match self.kind {
            Kind::ForcedText => Kind::ForcedText,
            _ if self.tally.numeric() => Kind::Number,
            _ => Kind::Text,
        }
    }

    fn push(&mut self, cell: &str, missing: &MissingTokens, row: usize, offset: usize) {
        self.rows += 1;
        let value = missing.classify(cell);
        self.tally.count(value);
        if self.kind != Kind::Number {
            let code = match value {
                Cell::Missing => MISSING,
                Cell::Number(_) | Cell::Text(_) => self.code(cell),
            };
            self.codes.push(code);
            return;
        }
        let spot = || Spot { row, offset, cell: cell.to_owned() };
        self.numbers.push(match value {
            Cell::Number(number) => {
                if number.is_infinite() && self.infinite.is_none() {
                    self.infinite = Some(spot());
                }
                number
            }
            Cell::Missing => f64::NAN,
            Cell::Text(_) => {
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
