//! Products on units that multiply matrices of bfloat16 and add up in 32 bits (AMX). Sides are packed in tiles ([`super::parts`]): beforehand,
//! or, where one side has few lines, the other as it goes. A unit makes blocks of the result; each sum runs in one order inside
//! it. Numbers in three parts are multiplied part by part, least first, without what 32 bits could not hold: a sum
//! as exact as one of products in 32 bits.

use std::arch::asm;
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::ops::Range;

use citius_plan::{MOST_OPERANDS, Matmul};

use crate::halves::{LINES, Raw, TERMS, Tiling};
use crate::kernels::parts::{BYTES, pack};
use crate::memory::Aligned;
use crate::x86::SumsKernel;

/// Rows and columns of a block: two tiles by two, whose sums take four of the eight tiles.
pub const BLOCK: usize = 2 * LINES;
/// Bytes of left tiles that stay in the second-level cache of a core while the right ones pass.
const AT_HAND: usize = 768 << 10;
/// Tiles along the sum that are packed at once.
const PACKED: usize = 16;

pub struct MatrixTask {
    work: Matmul,
    parts: usize,
    epilogue: SumsKernel,
    /// Tiles along the sum.
    depth: usize,
    /// Blocks below each other, and beside each other.
    bands: usize,
    panels: usize,
    cut: Cut,
    a: *const u8,
    b: *const u8,
    bases: Vec<*mut u8>,
}

/// What a unit is.
enum Cut {
    /// A block; so many below each other come before the next beside them.
    Blocks { together: usize },
    /// So many bands, or panels, whole: a side that is packed as it goes.
    Strips { raw: Tiling, left: bool, blocks: usize },
}

impl MatrixTask {
    /// Can generated code have its epilogue?
    pub fn suits(work: &Matmul) -> bool {
        SumsKernel::new(work, BLOCK).is_some()
    }

    /// Sides of `work` are packed, but for one that may be `raw`. `None` where generated code has no answer.
    pub fn new(work: &Matmul, parts: usize, raw: Option<Raw>) -> Option<MatrixTask> {
        let depth = work.k.div_ceil(TERMS);
        let (bands, panels) = (work.m.div_ceil(BLOCK), work.n.div_ceil(BLOCK));
        let cut = match raw {
            None => Cut::Blocks { together: (AT_HAND / (2 * BYTES * parts * depth)).clamp(1, bands.max(1)) },
            Some(Raw { tiling, left }) => {
                Cut::Strips { raw: tiling, left, blocks: strip(if left { bands } else { panels }) }
            }
        };
        Some(MatrixTask {
            epilogue: SumsKernel::new(work, BLOCK)?,
            parts,
            depth,
            bands,
            panels,
            cut,
            a: std::ptr::null(),
            b: std::ptr::null(),
            bases: vec![std::ptr::null_mut(); work.operands.len()],
            work: work.clone(),
        })
    }

    pub fn bind(&mut self, pointers: &[*mut u8]) {
        // SAFETY: offsets are inside the buffers (plan verifier).
        unsafe {
            self.a = pointers[self.work.a.buffer].add(4 * self.work.a.offset);
            self.b = pointers[self.work.b.buffer].add(4 * self.work.b.offset);
            for (base, o) in self.bases.iter_mut().zip(&self.work.operands) {
                *base = pointers[o.buffer].add(4 * o.offset);
            }
        }
    }

    pub fn units(&self) -> usize {
        match self.cut {
            Cut::Blocks { .. } => self.bands * self.panels,
            Cut::Strips { left, blocks, .. } => (if left { self.bands } else { self.panels }).div_ceil(blocks),
        }
    }

    /// About `units` units: whole stretches of blocks below each other.
    pub fn grain(&self, units: usize) -> usize {
        match self.cut {
            Cut::Blocks { together } => units.max(1).next_multiple_of(together),
            Cut::Strips { .. } => 1,
        }
    }

    /// See `Task::pace`: 1024 operations in a cycle, where multiply-adds do 64; a product of parts takes six.
    pub fn pace(&self) -> f64 {
        if self.parts == 1 { 16.0 } else { 16.0 / 6.0 }
    }

    /// SAFETY: as `Task::run`; the pass that made this call has found the units.
    pub unsafe fn run(&self, units: Range<usize>) {
        let tiles = Tiles::take();
        for unit in units {
            match &self.cut {
                Cut::Blocks { together } => {
                    let (first, at) = (unit / (together * self.panels) * together, unit % (together * self.panels));
                    let bands = (*together).min(self.bands - first);
                    self.block(&tiles, first + at % bands, at / bands);
                }
                Cut::Strips { raw, left, blocks } => self.strip(&tiles, raw, *left, unit * blocks, *blocks),
            }
        }
    }

    /// One block, of sides that are packed.
    unsafe fn block(&self, tiles: &Tiles, band: usize, panel: usize) {
        let mut sums = Sums::uninit();
        let to = sums.as_mut_ptr() as *mut f32;
        let line = self.depth * self.parts * BYTES;
        let a = pair(self.a, 2 * band, self.work.m.div_ceil(LINES), line);
        let b = pair(self.b, 2 * panel, self.work.n.div_ceil(LINES), line);
        let ends = self.ends(band, panel);
        tiles.clear();
        tiles.multiply(self.parts, a, b, self.depth, Some(&ends));
        tiles.store(to);
        ends.finish(to);
    }

    /// `count` bands, or panels, from `first` on: packed stretch by stretch of the sum, and multiplied with all of the other side.
    unsafe fn strip(&self, tiles: &Tiles, raw: &Tiling, left: bool, first: usize, count: usize) {
        let (all, others) = if left { (self.bands, self.panels) } else { (self.panels, self.bands) };
        let count = count.min(all - first);
        let tile = self.parts * BYTES;
        let lines = 2 * first..raw.bands().min(2 * (first + count));
        let (source, other) = if left { (self.a, self.b) } else { (self.b, self.a) };
        let other_lines = (if left { self.work.n } else { self.work.m }).div_ceil(LINES);
        let (packed, sums) = scratch(lines.len() * PACKED.min(self.depth) * tile, count * others * 4 * BLOCK * BLOCK);
        for start in (0..self.depth).step_by(PACKED) {
            let depth = PACKED.min(self.depth - start);
            pack(raw, source as *const f32, lines.clone(), start..start + depth, packed, depth);
            let last = start + depth == self.depth;
            for i in 0..others {
                let theirs = pair(other.add(start * tile), 2 * i, other_lines, self.depth * tile);
                for j in 0..count {
                    let ours = pair(packed, 2 * j, lines.len(), depth * tile);
                    let to = (sums as *mut f32).add((i * count + j) * BLOCK * BLOCK);
                    match start {
                        0 => tiles.clear(),
                        _ => tiles.load(to),
                    }
                    let (a, b) = if left { (ours, theirs) } else { (theirs, ours) };
                    let (band, panel) = if left { (first + j, i) } else { (i, first + j) };
                    let ends = self.ends(band, panel);
                    tiles.multiply(self.parts, a, b, depth, last.then_some(&ends));
                    tiles.store(to);
                    if last {
                        ends.finish(to);
                    }
                }
            }
        }
    }

    unsafe fn ends(&self, band: usize, panel: usize) -> Ends<'_> {
        let (row, col) = (band * BLOCK, panel * BLOCK);
        let mut table = [std::ptr::null_mut(); MOST_OPERANDS];
        for (i, o) in self.work.operands.iter().enumerate() {
            table[i] = self.bases[i].add((row * o.row + col * o.col) * 4);
        }
        Ends { task: self, table, rows: BLOCK.min(self.work.m - row), cols: BLOCK.min(self.work.n - col) }
    }
}

/// Blocks of a strip: at most 160 lines, so that what is packed stays in the second-level cache, and such that two threads have as much.
fn strip(blocks: usize) -> usize {
    let most = (blocks / 4).clamp(1, 5);
    let waste = |size: usize| (blocks.div_ceil(size).next_multiple_of(2) * size) as f64 * (1.0 + 0.6 / size as f64);
    (1..=most).min_by(|&a, &b| waste(a).total_cmp(&waste(b))).unwrap_or(1)
}

/// Where two lines of tiles begin. Where there is no second, the first stands for it too, and nobody looks at those sums.
unsafe fn pair(side: *const u8, first: usize, all: usize, line: usize) -> [*const u8; 2] {
    [first, (first + 1).min(all - 1)].map(|at| side.add(at * line))
}

/// What becomes of a block of sums.
struct Ends<'a> {
    task: &'a MatrixTask,
    table: [*mut u8; MOST_OPERANDS],
    rows: usize,
    cols: usize,
}

impl Ends<'_> {
    /// Asks for the operands of these rows: they lie far apart, and nobody else asks for them ahead of time.
    unsafe fn ask(&self, rows: Range<usize>) {
        for (o, start) in self.task.work.operands.iter().zip(&self.table).filter(|(o, _)| o.row > 0 && o.col == 1) {
            for at in rows.clone().map(|row| start.wrapping_add(4 * row * o.row)) {
                _mm_prefetch::<_MM_HINT_T0>(at as *const i8);
                _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(64) as *const i8);
            }
        }
    }

    unsafe fn finish(&self, sums: *const f32) {
        self.task.epilogue.run(sums, &self.table, self.rows, self.cols);
    }
}

#[repr(align(64))]
struct Block(#[allow(dead_code)] [f32; BLOCK * BLOCK]);
type Sums = std::mem::MaybeUninit<Block>;

/// Room for packed tiles and for sums; it stays until the next call on this thread.
fn scratch(packed: usize, sums: usize) -> (*mut u8, *mut u8) {
    thread_local! {
        static ROOM: std::cell::RefCell<[(usize, Aligned); 2]> = std::cell::RefCell::new([(); 2].map(|_| (0, Aligned::new(0))));
    }
    ROOM.with_borrow_mut(|rooms| {
        for ((room, bytes), wanted) in rooms.iter_mut().zip([packed, sums]) {
            if *room < wanted {
                (*room, *bytes) = (wanted, Aligned::new(wanted));
            }
        }
        (rooms[0].1.pointer(), rooms[1].1.pointer())
    })
}

/// The eight tiles of this thread, sixteen rows of 64 bytes each, until they are given back.
struct Tiles;

#[repr(C, align(64))]
struct Shape {
    palette: u8,
    start: [u8; 15],
    bytes: [u16; 16],
    rows: [u8; 16],
}

static SHAPE: Shape = {
    let (mut bytes, mut rows) = ([0; 16], [0; 16]);
    let mut i = 0;
    while i < 8 {
        (bytes[i], rows[i]) = (2 * TERMS as u16, LINES as u8);
        i += 1;
    }
    Shape { palette: 1, start: [0; 15], bytes, rows }
};

/// Loads a part of two tiles of the left side.
macro_rules! left {
    ($part:literal) => {
        concat!(
            "tileloadd tmm4, [{a0} + {line}*1 + 1024*",
            $part,
            "]\ntileloadd tmm5, [{a1} + {line}*1 + 1024*",
            $part,
            "]"
        )
    };
}

/// Loads a part of two tiles of the right side.
macro_rules! right {
    ($part:literal) => {
        concat!(
            "tileloadd tmm6, [{b0} + {line}*1 + 1024*",
            $part,
            "]\ntileloadd tmm7, [{b1} + {line}*1 + 1024*",
            $part,
            "]"
        )
    };
}

/// Each of the two on the left by each of the two on the right.
macro_rules! multiply {
    () => {
        "tdpbf16ps tmm0, tmm4, tmm6\ntdpbf16ps tmm1, tmm4, tmm7\ntdpbf16ps tmm2, tmm5, tmm6\ntdpbf16ps tmm3, tmm5, tmm7"
    };
}

impl Tiles {
    /// SAFETY: the system lets this process use the units.
    unsafe fn take() -> Tiles {
        asm!("ldtilecfg [{}]", in(reg) &SHAPE, options(nostack, readonly));
        Tiles
    }

    /// Adds the products of `depth` tiles along the sum, and asks for what comes after.
    ///
    /// SAFETY: they are there.
    unsafe fn multiply(&self, parts: usize, a: [*const u8; 2], b: [*const u8; 2], depth: usize, ends: Option<&Ends>) {
        for step in 0..depth {
            let [a, b] = [a, b].map(|side| side.map(|tile| tile.add(step * parts * BYTES)));
            match parts {
                1 => self.whole(a, b),
                _ => self.in_parts(a, b),
            }
            if let Some(ends) = ends {
                ends.ask(ends.rows * step / depth..ends.rows * (step + 1) / depth);
            }
        }
    }

    #[inline]
    unsafe fn whole(&self, a: [*const u8; 2], b: [*const u8; 2]) {
        asm!(
            left!(0), right!(0), multiply!(),
            a0 = in(reg) a[0], a1 = in(reg) a[1], b0 = in(reg) b[0], b1 = in(reg) b[1], line = in(reg) 64_usize,
            options(nostack, readonly),
        );
    }

    /// a₁b₃ + a₁b₂ + a₂b₂ + a₂b₁ + a₃b₁ + a₁b₁. What is left out is smaller than half of the last bit.
    #[inline]
    unsafe fn in_parts(&self, a: [*const u8; 2], b: [*const u8; 2]) {
        asm!(
            left!(0), right!(2), multiply!(),
            right!(1), multiply!(),
            left!(1), multiply!(),
            right!(0), multiply!(),
            left!(2), multiply!(),
            left!(0), multiply!(),
            a0 = in(reg) a[0], a1 = in(reg) a[1], b0 = in(reg) b[0], b1 = in(reg) b[1], line = in(reg) 64_usize,
            options(nostack, readonly),
        );
    }

    unsafe fn clear(&self) {
        asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, nomem));
    }

    unsafe fn load(&self, sums: *const f32) {
        asm!(
            "tileloadd tmm0, [{from} + {line}*1]",
            "tileloadd tmm1, [{from} + {line}*1 + 64]",
            "tileloadd tmm2, [{from} + {line}*1 + 2048]",
            "tileloadd tmm3, [{from} + {line}*1 + 2112]",
            from = in(reg) sums, line = in(reg) 4 * BLOCK,
            options(nostack, readonly),
        );
    }

    unsafe fn store(&self, sums: *mut f32) {
        asm!(
            "tilestored [{to} + {line}*1], tmm0",
            "tilestored [{to} + {line}*1 + 64], tmm1",
            "tilestored [{to} + {line}*1 + 2048], tmm2",
            "tilestored [{to} + {line}*1 + 2112], tmm3",
            to = in(reg) sums, line = in(reg) 4 * BLOCK,
            options(nostack),
        );
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: they were taken; from now on the system need not keep them.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}
