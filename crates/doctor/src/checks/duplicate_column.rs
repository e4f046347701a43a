//! Columns that are there twice.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct DuplicateColumn;

impl Check for DuplicateColumn {
    fn cause(&self) -> &'static str {
        "duplicate-column"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Data]
    }

    fn threshold(&self) -> &'static str {
        "Two inputs have the same value in every row: one of them tells nothing."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["correlated-columns"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let data = e.data.as_ref()?;
        let twins: Vec<_> =
            data.columns.iter().filter(|c| c.same_as.is_some() && c.values > 2 && !c.hashed_word).collect();
        let first = twins.first()?;
        let other = &data.columns[first.same_as?].name;
        let what = format!("{} has the same values as {other}", first.name);
        let finding = Finding::new("duplicate-column", Severity::Warning, what).sure(0.97);
        let fix = Fix::new("leave one of them out").set("prepare.select.max-correlation", 0.999);
        Some(finding.because("columns that are there twice", twins.len() as f64).fix(fix))
    }
}
