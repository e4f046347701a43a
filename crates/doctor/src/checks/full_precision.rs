//! Large products in 32 bits where 16 would do.

use citius_train::{Precision, What};

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct FullPrecision;

impl Check for FullPrecision {
    fn cause(&self) -> &'static str {
        "full-precision"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Speed]
    }

    fn threshold(&self) -> &'static str {
        "Large products in bf16 save at least a fifth of the time, beyond doubt; a note on a processor, where few networks are so large."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let speed = e.speed.as_ref()?;
        let other = speed.gain(What::Precision(Precision::Bf16)).filter(|other| other.high < 0.8)?;
        let severity = if speed.on_gpu { Severity::Warning } else { Severity::Note };
        let what =
            format!("large products in bf16 would take {:.0}% off the time of steps", (1.0 - other.ratio) * 100.0);
        let finding = Finding::new("full-precision", severity, what)
            .sure(0.8)
            .because("microseconds of a step", speed.otherwise.step_us)
            .because("in bf16", other.step_us)
            .saves(other);
        let fix = Fix::new("products in 16 bits, sums in 32").set("precision", "bf16");
        Some(finding.fix(fix))
    }
}
