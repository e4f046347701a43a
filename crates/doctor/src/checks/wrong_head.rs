//! What the last activation can give against what the target asks for.

use citius_nn::{Head, Loss};

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct WrongHead;

impl Check for WrongHead {
    fn cause(&self) -> &'static str {
        "wrong-head"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Static, Kind::Data]
    }

    fn threshold(&self) -> &'static str {
        "More than 1% of the targets lie where the last activation cannot reach, or logits are cut off: those rows can never be right."
    }

    fn stops_learning(&self) -> bool {
        true
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let s = e.settings.as_ref()?;
        let t = &e.data.as_ref()?.target;
        let name = s.details.head.name();
        let (low, high) = match s.details.head {
            Head::None | Head::LogSoftmax { .. } => return None,
            Head::Relu | Head::Softplus => (0.0, f64::INFINITY),
            Head::Sigmoid | Head::Softmax { .. } => (0.0, 1.0),
            Head::Tanh => (-1.0, 1.0),
        };
        let fix = Fix::new("leave the head out").remove("head");
        match s.loss {
            Loss::CrossEntropy { .. } | Loss::Bce { .. } => {
                if !matches!(s.details.head, Head::Relu | Head::Softplus | Head::Tanh) {
                    return None; // a matter of softmax-twice
                }
                let what =
                    format!("the outputs go through {name}, and the loss takes them for logits, which have no bounds");
                let finding = Finding::new("wrong-head", Severity::Fault, what).sure(0.9);
                Some(finding.because("lowest output", low).because("highest output", high).fix(fix))
            }
            Loss::Nll => None,
            Loss::Mse | Loss::Mae | Loss::Huber { .. } | Loss::Quantile { .. } => {
                let shares = matches!(s.details.head, Head::Softmax { .. });
                if !shares && t.min >= low - 1e-6 && t.max <= high + 1e-6 {
                    return None;
                }
                let what = match shares {
                    true => format!("the outputs go through {name}, shares that sum to 1, and the target is a number"),
                    false => format!(
                        "the outputs go through {name}, between {low} and {high}; the target runs from {:.3} to {:.3}",
                        t.min, t.max
                    ),
                };
                let mut finding = Finding::new("wrong-head", Severity::Fault, what).sure(0.97);
                finding = finding.because("lowest target", t.min).because("highest target", t.max);
                if let Some(run) = e.dynamic.as_ref().and_then(|d| d.runs.first()) {
                    finding = finding
                        .because("lowest prediction", run.predicted.min)
                        .because("highest prediction", run.predicted.max);
                }
                Some(finding.fix(fix))
            }
        }
    }
}
