//! Packs numbers as bfloat16: the two terms of an instruction that multiplies both side by side, or rows as they are.

use std::arch::x86_64::*;
use std::ops::Range;

use citius_plan::{Loop, Operand};

use crate::halves::Packing;

/// Rows of a unit.
const ROWS: usize = 8;

pub struct PairsTask {
    rows: usize,
    cols: usize,
    from: Operand,
    to: Operand,
    packing: Packing,
    source: *const f32,
    target: *mut u32,
}

impl PairsTask {
    pub fn new(work: &Loop, packing: Packing) -> PairsTask {
        PairsTask {
            rows: work.rows,
            cols: work.cols,
            from: work.operands[0].clone(),
            to: work.operands[1].clone(),
            packing,
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
            match self.packing {
                Packing::Along { odd } => along(from, self.target.add(row * self.cols), self.cols, odd),
                Packing::Across { apart, odd, panel } => {
                    let second = (!odd || row + 1 < self.rows).then(|| from.add(apart));
                    for col in (0..self.cols).step_by(panel) {
                        let width = panel.min(self.cols - col);
                        let to = self.target.add(col * self.rows + row * width);
                        across(from.add(col), second.map(|second| second.add(col)), to, width);
                    }
                }
                Packing::Tiles(_) => unreachable!("packed by `PartsTask`"),
                Packing::Rows { panel } => {
                    for col in (0..self.cols).step_by(panel) {
                        let width = panel.min(self.cols - col);
                        let to = self.target.add((col * self.rows + row * width) / 2);
                        whole(from.add(col), to, width);
                    }
                }
            }
        }
    }
}

/// Neighbours of one row.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn along(from: *const f32, to: *mut u32, pairs: usize, odd: bool) {
    let terms = 2 * pairs - odd as usize;
    for p in (0..pairs).step_by(16) {
        let packed = neighbours(from.add(2 * p), terms - 2 * p);
        _mm512_mask_storeu_epi32(to.add(p) as *mut i32, lanes(pairs - p), packed);
    }
}

/// Sixteen pairs of neighbours, of which `terms` terms are there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn neighbours(from: *const f32, terms: usize) -> __m512i {
    let low = _mm512_maskz_loadu_ps(lanes(terms), from);
    let high = _mm512_maskz_loadu_ps(lanes(terms.saturating_sub(16)), from.wrapping_add(16));
    std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low))
}

/// One of each of two rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub unsafe fn across(first: *const f32, second: Option<*const f32>, to: *mut u32, cols: usize) {
    // i and 16 + i, for each lane i
    let order = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let turns = _mm512_or_si512(order, _mm512_slli_epi32::<16>(_mm512_add_epi32(order, _mm512_set1_epi32(16))));
    for c in (0..cols).step_by(16) {
        let mask = lanes(cols - c);
        let low = _mm512_maskz_loadu_ps(mask, first.add(c));
        let high = second.map_or(_mm512_setzero_ps(), |second| _mm512_maskz_loadu_ps(mask, second.add(c)));
        let both = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low));
        _mm512_mask_storeu_epi32(to.add(c) as *mut i32, mask, _mm512_permutexvar_epi16(turns, both));
    }
}

/// A row, a multiple of 32 numbers, each 32 in an order such that interleaving the lower halves of each 128 bits with those of another
/// row gives the first sixteen of both, and the upper halves the others.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn whole(from: *const f32, to: *mut u32, cols: usize) {
    let order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    for c in (0..cols).step_by(32) {
        let packed = _mm512_permutexvar_epi64(order, neighbours(from.add(c), 32));
        _mm512_storeu_si512(to.add(c / 2) as *mut _, packed);
    }
}

/// The first `n` lanes of sixteen.
#[inline]
pub fn lanes(n: usize) -> __mmask16 {
    if n >= 16 { 0xFFFF } else { (1 << n) - 1 }
}
