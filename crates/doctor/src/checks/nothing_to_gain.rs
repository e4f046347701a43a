//! Steps as fast as the machine can take them.

use citius_train::Verdict;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Severity};

pub struct NothingToGain;

impl Check for NothingToGain {
    fn cause(&self) -> &'static str {
        "nothing-to-gain"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Speed]
    }

    fn threshold(&self) -> &'static str {
        "Steps take no more than 1.25 times what their FLOPs and bytes take at the machine's ceilings."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let speed = e.speed.as_ref().filter(|speed| speed.otherwise.verdict == Verdict::NothingLeftToGain)?;
        let near = speed.otherwise.roofline?;
        let what = format!("at {:.0}% of this machine's roofline: stop tuning speed", near * 100.0);
        let finding = Finding::new("nothing-to-gain", Severity::Note, what).sure(0.9);
        Some(finding.because("share of the roofline", near))
    }
}
