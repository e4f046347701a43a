//! Gradients that fade behind bounded activations.

use citius_nn::Activation;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Severity};

pub struct VanishingGradients;

impl Check for VanishingGradients {
    fn cause(&self) -> &'static str {
        "vanishing-gradients"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "Behind sigmoid or tanh, a weight of the first layer gets less than a hundredth of the gradient of one of the last, and relu leaves less than 3/4 of the error in as many steps."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["learning-rate-too-low", "too-deep", "too-small", "too-few-epochs", "no-momentum"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        let bounded = |op: &str| op == "sigmoid" || op == "tanh";
        let units = &d.runs.first()?.units;
        if units.iter().filter(|u| bounded(&u.op)).count() < 2 {
            return None;
        }
        let decay = d.median(super::gradient_decay);
        if decay > 0.01 {
            return None;
        }
        let fix = super::activation(s, Activation::Relu);
        let (changed, _) = super::changed(e, &fix)?;
        let answer = e.what_if.as_ref()?.ask(&changed)?;
        let ratio = answer.then / answer.now.max(1e-9);
        if ratio > 0.75 {
            return None;
        }
        let layers = d.runs[0].layers.len();
        let what =
            format!("gradients shrink on their way to the first layer: it gets {decay:.1e} of what the last gets");
        let finding = Finding::new("vanishing-gradients", Severity::Fault, what).sure(0.88);
        let finding = finding
            .because("gradient of the first layer by that of the last", decay)
            .because("layers", layers as f64)
            .because("error now", answer.now)
            .because("with relu", answer.then);
        Some(finding.fix(fix))
    }
}
