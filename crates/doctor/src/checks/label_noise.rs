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
        "More than 10% of rows are contradicted with a clear voice by a network that has not seen them, or 6.5% are 4 times as far from their neighbours as is usual; errors of one kind leave 1 to 4%."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["overfitting", "no-early-stop", "too-small", "batch-too-small", "no-schedule"]
    }

    fn look(&self, evidence: &Evidence) -> Vec<Finding> {
        self.find(evidence).into_iter().collect()
    }
}

impl LabelNoise {
    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (data, d) = (e.data.as_ref()?, e.dynamic.as_ref()?);
        let classes = data.target.classes.len();
        let near = data.neighbours?;
        let wrong = match classes {
            // two classes that overlap look the same as two with wrong labels
            1 | 2 => return None,
            // few values are classes in all but name
            0 if data.target.distinct < 30 => return None,
            0 => near.contradicted,
            _ => d.contradicted?,
        };
        let learned = d.median(|run| run.best());
        let least = if classes == 0 { 0.065 } else { 0.1 };
        if wrong < least || learned > 0.9 {
            return None;
        }
        let what =
            format!("about {:.0}% of the labels contradict what the other rows say with one voice", wrong * 100.0);
        let finding = Finding::new("label-noise", Severity::Warning, what).sure(0.75);
        let finding =
            finding.because("share of contradicted labels", wrong).because("best error on training rows", learned);
        let robust = if classes == 0 { "mae" } else { "cross-entropy" };
        let fix = Fix::new("look at those rows; a loss that forgives outliers helps meanwhile").remove("label-noise");
        Some(finding.fix(if classes == 0 { fix.set("loss", robust) } else { fix }))
    }
}
