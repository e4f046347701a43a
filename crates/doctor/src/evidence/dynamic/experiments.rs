//! Small experiments beside the runs: each asks one question of the network, on chosen batches.

use std::time::Duration;

use citius_cpu::{Flow, Outputs};
use citius_data::Target;
use citius_nn::{Adam, Network, OptimizerConfig, ScheduleConfig};
use citius_train::{Lab, Settings, TrainError, softmax};

use super::{Batches, Subject, median};
use crate::clock::Clock;
use crate::score::{Judge, constant_loss};

/// Can the network learn one batch by heart?
#[derive(Clone, Copy, Debug)]
pub struct Overfit {
    pub rows: usize,
    pub steps: u64,
    pub first: f64,
    /// The lowest loss reached.
    pub last: f64,
    /// Of the best constant prediction of this very batch.
    pub constant: Option<f64>,
}

/// How much of a gradient is noise.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    /// Rows at which noise and signal of the gradient are as large: tr Σ / |G|². At the start, and after some training.
    pub scale: f64,
}

/// The loss of the same rows while training and while predicting.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    pub train: f64,
    pub predict: f64,
}

/// What an update does to the loss of its own batch.
#[derive(Clone, Copy, Debug)]
pub struct Along {
    /// Share of updates that make it worse, at the rate of the settings.
    pub worse: f64,
    /// The same at a thousandth of the rate, where only the direction counts; and updates that changed anything.
    pub worse_at_small: f64,
    pub moved_at_small: usize,
    /// Mean of loss after by loss before, at the rate of the settings.
    pub ratio: f64,
}

/// Steps that a batch is tried to be learned in.
const OVERFIT_STEPS: u64 = 1500;
/// At least, here and where halves are learned.
const OVERFIT_LEAST: u64 = 61;
const OVERFIT_ROWS: usize = 32;
/// Steps that are taken to compare training with predicting, and of how many rows.
const GAP_STEPS: u64 = 40;
const GAP_ROWS: usize = 256;
/// Steps of pairs on the same batch.
const TWICE: u64 = 40;

/// Rows that all of these take steps of, however little time there is.
pub fn least_rows(batch: u64, rows: u64) -> u64 {
    let along = 2 * TWICE * batch;
    let gap = GAP_STEPS * rows.min(GAP_ROWS as u64);
    let noise = 4 * (rows / 4).min(1024);
    // learned by heart, and learned by halves
    let by_heart = 3 * OVERFIT_LEAST * OVERFIT_ROWS as u64;
    along + gap + noise + by_heart
}

/// Adam at a usual rate, no regularisation: the question is what the network can do, not what the optimiser does.
pub fn overfit(subject: &Subject, budget: Duration) -> Result<Option<Overfit>, TrainError> {
    let Subject { settings, train, cpu, .. } = *subject;
    let rows = OVERFIT_ROWS.min(train.rows);
    if rows < 4 {
        return Ok(None);
    }
    let batch = train.select(&(0..rows as u32).map(|i| (i as usize * train.rows / rows) as u32).collect::<Vec<_>>());
    let plain = Settings {
        batch_size: rows,
        dropout: 0.0,
        optimizer: OptimizerConfig::Adam(Adam::default()),
        lr: 3e-3,
        schedule: ScheduleConfig::Constant,
        accumulate: 1,
        average: None,
        swa: None,
        clip: None,
        ..settings.clone()
    };
    let mut lab = Lab::new(&plain, &batch, OVERFIT_STEPS as usize, cpu, &mut |_| {})?;
    let (mut first, mut last) = (f64::NAN, f64::INFINITY);
    let loss = lab.output("loss").unwrap_or(0);
    let clock = Clock::start();
    let mut feed = |_: u64, slot: &mut [i32]| slot.iter_mut().zip(0..).for_each(|(to, row)| *to = row);
    let mut see = |step: u64, outputs: &Outputs| {
        let value = outputs.scalar(loss) as f64;
        if step == 0 {
            first = value;
        }
        if value.is_finite() {
            last = last.min(value);
        }
        let over = !value.is_finite() || (step >= OVERFIT_LEAST && clock.elapsed() > budget);
        if over { Flow::Stop } else { Flow::Continue }
    };
    let steps = lab.run(OVERFIT_STEPS, &mut feed, &mut see)?;
    Ok(Some(Overfit { rows, steps, first, last, constant: constant_loss(&settings.loss, &batch.target) }))
}

/// From the mean square norms of the gradient at two batch sizes: |G_b|² = |G|² + tr Σ / b, with weights that stay where they are.
pub fn noise(subject: &Subject, budget: Duration) -> Result<Option<Noise>, TrainError> {
    let Subject { settings, train, cpu, .. } = *subject;
    let large = (train.rows / 4).min(1024);
    let small = (large / 16).max(1);
    if large < 32 {
        return Ok(None);
    }
    let mut norms = [0.0; 2];
    for (size, norm) in [small, large].into_iter().zip(&mut norms) {
        let still = Settings { batch_size: size, lr: 0.0, accumulate: 1, average: None, swa: None, ..settings.clone() };
        let mut lab = Lab::new(&still, train, 1, cpu, &mut |_| {})?;
        let at = lab.output("grad_norm").unwrap_or(0);
        let mut rows = Batches::new(train.rows, size, settings.seed);
        let clock = Clock::start();
        let (mut sum, mut count) = (0.0, 0.0);
        let mut see = |_: u64, outputs: &Outputs| {
            sum += (outputs.scalar(at) as f64).powi(2);
            count += 1.0;
            if count >= 4.0 && clock.elapsed() > budget / 2 { Flow::Stop } else { Flow::Continue }
        };
        let steps = if size == small { 64 } else { 16 };
        lab.run(steps, &mut |step, slot| rows.fill(step, slot), &mut see)?;
        *norm = sum / count;
    }
    let (b, l) = (small as f64, large as f64);
    let signal = (l * norms[1] - b * norms[0]) / (l - b);
    let noise = (norms[0] - norms[1]) / (1.0 / b - 1.0 / l);
    let scale = noise / signal;
    let known = signal > 0.0 && noise > 0.0 && scale.is_finite();
    Ok(known.then_some(Noise { scale }))
}

/// Rows that are asked of; and how often each half is gone through.
const ASKED: usize = 2000;
const PASSES: usize = 15;

/// Share of rows whose class a network that has not seen them contradicts: two halves, each judged by a network trained on the other. Three
/// classes and more: two leave no middle.
pub fn contradicted(subject: &Subject, budget: Duration) -> Result<Option<f64>, TrainError> {
    let Subject { settings, train, cpu, .. } = *subject;
    let Target::Classes { classes: classes @ 3.., .. } = train.target else { return Ok(None) };
    if train.rows < 200 || settings.details != Default::default() {
        return Ok(None);
    }
    let step = train.rows.div_ceil(ASKED);
    let half = |odd: usize| {
        let rows = (0..train.rows).step_by(step).enumerate().filter(|(i, _)| i % 2 == odd);
        train.select(&rows.map(|(_, row)| row as u32).collect::<Vec<_>>())
    };
    let halves = [half(0), half(1)];
    // one that is too small contradicts what it cannot learn
    let small =
        settings.network == Network::Mlp && (settings.hidden.len() < 2 || settings.hidden.iter().any(|h| *h < 32));
    let hidden = if small { vec![64, 64] } else { settings.hidden.clone() };
    let plain = Settings {
        hidden,
        batch_size: 32,
        dropout: 0.0,
        optimizer: OptimizerConfig::Adam(Adam::default()),
        lr: 3e-3,
        schedule: ScheduleConfig::Constant,
        accumulate: 1,
        average: None,
        swa: None,
        clip: None,
        ..settings.clone()
    };
    let (mut against, mut all) = (0, 0);
    for (own, other) in [(&halves[0], &halves[1]), (&halves[1], &halves[0])] {
        let mut lab = Lab::new(&plain, own, 1000, cpu, &mut |_| {})?;
        let mut rows = Batches::new(own.rows, lab.batch(), settings.seed);
        let steps = (own.rows / lab.batch().max(1) * PASSES) as u64;
        let clock = Clock::start();
        let mut see = |step: u64, _: &Outputs| {
            if step >= OVERFIT_LEAST && clock.elapsed() > budget { Flow::Stop } else { Flow::Continue }
        };
        lab.run(steps, &mut |step, slot| rows.fill(step, slot), &mut see)?;
        let outputs = lab.predict(&other.features, false)?;
        let Target::Classes { data, .. } = &other.target else { return Ok(None) };
        against += surely_others(&outputs, data, classes);
        all += other.rows;
    }
    Ok((all > 0).then(|| against as f64 / all as f64))
}

/// Rows that are given to another class at least as surely as the rows of that class are on average: confident learning (Northcutt et al.,
/// 2021), and more surely than not, as one that has learned little is sure of nothing. A network that errs on rows it has not seen is less sure of
/// them than usual; one that learned from wrong labels is less sure of all, and finds wrong ones no harder than others.
fn surely_others(logits: &[f32], labels: &[i32], classes: usize) -> usize {
    let shares: Vec<Vec<f64>> = logits.chunks_exact(classes).map(softmax).collect();
    let (mut sure, mut rows) = (vec![0.0; classes], vec![0.0; classes]);
    for (shares, label) in shares.iter().zip(labels) {
        sure[*label as usize] += shares[*label as usize];
        rows[*label as usize] += 1.0;
    }
    let usual: Vec<f64> = sure.iter().zip(&rows).map(|(sure, rows)| (sure / rows).max(0.5)).collect();
    let given = |shares: &Vec<f64>| {
        let surely = (0..classes).filter(|class| shares[*class] >= usual[*class]);
        surely.max_by(|a, b| shares[*a].total_cmp(&shares[*b]))
    };
    shares
        .iter()
        .zip(labels)
        .filter(|(shares, label)| given(shares).is_some_and(|class| class != **label as usize))
        .count()
}

/// With weights as they are after some steps: batch norm has seen some batches, and dropout has its say.
pub fn gap(subject: &Subject) -> Result<Option<Gap>, TrainError> {
    let Subject { settings, train, cpu, .. } = *subject;
    let rows = train.rows.min(GAP_ROWS);
    let sample = train.select(&(0..rows as u32).collect::<Vec<_>>());
    let settings = Settings { batch_size: rows, average: None, swa: None, ..settings.clone() };
    let mut lab = Lab::new(&settings, &sample, 1000, cpu, &mut |_| {})?;
    let at = lab.output("loss").unwrap_or(0);
    let mut loss = f64::NAN;
    let mut feed = |_: u64, slot: &mut [i32]| slot.iter_mut().zip(0..).for_each(|(to, row)| *to = row);
    lab.run(GAP_STEPS, &mut feed, &mut |_, outputs| {
        loss = outputs.scalar(at) as f64;
        if loss.is_finite() { Flow::Continue } else { Flow::Stop }
    })?;
    let predict = Judge::new(&sample, None).loss(&mut lab, &settings.loss)?;
    Ok(predict.filter(|_| loss.is_finite()).map(|predict| Gap { train: loss, predict }))
}

/// Each batch twice: the second loss is that after the update the first one asked for.
pub fn along(subject: &Subject) -> Result<Option<Along>, TrainError> {
    let (worse, ratio, _) = twice(subject, 1.0)?;
    let (worse_at_small, _, moved_at_small) = twice(subject, 1e-3)?;
    Ok(Some(Along { worse, worse_at_small, moved_at_small, ratio }))
}

fn twice(subject: &Subject, factor: f64) -> Result<(f64, f64, usize), TrainError> {
    let Subject { settings, train, cpu, .. } = *subject;
    let schedule = ScheduleConfig::Constant;
    // what dropout draws would hide what the update does
    let settings = Settings {
        lr: settings.lr * factor,
        schedule,
        dropout: 0.0,
        accumulate: 1,
        average: None,
        swa: None,
        ..settings.clone()
    };
    let mut lab = Lab::new(&settings, train, 1000, cpu, &mut |_| {})?;
    let at = lab.output("loss").unwrap_or(0);
    let mut rows = Batches::new(train.rows, lab.batch(), settings.seed);
    let mut losses = Vec::new();
    lab.run(TWICE, &mut |step, slot| rows.fill(step / 2, slot), &mut |_, outputs| {
        losses.push(outputs.scalar(at) as f64);
        if losses.last().is_some_and(|l| l.is_finite()) { Flow::Continue } else { Flow::Stop }
    })?;
    let pairs: Vec<(f64, f64)> = losses.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    if pairs.is_empty() {
        return Ok((1.0, f64::INFINITY, 0));
    }
    let moved = pairs.iter().filter(|(before, after)| after != before).count();
    let worse = pairs.iter().filter(|(before, after)| after > before || after.is_nan()).count() as f64;
    let worse = worse / moved.max(1) as f64;
    let ratios = pairs.iter().map(|(before, after)| if after.is_finite() { after / before } else { f64::INFINITY });
    Ok((worse, median(ratios.collect()), moved))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits that give one class such a share, and the other two the rest.
    fn row(class: usize, share: f32) -> Vec<f32> {
        let mut logits = vec![((1.0 - share) / 2.0).ln(); 3];
        logits[class] = share.ln();
        logits
    }

    #[test]
    fn a_row_is_contradicted_as_surely_as_others_are_known_or_not_at_all() {
        let rows = |of: &[(usize, f32)]| of.iter().flat_map(|(class, share)| row(*class, *share)).collect::<Vec<_>>();
        let labels = [0, 0, 1, 1, 2, 0];
        // sure of what it knows, and less sure where it errs: the last row looks like a 2
        let errs = rows(&[(0, 0.99), (0, 0.98), (1, 0.99), (1, 0.97), (2, 0.99), (2, 0.7)]);
        assert_eq!(surely_others(&errs, &labels, 3), 0);
        // no surer of any row than of that one
        let wrong = rows(&[(0, 0.65), (0, 0.7), (1, 0.6), (1, 0.7), (2, 0.7), (2, 0.7)]);
        assert_eq!(surely_others(&wrong, &labels, 3), 1);
        // sure of nothing
        let little = rows(&[(0, 0.4), (0, 0.35), (1, 0.4), (2, 0.4), (2, 0.4), (2, 0.4)]);
        assert_eq!(surely_others(&little, &labels, 3), 0);
    }
}
