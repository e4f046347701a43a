//! Gradient descent without momentum.

use citius_nn::OptimizerConfig;

use super::Check;
use crate::arm::end;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct NoMomentum;

impl Check for NoMomentum {
    fn cause(&self) -> &'static str {
        "no-momentum"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "Plain gradient descent, and momentum 0.9 at the same rate is as good after a fifth of the steps as this is at the end, or after 2/5 and then goes further."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["too-few-epochs", "batch-too-large", "learning-rate-too-low"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        let OptimizerConfig::Sgd(sgd) = &s.optimizer else { return None };
        if sgd.momentum > 0.1 {
            return None;
        }
        let error = d.median(|run| end(&run.points, |p| p.train.error));
        if error < 0.002 {
            return None;
        }
        let fix = Fix::new("momentum 0.9").set("optimizer.name", "sgd").set("optimizer.momentum", 0.9);
        let (changed, _) = super::changed(e, &fix)?;
        let answer = e.what_if.as_ref()?.ask(&changed)?;
        // there in a fraction of the steps, or much further with as many
        let (sooner, further) = (answer.reached <= 0.2, answer.reached <= 0.4 && answer.worst_ratio <= 0.93);
        if !sooner && !further {
            return None;
        }
        let what = "plain gradient descent crawls here: with momentum it gets much further in as many steps";
        let finding = Finding::new("no-momentum", Severity::Warning, what).sure(0.88);
        let finding = finding
            .because("momentum", sgd.momentum)
            .because("error now", answer.now)
            .because("with momentum 0.9", answer.then)
            .because("share of the steps after which that is as good as now", answer.reached);
        Some(finding.fix(fix))
    }
}
