//! What can be wrong with data, said so that a person can fix it: what, where, and what to do next.

use std::fmt;

/// Everything that can go wrong between a file and a data set.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The path leads nowhere.
    #[error("{path}: no such file{hint}")]
    NotFound { path: String, hint: String },

    /// A directory, or something else that is not a plain file.
    #[error("{path}: {what}, not a file; {next}")]
    NotAFile { path: String, what: String, next: String },

    /// The operating system refused.
    #[error("{path}: cannot be read: {source}")]
    Io { path: String, source: std::io::Error },

    /// The operating system refused to take a file.
    #[error("{path}: cannot be written: {source}")]
    Write { path: String, source: std::io::Error },

    /// No byte, or no cell, at all.
    #[error("{file}: {what}; {next}")]
    Empty { file: String, what: String, next: String },

    /// Bytes that are not text where text was expected.
    #[error("{file}: line {line} is not UTF-8 text; save the file as UTF-8 and try again")]
    NotUtf8 { file: String, line: usize },

    /// A file of a kind that is known but not read.
    #[error("{file}: {what}; {next}")]
    Unsupported { file: String, what: String, next: String },

    /// A gzip stream that ends early, is damaged, or grows beyond reason.
    #[error("{file}: {problem}")]
    Gzip { file: String, problem: String },

    /// A row with too few or too many cells.
    #[error("{file}: line {line} has {found} cells, expected {expected}{hint}")]
    Ragged { file: String, line: usize, expected: usize, found: usize, hint: String },

    /// A quote that is never closed.
    #[error("{file}: a quote that opens in line {line} is never closed; close it, or double it to mean the character")]
    OpenQuote { file: String, line: usize },

    /// A text cell in a numeric column, an infinite value, an unknown class.
    #[error("{place}: {problem}; {next}")]
    Cell { place: Box<Place>, problem: String, next: String },

    /// A column that was asked for is not there.
    #[error("{file}: no column {wanted:?}{hint}; columns: {columns}")]
    NoColumn { file: String, wanted: String, hint: String, columns: String },

    /// Columns a model needs are not in this file.
    #[error("{file}: the model needs {missing}; the file has {columns}")]
    MissingColumns { file: String, missing: String, columns: String },

    /// An NPY or IDX file that is cut short, of another kind, or promises the impossible.
    #[error("{file}: not a usable {format} file: {problem}")]
    Binary { file: String, format: &'static str, problem: String },

    /// Files that should be together are not.
    #[error("{dir}: {problem}")]
    Folder { dir: String, problem: String },

    /// A picture that cannot be decoded or transformed.
    #[error("{path}: {problem}")]
    Picture { path: String, problem: String },

    /// Settings that make no batches of these pictures.
    #[error("{name}: {problem}")]
    Pipeline { name: String, problem: String },

    /// The target column cannot be learned as it stands.
    #[error("{file}: target {column:?}: {problem}; {next}")]
    Target { file: String, column: String, problem: String, next: String },

    /// Nothing is left to learn from.
    #[error("{file}: no usable feature columns: {why}")]
    NoFeatures { file: String, why: String },

    /// A line in a file of row numbers.
    #[error("{file}: line {line}: {problem}")]
    RowFile { file: String, line: usize, problem: String },

    /// Fractions or row lists that make no split.
    #[error("split: {0}")]
    Split(String),

    /// Lengths or indices that do not agree; a mistake of the calling code.
    #[error("inconsistent data: {0}")]
    Inconsistent(String),

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
            Some(line) => write!(f, "{}: line {line} (row {})", self.file, self.row)?,
            None => write!(f, "{}: row {}", self.file, self.row)?,
        }
        write!(f, ", column {:?}", self.column)?;
        if self.column != self.index.to_string() {
            write!(f, " (index {})", self.index)?;
        }
        Ok(())
    }
}
