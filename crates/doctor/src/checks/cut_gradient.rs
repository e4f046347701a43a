//! Parameters that the gradient does not reach.

use citius_nn::HiddenLayer;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct CutGradient;

impl Check for CutGradient {
    fn cause(&self) -> &'static str {
        "cut-gradient"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Static]
    }

    fn threshold(&self) -> &'static str {
        "Some weights get no gradient, and nothing says that they came from another training: they stay at random."
    }

    fn stops_learning(&self) -> bool {
        true
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, statics) = (e.settings.as_ref()?, e.statics.as_ref()?);
        let frozen = |p: &&crate::evidence::statics::ParameterFact| !p.trainable;
        let pretrained = e.wishes.weights.is_some();
        let still: Vec<_> = statics.parameters.iter().filter(|p| !p.reached || (frozen(p) && !pretrained)).collect();
        if still.is_empty() {
            return None;
        }
        let (cut, all): (usize, usize) =
            (still.iter().map(|p| p.elements).sum(), statics.parameters.iter().map(|p| p.elements).sum());
        let names: Vec<&str> = still.iter().map(|p| p.name.as_str()).take(4).collect();
        let how = if still.iter().all(frozen) { "is frozen, though it starts at random" } else { "gets no gradient" };
        let what = format!("{}{} {how}", names.join(", "), if still.len() > 4 { " and more" } else { "" });
        let mut finding = Finding::new("cut-gradient", Severity::Fault, what).sure(0.97);
        finding = finding.because("weights that stay as they are", cut as f64).because("all weights", all as f64);
        let mut fix = Fix::new("let the gradient through").remove("detach").remove("freeze");
        if s.details.layers.iter().any(|layer| layer.detach) {
            let layers = s.details.layers.iter().map(|layer| HiddenLayer { detach: false, ..layer.clone() });
            fix = fix.layers(layers.collect());
        }
        Some(finding.fix(fix))
    }
}
