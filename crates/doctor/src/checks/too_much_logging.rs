//! Metrics, logs and checkpoints more often than anybody reads them.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Price, Severity};

pub struct TooMuchLogging;

impl Check for TooMuchLogging {
    fn cause(&self) -> &'static str {
        "too-much-logging"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Speed]
    }

    fn threshold(&self) -> &'static str {
        "Of a run of five seconds and more, checkpoints took more than a tenth, or judging more than a third and more than the steps."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let run = e.speed.as_ref()?.run.as_ref().filter(|run| run.seconds >= LONG)?;
        let (saving, judging, steps) = (run.parts.checkpoint, run.parts.metrics, run.parts.of_steps());
        let much = |seconds: f64, share: f64| seconds > share * run.seconds;
        let (what, cost) = match (much(saving, 0.1), much(judging, 0.33) && judging > steps) {
            (true, _) => ("checkpoints: save fewer of them, with --checkpoint-every", saving),
            (false, true) => ("judging the network: validate on fewer rows, with --validation", judging),
            (false, false) => return None,
        };
        let what = format!("{:.0}% of the run went to {what}", cost / run.seconds * 100.0);
        let finding = Finding::new("too-much-logging", Severity::Warning, what)
            .sure(0.9)
            .because("seconds of the run", run.seconds)
            .because("of checkpoints", saving)
            .because("of metrics", judging)
            .because("of steps", steps);
        let price = Price { seconds: cost, low: cost, high: cost };
        Some(Finding { price: Some(price), ..finding })
    }
}

/// Seconds of a run that is worth a word.
const LONG: f64 = 5.0;
