//! How many workers: tried out while running.
//!
//! It starts with none, or, where rows take long, with one per core. When filling takes a good part of the caller's time, numbers of
//! workers are tried in turn, and the one that delivers most batches per second is kept, until it turns slow, or for a while: a moment
//! at which something else held a core may have misled. The batches are the same, so trying costs nothing but time.

use std::time::{Duration, Instant};

pub(super) struct Tuning {
    fixed: Option<usize>,
    cores: usize,
    candidates: Vec<usize>,
    /// Of each candidate in this trial: batches per second, the best of its tries, and how many there were.
    best: Vec<f64>,
    tries: Vec<usize>,
    now: usize,
    phase: Phase,
    /// Looks since the last trial, and before the next.
    looks: u32,
    until_review: u32,
    heavy: bool,
    began: Instant,
    chunks: u32,
    batches: u64,
    waited: Duration,
    waited_before: Duration,
    look: Duration,
    usual_look: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The first chunks: is there anything to gain?
    Start,
    Trying,
    Settled,
}

/// Long enough to tell candidates apart, in time and in chunks.
const LOOK: Duration = Duration::from_millis(4);
/// Where blocks are read or pictures decoded, work comes in bursts.
const HEAVY_LOOK: Duration = Duration::from_millis(100);
const FEW: u32 = 4;
/// Before anything else is tried: a first epoch should not be spent on trials.
const FIRST_LOOK: Duration = Duration::from_millis(25);
/// Longest look once settled.
const LONG_LOOK: Duration = Duration::from_millis(500);
const TRIES: usize = 3;
const HEAVY_TRIES: usize = 2;
/// A candidate that is this far behind after one try gets no other; but where work comes in bursts, one try says little.
const FAR: f64 = 0.75;
/// Looks before everything is tried again, each twice as long as the one before; one more after each time. Not where trials take
/// long: there they would cost more than they bring.
const REVIEW: u32 = 4;
/// A share of the caller's time not worth a thread: all that could be gained, while the caller may well use every core itself.
const IDLE: f64 = 0.2;
/// A share that is worth threads at once.
const BUSY: f64 = 0.8;
/// A candidate with fewer workers wins unless another is this much better.
const MARGIN: f64 = 1.05;
const DOUBT: f64 = 0.6;

impl Tuning {
    /// `heavy`: filling is known to take long.
    pub fn new(fixed: Option<usize>, cores: usize, heavy: bool) -> Tuning {
        let mut candidates: Vec<usize> = vec![0];
        candidates.extend((1..=cores).filter(|n| n.is_power_of_two() || *n == cores));
        let mut tuning = Tuning {
            fixed,
            cores,
            best: vec![0.0; candidates.len()],
            tries: vec![0; candidates.len()],
            candidates,
            now: 0,
            phase: Phase::Start,
            looks: 0,
            until_review: if heavy { u32::MAX } else { REVIEW },
            heavy,
            began: Instant::now(),
            chunks: 0,
            batches: 0,
            waited: Duration::ZERO,
            waited_before: Duration::ZERO,
            look: LOOK,
            usual_look: if heavy { HEAVY_LOOK } else { LOOK },
        };
        if heavy {
            tuning.take_all_cores();
        }
        tuning
    }

    /// Other numbers are tried later.
    fn take_all_cores(&mut self) {
        self.now = self.all_cores();
        self.phase = Phase::Trying;
        self.look = FIRST_LOOK.max(self.usual_look);
    }

    /// With the caller's thread, or, where filling takes long, without it: a caller that fills a batch cannot take one that is ready.
    fn all_cores(&self) -> usize {
        let wanted = if self.heavy { self.cores } else { self.cores - 1 };
        self.candidates.iter().position(|n| *n >= wanted).unwrap_or(0).max(1)
    }

    /// How many there will be if loading turns out to be worth any.
    pub fn likely_workers(&self) -> usize {
        self.fixed.unwrap_or(self.candidates[self.all_cores()])
    }

    pub fn workers(&self) -> usize {
        self.fixed.unwrap_or(self.candidates[self.now])
    }

    pub fn settled(&self) -> bool {
        self.fixed.is_some() || self.phase == Phase::Settled
    }

    pub fn delivered(&mut self, waited: Duration) {
        self.batches += 1;
        self.waited = waited;
    }

    /// Before each chunk: whether the number of workers has changed.
    pub fn begin_chunk(&mut self) -> bool {
        if self.fixed.is_some() {
            return false;
        }
        self.chunks += 1;
        if self.batches == 0 {
            self.restart();
            return false;
        }
        let (taken, waited) = (self.began.elapsed(), self.waited - self.waited_before);
        if self.phase == Phase::Start && waited.as_secs_f64() > BUSY * taken.as_secs_f64() {
            // hardly anything but loading
            self.take_all_cores();
            self.restart();
            return true;
        }
        if taken < self.look || self.chunks < FEW {
            return false;
        }
        let rate = self.batches as f64 / taken.as_secs_f64();
        let idle = waited.as_secs_f64() < IDLE * taken.as_secs_f64();
        self.judge(rate, idle)
    }

    fn judge(&mut self, rate: f64, idle: bool) -> bool {
        let before = self.now;
        match self.phase {
            _ if self.now == 0 && idle => {
                self.phase = Phase::Settled;
                self.best[0] = rate;
            }
            Phase::Start | Phase::Trying => {
                self.phase = Phase::Trying;
                self.best[self.now] = self.best[self.now].max(rate);
                self.tries[self.now] += 1;
                self.now = self.next().unwrap_or_else(|| {
                    (self.phase, self.looks) = (Phase::Settled, 0);
                    self.winner()
                });
            }
            Phase::Settled => {
                self.looks += 1;
                let due = self.looks >= self.until_review;
                self.until_review = self.until_review.saturating_add(due as u32);
                if due || rate < DOUBT * self.best[self.now] || self.tries[0] == 0 {
                    self.phase = Phase::Trying;
                    self.best.fill(0.0);
                    self.tries.fill(0);
                } else {
                    self.best[self.now] = self.best[self.now].max(rate);
                }
            }
        }
        self.look = match self.phase {
            Phase::Settled => (self.look * 2).min(LONG_LOOK),
            _ => self.usual_look,
        };
        self.restart();
        self.now != before
    }

    /// Who is tried next in this trial.
    fn next(&self) -> Option<usize> {
        let lead = self.best.iter().copied().fold(0.0, f64::max);
        let worth_it = |i: &usize| match self.tries[*i] {
            0 => true,
            tries if self.heavy => tries < HEAVY_TRIES,
            tries => tries < TRIES && self.best[*i] >= FAR * lead,
        };
        let count = self.candidates.len();
        (1..=count).map(|step| (self.now + step) % count).find(worth_it)
    }

    fn winner(&self) -> usize {
        let mut winner = 0;
        for i in 1..self.best.len() {
            if self.best[i] > MARGIN * self.best[winner] {
                winner = i;
            }
        }
        winner
    }

    fn restart(&mut self) {
        self.began = Instant::now();
        (self.chunks, self.batches, self.waited_before) = (0, 0, self.waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks until settled; the workers it settled on.
    fn settle(tuning: &mut Tuning, rate: impl Fn(usize) -> f64) -> usize {
        for _ in 0..50 {
            if tuning.phase == Phase::Settled {
                break;
            }
            let workers = tuning.workers();
            tuning.judge(rate(workers), false);
        }
        assert!(tuning.settled());
        tuning.workers()
    }

    #[test]
    fn the_fastest_is_kept_and_few_workers_win_a_draw() {
        let mut tuning = Tuning::new(None, 4, false);
        assert_eq!(tuning.workers(), 0);
        assert_eq!(settle(&mut tuning, |workers| 100.0 + workers as f64 * 50.0), 4);
        assert_eq!(settle(&mut Tuning::new(None, 4, false), |_| 100.0), 0);
        assert_eq!(settle(&mut Tuning::new(None, 4, false), |workers| if workers == 2 { 150.0 } else { 100.0 }), 2);
    }

    #[test]
    fn a_caller_that_never_waits_is_left_alone_until_it_waits() {
        let mut tuning = Tuning::new(None, 2, false);
        tuning.judge(100.0, true);
        assert!(tuning.settled() && tuning.workers() == 0);
        tuning.judge(100.0, false);
        assert!(!tuning.settled(), "now there is something to gain");
    }

    #[test]
    fn a_choice_that_turns_slow_is_doubted() {
        let mut tuning = Tuning::new(None, 2, false);
        settle(&mut tuning, |workers| 100.0 + workers as f64 * 50.0);
        tuning.judge(190.0, false);
        assert!(tuning.settled());
        tuning.judge(80.0, false);
        assert!(!tuning.settled());
        assert_eq!(settle(&mut tuning, |workers| 100.0 - workers as f64), 0);
    }

    #[test]
    fn everything_is_tried_again_after_a_while_and_less_and_less_often() {
        let mut tuning = Tuning::new(None, 2, false);
        // one worker is the fastest, but something held the other core
        assert_eq!(settle(&mut tuning, |workers| 100.0 - workers as f64), 0);
        let rate = |workers: usize| if workers == 1 { 150.0 } else { 100.0 };
        for looks in REVIEW..REVIEW + 3 {
            for look in 1..=looks {
                assert!(tuning.settled(), "look {look} of {looks}");
                tuning.judge(rate(tuning.workers()), false);
            }
            assert!(!tuning.settled(), "after {looks} looks");
            assert_eq!(settle(&mut tuning, rate), 1);
        }
    }

    #[test]
    fn who_is_far_behind_is_tried_once() {
        let mut tuning = Tuning::new(None, 2, false);
        assert_eq!(settle(&mut tuning, |workers| [50.0, 100.0, 90.0][workers]), 1);
        assert_eq!(tuning.tries, [1, TRIES, TRIES]);
    }

    #[test]
    fn a_fixed_number_stays() {
        let mut tuning = Tuning::new(Some(3), 2, false);
        assert!(!tuning.begin_chunk() && tuning.settled());
        assert_eq!(tuning.workers(), 3);
    }

    #[test]
    fn heavy_work_starts_on_all_cores() {
        assert_eq!(Tuning::new(None, 4, true).workers(), 4);
        assert_eq!(Tuning::new(None, 2, true).workers(), 2);
        assert_eq!(Tuning::new(None, 1, true).workers(), 1);
    }
}
