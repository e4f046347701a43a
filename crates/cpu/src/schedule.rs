//! Which thread does what: the units of a wave's calls, weighed by cost, are dealt out once, when the plan is compiled.

use std::ops::Range;

use citius_plan::Plan;

use crate::kernels::Task;

/// A stretch of one call's units.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub task: usize,
    pub units: Range<usize>,
}

/// For each thread, for each wave, its parts.
pub struct Schedule(pub Vec<Vec<Vec<Part>>>);

impl Schedule {
    pub fn new(plan: &Plan, tasks: &[Task], threads: usize) -> Schedule {
        let mut schedule = vec![vec![Vec::new(); plan.waves]; threads];
        for wave in 0..plan.waves {
            let calls: Vec<usize> = (0..plan.calls.len()).filter(|&i| plan.calls[i].wave == wave).collect();
            // nanoseconds, roughly: arithmetic, bytes, and a call's own cost
            let price = |i: usize| {
                let cost = plan.calls[i].cost;
                cost.flops as f64 / 40.0 + cost.bytes as f64 / 30.0 + 15.0
            };
            let total: f64 = calls.iter().map(|&i| price(i)).sum();
            let share = total / threads as f64;
            let (mut thread, mut filled) = (0, 0.0);
            for &i in &calls {
                let units = tasks[i].units();
                let each = price(i) / units.max(1) as f64;
                let mut start = 0;
                while start < units {
                    let room = ((share - filled) / each).round() as usize;
                    let last = thread + 1 == threads;
                    let take = if last { units - start } else { room.min(units - start) };
                    if take > 0 {
                        schedule[thread][wave].push(Part { task: i, units: start..start + take });
                        start += take;
                        filled += take as f64 * each;
                    }
                    if start < units || filled >= share {
                        thread = (thread + 1).min(threads - 1);
                        filled = 0.0;
                    }
                }
            }
        }
        Schedule(schedule)
    }
}
