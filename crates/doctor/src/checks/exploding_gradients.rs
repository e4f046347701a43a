//! Gradients that grow beyond reason.

use super::Check;
use crate::evidence::dynamic::median;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct ExplodingGradients;

impl Check for ExplodingGradients {
    fn cause(&self) -> &'static str {
        "exploding-gradients"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "The gradient's norm grows a thousandfold within the run, or passes 1000, without clipping: a step that large forgets what was learned."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["non-finite"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        if s.clip.is_some() {
            return None;
        }
        let first = d.median(|run| median(run.grad_norms.iter().take(10).map(|n| *n as f64).collect()));
        let most =
            d.median(|run| run.grad_norms.iter().map(|n| *n as f64).filter(|n| n.is_finite()).fold(0.0, f64::max));
        // what is large from the start is the scale of the loss
        if most < 1000.0 || (most < 1000.0 * first && d.runs.iter().all(|run| run.diverged.is_none())) {
            return None;
        }
        let what = format!("the gradient's norm reaches {most:.1e}, from {first:.2} in the first steps");
        let finding = Finding::new("exploding-gradients", Severity::Fault, what).sure(0.7);
        let finding = finding.because("largest norm", most).because("norm in the first steps", first);
        Some(finding.fix(Fix::new("clip the gradient").set("clip-norm", 1.0)))
    }
}
