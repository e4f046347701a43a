//! A table in memory: named columns of numbers or of text, read from delimited text, JSON lines, Parquet, Arrow or NumPy's files.
//! A file larger than memory is read as blocks, each of them a table.
//!
//! ```text
//! mod.rs        Table, Column, Values, ReadOptions
//! read.rs       picks the reader by the first bytes; what all readers share
//! delimited.rs  text → columns, with errors that name line and column
//! json_lines.rs JSON lines → rows of cells
//! sniff.rs      delimiter, comment lines, header: what the options leave open
//! rows.rs       text → rows of cells
//! cell.rs       one cell: missing, number or text
//! writing.rs    numbers as people write them: 1,234, 12%, $5
//! reading.rs    what was decided while reading that is not plain to see
//! datetime.rs   dates and times in text: their format, seconds, the calendar
//! npy.rs        NumPy's array files
//! npz.rs        several of them in a zip
//! parquet/      Parquet, whole or by row groups: its types, columns and bytes
//! arrow.rs      Arrow IPC (Feather), whole or by record batches
//! columnar.rs   Arrow arrays → columns, and what Parquet has in common with them
//! blocks.rs     TableBlocks: a file in blocks
//! lines.rs      delimited text in blocks
//! parts.rs      a table read once, part by part: rows for a model
//! watched.rs    an open file that must not change
//! ```

mod arrow;
mod blocks;
mod cell;
mod columnar;
mod datetime;
mod delimited;
mod json_lines;
mod lines;
mod npy;
mod npz;
mod parquet;
mod parts;
mod read;
mod reading;
mod rows;
mod sniff;
mod watched;
mod writing;

#[doc(hidden)]
pub use blocks::open_blocks_of;
pub use blocks::{Numbers, TableBlocks, open_blocks, open_blocks_within};
pub use datetime::{
    Civil, ClockFormat, DAY, DateFormat, DateOrder, HalfDay, MonthStyle, ZoneFormat, ZoneStyle, days_in_month,
};
pub use parts::{PartOptions, TablePart, TableParts};
pub(crate) use read::{concat, parallel};
use read::{join_values, select_columns, unique_names};
pub use reading::Reading;
pub use writing::{Writing, Writings};

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use crate::encoding::TextEncoding;
use crate::error::{DataError, Place};
use crate::suggest;

/// The code of a missing cell in a text column.
pub const MISSING: u32 = u32::MAX;

/// More columns than any table has; beyond this a file is damaged or not a table.
const MAX_COLUMNS: usize = 1 << 20;

/// Named columns of equal length.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// File name, for messages.
    pub name: String,
    /// Columns in file order.
    pub columns: Vec<Column>,
    /// Number of rows.
    pub rows: usize,
    /// Whether the names come from the file; otherwise they are "0", "1", ….
    pub header: bool,
    /// What was decided while reading.
    pub reading: Reading,
}

/// One column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// From the header, made unique; or the index.
    pub name: String,
    /// One value per row.
    pub values: Values,
}

/// The values of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Finite numbers; NaN where missing.
    Number(Vec<f64>),
    /// Indices into `labels` in order of first appearance; [`MISSING`] where missing.
    Text { codes: Vec<u32>, labels: Vec<String> },
}

/// What separates the cells of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delimiter {
    Comma,
    Semicolon,
    Tab,
    Pipe,
    /// Runs of spaces and tabs; leading and trailing ones do not count.
    Spaces,
}

/// How to read a table. The default looks at the file and decides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadOptions {
    /// Columns to read, by name or index; empty for all. They stay in the order of the file.
    pub columns: Vec<String>,
    /// The separator, or `None` to find it.
    pub delimiter: Option<Delimiter>,
    /// Whether the first row holds names, or `None` to find out.
    pub header: Option<bool>,
    /// The encoding of a text, or `None` for UTF-8 and what a byte order mark says.
    pub encoding: Option<TextEncoding>,
    /// Further tokens for a missing cell, besides the empty cell, `?`, `NA`, `N/A`, `#N/A`, `<NA>`, `NaN`, `NaT`,
    /// `null` and `None`.
    pub missing: Vec<String>,
    /// Columns, by name or index, to read as text whatever they hold.
    pub text: Vec<String>,
    /// Columns to read as text where the file has them: those a model was trained on as text.
    pub expect_text: Vec<String>,
    /// How numbers were written in the columns a model was trained on: what they mean here where cells leave it open.
    pub expect_written: Writings,
    /// Names a model knows: a first row that holds most of them is a header.
    pub expect_columns: Vec<String>,
    /// The rows are for a model that was trained: errors name what can be done then.
    pub for_model: bool,
    /// A compressed file may expand to at most so many bytes.
    pub most_bytes: Option<u64>,
}

impl Table {
    /// The index of a column: by exact name, else by 0-based index; a negative one counts from the end.
    pub fn column(&self, spec: &str) -> Result<usize, DataError> {
        let names: Vec<&str> = self.names().collect();
        find_column(&self.name, &names, spec)
    }

    /// Column names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// Bytes in memory.
    pub fn size(&self) -> u64 {
        let size = |column: &Column| match &column.values {
            Values::Number(values) => size_of_val(&values[..]),
            Values::Text { codes, labels } => {
                let texts: usize = labels.iter().map(|label| size_of_val(label) + label.len()).sum();
                size_of_val(&codes[..]) + texts
            }
        };
        self.columns.iter().map(|column| size(column) as u64).sum()
    }

    /// Whether this is the first column and the only one that the file does not name, so that it goes by its place: the index
    /// that pandas writes.
    pub(crate) fn is_unnamed(&self, column: usize) -> bool {
        let goes_by_place = |at: usize, name: &str| name == at.to_string();
        let mut placed = self.names().enumerate().filter(|(at, name)| goes_by_place(*at, name)).map(|(at, _)| at);
        self.header && column == 0 && placed.next() == Some(0) && placed.next().is_none() && self.columns.len() > 1
    }

    /// Every column has a value per row and every code a label.
    pub(crate) fn check(&self) -> Result<(), DataError> {
        for column in &self.columns {
            let (len, codes_valid) = match &column.values {
                Values::Number(values) => (values.len(), true),
                Values::Text { codes, labels } => {
                    (codes.len(), codes.iter().all(|code| *code == MISSING || (*code as usize) < labels.len()))
                }
            };
            if len != self.rows || !codes_valid {
                return Err(DataError::Inconsistent(format!(
                    "{}: column {:?} does not fit a table of {} rows",
                    self.name, column.name, self.rows
                )));
            }
        }
        Ok(())
    }

    /// Where a cell is, for messages; `row` counts from 0.
    pub(crate) fn place(&self, row: usize, column: usize) -> Box<Place> {
        Box::new(Place {
            file: self.name.clone(),
            line: None,
            row: row + 1,
            column: self.columns.get(column).map_or_else(|| column.to_string(), |c| c.name.clone()),
            index: column,
        })
    }
}

impl Column {
    /// Whether the cell of a row is missing.
    pub fn is_missing(&self, row: usize) -> bool {
        match &self.values {
            Values::Number(values) => values.get(row).is_none_or(|v| v.is_nan()),
            Values::Text { codes, .. } => codes.get(row).is_none_or(|c| *c == MISSING),
        }
    }

    /// The column as numbers; the first row that holds none, counted from 0, is the error.
    pub(crate) fn numbers(&self) -> Result<Cow<'_, [f64]>, usize> {
        let (codes, labels) = match &self.values {
            Values::Number(values) => return Ok(Cow::Borrowed(values)),
            Values::Text { codes, labels } => (codes, labels),
        };
        let values: Vec<Option<f64>> = labels.iter().map(|l| cell::finite(l)).collect();
        let value = |(row, code): (usize, &u32)| match *code {
            MISSING => Ok(f64::NAN),
            code => values.get(code as usize).copied().flatten().ok_or(row),
        };
        codes.iter().enumerate().map(value).collect()
    }

    /// The column as labels; numbers are written the shortest way.
    pub(crate) fn labels(&self) -> (Cow<'_, [u32]>, Cow<'_, [String]>) {
        let values = match &self.values {
            Values::Text { codes, labels } => return (codes.into(), labels.into()),
            Values::Number(values) => values,
        };
        let mut known: HashMap<u64, u32> = HashMap::new();
        let mut labels: Vec<String> = Vec::new();
        let codes = values.iter().map(|value| {
            if value.is_nan() {
                return MISSING;
            }
            let value = value + 0.0; // -0 and 0 are one label
            *known.entry(value.to_bits()).or_insert_with(|| {
                labels.push(value.to_string());
                labels.len() as u32 - 1
            })
        });
        let codes: Vec<u32> = codes.collect();
        (codes.into(), labels.into())
    }
}

impl Delimiter {
    /// Every delimiter, those preferred in doubt first.
    pub(crate) const ALL: [Delimiter; 5] =
        [Delimiter::Tab, Delimiter::Semicolon, Delimiter::Comma, Delimiter::Pipe, Delimiter::Spaces];
}

impl fmt::Display for Delimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Delimiter::Comma => "comma",
            Delimiter::Semicolon => "semicolon",
            Delimiter::Tab => "tab",
            Delimiter::Pipe => "pipe",
            Delimiter::Spaces => "spaces",
        })
    }
}

impl FromStr for Delimiter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "," | "comma" => Ok(Delimiter::Comma),
            ";" | "semicolon" => Ok(Delimiter::Semicolon),
            "\t" | "\\t" | "tab" => Ok(Delimiter::Tab),
            "|" | "pipe" => Ok(Delimiter::Pipe),
            " " | "space" | "spaces" => Ok(Delimiter::Spaces),
            other => Err(format!("{other:?} is not a delimiter; use comma, semicolon, tab, pipe or spaces")),
        }
    }
}

/// [`Table::column`] over bare names.
fn find_column(file: &str, names: &[&str], spec: &str) -> Result<usize, DataError> {
    if let Some(index) = names.iter().position(|name| *name == spec) {
        return Ok(index);
    }
    let count = names.len() as i64;
    let hint = match spec.parse::<i64>() {
        Ok(index) if (0..count).contains(&index) => return Ok(index as usize),
        Ok(index) if (-count..0).contains(&index) => return Ok((count + index) as usize),
        Ok(_) => format!("; indices go from 0 to {}", count - 1),
        Err(_) => suggest::hint(spec, names.iter().copied()),
    };
    Err(DataError::NoColumn {
        file: file.to_owned(),
        wanted: suggest::short(spec),
        hint,
        columns: suggest::list(names.iter().copied(), 30),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        Table::from_bytes("t.csv", text.as_bytes(), &ReadOptions::default()).unwrap()
    }

    #[test]
    fn columns_are_found_by_name_then_index() {
        let t = table("price,rooms,1\n1,2,3\n4,5,6\n");
        assert_eq!(t.column("price").unwrap(), 0);
        assert_eq!(t.column("1").unwrap(), 2, "a name goes before an index");
        assert_eq!(t.column("0").unwrap(), 0);
        assert_eq!(t.column("-1").unwrap(), 2);
        let error = t.column("prise").unwrap_err().to_string();
        assert_eq!(error, r#"t.csv: no column "prise"; did you mean "price"?; columns: price, rooms, 1"#);
        assert!(t.column("3").unwrap_err().to_string().contains("0 to 2"));
        assert!(t.column("-4").is_err());
        assert!(t.column("").is_err());
    }

    #[test]
    fn columns_change_kind_when_asked() {
        let t = table("a,b\nx,1\ny,-0\nx,0\n");
        assert_eq!(t.columns[0].numbers(), Err(0));
        let (codes, labels) = t.columns[1].labels();
        assert_eq!((&*codes, labels.join(" ")), (&[0, 1, 1][..], "1 0".into()));
    }

    #[test]
    fn other_formats_are_named() {
        let read = |bytes: &[u8]| Table::from_bytes("t", bytes, &ReadOptions::default());
        assert!(read(b"PK\x03\x04..").unwrap_err().to_string().contains("XLSX"));
        let error = read(b"a,b\n1,2\n3,\0\n").unwrap_err().to_string();
        assert!(error.contains("binary") && error.contains("line 3"), "{error}");
        let error = read(b"a,b\n1,2\n3,\xff\n").unwrap_err().to_string();
        assert!(error.contains("line 3"), "{error}");
    }
}
