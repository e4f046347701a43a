//! Weights that start too small.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Severity};

pub struct InitTooSmall;

impl Check for InitTooSmall {
    fn cause(&self) -> &'static str {
        "init-too-small"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "A hidden layer shrinks the spread of what enters to less than an eighth (usual starts: 0.6 to 1.4): after a few layers nothing is left, and gradients shrink alike."
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
        let hidden = &run.layers[..run.layers.len().saturating_sub(1)];
        let small: Vec<_> = hidden.iter().filter(|l| l.gain < 0.125 && !l.table && !l.alike).collect();
        let worst = small.iter().min_by(|a, b| a.gain.total_cmp(&b.gain))?;
        let what =
            format!("weights start too small: layer {} leaves {:.1}% of a signal", worst.name, worst.gain * 100.0);
        let finding = Finding::new("init-too-small", Severity::Fault, what).sure(0.9);
        let finding = finding.because("gain of the layer", worst.gain).because("usual", 0.58);
        Some(finding.because("layers with small weights", small.len() as f64).fix(super::usual_start(s)))
    }
}
