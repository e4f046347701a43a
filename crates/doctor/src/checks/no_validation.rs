//! Rows to judge by.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct NoValidation;

impl Check for NoValidation {
    fn cause(&self) -> &'static str {
        "no-validation"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Data]
    }

    fn threshold(&self) -> &'static str {
        "There are no validation rows, though there are enough rows to spare some: nothing tells when to stop."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["no-early-stop"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let data = e.data.as_ref()?;
        if data.validation_rows > 0 {
            return None;
        }
        let told = e.wishes.validation.is_some_and(|share| share == 0.0);
        let (severity, what) = match told && data.rows >= 100 {
            true => (
                Severity::Warning,
                "no rows are kept for validation: nothing tells how it does on rows it has not seen",
            ),
            false => (Severity::Note, "no rows are kept for validation: nothing tells when to stop"),
        };
        let finding =
            Finding::new("no-validation", severity, what).sure(0.97).because("training rows", data.rows as f64);
        Some(finding.fix(Fix::new("keep a tenth").set("validation", 0.1)))
    }
}
