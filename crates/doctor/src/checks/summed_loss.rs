//! A loss that grows with the batch.

use citius_nn::Reduction;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct SummedLoss;

impl Check for SummedLoss {
    fn cause(&self) -> &'static str {
        "summed-loss"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Static]
    }

    fn threshold(&self) -> &'static str {
        "The loss is a sum over the batch: gradients are as many times larger as there are rows, and the learning rate means something else for each batch size."
    }

    fn explains(&self) -> &'static [&'static str] {
        &[
            "learning-rate-too-high",
            "exploding-gradients",
            "non-finite",
            "dead-units",
            "saturated-units",
            "init-too-large",
            "adam-epsilon",
            "no-momentum",
        ]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let s = e.settings.as_ref()?;
        if s.details.reduction != Reduction::Sum {
            return None;
        }
        let what = format!("the loss is summed over the {} rows of a batch, not averaged", s.batch_size);
        let mut finding = Finding::new("summed-loss", Severity::Fault, what).sure(0.95);
        finding = finding.because("factor of the gradient", s.batch_size as f64);
        if let Some(d) = &e.dynamic {
            finding = finding.because("first loss", d.median(|run| run.first_loss()));
        }
        Some(finding.fix(Fix::new("take the mean").remove("reduction")))
    }
}
