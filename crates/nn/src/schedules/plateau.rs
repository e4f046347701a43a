use citius_graph::{Init, Tensor};
use serde::{Deserialize, Serialize};

use super::Schedule;

/// Reduces the rate by `factor` when a metric has not improved for more than `patience` observations. The graph multiplies the
/// base rate by the state `schedule.scale`; [`PlateauWatch`] decides, outside the graph, what that state becomes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plateau {
    pub better: Better,
    pub factor: f64,
    pub patience: usize,
    pub threshold: f64,
    pub threshold_mode: Threshold,
    /// Observations to ignore after a reduction.
    pub cooldown: usize,
    pub min_lr: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    #[default]
    Lower,
    Higher,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Threshold {
    /// An improvement is better than the best by this part of it.
    #[default]
    Relative,
    Absolute,
}

impl Default for Plateau {
    fn default() -> Self {
        Plateau {
            better: Better::Lower,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            threshold_mode: Threshold::Relative,
            cooldown: 0,
            min_lr: 0.0,
        }
    }
}

impl Schedule for Plateau {
    #[track_caller]
    fn rate(&self, base: f64, t: &Tensor) -> Tensor {
        t.graph().state(Plateau::SCALE, &[], Init::Constant(1.0)) * base
    }
}

impl Plateau {
    /// Name of the state that holds the factor reached.
    pub const SCALE: &str = "schedule.scale";

    pub fn watch(self, base: f64) -> PlateauWatch {
        PlateauWatch { plateau: self, base, scale: 1.0, best: None, bad: 0, resting: 0 }
    }
}

/// The decisions of a [`Plateau`], to be saved with a checkpoint.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlateauWatch {
    plateau: Plateau,
    base: f64,
    scale: f64,
    best: Option<f64>,
    bad: usize,
    resting: usize,
}

impl PlateauWatch {
    /// What `schedule.scale` is to become, when this metric says so.
    pub fn observe(&mut self, metric: f64) -> Option<f64> {
        if self.improves(metric) {
            self.best = Some(metric);
            self.bad = 0;
        } else {
            self.bad += 1;
        }
        if self.resting > 0 {
            self.resting -= 1;
            self.bad = 0;
        }
        if self.bad <= self.plateau.patience {
            return None;
        }
        self.bad = 0;
        self.resting = self.plateau.cooldown;
        let old = self.base * self.scale;
        let new = (old * self.plateau.factor).max(self.plateau.min_lr);
        if old - new <= 1e-8 {
            return None; // as PyTorch: too small to matter
        }
        self.scale = new / self.base;
        Some(self.scale)
    }

    pub fn scale(&self) -> f64 {
        self.scale
    }

    fn improves(&self, metric: f64) -> bool {
        let Some(best) = self.best else { return !metric.is_nan() };
        let p = &self.plateau;
        match (p.better, p.threshold_mode) {
            (Better::Lower, Threshold::Relative) => metric < best * (1.0 - p.threshold),
            (Better::Lower, Threshold::Absolute) => metric < best - p.threshold,
            (Better::Higher, Threshold::Relative) => metric > best * (1.0 + p.threshold),
            (Better::Higher, Threshold::Absolute) => metric > best + p.threshold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_cooldown_and_floor() {
        let rule = Plateau { factor: 0.5, patience: 1, cooldown: 1, min_lr: 0.03, ..Plateau::default() };
        let mut watch = rule.watch(0.1);
        let seen: Vec<_> = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0].map(|m| watch.observe(m)).to_vec();
        // two bad ones reduce; the next is ignored; the floor is 0.03
        let (half, floor) = (Some(0.5), Some(0.03 / 0.1));
        assert_eq!(seen, [None, None, half, None, None, floor, None, None, None]);
    }

    #[test]
    fn higher_can_be_better_and_nan_never_is() {
        let rule = Plateau { better: Better::Higher, patience: 0, ..Plateau::default() };
        let mut watch = rule.watch(1.0);
        assert_eq!([0.5, 0.6, f64::NAN].map(|m| watch.observe(m)), [None, None, Some(0.1)]);
    }
}
