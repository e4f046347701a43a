//! Pearson's correlation `r = Σ(x−x̄)(y−ȳ) / √(Σ(x−x̄)² · Σ(y−ȳ)²)`, over the rows where both have a value.

use super::moments::Moments;

/// A column ready to be correlated: mean 0 and deviation 1, NaN where missing.
#[derive(Debug, Clone)]
pub(crate) struct Standardised {
    values: Vec<f64>,
    complete: bool,
    constant: bool,
}

impl Standardised {
    pub(crate) fn of(values: impl Iterator<Item = f64> + Clone) -> Standardised {
        let moments = Moments::of(values.clone());
        let constant = moments.constant();
        // Halves keep the difference of extremes finite.
        let scaled = |value: f64| (value * 0.5 - moments.mean * 0.5) / (moments.std * 0.5);
        let values: Vec<f64> = if constant { Vec::new() } else { values.map(scaled).collect() };
        Standardised { complete: moments.count == values.len(), values, constant }
    }

    /// The correlation, unless fewer than three rows have both or one does not vary over them.
    pub(crate) fn with(&self, other: &Standardised) -> Option<f64> {
        if self.constant || other.constant || self.values.len() != other.values.len() || self.values.len() < 3 {
            return None;
        }
        let pairs = self.values.iter().zip(&other.values);
        if self.complete && other.complete {
            let dot: f64 = pairs.map(|(a, b)| a * b).sum();
            return Some((dot / self.values.len() as f64).clamp(-1.0, 1.0));
        }
        let both = pairs.filter(|(a, b)| !a.is_nan() && !b.is_nan());
        let (mut n, mut a_sum, mut b_sum) = (0.0, 0.0, 0.0);
        for (a, b) in both.clone() {
            n += 1.0;
            a_sum += a;
            b_sum += b;
        }
        let (a_mean, b_mean) = (a_sum / n, b_sum / n);
        let (mut aa, mut bb, mut ab) = (0.0, 0.0, 0.0);
        for (a, b) in both {
            let (a, b) = (a - a_mean, b - b_mean);
            aa += a * a;
            bb += b * b;
            ab += a * b;
        }
        // In units of the deviation: less is rounding, not variation.
        let varies = n >= 3.0 && aa > n * 1e-20 && bb > n * 1e-20;
        varies.then(|| (ab / (aa.sqrt() * bb.sqrt())).clamp(-1.0, 1.0))
    }
}

/// At most `most` of `rows` row numbers, evenly spread.
pub(crate) fn spread(rows: usize, most: usize) -> impl Iterator<Item = usize> + Clone {
    let count = rows.min(most);
    (0..count).map(move |i| (i as u128 * rows as u128 / count as u128) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(a: &[f64], b: &[f64]) -> Option<f64> {
        Standardised::of(a.iter().copied()).with(&Standardised::of(b.iter().copied()))
    }

    #[test]
    fn known_values() {
        let near = |got: Option<f64>, want: f64| assert!((got.unwrap() - want).abs() < 1e-12, "{got:?} {want}");
        near(r(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]), 1.0);
        near(r(&[1.0, 2.0, 3.0], &[-2.0, -4.0, -6.0]), -1.0);
        // Σxy = 2·1 + 0·(−2) … by hand: x̄ = 2.5, ȳ = 2.5, 4 / 5
        near(r(&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 2.0, 4.0]), 0.8);
        let nan = f64::NAN;
        near(r(&[1.0, 2.0, 3.0, 4.0, nan, 9.0], &[1.0, 3.0, 2.0, 4.0, 100.0, nan]), 0.8);
        near(r(&[f64::MIN, 0.0, f64::MAX], &[1.0, 2.0, 3.0]), 1.0);
    }

    #[test]
    fn nothing_to_compare() {
        assert_eq!(r(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(r(&[1.0, 2.0], &[1.0, 2.0]), None);
        assert_eq!(r(&[], &[]), None);
        let nan = f64::NAN;
        assert_eq!(r(&[1.0, 2.0, nan, nan], &[nan, nan, 1.0, 2.0]), None);
    }

    #[test]
    fn spread_is_even_and_complete() {
        assert_eq!(spread(10, 5).collect::<Vec<_>>(), [0, 2, 4, 6, 8]);
        assert_eq!(spread(3, 100).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(spread(0, 5).count(), 0);
    }
}
