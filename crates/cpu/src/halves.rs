//! Pass `halve_products`: the factors of a large product are packed as bfloat16; sums, epilogues and everything else stay in 32 bits.
//!
//! - In bfloat16 (`--precision bf16`), rounded: pairs along `k`, two terms an instruction (AVX512-BF16), or tiles for units that multiply
//!   matrices (AMX).
//! - In 32 bits, where there are such units: three bfloat16 for each number, of which it is the sum, and six products of parts for each
//!   product. That is as exact, and still faster than multiplying in 32 bits.

use std::collections::BTreeMap;

use citius_graph::{DType, Shape};
use citius_plan::{Buffer, BufferId, Call, Cost, Instr, Loop, Matmul, Nest, Operand, Plan, Program, Storage, Work};

use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::kernels::{BLOCK, FEW, FEW_SKIPPED, MatrixTask, PANEL, Sides, listed};
use crate::turned;

/// Arithmetic from which a product gains, beside what pays for packing: ten microseconds of a core, where a wave more costs one.
pub const LARGE_PRODUCT: usize = 2 << 20;
/// Operations that have to become faster to pay for packing one number: it takes a quarter of a nanosecond, and an operation
/// takes 1/110 of one in 32 bits, 1/200 in 16 (Zen 4).
const PACKING: usize = 64;
/// Shorter sums take less time than storing them.
const SHORTEST_SUM: usize = 32;

/// Terms of a tile, and its lines: rows of a left side, columns of a right one.
pub const TERMS: usize = 32;
pub const LINES: usize = 16;

/// Which products are packed, from how many operations on.
#[derive(Clone, Copy, Debug)]
pub struct Goals {
    /// Rounded to bfloat16.
    pub halves: Option<usize>,
    /// In three parts, where there are units for it.
    pub thirds: usize,
}

/// Which calls of a plan are not what they look like.
#[derive(Default)]
pub struct Halves {
    /// Copies that pack.
    pub packs: BTreeMap<usize, Packing>,
    /// Products of pairs.
    pub products: BTreeMap<usize, Product>,
}

/// What a copy makes of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// Pairs of neighbours of a row. Odd: the last has no second.
    Along { odd: bool },
    /// Pairs of two rows, `apart` numbers from each other. Odd: the last row is alone. Rows of pairs are cut into panels of so many
    /// columns, each stored from end to end before the next.
    Across { apart: usize, odd: bool, panel: usize },
    /// No pairs, but rows, in such panels.
    Rows { panel: usize },
    /// Tiles for units that multiply matrices.
    Tiles(Tiling),
}

/// How a side of a product is cut into tiles of [`LINES`] by [`TERMS`]. A line is a row of a left side, a column of a right one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tiling {
    pub side: TileSide,
    pub lines: usize,
    pub terms: usize,
    /// From line to line, and from term to term.
    pub line: usize,
    pub apart: usize,
    /// Bfloat16 for each number: 1 or 3.
    pub parts: usize,
}

/// A side that is packed where it is multiplied.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Raw {
    pub tiling: Tiling,
    pub left: bool,
}

/// Which side of the units, and what lies beside each other: the terms of a line, or lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TileSide {
    LeftAlong,
    LeftAcross,
    RightAlong,
    RightAcross,
}

impl Tiling {
    /// Of the left or the right side of a product, for the other one of the units if it is `flipped`.
    fn of(m: &Matmul, left: bool, parts: usize, flipped: bool) -> Tiling {
        let (lines, line, apart) = if left { (m.m, m.a.row, m.a.col) } else { (m.n, m.b.col, m.b.row) };
        let side = match (left != flipped, apart == 1) {
            (true, true) => TileSide::LeftAlong,
            (true, false) => TileSide::LeftAcross,
            (false, true) => TileSide::RightAlong,
            (false, false) => TileSide::RightAcross,
        };
        Tiling { side, lines, terms: m.k, line, apart, parts }
    }

    /// Tiles along the lines.
    pub fn bands(&self) -> usize {
        self.lines.div_ceil(LINES)
    }

    /// Tiles along the sum.
    pub fn blocks(&self) -> usize {
        self.terms.div_ceil(TERMS)
    }

    fn bytes(&self) -> usize {
        self.bands() * self.blocks() * self.parts * LINES * TERMS * 2
    }
}

/// How packed sides are multiplied.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Product {
    /// Both sides are packed, the right one in panels as wide as a tile.
    Pairs,
    /// Sides are packed in tiles, each number in so many parts; one of them as it goes, if it is `raw`. Flipped: the left side is on the
    /// right of the units, and the other way round.
    Tiles { parts: usize, raw: Option<Raw>, flipped: bool },
    /// One side is full of zeros and read as it is; the other is packed.
    #[cfg(target_arch = "x86_64")]
    Skipping(Sides),
}

/// Whether products in bfloat16 are to be had: asks the operating system too, not the processor's flag alone.
pub fn has_halves() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        Isa::detect() >= Isa::Avx512 && is_x86_feature_detected!("avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Whether they are faster than in 32 bits: Intel's processors do no more of them in an instruction's time, except on matrix units.
pub fn gains_from_halves() -> bool {
    has_halves() && (Isa::detect() >= Isa::Amx || !is_intel())
}

fn is_intel() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let vendor = std::arch::x86_64::__cpuid(0);
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// A plan as a processor runs it.
pub struct Halved {
    pub plan: Plan,
    /// Products in bfloat16, one for each number or three, and their operations.
    pub products: usize,
    pub flops: usize,
}

/// In bfloat16. The same plan where nothing gains, or the processor has no such instructions.
pub fn halved(plan: Plan) -> Halved {
    packed(plan, Isa::detect(), Some(LARGE_PRODUCT))
}

/// In 32 bits: numbers may be in three bfloat16.
pub fn in_thirds(plan: Plan, isa: Isa) -> Halved {
    packed(plan, isa.min(Isa::detect()), None)
}

fn packed(plan: Plan, isa: Isa, from: Option<usize>) -> Halved {
    let (plan, halves) = halve_products(plan, isa, Goals { halves: from, thirds: LARGE_PRODUCT });
    let rounded = |product: &Product| !matches!(product, Product::Tiles { parts: 3, .. });
    let counts = |product: &Product| rounded(product) == from.is_some();
    let products: Vec<usize> = halves.products.iter().filter(|p| counts(p.1)).map(|p| *p.0).collect();
    let flops = products.iter().map(|&call| plan.calls[call].cost.flops).sum();
    Halved { products: products.len(), flops, plan }
}

/// The plan with such products packed that do at least as many operations as `goals` say more than pay for packing.
pub fn halve_products(plan: Plan, isa: Isa, goals: Goals) -> (Plan, Halves) {
    if isa < Isa::Avx512 || !has_halves() || (isa < Isa::Amx && goals.halves.is_none()) {
        return (plan, Halves::default());
    }
    #[cfg(target_arch = "x86_64")]
    let listed = listed(&plan, isa);
    #[cfg(not(target_arch = "x86_64"))]
    let listed = vec![];
    let suits = |call: &Call| !call.work.touches().0.iter().any(|id| listed.contains(id));
    let choose = |call: &Call| Chosen::of(call, &plan, isa, goals).filter(|_| suits(call));
    let chosen: Vec<Option<Chosen>> = plan.calls.iter().map(choose).collect();
    if chosen.iter().all(Option::is_none) {
        return (plan, Halves::default());
    }
    let needless = turned::needless(&plan, |call| chosen[call].as_ref().is_some_and(|c| c.original.is_some()));
    let Plan { mut buffers, mut scratch_bytes, calls, outputs, limits, warnings, .. } = plan;
    let free = scratch_bytes.next_multiple_of(64);
    // packed sides live for a wave: those of different waves share their bytes
    let mut waves: BTreeMap<usize, Packed> = BTreeMap::new();
    let mut all: Vec<(Call, Kind)> = Vec::new();
    for (at, (mut call, chosen)) in calls.into_iter().zip(chosen).enumerate() {
        if needless.contains(&at) {
            continue;
        }
        let wave = 2 * call.wave;
        call.wave = wave + 1;
        let (Work::Matmul(m), Some(chosen)) = (&mut call.work, chosen) else {
            all.push((call, Kind::Other));
            continue;
        };
        let packed = waves.entry(wave).or_insert(Packed { end: free, copies: vec![] });
        m.b = chosen.original.clone().unwrap_or(m.b.clone());
        for left in [true, false] {
            let Some(copy) = chosen.copy(m, left) else { continue };
            let buffer = packed.buffer(&copy).unwrap_or_else(|| {
                let buffer = packed.place(&copy, &mut buffers);
                let what = if chosen.exact() { "in parts" } else { "to bfloat16" };
                let (label, phase) = (format!("{what}, for {}", call.label), call.phase);
                let cost = Cost { flops: 0, bytes: copy.bytes() };
                all.push((Call { work: copy.work(buffer), wave, cost, label, phase }, Kind::Pack(copy.packing)));
                buffer
            });
            let (row, col) = match copy.packing {
                Packing::Tiles(_) => somewhere(left),
                Packing::Across { .. } | Packing::Rows { .. } if left => (1, copy.cols),
                Packing::Along { .. } | Packing::Across { .. } | Packing::Rows { .. } => (copy.cols, 1),
            };
            let side = Operand { buffer, dtype: DType::F32, offset: 0, outer: vec![], row, col };
            *(if left { &mut m.a } else { &mut m.b }) = side;
        }
        if chosen.original.is_some() && m.b.col != 1 {
            (m.b.row, m.b.col) = somewhere(false);
        }
        if chosen.product == Product::Pairs {
            m.k = m.k.div_ceil(2);
        }
        scratch_bytes = scratch_bytes.max(packed.end);
        call.label = format!("in {}bfloat16: {}", if chosen.exact() { "three " } else { "" }, call.label);
        all.push((call, Kind::Product(chosen.product)));
    }
    all.sort_by_key(|(call, _)| call.wave);
    let mut halves = Halves::default();
    for (i, (_, kind)) in all.iter().enumerate() {
        match kind {
            Kind::Pack(packing) => drop(halves.packs.insert(i, *packing)),
            Kind::Product(product) => drop(halves.products.insert(i, *product)),
            Kind::Other => {}
        }
    }
    let mut calls: Vec<Call> = all.into_iter().map(|(call, _)| call).collect();
    // without gaps
    let mut numbers: Vec<usize> = calls.iter().map(|c| c.wave).collect();
    numbers.dedup();
    calls.iter_mut().for_each(|c| c.wave = numbers.partition_point(|w| *w < c.wave));
    (Plan { buffers, scratch_bytes, calls, waves: numbers.len(), outputs, limits, warnings }, halves)
}

/// Strides of a side in tiles, or of one that is packed as it goes, as the verifier would have them: who multiplies knows better.
fn somewhere(left: bool) -> (usize, usize) {
    if left { (1, 0) } else { (0, 1) }
}

enum Kind {
    Pack(Packing),
    Product(Product),
    Other,
}

/// How a product is to be done.
#[derive(Clone)]
struct Chosen {
    product: Product,
    /// Columns of the panels of the right side, or of the dense one.
    panel: usize,
    /// What the right side is a turned copy of, if it is packed from there.
    original: Option<Operand>,
}

/// Operations in a nanosecond of a core, and nanoseconds to pack a number (Emerald Rapids): in 32 bits, there without zeros, and in
/// parts on matrix units.
#[cfg(target_arch = "x86_64")]
const EXACT_RATE: f64 = 125.0;
#[cfg(target_arch = "x86_64")]
const SKIPPING_RATE: f64 = 85.0;
#[cfg(target_arch = "x86_64")]
const TILE_PACKING: f64 = 0.4;
/// Terms of a side of which some hundred lines stay there.
#[cfg(target_arch = "x86_64")]
const SHORT_SUM: usize = 512;
/// Lines of a side whose sums with some lines of the other stay in the second-level cache of a core.
#[cfg(target_arch = "x86_64")]
const MOST_AT_ONCE: usize = 512;
#[cfg(target_arch = "x86_64")]
fn tile_rate(parts: usize) -> f64 {
    if parts == 1 { 1200.0 } else { 300.0 }
}

impl Chosen {
    /// `None` for what is no product, or not large enough, or not such as pairs and generated code can have.
    fn of(call: &Call, plan: &Plan, isa: Isa, goals: Goals) -> Option<Chosen> {
        let Work::Matmul(m) = &call.work else { return None };
        let plain = m.outer.is_empty() && m.deep.is_empty() && m.a.dtype == DType::F32 && m.b.dtype == DType::F32;
        let neighbours = (m.a.col == 1 || m.a.row == 1) && m.b.col == 1;
        if !plain || !neighbours || m.k < 2 {
            return None;
        }
        #[cfg(target_arch = "x86_64")]
        let sides = Sides::of(m, plan, isa);
        if isa >= Isa::Amx {
            #[cfg(target_arch = "x86_64")]
            let kept = sides.map_or(1.0, |sides| sides.kept);
            #[cfg(not(target_arch = "x86_64"))]
            let kept = 1.0;
            // a small batch may be there as addresses of rows (`kernels/in_place.rs`), unless a call of its own packs it
            let gathered = |call: &Call| matches!(&call.work, Work::Gather(gather) if gather.out == m.a.buffer || gather.out == m.b.buffer);
            let original = turned::original(plan, call);
            let m = &Matmul { b: original.clone().unwrap_or(m.b.clone()), ..m.clone() };
            let chosen = Chosen::tiles(m, kept, goals, plan.calls.iter().any(gathered))?;
            return Some(Chosen { original, ..chosen });
        }
        let from = goals.halves?;
        let long = m.k >= SHORTEST_SUM.min(from);
        // smaller ones are asked for by tests
        let faster = !is_intel() || from < LARGE_PRODUCT;
        if !long || !faster {
            return None;
        }
        let gains = |packed: usize| 2 * m.m * m.n * m.k >= from + PACKING.min(from) * m.k * packed;
        #[cfg(target_arch = "x86_64")]
        if let Some(sides) = sides
            && sides.kept < FEW
            && sides.n >= PANEL
            && gains(sides.n)
        {
            return Some(Chosen { product: Product::Skipping(sides), panel: PANEL, original: None });
        }
        let _ = (plan, isa);
        let panel = if gains(m.m + m.n) { tile_width(m)? } else { return None };
        Some(Chosen { product: Product::Pairs, panel, original: None })
    }

    /// On matrix units, where that is faster than multiplying in 32 bits without the zeros; both sides are packed `beforehand`, if told so.
    #[cfg(target_arch = "x86_64")]
    fn tiles(m: &Matmul, kept: f64, goals: Goals, beforehand: bool) -> Option<Chosen> {
        let operations = 2 * m.m * m.n * m.k;
        let (parts, from) = match goals.halves {
            Some(from) if operations >= from => (1, from),
            _ => (3, goals.thirds),
        };
        // whole blocks are multiplied
        let [rows, cols] = [m.m, m.n].map(|lines| lines.next_multiple_of(BLOCK));
        let multiplied = 2 * rows * cols * m.k.next_multiple_of(TERMS);
        let takes = multiplied as f64 / tile_rate(parts) + TILE_PACKING * ((m.m + m.n) * m.k) as f64;
        // smaller ones are asked for by tests
        let (kept, rate) = if kept < FEW_SKIPPED { (kept, SKIPPING_RATE) } else { (1.0, EXACT_RATE) };
        let faster = takes < kept * operations as f64 / rate || from < LARGE_PRODUCT;
        let suits = operations >= from && faster && MatrixTask::suits(m);
        // turning the numbers of a line costs as much as turning sums does
        let turns = |flipped: bool| {
            let turned = |left: bool| match Tiling::of(m, left, parts, flipped) {
                Tiling { side: TileSide::LeftAcross | TileSide::RightAlong, lines, .. } => lines * m.k,
                _ => 0,
            };
            turned(true) + turned(false) + if flipped { m.m * m.n } else { 0 }
        };
        let flipped = turns(true) < turns(false);
        // each line of the longer side is packed once where it meets all of the other at once
        let [left, right] = [true, false].map(|left| Tiling::of(m, left, parts, flipped));
        let raw = if m.m > m.n || (m.m == m.n && left.side == TileSide::LeftAlong) { left } else { right };
        let once = m.m.min(m.n) <= MOST_AT_ONCE || m.k <= SHORT_SUM;
        let raw = (!beforehand && once && raw.lines >= 2 * BLOCK).then_some(Raw { tiling: raw, left: raw == left });
        suits.then_some(Chosen { product: Product::Tiles { parts, raw, flipped }, panel: 0, original: None })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn tiles(_: &Matmul, _: f64, _: Goals, _: bool) -> Option<Chosen> {
        None
    }

    /// As exact as in 32 bits.
    fn exact(&self) -> bool {
        matches!(self.product, Product::Tiles { parts: 3, .. })
    }

    /// How a side is packed, if it is.
    fn copy(&self, m: &Matmul, left: bool) -> Option<SideCopy> {
        let side = if left { &m.a } else { &m.b };
        // from term to term of a sum, from one sum to the next, and how many sums
        let (apart, across, count) = if left { (m.a.col, m.a.row, m.m) } else { (m.b.row, m.b.col, m.n) };
        let (terms, odd) = (m.k.div_ceil(2), !m.k.is_multiple_of(2));
        let copy = |rows, cols, row, col, packing| SideCopy {
            rows,
            cols,
            from: Operand { outer: vec![], row, col, ..side.clone() },
            packing,
        };
        match self.product {
            Product::Tiles { raw: Some(raw), .. } if raw.left == left => None,
            Product::Tiles { parts, flipped, .. } => {
                let tiling = Tiling::of(m, left, parts, flipped);
                let packing = Packing::Tiles(tiling);
                Some(match tiling.side {
                    TileSide::LeftAlong | TileSide::RightAlong => copy(count, m.k, across, 1, packing),
                    TileSide::LeftAcross | TileSide::RightAcross => copy(m.k, count, apart, 1, packing),
                })
            }
            Product::Pairs if left && apart == 1 => Some(copy(count, terms, across, 2, Packing::Along { odd })),
            Product::Pairs => {
                let panel = if left { count } else { self.panel };
                Some(copy(terms, count, 2 * apart, 1, Packing::Across { apart, odd, panel }))
            }
            #[cfg(target_arch = "x86_64")]
            Product::Skipping(sides) if sides.turned != left => None,
            #[cfg(target_arch = "x86_64")]
            Product::Skipping(_) => Some(copy(m.k, count, apart, 1, Packing::Rows { panel: self.panel })),
        }
    }
}

/// Columns of a tile of this product in pairs, where its code can be generated.
#[cfg(target_arch = "x86_64")]
fn tile_width(m: &Matmul) -> Option<usize> {
    let (k, along) = (m.k.div_ceil(2), m.a.col == 1);
    let a = Operand { row: if along { k } else { 1 }, col: if along { 1 } else { m.m }, ..m.a.clone() };
    let b = Operand { row: m.n, ..m.b.clone() };
    crate::x86::MatmulKernel::of_pairs(&Matmul { k, a, b, ..m.clone() }).map(|kernel| kernel.tile().1)
}

#[cfg(not(target_arch = "x86_64"))]
fn tile_width(_: &Matmul) -> Option<usize> {
    None
}

/// How a side of a product is packed.
#[derive(Clone, PartialEq)]
struct SideCopy {
    rows: usize,
    cols: usize,
    from: Operand,
    packing: Packing,
}

impl SideCopy {
    /// Read and written.
    fn bytes(&self) -> usize {
        match self.packing {
            Packing::Along { .. } | Packing::Across { .. } => self.rows * self.cols * 12,
            Packing::Rows { .. } => self.rows * self.cols * 6,
            Packing::Tiles(tiling) => 4 * tiling.lines * tiling.terms + tiling.bytes(),
        }
    }

    /// Written, and room that is not used.
    fn room(&self) -> usize {
        match self.packing {
            Packing::Tiles(tiling) => tiling.bytes(),
            _ => self.rows * self.cols * 4,
        }
    }

    fn work(&self, buffer: BufferId) -> Work {
        // tiles of one part are shorter than the numbers they are made of
        let row = if matches!(self.packing, Packing::Tiles(_)) { 0 } else { self.cols };
        let to = Operand { buffer, dtype: DType::F32, offset: 0, outer: vec![], row, col: 1 };
        Work::Loop(Loop {
            outer: vec![],
            rows: self.rows,
            cols: self.cols,
            nest: Nest::Rows,
            operands: vec![self.from.clone(), to],
            program: Program { instrs: vec![Instr::Load(0)] },
            stores: vec![(0, 1)],
            folds: vec![],
        })
    }
}

/// What is packed in one wave.
struct Packed {
    /// Of the bytes in use.
    end: usize,
    copies: Vec<(SideCopy, BufferId)>,
}

impl Packed {
    /// Where this side is packed already, for another product.
    fn buffer(&self, copy: &SideCopy) -> Option<BufferId> {
        self.copies.iter().find(|made| made.0 == *copy).map(|made| made.1)
    }

    fn place(&mut self, copy: &SideCopy, buffers: &mut Vec<Buffer>) -> BufferId {
        let storage = Storage::Scratch { offset: self.end };
        self.end = (self.end + copy.room()).next_multiple_of(64);
        buffers.push(Buffer { shape: Shape::from(vec![copy.room() / 4]), dtype: DType::F32, storage });
        self.copies.push((copy.clone(), buffers.len() - 1));
        buffers.len() - 1
    }
}
