//! Copies to the device that steps wait for.

use citius_train::What;

use super::Check;
use crate::evidence::speed::WORTH;
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
        "On a GPU, with the batch there already steps take at least a tenth less than with the batch at hand, beyond doubt."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let speed = e.speed.as_ref().filter(|speed| speed.on_gpu)?;
        let (cached, bound) = (speed.find(What::CachedBatch)?, speed.gain(What::NoCopy)?);
        // what the copy costs beyond the loading
        if bound.high > cached.low - WORTH {
            return None;
        }
        let saves = bound.saves - cached.saves.max(0.0);
        let what = format!(
            "steps wait for copies to the GPU: without them they would take {:.0}% less time",
            (cached.ratio.min(1.0) - bound.ratio) * 100.0
        );
        let finding = Finding::new("unpinned-copy", Severity::Warning, what)
            .sure(0.9)
            .because("microseconds of a step", speed.otherwise.step_us)
            .because("without the copy", bound.step_us);
        let fix = Fix::new("all rows in memory, so that they stay on the GPU").set("memory", "8GiB");
        Some(Finding { cost: Some(saves), ..finding }.fix(fix))
    }
}
