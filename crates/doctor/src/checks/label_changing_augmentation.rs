//! Pictures turned into pictures of something else.

use citius_nn::Vary;
use toml::Value;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct LabelChangingAugmentation;

impl Check for LabelChangingAugmentation {
    fn cause(&self) -> &'static str {
        "label-changing-augmentation"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "Training pictures are mirrored, which a 6, a letter or a road sign does not bear, and without that less than 6/10 of the error is left on pictures as they are, in as many steps: what only makes learning harder costs less."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["too-few-epochs", "too-small", "no-schedule", "learning-rate-too-low", "label-noise"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let s = e.settings.as_ref()?;
        let mirrors = |vary: &Vary| matches!(vary, Vary::MirrorX { .. } | Vary::MirrorY { .. });
        // what a loader turns cannot be had otherwise here
        if !s.augment.iter().any(mirrors) {
            return None;
        }
        let fix = Fix::new("pictures as they are").set("augment", Vec::<Value>::new());
        let (changed, _) = super::changed(e, &fix)?;
        let answer = e.what_if.as_ref()?.ask(&changed)?;
        let (now, then) = match (answer.validation_now, answer.validation_then) {
            (Some(now), Some(then)) => (now, then),
            _ => (answer.now, answer.then),
        };
        if then > 0.6 * now || now - then < 0.05 {
            return None;
        }
        let what = "training pictures are mirrored, and some of them then show something else than their label says";
        let finding = Finding::new("label-changing-augmentation", Severity::Fault, what).sure(0.85);
        let finding = finding
            .because("error on pictures as they are, now", now)
            .because("in as many steps without mirroring", then);
        Some(finding.fix(fix))
    }
}
