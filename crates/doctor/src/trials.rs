//! A fix is tried before it is believed: control and treatment from the same weights on the same batches, over several seeds.

use serde::Serialize;

/// What a trial came to.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    pub verdict: Verdict,
    pub seeds: usize,
    /// Seconds to the target without and with the fix, the middle of the seeds.
    pub before: f64,
    pub after: f64,
    /// Whether the control never got there: `before` is how long it was given.
    pub never: bool,
    /// How many times as fast, and its interval.
    pub speedup: f64,
    pub interval: (f64, f64),
    /// The same of a random change that costs as much.
    pub random: f64,
    pub random_change: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Confirmed,
    NotConfirmed,
    Harmful,
}
