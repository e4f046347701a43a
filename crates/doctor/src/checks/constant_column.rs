//! Columns with one value.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct ConstantColumn;

impl Check for ConstantColumn {
    fn cause(&self) -> &'static str {
        "constant-column"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Data]
    }

    fn threshold(&self) -> &'static str {
        "An input has one value in all rows."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let data = e.data.as_ref()?;
        let seen: Vec<&str> =
            data.columns.iter().filter(|c| c.std == 0.0 && !c.hashed_word).map(|c| c.name.as_str()).collect();
        // the preparation has dropped them: worth knowing, as somebody meant them to say something
        let (names, severity): (Vec<&str>, _) = match seen.is_empty() {
            true => (data.dropped.iter().map(String::as_str).collect(), Severity::Note),
            false => (seen, Severity::Warning),
        };
        let first = names.first()?;
        let what = format!(
            "{first} has the same value in every row{}",
            if names.len() > 1 { ", and so have others" } else { "" }
        );
        let finding = Finding::new("constant-column", severity, what).sure(0.97);
        let finding = finding.because("columns with one value", names.len() as f64);
        Some(match severity {
            Severity::Note => finding,
            _ => finding.fix(Fix::new("leave it out").set("prepare.select.min-variance", 1e-9)),
        })
    }
}
