//! Sigmoid and tanh at their limits.

use citius_nn::Activation;

use super::Check;
use crate::arm::end;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Severity};

pub struct SaturatedUnits;

impl Check for SaturatedUnits {
    fn cause(&self) -> &'static str {
        "saturated-units"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "More than a third of the values of a sigmoid or tanh layer are within 2% of their limits, where slopes are below 0.04."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["vanishing-gradients", "too-small", "learning-rate-too-low", "too-deep", "too-few-epochs"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, run) = (e.settings.as_ref()?, e.dynamic.as_ref()?.runs.first()?);
        let worst = run.units.iter().max_by(|a, b| a.limit.max(a.late_limit).total_cmp(&b.limit.max(b.late_limit)))?;
        let share = worst.limit.max(worst.late_limit);
        let error = end(&run.points, |p| p.train.error);
        if share < 0.33 || (worst.limit < 0.33 && error < 0.3) {
            return None;
        }
        let what = format!(
            "{:.0}% of the {} values of {} are at their limits, where nothing moves",
            share * 100.0,
            worst.op,
            worst.layer
        );
        let severity = if share > 0.5 { Severity::Fault } else { Severity::Warning };
        let finding = Finding::new("saturated-units", severity, what).sure(0.85);
        let finding = finding
            .because("share at the limits at the start", worst.limit)
            .because("and at the end", worst.late_limit)
            .because("spread of what enters", worst.spread);
        Some(finding.fix(super::activation(s, Activation::Relu)))
    }
}
