//! Packs numbers as tiles of bfloat16 for units that multiply matrices: each number as one part, rounded, or as three whose sum it is.
//!
//! A tile is 16 lines of 32 terms, of which the first goes with the seventeenth, and so on. A left side's tile has a line of numbers in
//! each of its rows; a right side's has two terms of each line there, beside each other. Tiles of the same lines follow each
//! other along the sum, the parts of one beside each other.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;
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
            TileSide::LeftAlong | TileSide::RightAlong => self.tiling.bands(),
            TileSide::LeftAcross | TileSide::RightAcross => self.tiling.blocks() * self.tiling.bands().div_ceil(BESIDE),
        }
    }

    /// SAFETY: as `Task::run`; the pass that made this call has found the units.
    pub unsafe fn run(&self, units: Range<usize>) {
        let Tiling { side, parts, .. } = self.tiling;
        let (bands, blocks) = (self.tiling.bands(), self.tiling.blocks());
        // along what is stored from end to end
        let tiles = |unit: usize| match side {
            TileSide::LeftAlong | TileSide::RightAlong => (unit..unit + 1, 0..blocks),
            TileSide::LeftAcross | TileSide::RightAcross => {
                let (block, first) = (unit / bands.div_ceil(BESIDE), unit % bands.div_ceil(BESIDE) * BESIDE);
                (first..bands.min(first + BESIDE), block..block + 1)
            }
        };
        for unit in units {
            let (bands, range) = tiles(unit);
            let to = self.target.add((bands.start * blocks + range.start) * parts * BYTES);
            let stretch =
                Stretch { tiling: &self.tiling, source: self.source, bands, blocks: range, to, apart: blocks };
            stretch.pack_all();
        }
    }
}

/// Tiles of some bands and blocks, to be packed row by row, a band every `apart` tiles.
pub struct Stretch<'a> {
    pub tiling: &'a Tiling,
    /// The first term of the first line of all.
    pub source: *const f32,
    pub bands: Range<usize>,
    pub blocks: Range<usize>,
    pub to: *mut u8,
    pub apart: usize,
}

impl Stretch<'_> {
    /// Rows of tiles, in the order in which they are packed: along what is stored from end to end.
    pub fn rows(&self) -> usize {
        let Range { start, end } = self.bands;
        match self.tiling.side {
            TileSide::LeftAlong => self.blocks.len() * (self.tiling.lines.min(end * LINES) - start * LINES),
            _ => self.blocks.len() * self.bands.len() * LINES,
        }
    }

    /// SAFETY: as [`Cursor::pack`].
    pub unsafe fn pack_all(self) {
        let rows = self.rows();
        Cursor::new(self).pack(rows);
    }
}

/// How far a stretch is packed.
pub struct Cursor<'a> {
    stretch: Stretch<'a>,
    /// A line, or a tile, of so many rows, and the next of them.
    unit: usize,
    wide: usize,
    row: usize,
    /// The first number of the unit, and its place.
    from: *const f32,
    to: *mut u8,
    lines: usize,
    terms: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(stretch: Stretch<'a>) -> Cursor<'a> {
        let wide = if stretch.tiling.side == TileSide::LeftAlong { stretch.blocks.len() } else { LINES };
        let (from, to) = (stretch.source, stretch.to);
        let mut cursor = Cursor { stretch, unit: 0, wide, row: 0, from, to, lines: 0, terms: 0 };
        cursor.enter();
        cursor
    }

    fn enter(&mut self) {
        let Stretch { tiling, bands, blocks, .. } = &self.stretch;
        let (i, j, line) = match tiling.side {
            TileSide::LeftAlong => (self.unit / LINES, 0, self.unit % LINES),
            TileSide::RightAlong => (self.unit / blocks.len(), self.unit % blocks.len(), 0),
            TileSide::LeftAcross | TileSide::RightAcross => (self.unit % bands.len(), self.unit / bands.len(), 0),
        };
        let (band, block) = (bands.start + i, blocks.start + j);
        self.lines = LINES.min(tiling.lines.saturating_sub(band * LINES));
        self.terms = tiling.terms.saturating_sub(block * TERMS);
        let first = (band * LINES + line) * tiling.line + block * TERMS * tiling.apart;
        self.from = self.stretch.source.wrapping_add(first);
        self.to = self.stretch.to.wrapping_add((i * self.stretch.apart + j) * tiling.parts * BYTES + 64 * line);
    }

    /// So many rows more; where numbers are turned, the tiles that begin there.
    ///
    /// SAFETY: there are as many; `source` leads to all numbers, `to` to room for the tiles; the processor has matrix units.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
    pub unsafe fn pack(&mut self, rows: usize) {
        match self.stretch.tiling.parts {
            1 => self.pack_parts::<1>(rows),
            _ => self.pack_parts::<3>(rows),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
    unsafe fn pack_parts<const PARTS: usize>(&mut self, mut rows: usize) {
        let (line, apart) = (self.stretch.tiling.line, self.stretch.tiling.apart);
        while rows > 0 {
            let count = rows.min(self.wide - self.row);
            let (from, to, row) = (self.from, self.to, self.row);
            match self.stretch.tiling.side {
                TileSide::LeftAlong => {
                    let (from, to) = (from.add(row * TERMS), to.add(row * PARTS * BYTES));
                    along::<PARTS>(from, self.terms - row * TERMS, count, AHEAD * line, to);
                }
                TileSide::RightAcross => across::<PARTS>(from, apart, self.lines, self.terms, row..row + count, to),
                _ if row > 0 => {}
                TileSide::LeftAcross => turned_left::<PARTS>(from, apart, self.lines, self.terms.min(TERMS), to),
                TileSide::RightAlong => turned_right::<PARTS>(from, line, self.lines, self.terms.min(TERMS), to),
            }
            rows -= count;
            self.row += count;
            if self.row == self.wide {
                (self.unit, self.row) = (self.unit + 1, 0);
                self.enter();
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

/// Rows of a tile of a right side whose lines are neighbours.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
unsafe fn across<const PARTS: usize>(
    from: *const f32,
    apart: usize,
    lines: usize,
    terms: usize,
    rows: Range<usize>,
    tile: *mut u8,
) {
    let whole = lines == LINES && terms >= TERMS;
    for term in rows {
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
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
unsafe fn turned_left<const PARTS: usize>(from: *const f32, apart: usize, lines: usize, terms: usize, tile: *mut u8) {
    let mut turned = Turned::for_all(lines == LINES && terms == TERMS);
    let rows = turned.rows();
    for start in (0..terms).step_by(LINES) {
        for term in start..terms.min(start + LINES) {
            ask(from.wrapping_add((TERMS + term) * apart));
        }
        turn_block(from.add(start * apart), apart, rows.add(start), TERMS, lines, LINES.min(terms - start));
    }
    for line in 0..lines {
        let row = rows.add(line * TERMS);
        store::<PARTS>(_mm512_load_ps(row), _mm512_load_ps(row.add(LINES)), tile.add(64 * line));
    }
}

/// A tile of a right side, the terms of whose lines are neighbours.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
unsafe fn turned_right<const PARTS: usize>(from: *const f32, line: usize, lines: usize, terms: usize, tile: *mut u8) {
    let mut turned = Turned::for_all(lines == LINES && terms == TERMS);
    let rows = turned.rows();
    for start in (0..terms).step_by(LINES) {
        for ahead in 0..lines {
            ask(from.wrapping_add(ahead * line + start + TERMS));
        }
        turn_block(from.add(start), line, rows.add(start * LINES), LINES, LINES.min(terms - start), lines);
    }
    for term in 0..LINES {
        let row = rows.add(term * LINES);
        store::<PARTS>(_mm512_load_ps(row), _mm512_load_ps(row.add(LINES * LINES)), tile.add(64 * term));
    }
}

/// The numbers of a tile.
#[repr(align(64))]
struct Turned(MaybeUninit<[f32; LINES * TERMS]>);

impl Turned {
    /// Zeros, unless `all` will be written.
    #[inline]
    fn for_all(all: bool) -> Self {
        Turned(if all { MaybeUninit::uninit() } else { MaybeUninit::zeroed() })
    }

    #[inline]
    fn rows(&mut self) -> *mut f32 {
        self.0.as_mut_ptr() as *mut f32
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
