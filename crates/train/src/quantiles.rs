//! Quantile regression: the outputs of a network that predicts quantiles as prediction intervals, and how good those are.
//!
//! Of q levels and targets `[n,w]` the outputs are `[n,q·w]`, a level behind the other (see `citius_nn::quantile`). What is predicted
//! are the outputs of each target in rising order, so that quantiles do not cross (Chernozhukov et al., 2010); that never makes the
//! pinball loss worse.

use crate::Metrics;
use crate::metrics::finite;

/// Quantiles `[n·w,q]`, each row rising.
pub(crate) struct Quantiles<'a> {
    levels: &'a [f64],
    values: Vec<f32>,
}

impl<'a> Quantiles<'a> {
    /// Of raw outputs for targets of so many numbers.
    pub(crate) fn of(outputs: &[f32], levels: &'a [f64], width: usize) -> Quantiles<'a> {
        let (q, width) = (levels.len(), width.max(1));
        let mut values = Vec::with_capacity(outputs.len());
        for row in outputs.chunks_exact((q * width).max(1)) {
            for target in 0..width {
                let start = values.len();
                values.extend((0..q).map(|level| row[level * width + target]));
                values[start..].sort_by(f32::total_cmp);
            }
        }
        Quantiles { levels, values }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.levels.len().max(1))
    }

    /// The median of each row, which is the prediction of a single number.
    pub(crate) fn points(&self) -> Vec<f32> {
        self.rows().map(|row| median(self.levels, row)).collect()
    }

    /// Adds pinball loss, coverage and width to the metrics; `std` is the deviation that targets were divided by.
    pub(crate) fn measure(&self, targets: &[f32], std: f64, metrics: &mut Metrics) {
        let rows = targets.len() as f64;
        let mean = |sum: f64| finite(sum / rows);
        metrics.pinball_loss = finite(pinball_loss(&self.values, targets, self.levels, 1) * std);
        let ([lowest, .., highest], q) = (self.levels, self.levels.len()) else { return };
        let inside = self.rows().zip(targets).filter(|(row, t)| row[0] <= **t && **t <= row[q - 1]);
        metrics.coverage = mean(inside.count() as f64);
        // 0.9 − 0.1 is 0.8, to the digits that were given
        metrics.nominal_coverage = Some(((highest - lowest) * 1e12).round() / 1e12);
        metrics.mean_width = mean(self.rows().map(|row| (row[q - 1] - row[0]) as f64).sum::<f64>() * std);
    }
}

/// Mean of `max(τ·d, (τ − 1)·d)`, `d = t − p`, over rows, levels τ and numbers of a target: of outputs as a network gives them.
pub(crate) fn pinball_loss(outputs: &[f32], targets: &[f32], levels: &[f64], width: usize) -> f64 {
    let width = width.max(1);
    let rows = outputs.chunks_exact((levels.len() * width).max(1)).zip(targets.chunks_exact(width));
    let of_level = |level: f64, outputs: &[f32], targets: &[f32]| {
        let distances = outputs.iter().zip(targets).map(|(p, t)| *t as f64 - *p as f64);
        distances.map(|d| (level * d).max((level - 1.0) * d)).sum::<f64>()
    };
    let of_row = |(outputs, targets): (&[f32], &[f32])| {
        let parts = levels.iter().zip(outputs.chunks_exact(width));
        parts.map(|(level, outputs)| of_level(*level, outputs, targets)).sum::<f64>()
    };
    rows.map(of_row).sum::<f64>() / (targets.len() * levels.len()) as f64
}

/// The 0.5-quantile: as predicted, on the line between its neighbours where 0.5 is not among the levels, or the nearest level.
fn median(levels: &[f64], row: &[f32]) -> f32 {
    let above = levels.partition_point(|level| *level < 0.5);
    match above {
        0 => row[0],
        above if above == levels.len() => row[above - 1],
        above if levels[above] == 0.5 => row[above],
        above => {
            let (low, high) = (levels[above - 1], levels[above]);
            let share = (0.5 - low) / (high - low);
            (row[above - 1] as f64 * (1.0 - share) + row[above] as f64 * share) as f32
        }
    }
}

#[cfg(test)]
mod tests {
    use citius_data::Target;
    use citius_nn::Loss;

    use super::*;

    #[test]
    fn crossing_outputs_are_sorted_target_by_target() {
        // two rows of two targets, three levels: a level behind the other
        let outputs = [3.0, 10.0, 1.0, 30.0, 2.0, 20.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        let quantiles = Quantiles::of(&outputs, &[0.1, 0.5, 0.9], 2);
        let rows: Vec<&[f32]> = quantiles.rows().collect();
        assert_eq!(rows, [[1.0, 2.0, 3.0], [10.0, 20.0, 30.0], [1.0; 3], [1.0; 3]]);
        assert_eq!(quantiles.points(), [2.0, 20.0, 1.0, 1.0]);
    }

    #[test]
    fn the_median_lies_between_its_neighbours() {
        assert_eq!(median(&[0.1, 0.5, 0.9], &[1.0, 7.0, 9.0]), 7.0);
        assert_eq!(median(&[0.1, 0.9], &[1.0, 9.0]), 5.0);
        assert_eq!(median(&[0.25, 0.75, 0.9], &[1.0, 2.0, 9.0]), 1.5);
        assert_eq!((median(&[0.8, 0.9], &[1.0, 2.0]), median(&[0.1, 0.2], &[1.0, 2.0])), (1.0, 2.0));
        assert_eq!(median(&[0.9], &[4.0]), 4.0);
    }

    #[test]
    fn pinball_coverage_and_width_in_the_targets_units() {
        let loss = Loss::Quantile { quantiles: vec![0.1, 0.9] };
        let target = Target::Values { data: vec![0.0, 1.0, 5.0, 2.0], width: 1 };
        // the third row is outside; the fourth is given the wrong way round
        let outputs = [-1.0, 1.0, 1.0, 2.0, 0.0, 4.0, 3.0, 1.0];
        let m = Metrics::measure(&outputs, &target, &loss, (100.0, 10.0));
        assert_eq!((m.coverage, m.nominal_coverage), (Some(0.75), Some(0.8)));
        assert!((m.mean_width.unwrap() - 10.0 * (2.0 + 1.0 + 4.0 + 2.0) / 4.0).abs() < 1e-9);
        // by rows: (.1 + .1)/2, (0 + .1)/2, (.5 + .9)/2, (.1 + .1)/2
        assert!((m.pinball_loss.unwrap() - 10.0 * (0.1 + 0.05 + 0.7 + 0.1) / 4.0).abs() < 1e-9);
        // what is trained is the loss of the raw outputs: in the fourth row (.9·1 + .9·1)/2
        assert!((m.loss.unwrap() - (0.1 + 0.05 + 0.7 + 0.9) / 4.0).abs() < 1e-9);
        // medians 0, 1.5, 2, 2
        assert!((m.mae.unwrap() - 10.0 * (0.0 + 0.5 + 3.0 + 0.0) / 4.0).abs() < 1e-9);
    }

    #[test]
    fn one_quantile_has_no_interval() {
        let loss = Loss::Quantile { quantiles: vec![0.9] };
        let target = Target::Values { data: vec![1.0], width: 1 };
        let m = Metrics::measure(&[0.0], &target, &loss, (0.0, 1.0));
        assert_eq!((m.coverage, m.nominal_coverage, m.mean_width), (None, None, None));
        assert!((m.pinball_loss.unwrap() - 0.9).abs() < 1e-12);
    }
}
