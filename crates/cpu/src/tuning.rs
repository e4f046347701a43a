//! How many threads take a step.

/// More than so many are not taken unless told.
const MOST_TRIED: usize = 64;
/// Operations of a step, some hundredths of a second on one core, from which all cores are taken untried: trying one of many would take
/// longer than it could save.
const LARGE_STEP: usize = 2_000_000_000;
/// Steps of a trial, the fewest that say anything.
const SHORTEST_TRIAL: u64 = 8;
/// Steps after which a choice is looked at again; long ones sooner.
const REVIEW: u64 = 2048;
const LONG_REVIEW: u64 = 16;
/// Times each candidate is tried; the fastest try counts.
const TRIES: usize = 3;
/// A chosen number this much slower than another's best is doubted.
const DOUBT: f64 = 1.3;

/// Looks after which all are tried once more, twice as many each time: all tries of one may have met a bad moment, which nobody would
/// notice as long as another is chosen.
const PATIENCE: u64 = 8;

/// Finds the number of threads that is fastest for this plan: each candidate is timed a few times at the start, again after a
/// while that grows, and when the chosen one becomes slower than another was (something else has come to the machine, or left it).
/// The results are the same bits for any number, so trying costs nothing but time.
pub(crate) struct Tuning {
    candidates: Vec<usize>,
    /// Seconds per step, the fastest of its tries.
    best: Vec<f64>,
    trials: usize,
    /// Steps of a trial at least, and after which the choice is looked at again.
    pub shortest: u64,
    pub review: u64,
    /// Looks since the last trials, and after which the next are due.
    looks: u64,
    patience: u64,
    /// What was chosen before the trials under way.
    before: Option<usize>,
}

impl Tuning {
    /// For steps of so many operations, where 0 threads are asked for; else as many as are.
    pub fn of(asked: usize, cores: usize, flops: usize) -> Tuning {
        let cores = cores.min(MOST_TRIED);
        match asked {
            0 if flops >= LARGE_STEP => {
                let mut candidates = vec![cores.div_ceil(2), cores];
                candidates.dedup();
                Tuning::trusting(candidates)
            }
            0 => Tuning::new((1..=cores).filter(|t| t.is_power_of_two() || *t == cores).collect()),
            n => Tuning::new(vec![n]),
        }
    }

    fn new(candidates: Vec<usize>) -> Tuning {
        let best = vec![f64::INFINITY; candidates.len()];
        let (shortest, review) = (SHORTEST_TRIAL, REVIEW);
        Tuning { candidates, best, trials: 0, shortest, review, looks: 0, patience: PATIENCE, before: None }
    }

    /// For long steps, each of which tells how long it takes: the last candidate is taken untried, until it becomes slower than it was.
    fn trusting(candidates: Vec<usize>) -> Tuning {
        let trials = TRIES * candidates.len();
        Tuning { trials, shortest: 1, review: LONG_REVIEW, patience: u64::MAX, ..Tuning::new(candidates) }
    }

    pub fn candidates(&self) -> &[usize] {
        &self.candidates
    }

    pub fn has_choice(&self) -> bool {
        self.candidates.len() > 1
    }

    pub fn settled(&self) -> bool {
        !self.has_choice() || self.trials >= TRIES * self.candidates.len()
    }

    /// The choice, also while all are tried once more.
    pub fn chosen(&self) -> usize {
        self.before.filter(|_| !self.settled()).unwrap_or_else(|| self.threads())
    }

    /// Who takes the next steps.
    pub fn threads(&self) -> usize {
        if !self.settled() {
            return self.candidates[self.trials % self.candidates.len()];
        }
        // of those that are untried the last
        let fastest = (0..self.candidates.len()).rev().min_by(|&a, &b| self.best[a].total_cmp(&self.best[b]));
        self.candidates[fastest.unwrap_or(0)]
    }

    pub fn observe(&mut self, threads: usize, seconds_per_step: f64) {
        let Some(i) = self.candidates.iter().position(|&c| c == threads) else { return };
        if !self.settled() {
            self.best[i] = self.best[i].min(seconds_per_step);
            self.trials += 1;
            return;
        }
        let other = (0..self.best.len()).filter(|&j| j != i).map(|j| self.best[j]).fold(f64::INFINITY, f64::min);
        let untried = other == f64::INFINITY;
        let expected = if untried { self.best[i] } else { other };
        self.looks += 1;
        let due = self.looks >= self.patience;
        if self.has_choice() && (due || seconds_per_step > DOUBT * expected) {
            self.before = Some(self.threads());
            self.best.fill(f64::INFINITY);
            (self.trials, self.looks) = (0, 0);
            self.patience = self.patience.saturating_mul(if due { 2 } else { 1 });
        } else if untried {
            self.best[i] = self.best[i].min(seconds_per_step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_numbers_of_threads_are_tried_and_none_at_first_where_steps_are_large() {
        assert_eq!(Tuning::of(0, 12, 1_000).candidates(), [1, 2, 4, 8, 12]);
        let large = Tuning::of(0, 12, LARGE_STEP);
        assert!(large.candidates() == [6, 12] && large.settled() && large.threads() == 12);
        assert_eq!(Tuning::of(3, 12, LARGE_STEP).candidates(), [3], "as told");
        assert!(!Tuning::of(0, 1, LARGE_STEP).has_choice());
    }

    #[test]
    fn all_cores_are_trusted_until_they_slow_down() {
        let mut tuning = Tuning::trusting(vec![8, 16]);
        assert!(tuning.settled() && tuning.threads() == 16);
        tuning.observe(16, 2.0);
        tuning.observe(16, 1.0);
        tuning.observe(16, 1.2);
        assert!(tuning.settled() && tuning.threads() == 16);
        tuning.observe(16, 1.4);
        assert!(!tuning.settled(), "it took 1 before");
        while !tuning.settled() {
            let threads = tuning.threads();
            tuning.observe(threads, if threads == 8 { 1.1 } else { 1.4 });
        }
        assert_eq!(tuning.threads(), 8);
    }

    #[test]
    fn what_was_tried_in_a_bad_moment_is_tried_again() {
        let mut tuning = Tuning::new(vec![1, 2]);
        let mut trials = Vec::new();
        for step in 0..100 {
            let (threads, settled) = (tuning.threads(), tuning.settled());
            trials.extend((!settled).then_some(step));
            tuning.observe(threads, if threads == 1 { 3.0 } else { [4.0, 2.0][(step > 10) as usize] });
        }
        assert_eq!(tuning.threads(), 2);
        while tuning.settled() {
            tuning.observe(2, 2.0);
        }
        assert_eq!((tuning.threads(), tuning.chosen()), (1, 2), "one is tried, two are the choice");
        let again: Vec<usize> = trials.windows(2).map(|pair| pair[1] - pair[0]).filter(|apart| *apart > 1).collect();
        assert_eq!(again, [9, 17, 33], "after a while that grows");
    }

    #[test]
    fn the_fastest_is_chosen_and_doubted_when_it_slows_down() {
        let mut tuning = Tuning::new(vec![1, 2]);
        while !tuning.settled() {
            let threads = tuning.threads();
            tuning.observe(threads, if threads == 1 { 3.0 } else { 2.0 });
        }
        assert_eq!(tuning.threads(), 2);
        tuning.observe(2, 3.5);
        assert!(tuning.settled(), "still as good as one thread");
        tuning.observe(2, 9.0);
        assert!(!tuning.settled(), "one thread took 3");
        while !tuning.settled() {
            let threads = tuning.threads();
            tuning.observe(threads, if threads == 1 { 3.0 } else { 9.0 });
        }
        assert_eq!(tuning.threads(), 1);
    }
}
