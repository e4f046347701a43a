//! The training itself under probes: its first steps, or all of it where that takes a moment, from several seeds.
//!
//! Probes are graph code: beside the gradient, update and weight of each parameter, which every step has, the spread of what enters an
//! activation, the share of units at its limits, and the largest value each unit has had.

mod experiments;
mod probes;

use std::time::Duration;

use citius_cpu::{Flow, Options, Outputs};
use citius_data::{Dataset, Order};
use citius_train::{Lab, Settings, TrainError};

pub use experiments::{Along, Gap, Noise, Overfit};
pub use probes::Unit;

use crate::clock::Clock;
use crate::score::{Judge, Score};
use probes::{Places, Probes};

/// Seeds that a training is begun with.
pub const SEEDS: u64 = 3;
/// Steps that say something, at least.
const LEAST: u64 = 120;
/// No more than so many are kept.
const MOST: u64 = 60_000;
/// Times that a run is judged.
const POINTS: u64 = 24;
/// Batches within which a unit is active, or dead.
const ALIVE: u64 = 20;
/// Steps whose probes are the start of a run.
const EARLY: u64 = 10;

/// What the first steps tell.
#[derive(Clone, Debug, Default)]
pub struct Dynamic {
    pub runs: Vec<Observed>,
    /// Steps of the whole training that was asked for.
    pub planned: u64,
    /// Whether the runs are all of it.
    pub whole: bool,
    /// Loss of the best constant prediction, if the loss has one.
    pub constant: Option<f64>,
    pub overfit: Option<Overfit>,
    pub noise: Option<Noise>,
    pub gap: Option<Gap>,
    pub along: Option<Along>,
    /// Share of rows that networks which have not seen them contradict; classes only.
    pub contradicted: Option<f64>,
}

/// One run.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub seed: u64,
    pub steps: u64,
    /// Of each step.
    pub losses: Vec<f32>,
    pub grad_norms: Vec<f32>,
    /// In the order of the network.
    pub layers: Vec<Layer>,
    pub units: Vec<Unit>,
    pub points: Vec<Point>,
    /// Step and what was not finite first.
    pub diverged: Option<(u64, String)>,
    /// Predictions of training rows at the end: mean, spread, least and most; and of their targets.
    pub predicted: Spread,
    pub target: Spread,
    /// Of a step without probes, roughly: probes cost a part of it.
    pub step_seconds: f64,
}

/// One layer's weights.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// `0`, `encoder.2`.
    pub name: String,
    pub elements: usize,
    /// Norm of the weights' gradient over the first steps, and over the last.
    pub grad: f64,
    pub late_grad: f64,
    /// Norm of an update by that of the weights, over the first steps, and over the last.
    pub update: f64,
    pub late_update: f64,
    /// The largest that the mean over some steps came to: a schedule may begin and end with small ones.
    pub most_update: f64,
    /// Norm of the weights at the start and at the end.
    pub weight: f64,
    pub late_weight: f64,
    /// All units of the layer start alike.
    pub alike: bool,
    /// How many times the spread of what enters the weights make of it at the start: their size times √inputs.
    pub gain: f64,
    /// Rows that are looked up, not multiplied.
    pub table: bool,
}

/// How good the network was after some steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    pub step: u64,
    pub train: Score,
    pub validation: Option<Score>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Spread {
    pub mean: f64,
    pub std: f64,
    pub min: f64,
    pub max: f64,
}

/// What the doctor looks at, and for how long.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub settings: &'a Settings,
    pub train: &'a Dataset,
    pub validation: Option<&'a Dataset>,
    pub cpu: Options,
    pub budget: Duration,
}

impl Dynamic {
    /// Rows that it takes steps of, at least.
    pub fn least_rows(settings: &Settings, train: &Dataset) -> u64 {
        let batch = settings.batch_size.clamp(1, train.rows.max(1)) as u64;
        SEEDS * LEAST.min(planned(settings, train)) * batch + experiments::least_rows(batch, train.rows as u64)
    }

    /// Trains and looks.
    pub fn of(subject: &Subject) -> Result<Dynamic, TrainError> {
        let Subject { settings, train, budget, .. } = *subject;
        let planned = planned(settings, train);
        let mut dynamic = Dynamic { planned, whole: true, ..Dynamic::default() };
        let each = budget.mul_f64(0.7 / SEEDS as f64);
        for seed in 0..SEEDS {
            let run = Observed::of(subject, settings.seed.wrapping_add(seed), planned, each)?;
            dynamic.whole &= run.steps >= planned || run.diverged.is_some();
            dynamic.runs.push(run);
        }
        dynamic.constant = crate::score::constant_loss(&settings.loss, &train.target);
        let rest = budget.mul_f64(0.3);
        dynamic.along = experiments::along(subject)?;
        dynamic.overfit = experiments::overfit(subject, rest.mul_f64(0.5))?;
        dynamic.noise = experiments::noise(subject, rest.mul_f64(0.2))?;
        dynamic.gap = experiments::gap(subject)?;
        dynamic.contradicted = experiments::contradicted(subject, rest.mul_f64(0.7))?;
        Ok(dynamic)
    }

    /// The middle one of a number over the runs.
    pub fn median(&self, of: impl Fn(&Observed) -> f64) -> f64 {
        median(self.runs.iter().map(of).collect())
    }
}

/// Steps of the whole training.
fn planned(settings: &Settings, train: &Dataset) -> u64 {
    settings.updates(train.rows, settings.epochs).max(1) as u64 * settings.accumulate.max(1) as u64
}

impl Observed {
    fn of(subject: &Subject, seed: u64, planned: u64, budget: Duration) -> Result<Observed, TrainError> {
        let Subject { train, validation, cpu, .. } = *subject;
        let settings = Settings { seed, ..subject.settings.clone() };
        let clock = Clock::start();
        let mut probes = Probes::default();
        let mut lab = Lab::new(&settings, train, planned as usize, cpu, &mut |forward| probes.record(forward))?;
        let places = Places::of(&lab, &probes);
        let mut run = Observed { seed, layers: places.layers(&lab), ..Observed::default() };
        let mut rows = Batches::new(train.rows, lab.batch(), seed);
        let judge = Judge::new(train, validation);
        let average = settings.average.is_some() || settings.swa.is_some();
        run.points.push(judge.point(&mut lab, 0, average)?);
        let judging = clock.seconds();
        // a point costs what it costs: fewer of them where that is much
        let points = ((budget.as_secs_f64() * 0.4 / judging.max(1e-6)) as u64).clamp(3, POINTS);
        let mut next = 1;
        let mut training = 0.0;
        while run.steps < planned.min(MOST) && run.diverged.is_none() {
            if run.steps >= LEAST && clock.elapsed() >= budget {
                break;
            }
            // the first point soon, to learn how long steps take
            let expected = match run.steps {
                0 => LEAST.min(planned),
                _ => {
                    let step = training / run.steps as f64;
                    ((clock.left(budget).as_secs_f64() / step) as u64 + run.steps).min(planned.min(MOST))
                }
            };
            let chunk = match run.steps {
                0 => LEAST.min(planned) / 4,
                _ => (expected.saturating_sub(run.steps) / points.saturating_sub(next).max(1)).max(1),
            };
            let chunk = chunk.clamp(1, planned - run.steps);
            // fewer batches would call units dead that are only rare
            if chunk >= ALIVE {
                places.forget_units(&mut lab);
            }
            let walking = Clock::start();
            let taken = run.walk(&mut lab, &places, &mut rows, chunk)?;
            training += walking.seconds();
            run.steps += taken;
            next += 1;
            if taken == 0 {
                break;
            }
            if run.diverged.is_none() {
                run.points.push(judge.point(&mut lab, run.steps, average)?);
            }
        }
        run.step_seconds = training / run.steps.max(1) as f64;
        run.units = places.units(&lab, &probes, &run);
        places.finish(&mut run);
        if run.diverged.is_none() {
            (run.predicted, run.target) = judge.spreads(&mut lab, average)?;
        }
        Ok(run)
    }

    fn walk(&mut self, lab: &mut Lab, places: &Places, rows: &mut Batches, steps: u64) -> Result<u64, TrainError> {
        let mut feed = |step: u64, slot: &mut [i32]| rows.fill(step, slot);
        let mut see = |step: u64, outputs: &Outputs| {
            let (loss, norm) = (outputs.scalar(places.loss), outputs.scalar(places.grad_norm));
            self.losses.push(loss);
            self.grad_norms.push(norm);
            if !(loss.is_finite() && norm.is_finite()) {
                let what = places.first_trouble(loss, outputs);
                self.diverged = Some((step + 1, what));
                return Flow::Stop;
            }
            places.see(outputs, step < EARLY, self);
            Flow::Continue
        };
        lab.run(steps, &mut feed, &mut see)
    }

    /// Mean loss over some of the steps.
    pub fn mean_loss(&self, range: std::ops::Range<usize>) -> f64 {
        let range = range.start.min(self.losses.len())..range.end.min(self.losses.len());
        let losses = &self.losses[range];
        losses.iter().map(|l| *l as f64).sum::<f64>() / losses.len().max(1) as f64
    }

    /// Over the first steps: a tenth of them, at most 10.
    pub fn first_loss(&self) -> f64 {
        self.mean_loss(0..(self.losses.len() / 10).clamp(1, 10))
    }

    /// Over the last tenth.
    pub fn last_loss(&self) -> f64 {
        let n = self.losses.len();
        self.mean_loss(n - (n / 10).max(1).min(n)..n)
    }

    /// The best score on training rows.
    pub fn best(&self) -> f64 {
        self.points.iter().map(|p| p.train.error).fold(f64::INFINITY, f64::min)
    }
}

/// Rows of each step, epoch after epoch, in whole batches.
pub struct Batches {
    rows: usize,
    batch: usize,
    seed: u64,
    epoch: Option<(u64, Order)>,
    drawn: Vec<u32>,
}

impl Batches {
    pub fn new(rows: usize, batch: usize, seed: u64) -> Batches {
        Batches { rows, batch, seed, epoch: None, drawn: vec![0; batch] }
    }

    pub fn fill(&mut self, step: u64, slot: &mut [i32]) {
        let per_epoch = (self.rows / self.batch.max(1)).max(1) as u64;
        let (epoch, place) = (step / per_epoch, step % per_epoch);
        if self.epoch.as_ref().is_none_or(|(at, _)| *at != epoch) {
            self.epoch = Some((epoch, Order::new(self.rows as u32, self.seed, epoch)));
        }
        let Some((_, order)) = &self.epoch else { return };
        order.fill((place * self.batch as u64) as u32, &mut self.drawn);
        slot.iter_mut().zip(&self.drawn).for_each(|(to, from)| *to = *from as i32);
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.retain(|v| !v.is_nan());
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}
