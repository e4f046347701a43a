//! Batches of too few rows.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct BatchTooSmall;

impl Check for BatchTooSmall {
    fn cause(&self) -> &'static str {
        "batch-too-small"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "Four rows and fewer in a batch, a gradient whose noise outweighs it, 4 times as large, and 32 rows leave less of the error in about as many seconds."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["no-schedule", "learning-rate-too-high"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        let rows = e.data.as_ref()?.rows;
        if s.batch_size * s.accumulate.max(1) > 4 || rows < 128 {
            return None;
        }
        let noise = d.noise.map_or(f64::NAN, |n| n.scale);
        if noise < 4.0 * s.batch_size as f64 {
            return None;
        }
        let fix = Fix::new("more rows in a batch").set("batch-size", 32i64);
        let (changed, _) = super::changed(e, &fix)?;
        // a step of 32 rows takes about 4 times as long as one of few
        let answer = e.what_if.as_ref()?.ask_for(&changed, 0.25)?;
        if answer.worst_ratio > 0.95 {
            return None;
        }
        let what = format!("batches of {} rows: gradients are mostly noise", s.batch_size);
        let finding = Finding::new("batch-too-small", Severity::Warning, what).sure(0.85);
        let finding = finding
            .because("noise scale of the gradient, in rows", noise)
            .because("error now", answer.now)
            .because("with 32 rows, in as many seconds", answer.then);
        Some(finding.fix(fix))
    }
}
