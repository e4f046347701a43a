//! Relu units that are never active.

use citius_nn::Activation;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Severity};

pub struct DeadUnits;

impl Check for DeadUnits {
    fn cause(&self) -> &'static str {
        "dead-units"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "More than 60% of a relu layer's units give nothing but 0 for any row of the last steps; healthy layers have a few percent."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["vanishing-gradients", "too-small", "learning-rate-too-low"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        let layers = d.runs.first()?.units.len();
        let share = |i: usize| d.median(|run| run.units.get(i).map_or(0.0, |u| u.dead));
        let (worst, dead) = (0..layers).map(|i| (i, share(i))).max_by(|a, b| a.1.total_cmp(&b.1))?;
        let unit = d.runs[0].units.get(worst)?;
        if dead < 0.6 || unit.units < 8 {
            return None;
        }
        let what = format!(
            "{:.0}% of the units of {} are 0 for every row: no gradient will wake them",
            dead * 100.0,
            unit.layer
        );
        let severity = if dead > 0.8 { Severity::Fault } else { Severity::Warning };
        let finding = Finding::new("dead-units", severity, what).sure(0.85);
        let finding = finding.because("share of dead units", dead).because("units", unit.units as f64);
        Some(finding.fix(super::activation(s, Activation::LeakyRelu)))
    }
}
