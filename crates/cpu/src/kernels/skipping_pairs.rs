//! [`super::skipping`] in bfloat16: what is not zero is rounded and multiplied by pairs, whichever two come next in the list. Their
//! rows of the other side, which was packed before (`halves.rs`), are interleaved in registers.
//!
//! Each sum is taken in the order of k, so that the bits depend on the data alone. Interleaving costs a third; where every second
//! element is zero this is half as fast again as tiles, where none is, a sixth slower.

use std::arch::x86_64::*;
use std::cell::UnsafeCell;
use std::ops::Range;

use citius_plan::Matmul;

use super::pairs::{across, lanes};
use super::skipping::{LANES, Sides, WIDEST, store, store_turned};
use crate::memory::Aligned;
use crate::x86::turn_block;

/// With a larger share of elements that are not zero, tiles are faster.
pub const FEW: f64 = 0.6;
/// Rows of a panel that stay in the first-level cache while all rows of a unit are multiplied by them.
const DEPTH: usize = 96;
/// Such stretches whose elements are listed together: longer reads from the side with zeros.
const STRETCHES: usize = 2;
const LISTED: usize = DEPTH * STRETCHES;
/// Numbers of a vector of bfloat16.
const HALVES: usize = 2 * LANES;
/// Room of a list: vectors are written whole.
const ROOM: usize = DEPTH + LANES;
/// Vectors of bfloat16 in a row of a panel; each gives two of the result, enough to hide how long a multiplication takes.
const WIDE: usize = 4;
/// Columns of a panel of the packed side.
pub const PANEL: usize = WIDE * 2 * LANES;
/// Most rows of a unit: they pay for bringing a stretch near.
const HEIGHT: usize = 64;
/// Units are so many, or a multiple, where there are more: they go evenly to 2, 4 or 8 threads.
const EVEN: usize = 8;

pub struct SkippingPairs {
    work: Matmul,
    sides: Sides,
    /// Rows of a unit.
    height: usize,
    sparse: *const f32,
    dense: *const u16,
    bases: Vec<*mut u8>,
}

/// What a unit needs beside its operands.
struct Scratch {
    /// What is not zero, rounded, with its row of the panel in the lower half: for each stretch, of each row.
    lists: Vec<[u32; ROOM]>,
    counts: Vec<usize>,
    /// Rows of S that are stored as columns, rounded.
    rows: Vec<[u16; LISTED]>,
    /// Rows of C, one after the other.
    sums: Aligned,
}

impl SkippingPairs {
    /// `work` is the product after its dense side was packed, `sides` are those of the product before.
    pub fn new(work: &Matmul, sides: Sides) -> SkippingPairs {
        let units = sides.m.div_ceil(HEIGHT);
        let units = if units > EVEN { units.next_multiple_of(EVEN) } else { units };
        let height = sides.m.div_ceil(units);
        // columns are turned by whole blocks
        let height = if sides.col == 1 { height } else { height.next_multiple_of(LANES) };
        let (sparse, dense) = (std::ptr::null(), std::ptr::null());
        let bases = vec![std::ptr::null_mut(); work.operands.len()];
        SkippingPairs { work: work.clone(), sides, height, sparse, dense, bases }
    }

    pub fn bind(&mut self, pointers: &[*mut u8]) {
        let (a, b) = (&self.work.a, &self.work.b);
        let (sparse, dense) = if self.sides.turned { (b, a) } else { (a, b) };
        // SAFETY: offsets are inside the buffers (plan verifier).
        unsafe {
            self.sparse = (pointers[sparse.buffer] as *const f32).add(sparse.offset);
            self.dense = pointers[dense.buffer] as *const u16;
            for (base, o) in self.bases.iter_mut().zip(&self.work.operands) {
                *base = pointers[o.buffer].add(o.offset * o.dtype.bytes());
            }
        }
    }

    pub fn units(&self) -> usize {
        self.sides.m.div_ceil(self.height)
    }

    /// The part of the arithmetic that is not with zeros, as many as there usually are.
    pub fn share(&self) -> f64 {
        0.5
    }

    /// SAFETY: as `Task::run`; the pass that made this call has found AVX512-BF16, and packed the dense side in panels.
    pub unsafe fn run(&self, units: Range<usize>) {
        let scratch = &mut *scratch();
        for unit in units {
            let lines = unit * self.height..self.sides.m.min((unit + 1) * self.height);
            self.multiply(scratch, self.sparse.add(lines.start * self.sides.row), lines.len());
            let sums = scratch.sums.pointer() as *const f32;
            match self.sides.turned {
                true => store_turned(&self.work, sums, lines, &self.bases),
                false => store(&self.work, sums, lines, &self.bases),
            }
        }
    }

    /// The sums of `height` rows.
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,avx2,fma,popcnt")]
    unsafe fn multiply(&self, scratch: &mut Scratch, sparse: *const f32, height: usize) {
        let Sides { n, k, col: step, .. } = self.sides;
        for start in (0..k).step_by(LISTED) {
            let depth = LISTED.min(k - start);
            self.list(scratch, sparse.add(start * step), height, depth);
            for (stretch, at) in (start..start + depth).step_by(DEPTH).enumerate() {
                for col in (0..n).step_by(PANEL) {
                    let cols = PANEL.min(n - col);
                    let panel = self.dense.add(k * col + at * cols);
                    match cols {
                        PANEL => self.rows::<WIDE>(scratch, stretch, panel, col, height, at == 0),
                        _ => self.rows::<{ WIDE / 2 }>(scratch, stretch, panel, col, height, at == 0),
                    }
                }
            }
        }
    }

    /// Lists `depth` elements of each row.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,avx2,fma,popcnt")]
    unsafe fn list(&self, scratch: &mut Scratch, sparse: *const f32, height: usize, depth: usize) {
        let Scratch { lists, counts, rows, .. } = scratch;
        let step = self.sides.col;
        if step != 1 {
            turn(sparse, step, rows, height, depth);
        }
        let order = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        for (row, turned) in rows.iter().enumerate().take(height) {
            for (stretch, at) in (0..depth).step_by(DEPTH).enumerate() {
                let list = lists[stretch * HEIGHT + row].as_mut_ptr();
                let mut count = 0;
                for k in (0..DEPTH.min(depth - at)).step_by(LANES) {
                    let there = lanes(depth - at - k);
                    let halves = match step {
                        1 => {
                            let x = _mm512_maskz_loadu_ps(there, sparse.add(row * self.sides.row + at + k));
                            std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(x))
                        }
                        _ => _mm256_maskz_loadu_epi16(there, turned.as_ptr().add(at + k) as *const i16),
                    };
                    let x = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves));
                    // zero has two signs
                    let found = _mm512_test_epi32_mask(x, _mm512_set1_epi32(0x7FFF_0000));
                    let here = _mm512_add_epi32(order, _mm512_set1_epi32(k as i32));
                    // to a register first: compressing into memory is slow on some machines
                    let listed = _mm512_maskz_compress_epi32(found, _mm512_or_si512(x, here));
                    _mm512_storeu_si512(list.add(count) as *mut _, listed);
                    count += found.count_ones() as usize;
                }
                if count % 2 == 1 {
                    // the last of an odd number is followed by zero, to be multiplied by the same row
                    list.add(count).write(*list.add(count - 1) & 0xFFFF);
                }
                counts[stretch * HEIGHT + row] = count;
            }
        }
    }

    /// Adds the listed elements of a stretch times rows of a panel, `WIDE` vectors each.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,avx2,fma,popcnt")]
    unsafe fn rows<const WIDE: usize>(
        &self,
        scratch: &mut Scratch,
        stretch: usize,
        panel: *const u16,
        col: usize,
        height: usize,
        first: bool,
    ) {
        let sums = scratch.sums.pointer() as *mut f32;
        let halves = |x: __m512i| std::mem::transmute::<__m512i, __m512bh>(x);
        for row in 0..height {
            let sum = sums.add(row * self.sides.n + col);
            let list = stretch * HEIGHT + row;
            let listed = scratch.lists[list].as_ptr();
            let mut total = [[_mm512_setzero_ps(); 2]; WIDE];
            if !first {
                for (j, [low, high]) in total.iter_mut().enumerate() {
                    *low = _mm512_loadu_ps(sum.add(j * HALVES));
                    *high = _mm512_loadu_ps(sum.add(j * HALVES + LANES));
                }
            }
            for i in 0..scratch.counts[list].div_ceil(2) {
                let (one, other) = (*listed.add(2 * i), *listed.add(2 * i + 1));
                let x = halves(_mm512_set1_epi32((one >> 16 | other & 0xFFFF_0000) as i32));
                let line = |listed: u32| panel.add((listed & 0xFFFF) as usize * (WIDE * HALVES));
                let (one, other) = (line(one), line(other));
                for (j, [low, high]) in total.iter_mut().enumerate() {
                    let a = _mm512_loadu_si512(one.add(j * HALVES) as *const _);
                    let b = _mm512_loadu_si512(other.add(j * HALVES) as *const _);
                    *low = _mm512_dpbf16_ps(*low, x, halves(_mm512_unpacklo_epi16(a, b)));
                    *high = _mm512_dpbf16_ps(*high, x, halves(_mm512_unpackhi_epi16(a, b)));
                }
            }
            for (j, [low, high]) in total.iter().enumerate() {
                _mm512_storeu_ps(sum.add(j * HALVES), *low);
                _mm512_storeu_ps(sum.add(j * HALVES + LANES), *high);
            }
        }
    }
}

/// Columns of S as rows, rounded: `depth` elements of each of `height`.
///
/// SAFETY: `sparse` leads to the first of them, and their elements are `step` apart.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
unsafe fn turn(sparse: *const f32, step: usize, rows: &mut [[u16; LISTED]], height: usize, depth: usize) {
    let mut block = [[0u32; LANES]; LANES];
    for at in (0..depth).step_by(HALVES) {
        for row in (0..height).step_by(LANES) {
            let (wide, high) = (HALVES.min(depth - at), LANES.min(height - row));
            for (p, pairs) in block.iter_mut().enumerate().take(wide.div_ceil(2)) {
                let first = sparse.add((at + 2 * p) * step + row);
                let second = (2 * p + 1 < wide).then(|| first.add(step));
                across(first, second, pairs.as_mut_ptr(), high);
            }
            // a pair is as wide as a number
            let to = rows[row].as_mut_ptr().add(at) as *mut f32;
            turn_block(block.as_ptr() as *const f32, LANES, to, LISTED / 2, high, wide.div_ceil(2));
        }
    }
}

/// This thread's, made in its first step.
fn scratch() -> *mut Scratch {
    thread_local! {
        static SCRATCH: UnsafeCell<Option<Box<Scratch>>> = const { UnsafeCell::new(None) };
    }
    SCRATCH.with(|cell| {
        // SAFETY: one kernel at a time runs on a thread, and no reference of an earlier one is alive.
        let scratch = unsafe { &mut *cell.get() };
        let make = || {
            Box::new(Scratch {
                lists: vec![[0; ROOM]; STRETCHES * HEIGHT],
                counts: vec![0; STRETCHES * HEIGHT],
                rows: vec![[0; LISTED]; HEIGHT],
                sums: Aligned::new(HEIGHT * WIDEST * 4),
            })
        };
        &mut **scratch.get_or_insert_with(make) as *mut Scratch
    })
}
