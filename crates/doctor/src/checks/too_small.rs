//! Networks that cannot do it.

use citius_nn::Network;

use super::Check;
use crate::arm::end;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct TooSmall;

impl Check for TooSmall {
    fn cause(&self) -> &'static str {
        "too-small"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "A network of fewer than 16 units in some layer, of one hidden layer below 64, or of none, leaves more than 1.4 times the error on training rows that one of 64-64 does in as many steps."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["learning-rate-too-low", "too-few-epochs", "no-momentum", "batch-too-large", "dead-units"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        let narrow = s.hidden.iter().copied().min().unwrap_or(0);
        let shallow = s.hidden.len() == 1 && narrow < 64;
        if s.network != Network::Mlp || (narrow >= 16 && !shallow) {
            return None;
        }
        let error = d.median(|run| end(&run.points, |p| p.train.error));
        if error < 0.08 {
            return None;
        }
        let fix = Fix::new("a larger network").remove("layers").set("hidden", vec![64i64, 64]);
        let (changed, _) = super::changed(e, &fix)?;
        let answer = e.what_if.as_ref()?.ask(&changed)?;
        let ratio = answer.then / answer.now.max(1e-9);
        let unseen = match (answer.validation_now, answer.validation_then) {
            (Some(now), Some(then)) => then / now.max(1e-9),
            _ => ratio,
        };
        if ratio > 0.71 || unseen > 0.97 {
            return None;
        }
        let sizes: Vec<String> = s.hidden.iter().map(usize::to_string).collect();
        let what = match s.hidden.is_empty() {
            true => "a linear model is too little for this: hidden layers reach what it cannot".to_owned(),
            false => format!("hidden layers of {} units are too small for this", sizes.join("-")),
        };
        let mut finding = Finding::new("too-small", Severity::Fault, what).sure(0.88);
        finding = finding.because("error on training rows now", answer.now).because("with 64-64", answer.then);
        if let Some(overfit) = d.overfit
            && let Some(constant) = overfit.constant
        {
            finding = finding.because(
                "loss left of one batch learned by heart, by a constant's",
                overfit.last / constant.max(1e-12),
            );
        }
        Some(finding.fix(fix))
    }
}
