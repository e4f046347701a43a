//! Runs that go on too long.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct NoEarlyStop;

impl Check for NoEarlyStop {
    fn cause(&self) -> &'static str {
        "no-early-stop"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "Nothing stops the run early, its best error on unseen rows was in the first 60%, and its last is 1.15 times that."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        if !d.whole || s.patience.is_some() {
            return None;
        }
        let (best, at, last) = super::unseen(d)?;
        if last < 1.15 * best || at > 0.6 {
            return None;
        }
        let what = format!(
            "the best error on unseen rows came after {:.0}% of the run, which went on without stopping and got worse",
            at * 100.0
        );
        let finding = Finding::new("no-early-stop", Severity::Warning, what).sure(0.88);
        let finding = finding
            .because("best error on unseen rows", best)
            .because("last", last)
            .because("share of the run at the best", at);
        let fix = Fix::new("stop when validation gets no better").set("patience", super::patience(s));
        Some(finding.fix(fix))
    }
}
