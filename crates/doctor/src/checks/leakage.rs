//! Answers that are given away.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Severity};

/// With fewer, one that tells the target is the whole problem, not a leak.
const FEWEST_COLUMNS: usize = 4;

pub struct Leakage;

impl Check for Leakage {
    fn cause(&self) -> &'static str {
        "leakage"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Data]
    }

    fn threshold(&self) -> &'static str {
        "A column goes with the target at 0.995 and more and no other of at least four comes near (else it may just be a simple law), or more than half of the validation rows are training rows: the figures will not hold for new rows."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["too-small", "learning-rate-too-low", "overfitting", "label-noise", "too-few-epochs", "duplicate-column"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let data = e.data.as_ref()?;
        let column = data.columns.iter().find(|c| c.with_target.abs() > 0.995 && c.values > 1);
        if let Some(column) = column {
            let what = format!("column {} is nearly the target itself; is it known before the target is?", column.name);
            let others = data.columns.iter().filter(|c| c.name != column.name);
            let next = others.map(|c| c.with_target.abs()).fold(0.0, f64::max);
            let alone = data.columns.len() >= FEWEST_COLUMNS && next < 0.95;
            let (severity, sure) = if alone { (Severity::Fault, 0.85) } else { (Severity::Note, 0.3) };
            let finding = Finding::new("leakage", severity, what).sure(sure);
            let finding = finding.because("relation with the target", column.with_target);
            return Some(finding.because("that of the next column", next));
        }
        if data.shared_rows > 0.5 && data.validation_rows >= 20 {
            let what = format!(
                "{:.0}% of the validation rows are training rows too: validation tells what is remembered",
                data.shared_rows * 100.0
            );
            let finding = Finding::new("leakage", Severity::Fault, what).sure(0.85);
            return Some(finding.because("share of validation rows that are training rows", data.shared_rows));
        }
        None
    }
}
