//! Columns that say the same.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct CorrelatedColumns;

impl Check for CorrelatedColumns {
    fn cause(&self) -> &'static str {
        "correlated-columns"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Data]
    }

    fn threshold(&self) -> &'static str {
        "Two columns of numbers correlate at 0.995 and more: along the direction in which they differ the loss is 400 times as flat."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let data = e.data.as_ref()?;
        let strong = |(a, b, r): &&(usize, usize, f64)| {
            let (a, b) = (&data.columns[*a], &data.columns[*b]);
            r.abs() >= 0.995 && a.values > 2 && b.values > 2 && b.same_as.is_none()
        };
        let pairs: Vec<_> = data.pairs.iter().filter(strong).collect();
        let (a, b, r) = pairs.first()?;
        let what = format!("{} and {} say nearly the same", data.columns[*a].name, data.columns[*b].name);
        let finding = Finding::new("correlated-columns", Severity::Warning, what).sure(0.9);
        let finding = finding.because("correlation", *r).because("such pairs", pairs.len() as f64);
        let fix = Fix::new("leave one of them out").set("prepare.select.max-correlation", 0.99);
        Some(finding.fix(fix))
    }
}
