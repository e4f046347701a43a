//! What was decided while a table was read and is not plain to see.

use std::collections::{BTreeMap, BTreeSet};

use super::Writings;
use crate::suggest;

/// What was decided while reading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Columns of numbers that are not written the plain way.
    pub written: Writings,
    /// Columns with whole numbers that a floating-point number of 64 bits holds only rounded.
    pub rounded: BTreeSet<String>,
    /// Columns that are text as they were named, whatever they hold.
    pub named_text: BTreeSet<String>,
    /// Whether the first row holds names, where that may be doubted.
    pub header: Option<String>,
}

impl Reading {
    /// One line for each decision, for people.
    pub fn notes(&self) -> Vec<String> {
        let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (column, writing) in &self.written {
            groups.entry(writing.to_string()).or_default().push(column);
        }
        let written =
            groups.into_iter().map(|(how, columns)| format!("read as numbers, {how}: {}", suggest::list(columns, 12)));
        self.header.iter().cloned().chain(written).collect()
    }

    /// What was decided for more rows of the same columns.
    pub(crate) fn add(&mut self, other: Reading) {
        self.written.extend(other.written);
        self.rounded.extend(other.rounded);
        self.named_text.extend(other.named_text);
        self.header = self.header.take().or(other.header);
    }
}
