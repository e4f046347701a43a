//! The same bytes brought to the device again and again.

use citius_train::What;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct MovedEveryEpoch;

impl Check for MovedEveryEpoch {
    fn cause(&self) -> &'static str {
        "moved-every-epoch"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Speed]
    }

    fn threshold(&self) -> &'static str {
        "A loader brings rows to a GPU in every epoch that would fit into half a gigabyte, and the copy saves time if it is left out."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let speed = e.speed.as_ref().filter(|speed| speed.on_gpu && speed.loaded && speed.bytes < FITS)?;
        let epochs = e.settings.as_ref()?.epochs;
        if epochs < 2 {
            return None;
        }
        let bound = speed.gain(What::NoCopy)?;
        let what = format!(
            "{:.0} MB are brought to the GPU in each of {epochs} epochs, where once would do",
            speed.bytes / 1e6
        );
        let finding = Finding::new("moved-every-epoch", Severity::Warning, what)
            .sure(0.85)
            .because("bytes of all rows", speed.bytes)
            .because("epochs", epochs as f64)
            .saves(bound);
        let fix = Fix::new("all rows in memory, so that they stay on the GPU").set("memory", "8GiB");
        Some(finding.fix(fix))
    }
}

/// Bytes that any GPU has room for.
const FITS: f64 = (512 << 20) as f64;
