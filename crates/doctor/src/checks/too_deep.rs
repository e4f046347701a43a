//! More layers than gradients survive.

use citius_nn::Network;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct TooDeep;

impl Check for TooDeep {
    fn cause(&self) -> &'static str {
        "too-deep"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "Six hidden layers and more without norms or shortcuts, gradients that fade or a network that hardly learns, and two layers of the same width leave less than 3/4 of the error."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["learning-rate-too-low", "too-small", "too-few-epochs", "dead-units", "vanishing-gradients", "no-momentum"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d, statics) = (e.settings.as_ref()?, e.dynamic.as_ref()?, e.statics.as_ref()?);
        let plain = s.details.layers.iter().all(|l| !l.residual && l.norm.is_none());
        if s.network != Network::Mlp || s.hidden.len() < 6 || !plain || statics.normalised {
            return None;
        }
        let units = s.hidden.iter().copied().max()? as i64;
        let fix = Fix::new("two layers").remove("layers").set("hidden", vec![units, units]);
        let (changed, _) = super::changed(e, &fix)?;
        let answer = e.what_if.as_ref()?.ask(&changed)?;
        let ratio = answer.then / answer.now.max(1e-9);
        if ratio > 0.75 {
            return None;
        }
        let decay = d.median(super::gradient_decay);
        let what = format!("{} layers without norms or shortcuts are more than gradients survive", s.hidden.len());
        let finding = Finding::new("too-deep", Severity::Fault, what).sure(0.88);
        let finding = finding
            .because("gradient of the first layer by that of the last", decay)
            .because("error now", answer.now)
            .because("with two layers", answer.then);
        Some(finding.fix(fix))
    }
}
