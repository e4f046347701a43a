//! A network so small that a processor is faster than the GPU.

use citius_train::What;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct GpuTooLarge;

impl Check for GpuTooLarge {
    fn cause(&self) -> &'static str {
        "gpu-too-large"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Speed]
    }

    fn threshold(&self) -> &'static str {
        "The step was measured on the processor too, which takes at least a tenth less time, beyond doubt."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["device-underused", "unpinned-copy", "moved-every-epoch"]
    }
    fn find(&self, e: &Evidence) -> Option<Finding> {
        let speed = e.speed.as_ref().filter(|speed| speed.on_gpu)?;
        let other = speed.gain(What::Processor)?;
        let what = format!("the processor takes {:.0}% less time than the GPU", (1.0 - other.ratio) * 100.0);
        let finding = Finding::new("gpu-too-large", Severity::Warning, what)
            .sure(0.95)
            .because("microseconds of a step", speed.otherwise.step_us)
            .because("on the processor", other.step_us)
            .saves(other);
        Some(finding.fix(Fix::new("the processor").set("device", "cpu")))
    }
}
