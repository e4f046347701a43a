//! Runs that end too soon.

use super::Check;
use crate::arm::end;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct TooFewEpochs;

impl Check for TooFewEpochs {
    fn cause(&self) -> &'static str {
        "too-few-epochs"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "The number of epochs was given, and four times as many leave less than 3/4 of the error on rows that were not trained on, and a quarter of all that is learned by then is missing: a little more can be had by going on in almost any training. A note where no rows are kept from training."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        e.wishes.epochs?;
        let error = d.median(|run| end(&run.points, |p| p.train.error));
        if !d.whole || error < 0.08 || d.runs.iter().any(|run| run.diverged.is_some()) {
            return None;
        }
        let more = s.epochs.saturating_mul(4);
        let fix = Fix::new("go on for longer").set("epochs", more as i64);
        let (changed, _) = super::changed(e, &fix)?;
        let answer = e.what_if.as_ref()?.ask_for(&changed, 4.0)?;
        // what is learned by heart gets better and better: where training rows alone say it, it is worth a note
        let (now, then, severity) = match (answer.validation_now, answer.validation_then) {
            (Some(now), Some(then)) => (now, then, Severity::Warning),
            _ => (answer.now, answer.then, Severity::Note),
        };
        if then / now.max(1e-9) > 0.75 || answer.then / answer.now.max(1e-9) > 0.75 {
            return None;
        }
        // from a constant's error, 1, to what is reached in the end: the part of that way that is not gone
        let missing = (now.min(1.0) - then) / (1.0 - then).max(1e-9);
        if missing < 0.25 {
            return None;
        }
        let what = format!("{} epochs are too few: the error is still falling when they end", s.epochs);
        let finding = Finding::new("too-few-epochs", severity, what).sure(0.88);
        let finding = finding.because("error at the end", now).because(format!("after {more} epochs"), then);
        Some(finding.fix(fix))
    }
}
