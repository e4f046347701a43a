//! How good a network is, in a number that means the same under any loss and any scale of the target.

use citius_data::{Dataset, Target};
use citius_nn::Loss;
use citius_train::{Lab, Metrics, TrainError};

use crate::evidence::dynamic::{Point, Spread};

/// Rows that are enough to judge by.
const ENOUGH: usize = 768;

/// 0 is perfect, 1 what a constant prediction gets. Numbers: root of the mean squared error by the target's deviation. Classes: the mean over
/// classes of the share of rows that get another one, by what guessing gets.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Score {
    pub error: f64,
    /// Share of wrong answers of the rarest class that is there; 0 for numbers.
    pub rarest: f64,
}

/// The rows that a network is judged by.
pub struct Judge {
    train: Dataset,
    validation: Option<Dataset>,
}

impl Judge {
    pub fn new(train: &Dataset, validation: Option<&Dataset>) -> Judge {
        Judge { train: some(train), validation: validation.map(some) }
    }

    pub fn point(&self, lab: &mut Lab, step: u64, average: bool) -> Result<Point, TrainError> {
        // no average has been taken before the first step
        let average = average && step > 0;
        let mut judge =
            |data: &Dataset| Ok::<_, TrainError>(score(&lab.predict_points(&data.features, average)?, &data.target));
        let validation = self.validation.as_ref().map(&mut judge).transpose()?;
        Ok(Point { step, train: judge(&self.train)?, validation })
    }

    /// Of predictions and targets of training rows.
    pub fn spreads(&self, lab: &mut Lab, average: bool) -> Result<(Spread, Spread), TrainError> {
        let outputs = lab.predict_points(&self.train.features, average)?;
        let target = match &self.train.target {
            Target::Values { data, .. } => spread(data),
            Target::Classes { data, .. } | Target::Sequence { data, .. } => {
                spread(&data.iter().map(|c| *c as f32).collect::<Vec<_>>())
            }
        };
        Ok((spread(&outputs), target))
    }

    /// The loss in the mode of prediction.
    pub fn loss(&self, lab: &mut Lab, loss: &Loss) -> Result<Option<f64>, TrainError> {
        let outputs = lab.predict(&self.train.features, false)?;
        Ok(Metrics::measure(&outputs, &self.train.target, loss, (0.0, 1.0)).loss)
    }
}

/// Evenly spread rows.
fn some(data: &Dataset) -> Dataset {
    let step = data.rows.div_ceil(ENOUGH).max(1);
    data.select(&(0..data.rows as u32).step_by(step).collect::<Vec<_>>())
}

pub fn spread(values: &[f32]) -> Spread {
    let n = values.len().max(1) as f64;
    let mean = values.iter().map(|v| *v as f64).sum::<f64>() / n;
    let variance = values.iter().map(|v| (*v as f64 - mean).powi(2)).sum::<f64>() / n;
    let (min, max) = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v as f64), high.max(*v as f64)));
    Spread { mean, std: variance.sqrt(), min, max }
}

/// Of raw outputs; of quantiles their medians.
pub fn score(outputs: &[f32], target: &Target) -> Score {
    match target {
        Target::Values { data, width } if is_binary(data, *width) => {
            let classes: Vec<usize> = data.iter().map(|t| usize::from(*t > 0.5)).collect();
            let answers = outputs.iter().map(|o| usize::from(*o > 0.0));
            balanced(answers, &classes, 2)
        }
        Target::Values { data, width } => {
            let width = (*width).max(1);
            let (mut squares, mut spreads) = (0.0, 0.0);
            for column in 0..width {
                let targets = || data.iter().skip(column).step_by(width).map(|t| *t as f64);
                let n = (data.len() / width).max(1) as f64;
                let mean = targets().sum::<f64>() / n;
                let variance = targets().map(|t| (t - mean).powi(2)).sum::<f64>() / n;
                let given = outputs.iter().skip(column).step_by(width).map(|o| *o as f64);
                let error = targets().zip(given).map(|(t, o)| (t - o).powi(2)).sum::<f64>() / n;
                squares += error / variance.max(1e-30);
                spreads += 1.0;
            }
            Score { error: (squares / spreads).sqrt(), rarest: 0.0 }
        }
        Target::Classes { data, classes } | Target::Sequence { data, classes, .. } => {
            let width = (*classes).max(1);
            let answers = outputs.chunks_exact(width).map(|row| {
                let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
                best.map_or(0, |(class, _)| class)
            });
            let truth: Vec<usize> = data.iter().map(|c| *c as usize).collect();
            balanced(answers, &truth, width)
        }
    }
}

/// Whether numbers are two classes.
pub fn is_binary(data: &[f32], width: usize) -> bool {
    width == 1 && data.iter().all(|t| *t == 0.0 || *t == 1.0)
}

fn balanced(answers: impl Iterator<Item = usize>, truth: &[usize], classes: usize) -> Score {
    let (mut wrong, mut all) = (vec![0.0; classes], vec![0.0; classes]);
    for (answer, class) in answers.zip(truth) {
        all[*class] += 1.0;
        if answer != *class {
            wrong[*class] += 1.0;
        }
    }
    let there: Vec<(f64, f64)> = all.iter().zip(&wrong).filter(|(n, _)| **n > 0.0).map(|(n, w)| (*n, w / n)).collect();
    let rarest = there.iter().min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0.0, |(_, share)| *share);
    let k = there.len().max(1) as f64;
    let error = there.iter().map(|(_, share)| share).sum::<f64>() / k;
    // guessing is wrong in 1 − 1/k
    Score { error: error / (1.0 - 1.0 / k.max(2.0)), rarest }
}

/// The loss of the best constant prediction.
pub fn constant_loss(loss: &Loss, target: &Target) -> Option<f64> {
    match (loss, target) {
        (Loss::CrossEntropy { class_weights: None, .. }, Target::Classes { data, classes }) => {
            let mut counts = vec![0.0; *classes];
            data.iter().for_each(|c| counts[*c as usize] += 1.0);
            let n = data.len().max(1) as f64;
            Some(-counts.iter().filter(|c| **c > 0.0).map(|c| c / n * (c / n).ln()).sum::<f64>())
        }
        (Loss::Bce { pos_weight: None }, Target::Values { data, .. }) => {
            let p = data.iter().map(|t| *t as f64).sum::<f64>() / data.len().max(1) as f64;
            let term = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
            Some(term(p) + term(1.0 - p))
        }
        (Loss::Mse, Target::Values { data, .. }) => Some(spread(data).std.powi(2)),
        (Loss::Mae, Target::Values { data, .. }) => {
            let mut sorted = data.clone();
            sorted.sort_by(f32::total_cmp);
            let middle = *sorted.get(sorted.len() / 2)? as f64;
            Some(data.iter().map(|t| (*t as f64 - middle).abs()).sum::<f64>() / data.len() as f64)
        }
        (Loss::Quantile { quantiles }, Target::Values { data, width: 1 }) => {
            let mut sorted = data.clone();
            sorted.sort_by(f32::total_cmp);
            // the smallest value that has at least this share of the rows at or below it
            let place = |level: &f64| ((level * data.len() as f64).ceil() as usize).max(1) - 1;
            let best: Option<Vec<f32>> = quantiles.iter().map(|level| sorted.get(place(level)).copied()).collect();
            let constant = best?.repeat(data.len());
            Metrics::measure(&constant, target, loss, (0.0, 1.0)).loss
        }
        _ => None,
    }
}
