//! What was decided while a table was read and is not plain to see.

use std::collections::BTreeSet;

use super::Writings;

/// What was decided while reading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Columns of numbers that are not written the plain way.
    pub written: Writings,
    /// Columns with whole numbers that a floating-point number of 64 bits holds only rounded.
    pub rounded: BTreeSet<String>,
    /// Whether the first row holds names, where that may be doubted.
    pub header: Option<String>,
}

impl Reading {
    /// One line each, for people.
    pub fn notes(&self) -> Vec<String> {
        let written = self.written.iter().map(|(column, writing)| format!("{column}: read as numbers, {writing}"));
        self.header.iter().cloned().chain(written).collect()
    }

    /// What was decided for more rows of the same columns.
    pub(crate) fn add(&mut self, other: Reading) {
        self.written.extend(other.written);
        self.rounded.extend(other.rounded);
        self.header = self.header.take().or(other.header);
    }
}
