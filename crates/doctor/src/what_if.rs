//! Checks may ask: and if this setting were another? The answer is a training of as many steps, from the same seeds, on the same batches.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use citius_cpu::Options;
use citius_data::Dataset;
use citius_train::{Problem, Settings};

use crate::arm::{Arm, Dense, LOST, end, lost};
use crate::clock::Clock;
use crate::evidence::Dynamic;
use crate::evidence::dynamic::{Point, median};

/// Seeds that are compared.
const SEEDS: usize = 2;

/// Answers questions, as long as there is time.
pub struct WhatIf {
    problem: Rc<Problem>,
    sampled: Option<Rc<Dataset>>,
    cpu: Options,
    planned: u64,
    control: Vec<Control>,
    steps: u64,
    clock: Clock,
    time: Duration,
    known: RefCell<Vec<(Settings, u64, Option<Answer>)>>,
}

/// A run as observed.
struct Control {
    seed: u64,
    points: Vec<Point>,
    /// Of a step.
    seconds: f64,
    /// Steps it took, as a share of those that the longest took: a busy machine may have cut it short, and what it is compared with too.
    share: f64,
}

/// Errors at the end of as many steps, in the middle of the seeds.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// On training rows, as it is and as it would be.
    pub now: f64,
    pub then: f64,
    /// The least favourable of the seeds: error then by error now.
    pub worst_ratio: f64,
    /// The share of the steps after which it would be as good as it is now at the end; above 1 if never.
    pub reached: f64,
    /// On validation rows.
    pub validation_now: Option<f64>,
    pub validation_then: Option<f64>,
}

impl WhatIf {
    pub fn new(
        problem: Rc<Problem>,
        sampled: Option<Rc<Dataset>>,
        dynamic: &Dynamic,
        cpu: Options,
        time: Duration,
    ) -> WhatIf {
        let steps = dynamic.runs.iter().map(|run| run.steps).max().unwrap_or(0);
        let control = dynamic.runs.iter().take(SEEDS).map(|run| {
            let mut points = run.points.clone();
            let mut share = run.steps as f64 / steps.max(1) as f64;
            if run.diverged.is_some() {
                points.extend([lost(run.steps, true), lost(run.steps, true)]);
                share = 1.0;
            }
            Control { seed: run.seed, points, seconds: run.step_seconds, share }
        });
        WhatIf {
            control: control.collect(),
            planned: dynamic.planned,
            problem,
            sampled,
            cpu,
            steps: steps.max(120).min(dynamic.planned.max(1)),
            clock: Clock::start(),
            time,
            known: RefCell::default(),
        }
    }

    /// `None` where there is no time left, or such a training cannot start.
    pub fn ask(&self, settings: &Settings) -> Option<Answer> {
        self.ask_for(settings, 1.0)
    }

    /// The same, with so many times the steps.
    pub fn ask_for(&self, settings: &Settings, times: f64) -> Option<Answer> {
        let steps = ((self.steps as f64 * times) as u64).max(1);
        let planned = (((self.planned as f64) * times) as u64).max(steps);
        let found = self.known.borrow().iter().find(|(s, n, _)| s == settings && *n == steps).map(|k| k.2);
        if let Some(answer) = found {
            return answer;
        }
        let answer = self.answer(settings, steps, planned);
        self.known.borrow_mut().push((settings.clone(), steps, answer));
        answer
    }

    fn answer(&self, settings: &Settings, steps: u64, planned: u64) -> Option<Answer> {
        let train = self.problem.train.resident().or(self.sampled.as_deref())?;
        let validation = self.problem.validation.as_ref();
        let mut pairs = Vec::new();
        for Control { seed, points, seconds, share } in &self.control {
            let steps = ((steps as f64 * share) as u64).max(1);
            let left = self.clock.left(self.time);
            // half an answer is none
            if left.as_secs_f64() < seconds * steps as f64 * 0.5 {
                return None;
            }
            let within = left.max(Duration::from_millis(300));
            let (cpu, dense) = (self.cpu, Dense::Evenly);
            let arm = Arm { settings, train, validation, cpu, planned, steps, points: 12, dense, within };
            let curve = arm.run(*seed).ok()?;
            pairs.push((points, curve));
        }
        let ratio =
            |(points, curve): &(&Vec<Point>, crate::arm::Curve)| curve.end() / end(points, |p| p.train.error).max(1e-9);
        let reached = |(points, curve): &(&Vec<Point>, crate::arm::Curve)| {
            let wanted = end(points, |p| p.train.error);
            let first = curve.points.iter().find(|p| p.train.error <= wanted);
            first.map_or(2.0, |p| p.step as f64 / curve.wanted.max(1) as f64)
        };
        let middle = |of: &dyn Fn(&[Point]) -> f64| {
            (
                median(pairs.iter().map(|(points, _)| of(points)).collect()),
                median(pairs.iter().map(|(_, curve)| of(&curve.points)).collect()),
            )
        };
        let (now, then) = middle(&|points| end(points, |p| p.train.error));
        let (vn, vt) = middle(&|points| end(points, |p| p.validation.map_or(LOST, |v| v.error)));
        let validates = validation.is_some();
        Some(Answer {
            now,
            then,
            reached: median(pairs.iter().map(reached).collect()),
            worst_ratio: pairs.iter().map(ratio).fold(0.0, f64::max),
            validation_now: validates.then_some(vn),
            validation_then: validates.then_some(vt),
        })
    }
}
