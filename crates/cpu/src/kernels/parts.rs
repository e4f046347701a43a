//! Packs numbers as tiles of bfloat16 for units that multiply matrices: each number as one part, rounded, or as three whose sum it is.
//!
//! A tile is 16 lines of 32 terms, of which the first goes with the seventeenth, and so on. A left side has a row of numbers in each
//! of its lines; a right side has sixteen columns there, line by line two terms of each beside each other. Tiles of the same
//! lines follow each other along the sum, the parts of one beside each other.

use std::arch::x86_64::*;
use std::ops::Range;

use citius_plan::{Loop, Operand};

use crate::halves::{LINES, TERMS, TileSide, Tiling};
use crate::kernels::pairs::lanes;
use crate::x86::turn_block;

/// Of a tile of one part.
pub const BYTES: usize = 2 * LINES * TERMS;
/// Tiles that a unit makes beside each other.
const BESIDE: usize = 16;

pub struct PartsTask {
    tiling: Tiling,
    from: Operand,
    to: Operand,
    source: *const f32,
    target: *mut u8,
}

impl PartsTask {
    pub fn new(work: &Loop, tiling: Tiling) -> PartsTask {
        let [from, to] = [0, 1].map(|i| work.operands[i].clone());
        PartsTask { tiling, from, to, source: std::ptr::null(), target: std::ptr::null_mut() }
    }

    pub fn bind(&mut self, pointers: &[*mut u8]) {
        // SAFETY: offsets are inside the buffers (plan verifier).
        self.source = unsafe { (pointers[self.from.buffer] as *const f32).add(self.from.offset) };
        self.target = pointers[self.to.buffer];
    }

    pub fn units(&self) -> usize {
        match self.tiling.side {
            TileSide::LeftAlong => self.tiling.bands(),
            TileSide::LeftAcross | TileSide::Right => self.tiling.blocks() * self.tiling.bands().div_ceil(BESIDE),
        }
    }

    /// SAFETY: as `Task::run`; the pass that made this call has found the units.
    pub unsafe fn run(&self, units: Range<usize>) {
        let Tiling { side, parts, .. } = self.tiling;
        let (bands, blocks) = (self.tiling.bands(), self.tiling.blocks());
        // along what is stored from end to end
        let tiles = |unit: usize| match side {
            TileSide::LeftAlong => (unit..unit + 1, 0..blocks),
            TileSide::LeftAcross | TileSide::Right => {
                let (block, first) = (unit / bands.div_ceil(BESIDE), unit % bands.div_ceil(BESIDE) * BESIDE);
                (first..bands.min(first + BESIDE), block..block + 1)
            }
        };
        for unit in units {
            let (bands, range) = tiles(unit);
            let to = self.target.add((bands.start * blocks + range.start) * parts * BYTES);
            pack(&self.tiling, self.source, bands, range, to, blocks);
        }
    }
}

/// The tiles of these bands and blocks, a band every `apart` tiles.
///
/// SAFETY: `source` leads to the first term of the first line, `to` to room for the tiles; the processor has matrix units.
pub unsafe fn pack(
    tiling: &Tiling,
    source: *const f32,
    bands: Range<usize>,
    blocks: Range<usize>,
    to: *mut u8,
    apart: usize,
) {
    match tiling.parts {
        1 => pack_parts::<1>(tiling, source, bands, blocks, to, apart),
        _ => pack_parts::<3>(tiling, source, bands, blocks, to, apart),
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
unsafe fn pack_parts<const PARTS: usize>(
    tiling: &Tiling,
    source: *const f32,
    bands: Range<usize>,
    blocks: Range<usize>,
    to: *mut u8,
    apart: usize,
) {
    // along what is stored from end to end
    if tiling.side == TileSide::LeftAlong {
        for (i, band) in bands.enumerate() {
            let (lines, tiles) = (LINES.min(tiling.lines - band * LINES), to.add(i * apart * PARTS * BYTES));
            for line in 0..lines {
                let from = source.add((band * LINES + line) * tiling.line);
                let (from, terms) = (from.add(blocks.start * TERMS), tiling.terms - blocks.start * TERMS);
                along::<PARTS>(from, terms, blocks.len(), AHEAD * tiling.line, tiles.add(64 * line));
            }
        }
        return;
    }
    for (j, block) in blocks.enumerate() {
        for (i, band) in bands.clone().enumerate() {
            let tile = to.add((i * apart + j) * PARTS * BYTES);
            let from = source.wrapping_add(block * TERMS * tiling.apart + band * LINES);
            let (lines, terms) = (tiling.lines - band * LINES, tiling.terms - block * TERMS);
            match tiling.side {
                TileSide::Right => across::<PARTS>(from, tiling.apart, lines, terms, tile),
                _ => turned::<PARTS>(from, tiling.apart, lines, terms, tile),
            }
        }
    }
}

/// Lines ahead of time that are asked for: nobody sees them come.
const AHEAD: usize = 2;

#[inline]
fn ask(at: *const f32) {
    // SAFETY: a hint, for any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at as *const i8) };
}

/// A line whose terms are neighbours, in as many tiles as there are blocks; what comes `ahead` is asked for.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
unsafe fn along<const PARTS: usize>(from: *const f32, terms: usize, blocks: usize, ahead: usize, to: *mut u8) {
    let whole = blocks.min(terms / TERMS);
    for block in 0..whole {
        let from = from.add(block * TERMS);
        ask(from.wrapping_add(ahead));
        ask(from.wrapping_add(ahead + 16));
        store::<PARTS>(_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(16)), to.add(block * PARTS * BYTES));
    }
    if whole < blocks {
        let (from, left) = (from.add(whole * TERMS), terms - whole * TERMS);
        let low = _mm512_maskz_loadu_ps(lanes(left), from);
        let high = _mm512_maskz_loadu_ps(lanes(left.saturating_sub(16)), from.wrapping_add(16));
        store::<PARTS>(low, high, to.add(whole * PARTS * BYTES));
    }
}

/// A tile of a right side, whose lines are neighbours.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
unsafe fn across<const PARTS: usize>(from: *const f32, apart: usize, lines: usize, terms: usize, tile: *mut u8) {
    let whole = lines >= LINES && terms >= TERMS;
    for term in 0..LINES {
        let [low, high] = [term, term + LINES].map(|term| {
            let from = from.wrapping_add(term * apart);
            // of the next tile along the sum
            ask(from.wrapping_add(TERMS * apart));
            match whole {
                true => _mm512_loadu_ps(from),
                false => _mm512_maskz_loadu_ps(if term < terms { lanes(lines) } else { 0 }, from),
            }
        });
        store::<PARTS>(low, high, tile.add(64 * term));
    }
}

/// A tile of a left side whose lines are neighbours.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
unsafe fn turned<const PARTS: usize>(from: *const f32, apart: usize, lines: usize, terms: usize, tile: *mut u8) {
    let (lines, terms) = (lines.min(LINES), terms.min(TERMS));
    let mut rows = [[0.0f32; TERMS]; LINES];
    for start in (0..terms).step_by(LINES) {
        for term in start..terms.min(start + LINES) {
            ask(from.wrapping_add((TERMS + term) * apart));
        }
        let to = rows.as_mut_ptr() as *mut f32;
        turn_block(from.add(start * apart), apart, to.add(start), TERMS, lines, LINES.min(terms - start));
    }
    for (line, row) in rows.iter().enumerate().take(lines) {
        let row = row.as_ptr();
        store::<PARTS>(_mm512_loadu_ps(row), _mm512_loadu_ps(row.add(16)), tile.add(64 * line));
    }
}

/// The parts of two times sixteen numbers, beside each other, each in its tile.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
unsafe fn store<const PARTS: usize>(low: __m512, high: __m512, to: *mut u8) {
    if PARTS == 1 {
        let number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let twice = _mm512_or_si512(number, _mm512_slli_epi32::<16>(number));
        // i and 16 + i, for each lane i
        let turns = _mm512_add_epi32(twice, _mm512_set1_epi32(0x0010_0000));
        let rounded = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low));
        _mm512_store_si512(to as *mut _, _mm512_permutexvar_epi16(turns, rounded));
        return;
    }
    let (low, high) = (apart::<PARTS>(low), apart::<PARTS>(high));
    for part in 0..PARTS {
        let words = _mm512_mask_blend_epi16(0xAAAA_AAAA, _mm512_srli_epi32::<16>(low[part]), high[part]);
        _mm512_store_si512(to.add(part * BYTES) as *mut _, words);
    }
}

/// Numbers of eight bits each whose sum is the number, the largest first, in the upper halves of the lanes. Each is the nearest to what
/// those before it have left, so the last has no more than eight bits, and nothing is lost. (Parts below the smallest normal
/// number are taken for zero by the units; what is infinite, or within 0.2% of the largest number, comes out as not a number.)
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn apart<const PARTS: usize>(x: __m512) -> [__m512i; PARTS] {
    let (half, upper) = (_mm512_set1_epi32(0x8000), _mm512_set1_epi32(0xFFFF_0000_u32 as i32));
    let mut left = x;
    std::array::from_fn(|part| {
        if part + 1 == PARTS {
            return _mm512_castps_si512(left);
        }
        let nearest = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(left), half), upper);
        left = _mm512_sub_ps(left, _mm512_castsi512_ps(nearest));
        nearest
    })
}
