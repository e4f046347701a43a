use std::f64::consts::PI;

use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::Schedule;

/// `eta_min + (base − eta_min)·(1 + cos(π·t/t_max))/2`: down to `eta_min` at `t_max`, and up again after it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cosine {
    /// Left open, it is the length of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_max: Option<usize>,
    pub eta_min: f64,
}

impl Schedule for Cosine {
    #[track_caller]
    fn rate(&self, base: f64, t: &Tensor) -> Tensor {
        let Some(t_max) = self.t_max else {
            t.graph().report("cosine schedule", "t_max is not known; give it, or call over(updates)");
            return t.constant(base);
        };
        anneal(base, self.eta_min, &(t / t_max.max(1) as f64))
    }
}

/// From `start` at 0 to `end` at 1 along half a cosine.
#[track_caller]
pub(super) fn anneal(start: f64, end: f64, part: &Tensor) -> Tensor {
    ((part * PI).cos() + 1.0) * (0.5 * (start - end)) + end
}

#[cfg(test)]
mod tests {
    use super::super::at;
    use super::*;

    #[test]
    fn ends_and_middle() {
        let s = Cosine { t_max: Some(10), eta_min: 0.2 };
        for (t, rate) in [(0, 1.0), (5, 0.6), (10, 0.2), (15, 0.6), (20, 1.0)] {
            assert!((at(&s, 1.0, t) - rate).abs() < 1e-12, "{t}");
        }
    }
}
