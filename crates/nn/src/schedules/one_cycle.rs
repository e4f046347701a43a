use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::Schedule;
use super::cosine::anneal;

/// Up from `base/div_factor` to `base` in the first `pct_start` of the run, then down to `base/div_factor/final_div_factor`,
/// each along half a cosine; it stays there after the last step.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OneCycle {
    /// Left open, it is the length of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_steps: Option<usize>,
    pub pct_start: f64,
    pub div_factor: f64,
    pub final_div_factor: f64,
}

impl Default for OneCycle {
    fn default() -> Self {
        OneCycle { total_steps: None, pct_start: 0.3, div_factor: 25.0, final_div_factor: 1e4 }
    }
}

impl Schedule for OneCycle {
    #[track_caller]
    fn rate(&self, base: f64, t: &Tensor) -> Tensor {
        let Some(total) = self.total_steps else {
            t.graph().report("one-cycle schedule", "total_steps is not known; give it, or call over(updates)");
            return t.constant(base);
        };
        let initial = base / self.div_factor;
        let last = initial / self.final_div_factor;
        // the peak is at step pct_start·total − 1, the end at total − 1
        let end = total as f64 - 1.0;
        let peak = (self.pct_start * total as f64 - 1.0).min(end);
        let whole = |part: Tensor| part.clamp(0.0, 1.0);
        let down = match end > peak {
            true => anneal(base, last, &whole((t - peak) / (end - peak))),
            false => t.constant(base),
        };
        match peak > 0.0 {
            true => t.le(&t.constant(peak)).choose(&anneal(initial, base, &whole(t / peak)), &down),
            false => down,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::at;
    use super::*;

    #[test]
    fn short_runs_are_finite() {
        for total in 0..5 {
            let s = OneCycle { total_steps: Some(total), ..OneCycle::default() };
            for t in 0..7 {
                let rate = at(&s, 0.1, t);
                assert!(rate > 0.0 && rate <= 0.1, "{total} {t} {rate}");
            }
        }
    }

    #[test]
    fn stays_at_the_end() {
        let s = OneCycle { total_steps: Some(50), ..OneCycle::default() };
        assert!((at(&s, 0.1, 49) - 0.1 / 25.0 / 1e4).abs() < 1e-15);
        assert_eq!(at(&s, 0.1, 49), at(&s, 0.1, 500));
    }
}
