//! The loss against the task.

use citius_data::Task;
use citius_nn::Loss;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct WrongLoss;

impl Check for WrongLoss {
    fn cause(&self) -> &'static str {
        "wrong-loss"
    }

    fn needs(&self) -> &'static [Kind] {
        &[]
    }

    fn threshold(&self) -> &'static str {
        "The loss is made for another task than the target asks for: what it measures is not what is wanted, whatever the steps do."
    }

    fn explains(&self) -> &'static [&'static str] {
        &["softmax-missing", "softmax-twice", "wrong-head", "unscaled-target"]
    }

    fn stops_learning(&self) -> bool {
        true
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let task = e.task?;
        let loss = e.settings.as_ref().map(|s| &s.loss).or(e.wishes.loss.as_ref())?;
        let fits = matches!(
            (task, loss),
            (Task::Regression, Loss::Mse | Loss::Mae | Loss::Huber { .. } | Loss::Quantile { .. })
                | (Task::Binary, Loss::Bce { .. } | Loss::CrossEntropy { .. } | Loss::Nll)
                | (Task::Classes, Loss::CrossEntropy { .. } | Loss::Nll)
        );
        if fits {
            return None;
        }
        let usual = match task {
            Task::Regression => "mse",
            Task::Binary => "bce",
            Task::Classes => "cross-entropy",
        };
        let what = format!("the loss is {}, and the target asks for {task}: {usual} measures that", loss.name());
        let mut finding = Finding::new("wrong-loss", Severity::Fault, what).sure(0.97);
        if let Some(data) = &e.data {
            finding = finding
                .because("different targets", data.target.distinct as f64)
                .because("classes", data.target.classes.len() as f64);
        }
        let fix = Fix::new(format!("take {usual}"))
            .set("loss", usual)
            .remove("misfit")
            .remove("reduction")
            .remove("quantiles");
        Some(finding.fix(fix.remove("broadcast").remove("head")))
    }
}
