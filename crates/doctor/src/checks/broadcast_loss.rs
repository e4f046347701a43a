//! Shapes that differ and are stretched.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct BroadcastLoss;

impl Check for BroadcastLoss {
    fn cause(&self) -> &'static str {
        "broadcast-loss"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Static]
    }

    fn threshold(&self) -> &'static str {
        "Prediction and target are stretched to one shape: each row is held against all others, and the mean is the best answer to that."
    }

    fn stops_learning(&self) -> bool {
        true
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let s = e.settings.as_ref()?;
        if !s.details.broadcast {
            return None;
        }
        let rows = s.batch_size as f64;
        let what =
            "prediction [n,1] and target [n] are stretched to [n,n]: every prediction is held against every target";
        let finding = Finding::new("broadcast-loss", Severity::Fault, what).sure(0.98);
        let finding = finding.because("rows of a batch", rows).because("terms of the loss", rows * rows);
        Some(finding.fix(Fix::new("take each against its own").remove("broadcast")))
    }
}
