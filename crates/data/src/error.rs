//! What can be wrong with data, said so that a person can fix it: what, where, and what to do next.

use std::fmt;

use crate::escape::Escaped;

/// Everything that can go wrong between a file and a data set.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The path leads nowhere.
    #[error("{}: no such file{hint}", path.escaped())]
    NotFound { path: String, hint: String },

    /// A directory, or something else that is not a plain file.
    #[error("{}: {what}, not a file; {next}", path.escaped())]
    NotAFile { path: String, what: String, next: String },

    /// The operating system refused.
    #[error("{}: cannot be read: {source}", path.escaped())]
    Io { path: String, source: std::io::Error },

    /// A file that could not be written; nothing of it is left.
    #[error("{}: cannot be written: {problem}", path.escaped())]
    Write { path: String, problem: String },

    /// No byte, or no cell, at all.
    #[error("{}: {what}; {next}", file.escaped())]
    Empty { file: String, what: String, next: String },

    /// Bytes that are not text where text was expected.
    #[error("{}: line {line} is not UTF-8 text; name its encoding, such as --encoding windows-1252, or save it as UTF-8", file.escaped())]
    NotUtf8 { file: String, line: usize },

    /// A file of a kind that is known but not read.
    #[error("{}: {what}; {next}", file.escaped())]
    Unsupported { file: String, what: String, next: String },

    /// A gzip or zstd stream that ends early, is damaged, or grows beyond reason.
    #[error("{}: {problem}", file.escaped())]
    Gzip { file: String, problem: String },

    /// A file that is read in parts is no longer the one that was opened.
    #[error("{}: {what} since it was opened; start again, and leave the file alone while it is read", path.escaped())]
    Changed { path: String, what: String },

    /// A row with too few or too many cells.
    #[error("{}: line {line} has {found} cells, expected {expected}{hint}", file.escaped())]
    Ragged { file: String, line: usize, expected: usize, found: usize, hint: String },

    /// A quote that is never closed.
    #[error("{}: a quote that opens in line {line} is never closed; close it, or double it to mean the character", file.escaped())]
    OpenQuote { file: String, line: usize },

    /// A text cell in a numeric column, an infinite value, an unknown class.
    #[error("{place}: {problem}; {next}")]
    Cell { place: Box<Place>, problem: String, next: String },

    /// A column that was asked for is not there.
    #[error("{}: no column {wanted:?}{hint}; columns: {columns}", file.escaped())]
    NoColumn { file: String, wanted: String, hint: String, columns: String },

    /// Columns a model needs are not in this file.
    #[error("{}: the model needs {missing}; the file has {columns}", file.escaped())]
    MissingColumns { file: String, missing: String, columns: String },

    /// An NPY, NPZ, IDX, Parquet or Arrow file that is cut short, of another kind, or promises the impossible.
    #[error("{}: not a usable {format} file: {problem}", file.escaped())]
    Binary { file: String, format: &'static str, problem: String },

    /// Files that should be together are not.
    #[error("{}: {problem}", dir.escaped())]
    Folder { dir: String, problem: String },

    /// A picture that cannot be decoded or transformed.
    #[error("{}: {problem}", path.escaped())]
    Picture { path: String, problem: String },

    /// Settings that make no batches of these pictures.
    #[error("{}: {problem}", name.escaped())]
    Pipeline { name: String, problem: String },

    /// The target column cannot be learned as it stands.
    #[error("{}: target {column:?}: {problem}; {next}", file.escaped())]
    Target { file: String, column: String, problem: String, next: String },

    /// Nothing is left to learn from.
    #[error("{}: no usable feature columns: {why}", file.escaped())]
    NoFeatures { file: String, why: String },

    /// A setting of the preparation that this table cannot have.
    #[error("{}: prepare.{setting}: {problem}; {next}", file.escaped())]
    Prepare { file: String, setting: String, problem: String, next: String },

    /// A line in a file of row numbers.
    #[error("{}: line {line}: {problem}", file.escaped())]
    RowFile { file: String, line: usize, problem: String },

    /// Fractions or row lists that make no split.
    #[error("split: {0}")]
    Split(String),

    /// Lengths or indices that do not agree; a mistake of the calling code.
    #[error("inconsistent data: {0}")]
    Inconsistent(String),

    /// An error that several batches share.
    #[error(transparent)]
    Shared(std::sync::Arc<DataError>),

    /// More memory than there is.
    #[error("{what} needs {bytes} bytes, more than this machine gives; {next}")]
    TooLarge { what: String, bytes: u128, next: String },
}

/// Where in a table something is: lines and rows count from 1, column indices from 0 as in `--target`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// File name.
    pub file: String,
    /// Line in a text file, where known.
    pub line: Option<usize>,
    /// Data row, the header not counted.
    pub row: usize,
    /// Column name.
    pub column: String,
    /// Column index.
    pub index: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}: line {line} (row {})", self.file.escaped(), self.row)?,
            None => write!(f, "{}: row {}", self.file.escaped(), self.row)?,
        }
        write!(f, ", column {:?}", self.column)?;
        if self.column != self.index.to_string() {
            write!(f, " (index {})", self.index)?;
        }
        Ok(())
    }
}
