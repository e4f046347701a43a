//! How good a model is, computed on the host in f64 from its raw outputs.

use std::borrow::Cow;

use citius_data::Target;
use citius_nn::{Head, Loss};
use serde::{Deserialize, Serialize};

use crate::Settings;
use crate::quantiles::{Quantiles, pinball_loss};

/// Metrics of one set of rows; those that do not apply, or have no value on these rows, are left out.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Metrics {
    /// The training loss, in the units the network sees (a standardised target).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Root of the mean squared error, in the target's own units; so is `mae`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rmse: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mae: Option<f64>,
    /// 1 − (squared error) / (squared distance of the targets from their mean).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r2: Option<f64>,
    /// Share of rows whose likeliest class is theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Mean of −log of the probability given to the true class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_loss: Option<f64>,
    /// Of the second class when there are two, else the plain mean over classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f1: Option<f64>,
    /// Probability that a row of the second class is ranked above one of the first; two classes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auc: Option<f64>,
    /// Of predicted quantiles: the pinball loss, its mean over levels and rows, in the target's own units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinball_loss: Option<f64>,
    /// Share of rows whose target lies between the lowest and the highest quantile, bounds included; and what it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal_coverage: Option<f64>,
    /// From the lowest quantile to the highest, on average, in the target's own units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_width: Option<f64>,
}

impl Metrics {
    /// Metrics of `outputs` (logits, or standardised numbers), row-major, against `target`; `scale` is (mean, deviation)
    /// of a numeric target.
    pub fn measure(outputs: &[f32], target: &Target, loss: &Loss, scale: (f64, f64)) -> Metrics {
        Metrics::measured(outputs, outputs, target, loss, scale, matches!(loss, Loss::Bce { .. }))
    }

    /// The same, where the scores to judge classes by are not the outputs that the loss sees.
    fn measured(
        outputs: &[f32],
        scores: &[f32],
        target: &Target,
        loss: &Loss,
        scale: (f64, f64),
        binary: bool,
    ) -> Metrics {
        let mut metrics = match target {
            Target::Classes { data, classes } | Target::Sequence { data, classes, .. } => {
                of_classes(scores, data, *classes)
            }
            Target::Values { data, .. } if binary => of_binary(scores, data),
            Target::Values { data, width } if !loss.quantiles().is_empty() => {
                let quantiles = Quantiles::of(outputs, loss.quantiles(), *width);
                let mut metrics = of_regression(&quantiles.points(), data, scale.1);
                quantiles.measure(data, scale.1, &mut metrics);
                metrics
            }
            Target::Values { data, .. } => of_regression(outputs, data, scale.1),
        };
        metrics.loss = finite(loss_of(outputs, target, loss));
        metrics
    }

    /// Names and values of those that are there, the most telling first.
    pub fn named(&self) -> Vec<(&'static str, f64)> {
        let all = [
            ("accuracy", self.accuracy),
            ("rmse", self.rmse),
            ("mae", self.mae),
            ("r2", self.r2),
            ("log_loss", self.log_loss),
            ("f1", self.f1),
            ("auc", self.auc),
            ("pinball_loss", self.pinball_loss),
            ("coverage", self.coverage),
            ("nominal_coverage", self.nominal_coverage),
            ("mean_width", self.mean_width),
            ("loss", self.loss),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl Settings {
    /// Metrics of a network's outputs, whatever its head.
    pub fn measure(&self, outputs: &[f32], target: &Target, scale: (f64, f64)) -> Metrics {
        let binary = match target {
            Target::Classes { .. } | Target::Sequence { .. } => false,
            Target::Values { data, .. } => is_binary(data, &self.loss, scale),
        };
        let of_classes = binary || !matches!(target, Target::Values { .. });
        Metrics::measured(outputs, &self.scores(outputs, of_classes), target, &self.loss, scale, binary)
    }

    /// Outputs as logits where they stand for classes: what a head has made of them is undone, and answers that were learned as the
    /// numbers 0 and 1 are halved between them.
    pub(crate) fn scores<'a>(&self, outputs: &'a [f32], of_classes: bool) -> Cow<'a, [f32]> {
        // shares of 0 and 1 stay finite
        let ln = |share: f32| share.max(f32::MIN_POSITIVE).ln();
        let all = |score: &dyn Fn(f32) -> f32| outputs.iter().map(|x| score(*x)).collect::<Vec<_>>().into();
        let numbers = matches!(self.loss, Loss::Mse | Loss::Mae | Loss::Huber { .. });
        match self.details.head {
            _ if !of_classes => outputs.into(),
            Head::Sigmoid => all(&|x| ln(x) - ln(1.0 - x)),
            Head::Softmax { .. } => all(&ln),
            Head::LogSoftmax { .. } => outputs.into(),
            Head::None | Head::Relu | Head::Softplus | Head::Tanh if numbers => all(&|x| x - 0.5),
            Head::None | Head::Relu | Head::Softplus | Head::Tanh => outputs.into(),
        }
    }
}

/// Whether numbers are the answers of a binary task: such a target is not scaled.
fn is_binary(data: &[f32], loss: &Loss, scale: (f64, f64)) -> bool {
    let both = || [0.0, 1.0].iter().all(|answer| data.contains(answer));
    let no_other = || data.iter().all(|t| *t == 0.0 || *t == 1.0);
    let numbers = loss.quantiles().is_empty();
    matches!(loss, Loss::Bce { .. }) || (numbers && scale == (0.0, 1.0) && both() && no_other())
}

fn of_regression(outputs: &[f32], targets: &[f32], std: f64) -> Metrics {
    let count = targets.len() as f64;
    let mean = targets.iter().map(|&t| t as f64).sum::<f64>() / count;
    let (mut squares, mut absolutes, mut spread) = (0.0, 0.0, 0.0);
    for (&y, &t) in outputs.iter().zip(targets) {
        let error = y as f64 - t as f64;
        squares += error * error;
        absolutes += error.abs();
        spread += (t as f64 - mean).powi(2);
    }
    Metrics {
        rmse: finite((squares / count).sqrt() * std),
        mae: finite(absolutes / count * std),
        r2: finite(1.0 - squares / spread),
        ..Metrics::default()
    }
}

fn of_binary(logits: &[f32], targets: &[f32]) -> Metrics {
    let count = targets.len() as f64;
    let mut log_loss = 0.0;
    let mut hits = Hits::new(2);
    for (&x, &t) in logits.iter().zip(targets) {
        let (x, t) = (x as f64, t as f64);
        log_loss += softplus(x) - x * t;
        hits.count(usize::from(t > 0.5), usize::from(x > 0.0));
    }
    let positive: Vec<bool> = targets.iter().map(|&t| t > 0.5).collect();
    Metrics {
        accuracy: finite(hits.accuracy()),
        log_loss: finite(log_loss / count),
        f1: hits.f1(1),
        auc: auc(logits.iter().map(|&x| x as f64), &positive),
        ..Metrics::default()
    }
}

fn of_classes(logits: &[f32], classes: &[i32], width: usize) -> Metrics {
    let mut log_loss = 0.0;
    let mut hits = Hits::new(width);
    let mut scores = Vec::new();
    for (row, &class) in logits.chunks_exact(width.max(1)).zip(classes) {
        let class = class as usize;
        log_loss += log_sum_exp(row) - row[class] as f64;
        hits.count(class, likeliest(row));
        if width == 2 {
            scores.push(row[1] as f64 - row[0] as f64);
        }
    }
    let f1s: Vec<f64> = (0..width).filter_map(|class| hits.f1(class)).collect();
    let positive: Vec<bool> = classes.iter().map(|&c| c == 1).collect();
    Metrics {
        accuracy: finite(hits.accuracy()),
        log_loss: finite(log_loss / classes.len() as f64),
        f1: match width {
            2 => hits.f1(1),
            _ => finite(f1s.iter().sum::<f64>() / f1s.len() as f64),
        },
        auc: if width == 2 { auc(scores.into_iter(), &positive) } else { None },
        ..Metrics::default()
    }
}

/// The training loss, as `citius_nn` defines it.
fn loss_of(outputs: &[f32], target: &Target, loss: &Loss) -> f64 {
    match target {
        Target::Classes { data, classes } | Target::Sequence { data, classes, .. } => match loss {
            Loss::CrossEntropy { label_smoothing, class_weights } => {
                cross_entropy(outputs, data, *classes, *label_smoothing, class_weights.as_deref())
            }
            Loss::Nll => {
                let given = outputs.chunks_exact((*classes).max(1)).zip(data).map(|(row, class)| row[*class as usize]);
                -given.map(f64::from).sum::<f64>() / data.len() as f64
            }
            // 1 in the place of the class
            Loss::Mse | Loss::Mae | Loss::Huber { .. } | Loss::Bce { .. } | Loss::Quantile { .. } => {
                let place = |class: i32| (0..*classes).map(move |c| f32::from(u8::from(c == class as usize)));
                let target = Target::Values { data: data.iter().copied().flat_map(place).collect(), width: *classes };
                loss_of(outputs, &target, loss)
            }
        },
        Target::Values { data, width } if matches!(loss, Loss::CrossEntropy { .. }) => {
            let rows = outputs.chunks_exact((*width).max(1)).zip(data.chunks_exact((*width).max(1)));
            let of_row = |(row, shares): (&[f32], &[f32])| {
                let lse = log_sum_exp(row);
                row.iter().zip(shares).map(|(&x, &t)| t as f64 * (lse - x as f64)).sum::<f64>()
            };
            rows.map(of_row).sum::<f64>() / (data.len() / (*width).max(1)).max(1) as f64
        }
        Target::Values { data, width } if !loss.quantiles().is_empty() => {
            pinball_loss(outputs, data, loss.quantiles(), *width)
        }
        Target::Values { data, width } => {
            let terms = outputs.iter().zip(data).enumerate().map(|(i, (&x, &t))| {
                let (x, t) = (x as f64, t as f64);
                match loss {
                    Loss::Mae => (x - t).abs(),
                    Loss::Huber { delta } if (x - t).abs() > *delta => delta * ((x - t).abs() - 0.5 * delta),
                    Loss::Huber { .. } => 0.5 * (x - t).powi(2),
                    Loss::Bce { pos_weight } => {
                        let weight = pos_weight.as_deref().unwrap_or(&[]);
                        let weight = weight.get(i % width).or(weight.first()).copied().unwrap_or(1.0);
                        (1.0 - t) * softplus(x) + weight * t * softplus(-x)
                    }
                    Loss::Mse | Loss::CrossEntropy { .. } | Loss::Nll | Loss::Quantile { .. } => (x - t).powi(2),
                }
            });
            terms.sum::<f64>() / data.len() as f64
        }
    }
}

fn cross_entropy(logits: &[f32], classes: &[i32], width: usize, smoothing: f64, weights: Option<&[f64]>) -> f64 {
    let weight = |class: usize| weights.and_then(|w| w.get(class)).copied().unwrap_or(1.0);
    let (mut sum, mut total) = (0.0, 0.0);
    for (row, &class) in logits.chunks_exact(width.max(1)).zip(classes) {
        let (class, lse) = (class as usize, log_sum_exp(row));
        let smooth: f64 = row.iter().enumerate().map(|(j, &x)| weight(j) * (lse - x as f64)).sum();
        sum += (1.0 - smoothing) * weight(class) * (lse - row[class] as f64) + smoothing / width as f64 * smooth;
        total += weight(class);
    }
    sum / total
}

/// Probability of each class from the logits of one row.
pub fn softmax(row: &[f32]) -> Vec<f64> {
    let lse = log_sum_exp(row);
    row.iter().map(|&x| (x as f64 - lse).exp()).collect()
}

pub(crate) fn sigmoid(x: f32) -> f64 {
    1.0 / (1.0 + (-x as f64).exp())
}

/// The largest; in doubt the first.
pub(crate) fn likeliest(row: &[f32]) -> usize {
    (1..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best })
}

fn log_sum_exp(row: &[f32]) -> f64 {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max) as f64;
    max + row.iter().map(|&x| (x as f64 - max).exp()).sum::<f64>().ln()
}

/// log(1 + eˣ)
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// Rows by true and predicted class.
struct Hits {
    rows: usize,
    /// Per class: both, true, predicted.
    counts: Vec<[usize; 3]>,
}

impl Hits {
    fn new(classes: usize) -> Hits {
        Hits { rows: 0, counts: vec![[0; 3]; classes] }
    }

    fn count(&mut self, class: usize, predicted: usize) {
        self.rows += 1;
        self.counts[class][0] += usize::from(class == predicted);
        self.counts[class][1] += 1;
        self.counts[predicted][2] += 1;
    }

    fn accuracy(&self) -> f64 {
        self.counts.iter().map(|c| c[0]).sum::<usize>() as f64 / self.rows as f64
    }

    /// 2·both / (true + predicted); nothing for a class that neither occurs nor is predicted.
    fn f1(&self, class: usize) -> Option<f64> {
        let [both, there, predicted] = self.counts[class];
        finite(2.0 * both as f64 / (there + predicted) as f64)
    }
}

/// By ranks, ties sharing theirs; nothing where one of the classes is absent.
fn auc(scores: impl Iterator<Item = f64>, positive: &[bool]) -> Option<f64> {
    let mut ranked: Vec<(f64, bool)> = scores.zip(positive.iter().copied()).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let positives = positive.iter().filter(|p| **p).count() as f64;
    let negatives = positive.len() as f64 - positives;
    let mut rank_sum = 0.0;
    let mut start = 0;
    while start < ranked.len() {
        let tied = ranked[start..].iter().take_while(|r| r.0 == ranked[start].0).count().max(1);
        let rank = start as f64 + (tied + 1) as f64 / 2.0; // ranks count from 1
        rank_sum += rank * ranked[start..start + tied].iter().filter(|r| r.1).count() as f64;
        start += tied;
    }
    finite((rank_sum - positives * (positives + 1.0) / 2.0) / (positives * negatives))
}

pub(crate) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: Option<f64>, expected: f64) {
        let found = found.expect("a value");
        assert!((found - expected).abs() < 1e-9, "{found}, expected {expected}");
    }

    #[test]
    fn regression_in_the_targets_units() {
        let target = Target::Values { data: vec![0.0, 1.0, 2.0, 3.0], width: 1 };
        let m = Metrics::measure(&[0.5, 1.0, 1.0, 3.5], &target, &Loss::Mse, (100.0, 10.0));
        // errors .5 0 -1 .5; squares sum to 1.5; spread is 5
        near(m.loss, 0.375);
        near(m.rmse, 10.0 * 0.375f64.sqrt());
        near(m.mae, 5.0);
        near(m.r2, 0.7);
        let huber = Metrics::measure(&[0.5, 1.0, 1.0, 3.5], &target, &Loss::Huber { delta: 0.5 }, (0.0, 1.0));
        near(huber.loss, (0.125 + 0.0 + 0.5 * 0.75 + 0.125) / 4.0);
    }

    #[test]
    fn a_constant_target_has_no_r2() {
        let target = Target::Values { data: vec![1.0, 1.0], width: 1 };
        let m = Metrics::measure(&[0.0, 1.0], &target, &Loss::Mae, (0.0, 1.0));
        assert_eq!((m.r2, m.mae, m.loss), (None, Some(0.5), Some(0.5)));
    }

    #[test]
    fn binary_with_ties() {
        let target = Target::Values { data: vec![1.0, 0.0, 1.0, 0.0, 1.0], width: 1 };
        let loss = Loss::Bce { pos_weight: None };
        let m = Metrics::measure(&[2.0, 1.0, 1.0, -1.0, -2.0], &target, &loss, (0.0, 1.0));
        near(m.accuracy, 0.6);
        // predicted 1: rows 0 1 2, of which 0 and 2 are right; true 1: 0 2 4
        near(m.f1, 4.0 / 6.0);
        // pairs (positive over negative): 2>1, 2>-1, 1=1 half, 1>-1, -2 below both: 3.5 of 6
        near(m.auc, 3.5 / 6.0);
        let log = |p: f64| -p.ln();
        let s = |x: f64| 1.0 / (1.0 + (-x).exp());
        let expected = (log(s(2.0)) + log(1.0 - s(1.0)) + log(s(1.0)) + log(1.0 - s(-1.0)) + log(s(-2.0))) / 5.0;
        near(m.log_loss, expected);
        near(m.loss, expected);
        let one_class = Target::Values { data: vec![1.0, 1.0], width: 1 };
        assert_eq!(Metrics::measure(&[1.0, 2.0], &one_class, &loss, (0.0, 1.0)).auc, None);
    }

    #[test]
    fn many_classes() {
        let target = Target::Classes { data: vec![0, 1, 2, 2], classes: 4 };
        let logits = [3.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 3.0, 0.0, 0.0, 0.0];
        let loss = Loss::CrossEntropy { label_smoothing: 0.0, class_weights: None };
        let m = Metrics::measure(&logits, &target, &loss, (0.0, 1.0));
        near(m.accuracy, 0.75);
        // class 0: 2·1/(1+2), class 1: 1, class 2: 2·1/(2+1); class 3 occurs nowhere
        near(m.f1, (2.0 / 3.0 + 1.0 + 2.0 / 3.0) / 3.0);
        let z = (3f64.exp() + 3.0).ln();
        near(m.log_loss, (3.0 * (z - 3.0) + z) / 4.0);
        near(m.loss, (3.0 * (z - 3.0) + z) / 4.0);
        assert_eq!(m.auc, None);
    }

    #[test]
    fn weighted_and_smoothed_cross_entropy() {
        let target = Target::Classes { data: vec![0, 1], classes: 2 };
        let weights = vec![1.0, 3.0];
        let loss = Loss::CrossEntropy { label_smoothing: 0.0, class_weights: Some(weights) };
        let m = Metrics::measure(&[1.0, 0.0, 1.0, 0.0], &target, &loss, (0.0, 1.0));
        let z = (1f64.exp() + 1.0).ln();
        near(m.loss, ((z - 1.0) + 3.0 * z) / 4.0);
        let loss = Loss::CrossEntropy { label_smoothing: 0.2, class_weights: None };
        let m = Metrics::measure(&[1.0, 0.0, 1.0, 0.0], &target, &loss, (0.0, 1.0));
        // targets .9 .1 and .1 .9
        near(m.loss, (z - 0.9 + z - 0.1) / 2.0);
    }
}
