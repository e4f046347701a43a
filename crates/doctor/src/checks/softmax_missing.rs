//! Raw outputs, or shares of the wrong thing, where probabilities are wanted.

use citius_nn::{Head, Loss};

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct SoftmaxMissing;

impl Check for SoftmaxMissing {
    fn cause(&self) -> &'static str {
        "softmax-missing"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Static]
    }

    fn threshold(&self) -> &'static str {
        "The loss takes logarithms of probabilities and gets something else, or a softmax runs over the rows of a batch: what is taken for shares of classes is none."
    }

    fn stops_learning(&self) -> bool {
        true
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let s = e.settings.as_ref()?;
        let what = match (s.details.head, &s.loss) {
            (Head::LogSoftmax { axis: 1 }, Loss::Nll) => return None,
            (Head::Softmax { axis: 0 } | Head::LogSoftmax { axis: 0 }, _) => {
                "the softmax at the end runs over the rows of the batch, not over the classes of a row"
            }
            (Head::Softmax { .. }, Loss::Nll) => "nll takes logarithms of probabilities, and gets probabilities",
            (_, Loss::Nll) => "nll takes logarithms of probabilities, and gets the raw outputs of the network",
            _ => return None,
        };
        let finding = Finding::new("softmax-missing", Severity::Fault, what).sure(0.97);
        let outputs = e.statics.as_ref().and_then(|s| s.prediction_shape.last().copied()).unwrap_or(0);
        let loss = if e.task == Some(citius_data::Task::Regression) { "mse" } else { "cross-entropy" };
        let fix = Fix::new(format!("{loss}, which takes the raw outputs")).set("loss", loss).remove("head");
        Some(finding.because("outputs", outputs as f64).fix(fix))
    }
}
