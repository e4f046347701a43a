//! Values that are not finite.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct NonFinite;

impl Check for NonFinite {
    fn cause(&self) -> &'static str {
        "non-finite"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "A value of the step is not finite: nothing after it means anything."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        let lost: Vec<_> = d.runs.iter().filter_map(|run| run.diverged.as_ref()).collect();
        let (step, first) = lost.first()?;
        let what = format!("{first} at step {step}");
        let finding = Finding::new("non-finite", Severity::Fault, what).sure(0.8);
        let finding = finding.because("seeds that end so", lost.len() as f64).because("step", *step as f64);
        Some(finding.fix(Fix::new("smaller steps").set("lr", s.lr * 0.1).set("clip-norm", 1.0)))
    }
}
