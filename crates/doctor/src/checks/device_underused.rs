//! Batches too small to fill the device.

use citius_train::What;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct DeviceUnderused;

impl Check for DeviceUnderused {
    fn cause(&self) -> &'static str {
        "device-underused"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Speed]
    }

    fn threshold(&self) -> &'static str {
        "A row takes at least 0.3 less time in batches of four times the rows, beyond doubt; a note on a processor, where small batches learn more from each row."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let speed = e.speed.as_ref()?;
        let larger = 4 * speed.otherwise.batch;
        let other = speed.gain(What::Batch(larger)).filter(|other| other.high < 0.7)?;
        let severity = if speed.on_gpu { Severity::Warning } else { Severity::Note };
        let what = format!(
            "batches of {} rows do not fill the device: in batches of {larger} a row takes {:.0}% less time; what is learned from \
             it, a trial tells",
            speed.otherwise.batch,
            (1.0 - other.ratio) * 100.0
        );
        let finding = Finding::new("device-underused", severity, what)
            .sure(0.85)
            .because("microseconds of a step", speed.otherwise.step_us)
            .because("for as many rows in larger batches", other.step_us)
            .saves(other);
        let fix = Fix::new("larger batches").set("batch-size", larger as i64);
        Some(finding.fix(fix))
    }
}
