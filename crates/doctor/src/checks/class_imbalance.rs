//! Rare classes.

use citius_nn::Loss;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct ClassImbalance;

impl Check for ClassImbalance {
    fn cause(&self) -> &'static str {
        "class-imbalance"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Data, Kind::Dynamic]
    }

    fn threshold(&self) -> &'static str {
        "A class is 8 times as frequent as another, which the network gets wrong in more than 40% of its rows, and no weights of classes answer it."
    }

    fn explains(&self) -> &'static [&'static str] {
        // what is rare is learned late: more epochs help it too, and weights sooner
        &["too-small", "batch-too-small", "too-few-epochs"]
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let (s, d, data) = (e.settings.as_ref()?, e.dynamic.as_ref()?, e.data.as_ref()?);
        let counts: Vec<f64> = data.target.classes.iter().map(|c| *c as f64).filter(|c| *c > 0.0).collect();
        let weighted =
            matches!(&s.loss, Loss::CrossEntropy { class_weights: Some(_), .. } | Loss::Bce { pos_weight: Some(_) });
        if counts.len() < 2 || weighted {
            return None;
        }
        let (least, most) = counts.iter().fold((f64::INFINITY, 0.0f64), |(l, m), c| (l.min(*c), m.max(*c)));
        let wrong = d.median(|run| {
            run.points.last().map_or(0.0, |p| p.validation.unwrap_or(p.train).rarest.max(p.train.rarest))
        });
        if most < 8.0 * least {
            return None;
        }
        let what = format!(
            "the largest class has {:.0} times the rows of the smallest, which the network gets wrong in {:.0}% of its rows",
            most / least,
            wrong * 100.0
        );
        let severity = if wrong > 0.4 { Severity::Warning } else { Severity::Note };
        let finding = Finding::new("class-imbalance", severity, what).sure(0.85);
        let finding = finding
            .because("rows of the largest class", most)
            .because("of the smallest", least)
            .because("share of the smallest that is wrong", wrong);
        let n: f64 = counts.iter().sum();
        let weights: Vec<f64> =
            data.target.classes.iter().map(|c| n / (counts.len() as f64 * (*c as f64).max(1.0))).collect();
        let fix = Fix::new("weigh classes by what they lack");
        Some(match &s.loss {
            Loss::Bce { .. } => {
                let weight = data.target.classes[0] as f64 / (data.target.classes[1] as f64).max(1.0);
                finding.fix(fix.set("loss.name", "bce").set("loss.pos_weight", vec![weight]))
            }
            _ => finding.fix(fix.set("loss.name", "cross-entropy").set("loss.class_weights", weights)),
        })
    }
}
