use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::{Schedule, ScheduleConfig};
use crate::name_or_table;

/// The rate grows in a line from `start_factor` of its value to all of it in `steps` updates; `then` begins where that ends.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Warmup {
    pub steps: usize,
    pub start_factor: f64,
    #[serde(deserialize_with = "boxed")]
    pub then: Box<ScheduleConfig>,
}

impl Default for Warmup {
    fn default() -> Self {
        Warmup { steps: 100, start_factor: 0.1, then: Box::default() }
    }
}

impl Schedule for Warmup {
    #[track_caller]
    fn rate(&self, base: f64, t: &Tensor) -> Tensor {
        let steps = self.steps as f64;
        let later = (t - steps).maximum(&t.constant(0.0));
        let rate = self.then.rate(base, &later);
        if self.steps == 0 {
            return rate;
        }
        let grown = (t / steps).minimum(&t.constant(1.0));
        rate * (grown * (1.0 - self.start_factor) + self.start_factor)
    }
}

fn boxed<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Box<ScheduleConfig>, D::Error> {
    name_or_table(deserializer).map(Box::new)
}

#[cfg(test)]
mod tests {
    use super::super::{Cosine, at};
    use super::*;

    #[test]
    fn the_next_schedule_starts_where_it_ends() {
        let then = ScheduleConfig::Cosine(Cosine { t_max: Some(10), eta_min: 0.0 });
        let s = Warmup { steps: 4, start_factor: 0.2, then: Box::new(then) };
        for (t, rate) in [(0, 0.2), (2, 0.6), (4, 1.0), (9, 0.5), (14, 0.0)] {
            assert!((at(&s, 1.0, t) - rate).abs() < 1e-12, "{t}");
        }
    }
}
