//! Probabilities where logits are wanted.

use citius_nn::{Head, Loss};

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Severity};

pub struct SoftmaxTwice;

impl Check for SoftmaxTwice {
    fn cause(&self) -> &'static str {
        "softmax-twice"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Static]
    }

    fn threshold(&self) -> &'static str {
        "The loss takes logits and the network gives probabilities: the second softmax of numbers between 0 and 1 can never be sure of anything."
    }

    fn stops_learning(&self) -> bool {
        true
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let s = e.settings.as_ref()?;
        let (first, second) = match (s.details.head, &s.loss) {
            (Head::Softmax { axis: 1 }, Loss::CrossEntropy { .. }) => ("softmax", "cross-entropy takes another"),
            (Head::Sigmoid, Loss::Bce { .. }) => ("sigmoid", "bce takes another"),
            (Head::Sigmoid, Loss::CrossEntropy { .. }) => ("sigmoid", "cross-entropy takes a softmax of it"),
            _ => return None,
        };
        let what = format!("the network ends in a {first}, and {second}: outputs between 0 and 1 are taken for logits");
        let classes = e.data.as_ref().map_or(2, |d| d.target.classes.len().max(2)) as f64;
        // softmax of a perfect answer: 1 against 0s
        let floor = (1.0 + (classes - 1.0) * (-1f64).exp()).ln();
        let finding = Finding::new("softmax-twice", Severity::Fault, what).sure(0.97);
        let finding = finding.because("lowest loss that can be reached", floor).because("classes", classes);
        Some(finding.fix(Fix::new("leave the head out").remove("head")))
    }
}
