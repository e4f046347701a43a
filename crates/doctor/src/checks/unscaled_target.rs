//! The scale of a number to predict.

use citius_data::Task;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct UnscaledTarget;

/// Whether the target is a number far from 0 and 1.
pub fn unscaled(e: &Evidence) -> bool {
    let Some(t) = e.data.as_ref().map(|data| &data.target).filter(|_| e.task == Some(Task::Regression)) else {
        return false;
    };
    (t.mean * t.mean + t.std * t.std).sqrt() >= 4.0 || (t.std < 0.02 && t.std > 0.0)
}

impl Check for UnscaledTarget {
    fn cause(&self) -> &'static str {
        "unscaled-target"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Static, Kind::Data]
    }

    fn threshold(&self) -> &'static str {
        "A number to predict is typically beyond 4 deviations of a standardised one: the first thousands of updates do nothing but move the last bias there."
    }

    fn explains(&self) -> &'static [&'static str] {
        &[
            "learning-rate-too-high",
            "learning-rate-too-low",
            "dead-units",
            "saturated-units",
            "vanishing-gradients",
            "exploding-gradients",
            "non-finite",
            "too-small",
            "too-deep",
            "no-momentum",
            "batch-too-small",
            "batch-too-large",
            "too-few-epochs",
            "no-schedule",
            "adam-epsilon",
            "overfitting",
            "no-early-stop",
            "class-imbalance",
            "regularisation-too-strong",
            "init-too-small",
        ]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        if !unscaled(e) {
            return None;
        }
        let t = &e.data.as_ref()?.target;
        let what = format!(
            "the target has mean {:.3} and deviation {:.3}, the network's first answers are around 0 within 1",
            t.mean, t.std
        );
        let mut finding = Finding::new("unscaled-target", Severity::Fault, what).sure(0.93);
        finding = finding.because("mean of the target", t.mean).because("its deviation", t.std);
        if let Some(d) = &e.dynamic {
            finding = finding.because("first loss", d.median(|run| run.first_loss()));
        }
        Some(finding.fix(Fix::new("standardise the target").remove("prepare.scale-target")))
    }
}
