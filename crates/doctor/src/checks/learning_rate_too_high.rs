//! Updates that overshoot.

use citius_train::Settings;

use crate::arm::end;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct LearningRateTooHigh;

impl Check for LearningRateTooHigh {
    fn cause(&self) -> &'static str {
        "learning-rate-too-high"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "Training diverges, rises, or has updates above 3% of the weights, and a tenth or a hundredth of the rate leaves less than 3/4 of the error in as many steps."
    }

    fn explains(&self) -> &'static [&'static str] {
        &[
            "non-finite",
            "exploding-gradients",
            "dead-units",
            "saturated-units",
            "vanishing-gradients",
            "no-schedule",
            "no-momentum",
            "batch-too-small",
            "too-small",
            "overfitting",
            "no-early-stop",
            "too-deep",
            "class-imbalance",
            "regularisation-too-strong",
        ]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        let largest = d.median(|run| run.layers.iter().map(|l| l.update.max(l.late_update)).fold(0.0, f64::max));
        let diverged = d.runs.iter().filter(|run| run.diverged.is_some()).count();
        let rises = d.median(|run| run.last_loss() / run.first_loss().max(1e-12));
        if diverged == 0 && largest < 0.03 && rises < 1.2 {
            return None;
        }
        let what_if = e.what_if.as_ref()?;
        let mut best: Option<(f64, f64, f64)> = None;
        for factor in [0.1, 0.01, 0.001] {
            let lower = Settings { lr: s.lr * factor, ..s.clone() };
            let Some(answer) = what_if.ask(&lower) else { continue };
            let ratio = answer.worst_ratio;
            if best.is_none_or(|(_, known, _)| ratio < known * 0.9) {
                best = Some((factor, ratio, answer.then));
            }
        }
        let dead = d.median(|run| run.units.iter().map(|u| u.dead).fold(0.0, f64::max));
        let error = d.median(|run| end(&run.points, |p| p.train.error));
        // updates of this size need no experiment
        let plain = largest > 0.2 && (diverged > 0 || dead > 0.4 || error > 0.8);
        let usual = s.optimizer.default_rate() / s.lr;
        let (factor, ratio, then) =
            best.filter(|b| b.1 < 0.9).or(plain.then_some((usual.min(0.1), f64::NAN, f64::NAN)))?;
        let bad = diverged * 2 > d.runs.len() || plain;
        if ratio > if bad { 0.9 } else { 0.75 } {
            return None;
        }
        let what = match diverged {
            0 => format!("the learning rate {} is too high: updates are {:.1}% of the weights", s.lr, largest * 100.0),
            _ => format!("the learning rate {} is too high: training diverges", s.lr),
        };
        let finding = Finding::new("learning-rate-too-high", Severity::Fault, what).sure(0.92);
        let finding = finding
            .because("update by weight", largest)
            .because("last loss by first", rises)
            .because("runs that diverge", diverged as f64)
            .because(format!("error at {factor} of the rate, by the error now"), ratio)
            .because("that error, a constant has 1", then);
        Some(finding.fix(Fix::new("a lower rate").set("lr", s.lr * factor)))
    }
}
