//! The floor that a constant rate leaves.

use citius_nn::ScheduleConfig;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct NoSchedule;

impl Check for NoSchedule {
    fn cause(&self) -> &'static str {
        "no-schedule"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "A constant rate, a loss that has stopped falling, and a rate that decays to 0 leaves less than 0.7 of the loss in as many steps."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        if s.schedule != ScheduleConfig::Constant || !d.whole || s.average.is_some() || s.swa.is_some() {
            return None;
        }
        let n = d.runs.first()?.losses.len();
        if n < 400 || d.runs.iter().any(|run| run.diverged.is_some()) {
            return None;
        }
        let flat = d.median(|run| run.mean_loss(n * 3 / 4..n) / run.mean_loss(n / 2..n * 3 / 4).max(1e-12));
        if flat < 0.85 {
            return None;
        }
        let fix = Fix::new("let the rate decay").set("schedule", "cosine");
        let (changed, _) = super::changed(e, &fix)?;
        let answer = e.what_if.as_ref()?.ask(&changed)?;
        let ratio = answer.worst_ratio;
        if ratio > 0.7 {
            return None;
        }
        // a good training bears it: what is left to gain is told, no more
        let severity = if ratio < 0.35 { Severity::Warning } else { Severity::Note };
        let what = "the loss stays at a floor that the size of the steps sets: a rate that decays gets below it";
        let finding = Finding::new("no-schedule", severity, what).sure(0.85);
        let finding = finding
            .because("loss of the last quarter by that before", flat)
            .because("error now", answer.now)
            .because("with a decaying rate", answer.then);
        Some(finding.fix(fix))
    }
}
