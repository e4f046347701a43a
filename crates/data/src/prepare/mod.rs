//! From a table of raw cells to the numbers a network takes: learned once on the training rows,
//! stored with the model, applied alike to every later file.
//!
//! ```text
//! mod.rs      Preparation: fit, encode, what it tells
//! task.rs     what kind of answer the target asks for
//! target.rs   the target column: scale or classes
//! feature.rs  one feature column: how it is encoded, or why it is dropped
//! columns.rs  the columns of a new file, found by name or position
//! moments.rs  mean, deviation, skewness
//! ```

mod columns;
mod feature;
mod moments;
mod target;
mod task;

use serde::{Deserialize, Serialize};

pub use task::{Task, infer_task};

use crate::dataset::{Dataset, Features, Target};
use crate::error::DataError;
use crate::suggest;
use crate::table::{Column, ReadOptions, Table, Values};
use feature::{Encoding, Fit};
use target::TargetColumn;

/// What a person may decide instead of us.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PrepareOptions {
    /// The task, or `None` to infer it from the target.
    pub task: Option<Task>,
    /// The tokens given as [`ReadOptions::missing`], kept so that later files are read alike.
    pub missing: Vec<String>,
}

/// How a table becomes features and target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preparation {
    /// Whether the training table had names.
    header: bool,
    /// Number of columns in the training table.
    table_columns: usize,
    missing_tokens: Vec<String>,
    target: TargetColumn,
    features: Vec<FeatureColumn>,
    notes: Vec<String>,
}

/// A column that is used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct FeatureColumn {
    name: String,
    index: usize,
    encoding: Encoding,
}

impl Preparation {
    /// Learns the preparation from the training rows only.
    pub fn fit(table: &Table, target: usize, rows: &[u32], options: &PrepareOptions) -> Result<Preparation, DataError> {
        table.check()?;
        check_rows(table, rows)?;
        let (target, rows, mut notes) = TargetColumn::fit(table, target, rows, options.task)?;

        let mut fits: Vec<(usize, Fit)> = Vec::new();
        for (index, column) in table.columns.iter().enumerate() {
            if index != target.index() {
                fits.push((index, Fit::column(column, &rows)));
            }
        }
        notes.extend(feature_notes(table, &fits));
        let features: Vec<FeatureColumn> = fits
            .into_iter()
            .filter_map(|(index, fit)| {
                Some(FeatureColumn { name: table.columns[index].name.clone(), index, encoding: fit.encoding? })
            })
            .collect();
        if features.is_empty() {
            return Err(DataError::NoFeatures {
                file: table.name.clone(),
                why: match table.columns.len() {
                    1 => "the target is the only column".to_owned(),
                    _ => notes.join("; "),
                },
            });
        }
        let preparation = Preparation {
            header: table.header,
            table_columns: table.columns.len(),
            missing_tokens: options.missing.clone(),
            target,
            features,
            notes,
        };
        Ok(preparation.with_size_note(rows.len()))
    }

    /// What is predicted.
    pub fn task(&self) -> Task {
        self.target.task()
    }

    /// Number of inputs.
    pub fn features(&self) -> usize {
        self.features.iter().map(|f| f.encoding.width()).sum()
    }

    /// A name per input: `rooms`, `rooms=(missing)`, `colour=red`, `colour=(other)`.
    pub fn feature_names(&self) -> Vec<String> {
        self.features.iter().flat_map(|feature| feature.encoding.names(&feature.name)).collect()
    }

    /// Number of outputs: 1, or one per class for [`Task::Classes`].
    pub fn outputs(&self) -> usize {
        match self.task() {
            Task::Regression | Task::Binary => 1,
            Task::Classes => self.class_labels().len(),
        }
    }

    /// Classes in the order of their numbers; for [`Task::Binary`] the second is the one whose
    /// probability is predicted. Empty for [`Task::Regression`].
    pub fn class_labels(&self) -> &[String] {
        self.target.labels()
    }

    /// The target column's name.
    pub fn target_name(&self) -> &str {
        self.target.name()
    }

    /// Mean and deviation of the target: `raw = value · std + mean`. `(0, 1)` for classes.
    pub fn target_scale(&self) -> (f64, f64) {
        self.target.scale()
    }

    /// What was chosen and why, one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How to read a later file so that it is taken as the training file was.
    pub fn read_options(&self) -> ReadOptions {
        // Without names, a file that lacks the target has its later columns one place earlier.
        let told = |f: &&FeatureColumn| f.encoding.is_text() && (self.header || f.index < self.target.index());
        let name = |f: &FeatureColumn| f.name.clone();
        let expect_text = self.features.iter().filter(told).map(name).collect();
        ReadOptions {
            missing: self.missing_tokens.clone(),
            expect_text,
            expect_columns: match self.header {
                true => self.features.iter().map(name).collect(),
                false => Vec::new(),
            },
            ..ReadOptions::default()
        }
    }

    /// Those of `rows` that have a target.
    pub fn labelled_rows(&self, table: &Table, rows: &[u32]) -> Result<Vec<u32>, DataError> {
        table.check()?;
        check_rows(table, rows)?;
        let column = self.target_column(table)?;
        let column = &table.columns[column];
        Ok(rows.iter().copied().filter(|row| !column.is_missing(*row as usize)).collect())
    }

    /// Features and target of some rows, all of which have a target.
    pub fn encode(&self, table: &Table, rows: &[u32]) -> Result<Dataset, DataError> {
        table.check()?;
        check_rows(table, rows)?;
        let target = self.target.encode(table, self.target_column(table)?, rows)?;
        let data = self.encode_rows(table, rows)?;
        let width = self.features();
        Dataset::new(rows.len(), Features::F32 { data, width }, target)
    }

    /// The features of every row, `[rows, features]`, for prediction; the target may be absent.
    pub fn encode_features(&self, table: &Table) -> Result<(Vec<f32>, usize), DataError> {
        table.check()?;
        let rows: Vec<u32> = (0..table.rows as u32).collect();
        Ok((self.encode_rows(table, &rows)?, table.rows))
    }

    /// How a new file differs from the training rows and what is made of it, one line each.
    pub fn notes_for(&self, table: &Table) -> Result<Vec<String>, DataError> {
        table.check()?;
        let mut notes = Vec::new();
        let places = columns::find_features(self, table)?;
        if self.header && !table.header {
            notes.push("no header: columns are taken by position".to_owned());
        }
        for (feature, place) in self.features.iter().zip(places) {
            notes.extend(feature.encoding.unseen_note(&table.columns[place], &feature.name));
        }
        if let Ok(place) = self.target_column(table) {
            notes.extend(self.target.stop_note(&table.columns[place]));
        }
        Ok(notes)
    }

    fn target_column(&self, table: &Table) -> Result<usize, DataError> {
        columns::find_target(self, table)
    }

    fn encode_rows(&self, table: &Table, rows: &[u32]) -> Result<Vec<f32>, DataError> {
        let width = self.features();
        let places = columns::find_features(self, table)?;
        let mut data = zeros(rows.len(), width)?;
        let mut offset = 0;
        for (feature, place) in self.features.iter().zip(places) {
            feature
                .encoding
                .write(&table.columns[place], rows, &mut data, width, offset)
                .map_err(|row| not_a_number(table, row, place))?;
            offset += feature.encoding.width();
        }
        Ok(data)
    }

    fn with_size_note(mut self, rows: usize) -> Self {
        let features = self.features();
        if features > rows {
            self.notes.push(format!(
                "more inputs ({features}) than training rows ({rows}): expect it to learn the rows by heart; more rows or fewer columns help"
            ));
        }
        self
    }
}

fn check_rows(table: &Table, rows: &[u32]) -> Result<(), DataError> {
    match rows.iter().find(|row| **row as usize >= table.rows) {
        None => Ok(()),
        Some(row) => {
            Err(DataError::Inconsistent(format!("{}: row {row} of {} rows, counted from 0", table.name, table.rows)))
        }
    }
}

/// `rows · width` zeros, or an error where memory does not allow.
fn zeros(rows: usize, width: usize) -> Result<Vec<f32>, DataError> {
    let too_large = || DataError::TooLarge {
        what: format!("a data set of {rows} rows with {width} inputs"),
        bytes: rows as u128 * width as u128 * 4,
        next: "use fewer rows or fewer categories".to_owned(),
    };
    let count = rows.checked_mul(width).ok_or_else(too_large)?;
    let mut data: Vec<f32> = Vec::new();
    data.try_reserve_exact(count).map_err(|_| too_large())?;
    data.resize(count, 0.0);
    Ok(data)
}

fn not_a_number(table: &Table, row: usize, column: usize) -> DataError {
    let cell = match table.columns.get(column).map(|c: &Column| &c.values) {
        Some(Values::Text { codes, labels }) => {
            codes.get(row).and_then(|code| labels.get(*code as usize)).map_or("", String::as_str)
        }
        _ => "",
    };
    DataError::Cell {
        place: table.place(row, column),
        problem: format!("{:?} is not a number, and the column was numeric in training", suggest::short(cell)),
        next: "correct it, or leave the cell empty to mark it as missing".to_owned(),
    }
}

/// What was made of the columns: one line for each kind of choice.
fn feature_notes(table: &Table, fits: &[(usize, Fit)]) -> Vec<String> {
    let name = |index: &usize| table.columns[*index].name.as_str();
    let mut notes = Vec::new();
    let (mut numeric, mut text, mut inputs) = (0, 0, 0);
    for (_, fit) in fits {
        if let Some(encoding) = &fit.encoding {
            inputs += encoding.width();
            match encoding.is_text() {
                true => text += 1,
                false => numeric += 1,
            }
        }
    }
    notes.push(format!("inputs: {inputs} (numeric columns, standardised: {numeric}; text columns, one-hot: {text})"));
    // Grouped by what is said, in order of first appearance.
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (index, fit) in fits {
        for remark in &fit.remarks {
            match groups.iter_mut().find(|(said, _)| said == remark) {
                Some((_, names)) => names.push(name(index)),
                None => groups.push((remark, vec![name(index)])),
            }
        }
    }
    for (said, names) in groups {
        notes.push(format!("{said}: {}", suggest::list(names, 12)));
    }
    notes
}

/// An input that is a number of one column, standardised; `NaN` is missing, which is 0 and marked in a second input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PlainColumn {
    /// The column in the table.
    pub place: usize,
    pub mean: f64,
    pub std: f64,
    /// The logarithm is taken first.
    pub log: bool,
    /// There is a second input, 1 where missing.
    pub missing: bool,
}

impl PlainColumn {
    /// No input goes beyond this.
    pub(crate) const LIMIT: f64 = feature::LIMIT;

    /// The input of a number, in the same steps as [`Encoding::write`].
    #[inline]
    pub(crate) fn input(&self, value: f64) -> f32 {
        let value = if self.log { feature::signed_log(value) } else { value };
        ((value - self.mean) / self.std).clamp(-Self::LIMIT, Self::LIMIT) as f32
    }
}

/// For those who encode numbers without a table in between.
impl Preparation {
    /// The columns of a table that make the inputs, in their order, and that of the target; `None` unless all inputs
    /// are plain numbers.
    pub(crate) fn plain_columns(&self, table: &Table) -> Option<(Vec<PlainColumn>, usize)> {
        let places = columns::find_features(self, table).ok()?;
        let plain = |(feature, place): (&FeatureColumn, usize)| match feature.encoding {
            Encoding::Number { mean, std, log, missing } => Some(PlainColumn { place, mean, std, log, missing }),
            _ => None,
        };
        let inputs = self.features.iter().zip(places).map(plain).collect::<Option<_>>()?;
        Some((inputs, self.target_column(table).ok()?))
    }

    /// The target of all rows of a table that holds nothing else.
    pub(crate) fn encode_target(&self, table: &Table) -> Result<Target, DataError> {
        let rows: Vec<u32> = (0..table.rows as u32).collect();
        self.target.encode(table, 0, &rows)
    }
}

#[cfg(test)]
mod tests;
