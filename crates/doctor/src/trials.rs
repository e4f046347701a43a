//! A fix is tried before it is believed: control and treatment from the same seeds, hence weights, on the same batches; the effect is in
//! seconds to the target, beside that of a random change that costs as much.

use std::rc::Rc;
use std::time::{Duration, Instant};

use citius_train::{Problem, Settings, Wishes, choose};
use serde::Serialize;

use crate::arm::{Arm, Curve};
use crate::evidence::dynamic::{Point, median};
use crate::examine::Examination;
use crate::finding::{Fix, Severity};

/// Seeds of a trial; beyond those that evidence came from, so that nothing is judged by what suggested it.
const SEEDS: u64 = 4;
const FIRST_SEED: u64 = 101;
/// Times that an arm is judged.
const POINTS: u64 = 30;
/// Share of the improvement that either arm makes which is the target.
const TARGET: f64 = 0.9;
/// A fix that gains less is not worth telling.
const LEAST_GAIN: f64 = 1.1;
/// Student's t for 4 seeds, 95% on one side.
const STUDENT: f64 = 2.353;

/// What a trial came to.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    pub verdict: Verdict,
    pub seeds: usize,
    /// Seconds to the target without and with the fix, the middle of the seeds.
    pub before: f64,
    pub after: f64,
    /// The control did not get there: `before` is how long it was given.
    pub never: bool,
    /// How many times as fast, and its interval (90%).
    pub speedup: f64,
    pub interval: (f64, f64),
    /// The error that is the target; a constant has 1.
    pub target: f64,
    /// The same of a random change that costs as much, and whether it would have been confirmed.
    pub random: Option<f64>,
    pub random_change: String,
    pub random_confirmed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Confirmed,
    NotConfirmed,
    Harmful,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Confirmed => "confirmed",
            Verdict::NotConfirmed => "not confirmed",
            Verdict::Harmful => "harmful",
        }
    }
}

/// Tries the fixes of findings that ask for something to be done, the likeliest first, as long as the budget lasts.
pub fn try_fixes(examination: &mut Examination, budget: Duration, cpu: citius_cpu::Options) {
    let until = Instant::now() + budget;
    let evidence = &examination.evidence;
    let (Some(problem), Some(settings), Some(dynamic)) = (&evidence.problem, &evidence.settings, &evidence.dynamic)
    else {
        return;
    };
    let steps = dynamic.runs.iter().map(|run| run.steps).max().unwrap_or(0).max(120);
    let mut bench = Bench {
        wishes: evidence.wishes.clone(),
        settings: settings.clone(),
        problem: problem.clone(),
        steps,
        cpu,
        until,
        control: None,
    };
    let mut number = 0;
    for finding in &mut examination.findings {
        if finding.severity == Severity::Note || Instant::now() >= until {
            continue;
        }
        let Some(fix) = finding.fix.as_ref().filter(|_| finding.cause != "no-validation") else { continue };
        number += 1;
        finding.trial = bench.trial(fix, number, FIRST_SEED);
        finding.cost = finding.trial.as_ref().map(|trial| (trial.before - trial.after).max(0.0));
    }
}

/// Tries one fix from seeds of your choice; `None` where it cannot be tried.
pub fn try_fix(
    wishes: &Wishes,
    fix: &Fix,
    first_seed: u64,
    steps: u64,
    budget: Duration,
    cpu: citius_cpu::Options,
) -> Option<Trial> {
    let problem = Rc::new(Problem::read(wishes).ok()?);
    let (settings, _) = choose(&problem, wishes).ok()?;
    let until = Instant::now() + budget;
    let mut bench = Bench { wishes: wishes.clone(), settings, problem, steps, cpu, until, control: None };
    bench.trial(fix, first_seed, first_seed)
}

struct Bench {
    wishes: Wishes,
    settings: Settings,
    problem: Rc<Problem>,
    /// Of the control.
    steps: u64,
    cpu: citius_cpu::Options,
    until: Instant,
    /// By first seed: the control is the same for all fixes.
    control: Option<(u64, Vec<Curve>)>,
}

impl Bench {
    fn trial(&mut self, fix: &Fix, number: u64, seed: u64) -> Option<Trial> {
        let control = match &self.control {
            Some((first, curves)) if *first == seed => curves.clone(),
            _ => {
                let curves = self.curves(&self.settings, &self.problem, self.steps, seed)?;
                self.control = Some((seed, curves.clone()));
                curves
            }
        };
        let (settings, problem) = self.with(fix)?;
        // as many epochs, or as many more as the fix asks for
        let per_epoch = |s: &Settings| self.problem.train.rows().div_ceil(s.batch_size.max(1)) as f64;
        let more =
            settings.epochs as f64 * per_epoch(&settings) / (self.settings.epochs as f64 * per_epoch(&self.settings));
        let steps = ((self.steps as f64 * more.min(64.0)) as u64).max(1);
        let treated = self.curves(&settings, &problem, steps, seed)?;
        let unseen = judged_by_unseen(fix);
        let measured = Measured::of(&control, &treated, unseen);
        let (change, random) = self.random(fix, number);
        let random = random.and_then(|(settings, problem)| self.curves(&settings, &problem, self.steps, seed));
        let random = random.map(|curves| Measured::of(&control, &curves, unseen));
        let beats = random.as_ref().is_none_or(|r| measured.speedup > r.speedup * 1.02);
        let verdict = match measured.verdict() {
            Verdict::Confirmed if !beats => Verdict::NotConfirmed,
            verdict => verdict,
        };
        Some(Trial {
            verdict,
            seeds: SEEDS as usize,
            before: measured.before,
            after: measured.after,
            never: measured.never,
            speedup: measured.speedup,
            interval: measured.interval,
            target: measured.target,
            random: random.as_ref().map(|r| r.speedup),
            random_change: change,
            random_confirmed: random.is_some_and(|r| r.verdict() == Verdict::Confirmed),
        })
    }

    fn with(&self, fix: &Fix) -> Option<(Settings, Rc<Problem>)> {
        let wishes = fix.apply(&self.wishes).ok()?;
        let problem = match fix.touches_data() {
            true => Rc::new(Problem::read(&wishes).ok()?),
            false => self.problem.clone(),
        };
        let (settings, _) = choose(&problem, &wishes).ok()?;
        Some((settings, problem))
    }

    /// A change that somebody might as well have tried; not of what the fix changes.
    fn random(&self, fix: &Fix, number: u64) -> (String, Option<(Settings, Rc<Problem>)>) {
        let wider: Vec<i64> = self.settings.hidden.iter().map(|h| (*h as i64 * 5 / 4).max(1)).collect();
        let changes = [
            Fix::new("another activation").set("activation", "elu"),
            Fix::new("a little dropout").set("dropout", 0.05),
            Fix::new("clipping").set("clip-norm", 5.0),
            Fix::new("wider layers").set("hidden", wider),
            Fix::new("a little weight decay").set("weight-decay", 1e-4),
        ];
        let at = (number as usize * 7 + self.wishes.seed.unwrap_or(0) as usize) % changes.len();
        let other = |change: &&Fix| change.changes.iter().all(|c| fix.changes.iter().all(|f| f.key != c.key));
        for change in changes.iter().cycle().skip(at).take(changes.len()).filter(other) {
            if let Some(found) = self.with(change) {
                return (change.to_string(), Some(found));
            }
        }
        (String::new(), None)
    }

    fn curves(&self, settings: &Settings, problem: &Problem, steps: u64, seed: u64) -> Option<Vec<Curve>> {
        let sampled;
        let train = match problem.train.resident() {
            Some(train) => train,
            None => {
                sampled = problem.train.sample(4096, 0).ok()??;
                &sampled
            }
        };
        let planned = settings.updates(problem.train.rows(), settings.epochs).max(1) as u64;
        let mut curves = Vec::new();
        for seed in seed..seed + SEEDS {
            let within = self.until.saturating_duration_since(Instant::now());
            if within.is_zero() {
                return None;
            }
            let arm = Arm {
                settings,
                train,
                validation: problem.validation.as_ref(),
                cpu: self.cpu,
                planned: planned.max(steps),
                steps,
                points: POINTS,
                within,
            };
            curves.push(arm.run(seed).ok()?);
        }
        Some(curves)
    }
}

/// Fixes against learning by heart are for rows that were not trained on.
fn judged_by_unseen(fix: &Fix) -> bool {
    fix.changes.iter().any(|c| ["patience", "label-noise", "shuffle-labels"].contains(&c.key.as_str()))
}

struct Measured {
    before: f64,
    after: f64,
    never: bool,
    speedup: f64,
    interval: (f64, f64),
    target: f64,
}

impl Measured {
    fn of(control: &[Curve], treated: &[Curve], unseen: bool) -> Measured {
        let error = |p: &Point| match (unseen, p.validation) {
            (true, Some(validation)) => validation.error,
            _ => p.train.error,
        };
        let lowest = |curve: &Curve| curve.points.iter().map(error).fold(f64::INFINITY, f64::min);
        let (mut logs, mut before, mut after, mut targets, mut missed) = (vec![], vec![], vec![], vec![], 0);
        for (c, t) in control.iter().zip(treated) {
            let start = c.points.first().map_or(1.0, error).min(t.points.first().map_or(1.0, error)).min(1.0);
            let best = lowest(c).min(lowest(t));
            let target = start - TARGET * (start - best);
            let (first, reached) = seconds_to(c, target, &error);
            let (second, got) = seconds_to(t, target, &error);
            missed += usize::from(!reached);
            // a treatment that never gets there is at best as slow as all of its time
            let second = if got { second } else { second.max(first) * 2.0 };
            logs.push((first / second.max(1e-9)).max(1e-6).ln());
            before.push(first);
            after.push(second);
            targets.push(target);
        }
        let n = logs.len().max(1) as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        let half = STUDENT * (variance / n).sqrt();
        Measured {
            before: median(before),
            after: median(after),
            never: missed * 2 > control.len(),
            speedup: mean.exp(),
            interval: ((mean - half).exp(), (mean + half).exp()),
            target: median(targets),
        }
    }

    fn verdict(&self) -> Verdict {
        match self {
            m if m.interval.0 > LEAST_GAIN => Verdict::Confirmed,
            m if m.interval.1 < 1.0 / LEAST_GAIN => Verdict::Harmful,
            _ => Verdict::NotConfirmed,
        }
    }
}

/// When an error at or below the target was first seen, between points; else all of the time, and `false`.
fn seconds_to(curve: &Curve, target: f64, error: &dyn Fn(&Point) -> f64) -> (f64, bool) {
    let mut last: Option<(f64, f64)> = None;
    for point in &curve.points {
        let (at, now) = (point.step as f64, error(point));
        if now <= target {
            let steps = match last {
                Some((before, was)) if was > now => before + (at - before) * (was - target) / (was - now),
                _ => at,
            };
            return (steps.max(1.0) * curve.step_seconds, true);
        }
        last = Some((at, now));
    }
    // one that diverged would not have got there in all its time
    let steps = if curve.diverged { curve.wanted } else { curve.steps };
    (steps.max(1) as f64 * curve.step_seconds, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::Score;

    fn curve(errors: &[f64]) -> Curve {
        let score = |error: f64| Score { error, rarest: 0.0 };
        let point = |(i, e): (usize, &f64)| Point { step: i as u64 * 10, train: score(*e), validation: None };
        let points: Vec<Point> = errors.iter().enumerate().map(point).collect();
        let steps = (points.len() as u64 - 1) * 10;
        Curve { steps, wanted: steps, points, step_seconds: 0.1, diverged: false }
    }

    #[test]
    fn twice_as_fast_is_confirmed_and_the_same_is_not() {
        let slow: Vec<Curve> = (0..4).map(|i| curve(&[1.0, 0.8, 0.6, 0.4, 0.2 + 0.01 * i as f64])).collect();
        let fast: Vec<Curve> = (0..4).map(|i| curve(&[1.0, 0.6, 0.2 + 0.01 * i as f64, 0.2, 0.2])).collect();
        let gain = Measured::of(&slow, &fast, false);
        assert_eq!(gain.verdict(), Verdict::Confirmed);
        assert!((gain.speedup - 2.0).abs() < 0.2, "{}", gain.speedup);
        assert_eq!(Measured::of(&slow, &slow, false).verdict(), Verdict::NotConfirmed);
        assert_eq!(Measured::of(&fast, &slow, false).verdict(), Verdict::Harmful);
        let stuck: Vec<Curve> = (0..4).map(|_| curve(&[1.0; 5])).collect();
        let mended = Measured::of(&stuck, &fast, false);
        assert!(mended.never && mended.verdict() == Verdict::Confirmed);
    }
}
