//! Modes of layers.

use citius_nn::{HiddenLayer, LayerMode, LayerNormKind, Network};

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct WrongMode;

impl Check for WrongMode {
    fn cause(&self) -> &'static str {
        "wrong-mode"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Static]
    }

    fn threshold(&self) -> &'static str {
        "Dropout or batch norm in the other mode than the step is for: what is trained is not what is judged."
    }

    fn explains(&self) -> &'static [&'static str] {
        &[
            "overfitting",
            "dead-units",
            "regularisation-too-strong",
            "non-finite",
            "exploding-gradients",
            "learning-rate-too-high",
            "too-small",
            "vanishing-gradients",
            "too-few-epochs",
            "no-schedule",
        ]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let s = e.settings.as_ref()?;
        let d = &s.details;
        let own = d.layers.iter().find_map(|layer| layer.mode);
        let what = match (d.mode, d.validation_mode, own) {
            (Some(LayerMode::Eval), _, _) => "layers are in the mode of prediction while they train",
            (_, Some(LayerMode::Train), _) => "layers are in the mode of training while they are judged",
            (_, _, Some(LayerMode::Eval)) => "a layer stays in the mode of prediction while it trains",
            (_, _, Some(LayerMode::Train)) => "a layer stays in the mode of training while it predicts",
            _ => return None,
        };
        // dropout and batch norm alone know of modes
        let dropout = s.dropout > 0.0 || d.layers.iter().any(|layer| layer.dropout.is_some_and(|p| p > 0.0));
        let norm = d.layers.iter().any(|layer| layer.norm == Some(LayerNormKind::Batch));
        let pictures = matches!(
            s.network,
            Network::Vgg { .. } | Network::Resnet18 { .. } | Network::Resnet34 { .. } | Network::Resnet50 { .. }
        );
        let matters = dropout || norm || pictures;
        let severity = if matters { Severity::Fault } else { Severity::Note };
        let mut finding = Finding::new("wrong-mode", severity, what).sure(if matters { 0.95 } else { 0.5 });
        if let Some(gap) = e.dynamic.as_ref().and_then(|d| d.gap) {
            finding = finding
                .because("loss of some rows while training", gap.train)
                .because("of the same rows while predicting", gap.predict);
        }
        let mut fix = Fix::new("let each step be in its own mode").remove("mode").remove("validation-mode");
        if own.is_some() {
            let layers = d.layers.iter().map(|layer| HiddenLayer { mode: None, ..layer.clone() });
            fix = fix.layers(layers.collect());
        }
        Some(finding.fix(fix))
    }
}
