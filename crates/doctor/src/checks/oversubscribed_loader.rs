//! More threads that load than there are cores to run them.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct OversubscribedLoader;

impl Check for OversubscribedLoader {
    fn cause(&self) -> &'static str {
        "oversubscribed-loader"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Speed]
    }

    fn threshold(&self) -> &'static str {
        "More loading threads than cores, and fewer of them save at least a tenth of the time, beyond doubt."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["starved-loader", "repeated-work"]
    }
    fn find(&self, e: &Evidence) -> Option<Finding> {
        let speed = e.speed.as_ref().filter(|speed| speed.loaded)?;
        let now = speed.workers.filter(|now| *now > speed.cores)?;
        let (better, other) = speed.better_workers().filter(|(n, _)| *n < now)?;
        let what = format!(
            "{now} threads load data on {} cores: with {better} steps would take {:.0}% less time",
            speed.cores,
            (1.0 - other.ratio) * 100.0
        );
        let finding = Finding::new("oversubscribed-loader", Severity::Warning, what)
            .sure(0.95)
            .because("loading threads", now as f64)
            .because("cores", speed.cores as f64)
            .because("microseconds of a step", speed.otherwise.step_us)
            .because("with fewer threads", other.step_us)
            .saves(other);
        let fix = Fix::new("as many loading threads as turn out fastest").set("workers", better as i64);
        Some(finding.fix(fix))
    }
}
