//! From a table of raw cells to the numbers a network takes: learned once on the training rows,
//! stored with the model, applied alike to every later file.
//!
//! ```text
//! mod.rs          Preparation: fit, encode, what it tells
//! options.rs      what a person may decide instead of us
//! task.rs         what kind of answer the target asks for
//! target.rs       the target column: scale or classes
//! used.rs         one feature column that is used: where it is, what it refuses
//! feature.rs      … how its cells become inputs
//! identifier.rs   … whether it names the rows
//! fit.rs          … what encoding suits it, or why it is dropped
//! logarithm.rs    … taken as its logarithm
//! impute.rs       … with something in its missing cells
//! scale.rs        … scaled
//! calendar.rs     … as the time elapsed, and the place in the year, month, week and day
//! category.rs     … as the place of its label, hashed, or as an index
//! text.rs         … as hashed words, where it is free text
//! select.rs       columns left out: flat, alike, or telling little of the target
//! mutual.rs       mutual information
//! pca.rs          principal components of all inputs
//! plain.rs        inputs that are plain numbers, without a table in between
//! eigen.rs        eigenvectors of a symmetric matrix
//! new_rows.rs     new rows for a model, part by part
//! columns.rs      the columns of a new file, found by name or position
//! notes.rs        what was chosen, in words
//! moments.rs      mean, deviation, skewness
//! correlation.rs  correlation of two columns
//! ```

mod calendar;
mod category;
mod columns;
pub(crate) mod correlation;
mod eigen;
mod feature;
mod fit;
pub(crate) mod identifier;
mod impute;
mod logarithm;
pub(crate) mod moments;
mod mutual;
pub(crate) mod new_rows;
mod notes;
mod options;
mod pca;
mod plain;
pub(crate) mod scale;
mod select;
mod target;
mod task;
mod text;
mod used;

use serde::{Deserialize, Serialize};

pub use calendar::Dates;
pub use category::Categorical;
pub use impute::{Fill, Impute};
pub use new_rows::{EncodedPart, RowRemarks};
pub use notes::PreparationNote;
pub use options::{ColumnOptions, PrepareOptions};
pub use pca::Pca;
pub(crate) use plain::PlainColumn;
pub use scale::Scale;
pub use select::Select;
pub use task::{Task, infer_task};
pub use text::TextFeatures;
pub(crate) use text::is_free_text;

use crate::dataset::{Dataset, Features};
use crate::error::DataError;
use crate::table::{ReadOptions, Table, Writings};
use feature::Encoding;
use fit::Fit;
use options::refused;
use pca::Projection;
use target::TargetColumn;
use used::{FeatureColumn, not_a_date, not_a_number, refuse_cells, refuse_stray_dates};

/// Remark on a column that `drop` names, or that `only` does not name.
const NOT_USED: &str = "left out, as given";

/// How a table becomes features and target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preparation {
    /// Whether the training table had names.
    header: bool,
    /// Number of columns in the training table.
    table_columns: usize,
    missing_tokens: Vec<String>,
    /// Columns whose numbers are not written the plain way.
    #[serde(default, skip_serializing_if = "Writings::is_empty")]
    written: Writings,
    target: TargetColumn,
    features: Vec<FeatureColumn>,
    /// Of the encoded features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    projection: Option<Projection>,
    notes: Vec<PreparationNote>,
}

impl Preparation {
    /// Learns the preparation from the training rows only.
    pub fn fit(table: &Table, target: usize, rows: &[u32], options: &PrepareOptions) -> Result<Preparation, DataError> {
        table.check()?;
        check_rows(table, rows)?;
        let fitted = TargetColumn::fit(table, target, rows, options.task, options.scale_target)?;
        let (target, rows) = (fitted.column, fitted.rows);
        let wishes = options.wishes(table, target.index())?;
        options.check_dates(table, target.index())?;

        let mut fits: Vec<(usize, Fit)> = Vec::new();
        for (index, (column, wish)) in table.columns.iter().zip(&wishes).enumerate() {
            if index != target.index() && wish.dropped {
                fits.push((index, Fit::drop(NOT_USED)));
            } else if index != target.index() {
                refuse_cells(table, index, &rows, wish.refuse_missing(), wish.refuse_negative())?;
                let rounded = table.reading.rounded.contains(&column.name);
                refuse_stray_dates(table, index, wish)?;
                let unnamed = table.is_unnamed(index);
                fits.push((index, Fit::column(column, unnamed, &rows, wish, rounded)));
            }
        }
        options.check_text(table, &fits)?;
        let mut selected = Vec::new();
        if !options.select.is_empty() {
            let usable = fits.iter().filter(|(_, fit)| fit.encoding.is_some()).map(|(index, _)| *index).collect();
            let encoded = |rows: &[u32]| target.encode(table, target.index(), rows);
            let kept = options.select.apply(table, usable, &rows, encoded, &mut selected)?;
            for (_, fit) in fits.iter_mut().filter(|(index, fit)| fit.encoding.is_some() && !kept.contains(index)) {
                *fit = Fit { encoding: None, remarks: Vec::new() };
            }
        }
        let remarks = |remarks: Vec<String>| remarks.into_iter().map(PreparationNote::Remark);
        let (task, name) = (target.task(), target.name().to_owned());
        let mut notes = vec![PreparationNote::Task { task, target: name, why: fitted.why }];
        notes.extend(remarks(fitted.notes));
        let columns_note = notes.len();
        notes.extend(remarks(table.reading.notes()));
        notes.extend(notes::of_columns(table, &fits));
        notes.extend(remarks(selected));
        let inputs = notes::of_inputs(&fits, options);
        let features: Vec<FeatureColumn> =
            fits.into_iter().filter_map(|(index, fit)| FeatureColumn::new(table, index, fit, &wishes[index])).collect();
        if features.is_empty() {
            return Err(DataError::NoFeatures {
                file: table.name.clone(),
                why: match table.columns.len() {
                    1 => "the target is the only column".to_owned(),
                    _ => notes.iter().map(PreparationNote::to_string).collect::<Vec<_>>().join("; "),
                },
            });
        }
        let mut preparation = Preparation {
            header: table.header,
            table_columns: table.columns.len(),
            missing_tokens: options.missing.clone(),
            written: table.reading.written.clone(),
            target,
            features,
            projection: None,
            notes,
        };
        let share = preparation.project(table, &rows, options)?;
        let inputs = notes::with_components(inputs, preparation.features(), share, rows.len());
        preparation.notes.insert(columns_note, inputs);
        Ok(preparation.with_size_note(rows.len()))
    }

    /// What is predicted.
    pub fn task(&self) -> Task {
        self.target.task()
    }

    /// Number of inputs.
    pub fn features(&self) -> usize {
        self.projection.as_ref().map_or_else(|| self.encoded_width(), Projection::components)
    }

    /// A name per input: `rooms`, `rooms=(missing)`, `colour=red`, `colour=(other)`; `component 1` and so on for
    /// principal components.
    pub fn feature_names(&self) -> Vec<String> {
        if let Some(projection) = &self.projection {
            return (1..=projection.components()).map(|k| format!("component {k}")).collect();
        }
        self.features.iter().flat_map(|feature| feature.encoding.names(&feature.name)).collect()
    }

    /// The inputs that are whole numbers `0..vocabulary`, to be looked up in a table of vectors: each with its
    /// vocabulary. 0 is what was not seen in training.
    pub fn embeddings(&self) -> Vec<(usize, usize)> {
        let mut offset = 0;
        let mut found = Vec::new();
        for feature in &self.features {
            if let Encoding::Embedding(embedding) = &feature.encoding {
                found.push((offset, embedding.vocabulary()));
            }
            offset += feature.encoding.width();
        }
        found
    }

    /// Of each input, whether it is a hashed word of free text; no input is, of principal components.
    pub fn hashed_words(&self) -> Vec<bool> {
        if self.projection.is_some() {
            return vec![false; self.features()];
        }
        let of = |feature: &FeatureColumn| {
            let is_text = matches!(feature.encoding, Encoding::Text(_));
            std::iter::repeat_n(is_text, feature.encoding.width())
        };
        self.features.iter().flat_map(of).collect()
    }

    /// How many of the inputs are hashed words of free text.
    pub fn text_inputs(&self) -> usize {
        let text = self.features.iter().filter(|feature| matches!(feature.encoding, Encoding::Text(_)));
        text.map(|feature| feature.encoding.width()).sum()
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
    pub fn notes(&self) -> &[PreparationNote] {
        &self.notes
    }

    /// How to read a later file so that it is taken as the training file was.
    pub fn read_options(&self) -> ReadOptions {
        // Without names, a file that lacks the target has its later columns one place earlier.
        let told = |f: &&FeatureColumn| f.is_text() && (self.header || f.index < self.target.index());
        let name = |f: &FeatureColumn| f.name.clone();
        let mut expect_text: Vec<String> = self.features.iter().filter(told).map(name).collect();
        expect_text.extend((self.header && self.target.is_text()).then(|| self.target.name().to_owned()));
        ReadOptions {
            missing: self.missing_tokens.clone(),
            expect_text,
            expect_written: self.written.clone(),
            expect_columns: match self.header {
                true => self.features.iter().map(name).collect(),
                false => Vec::new(),
            },
            for_model: true,
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
        Ok(RowRemarks::of(self, table)?.lines())
    }

    pub(crate) fn target_column(&self, table: &Table) -> Result<usize, DataError> {
        columns::find_target(self, table)
    }

    fn encoded_width(&self) -> usize {
        self.features.iter().map(|f| f.encoding.width()).sum()
    }

    fn encode_rows(&self, table: &Table, rows: &[u32]) -> Result<Vec<f32>, DataError> {
        let width = self.encoded_width();
        let places = columns::find_features(self, table)?;
        let mut data = zeros(rows.len(), width)?;
        let mut offset = 0;
        for (feature, place) in self.features.iter().zip(places) {
            refuse_cells(table, place, rows, feature.refuse_missing, feature.refuse_negative)?;
            let column = feature.as_trained(&table.columns[place]);
            let written = feature.encoding.write(&column, rows, &mut data, width, offset);
            written.map_err(|row| match &feature.encoding {
                Encoding::Calendar(calendar) => not_a_date(table, row, place, &calendar.form()),
                _ => not_a_number(table, row, place),
            })?;
            offset += feature.encoding.width();
        }
        match &self.projection {
            None => Ok(data),
            Some(projection) if projection.fits(width) => Ok(projection.apply(&data)),
            Some(_) => Err(DataError::Inconsistent("principal components of other inputs".to_owned())),
        }
    }

    /// Fits principal components, if told, and gives their share of the variance.
    fn project(&mut self, table: &Table, rows: &[u32], options: &PrepareOptions) -> Result<Option<f64>, DataError> {
        let Some(pca) = &options.pca else { return Ok(None) };
        if !self.embeddings().is_empty() {
            let problem = "a column is an index of an embedding, which is not a quantity".to_owned();
            return Err(refused(table, "pca", problem, "use one-hot, ordinal or hash, or leave pca out"));
        }
        let fitted = pca.fit(table, &self.encode_rows(table, rows)?, self.encoded_width())?;
        self.projection = Some(fitted.projection);
        Ok(Some(fitted.share))
    }

    fn with_size_note(mut self, rows: usize) -> Self {
        // words are few in each row, most inputs 0
        let features = if self.projection.is_some() { 0 } else { self.features() - self.text_inputs() };
        if features > rows {
            self.notes.push(PreparationNote::Remark(format!(
                "more inputs ({features}) than training rows ({rows}): expect overfitting; more rows or fewer columns help"
            )));
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

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod told;
