//! Penalties against the data.

use citius_nn::HiddenLayer;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct RegularisationTooStrong;

impl Check for RegularisationTooStrong {
    fn cause(&self) -> &'static str {
        "regularisation-too-strong"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "Dropout of 0.6 and more, or a weight decay of 0.03 and more, without which less than 3/4 of the error on training rows is left in as many steps."
    }

    fn explains(&self) -> &'static [&'static str] {
        &[
            "too-small",
            "learning-rate-too-low",
            "vanishing-gradients",
            "dead-units",
            "too-few-epochs",
            "init-too-small",
            "batch-too-small",
            "no-schedule",
        ]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let s = e.settings.as_ref()?;
        let layers = s.details.layers.iter().filter_map(|layer| layer.dropout).fold(0.0, f64::max);
        let (dropout, decay) = (s.dropout.max(layers), s.weight_decay());
        if dropout < 0.6 && decay < 0.03 {
            return None;
        }
        let mut fix = Fix::new("less of it");
        if dropout >= 0.6 {
            fix = fix.set("dropout", 0.1);
        }
        if layers >= 0.6 {
            let less =
                s.details.layers.iter().map(|l| HiddenLayer { dropout: l.dropout.map(|p| p.min(0.1)), ..l.clone() });
            fix = fix.layers(less.collect());
        }
        if decay >= 0.03 {
            fix = fix.set("weight-decay", 0.0);
        }
        let (changed, _) = super::changed(e, &fix)?;
        let answer = e.what_if.as_ref()?.ask(&changed)?;
        let ratio = answer.then / answer.now.max(1e-9);
        let unseen = match (answer.validation_now, answer.validation_then) {
            (Some(now), Some(then)) => then / now.max(1e-9),
            _ => ratio,
        };
        if ratio > 0.75 || unseen > 0.95 {
            return None;
        }
        let what = match dropout >= 0.6 {
            true => format!("dropout {dropout} leaves too little of a signal to learn from"),
            false => format!("weight decay {decay} pulls the weights to 0 faster than the data pulls them away"),
        };
        let finding = Finding::new("regularisation-too-strong", Severity::Fault, what).sure(0.9);
        let finding = finding
            .because("dropout", dropout)
            .because("weight decay", decay)
            .because("error on training rows now", answer.now)
            .because("without", answer.then);
        Some(finding.fix(fix))
    }
}
