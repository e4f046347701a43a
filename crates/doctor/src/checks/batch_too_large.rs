//! Batches of too many rows.

use super::Check;
use crate::arm::end;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct BatchTooLarge;

impl Check for BatchTooLarge {
    fn cause(&self) -> &'static str {
        "batch-too-large"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "A batch is a quarter of all rows or more, the run has few updates, and 32 rows in a batch leave less than 0.7 of the error in as many epochs."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["too-few-epochs", "learning-rate-too-low", "no-momentum"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d) = (e.settings.as_ref()?, e.dynamic.as_ref()?);
        let rows = e.data.as_ref()?.rows;
        let batch = s.batch_size.min(rows) * s.accumulate.max(1);
        let error = d.median(|run| end(&run.points, |p| p.train.error));
        if batch < 128 || batch * 4 < rows || !d.whole || error < 0.1 {
            return None;
        }
        let fix = Fix::new("fewer rows in a batch, more updates").set("batch-size", 32i64).remove("accumulate");
        let (changed, _) = super::changed(e, &fix)?;
        let answer = e.what_if.as_ref()?.ask_for(&changed, (batch as f64 / 32.0).min(40.0))?;
        let ratio = answer.then / answer.now.max(1e-9);
        if ratio > 0.7 {
            return None;
        }
        let what = format!("batches of {batch} of {rows} rows: an epoch has {} updates", rows.div_ceil(batch));
        let mut finding = Finding::new("batch-too-large", Severity::Warning, what).sure(0.85);
        finding = finding.because("error now", answer.now).because("with 32 rows, in as many epochs", answer.then);
        if let Some(noise) = d.noise {
            finding = finding.because("noise scale of the gradient, in rows", noise.scale);
        }
        Some(finding.fix(fix))
    }
}
