//! Rows drawn by weight, with replacement: the draw at a position depends on `(seed, epoch, position)` alone.
//!
//! Walker's alias method: an urn per row holds that row up to a share and one other row above it, so that a draw is one urn
//! and one comparison whatever the weights.

use crate::error::DataError;
use crate::rng::mix;

/// Weights of rows, ready to draw from.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// Of 2³²: below it an urn gives its own row, else its alias.
    share: Vec<u32>,
    alias: Vec<u32>,
}

impl Weights {
    /// One weight per row, not negative, not all zero.
    pub fn new(weights: &[f64]) -> Result<Weights, DataError> {
        if let Some(row) = weights.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
            return Err(DataError::Inconsistent(format!("row {}: {} is not a weight", row + 1, weights[row])));
        }
        let total: f64 = weights.iter().sum();
        if !(total > 0.0 && total.is_finite()) || u32::try_from(weights.len()).is_err() {
            return Err(DataError::Inconsistent("no row has a weight to be drawn by".into()));
        }
        let count = weights.len();
        let mut level: Vec<f64> = weights.iter().map(|w| w / total * count as f64).collect();
        let (mut poor, mut rich): (Vec<u32>, Vec<u32>) = (0..count as u32).partition(|row| level[*row as usize] < 1.0);
        let (mut share, mut alias) = (vec![u32::MAX; count], (0..count as u32).collect::<Vec<_>>());
        while let (Some(small), Some(large)) = (poor.pop(), rich.last().copied()) {
            share[small as usize] = (level[small as usize] * 2f64.powi(32)) as u32;
            alias[small as usize] = large;
            level[large as usize] -= 1.0 - level[small as usize];
            if level[large as usize] < 1.0 {
                rich.pop();
                poor.push(large);
            }
        }
        Ok(Weights { share, alias })
    }

    /// Weights under which every class is drawn equally often.
    pub fn balanced(classes: &[i32]) -> Result<Weights, DataError> {
        let mut counts = std::collections::HashMap::new();
        for class in classes {
            *counts.entry(*class).or_insert(0u32) += 1;
        }
        let weights: Vec<f64> = classes.iter().map(|class| 1.0 / counts[class] as f64).collect();
        Weights::new(&weights)
    }

    /// Rows that can be drawn.
    pub fn rows(&self) -> usize {
        self.share.len()
    }

    /// The draws at positions `start..start + out.len()`.
    pub fn fill(&self, seed: u64, epoch: u64, start: u32, out: &mut [u32]) {
        let key = mix(mix(seed) ^ mix(!epoch));
        for (row, position) in out.iter_mut().zip(start..) {
            let bits = mix(key ^ position as u64);
            let urn = ((bits >> 32) * self.share.len() as u64) >> 32;
            *row = match (bits as u32) < self.share[urn as usize] {
                true => urn as u32,
                false => self.alias[urn as usize],
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_in_their_shares() {
        let weights = Weights::new(&[1.0, 0.0, 3.0, 6.0]).unwrap();
        let mut rows = vec![0; 100_000];
        weights.fill(1, 2, 0, &mut rows);
        let mut counts = [0; 4];
        rows.iter().for_each(|row| counts[*row as usize] += 1);
        assert_eq!(counts[1], 0);
        for (count, share) in counts.iter().zip([0.1, 0.0, 0.3, 0.6]) {
            assert!((*count as f64 / 1e5 - share).abs() < 0.01, "{counts:?}");
        }
        let mut part = [0; 10];
        weights.fill(1, 2, 500, &mut part);
        assert_eq!(part, rows[500..510]);
    }

    #[test]
    fn balanced_classes_are_equally_frequent() {
        let classes: Vec<i32> = (0..1000).map(|row| (row % 10 == 0) as i32).collect();
        let weights = Weights::balanced(&classes).unwrap();
        let mut rows = vec![0; 20_000];
        weights.fill(3, 0, 0, &mut rows);
        let rare = rows.iter().filter(|row| classes[**row as usize] == 1).count();
        assert!((9_600..10_400).contains(&rare), "{rare}");
    }

    #[test]
    fn impossible_weights_are_refused() {
        assert!(Weights::new(&[]).is_err());
        assert!(Weights::new(&[0.0]).is_err());
        assert!(Weights::new(&[1.0, -1.0]).unwrap_err().to_string().contains("row 2"));
        assert!(Weights::new(&[f64::NAN]).is_err());
    }
}
