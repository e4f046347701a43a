//! Scales of the inputs.

use super::{Check, unscaled_target};
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct UnscaledFeatures;

impl Check for UnscaledFeatures {
    fn cause(&self) -> &'static str {
        "unscaled-features"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Data]
    }

    fn threshold(&self) -> &'static str {
        "A column is typically beyond 10, or columns differ 50 times in size: one rate cannot suit weights whose gradients differ that much."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["correlated-columns", "init-too-large", "init-too-small", "unscaled-target"]
    }

    fn stops_learning(&self) -> bool {
        true
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let data = e.data.as_ref()?;
        let size = |c: &crate::evidence::data::ColumnFact| (c.mean * c.mean + c.std * c.std).sqrt();
        // what is 0 or 1 says yes or no, and has no scale
        let measured: Vec<_> = data.columns.iter().filter(|c| !c.hashed_word && c.values > 2 && c.std > 0.0).collect();
        let fix = Fix::new("standardise the columns").set("prepare.scale", "standard").remove("prepare.columns");
        // small inputs reach a large target only by large weights: both or none
        let fix = if unscaled_target::unscaled(e) { fix.remove("prepare.scale-target") } else { fix };
        if data.columns.is_empty() {
            // pictures and series: one scale for all
            let all = (data.mean * data.mean + data.std * data.std).sqrt();
            if all < 10.0 {
                return None;
            }
            let what = format!("inputs have mean {:.1} and deviation {:.1}, not about 0 and 1", data.mean, data.std);
            let finding = Finding::new("unscaled-features", Severity::Fault, what).sure(0.9);
            return Some(finding.because("mean", data.mean).because("deviation", data.std).fix(fix));
        }
        let largest = measured.iter().copied().max_by(|a, b| size(a).total_cmp(&size(b)))?;
        let smallest = measured.iter().copied().min_by(|a, b| a.std.total_cmp(&b.std))?;
        let apart = largest.std / smallest.std.max(1e-30);
        if size(largest) < 10.0 && (apart < 50.0 || size(largest) < 3.0) {
            return None;
        }
        let what = format!(
            "columns are on very different scales: {} is about {:.0}, {} about {:.2}; the largest drown the others",
            largest.name,
            size(largest),
            smallest.name,
            size(smallest)
        );
        let finding = Finding::new("unscaled-features", Severity::Fault, what).sure(0.95);
        let finding = finding
            .because(format!("deviation of {}", largest.name), largest.std)
            .because(format!("deviation of {}", smallest.name), smallest.std)
            .because("one by the other", apart);
        Some(finding.fix(fix))
    }
}
