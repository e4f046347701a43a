//! Weights that start too large.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Severity};

pub struct InitTooLarge;

impl Check for InitTooLarge {
    fn cause(&self) -> &'static str {
        "init-too-large"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "A layer multiplies the spread of what enters by more than 4 (weights' size times the root of their inputs; usual starts have 0.6 to 1.4)."
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
            "regularisation-too-strong",
        ]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, run) = (e.settings.as_ref()?, e.dynamic.as_ref()?.runs.first()?);
        if e.wishes.weights.is_some() {
            return None;
        }
        let large: Vec<_> = run.layers.iter().filter(|l| l.gain > 4.0 && !l.table).collect();
        let worst = large.iter().max_by(|a, b| a.gain.total_cmp(&b.gain))?;
        let what =
            format!("weights start too large: layer {} makes signals {:.1} times as large", worst.name, worst.gain);
        let mut finding = Finding::new("init-too-large", Severity::Fault, what).sure(0.92);
        finding = finding.because("gain of the layer", worst.gain).because("usual", 0.58);
        finding = finding.because("first loss", run.first_loss());
        Some(finding.fix(super::usual_start(s)))
    }
}
