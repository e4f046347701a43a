//! Updates that hardly move.

use citius_nn::OptimizerConfig;
use citius_train::Settings;

use super::Check;
use crate::arm::end;
use crate::evidence::dynamic::median;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct LearningRateTooLow;

impl Check for LearningRateTooLow {
    fn cause(&self) -> &'static str {
        "learning-rate-too-low"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "Updates are never above 1/3000 of the weights, also where the schedule has its largest rate, and ten or a hundred times the rate leaves less than 2/3 of the error in as many steps."
    }

    fn explains(&self) -> &'static [&'static str] {
        &[
            "too-few-epochs",
            "no-momentum",
            "too-small",
            "vanishing-gradients",
            "batch-too-large",
            "too-deep",
            "class-imbalance",
        ]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        if d.runs.iter().any(|run| run.diverged.is_some()) {
            return None;
        }
        let typical = d.median(|run| median(run.layers.iter().map(|l| l.most_update).collect()));
        let error = d.median(|run| end(&run.points, |p| p.train.error));
        // plain gradient descent may lack momentum rather than rate
        let plain = matches!(&s.optimizer, OptimizerConfig::Sgd(sgd) if sgd.momentum < 0.1);
        if typical > if plain { 3e-5 } else { 3.3e-4 } || error < 0.15 {
            return None;
        }
        let what_if = e.what_if.as_ref()?;
        let mut best: Option<(f64, f64, f64)> = None;
        // a thousandth of the weights is what an update usually is
        let usual = (1e-3 / typical.max(1e-12)).clamp(10.0, 1e8);
        // updates of this size need no experiment: a thousand of them are a few percent
        let fallen = d.median(|run| run.last_loss() / run.first_loss().max(1e-12));
        let plainly = typical < 8e-5 && error > 0.4 && fallen > 0.4;
        let mut factors = vec![10f64.powf(usual.log10().round()), 10.0, 100.0, 1000.0];
        factors.dedup();
        for factor in factors {
            let higher = Settings { lr: s.lr * factor, ..s.clone() };
            let Some(answer) = what_if.ask(&higher) else { continue };
            if best.is_none_or(|(_, known, _)| answer.worst_ratio < known * 0.9) {
                best = Some((factor, answer.worst_ratio, answer.then));
            }
        }
        let (factor, ratio, then) = best.or(plainly.then_some((usual, f64::NAN, f64::NAN)))?;
        if ratio > 0.67 && !plainly {
            return None;
        }
        let what = format!("the learning rate {} is too low: an update is {typical:.1e} of the weights", s.lr);
        let finding = Finding::new("learning-rate-too-low", Severity::Fault, what).sure(0.9);
        let finding = finding
            .because("update by weight", typical)
            .because("error now, a constant has 1", error)
            .because(format!("error at {factor} times the rate"), then);
        Some(finding.fix(Fix::new("a higher rate").set("lr", s.lr * factor)))
    }
}
