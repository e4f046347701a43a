//! Uniform numbers from the counter-based generator: element i depends on (seed, step, stream, i) alone.

use std::ops::Range;

use citius_graph::random::{PHILOX_M0, PHILOX_M1, PHILOX_W0, PHILOX_W1, mix, philox, to_unit};
use citius_plan::Random;

use super::Context;
use crate::widest::{Plain, widest};

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
        widest(Fill { key, stream: self.work.stream as u64, first: (start / 4) as u64, out });
    }
}

/// Numbers `4·first …` of a stream.
struct Fill<'a> {
    key: u64,
    stream: u64,
    first: u64,
    out: &'a mut [f32],
}

/// Counters taken through the rounds together, one in each lane.
const LANES: usize = 16;

impl Plain for Fill<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut block = self.first;
        let mut chunks = self.out.chunks_exact_mut(4 * LANES);
        for chunk in &mut chunks {
            let words = philox_lanes(self.key, self.stream, block);
            chunk.iter_mut().zip(words).for_each(|(x, word)| *x = to_unit(word));
            block += LANES as u64;
        }
        for four in chunks.into_remainder().chunks_mut(4) {
            let words = philox(self.key, self.stream, block);
            four.iter_mut().zip(words).for_each(|(x, w)| *x = to_unit(w));
            block += 1;
        }
    }
}

/// [`philox`] of `LANES` counters in a row: the same words, one counter's after the other's. Each word has 64 bits to itself, of
/// which the upper ones are anything: the products want it so, and nothing has to be moved between rounds.
#[inline(always)]
fn philox_lanes(key: u64, stream: u64, block: u64) -> [u32; 4 * LANES] {
    const LOW: u64 = u32::MAX as u64;
    let (mut c0, mut c1) = ([0u64; LANES], [0u64; LANES]);
    let (mut c2, mut c3) = ([stream; LANES], [stream >> 32; LANES]);
    for i in 0..LANES {
        c0[i] = block + i as u64;
        c1[i] = (block + i as u64) >> 32;
    }
    let (mut k0, mut k1) = (key as u32, (key >> 32) as u32);
    for _ in 0..10 {
        for i in 0..LANES {
            let p0 = PHILOX_M0 as u64 * (c0[i] & LOW);
            let p1 = PHILOX_M1 as u64 * (c2[i] & LOW);
            c0[i] = (p1 >> 32) ^ c1[i] ^ k0 as u64;
            c1[i] = p1;
            c2[i] = (p0 >> 32) ^ c3[i] ^ k1 as u64;
            c3[i] = p0;
        }
        k0 = k0.wrapping_add(PHILOX_W0);
        k1 = k1.wrapping_add(PHILOX_W1);
    }
    let mut pairs = [[0u64; 2]; LANES];
    for i in 0..LANES {
        pairs[i] = [((c0[i] & LOW) | c1[i] << 32).to_le(), ((c2[i] & LOW) | c3[i] << 32).to_le()];
    }
    // SAFETY: as many bytes, and any are a u32; the lower half of a pair comes first
    unsafe { std::mem::transmute::<[[u64; 2]; LANES], [u32; 4 * LANES]>(pairs) }.map(u32::from_le)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_philox() {
        let block = u32::MAX as u64 - 3; // crosses into the upper word
        let lanes = philox_lanes(0x1234_5678_9abc_def0, 7, block);
        let one = |i: usize| philox(0x1234_5678_9abc_def0, 7, block + i as u64);
        assert!((0..LANES).all(|i| lanes[4 * i..4 * i + 4] == one(i)));
    }
}
