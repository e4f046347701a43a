//! Units that start alike.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Severity};

pub struct SymmetricInit;

impl Check for SymmetricInit {
    fn cause(&self) -> &'static str {
        "symmetric-init"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "All units of a hidden layer start with the same weights: they get the same gradient and stay one unit."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["init-too-small", "init-too-large"]
    }

    fn stops_learning(&self) -> bool {
        true
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, run) = (e.settings.as_ref()?, e.dynamic.as_ref()?.runs.first()?);
        // the last layer may start at 0: its units are told apart by their targets
        let hidden = &run.layers[..run.layers.len().saturating_sub(1)];
        let alike: Vec<_> = hidden.iter().filter(|layer| layer.alike).collect();
        let first = alike.first()?;
        let what = format!("all units of layer {} start with the same weights, so they learn the same", first.name);
        let finding = Finding::new("symmetric-init", Severity::Fault, what).sure(0.97);
        let finding =
            finding.because("layers of equal units", alike.len() as f64).because("hidden layers", hidden.len() as f64);
        Some(finding.fix(super::usual_start(s)))
    }
}
