//! Mutual information of a column and the target, in nats: `I = Σ p(x,y) · ln(p(x,y) / (p(x) · p(y)))` over counts.
//!
//! Labels are counted as they are, which is exact (scikit-learn's `mutual_info_classif` with discrete features).
//! Numbers fall into bins of nearly equal counts, `∛rows` of them, 2 to 16; up to that many different values each have a bin of
//! their own, which again is exact. Missing is a label among others.

use std::collections::HashMap;

use super::scale::sorted;

/// Bins of numbers, at most.
const MOST_BINS: usize = 16;

/// The mutual information of two lists of labels of the same rows.
pub(super) fn information(x: &[u32], y: &[u32]) -> f64 {
    let mut joint: HashMap<(u32, u32), usize> = HashMap::new();
    let (mut xs, mut ys): (HashMap<u32, usize>, HashMap<u32, usize>) = Default::default();
    for (x, y) in x.iter().zip(y) {
        *joint.entry((*x, *y)).or_default() += 1;
        *xs.entry(*x).or_default() += 1;
        *ys.entry(*y).or_default() += 1;
    }
    let n = x.len().min(y.len()) as f64;
    let mut terms: Vec<f64> = joint
        .into_iter()
        .map(|((x, y), both)| {
            let both = both as f64;
            both / n * (both * n / (xs[&x] as f64 * ys[&y] as f64)).ln()
        })
        .collect();
    // The map has no order of its own; the sum must not depend on it.
    terms.sort_unstable_by(f64::total_cmp);
    terms.iter().sum::<f64>().max(0.0)
}

/// Numbers as the number of their bin; NaN has one of its own.
pub(super) fn binned(values: &[f64]) -> Vec<u32> {
    let sorted = sorted(values.iter().copied());
    let bins = (sorted.len() as f64).cbrt().round().clamp(2.0, MOST_BINS as f64) as usize;
    let mut distinct: Vec<f64> = Vec::new();
    for value in &sorted {
        if distinct.last().is_none_or(|last| last != value) {
            distinct.push(*value);
        }
        if distinct.len() > bins {
            break;
        }
    }
    // The smallest value of each bin but the first.
    let mut edges: Vec<f64> = match distinct.len() <= bins {
        true => distinct.into_iter().skip(1).collect(),
        false => {
            // Where the smallest value fills more than a bin, the next begins right after it.
            let after_smallest = distinct[1];
            (1..bins).map(|bin| sorted[bin * sorted.len() / bins].max(after_smallest)).collect()
        }
    };
    edges.dedup();
    let bin = |value: &f64| match value.is_nan() {
        true => u32::MAX,
        false => edges.partition_point(|edge| edge <= value) as u32,
    };
    values.iter().map(bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scikit-learn 1.9: `mutual_info_classif(np.c_[a, b], y, discrete_features=True)`
    #[test]
    fn agrees_with_scikit_learn() {
        let a = [0, 0, 1, 1, 2, 2, 2, 0, 1, 2];
        let b = [1, 0, 1, 1, 0, 0, 2, 2, 0, 1];
        let y = [0, 0, 1, 1, 0, 0, 0, 1, 1, 1];
        assert!((information(&a, &y) - 0.2772588722239785).abs() < 1e-12);
        assert!((information(&b, &y) - 0.1046496287529099).abs() < 1e-12);
    }

    #[test]
    fn bounds() {
        let y = [0, 1, 0, 1];
        assert!((information(&y, &y) - 2f64.ln()).abs() < 1e-12, "all there is to know: the entropy");
        assert_eq!(information(&[0, 0, 1, 1], &y), 0.0);
        assert_eq!(information(&[], &[]), 0.0);
    }

    #[test]
    fn bins_have_equal_counts() {
        let values: Vec<f64> = (0..1000).map(|i| (i * 7 % 1000) as f64).collect();
        let bins = binned(&values);
        for bin in 0..10 {
            assert_eq!(bins.iter().filter(|b| **b == bin).count(), 100);
        }
        assert_eq!(binned(&[5.0, f64::NAN, -1.0, 5.0]), [1, u32::MAX, 0, 1]);
        assert_eq!(binned(&[0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0]), [0, 0, 0, 0, 1, 1, 1]);
        assert_eq!(binned(&[]), [0u32; 0]);
    }
}
