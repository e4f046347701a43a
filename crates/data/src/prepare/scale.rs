//! The scale of a numeric column: `input = (x − offset) / unit`.
//!
//! | | offset | unit |
//! |---|---|---|
//! | standard | mean | deviation (divided by n) |
//! | min-max  | min | max − min |
//! | robust   | median | third − first quartile (interpolated between neighbours) |
//! | none     | 0 | 1 |
//!
//! As scikit-learn's `StandardScaler`, `MinMaxScaler` and `RobustScaler`: missing cells do not count, and a unit of 0
//! is taken as 1. A column of one value is not scaled at all but dropped.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::moments::Moments;

/// How a numeric column is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Mean 0, deviation 1.
    Standard,
    /// From 0 to 1.
    MinMax,
    /// Median 0, interquartile range 1: outliers do not count.
    Robust,
    /// The numbers as they are.
    None,
}

/// A fitted scale; `mean` and `std` are the offset and the unit, whatever they were fitted as.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Scaling {
    mean: f64,
    std: f64,
    /// Not scaled, hence not held within ±10⁶ either.
    #[serde(default, skip_serializing_if = "is_false")]
    raw: bool,
}

impl Scaling {
    /// No scaled input goes beyond this: a wild value is told from the rest, and stays finite.
    pub(super) const LIMIT: f64 = 1e6;

    /// Offset and unit.
    pub(super) fn parts(&self) -> (f64, f64) {
        (self.mean, self.std)
    }

    /// Fits to the values that are not NaN, whose moments are known.
    pub(super) fn fit(scale: Scale, moments: &Moments, values: impl Iterator<Item = f64>) -> Scaling {
        let (mean, std) = match scale {
            Scale::Standard => (moments.mean, moments.std),
            Scale::MinMax => (moments.min, (moments.max - moments.min).min(f64::MAX)),
            Scale::Robust => {
                let sorted = sorted(values);
                let range = (quantile(&sorted, 0.75) - quantile(&sorted, 0.25)).min(f64::MAX);
                (quantile(&sorted, 0.5), range)
            }
            Scale::None => (0.0, 1.0),
        };
        let std = if std > 0.0 { std } else { 1.0 };
        Scaling { mean, std, raw: scale == Scale::None }
    }

    /// The same formula with the same numbers so many times over: what was scaled already is scaled again.
    pub(super) fn repeated(self, times: usize) -> Scaling {
        let (mut mean, mut std) = (0.0, 1.0);
        for _ in 0..times {
            // ((x − a)/b − m)/s = (x − (a + m·b))/(b·s)
            (mean, std) = (mean + self.mean * std, std * self.std);
        }
        Scaling { mean, std, ..self }
    }

    /// `(x − offset) / unit`, finite for every finite `x`.
    #[inline]
    pub(super) fn apply(&self, value: f64) -> f32 {
        let limit = if self.raw { f32::MAX as f64 } else { Self::LIMIT };
        ((value - self.mean) / self.std).clamp(-limit, limit) as f32
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scale::Standard => "standardised",
            Scale::MinMax => "min-max scaled",
            Scale::Robust => "scaled by median and quartiles",
            Scale::None => "not scaled",
        })
    }
}

/// The values in order, missing ones left out.
pub(crate) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    // Whole numbers in the same order as the values: they sort twice as fast.
    let key = |bits: i64| bits ^ (((bits >> 63) as u64) >> 1) as i64;
    let mut keys: Vec<i64> = values.filter(|value| !value.is_nan()).map(|value| key(value.to_bits() as i64)).collect();
    keys.sort_unstable();
    keys.into_iter().map(|bits| f64::from_bits(key(bits) as u64)).collect()
}

/// The value below which a share `q` of sorted values lies, interpolated between neighbours; 0 of no values.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * sorted.len().saturating_sub(1) as f64;
    let (low, part) = (at.floor() as usize, at.fract());
    let Some(a) = sorted.get(low).copied() else { return 0.0 };
    let b = sorted.get(low + 1).copied().unwrap_or(a);
    match b - a {
        gap if gap.is_finite() => a + gap * part,
        _ => a * (1.0 - part) + b * part,
    }
}

pub(super) fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(scale: Scale, values: &[f64]) -> Vec<f32> {
        let moments = Moments::of(values.iter().copied());
        let scaling = Scaling::fit(scale, &moments, values.iter().copied());
        values.iter().map(|v| scaling.apply(*v)).collect()
    }

    fn near(got: &[f32], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert!((*got as f64 - want).abs() < 1e-6, "{got} is not {want}");
        }
    }

    /// scikit-learn 1.9: `StandardScaler().fit_transform(x)` and so on.
    #[test]
    fn agrees_with_scikit_learn() {
        let x = [1.0, 2.0, 2.0, 5.0, 11.0, -3.0, 0.5];
        near(
            &scaled(Scale::Standard, &x),
            &[-0.40469382, -0.15835845, -0.15835845, 0.58064766, 2.05865988, -1.3900353, -0.52786151],
        );
        near(&scaled(Scale::MinMax, &x), &[0.28571429, 0.35714286, 0.35714286, 0.57142857, 1.0, 0.0, 0.25]);
        near(&scaled(Scale::Robust, &x), &[-0.36363636, 0.0, 0.0, 1.09090909, 3.27272727, -1.81818182, -0.54545455]);
        near(&scaled(Scale::None, &x), &x);
    }

    #[test]
    fn scaled_again_by_the_same_numbers() {
        let x = [10.0, 20.0, 60.0];
        let moments = Moments::of(x.iter().copied());
        let once = Scaling::fit(Scale::Standard, &moments, x.iter().copied());
        assert_eq!(once.clone().repeated(1), once);
        let twice = once.clone().repeated(2);
        for x in x {
            let (mean, std) = once.parts();
            let wanted = ((x - mean) / std - mean) / std;
            assert!((twice.apply(x) as f64 - wanted).abs() < 1e-6);
        }
    }

    #[test]
    fn a_unit_of_nothing_is_one() {
        near(&scaled(Scale::Robust, &[5.0, 5.0, 5.0, 5.0, 7.0]), &[0.0, 0.0, 0.0, 0.0, 2.0]);
        near(&scaled(Scale::MinMax, &[5.0, 5.0]), &[0.0, 0.0]);
        near(&scaled(Scale::Standard, &[5.0, 5.0]), &[0.0, 0.0]);
    }

    #[test]
    fn extremes_stay_finite() {
        for scale in [Scale::Standard, Scale::MinMax, Scale::Robust, Scale::None] {
            let values = [f64::MIN, 0.0, 1.0, f64::MAX];
            assert!(scaled(scale, &values).iter().all(|v| v.is_finite()), "{scale}");
        }
        assert_eq!(scaled(Scale::None, &[3e7])[0], 3e7, "raw numbers have no limit of their own");
    }

    #[test]
    fn quantiles_interpolate() {
        let wild = [1.0, f64::MIN, -0.0, f64::NAN, -1e-310, 0.0, f64::MAX];
        assert_eq!(sorted(wild.into_iter()), [f64::MIN, -1e-310, -0.0, 0.0, 1.0, f64::MAX]);
        let sorted = sorted([4.0, f64::NAN, 1.0, 2.0, 3.0].into_iter());
        assert_eq!(quantile(&sorted, 0.0), 1.0);
        assert_eq!(quantile(&sorted, 0.25), 1.75);
        assert_eq!(quantile(&sorted, 0.5), 2.5);
        assert_eq!(quantile(&sorted, 1.0), 4.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
        assert_eq!(quantile(&[f64::MIN, f64::MAX], 0.5), 0.0);
    }
}
