//! Answers of a model, and what each of them is about.

use citius_data::{OnError, TextEncoding};

/// How to answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PredictOptions {
    /// What to do about rows and pictures that cannot be read: fail, or leave their answers empty.
    pub on_error: OnError,
    /// Columns of a table that are handed through, by name or index.
    pub keep: Vec<String>,
    /// Further tokens for a missing cell of a table.
    pub missing: Vec<String>,
    /// The encoding of a table that is text, where it is not UTF-8.
    pub encoding: Option<TextEncoding>,
    /// Of a series: go on behind every window, not behind the last row alone.
    pub every_window: bool,
}

/// Answers, and what they are about.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Predictions {
    /// The target's values in its own units; or the class, by number. Not a number for a picture that cannot be read.
    pub values: Vec<f64>,
    /// A row per prediction, a column per class; empty for regression, and so is the row of a picture that cannot be read.
    pub probabilities: Vec<Vec<f64>>,
    /// A row per prediction, a column per quantile, rising, in the target's own units; empty where none were asked for, and so is the
    /// row of what cannot be read.
    pub quantiles: Vec<Vec<f64>>,
    pub about: About,
    /// Columns of the source that were asked for, a cell per prediction.
    pub kept: Vec<KeptColumn>,
}

/// A column that is handed through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptColumn {
    pub name: String,
    pub cells: Vec<String>,
}

/// What predictions are about, in their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum About {
    /// The rows of the source.
    #[default]
    Rows,
    /// Pictures, by their paths as given.
    Pictures(Vec<String>),
    /// The rows behind the last one: steps 1, 2 …; `time` holds the time of each prediction, where rows have one.
    Ahead { time: Option<KeptColumn> },
    /// For each window the `horizon` rows behind it; `first` holds the number of the first of these rows, from 0, in the order of
    /// time.
    Windows { first: Vec<usize>, horizon: usize, time: Option<KeptColumn> },
}

impl Predictions {
    /// Takes the answers for further rows in.
    pub(crate) fn append(&mut self, more: &Predictions) {
        self.values.extend_from_slice(&more.values);
        self.probabilities.extend_from_slice(&more.probabilities);
        self.quantiles.extend_from_slice(&more.quantiles);
        for (kept, more) in self.kept.iter_mut().zip(&more.kept) {
            kept.cells.extend_from_slice(&more.cells);
        }
    }

    /// Makes room for answers that there are none of; `missing` are their places, rising.
    pub(crate) fn leave_empty(&mut self, missing: &[usize]) {
        let (classes, quantiles) = (!self.probabilities.is_empty(), !self.quantiles.is_empty());
        for &at in missing {
            self.values.insert(at, f64::NAN);
            if classes {
                self.probabilities.insert(at, Vec::new());
            }
            if quantiles {
                self.quantiles.insert(at, Vec::new());
            }
        }
    }
}
