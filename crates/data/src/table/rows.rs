//! Text to rows of trimmed cells, for every delimiter.

use std::io::Read;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::json_lines::JsonKeys;
use super::{Delimiter, MAX_COLUMNS};
use crate::error::DataError;

/// Longer records and lines are refused: a quote that is never closed, or no table.
pub(super) const LONGEST_RECORD: usize = 64 << 20;
/// A row is handed on with at most so many cells, one more than a table has columns: what is too wide is seen, and memory is
/// bounded.
const MOST_CELLS: usize = MAX_COLUMNS + 1;

/// How a text is cut into rows of cells.
#[derive(Debug, Clone)]
pub(super) enum RowFormat {
    Delimited(Delimiter),
    JsonLines(Arc<JsonKeys>),
}

impl RowFormat {
    /// Calls `visit(byte offset of the row, its cells)` for each row that is not blank, until it breaks.
    pub(super) fn for_each_row<B>(&self, text: &str, visit: impl FnMut(usize, &[&str]) -> ControlFlow<B>) -> Option<B> {
        match self {
            RowFormat::Delimited(delimiter) => for_each_row(text, *delimiter, visit),
            RowFormat::JsonLines(keys) => keys.for_each_row(text, visit),
        }
    }

    /// What separates the cells. Of JSON lines nothing does, so that a comma in a cell says as much as between tabs.
    pub(super) fn delimiter(&self) -> Delimiter {
        match self {
            RowFormat::Delimited(delimiter) => *delimiter,
            RowFormat::JsonLines(_) => Delimiter::Tab,
        }
    }

    /// Each row has its names.
    pub(super) fn names(&self) -> Option<&[String]> {
        match self {
            RowFormat::Delimited(_) => None,
            RowFormat::JsonLines(keys) => Some(keys.names()),
        }
    }
}

/// Calls `visit(byte offset of the row, its cells)` for each row that is not blank, until it breaks.
pub(super) fn for_each_row<B>(
    text: &str,
    delimiter: Delimiter,
    visit: impl FnMut(usize, &[&str]) -> ControlFlow<B>,
) -> Option<B> {
    match delimiter {
        Delimiter::Comma => quoted_rows(text, b',', visit),
        Delimiter::Semicolon => quoted_rows(text, b';', visit),
        Delimiter::Tab => quoted_rows(text, b'\t', visit),
        Delimiter::Pipe => quoted_rows(text, b'|', visit),
        Delimiter::Spaces => blank_rows(text, visit),
    }
}

/// The 1-based line of the row that starts at byte `offset`, blank lines before it skipped.
pub(super) fn line_of_row(text: &str, offset: usize) -> usize {
    let bytes = text.as_bytes();
    let start =
        (offset..bytes.len()).find(|at| !matches!(bytes[*at], b'\n' | b'\r')).unwrap_or(offset.min(bytes.len()));
    line_at(&bytes[..start])
}

/// The 1-based line that follows these bytes; `\n`, `\r\n` and a lone `\r` each end a line.
pub(super) fn line_at(before: &[u8]) -> usize {
    let mut lines = 1;
    for (at, byte) in before.iter().enumerate() {
        let ends = match byte {
            b'\n' => true,
            b'\r' => before.get(at + 1) != Some(&b'\n'),
            _ => false,
        };
        lines += ends as usize;
    }
    lines
}

/// RFC 4180, by the `csv` crate.
fn quoted_rows<B>(text: &str, delimiter: u8, mut visit: impl FnMut(usize, &[&str]) -> ControlFlow<B>) -> Option<B> {
    // The reader drops a byte order mark at its start, yet this may be the middle of a file.
    let lead: &[u8] = if text.starts_with('\u{feff}') { b"\n" } else { b"" };
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .from_reader(lead.chain(text.as_bytes()));
    let mut record = csv::ByteRecord::new();
    loop {
        let offset = (reader.position().byte() as usize).saturating_sub(lead.len());
        // Reading from memory does not fail, and cells of valid text cut at ASCII are valid text.
        let Ok(true) = reader.read_byte_record(&mut record) else {
            return None;
        };
        let cell = |cell| trim(std::str::from_utf8(cell).unwrap_or_default());
        let cells: Vec<&str> = record.iter().take(MOST_CELLS).map(cell).collect();
        if cells == [""] {
            continue;
        }
        if let ControlFlow::Break(value) = visit(offset, &cells) {
            return Some(value);
        }
    }
}

/// Blanks around a cell go; so do quotes that stood behind a blank (`1, "a"`), which RFC 4180 leaves.
fn trim(cell: &str) -> &str {
    let cell = cell.trim();
    match cell.strip_prefix('"').and_then(|c| c.strip_suffix('"')) {
        Some(inner) if !inner.contains('"') => inner.trim(),
        _ => cell,
    }
}

/// Cells between runs of blanks; a cell that starts with a quote goes on to the next quote.
fn blank_rows<B>(text: &str, mut visit: impl FnMut(usize, &[&str]) -> ControlFlow<B>) -> Option<B> {
    let mut cells: Vec<&str> = Vec::new();
    let mut offset = 0;
    for line in text.split_inclusive(['\n', '\r']) {
        cells.clear();
        let mut rest = line.trim();
        while !rest.is_empty() && cells.len() < MOST_CELLS {
            let (cell, after) = match rest.strip_prefix('"').and_then(|r| r.split_once('"')) {
                Some(quoted) => quoted,
                None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
            };
            cells.push(cell.trim());
            rest = after.trim_start();
        }
        if !cells.is_empty()
            && let ControlFlow::Break(value) = visit(offset, &cells)
        {
            return Some(value);
        }
        offset += line.len();
    }
    None
}

/// Refuses a text with a line that is too long. It looks at few bytes of a text whose lines are short.
pub(super) fn refuse_long_lines(file: &str, text: &str) -> Result<(), DataError> {
    let bytes = text.as_bytes();
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    // a line that is too long covers at least one of the pieces that are half as long
    let piece = LONGEST_RECORD / 2;
    for (at, part) in (0..).step_by(piece).zip(bytes.chunks_exact(piece)) {
        if !part.iter().any(is_end) {
            let start = bytes[..at].iter().rposition(is_end).map_or(0, |end| end + 1);
            let length = bytes[start..].iter().position(is_end).unwrap_or(bytes.len() - start);
            if length > LONGEST_RECORD {
                return Err(long_line(file, line_at(&bytes[..start])));
            }
        }
    }
    Ok(())
}

/// A line that no table has.
pub(super) fn long_line(file: &str, line: usize) -> DataError {
    DataError::Unsupported {
        file: file.to_owned(),
        what: format!("line {line} is longer than {} MiB, not a row of a table", LONGEST_RECORD >> 20),
        next: "end each row with a line break".to_owned(),
    }
}

/// Where a quote opens that nothing closes; the text begins with a row.
pub(super) fn open_quote(text: &str, format: &RowFormat) -> Option<usize> {
    let mut records = Records::new(format);
    let mut opened = 0;
    for (at, byte) in text.bytes().enumerate() {
        let before = records.state;
        records.step(byte);
        if records.state == State::Quoted && matches!(before, State::RecordStart | State::CellStart) {
            opened = at;
        }
    }
    (records.state == State::Quoted).then_some(opened)
}

/// Where records end, by the rules of the `csv` crate: quotes count at the start of a cell only.
pub(super) struct Records {
    delimiter: Option<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    RecordStart,
    CellStart,
    Cell,
    Quoted,
    /// Behind a quote in a quoted cell: its end, or the first of two.
    Quote,
}

impl Records {
    pub(super) fn new(format: &RowFormat) -> Records {
        let delimiter = match format {
            RowFormat::Delimited(Delimiter::Comma) => Some(b','),
            RowFormat::Delimited(Delimiter::Semicolon) => Some(b';'),
            RowFormat::Delimited(Delimiter::Tab) => Some(b'\t'),
            RowFormat::Delimited(Delimiter::Pipe) => Some(b'|'),
            // Quoted cells end with their line.
            RowFormat::Delimited(Delimiter::Spaces) | RowFormat::JsonLines(_) => None,
        };
        Records { delimiter, state: State::CellStart }
    }

    /// A record has ended and no other has begun.
    pub(super) fn ended(&self) -> bool {
        self.state == State::RecordStart
    }

    /// Within a quoted cell.
    pub(super) fn is_quoted(&self) -> bool {
        self.state == State::Quoted
    }

    pub(super) fn step(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (State::Quoted, b'"') => State::Quote,
            (State::Quoted, _) => State::Quoted,
            (State::Quote, b'"') => State::Quoted,
            (_, b'\n' | b'\r') => State::RecordStart,
            (State::RecordStart | State::CellStart, b'"') if self.delimiter.is_some() => State::Quoted,
            (_, byte) if Some(byte) == self.delimiter => State::CellStart,
            _ => State::Cell,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, delimiter: Delimiter) -> Vec<(usize, Vec<String>)> {
        let mut out = Vec::new();
        for_each_row::<()>(text, delimiter, |offset, cells| {
            let cells = cells.iter().map(|c| c.to_string()).collect();
            out.push((line_of_row(text, offset), cells));
            ControlFlow::Continue(())
        });
        out
    }

    #[test]
    fn quotes_newlines_and_blanks() {
        let text = "a, \"b\" ,\"c\nd\"\r\n\r\n  \n1,\"x \"\"y\"\"\",3\n";
        let want = [(1, "a|b|c\nd"), (5, "1|x \"y\"|3")];
        let got: Vec<_> =
            rows(text, Delimiter::Comma).into_iter().map(|(line, cells)| (line, cells.join("|"))).collect();
        assert_eq!(got, want.map(|(l, c)| (l, c.to_owned())));
    }

    #[test]
    fn runs_of_blanks_and_quoted_names() {
        let got = rows("  1 \t 2  \n\n3 \"ford pinto\"\n", Delimiter::Spaces);
        assert_eq!(got[0], (1, vec!["1".to_owned(), "2".to_owned()]));
        assert_eq!(got[1], (3, vec!["3".to_owned(), "ford pinto".to_owned()]));
    }

    #[test]
    fn lines_end_in_three_ways() {
        assert_eq!(line_at(b"a\nb\r\nc\rd"), 4);
        assert_eq!(rows("a\rb\r", Delimiter::Comma)[1].0, 2);
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_by_its_number() {
        for (before, number) in [("", 1), ("a,b\n1,2\n", 3)] {
            let text = |length: usize| format!("{before}{}\n3,4\n", "x".repeat(length));
            assert!(refuse_long_lines("t.csv", &text(LONGEST_RECORD)).is_ok());
            let message = refuse_long_lines("t.csv", &text(LONGEST_RECORD + 1)).unwrap_err().to_string();
            assert!(message.contains(&format!("line {number} is longer than 64 MiB")), "{message}");
        }
    }

    #[test]
    fn a_row_has_at_most_one_cell_more_than_a_table_has_columns() {
        for (delimiter, cell) in [(Delimiter::Comma, "1,"), (Delimiter::Spaces, "1 ")] {
            let text = cell.repeat(MAX_COLUMNS + 9) + "1\n2\n";
            let widths: Vec<usize> = rows(&text, delimiter).iter().map(|(_, cells)| cells.len()).collect();
            assert_eq!(widths, [MAX_COLUMNS + 1, 1]);
        }
    }
}
