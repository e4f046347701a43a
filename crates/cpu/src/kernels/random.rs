//! Uniform numbers from the counter-based generator: element i depends on (seed, step, stream, i) alone.

use std::ops::Range;

use citius_graph::random::{mix, philox, to_unit};
use citius_plan::Random;

use super::Context;

/// Elements per unit; a multiple of the generator's block of 4.
const UNIT: usize = 1024;

pub struct RandomTask {
    work: Random,
    out: *mut f32,
}

impl RandomTask {
    pub fn new(work: &Random) -> RandomTask {
        RandomTask { work: work.clone(), out: std::ptr::null_mut() }
    }

    pub fn bind(&mut self, pointers: &[*mut u8]) {
        self.out = pointers[self.work.out] as *mut f32;
    }

    pub fn units(&self) -> usize {
        self.work.elements.div_ceil(UNIT)
    }

    /// SAFETY: as `Task::run`; `out` holds `elements` values.
    pub unsafe fn run(&self, units: Range<usize>, context: &Context) {
        let (start, end) = (units.start * UNIT, (units.end * UNIT).min(self.work.elements));
        let out = std::slice::from_raw_parts_mut(self.out.add(start), end - start);
        let key = mix(context.seed ^ mix(context.step));
        for (i, four) in out.chunks_mut(4).enumerate() {
            let words = philox(key, self.work.stream as u64, (start / 4 + i) as u64);
            four.iter_mut().zip(words).for_each(|(x, w)| *x = to_unit(w));
        }
    }
}
