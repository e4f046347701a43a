//! Missing values of a series: forward fill, or linear interpolation (pandas: `ffill`, `interpolate`).

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What takes the place of a missing value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GapFill {
    /// The last value before it: nothing is used that was not known by then.
    #[default]
    Previous,
    /// A straight line from the last value before it to the first behind it.
    Linear,
    /// Nothing: a missing value is an error.
    Refuse,
}

impl GapFill {
    /// For people: what missing values are filled with.
    pub fn described(self) -> &'static str {
        match self {
            GapFill::Previous => "the value before them",
            GapFill::Linear => "a straight line between their neighbours",
            GapFill::Refuse => "nothing",
        }
    }
}

impl FromStr for GapFill {
    type Err = String;

    fn from_str(text: &str) -> Result<GapFill, String> {
        match text {
            "previous" => Ok(GapFill::Previous),
            "linear" => Ok(GapFill::Linear),
            "refuse" => Ok(GapFill::Refuse),
            _ => Err("write previous, linear or refuse".to_owned()),
        }
    }
}

/// Fills runs of at most `longest` missing values, and returns how many it filled. Longer runs, and those that begin `values`,
/// stay missing.
pub(super) fn fill(values: &mut [f64], rule: GapFill, longest: usize) -> usize {
    let (mut filled, mut at) = (0, 0);
    while at < values.len() {
        if !values[at].is_nan() {
            at += 1;
            continue;
        }
        let run = values[at..].iter().take_while(|value| value.is_nan()).count();
        let before = at.checked_sub(1).map(|before| values[before]);
        let after = values.get(at + run).copied();
        if let Some(before) = before.filter(|_| run <= longest && rule != GapFill::Refuse) {
            for (i, value) in values[at..at + run].iter_mut().enumerate() {
                let share = (i + 1) as f64 / (run + 1) as f64;
                *value = match (rule, after) {
                    // in parts: a difference of two large values may overflow
                    (GapFill::Linear, Some(after)) => before * (1.0 - share) + after * share,
                    _ => before,
                };
            }
            filled += run;
        }
        at += run;
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAN: f64 = f64::NAN;

    fn filled(values: &[f64], rule: GapFill, longest: usize) -> (Vec<f64>, usize) {
        let mut values = values.to_vec();
        let count = fill(&mut values, rule, longest);
        (values, count)
    }

    #[test]
    fn short_runs_are_filled_by_the_rule() {
        let gaps = [1.0, NAN, NAN, 4.0, NAN];
        assert_eq!(filled(&gaps, GapFill::Previous, 2), (vec![1.0, 1.0, 1.0, 4.0, 4.0], 3));
        assert_eq!(filled(&gaps, GapFill::Linear, 2), (vec![1.0, 2.0, 3.0, 4.0, 4.0], 3));
    }

    #[test]
    fn long_and_first_runs_stay_missing() {
        let (values, count) = filled(&[NAN, 1.0, NAN, NAN, 4.0, NAN, 6.0], GapFill::Linear, 1);
        assert_eq!((count, values[5]), (1, 5.0));
        assert!(values[0].is_nan() && values[2].is_nan() && values[3].is_nan());
        let (values, count) = filled(&[1.0, NAN], GapFill::Refuse, 9);
        assert!(count == 0 && values[1].is_nan());
        assert_eq!(filled(&[], GapFill::Previous, 9), (vec![], 0));
    }
}
