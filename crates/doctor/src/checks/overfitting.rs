//! Training rows against others.

use super::Check;
use crate::arm::end;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct Overfitting;

impl Check for Overfitting {
    fn cause(&self) -> &'static str {
        "overfitting"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "The error on unseen rows is more than 2.5 times that on training rows and rises by a tenth from its best, or is a constant's, with nothing to hold it back."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        let (best, at, last) = super::unseen(d)?;
        let train = d.median(|run| end(&run.points, |p| p.train.error));
        let rows = e.data.as_ref()?.validation_rows;
        if last < 2.5 * train || (last < 1.1 * best && last < 0.95) || last < 0.2 || rows < 12 {
            return None;
        }
        // what stops early and keeps the best weights has dealt with it
        let severity = if s.patience.is_some() { Severity::Note } else { Severity::Warning };
        let what = "what is learned holds for the training rows alone: their error falls, that of others rises";
        let finding = Finding::new("overfitting", severity, what).sure(0.8);
        let finding = finding
            .because("error on training rows", train)
            .because("on unseen rows", last)
            .because("best on unseen rows", best)
            .because("share of the run at the best", at);
        let fix = Fix::new("stop at the best, and hold weights back")
            .set("patience", super::patience(s))
            .set("weight-decay", 0.01);
        Some(finding.fix(fix.set("optimizer", "adamw")))
    }
}
