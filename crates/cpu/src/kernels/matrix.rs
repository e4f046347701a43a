//! Products on units that multiply matrices of bfloat16 and add up in 32 bits (AMX). Sides are packed in tiles ([`super::parts`]): beforehand,
//! or, where one side has few lines, the other as it goes. A unit makes blocks of the result; each sum runs in one order inside
//! it. Numbers in three parts are multiplied part by part, least first, without what 32 bits could not hold: a sum
//! as exact as one of products in 32 bits.
//!
//! The processor waits wherever a tile that is still multiplied is to be loaded anew, and vector instructions just before that take no
//! time of their own: what is multiplied next is packed there, and what was multiplied last goes through its epilogue ([`Meanwhile`]).

use std::arch::asm;
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::ops::Range;

use citius_plan::{MOST_OPERANDS, Matmul};

use crate::halves::{LINES, Raw, TERMS, Tiling};
use crate::kernels::parts::{BYTES, Cursor, Stretch};
use crate::memory::Aligned;
use crate::x86::{SumsKernel, turn_block};

/// Rows and columns of a block: two tiles by two, whose sums take four of the eight tiles.
pub const BLOCK: usize = 2 * LINES;
/// Bytes of tiles that stay in the second-level cache of a core while others pass, and of sums beside them that wait for more terms.
const AT_HAND: usize = 768 << 10;
const WAITING: usize = 512 << 10;
/// Tiles along the sum that are worth storing sums for.
const WORTH: usize = 8;

pub struct MatrixTask {
    work: Matmul,
    parts: usize,
    /// The left side of the product is on the right of the units, and its right side on their left.
    flipped: bool,
    epilogue: SumsKernel,
    /// Tiles along the sum.
    depth: usize,
    cut: Cut,
    left: Side,
    right: Side,
    bases: Vec<*mut u8>,
}

/// A side of the units.
struct Side {
    tiles: *const u8,
    lines: usize,
}

impl Side {
    fn blocks(&self) -> usize {
        self.lines.div_ceil(BLOCK)
    }
}

/// What a unit is.
enum Cut {
    /// A block; so many below each other come before the next beside them.
    Blocks { together: usize },
    /// A strip of a side that is packed as it goes.
    Strips(Strips),
}

/// So many blocks of lines of a side, left or right of the units, are packed as they go: some `together`, so many tiles along the sum,
/// before they are multiplied with all of the other side.
struct Strips {
    raw: Tiling,
    left: bool,
    blocks: usize,
    together: usize,
    terms: usize,
}

impl MatrixTask {
    /// Can generated code have its epilogue?
    pub fn suits(work: &Matmul) -> bool {
        SumsKernel::new(work, BLOCK).is_some()
    }

    /// Sides of `work` are packed, but for one that may be `raw`. `None` where generated code has no answer.
    pub fn new(work: &Matmul, parts: usize, raw: Option<Raw>, flipped: bool, threads: usize) -> Option<MatrixTask> {
        let depth = work.k.div_ceil(TERMS);
        let at_hand = (AT_HAND / (2 * BYTES * parts * depth)).max(1);
        let side = |lines: usize| Side { tiles: std::ptr::null(), lines };
        let (left, right) = if flipped { (work.n, work.m) } else { (work.m, work.n) };
        let (left, right) = (side(left), side(right));
        let cut = match raw {
            None => Cut::Blocks { together: at_hand.min(left.blocks().max(1)) },
            Some(raw) => {
                let on_left = raw.left != flipped;
                let (ours, theirs) = if on_left { (&left, &right) } else { (&right, &left) };
                // so many tiles along the sum, of all of the other side, stay at hand
                let fit = AT_HAND / (theirs.lines.div_ceil(LINES) * BYTES * parts);
                let (most, together, terms) = match fit {
                    // all of it
                    _ if fit >= depth => (at_hand, 1, depth),
                    // a part, for all of a strip before the next
                    WORTH.. => {
                        let most = WAITING / (4 * BLOCK * BLOCK * theirs.blocks());
                        (most.max(1), 1, depth.div_ceil(depth.div_ceil(fit)))
                    }
                    // too little: the strip does
                    _ => (at_hand, at_hand, depth),
                };
                let blocks = strip(ours.blocks(), most, threads);
                Cut::Strips(Strips { raw: raw.tiling, left: on_left, blocks, together: together.min(blocks), terms })
            }
        };
        Some(MatrixTask {
            epilogue: SumsKernel::new(work, BLOCK)?,
            parts,
            flipped,
            depth,
            cut,
            left,
            right,
            bases: vec![std::ptr::null_mut(); work.operands.len()],
            work: work.clone(),
        })
    }

    pub fn bind(&mut self, pointers: &[*mut u8]) {
        // SAFETY: offsets are inside the buffers (plan verifier).
        unsafe {
            let [a, b] = [&self.work.a, &self.work.b].map(|o| pointers[o.buffer].add(4 * o.offset) as *const u8);
            (self.left.tiles, self.right.tiles) = if self.flipped { (b, a) } else { (a, b) };
            for (base, o) in self.bases.iter_mut().zip(&self.work.operands) {
                *base = pointers[o.buffer].add(4 * o.offset);
            }
        }
    }

    pub fn units(&self) -> usize {
        match &self.cut {
            Cut::Blocks { .. } => self.left.blocks() * self.right.blocks(),
            Cut::Strips(strips) => {
                (if strips.left { &self.left } else { &self.right }).blocks().div_ceil(strips.blocks)
            }
        }
    }

    /// About `units` units: whole stretches of blocks below each other.
    pub fn grain(&self, units: usize) -> usize {
        match self.cut {
            Cut::Blocks { together } => units.max(1).next_multiple_of(together),
            Cut::Strips(_) => 1,
        }
    }

    /// Times in a step when something else can be done.
    fn pauses(&self) -> usize {
        if self.parts == 1 { 1 } else { 5 }
    }

    /// See `Task::pace`: 1024 operations in a cycle, where multiply-adds do 64; a product of parts takes six.
    pub fn pace(&self) -> f64 {
        if self.parts == 1 { 16.0 } else { 16.0 / 6.0 }
    }

    /// SAFETY: as `Task::run`; the pass that made this call has found the units.
    pub unsafe fn run(&self, units: Range<usize>) {
        let tiles = Tiles::take();
        let together = match &self.cut {
            Cut::Blocks { together } => *together,
            Cut::Strips(strips) => {
                units.for_each(|unit| self.strip(&tiles, strips, unit * strips.blocks));
                return;
            }
        };
        let mut meanwhile = Meanwhile { packed: None, ended: None };
        // blocks in turns, so that one can be ended while the next is summed up
        let mut sums = [Sums::uninit(), Sums::uninit()];
        for unit in units {
            let (bands, panels) = (self.left.blocks(), self.right.blocks());
            let (first, at) = (unit / (together * panels) * together, unit % (together * panels));
            let bands = together.min(bands - first);
            let to = sums[unit % 2].as_mut_ptr() as *mut f32;
            self.block(&tiles, first + at % bands, at / bands, to, &mut meanwhile);
        }
        meanwhile.end();
    }

    /// One block, of sides that are packed.
    unsafe fn block<'a>(
        &'a self,
        tiles: &Tiles,
        band: usize,
        panel: usize,
        to: *mut f32,
        meanwhile: &mut Meanwhile<'a>,
    ) {
        let line = self.depth * self.parts * BYTES;
        let a = pair(self.left.tiles, 2 * band, self.left.lines.div_ceil(LINES), line);
        let b = pair(self.right.tiles, 2 * panel, self.right.lines.div_ceil(LINES), line);
        let ends = self.ends(band, panel);
        tiles.clear();
        tiles.multiply(self, a, b, self.depth, Some(&ends), meanwhile);
        tiles.store(to);
        meanwhile.end_later(ends, to, self.depth);
    }

    /// The strip that begins with this block.
    unsafe fn strip(&self, tiles: &Tiles, strips: &Strips, first: usize) {
        let Strips { ref raw, left, blocks, together, terms } = *strips;
        let (ours, theirs) = if left { (&self.left, &self.right) } else { (&self.right, &self.left) };
        let (blocks, others) = (first..ours.blocks().min(first + blocks), theirs.blocks());
        let tile = self.parts * BYTES;
        // sums wait for more terms, if there are any; else they go in turns
        let waiting = terms < self.depth;
        // what is packed together, in turns in two places: the next while one is multiplied
        let groups = blocks.len().div_ceil(together);
        let count = groups * self.depth.div_ceil(terms);
        let size = 2 * together * terms * tile;
        // as much for all strips: a step allocates nothing
        let room = if waiting { strips.blocks * others } else { 2 };
        let (packed, sums) = scratch(count.min(2) * size, 4 * BLOCK * BLOCK * room);
        let group = |n: usize| {
            let (start, first) = (n / groups * terms, blocks.start + n % groups * together);
            let bands = 2 * first..raw.bands().min(2 * blocks.end.min(first + together));
            let tiles = start..self.depth.min(start + terms);
            let (source, to, apart) = (ours.tiles as *const f32, packed.add(n % 2 * size), tiles.len());
            Stretch { tiling: raw, source, bands, blocks: tiles, to, apart }
        };
        let mut meanwhile = Meanwhile { packed: None, ended: None };
        group(0).pack_all();
        let mut made = 0;
        for n in 0..count {
            let current = group(n);
            let (start, depth) = (current.blocks.start, current.blocks.len());
            let (first, end) = (current.bands.start / 2, current.bands.end.div_ceil(2));
            let last = start + depth == self.depth;
            meanwhile.packed =
                (n + 1 < count).then(|| Ahead::new(group(n + 1), others * (end - first) * depth * self.pauses()));
            for (i, j) in (0..others).flat_map(|i| (first..end).map(move |j| (i, j))) {
                let own = pair(current.to, 2 * (j - first), current.bands.len(), depth * tile);
                let other = theirs.tiles.add(start * tile);
                let other = pair(other, 2 * i, theirs.lines.div_ceil(LINES), self.depth * tile);
                let at = if waiting { (j - blocks.start) * others + i } else { made % 2 };
                let to = (sums as *mut f32).add(at * BLOCK * BLOCK);
                match start {
                    0 => tiles.clear(),
                    _ => tiles.load(to),
                }
                let (a, b) = if left { (own, other) } else { (other, own) };
                let (band, panel) = if left { (j, i) } else { (i, j) };
                let ends = self.ends(band, panel);
                tiles.multiply(self, a, b, depth, last.then_some(&ends), &mut meanwhile);
                tiles.store(to);
                if last {
                    meanwhile.end_later(ends, to, depth);
                }
                made += 1;
            }
            if let Some(ahead) = meanwhile.packed.take() {
                ahead.complete();
            }
        }
        meanwhile.end();
    }

    unsafe fn ends(&self, band: usize, panel: usize) -> Ends<'_> {
        let (band, panel) = if self.flipped { (panel, band) } else { (band, panel) };
        let (row, col) = (band * BLOCK, panel * BLOCK);
        let mut table = [std::ptr::null_mut(); MOST_OPERANDS];
        for (i, o) in self.work.operands.iter().enumerate() {
            table[i] = self.bases[i].add((row * o.row + col * o.col) * 4);
        }
        Ends { task: self, table, rows: BLOCK.min(self.work.m - row), cols: BLOCK.min(self.work.n - col) }
    }
}

/// Blocks of a strip: up to `most`, such that all threads have as much. The first of them to meet a block of the other side brings it
/// from afar, which takes as long as multiplying another.
fn strip(blocks: usize, most: usize, threads: usize) -> usize {
    let takes = |size: usize| blocks.div_ceil(size).div_ceil(threads) * (size + 1);
    (1..=blocks.div_ceil(threads).min(most)).min_by_key(|&size| takes(size)).unwrap_or(1)
}

/// Where two lines of tiles begin. Where there is no second, the first stands for it too, and nobody looks at those sums.
unsafe fn pair(side: *const u8, first: usize, all: usize, line: usize) -> [*const u8; 2] {
    [first, (first + 1).min(all - 1)].map(|at| side.add(at * line))
}

/// What is done between the multiplications of tiles.
struct Meanwhile<'a> {
    packed: Option<Ahead<'a>>,
    ended: Option<Ended<'a>>,
}

impl<'a> Meanwhile<'a> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
    unsafe fn some(&mut self) {
        if let Some(ended) = &mut self.ended
            && ended.some()
        {
            self.ended = None;
        }
        if let Some(packed) = &mut self.packed {
            packed.some();
        }
    }

    /// While the next block is summed up, in so many steps at least; the last one is ended first.
    unsafe fn end_later(&mut self, mut ends: Ends<'a>, sums: *const f32, depth: usize) {
        self.end();
        let each = ends.rows.div_ceil(depth * ends.task.pauses());
        match ends.task.flipped {
            true => ends.run_turned(sums),
            false => self.ended = Some(Ended { ends, sums, row: 0, each }),
        }
    }

    unsafe fn end(&mut self) {
        if let Some(mut ended) = self.ended.take() {
            while !ended.some() {}
        }
    }
}

/// What is packed, some rows at a time.
struct Ahead<'a> {
    cursor: Cursor<'a>,
    each: usize,
    left: usize,
}

impl<'a> Ahead<'a> {
    /// In so many times.
    fn new(stretch: Stretch<'a>, times: usize) -> Ahead<'a> {
        let left = stretch.rows();
        Ahead { each: left.div_ceil(times), left, cursor: Cursor::new(stretch) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
    unsafe fn some(&mut self) {
        let rows = self.each.min(self.left);
        self.cursor.pack(rows);
        self.left -= rows;
    }

    unsafe fn complete(mut self) {
        self.cursor.pack(self.left);
    }
}

/// A block of sums on its way through the epilogue, some rows at a time.
struct Ended<'a> {
    ends: Ends<'a>,
    sums: *const f32,
    row: usize,
    each: usize,
}

impl Ended<'_> {
    /// Are there no more?
    #[inline]
    unsafe fn some(&mut self) -> bool {
        let rows = self.each.min(self.ends.rows - self.row);
        self.ends.run(self.sums.add(self.row * BLOCK), rows);
        self.row += rows;
        self.row == self.ends.rows
    }
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

    /// The next rows.
    #[inline]
    unsafe fn run(&mut self, sums: *const f32, rows: usize) {
        self.task.epilogue.run(sums, &self.table, rows, self.cols);
        for (start, o) in self.table.iter_mut().zip(&self.task.work.operands) {
            *start = start.wrapping_add(4 * rows * o.row);
        }
    }

    /// All rows, of sums whose sides have changed places.
    unsafe fn run_turned(&mut self, sums: *const f32) {
        let mut turned = Sums::uninit();
        let to = turned.as_mut_ptr() as *mut f32;
        for (row, col) in [(0, 0), (0, LINES), (LINES, 0), (LINES, LINES)] {
            turn_block(sums.add(row * BLOCK + col), BLOCK, to.add(col * BLOCK + row), BLOCK, LINES, LINES);
        }
        self.run(to, self.rows);
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

/// Loads a part of two tiles, and multiplies each of the two on the left by each of the two on the right.
macro_rules! multiply {
    ($side:ident, $first:literal, $second:literal, $part:literal) => {
        asm!(
            concat!("tileloadd ", $first, ", [{0} + {2}*1 + 1024*", $part, "]"),
            concat!("tileloadd ", $second, ", [{1} + {2}*1 + 1024*", $part, "]"),
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            in(reg) $side[0], in(reg) $side[1], in(reg) 64_usize,
            options(nostack, readonly),
        )
    };
}

/// A part of the left side, or of the right one, by what is there of the other.
macro_rules! left {
    ($a:ident, $part:literal) => {
        multiply!($a, "tmm4", "tmm5", $part)
    };
}
macro_rules! right {
    ($b:ident, $part:literal) => {
        multiply!($b, "tmm6", "tmm7", $part)
    };
}

/// Loads the first part of two tiles.
macro_rules! load {
    ($side:ident, $first:literal, $second:literal) => {
        asm!(
            concat!("tileloadd ", $first, ", [{0} + {2}*1]"),
            concat!("tileloadd ", $second, ", [{1} + {2}*1]"),
            in(reg) $side[0], in(reg) $side[1], in(reg) 64_usize,
            options(nostack, readonly),
        )
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
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
    unsafe fn multiply(
        &self,
        task: &MatrixTask,
        a: [*const u8; 2],
        b: [*const u8; 2],
        depth: usize,
        ends: Option<&Ends>,
        meanwhile: &mut Meanwhile,
    ) {
        for step in 0..depth {
            let [a, b] = [a, b].map(|side| side.map(|tile| tile.add(step * task.parts * BYTES)));
            match (task.parts, task.flipped) {
                (1, _) => self.whole(a, b, meanwhile),
                (_, false) => self.in_parts(a, b, meanwhile),
                (_, true) => self.in_parts_flipped(a, b, meanwhile),
            }
            if let Some(ends) = ends {
                ends.ask(ends.rows * step / depth..ends.rows * (step + 1) / depth);
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
    unsafe fn whole(&self, a: [*const u8; 2], b: [*const u8; 2], meanwhile: &mut Meanwhile) {
        load!(a, "tmm4", "tmm5");
        right!(b, 0);
        meanwhile.some();
    }

    /// a₁b₃ + a₁b₂ + a₂b₂ + a₂b₁ + a₃b₁ + a₁b₁. What is left out is smaller than half of the last bit.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
    unsafe fn in_parts(&self, a: [*const u8; 2], b: [*const u8; 2], meanwhile: &mut Meanwhile) {
        load!(a, "tmm4", "tmm5");
        right!(b, 2);
        meanwhile.some();
        right!(b, 1);
        meanwhile.some();
        left!(a, 1);
        meanwhile.some();
        right!(b, 0);
        meanwhile.some();
        left!(a, 2);
        meanwhile.some();
        left!(a, 0);
    }

    /// The same sum, bit by bit, of sides that have changed places.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
    unsafe fn in_parts_flipped(&self, a: [*const u8; 2], b: [*const u8; 2], meanwhile: &mut Meanwhile) {
        load!(b, "tmm6", "tmm7");
        left!(a, 2);
        meanwhile.some();
        left!(a, 1);
        meanwhile.some();
        right!(b, 1);
        meanwhile.some();
        left!(a, 0);
        meanwhile.some();
        right!(b, 2);
        meanwhile.some();
        right!(b, 0);
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
