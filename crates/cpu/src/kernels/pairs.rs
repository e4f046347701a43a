//! Packs pairs of bfloat16: the two terms of an instruction that multiplies both.

use std::arch::x86_64::*;
use std::ops::Range;

use citius_plan::{Loop, Operand};

use crate::halves::Pairs;

/// Rows of a unit.
const ROWS: usize = 8;

pub struct PairsTask {
    rows: usize,
    cols: usize,
    from: Operand,
    to: Operand,
    pairs: Pairs,
    source: *const f32,
    target: *mut u32,
}

impl PairsTask {
    pub fn new(work: &Loop, pairs: Pairs) -> PairsTask {
        PairsTask {
            rows: work.rows,
            cols: work.cols,
            from: work.operands[0].clone(),
            to: work.operands[1].clone(),
            pairs,
            source: std::ptr::null(),
            target: std::ptr::null_mut(),
        }
    }

    pub fn bind(&mut self, pointers: &[*mut u8]) {
        // SAFETY: offsets are inside the buffers (plan verifier).
        unsafe {
            self.source = (pointers[self.from.buffer] as *const f32).add(self.from.offset);
            self.target = pointers[self.to.buffer] as *mut u32;
        }
    }

    pub fn units(&self) -> usize {
        self.rows.div_ceil(ROWS)
    }

    /// SAFETY: as `Task::run`; the pass that made this call has found AVX512-BF16.
    pub unsafe fn run(&self, units: Range<usize>) {
        let rows = units.start * ROWS..(units.end * ROWS).min(self.rows);
        for row in rows {
            let from = self.source.add(row * self.from.row);
            let to = self.target.add(row * self.cols);
            if self.pairs.apart == 1 && self.from.col == 2 {
                along(from, to, self.cols, self.pairs.odd);
            } else {
                let alone = self.pairs.odd && row + 1 == self.rows;
                across(from, if alone { None } else { Some(from.add(self.pairs.apart)) }, to, self.cols);
            }
        }
    }
}

/// Neighbours of one row.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn along(from: *const f32, to: *mut u32, pairs: usize, odd: bool) {
    let terms = 2 * pairs - odd as usize;
    for p in (0..pairs).step_by(16) {
        let (first, second) = (lanes(terms - 2 * p), lanes((terms - 2 * p).saturating_sub(16)));
        let low = _mm512_maskz_loadu_ps(first, from.add(2 * p));
        let high = _mm512_maskz_loadu_ps(second, from.add((2 * p + 16).min(terms)));
        let packed: __m512bh = _mm512_cvtne2ps_pbh(high, low);
        _mm512_mask_storeu_epi32(
            to.add(p) as *mut i32,
            lanes(pairs - p),
            std::mem::transmute::<__m512bh, __m512i>(packed),
        );
    }
}

/// One of each of two rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn across(first: *const f32, second: Option<*const f32>, to: *mut u32, cols: usize) {
    for c in (0..cols).step_by(16) {
        let mask = lanes(cols - c);
        let half = |from: *const f32| {
            let x = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from.add(c)));
            _mm512_cvtepu16_epi32(std::mem::transmute::<__m256bh, __m256i>(x))
        };
        let low = half(first);
        let high = second.map_or(_mm512_setzero_si512(), |from| _mm512_slli_epi32::<16>(half(from)));
        _mm512_mask_storeu_epi32(to.add(c) as *mut i32, mask, _mm512_or_si512(low, high));
    }
}

/// The first `n` lanes of sixteen.
fn lanes(n: usize) -> __mmask16 {
    if n >= 16 { 0xFFFF } else { (1 << n) - 1 }
}
