//! A fix is tried before it is believed: control and treatment from the same seeds, hence weights, on the same batches; the effect is in
//! seconds to the target, beside that of a random change that costs as much.
//!
//! The target is what the better of the two comes to in the end, and a little more: nine tenths of its improvement, in powers of the
//! error. An error that both pass on their way to a better one tells nothing. The rule is one for control, treatment and random change.

use std::rc::Rc;
use std::time::Duration;

use citius_train::{Device, Problem, Settings, StepCost, Wishes, choose, step_costs};
use serde::Serialize;

use crate::arm::{Arm, Curve, Dense};
use crate::clock::Clock;
use crate::evidence::dynamic::{Point, median};
use crate::examine::Examination;
use crate::finding::{Fix, Severity};
use crate::progress::Progress;

/// Seeds of a trial; beyond those that evidence came from, so that nothing is judged by what suggested it.
const SEEDS: u64 = 4;
const FIRST_SEED: u64 = 101;
/// Seeds that not even a trial has seen.
pub(crate) const FRESH_SEED: u64 = 9001;
/// Times that an arm is judged.
const POINTS: u64 = 30;
/// Share of the improvement, in powers of the error, that the better arm makes which is the target.
const TARGET: f64 = 0.9;
/// An error that is as good as none: a hundredth of a constant's. Judged by hundreds of rows, less is luck.
const AS_GOOD_AS_NONE: f64 = 0.01;
/// What has not left this much of its first error has learned nothing.
const LEARNED: f64 = 0.95;
/// A fix that gains less for certain is not told: what four seeds gain by so little, four others may lose again.
const LEAST_GAIN: f64 = 1.2;
/// Student's t for 4 seeds, 95% on one side.
const STUDENT: f64 = 2.353;
/// Time to measure steps of all arms.
const CLOCK: Duration = Duration::from_millis(300);

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
    /// The treatment did not: `after` is how long it was given.
    pub lost: bool,
    /// How many times as fast, and its interval (90%). What never gets there counts as twice the longest time that either was given.
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

/// Tries the fixes of findings that ask for something to be done, the likeliest first, as long as the budget lasts. What is not tried
/// says why.
pub fn try_fixes(examination: &mut Examination, budget: Duration, cpu: citius_cpu::Options, progress: &Progress) {
    let mut bench = Bench::of(examination, budget, cpu);
    let mut number = 0;
    for finding in examination.findings.iter_mut().filter(|finding| finding.severity > Severity::Note) {
        let Some(fix) = finding.fix.as_ref().filter(|fix| !fix.changes.is_empty()) else { continue };
        number += 1;
        let tried = match &mut bench {
            // rows to judge by are worth more than they cost, and cost more than they gain
            _ if finding.cause == "no-validation" => Err("what it gains is knowledge, not time".to_owned()),
            Ok(bench) => {
                let doing = format!("trying a fix of {}, {SEEDS} seeds, beside a control", finding.cause);
                progress.tell(&doing, Some(bench.left()));
                bench.trial(fix, number, FIRST_SEED)
            }
            Err(why) => Err(why.clone()),
        };
        match tried {
            Ok(trial) => {
                finding.cost = Some((trial.before - trial.after).max(0.0));
                finding.trial = Some(trial);
            }
            Err(why) => finding.untried = Some(why),
        }
    }
}

/// Tries a fix on this training from seeds that neither evidence nor trials have seen. `Err` says why it cannot be tried.
pub fn try_again(
    examination: &Examination,
    fix: &Fix,
    budget: Duration,
    cpu: citius_cpu::Options,
) -> Result<Trial, String> {
    Bench::of(examination, budget, cpu)?.trial(fix, FRESH_SEED, FRESH_SEED)
}

/// Where trials are made.
struct Bench {
    wishes: Wishes,
    control: Candidate,
    /// Of the control.
    steps: u64,
    /// Where its steps are timed; what they come to is the same everywhere, and is found on the processor.
    device: Device,
    cpu: citius_cpu::Options,
    clock: Clock,
    budget: Duration,
    /// By first seed: the control is the same for all fixes.
    known: Option<(u64, Vec<Curve>)>,
}

/// What one arm trains.
#[derive(Clone)]
struct Candidate {
    settings: Settings,
    problem: Rc<Problem>,
}

const NO_TIME: &str = "there was no time left; a longer --budget has some";

impl Bench {
    fn of(examination: &Examination, budget: Duration, cpu: citius_cpu::Options) -> Result<Bench, String> {
        let evidence = &examination.evidence;
        if let Some(why) = &evidence.cannot_start {
            return Err(format!("there is nothing to compare it with, the training cannot start: {why}"));
        }
        let (Some(problem), Some(settings), Some(dynamic)) = (&evidence.problem, &evidence.settings, &evidence.dynamic)
        else {
            return Err("how it learns was not looked at, for the reason above".to_owned());
        };
        let steps = dynamic.runs.iter().map(|run| run.steps).max().unwrap_or(0).max(120);
        let control = Candidate { settings: settings.clone(), problem: problem.clone() };
        let device = evidence.device();
        Ok(Bench {
            wishes: evidence.wishes.clone(),
            control,
            steps,
            device,
            cpu,
            clock: Clock::start(),
            budget,
            known: None,
        })
    }

    /// Of the budget.
    fn left(&self) -> Duration {
        self.clock.left(self.budget)
    }

    fn trial(&mut self, fix: &Fix, number: u64, seed: u64) -> Result<Trial, String> {
        let mut control = match &self.known {
            Some((first, curves)) if *first == seed => curves.clone(),
            _ => {
                let curves = self.curves(&self.control, self.steps, seed)?;
                self.known = Some((seed, curves.clone()));
                curves
            }
        };
        let candidate = self.with(fix)?;
        // as many epochs, or as many more as the fix asks for
        let more = candidate.updates() / self.control.updates();
        let steps = ((self.steps as f64 * more.min(64.0)) as u64).max(1);
        let mut treated = match fix.only_loads() {
            true => control.clone(),
            false => self.curves(&candidate, steps, seed)?,
        };
        let (change, other) = self.random(fix, number);
        let mut random = match &other {
            Some(other) => self.curves(other, self.steps, seed).ok(),
            None => None,
        };
        let by = Judged::of(fix);
        if by == Judged::Delivered {
            candidate.stop_early(&mut treated);
        }
        let arms = [&self.control, &candidate, other.as_ref().unwrap_or(&self.control)];
        let seconds = self.clock(&arms)?;
        for (curves, seconds) in [Some(&mut control), Some(&mut treated), random.as_mut()].into_iter().zip(seconds) {
            curves.into_iter().flatten().for_each(|curve| curve.step_seconds = seconds);
        }
        let measured = Measured::of(&control, &treated, by);
        let random = random.map(|curves| Measured::of(&control, &curves, by));
        let beats = random.as_ref().is_none_or(|r| measured.speedup > r.speedup * 1.02);
        let verdict = match measured.verdict() {
            Verdict::Confirmed if !beats => Verdict::NotConfirmed,
            verdict => verdict,
        };
        Ok(Trial {
            verdict,
            seeds: SEEDS as usize,
            before: measured.before,
            after: measured.after,
            never: measured.never,
            lost: measured.lost,
            speedup: measured.speedup,
            interval: measured.interval,
            target: measured.target,
            random: random.as_ref().map(|r| r.speedup),
            random_change: change,
            random_confirmed: random.is_some_and(|r| r.verdict() == Verdict::Confirmed),
        })
    }

    fn with(&self, fix: &Fix) -> Result<Candidate, String> {
        let wishes = fix.apply(&self.wishes)?;
        let problem = match fix.touches_data() {
            true => Rc::new(Problem::read(&wishes).map_err(|error| error.to_string())?),
            false => self.control.problem.clone(),
        };
        let (settings, _) = choose(&problem, &wishes).map_err(|error| error.to_string())?;
        Ok(Candidate { settings, problem })
    }

    /// A change that somebody might as well have tried; not of what the fix changes.
    fn random(&self, fix: &Fix, number: u64) -> (String, Option<Candidate>) {
        let wider: Vec<i64> = self.control.settings.hidden.iter().map(|h| (*h as i64 * 5 / 4).max(1)).collect();
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
            // one that changes nothing is none
            if let Ok(found) = self.with(change)
                && found.settings != self.control.settings
            {
                return (change.to_string(), Some(found));
            }
        }
        (String::new(), None)
    }

    fn curves(&self, candidate: &Candidate, steps: u64, seed: u64) -> Result<Vec<Curve>, String> {
        let Candidate { settings, problem } = candidate;
        let sampled;
        let train = match problem.train.resident() {
            Some(train) => train,
            None => {
                let sample = problem.train.sample(4096, 0).map_err(|error| error.to_string())?;
                sampled = sample.ok_or("its rows cannot be held in memory as they are")?;
                &sampled
            }
        };
        let planned = settings.updates(problem.train.rows(), settings.epochs).max(1) as u64;
        let mut curves = Vec::new();
        for seed in seed..seed + SEEDS {
            let within = self.clock.left(self.budget);
            if within.is_zero() {
                return Err(NO_TIME.to_owned());
            }
            let arm = Arm {
                settings,
                train,
                validation: problem.validation.as_ref(),
                cpu: self.cpu,
                planned: planned.max(steps),
                steps,
                points: POINTS,
                dense: Dense::Early,
                within,
            };
            let curve = arm.run(seed).map_err(|error| error.to_string())?;
            // half an arm would seem to have got nowhere
            if curve.steps < curve.wanted && !curve.diverged {
                return Err(NO_TIME.to_owned());
            }
            curves.push(curve);
        }
        Ok(curves)
    }

    /// Seconds of a step of each, with all that brings its batch. One that is not known for certain to take longer than the control's, or
    /// less long, takes as long.
    fn clock(&self, arms: &[&Candidate]) -> Result<Vec<f64>, String> {
        let steps: Vec<_> = arms.iter().map(|of| (&of.problem.train, &of.settings)).collect();
        let costs = step_costs(&steps, self.device, self.cpu, CLOCK).map_err(|error| error.to_string())?;
        let first = costs.first().map_or(f64::NAN, |cost| cost.seconds);
        let certain = |cost: &StepCost| if cost.low > 1.0 { cost.low } else { cost.high.min(1.0) };
        Ok(costs.iter().map(|cost| first * certain(cost)).collect())
    }
}

impl Candidate {
    /// Steps of the whole training, by its rows.
    fn updates(&self) -> f64 {
        let per_epoch = self.problem.train.rows().div_ceil(self.settings.batch_size.max(1)).max(1);
        (self.settings.epochs.max(1) * per_epoch) as f64
    }

    /// Ends curves where patience would end the training.
    fn stop_early(&self, curves: &mut [Curve]) {
        let Some(patience) = self.settings.patience else { return };
        let per_epoch = self.updates() / self.settings.epochs.max(1) as f64;
        let wait = (patience * self.settings.validate_every.max(1)) as f64 * per_epoch;
        for curve in curves {
            let mut best = (0, f64::INFINITY);
            let over = curve.points.iter().position(|point| {
                let error = point.validation.map_or(point.train.error, |v| v.error);
                if error < best.1 {
                    best = (point.step, error);
                }
                (point.step - best.0) as f64 >= wait
            });
            if let Some(over) = over {
                curve.points.truncate(over + 1);
                curve.steps = curve.points[over].step;
                curve.wanted = curve.steps;
            }
        }
    }
}

/// What a fix is judged by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Judged {
    /// When training rows are known so well.
    Trained,
    /// When unseen rows are: labels are other ones.
    Unseen,
    /// When the training is over, having kept weights that know unseen rows so well: the fix ends it.
    Delivered,
}

impl Judged {
    fn of(fix: &Fix) -> Judged {
        let changes = |keys: &[&str]| fix.changes.iter().any(|c| keys.contains(&c.key.as_str()));
        match () {
            _ if changes(&["patience"]) => Judged::Delivered,
            _ if changes(&["label-noise", "shuffle-labels"]) => Judged::Unseen,
            _ => Judged::Trained,
        }
    }

    /// What errors may differ by for no reason: few rows judge.
    fn luck(self, curve: &Curve) -> f64 {
        match self {
            Judged::Trained => 0.0,
            Judged::Unseen | Judged::Delivered => 1.0 / (curve.unseen.max(1) as f64).sqrt(),
        }
    }

    /// Steps and errors of a training as they count. A dip of a single point is luck, and a peak too: the middle of three neighbours.
    fn errors(self, curve: &Curve) -> Vec<(f64, f64)> {
        let error = |p: &Point| match (self, p.validation) {
            (Judged::Unseen | Judged::Delivered, Some(validation)) => validation.error,
            _ => p.train.error,
        };
        let raw: Vec<f64> = curve.points.iter().map(error).collect();
        let smooth = |i: usize| match i {
            0 => raw[0],
            i => median(raw[i - 1..raw.len().min(i + 2)].to_vec()),
        };
        let mut errors: Vec<(f64, f64)> =
            curve.points.iter().enumerate().map(|(i, point)| (point.step as f64, smooth(i))).collect();
        if self == Judged::Delivered {
            // nothing is had before the end, then the best
            let best = errors.iter().map(|e| e.1).fold(f64::INFINITY, f64::min);
            let last = errors.len() - 1;
            errors[1..last].iter_mut().for_each(|e| e.1 = f64::INFINITY);
            errors[last].1 = best;
        }
        errors
    }
}

struct Measured {
    before: f64,
    after: f64,
    never: bool,
    lost: bool,
    speedup: f64,
    interval: (f64, f64),
    target: f64,
}

impl Measured {
    fn of(control: &[Curve], treated: &[Curve], by: Judged) -> Measured {
        let (mut logs, mut before, mut after, mut targets) = (vec![], vec![], vec![], vec![]);
        let (mut missed, mut lost) = (0, 0);
        for (c, t) in control.iter().zip(treated) {
            let (of_c, of_t) = (by.errors(c), by.errors(t));
            let lowest = |errors: &[(f64, f64)]| errors.iter().map(|e| e.1).fold(f64::INFINITY, f64::min);
            let start = of_c[0].1.min(of_t[0].1).min(1.0);
            let best = lowest(&of_c).min(lowest(&of_t)).max(AS_GOOD_AS_NONE);
            let target = (start * (best / start).min(1.0).powf(TARGET)).max(best + by.luck(c));
            // where neither learns anything, neither gets anywhere
            let learned = best < LEARNED * start;
            let (first, reached) = if learned { seconds_to(c, &of_c, target) } else { (c.given(), false) };
            let (second, got) = if learned { seconds_to(t, &of_t, target) } else { (t.given(), false) };
            missed += usize::from(!reached);
            lost += usize::from(!got);
            let never = 2.0 * c.given().max(t.given());
            let log = match (reached, got) {
                (true, true) => (first / second).ln(),
                (true, false) => (first / never).ln(),
                (false, true) => (never / second).ln(),
                (false, false) => 0.0,
            };
            logs.push(log);
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
            lost: lost * 2 > control.len(),
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

impl Curve {
    /// Seconds of all steps it was given; one that diverged would not have got there in all its time.
    fn given(&self) -> f64 {
        self.wanted.max(1) as f64 * self.step_seconds
    }
}

/// When an error at or below the target was first seen, between points; else all of the time, and `false`.
fn seconds_to(curve: &Curve, errors: &[(f64, f64)], target: f64) -> (f64, bool) {
    let mut last: Option<(f64, f64)> = None;
    for &(at, now) in errors {
        if now <= target {
            let steps = match last {
                Some((before, was)) if was > now && was.is_finite() => {
                    before + (at - before) * (was - target) / (was - now)
                }
                _ => at,
            };
            return (steps.max(1.0) * curve.step_seconds, true);
        }
        last = Some((at, now));
    }
    (curve.given(), false)
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
        Curve { steps, wanted: steps, points, step_seconds: 0.1, unseen: 400, diverged: false }
    }

    fn curves(errors: &[f64]) -> Vec<Curve> {
        (0..4).map(|i| curve(&errors.iter().map(|e| e * (1.0 + 0.001 * i as f64)).collect::<Vec<_>>())).collect()
    }

    #[test]
    fn twice_as_fast_is_confirmed_and_the_same_is_not() {
        let slow = curves(&[1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2]);
        let fast = curves(&[1.0, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2]);
        let gain = Measured::of(&slow, &fast, Judged::Trained);
        assert_eq!(gain.verdict(), Verdict::Confirmed);
        assert!((gain.speedup - 2.0).abs() < 0.2, "{}", gain.speedup);
        assert_eq!(Measured::of(&slow, &slow, Judged::Trained).verdict(), Verdict::NotConfirmed);
        assert_eq!(Measured::of(&fast, &slow, Judged::Trained).verdict(), Verdict::Harmful);
        let stuck = curves(&[1.0; 10]);
        let mended = Measured::of(&stuck, &fast, Judged::Trained);
        assert!(mended.never && mended.verdict() == Verdict::Confirmed);
        assert_eq!(Measured::of(&stuck, &stuck, Judged::Trained).verdict(), Verdict::NotConfirmed);
    }

    /// What is quick at first and then stays is no better than what takes its time and gets there.
    #[test]
    fn the_target_is_what_the_better_comes_to_in_the_end() {
        let hasty = curves(&[1.0, 0.1, 0.09, 0.09, 0.09, 0.09, 0.09, 0.09]);
        let sound = curves(&[1.0, 0.5, 0.3, 0.1, 0.05, 0.03, 0.02, 0.02]);
        let gain = Measured::of(&hasty, &sound, Judged::Trained);
        assert!(gain.never && gain.target < 0.04, "{}", gain.target);
        assert_eq!(gain.verdict(), Verdict::Confirmed);
        // but beyond a hundredth of a constant's error nobody looks
        let close = curves(&[1.0, 0.009, 0.009, 0.009, 0.009, 0.009, 0.009, 0.009]);
        let closer = curves(&[1.0, 0.5, 0.3, 0.1, 0.05, 0.001, 0.0001, 0.0001]);
        assert_eq!(Measured::of(&close, &closer, Judged::Trained).verdict(), Verdict::Harmful);
    }

    #[test]
    fn a_single_dip_is_luck() {
        let wild = curves(&[1.0, 0.9, 0.1, 0.9, 0.9, 0.9, 0.9, 0.9]);
        let calm = curves(&[1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2]);
        assert_eq!(Measured::of(&wild, &calm, Judged::Trained).verdict(), Verdict::Confirmed);
    }

    /// Stopping early gets nobody to an error sooner; it is over sooner.
    #[test]
    fn what_ends_a_training_is_judged_by_its_end() {
        let long = curves(&[1.0, 0.6, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.9, 0.9, 0.9, 0.9]);
        let mut short = long.clone();
        for curve in &mut short {
            curve.points.truncate(6);
            (curve.steps, curve.wanted) = (50, 50);
        }
        assert_eq!(Measured::of(&long, &short, Judged::Trained).verdict(), Verdict::NotConfirmed);
        let over = Measured::of(&long, &short, Judged::Delivered);
        assert_eq!(over.verdict(), Verdict::Confirmed);
        assert!((over.speedup - 2.2).abs() < 0.01, "{}", over.speedup);
    }
}
