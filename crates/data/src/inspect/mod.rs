//! What is in a table or a source, told to a person before anything is trained on it.
//!
//! ```text
//! mod.rs        Inspection, and that of a table
//! source.rs     that of a source, from some of its rows
//! pictures.rs   that of pictures, from some of them decoded
//! text.rs       what is in a text
//! column.rs     one column: range, middle, spread, labels
//! relations.rs  which columns go together, and with the target
//! rows.rs       classes and repeated rows
//! warnings.rs   what to look at, in plain words
//! report.rs     the Inspection as text
//! figures.rs    numbers, shares and bars for people
//! ```

mod column;
mod figures;
mod pictures;
mod relations;
mod report;
mod rows;
mod source;
mod text;
mod warnings;

use serde::Serialize;

pub use column::{ColumnSummary, Label, Numbers};
pub use figures::{byte_size, count, plural};
pub use pictures::pictures;
pub use relations::{Measure, Relation};
pub use source::source;
pub use text::{TextInspection, text};

use crate::error::DataError;
use crate::prepare::identifier::row_number;
use crate::table::{Column, Table, Values};
use column::{Facts, summarise};
use relations::Relations;

/// What is in a table or a source. `Display` makes it a page of text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// Of the file or source.
    pub name: String,
    /// What is counted: `row` or `picture`.
    pub unit: &'static str,
    pub rows: usize,
    /// Rows all this was told from; fewer than `rows` for a large source.
    pub rows_read: usize,
    /// Name of the target, if one was given or a field has classes; pictures have theirs without a name.
    pub target: Option<String>,
    /// The fields of a source in short.
    pub schema: Option<String>,
    /// Columns of a table; fields of a source that are no classes, or their channels.
    pub columns: Vec<ColumnSummary>,
    /// Classes of the target in order of their names, or of their numbers.
    pub classes: Vec<Label>,
    /// Rows that repeat an earlier one.
    pub repeated_rows: usize,
    /// Columns that go with the target, strongest first.
    pub with_target: Vec<Relation>,
    /// Columns that go with each other, strongest first.
    pub between: Vec<Relation>,
    /// How relations were told, where not from everything.
    pub relations_note: Option<String>,
    /// What to look at.
    pub warnings: Vec<String>,
}

/// Looks at a whole table; `target` is the index of a column.
pub fn table(table: &Table, target: Option<usize>) -> Result<Inspection, DataError> {
    table.check()?;
    if let Some(target) = target
        && target >= table.columns.len()
    {
        let problem = format!("{}: no column {target}, there are {}", table.name, table.columns.len());
        return Err(DataError::Inconsistent(problem));
    }
    let summaries = in_parallel(&table.columns, summarise);
    let (columns, mut facts): (Vec<ColumnSummary>, Vec<Facts>) = summaries.into_iter().unzip();
    for (index, (column, facts)) in table.columns.iter().zip(&mut facts).enumerate() {
        if let Values::Number(values) = &column.values
            && table.is_unnamed(index)
        {
            facts.row_number = row_number("", values);
        }
    }
    let classes = target.map_or_else(Vec::new, |target| rows::classes(&table.columns[target], &columns[target]));
    let repeated_rows = rows::repeated(table);
    let relations = Relations::of(table, target);
    let mut inspection = Inspection {
        name: table.name.clone(),
        unit: "row",
        rows: table.rows,
        rows_read: table.rows,
        target: target.map(|target| table.columns[target].name.clone()),
        schema: None,
        columns,
        classes,
        repeated_rows,
        with_target: relations.with_target,
        between: relations.between,
        relations_note: relations.note,
        warnings: Vec::new(),
    };
    inspection.warnings = warnings::of_table(&inspection, &facts, target);
    Ok(inspection)
}

/// One result per column, in order, by as many threads as there are cores.
fn in_parallel<R: Send>(columns: &[Column], work: impl Fn(&Column) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get()).min(columns.len()).max(1);
    let work = &work;
    // Column i goes to thread i mod threads: neighbours are often alike, and cost alike.
    let mut parts: Vec<std::vec::IntoIter<R>> = std::thread::scope(|scope| {
        let part = |first: usize| move || columns.iter().skip(first).step_by(threads).map(work).collect::<Vec<R>>();
        let running: Vec<_> = (0..threads).map(|first| scope.spawn(part(first))).collect();
        let joined = running.into_iter().map(|thread| thread.join());
        joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).into_iter()).collect()
    });
    (0..columns.len()).filter_map(|index| parts[index % threads].next()).collect()
}

#[cfg(test)]
mod tests;
