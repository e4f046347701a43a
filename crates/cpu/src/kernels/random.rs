//! Uniform numbers from the counter-based generator: element i depends on (seed, step, stream, i) alone.

use std::ops::Range;

use citius_graph::random::{PHILOX_M0, PHILOX_M1, PHILOX_W0, PHILOX_W1, mix, philox, to_unit};
use citius_plan::Random;

use super::Context;
#[cfg(target_arch = "x86_64")]
use crate::isa::Isa;
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
        let fill = Fill { key, stream: self.work.stream as u64, first: (start / 4) as u64, out };
        #[cfg(target_arch = "x86_64")]
        if Isa::detect() >= Isa::Avx512 {
            return lanes::fill(fill);
        }
        widest(fill);
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

/// The same with AVX-512: a compiler that sees the words change places takes them through memory.
#[cfg(target_arch = "x86_64")]
mod lanes {
    use std::arch::x86_64::*;

    use super::*;

    /// Counters in a vector, and vectors that wait for each other's products.
    const EACH: usize = 8;
    const VECTORS: usize = LANES / EACH;

    /// SAFETY: the machine has AVX-512F.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn fill(work: Fill) {
        let Fill { key, stream, mut first, out } = work;
        let mut chunks = out.chunks_exact_mut(4 * LANES);
        for chunk in &mut chunks {
            let mut to = chunk.as_mut_ptr();
            for [c0, c1, c2, c3] in words(key, stream, first) {
                // two words of each counter, then all four beside each other
                let pair = |low, high| _mm512_mask_blend_epi32(0xAAAA, low, _mm512_slli_epi64::<32>(high));
                let (first, second) = (pair(c0, c1), pair(c2, c3));
                let lower = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
                let upper = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
                for turns in [lower, upper] {
                    let words = _mm512_permutex2var_epi64(first, turns, second);
                    let numbers = _mm512_cvtepi32_ps(_mm512_srli_epi32::<8>(words));
                    _mm512_storeu_ps(to, _mm512_mul_ps(numbers, _mm512_set1_ps(1.0 / (1 << 24) as f32)));
                    to = to.add(2 * EACH);
                }
            }
            first += LANES as u64;
        }
        Fill { key, stream, first, out: chunks.into_remainder() }.run();
    }

    /// The four words of [`LANES`] counters in a row, each with 64 bits to itself, of which the upper ones are anything.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn words(key: u64, stream: u64, block: u64) -> [[__m512i; 4]; VECTORS] {
        let all = |x: u64| _mm512_set1_epi64(x as i64);
        let high = |x| _mm512_srli_epi64::<32>(x);
        let mut counters = std::array::from_fn(|v| {
            let c0 = _mm512_add_epi64(all(block + (v * EACH) as u64), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
            [c0, high(c0), all(stream), all(stream >> 32)]
        });
        let (mut k0, mut k1) = (key as u32, (key >> 32) as u32);
        for _ in 0..10 {
            for c in &mut counters {
                let p0 = _mm512_mul_epu32(all(PHILOX_M0 as u64), c[0]);
                let p1 = _mm512_mul_epu32(all(PHILOX_M1 as u64), c[2]);
                let mixed = |p, c, k: u32| _mm512_ternarylogic_epi64::<0x96>(high(p), c, all(k as u64));
                *c = [mixed(p1, c[1], k0), p1, mixed(p0, c[3], k1), p0];
            }
            k0 = k0.wrapping_add(PHILOX_W0);
            k1 = k1.wrapping_add(PHILOX_W1);
        }
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole chunks and what is over, across the counter's words.
    #[test]
    fn the_widest_vectors_fill_alike() {
        for n in [0, 4, 63, 64, 200, 1024] {
            let first = u32::MAX as u64 - 20;
            let filled = |by: &dyn Fn(Fill)| {
                let mut out = vec![0.0; n];
                by(Fill { key: 0x1234_5678_9abc_def0, stream: 1 << 33 | 7, first, out: &mut out });
                out
            };
            let plain = filled(&|fill| fill.run());
            assert_eq!(filled(&|fill| widest(fill)), plain);
            #[cfg(target_arch = "x86_64")]
            if Isa::detect() >= Isa::Avx512 {
                // SAFETY: it has just been found.
                assert_eq!(filled(&|fill| unsafe { lanes::fill(fill) }), plain);
            }
        }
    }

    #[test]
    fn lanes_are_philox() {
        let block = u32::MAX as u64 - 3; // crosses into the upper word
        let lanes = philox_lanes(0x1234_5678_9abc_def0, 7, block);
        let one = |i: usize| philox(0x1234_5678_9abc_def0, 7, block + i as u64);
        assert!((0..LANES).all(|i| lanes[4 * i..4 * i + 4] == one(i)));
    }
}
