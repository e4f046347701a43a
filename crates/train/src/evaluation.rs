//! How good a model is, class by class: confusion matrix, precision, recall and F1 (a classification report).

use citius_data::{OnError, Target, TextEncoding};
use serde::{Deserialize, Serialize};

use crate::metrics::likeliest;
use crate::{Metrics, Settings, TrainError};

/// How to evaluate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EvalOptions {
    /// What to do about rows and pictures that cannot be read: fail, or leave them out and count them.
    pub on_error: OnError,
    /// Further tokens for a missing cell of a table.
    pub missing: Vec<String>,
    /// The encoding of a table that is text, where it is not UTF-8.
    pub encoding: Option<TextEncoding>,
    /// Of two classes, the one whose precision, recall and F1 are reported; open: the second.
    pub positive: Option<String>,
}

/// What an evaluation came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Evaluation {
    pub metrics: Metrics,
    pub rows: usize,
    pub classes: Option<ClassReport>,
    /// How the rows differ from those of the training, and what was left out.
    pub notes: Vec<String>,
}

/// Rows by true and by predicted class.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClassReport {
    /// Of two classes, the one that `f1` speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positive: Option<String>,
    pub classes: Vec<ClassMetrics>,
    /// `confusion[true][predicted]`; left out where there are very many classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confusion: Vec<Vec<usize>>,
}

/// One class.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClassMetrics {
    pub label: String,
    /// Rows that are of it, and rows that are taken for it.
    pub rows: usize,
    pub predicted: usize,
    /// Share of the rows taken for it that are of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
    /// Share of the rows of it that are taken for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall: Option<f64>,
    /// Harmonic mean of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f1: Option<f64>,
}

/// Above so many classes the matrix is not kept.
const MATRIX_CLASSES: usize = 100;

impl ClassReport {
    /// `pairs` of true and predicted classes, by number.
    pub fn of(labels: &[String], pairs: impl Iterator<Item = (usize, usize)>) -> ClassReport {
        let count = labels.len();
        let mut both = vec![0; count];
        let mut rows = vec![0; count];
        let mut predicted = vec![0; count];
        let matrix = count <= MATRIX_CLASSES;
        let mut confusion = if matrix { vec![vec![0; count]; count] } else { Vec::new() };
        for (truth, answer) in pairs.filter(|(truth, answer)| *truth < count && *answer < count) {
            rows[truth] += 1;
            predicted[answer] += 1;
            both[truth] += usize::from(truth == answer);
            if matrix {
                confusion[truth][answer] += 1;
            }
        }
        let share = |part: usize, of: usize| (of > 0).then(|| part as f64 / of as f64);
        let class = |at: usize| ClassMetrics {
            label: labels[at].clone(),
            rows: rows[at],
            predicted: predicted[at],
            precision: share(both[at], predicted[at]),
            recall: share(both[at], rows[at]),
            f1: share(2 * both[at], rows[at] + predicted[at]),
        };
        ClassReport {
            positive: if count == 2 { Some(labels[1].clone()) } else { None },
            classes: (0..count).map(class).collect(),
            confusion,
        }
    }

    pub fn class(&self, label: &str) -> Option<&ClassMetrics> {
        self.classes.iter().find(|class| class.label == label)
    }

    /// Takes another of two classes for the positive one, in the metrics too.
    pub(crate) fn set_positive(&mut self, label: &str, metrics: &mut Metrics) -> Result<(), String> {
        let names = || self.classes.iter().map(|class| format!("{:?}", class.label)).collect::<Vec<_>>().join(" or ");
        if self.classes.len() != 2 {
            return Err(format!("--positive is for two classes, and there are {}; leave it out", self.classes.len()));
        }
        let Some(class) = self.class(label) else {
            return Err(format!("--positive {label:?} is not a class of the model; write {}", names()));
        };
        metrics.f1 = class.f1;
        self.positive = Some(label.to_owned());
        Ok(())
    }
}

impl Settings {
    /// Metrics, and those of each class; F1 is that of the class named as the positive one.
    pub(crate) fn evaluate(
        &self,
        outputs: &[f32],
        target: &Target,
        scale: (f64, f64),
        labels: &[String],
    ) -> Result<(Metrics, Option<ClassReport>), TrainError> {
        let mut metrics = self.measure(outputs, target, scale);
        let mut classes = self.class_report(outputs, target, labels);
        if let (Some(label), Some(classes)) = (&self.details.positive, &mut classes) {
            classes.set_positive(label, &mut metrics).map_err(TrainError::Setting)?;
        }
        Ok((metrics, classes))
    }

    /// Class by class, where a network's outputs stand for classes with these names.
    pub(crate) fn class_report(&self, outputs: &[f32], target: &Target, labels: &[String]) -> Option<ClassReport> {
        match target {
            _ if labels.len() < 2 => None,
            Target::Values { data, width: 1 } if labels.len() == 2 => {
                let scores = self.scores(outputs, true);
                let pairs = scores.iter().zip(data).map(|(x, t)| (usize::from(*t > 0.5), usize::from(*x > 0.0)));
                Some(ClassReport::of(labels, pairs))
            }
            Target::Classes { data, classes } if *classes == labels.len() => {
                let scores = self.scores(outputs, true);
                let rows = scores.chunks_exact((*classes).max(1));
                let pairs = rows.zip(data).map(|(row, class)| (*class as usize, likeliest(row)));
                Some(ClassReport::of(labels, pairs))
            }
            Target::Values { .. } | Target::Classes { .. } | Target::Sequence { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_recall_and_f1_of_each_class() {
        let labels = ["fraud".to_owned(), "ok".to_owned()];
        let pairs = [(0, 0), (0, 1), (0, 1), (1, 1), (1, 1), (1, 0), (1, 1)];
        let mut report = ClassReport::of(&labels, pairs.into_iter());
        assert_eq!(report.confusion, [[1, 2], [1, 3]]);
        let fraud = report.class("fraud").unwrap().clone();
        assert_eq!((fraud.rows, fraud.predicted, fraud.precision, fraud.recall), (3, 2, Some(0.5), Some(1.0 / 3.0)));
        assert_eq!(fraud.f1, Some(0.4));
        assert_eq!(report.positive.as_deref(), Some("ok"));
        let mut metrics = Metrics::default();
        report.set_positive("fraud", &mut metrics).unwrap();
        assert_eq!((metrics.f1, report.positive.as_deref()), (Some(0.4), Some("fraud")));
        assert!(report.set_positive("frad", &mut metrics).unwrap_err().contains("\"fraud\" or \"ok\""));
    }

    #[test]
    fn a_class_that_never_occurs_has_no_scores() {
        let labels = ["a", "b", "c"].map(str::to_owned);
        let report = ClassReport::of(&labels, [(0, 0), (1, 0)].into_iter());
        assert_eq!((report.classes[2].precision, report.classes[2].recall, report.classes[2].f1), (None, None, None));
        assert_eq!(report.positive, None);
    }
}
