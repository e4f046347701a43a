//! Steps that wait for their data.

use citius_train::What;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct StarvedLoader;

impl Check for StarvedLoader {
    fn cause(&self) -> &'static str {
        "starved-loader"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Speed]
    }

    fn threshold(&self) -> &'static str {
        "With the batch at hand steps take at least a tenth less time, beyond doubt, and the run half a second less: that is what it costs."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["repeated-work", "disk-bound"]
    }
    fn find(&self, e: &Evidence) -> Option<Finding> {
        let speed = e.speed.as_ref().filter(|speed| speed.loaded)?;
        let cached = speed.gain(What::CachedBatch)?;
        // too many threads are another matter
        let workers = speed.better_workers();
        if speed.workers.is_some_and(|now| now > speed.cores && workers.is_some_and(|(n, _)| n < now)) {
            return None;
        }
        let what = format!(
            "steps wait for data: with the batch at hand they would take {:.0}% less time",
            (1.0 - cached.ratio) * 100.0
        );
        let finding = Finding::new("starved-loader", Severity::Warning, what)
            .sure(0.95)
            .because("microseconds of a step", speed.otherwise.step_us)
            .because("with the batch at hand", cached.step_us)
            .saves(cached);
        let fix = match (e.wishes.delay.is_some_and(|delay| delay > 0.0), workers) {
            (true, _) => Fix::new("rows without the work to prepare each").remove("delay"),
            (false, Some((n, _))) => Fix::new("as many loading threads as turn out fastest").set("workers", n as i64),
            (false, None) => Fix::new("what is loaded held in memory").set("memory", "8GiB"),
        };
        Some(finding.fix(fix))
    }
}
