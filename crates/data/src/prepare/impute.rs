//! What stands for a missing cell: a statistic of the training rows that have a value, or a constant.
//!
//! ```text
//! mean           Σx / n                       numbers
//! median         the middle value             numbers
//! most-frequent  in doubt the smallest        numbers and labels
//! { constant = … }                            numbers and labels
//! error          a missing cell is refused    numbers and labels
//! ```
//!
//! As scikit-learn's `SimpleImputer`; statistics are those of the logarithm where one is taken, a constant is in the
//! column's own unit. The input that marks missing cells stays, whatever stands for them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::scale::{quantile, sorted};

/// What stands for missing cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Impute {
    Mean,
    Median,
    MostFrequent,
    Constant(Fill),
    /// Nothing: a missing cell is an error, in training and later.
    #[serde(alias = "none")]
    Error,
}

/// A constant for missing cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Fill {
    Number(f64),
    Label(String),
}

impl Impute {
    /// Whether it is for labels, or for numbers.
    pub(super) fn suits(&self, labels: bool) -> bool {
        match self {
            Impute::Mean | Impute::Median => !labels,
            Impute::MostFrequent | Impute::Error => true,
            Impute::Constant(fill) => labels == matches!(fill, Fill::Label(_)),
        }
    }

    /// The number for missing cells, of values whose mean is known.
    pub(super) fn number(&self, mean: f64, values: impl Iterator<Item = f64>, as_used: impl Fn(f64) -> f64) -> f64 {
        match self {
            Impute::Median => quantile(&sorted(values), 0.5),
            Impute::MostFrequent => most_frequent(&sorted(values)).unwrap_or(mean),
            Impute::Constant(Fill::Number(value)) => as_used(*value),
            Impute::Mean | Impute::Constant(Fill::Label(_)) | Impute::Error => mean,
        }
    }

    /// The label for missing cells, of labels with their counts.
    pub(super) fn label(&self, counted: &[(&str, usize)]) -> Option<String> {
        match self {
            Impute::MostFrequent => {
                let best = counted.iter().min_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
                best.map(|(label, _)| (*label).to_owned())
            }
            Impute::Constant(Fill::Label(label)) => Some(label.clone()),
            Impute::Constant(Fill::Number(value)) => Some(value.to_string()),
            Impute::Mean | Impute::Median | Impute::Error => None,
        }
    }
}

/// The value that fills the longest run.
fn most_frequent(sorted: &[f64]) -> Option<f64> {
    let longest = sorted.chunk_by(|a, b| a == b).reduce(|best, run| if run.len() > best.len() { run } else { best });
    longest.map(|run| run[0])
}

impl fmt::Display for Impute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Impute::Mean => f.write_str("the mean"),
            Impute::Median => f.write_str("the median"),
            Impute::MostFrequent => f.write_str("the most frequent value"),
            Impute::Constant(Fill::Number(value)) => write!(f, "the constant {value}"),
            Impute::Constant(Fill::Label(label)) => write!(f, "the constant {label:?}"),
            Impute::Error => f.write_str("an error"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scikit-learn 1.9: `SimpleImputer(strategy=…).fit(z).statistics_`
    #[test]
    fn agrees_with_scikit_learn() {
        let nan = f64::NAN;
        let z = [4.0, nan, 1.0, 1.0, 4.0, 9.0, nan, 2.0];
        let fill = |impute: Impute| impute.number(3.5, z.into_iter(), |v| v);
        assert_eq!(fill(Impute::Mean), 3.5);
        assert_eq!(fill(Impute::Median), 3.0);
        assert_eq!(fill(Impute::MostFrequent), 1.0, "of two alike the smaller");
        assert_eq!(fill(Impute::Constant(Fill::Number(-7.0))), -7.0);
    }

    #[test]
    fn labels() {
        let counted = [("red", 2), ("blue", 3), ("azure", 3)];
        assert_eq!(Impute::MostFrequent.label(&counted).as_deref(), Some("azure"));
        assert_eq!(Impute::Constant(Fill::Label("none".into())).label(&counted).as_deref(), Some("none"));
        assert_eq!(Impute::MostFrequent.label(&[]), None);
    }

    #[test]
    fn written_as_people_write_it() {
        let read = |text: &str| serde_json::from_str::<Impute>(text).unwrap();
        assert_eq!(read(r#""most-frequent""#), Impute::MostFrequent);
        assert_eq!(read(r#"{"constant": 0}"#), Impute::Constant(Fill::Number(0.0)));
        assert_eq!(read(r#"{"constant": "none"}"#), Impute::Constant(Fill::Label("none".into())));
        assert_eq!(read(r#""error""#), Impute::Error);
    }
}
