//! How long a step will take, from sizes alone.

use std::fmt;

use crate::choice::Scheduled;
use crate::precision::Precision;
use crate::schedule::Team;

/// Microseconds of a step, roughly: barriers, and the longer of arithmetic and memory. Of the three workloads of `citius bench`,
/// which take 4, 5.5 and 12 µs on an H200, it says 4, 4 and 11.
pub struct Estimate {
    barriers: f64,
    arithmetic: f64,
    memory: f64,
}

impl Estimate {
    /// Across the device, and of one multiprocessor by itself.
    const BARRIER_US: [f64; 2] = [1.0, 0.1];
    /// FLOP per µs of a multiprocessor: 128 multiply-adds a cycle at 1.7 GHz, of which tiles as small as these reach 7%.
    const FLOPS: f64 = 0.07 * 128.0 * 2.0 * 1700.0;
    /// Bytes per µs that reach a multiprocessor: 64 a cycle.
    const BYTES: f64 = 64.0 * 1700.0;

    pub fn of(scheduled: &Scheduled, precision: Precision) -> Estimate {
        let Scheduled { plan, schedule, .. } = scheduled;
        let total = plan.total();
        match schedule.by_levels() {
            true => Estimate::by_levels(schedule.barriers(), total.flops, total.bytes, precision),
            false => Estimate::together(schedule.barriers(), total.flops, total.bytes, schedule.team),
        }
    }

    fn together(barriers: usize, flops: usize, bytes: usize, team: Team) -> Estimate {
        let share = |amount: usize, rate: f64| amount as f64 / (rate * team.blocks.max(1) as f64);
        Estimate {
            barriers: barriers as f64 * Estimate::BARRIER_US[usize::from(team.blocks == 1)],
            arithmetic: share(flops, Estimate::FLOPS),
            memory: share(bytes, Estimate::BYTES),
        }
    }

    /// Launches, the library's rate for this precision on an H200, and its memory.
    fn by_levels(levels: usize, flops: usize, bytes: usize, precision: Precision) -> Estimate {
        let rate = match precision {
            Precision::Fp32 => 50e6,
            Precision::Tf32 => 400e6,
            Precision::Bf16 | Precision::Fp16 => 750e6,
        };
        Estimate { barriers: 2.0 * levels as f64, arithmetic: flops as f64 / rate, memory: bytes as f64 / 4e6 }
    }

    /// Of a step.
    pub fn micros(&self) -> f64 {
        self.barriers + self.arithmetic.max(self.memory)
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { barriers, arithmetic, memory } = *self;
        write!(
            f,
            "estimate: {:.1} µs a step; {barriers:.1} µs of barriers or launches, and the longer of {arithmetic:.1} µs of \
             arithmetic and {memory:.1} µs of memory",
            self.micros()
        )
    }
}
