//! Learning-rate schedules, one file each: the rate as a function of the updates already made, compiled into the step.

mod cosine;
mod exponential;
mod one_cycle;
mod plateau;
mod step;
mod warmup;

use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

pub use cosine::Cosine;
pub use exponential::Exponential;
pub use one_cycle::OneCycle;
pub use plateau::{Better, Plateau, PlateauWatch, Threshold};
pub use step::Step;
pub use warmup::Warmup;

use crate::ByName;

/// The learning rate over time.
pub trait Schedule {
    /// The rate, a scalar, for the update that follows `t` (a scalar: updates already made, 0 at first).
    #[track_caller]
    fn rate(&self, base: f64, t: &Tensor) -> Tensor;
}

/// A schedule by name with its settings. Lengths are in updates.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum ScheduleConfig {
    #[default]
    Constant,
    Step(Step),
    Exponential(Exponential),
    Cosine(Cosine),
    OneCycle(OneCycle),
    Warmup(Warmup),
    Plateau(Plateau),
}

impl ByName for ScheduleConfig {
    fn by_name(name: &str) -> Result<ScheduleConfig, String> {
        crate::config::from_name(name)
    }

    fn is_its_name(&self) -> Option<&'static str> {
        matches!(self, ScheduleConfig::Constant).then_some("a constant schedule has none; the rate is `lr`")
    }
}

impl ScheduleConfig {
    pub fn name(&self) -> &'static str {
        match self {
            ScheduleConfig::Constant => "constant",
            ScheduleConfig::Step(_) => "step",
            ScheduleConfig::Exponential(_) => "exponential",
            ScheduleConfig::Cosine(_) => "cosine",
            ScheduleConfig::OneCycle(_) => "one-cycle",
            ScheduleConfig::Warmup(_) => "warmup",
            ScheduleConfig::Plateau(_) => "plateau",
        }
    }

    /// Refuses settings that no training can mean.
    pub fn check(&self) -> Result<(), String> {
        let above_0 = |what: &str, value: f64| match value.is_finite() && value > 0.0 {
            true => Ok(()),
            false => Err(format!("the {what} of the schedule is {value}, it must be a number above 0")),
        };
        match self {
            ScheduleConfig::Step(s) => above_0("step_size", s.step_size as f64).and(above_0("gamma", s.gamma)),
            ScheduleConfig::Exponential(s) => above_0("gamma", s.gamma),
            ScheduleConfig::Warmup(s) => s.then.check(),
            ScheduleConfig::Constant
            | ScheduleConfig::Cosine(_)
            | ScheduleConfig::OneCycle(_)
            | ScheduleConfig::Plateau(_) => Ok(()),
        }
    }

    /// Lengths that were left open become those of a run of `updates`.
    pub fn over(self, updates: usize) -> ScheduleConfig {
        match self {
            ScheduleConfig::Cosine(s) => ScheduleConfig::Cosine(Cosine { t_max: s.t_max.or(Some(updates)), ..s }),
            ScheduleConfig::OneCycle(s) => {
                ScheduleConfig::OneCycle(OneCycle { total_steps: s.total_steps.or(Some(updates)), ..s })
            }
            ScheduleConfig::Warmup(s) => {
                let then = Box::new(s.then.over(updates.saturating_sub(s.steps)));
                ScheduleConfig::Warmup(Warmup { then, ..s })
            }
            fixed @ (ScheduleConfig::Constant
            | ScheduleConfig::Step(_)
            | ScheduleConfig::Exponential(_)
            | ScheduleConfig::Plateau(_)) => fixed,
        }
    }

    /// The plateau rule inside, when there is one: someone must feed its [`Plateau::watch`] with a metric.
    pub fn plateau(&self) -> Option<&Plateau> {
        match self {
            ScheduleConfig::Plateau(p) => Some(p),
            ScheduleConfig::Warmup(w) => w.then.plateau(),
            ScheduleConfig::Constant
            | ScheduleConfig::Step(_)
            | ScheduleConfig::Exponential(_)
            | ScheduleConfig::Cosine(_)
            | ScheduleConfig::OneCycle(_) => None,
        }
    }
}

impl Schedule for ScheduleConfig {
    #[track_caller]
    fn rate(&self, base: f64, t: &Tensor) -> Tensor {
        match self {
            ScheduleConfig::Constant => t.constant(base),
            ScheduleConfig::Step(s) => s.rate(base, t),
            ScheduleConfig::Exponential(s) => s.rate(base, t),
            ScheduleConfig::Cosine(s) => s.rate(base, t),
            ScheduleConfig::OneCycle(s) => s.rate(base, t),
            ScheduleConfig::Warmup(s) => s.rate(base, t),
            ScheduleConfig::Plateau(s) => s.rate(base, t),
        }
    }
}

/// `gammaᵏ` for a scalar k.
#[track_caller]
fn power(schedule: &str, gamma: f64, k: &Tensor) -> Tensor {
    if gamma.is_nan() || gamma <= 0.0 {
        k.graph().report(schedule, format!("gamma is {gamma}, must be above 0"));
        return k.constant(1.0);
    }
    (k * gamma.ln()).exp()
}

#[cfg(test)]
pub(crate) fn at(schedule: &dyn Schedule, base: f64, t: usize) -> f64 {
    // constants fold, so a schedule of a constant is a number
    let g = citius_graph::Graph::new();
    let rate = schedule.rate(base, &g.scalar(t as f64)).as_constant();
    g.check().unwrap();
    rate.expect("a schedule of a constant is a constant")
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn open_lengths_are_mistakes_until_filled() {
        for name in ["cosine", "one-cycle"] {
            let g = Graph::new();
            let schedule = ScheduleConfig::by_name(name).unwrap();
            schedule.rate(0.1, &g.step());
            assert!(g.check().unwrap_err().to_string().contains("over("), "{name}");
            let g = Graph::new();
            schedule.over(100).rate(0.1, &g.step());
            g.check().unwrap();
        }
        let warm =
            Warmup { steps: 10, then: Box::new(ScheduleConfig::by_name("cosine").unwrap()), ..Warmup::default() };
        let ScheduleConfig::Warmup(warm) = ScheduleConfig::Warmup(warm).over(100) else { unreachable!() };
        assert_eq!(*warm.then, ScheduleConfig::Cosine(Cosine { t_max: Some(90), eta_min: 0.0 }));
    }
}
