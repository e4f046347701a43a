//! Whether anything tells the label.

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct UnrelatedLabels;

impl Check for UnrelatedLabels {
    fn cause(&self) -> &'static str {
        "unrelated-labels"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Data, Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "The nearest rows say no more of a row's label than rows dealt out at random, no column goes with it, and the network does no better than a constant on rows it has not seen."
    }

    fn explains(&self) -> &'static [&'static str] {
        &[
            "overfitting",
            "label-noise",
            "no-early-stop",
            "too-small",
            "learning-rate-too-low",
            "learning-rate-too-high",
            "batch-too-small",
            "class-imbalance",
            "too-few-epochs",
            "no-schedule",
            "no-momentum",
            "too-deep",
            "vanishing-gradients",
            "regularisation-too-strong",
            "dead-units",
        ]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (data, d) = (e.data.as_ref()?, e.dynamic.as_ref()?);
        let near = data.neighbours?;
        let by_chance = near.by_chance.max(0.0) * 1.5 + 0.02;
        // of several columns the strongest is by chance within about 4/√n
        let n = data.rows.min(4096) as f64;
        let column = data.strongest().map_or(0.0, |c| c.with_target.abs());
        let classes = data.target.classes.len().saturating_sub(1).max(1) as f64;
        if near.explained > by_chance || column > 4.0 * (classes / n).sqrt() {
            return None;
        }
        let unseen = d.median(|run| {
            // the best of many is luck: the mean of the second half
            let errors: Vec<f64> = run.points.iter().filter_map(|p| p.validation).map(|v| v.error).collect();
            if errors.is_empty() {
                return 1.0; // nothing speaks against it
            }
            let late = &errors[errors.len() / 2..];
            late.iter().sum::<f64>() / late.len().max(1) as f64
        });
        if unseen < 0.9 {
            return None;
        }
        let what =
            "the labels have nothing to do with the features: neither columns nor neighbours nor the network tell them";
        let finding = Finding::new("unrelated-labels", Severity::Fault, what).sure(0.9);
        let finding = finding
            .because("share of the label that the nearest rows tell", near.explained)
            .because("by chance", near.by_chance)
            .because("strongest relation of a column", column)
            .because("error on unseen rows, a constant has 1", unseen);
        let fix = Fix::new("look at how labels were joined to rows").remove("shuffle-labels");
        Some(finding.fix(fix))
    }
}
