//! Mean, deviation and skewness of a column, in two passes and f64.

/// What a column of numbers looks like; missing values do not count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Moments {
    pub count: usize,
    pub mean: f64,
    /// Over all values, not over a sample of them: divided by `count`.
    pub std: f64,
    pub skewness: f64,
    pub min: f64,
    pub max: f64,
}

impl Moments {
    pub(crate) fn of(values: impl Iterator<Item = f64> + Clone) -> Moments {
        let values = values.filter(|value| value.is_finite());
        let (mut count, mut min, mut max) = (0usize, f64::INFINITY, f64::NEG_INFINITY);
        for value in values.clone() {
            count += 1;
            min = min.min(value);
            max = max.max(value);
        }
        // Squares of such values would overflow or vanish: measure in units of the largest.
        let largest = min.abs().max(max.abs());
        let unit = match largest {
            1e-100..1e100 => 1.0,
            _ if count > 0 && largest > 0.0 => largest,
            _ => 1.0,
        };
        let n = count.max(1) as f64;
        let mean = values.clone().map(|value| value / unit).sum::<f64>() / n;
        let (mut second, mut third) = (0.0, 0.0);
        for value in values {
            let d = value / unit - mean;
            second += d * d;
            third += d * d * d;
        }
        let std = (second / n).sqrt();
        Moments {
            count,
            mean: mean * unit,
            std: std * unit,
            skewness: if std > 0.0 { third / n / (std * std * std) } else { 0.0 },
            min,
            max,
        }
    }

    /// All values are the same, or too near each other to tell.
    pub(crate) fn constant(&self) -> bool {
        !(self.max > self.min && self.std > 0.0 && self.std.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let m = Moments::of([1.0, f64::NAN, 3.0].into_iter());
        assert_eq!((m.count, m.mean, m.std, m.skewness), (2, 2.0, 1.0, 0.0));
        assert!(Moments::of([5.0, 5.0].into_iter()).constant());
        assert!(Moments::of(std::iter::empty()).constant());
        let far = Moments::of([1e9, 1e9 + 1.0].into_iter());
        assert_eq!((far.mean, far.std), (1e9 + 0.5, 0.5));
    }

    #[test]
    fn extremes_stay_finite() {
        for big in [1e200, f64::MAX, 1e-300] {
            let m = Moments::of([big, -big].into_iter());
            assert!((m.std / big - 1.0).abs() < 1e-12, "{m:?}");
            assert_eq!(m.mean, 0.0);
        }
    }
}
