//! One arm of a comparison: a training from a seed, judged on the way, without probes.

use std::time::Duration;

use citius_cpu::{Flow, Options, Outputs};
use citius_data::Dataset;
use citius_train::{Lab, Settings, TrainError};

use crate::clock::Clock;
use crate::evidence::dynamic::{Batches, Point};
use crate::score::{Judge, Score};

/// What a network that has diverged gets: far worse than a constant.
pub const LOST: f64 = 10.0;

/// How a training went.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    pub points: Vec<Point>,
    pub steps: u64,
    /// Steps it was given; fewer are taken where it diverges.
    pub wanted: u64,
    /// Rows that were not trained on.
    pub unseen: usize,
    /// Of a step, once it is measured.
    pub step_seconds: f64,
    pub diverged: bool,
}

/// What to train, and for how long.
#[derive(Clone, Copy)]
pub struct Arm<'a> {
    pub settings: &'a Settings,
    pub train: &'a Dataset,
    pub validation: Option<&'a Dataset>,
    pub cpu: Options,
    /// Steps of the whole training, for its schedule; and those that are taken.
    pub planned: u64,
    pub steps: u64,
    /// Times that it is judged, and where.
    pub points: u64,
    pub dense: Dense,
    /// It ends when this is over, whatever is left.
    pub within: Duration,
}

/// Where the points of a training lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dense {
    Evenly,
    /// Closer at the start: that is where what is fast is told from what is faster.
    Early,
}

impl Dense {
    /// The step of point `i` of `points`.
    fn place(self, i: u64, points: u64, steps: u64) -> u64 {
        let points = points.max(1);
        match self {
            Dense::Evenly => i * (steps / points).max(1),
            Dense::Early => (steps as f64 * (i as f64 / points as f64).powi(2)) as u64,
        }
    }
}

impl Arm<'_> {
    pub fn run(&self, seed: u64) -> Result<Curve, TrainError> {
        let settings = Settings { seed, ..self.settings.clone() };
        let mut lab = Lab::new(&settings, self.train, self.planned as usize, self.cpu, &mut |_| {})?;
        let (loss, norm) = (lab.output("loss").unwrap_or(0), lab.output("grad_norm").unwrap_or(0));
        let mut rows = Batches::new(self.train.rows, lab.batch(), seed);
        let judge = Judge::new(self.train, self.validation);
        let average = settings.average.is_some() || settings.swa.is_some();
        let unseen = self.validation.map_or(0, |v| v.rows);
        let mut curve = Curve { wanted: self.steps, unseen, ..Curve::default() };
        curve.points.push(judge.point(&mut lab, 0, average)?);
        let clock = Clock::start();
        let mut next = 1;
        while curve.steps < self.steps && !curve.diverged && clock.elapsed() < self.within {
            let mut fine = true;
            let mut see = |_: u64, outputs: &Outputs| {
                fine = outputs.scalar(loss).is_finite() && outputs.scalar(norm).is_finite();
                if fine { Flow::Continue } else { Flow::Stop }
            };
            let wanted =
                self.dense.place(next, self.points, self.steps).clamp(curve.steps + 1, self.steps) - curve.steps;
            next += 1;
            curve.steps += lab.run(wanted, &mut |step, slot| rows.fill(step, slot), &mut see)?;
            curve.diverged = !fine;
            let point = match curve.diverged {
                true => lost(curve.steps, self.validation.is_some()),
                false => judge.point(&mut lab, curve.steps, average)?,
            };
            curve.points.push(point);
        }
        Ok(curve)
    }
}

/// The point of a network that is not finite.
pub fn lost(step: u64, validates: bool) -> Point {
    let score = Score { error: LOST, rarest: 1.0 };
    Point { step, train: score, validation: validates.then_some(score) }
}

impl Curve {
    /// Training error at the end.
    pub fn end(&self) -> f64 {
        end(&self.points, |p| p.train.error)
    }
}

/// The mean of the last two points, as one is noisy, unless the one before lies far back: on a busy machine there are few. A network that is
/// worse than lost is lost.
pub fn end(points: &[Point], of: impl Fn(&Point) -> f64) -> f64 {
    let late = points.last().map_or(0, |last| last.step / 4 * 3);
    let last = &points[points.len().saturating_sub(2)..];
    let last = if last.first().is_some_and(|p| p.step < late) { &last[1..] } else { last };
    let mean = last.iter().map(|p| of(p).min(LOST)).sum::<f64>() / last.len().max(1) as f64;
    if mean.is_finite() { mean } else { LOST }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_not_the_beginning() {
        let point = |step: u64, error: f64| Point { step, train: Score { error, rarest: 0.0 }, validation: None };
        let error = |points: &[Point]| end(points, |p| p.train.error);
        assert_eq!(error(&[point(0, 1.0), point(900, 0.2), point(1000, 0.1)]), (0.2 + 0.1) / 2.0);
        assert_eq!(error(&[point(0, 1.0), point(30, 0.7), point(1000, 0.1)]), 0.1, "judged three times only");
        assert_eq!(error(&[point(0, 1.0), point(30, f64::NAN)]), LOST);
    }
}
