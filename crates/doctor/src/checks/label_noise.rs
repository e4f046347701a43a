//! Labels that contradict the rest.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct LabelNoise;

impl Check for LabelNoise {
    fn cause(&self) -> &'static str {
        "label-noise"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Data, Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "More than 10% of rows are given to another class by networks that have not seen them, as surely as that class's own rows: sound labels leave up to 5%, and of wrong ones two thirds are found."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["overfitting", "no-early-stop", "too-small", "batch-too-small", "no-schedule", "too-few-epochs"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (data, d) = (e.data.as_ref()?, e.dynamic.as_ref()?);
        // numbers with heavy tails, and two classes that overlap, look the same as wrong labels
        if data.target.classes.len() < 3 {
            return None;
        }
        let wrong = d.contradicted?;
        let learned = d.median(|run| run.best());
        if wrong < 0.1 || learned > 0.9 {
            return None;
        }
        let what = format!(
            "about {:.0}% of the labels contradict what the other rows say, as surely as those say anything",
            wrong * 100.0
        );
        let finding = Finding::new("label-noise", Severity::Warning, what).sure(0.75);
        let finding =
            finding.because("share of contradicted labels", wrong).because("best error on training rows", learned);
        let fix = Fix::new("look at those rows").remove("label-noise");
        Some(finding.fix(fix))
    }
}
