//! Time for looking, on a machine that has other work too.

use std::fs;
use std::time::{Duration, Instant};

/// How many times as long a budget may take beside other work.
const PATIENCE: u32 = 3;

/// Counts time but for that in which this thread was ready and had no core: what is seen within a budget is then the same on a busy machine.
pub struct Clock {
    started: Instant,
    waited: Duration,
}

impl Clock {
    pub fn start() -> Clock {
        Clock { started: Instant::now(), waited: waited() }
    }

    pub fn elapsed(&self) -> Duration {
        own(self.started.elapsed(), waited().saturating_sub(self.waited))
    }

    pub fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }

    /// What is left of a budget that began with this clock.
    pub fn left(&self, budget: Duration) -> Duration {
        budget.saturating_sub(self.elapsed())
    }
}

fn own(all: Duration, waited: Duration) -> Duration {
    all.saturating_sub(waited).max(all / PATIENCE)
}

/// For how long this thread has waited for a core since it began; nothing where the system does not tell.
fn waited() -> Duration {
    let told = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    // nanoseconds on a core, nanoseconds of waiting for one, turns
    let nanoseconds = told.split_whitespace().nth(1).and_then(|n| n.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_core_does_not_count_unless_it_takes_all_the_time() {
        let seconds = Duration::from_secs;
        assert_eq!(own(seconds(9), seconds(0)), seconds(9));
        assert_eq!(own(seconds(9), seconds(4)), seconds(5));
        assert_eq!(own(seconds(9), seconds(8)), seconds(3));
        assert_eq!(own(seconds(9), seconds(10)), seconds(3));
    }

    #[test]
    fn time_goes_on() {
        let clock = Clock::start();
        std::thread::sleep(Duration::from_millis(30));
        let gone = clock.elapsed();
        // asleep is not waiting for a core
        assert!(gone >= Duration::from_millis(25), "{gone:?}");
        assert!(clock.left(Duration::from_millis(1)).is_zero());
        assert!(clock.left(Duration::from_secs(60)) < Duration::from_secs(60));
    }
}
