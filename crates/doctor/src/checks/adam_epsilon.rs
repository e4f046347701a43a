//! Adam's epsilon.

use citius_nn::OptimizerConfig;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct AdamEpsilon;

impl Check for AdamEpsilon {
    fn cause(&self) -> &'static str {
        "adam-epsilon"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Static]
    }

    fn threshold(&self) -> &'static str {
        "Epsilon is 1e-3 or more, which outweighs the second moment of most weights, or so small that 0/0 can happen; usual is 1e-8."
    }

    fn explains(&self) -> &'static [&'static str] {
        &[
            "learning-rate-too-low",
            "learning-rate-too-high",
            "non-finite",
            "too-few-epochs",
            "no-schedule",
            "exploding-gradients",
            "dead-units",
            "too-small",
        ]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let s = e.settings.as_ref()?;
        let eps = match &s.optimizer {
            OptimizerConfig::Adam(o) => o.eps,
            OptimizerConfig::AdamW(o) => o.eps,
            OptimizerConfig::Lamb(o) => o.eps,
            OptimizerConfig::RmsProp(o) => o.eps,
            OptimizerConfig::Sgd(_) | OptimizerConfig::Lion(_) | OptimizerConfig::Muon(_) => return None,
        };
        let what = match eps {
            eps if eps >= 1e-3 => {
                format!("epsilon {eps:e} outweighs the second moment: updates shrink with the gradient")
            }
            eps if eps < 1e-14 => {
                format!("epsilon {eps:e} leaves 0/0 where a gradient is 0, and jumps where it is nearly so")
            }
            _ => return None,
        };
        let mut finding = Finding::new("adam-epsilon", Severity::Fault, what).sure(0.85).because("epsilon", eps);
        if let Some(run) = e.dynamic.as_ref().and_then(|d| d.runs.first()) {
            let n = run.layers.len().max(1) as f64;
            let gradient = run.layers.iter().map(|l| l.grad / (l.elements.max(1) as f64).sqrt()).sum::<f64>() / n;
            finding = finding.because("typical gradient of a weight", gradient);
            // small gradients are what epsilon hides
            if eps >= 1e-3 && gradient > 30.0 * eps {
                finding.severity = Severity::Note;
            }
        }
        Some(finding.fix(Fix::new("the usual epsilon").set("optimizer.eps", 1e-8)))
    }
}
