//! The direction of updates.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct Ascending;

impl Check for Ascending {
    fn cause(&self) -> &'static str {
        "ascending"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "At a thousandth of the rate, where only the direction counts, 9 of 10 updates make the loss of their own batch larger: downhill, hardly any would."
    }

    fn stops_learning(&self) -> bool {
        true
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        let along = d.along?;
        if along.moved_at_small < 10 || along.worse_at_small < 0.9 {
            return None;
        }
        let what = "updates go uphill: they make the loss of their own batch larger, however small they are";
        let finding = Finding::new("ascending", Severity::Fault, what).sure(0.97);
        let finding = finding
            .because("share of small updates that make the loss larger", along.worse_at_small)
            .because("first loss", d.median(|run| run.first_loss()))
            .because("last loss", d.median(|run| run.last_loss()));
        Some(match s.optimizer.maximize() {
            true => finding.fix(Fix::new("go downhill").remove("optimizer.maximize")),
            false => finding,
        })
    }
}
