//! What a person may decide instead of us: the table `[prepare]` of a settings file.
//!
//! ```toml
//! [prepare]
//! scale = "robust"                      # standard | min-max | robust | none
//! scale-times = 1                       # 2 scales what is scaled already once more: a mistake that is worth knowing
//! scale-target = "none"                 # of a number to predict; standard unless told
//! log = ["population"]                  # log(1 + x); a negative value is an error
//! signed-log = ["balance"]              # sign(x) · log(1 + |x|)
//! impute = "median"                     # mean | median | most-frequent | error | { constant = 0 }
//! dates = "labels"                      # calendar | labels
//! categorical = { hash = 16 }           # one-hot | ordinal | embedding | { hash = buckets }
//! text-features = { hash = 4096, ngrams = 1 }   # of free text: inputs, and words in a row that make a term
//! select = { min-variance = 0.01, max-correlation = 0.95, best = 20 }
//! pca = { variance = 0.95, whiten = true }   # or { components = 8 }
//!
//! [prepare.columns.zip]
//! categorical = "embedding"             # also for a column of numbers
//!
//! [prepare.columns.review]
//! text-features = {}                    # words of free text, whatever the cells look like
//! ```
//!
//! What is not said stays the automatic choice. The order is: logarithm, missing cells, scale, categories, principal
//! components; whole columns are selected by their raw values, before all that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::calendar::Dates;
use super::category::{Categorical, MOST_BUCKETS};
use super::feature::Encoding;
use super::fit::Fit;
use super::impute::{Fill, Impute};
use super::logarithm::Log;
use super::pca::Pca;
use super::scale::Scale;
use super::select::Select;
use super::task::Task;
use super::text::TextFeatures;
use super::used::StrayDate;
use crate::error::DataError;
use crate::table::{Column, DateFormat, Table, Values};

/// Beyond this nothing is left of a number.
const MOST_TIMES: usize = 4;

/// What a person may decide instead of us.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct PrepareOptions {
    /// The task, or `None` to infer it from the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// The tokens given as [`crate::ReadOptions::missing`], kept so that later files are read alike.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Columns that are left out, by name or index.
    #[serde(skip)]
    pub drop: Vec<String>,
    /// The only columns that are used, by name or index; all if empty.
    #[serde(skip)]
    pub only: Vec<String>,
    /// The scale of every numeric column; a column whose scale is given takes no logarithm unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// How often that scale is applied, always by the numbers of the raw column; once unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_times: Option<usize>,
    /// The scale of a number to predict; standard unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_target: Option<Scale>,
    /// Columns taken as `log(1 + x)`; they hold nothing negative.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Columns taken as `sign(x) · log(1 + |x|)`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signed_log: Vec<String>,
    /// What stands for missing cells, in the columns it suits: mean and median are for numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impute: Option<Impute>,
    /// What is done with columns of dates: calendar features if open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dates: Option<Dates>,
    /// How text columns become numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub categorical: Option<Categorical>,
    /// How columns of free text become inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_features: Option<TextFeatures>,
    /// Which columns are left out.
    #[serde(skip_serializing_if = "Select::is_empty")]
    pub select: Select,
    /// Principal components instead of the inputs themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pca: Option<Pca>,
    /// Columns that differ from the above, by name or index.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, ColumnOptions>,
}

/// What is decided for one column.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct ColumnOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impute: Option<Impute>,
    /// Takes the column as categories, numbers too, and keeps it even if it looks like an identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub categorical: Option<Categorical>,
    /// Takes the column as free text, whatever its cells look like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_features: Option<TextFeatures>,
}

/// What is wished for one column, the whole table's wishes and its own taken together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Wish {
    pub scale: Option<Scale>,
    pub scale_times: Option<usize>,
    pub log: Option<Log>,
    pub impute: Option<Impute>,
    pub categorical: Option<Categorical>,
    pub dates: Option<Dates>,
    pub text: Option<TextFeatures>,
    /// The scale, the categories, the text are this column's own wish.
    pub own_scale: bool,
    pub own_categories: bool,
    pub own_text: bool,
    /// The column is named in what is given about columns.
    pub named: bool,
    /// Its cells were read as text, whatever they hold, as given.
    pub read_as_text: bool,
    /// It is left out, as given.
    pub dropped: bool,
}

impl Wish {
    /// Whether the column is used even if it looks like an identifier.
    pub(super) fn keeps_identifier(&self) -> bool {
        self.named
    }
}

impl PrepareOptions {
    /// A wish per column of the table; a wish that does not fit its column is an error.
    pub(super) fn wishes(&self, table: &Table, target: usize) -> Result<Vec<Wish>, DataError> {
        let is_text = |index: usize| matches!(table.columns[index].values, Values::Text { .. });
        let mut wishes: Vec<Wish> = (0..table.columns.len()).map(|index| self.wish_for(is_text(index))).collect();
        for (column, wish) in table.columns.iter().zip(&mut wishes) {
            wish.read_as_text = table.reading.named_text.contains(&column.name);
        }
        self.choose_columns(table, target, &mut wishes)?;
        let mut told: BTreeMap<usize, &str> = BTreeMap::new();
        for (name, own) in &self.columns {
            let setting = |part: &str| format!("columns.{name}{part}");
            let index = self.find(table, target, name, &setting(""))?;
            if let Some(other) = told.insert(index, name) {
                let problem = format!("the same column as columns.{other}");
                return Err(refused(table, &setting(""), problem, "say it once"));
            }
            let wish = &mut wishes[index];
            if wish.dropped {
                let next = "leave it out here, or there";
                return Err(refused(table, &setting(""), "the column is not used: --drop, --only".into(), next));
            }
            if let Some(categorical) = own.categorical {
                // Taken as labels now: what the table wishes for labels holds.
                let read_as_text = wish.read_as_text;
                *wish =
                    Wish { categorical: Some(categorical), own_categories: true, read_as_text, ..self.wish_for(true) };
            }
            if let Some(text) = own.text_features {
                let (problem, next) = match (own.categorical, is_text(index)) {
                    (Some(_), _) => ("the column is said to hold categories, too", "keep one of them"),
                    (None, false) => ("the column holds numbers", "read it as text with --text, or leave it out"),
                    (None, true) => ("", ""),
                };
                if !problem.is_empty() {
                    return Err(refused(table, &setting(".text-features"), problem.to_owned(), next));
                }
                wish.text = Some(TextFeatures {
                    hash: text.hash.or(self.text_features.and_then(|all| all.hash)),
                    ngrams: text.ngrams.or(self.text_features.and_then(|all| all.ngrams)),
                });
                wish.own_text = true;
            }
            wish.named = true;
            let labels = is_text(index) || wish.categorical.is_some();
            if let Some(scale) = own.scale {
                if labels && wish.categorical != Some(Categorical::Ordinal) {
                    let next = "leave it out, or say categorical = \"ordinal\"";
                    return Err(refused(table, &setting(".scale"), "the column holds categories".into(), next));
                }
                wish.scale = Some(scale);
                wish.own_scale = true;
            }
            if let Some(impute) = &own.impute {
                // A number is a label too, where it is said for the column itself.
                let suits = impute.suits(labels) || (labels && matches!(impute, Impute::Constant(_)));
                if !suits {
                    let problem = format!("{impute} does not suit a column of {}", kind(labels));
                    let next = match labels {
                        true => "use most-frequent, error or a constant",
                        false => "use mean, median, most-frequent, error or a number as constant",
                    };
                    return Err(refused(table, &setting(".impute"), problem, next));
                }
                wish.impute = Some(impute.clone());
            }
        }
        for (names, log, setting) in [(&self.log, Log::Plain, "log"), (&self.signed_log, Log::Signed, "signed-log")] {
            for name in names {
                let index = self.find(table, target, name, setting)?;
                if is_text(index) || wishes[index].categorical.is_some() {
                    let problem = format!("column {name:?} holds categories");
                    return Err(refused(table, setting, problem, "logarithms are for columns of numbers"));
                }
                wishes[index].named = true;
                if wishes[index].log.replace(log).is_some_and(|before| before != log) {
                    let problem = format!("column {name:?} is in log and in signed-log");
                    return Err(refused(table, setting, problem, "keep one of them"));
                }
            }
        }
        if let Some(times) = self.scale_times.filter(|times| !(1..=MOST_TIMES).contains(times)) {
            let next = format!("leave it out, or use 1 to {MOST_TIMES}");
            return Err(refused(table, "scale-times", format!("columns cannot be scaled {times} times"), &next));
        }
        for wish in &wishes {
            check_wish(table, wish)?;
        }
        self.select.check(table)?;
        Ok(wishes)
    }

    fn wish_for(&self, labels: bool) -> Wish {
        Wish {
            scale: self.scale,
            scale_times: self.scale_times,
            log: None,
            impute: self.impute.clone().filter(|impute| impute.suits(labels)),
            categorical: self.categorical.filter(|_| labels),
            dates: self.dates,
            text: self.text_features.filter(|_| labels),
            ..Wish::default()
        }
    }

    /// Marks the columns that `drop` names, or all but those that `only` names.
    fn choose_columns(&self, table: &Table, target: usize, wishes: &mut [Wish]) -> Result<(), DataError> {
        if !self.drop.is_empty() && !self.only.is_empty() {
            let problem = "drop and only both say which columns are used".to_owned();
            return Err(refused(table, "only", problem, "give one of them"));
        }
        for name in &self.drop {
            wishes[self.find(table, target, name, "drop")?].dropped = true;
        }
        if self.only.is_empty() {
            return Ok(());
        }
        wishes.iter_mut().for_each(|wish| wish.dropped = true);
        for name in &self.only {
            let index = table.column(name)?;
            wishes[index].dropped = false;
            wishes[index].named = true;
        }
        Ok(())
    }

    /// What is said of free text is refused where no column holds any.
    pub(super) fn check_text(&self, table: &Table, fits: &[(usize, Fit)]) -> Result<(), DataError> {
        let is_text = |fit: &Fit| matches!(fit.encoding, Some(Encoding::Text(_)));
        if self.text_features.is_none() || fits.iter().any(|(_, fit)| is_text(fit)) {
            return Ok(());
        }
        let next = "name the column, as in [prepare.columns.review] text-features = {}, or leave it out";
        Err(refused(table, "text-features", "no column looks like free text".to_owned(), next))
    }

    /// What is said of dates is refused where no column holds any.
    pub(super) fn check_dates(&self, table: &Table, target: usize) -> Result<(), DataError> {
        let as_labels = self.dates == Some(Dates::Labels);
        let holds_dates = |column: &Column| match &column.values {
            Values::Text { labels, .. } => {
                let all = DateFormat::of_column(labels.iter().map(String::as_str)).is_some();
                all || (as_labels && StrayDate::of(column).is_some())
            }
            Values::Number(_) => false,
        };
        let mut inputs = table.columns.iter().enumerate().filter(|(index, _)| *index != target);
        match self.dates.is_none() || inputs.any(|(_, column)| holds_dates(column)) {
            true => Ok(()),
            false => Err(refused(table, "dates", "no column holds dates alone".to_owned(), "leave it out")),
        }
    }

    fn find(&self, table: &Table, target: usize, name: &str, setting: &str) -> Result<usize, DataError> {
        let index = table.column(name)?;
        match index == target {
            false => Ok(index),
            true => Err(refused(table, setting, format!("column {name:?} is the target"), "name an input column")),
        }
    }
}

fn check_wish(table: &Table, wish: &Wish) -> Result<(), DataError> {
    if let Some(Categorical::Hash(buckets)) = wish.categorical
        && !(1..=MOST_BUCKETS).contains(&buckets)
    {
        let problem = format!("{buckets} buckets");
        return Err(refused(table, "categorical", problem, &format!("use 1 to {MOST_BUCKETS}")));
    }
    if let Some((problem, next)) = wish.text.as_ref().and_then(TextFeatures::mistake) {
        return Err(refused(table, "text-features", problem, &next));
    }
    match wish.impute {
        Some(Impute::Constant(Fill::Number(value))) if !value.is_finite() => {
            Err(refused(table, "impute", format!("the constant {value}"), "use a finite number"))
        }
        _ => Ok(()),
    }
}

/// A setting this table cannot have.
pub(super) fn refused(table: &Table, setting: &str, problem: String, next: &str) -> DataError {
    DataError::Prepare { file: table.name.clone(), setting: setting.to_owned(), problem, next: next.to_owned() }
}

fn kind(labels: bool) -> &'static str {
    if labels { "categories" } else { "numbers" }
}
