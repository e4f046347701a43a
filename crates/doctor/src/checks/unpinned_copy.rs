//! Batches in memory that the system may move, on their way to a GPU.

use citius_train::What;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct UnpinnedCopy;

impl Check for UnpinnedCopy {
    fn cause(&self) -> &'static str {
        "unpinned-copy"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Speed]
    }

    fn threshold(&self) -> &'static str {
        "Batches are copied to a GPU from memory that is not pinned, and from pinned memory steps take at least a tenth less time, beyond doubt."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let speed = e.speed.as_ref().filter(|speed| speed.on_gpu)?;
        let pinned = speed.gain(What::Pinned)?;
        let what = format!(
            "batches are copied to the GPU from memory that the system may move: from pinned memory steps would take {:.0}% less time",
            (1.0 - pinned.ratio) * 100.0
        );
        let finding = Finding::new("unpinned-copy", Severity::Warning, what)
            .sure(0.95)
            .because("microseconds of a step", speed.otherwise.step_us)
            .because("from pinned memory", pinned.step_us)
            .saves(pinned);
        Some(finding.fix(Fix::new("pinned memory").set("pinned", true)))
    }
}
