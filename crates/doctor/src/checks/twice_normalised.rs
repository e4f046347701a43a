//! Spread of the inputs against what the preparation claims.

use citius_data::Scale;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct TwiceNormalised;

impl Check for TwiceNormalised {
    fn cause(&self) -> &'static str {
        "twice-normalised"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Data]
    }

    fn threshold(&self) -> &'static str {
        "Columns that are said to be standardised have a deviation below 0.3 or a mean beyond 1: standardised once, they have 1 and 0."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["unscaled-features", "init-too-small", "symmetric-init", "correlated-columns", "duplicate-column"]
    }

    fn stops_learning(&self) -> bool {
        true
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let data = e.data.as_ref()?;
        let prepare = e.wishes.prepare.clone().unwrap_or_default();
        let claimed = prepare.scale;
        if claimed == Some(Scale::None) {
            return None;
        }
        if data.columns.is_empty() {
            // pictures and series: one scale for all
            let size = (data.mean * data.mean + data.std * data.std).sqrt();
            if data.std == 0.0 || (data.mean.abs() < 1.5 && data.std > 0.1 && size < 10.0) {
                return None;
            }
            let what = format!(
                "inputs are said to be scaled and have mean {:.3} and deviation {:.4}; scaling what is scaled already does that",
                data.mean, data.std
            );
            let finding = Finding::new("twice-normalised", Severity::Fault, what).sure(0.88);
            let finding = finding.because("mean of the inputs", data.mean).because("their deviation", data.std);
            return Some(finding.fix(Fix::new("scale once").remove("prepare.scale-times")));
        }
        if claimed.is_some_and(|scale| scale != Scale::Standard) || prepare.pca.is_some() {
            return None;
        }
        let own = |name: &str| prepare.columns.contains_key(name);
        let measured = data.columns.iter().filter(|c| !c.hashed_word && c.values > 2 && c.std > 0.0 && !own(&c.name));
        let (all, odd): (Vec<_>, Vec<_>) = measured.fold((Vec::new(), Vec::new()), |(mut all, mut odd), c| {
            all.push(c);
            if c.std < 0.3 || c.mean.abs() > 1.0 {
                odd.push(c);
            }
            (all, odd)
        });
        if odd.is_empty() || odd.len() * 3 < all.len() {
            return None;
        }
        let first = odd[0];
        let what = format!(
            "{} of {} columns are said to be standardised and are not: {} has mean {:.3} and deviation {:.4}; scaling what is \
             scaled already does that",
            odd.len(),
            all.len(),
            first.name,
            first.mean,
            first.std
        );
        let finding = Finding::new("twice-normalised", Severity::Fault, what).sure(0.9);
        let finding = finding
            .because("columns with another mean or deviation", odd.len() as f64)
            .because("columns", all.len() as f64)
            .because(format!("deviation of {}", first.name), first.std);
        Some(finding.fix(Fix::new("scale once").remove("prepare.scale-times").set("prepare.scale", "standard")))
    }
}
