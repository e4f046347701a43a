//! Pass `halve_products`: the factors of a large product are packed as pairs of bfloat16 along `k`, and multiplied two terms an
//! instruction; sums, epilogues and everything else stay in 32 bits. Only where the processor has the instruction (AVX512-BF16).

use std::collections::BTreeMap;

use citius_graph::{DType, Shape};
use citius_plan::{Buffer, BufferId, Call, Cost, Instr, Loop, Matmul, Nest, Operand, Plan, Program, Storage, Work};

use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::kernels::{FEW, PANEL, Sides, listed};

/// Arithmetic from which a product gains, beside what pays for packing: ten microseconds of a core, where a wave more costs one.
pub const LARGE_PRODUCT: usize = 2 << 20;
/// Operations that have to become faster to pay for packing one number: it takes a quarter of a nanosecond, and an operation
/// takes 1/110 of one in 32 bits, 1/200 in 16 (Zen 4).
const PACKING: usize = 64;
/// Shorter sums take less time than storing them.
const SHORTEST_SUM: usize = 32;

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
}

/// How pairs are multiplied.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Product {
    /// Both sides are packed, the right one in panels as wide as a tile.
    Tiles,
    /// One side is full of zeros and read as it is; the other is packed.
    #[cfg(target_arch = "x86_64")]
    Skipping(Sides),
}

/// Whether products of pairs are to be had: asks the operating system's saved-state mask too, not the processor's flag alone.
pub fn has_halves() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        Isa::detect() == Isa::Avx512 && is_x86_feature_detected!("avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// A plan as a processor runs it in bfloat16.
pub struct Halved {
    pub plan: Plan,
    /// Products in bfloat16, and their operations.
    pub products: usize,
    pub flops: usize,
}

/// The same plan where nothing gains, or the processor has no such instructions.
pub fn halved(plan: Plan) -> Halved {
    let (plan, halves) = halve_products(plan, Isa::detect(), LARGE_PRODUCT);
    let flops = halves.products.keys().map(|&call| plan.calls[call].cost.flops).sum();
    Halved { products: halves.products.len(), flops, plan }
}

/// The plan with products in pairs that do at least `from` operations more than pay for packing.
pub fn halve_products(plan: Plan, isa: Isa, from: usize) -> (Plan, Halves) {
    if isa != Isa::Avx512 || !has_halves() {
        return (plan, Halves::default());
    }
    #[cfg(target_arch = "x86_64")]
    let listed = listed(&plan, isa);
    #[cfg(not(target_arch = "x86_64"))]
    let listed = vec![];
    let suits = |call: &Call| !call.work.touches().0.iter().any(|id| listed.contains(id));
    let choose = |call: &Call| Chosen::of(call, &plan, isa, from).filter(|_| suits(call));
    let chosen: Vec<Option<Chosen>> = plan.calls.iter().map(choose).collect();
    if chosen.iter().all(Option::is_none) {
        return (plan, Halves::default());
    }
    let Plan { mut buffers, mut scratch_bytes, calls, outputs, limits, warnings, .. } = plan;
    let free = scratch_bytes.next_multiple_of(64);
    // packed sides live for a wave: those of different waves share their bytes
    let mut waves: BTreeMap<usize, Packed> = BTreeMap::new();
    let mut all: Vec<(Call, Kind)> = Vec::new();
    for (mut call, chosen) in calls.into_iter().zip(chosen) {
        let wave = 2 * call.wave;
        call.wave = wave + 1;
        let (Work::Matmul(m), Some(chosen)) = (&mut call.work, chosen) else {
            all.push((call, Kind::Other));
            continue;
        };
        let packed = waves.entry(wave).or_insert(Packed { end: free, copies: vec![] });
        for left in [true, false] {
            let Some(copy) = chosen.copy(m, left) else { continue };
            let buffer = packed.buffer(&copy).unwrap_or_else(|| {
                let buffer = packed.place(&copy, &mut buffers);
                let (label, phase) = (format!("to bfloat16, for {}", call.label), call.phase);
                let cost = Cost { flops: 0, bytes: copy.bytes() };
                all.push((Call { work: copy.work(buffer), wave, cost, label, phase }, Kind::Pack(copy.packing)));
                buffer
            });
            let along = matches!(copy.packing, Packing::Along { .. });
            let (row, col) = if along || !left { (copy.cols, 1) } else { (1, copy.cols) };
            let side = Operand { buffer, dtype: DType::F32, offset: 0, outer: vec![], row, col };
            *(if left { &mut m.a } else { &mut m.b }) = side;
        }
        if chosen.product == Product::Tiles {
            m.k = m.k.div_ceil(2);
        }
        scratch_bytes = scratch_bytes.max(packed.end);
        call.label = format!("in bfloat16: {}", call.label);
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

enum Kind {
    Pack(Packing),
    Product(Product),
    Other,
}

/// How a product is to be done.
#[derive(Clone, Copy)]
struct Chosen {
    product: Product,
    /// Columns of the panels of the right side, or of the dense one.
    panel: usize,
}

impl Chosen {
    /// `None` for what is no product, or not large enough, or not such as pairs and generated code can have.
    fn of(call: &Call, plan: &Plan, isa: Isa, from: usize) -> Option<Chosen> {
        let Work::Matmul(m) = &call.work else { return None };
        let plain = m.outer.is_empty() && m.deep.is_empty() && m.a.dtype == DType::F32 && m.b.dtype == DType::F32;
        let neighbours = (m.a.col == 1 || m.a.row == 1) && m.b.col == 1;
        let long = m.k > 1 && m.k >= SHORTEST_SUM.min(from);
        let gains = |packed: usize| 2 * m.m * m.n * m.k >= from + PACKING.min(from) * m.k * packed;
        if !plain || !neighbours || !long {
            return None;
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(sides) = Sides::of(m, plan, isa)
            && sides.kept < FEW
            && sides.n >= PANEL
            && gains(sides.n)
        {
            return Some(Chosen { product: Product::Skipping(sides), panel: PANEL });
        }
        let _ = (plan, isa);
        let panel = if gains(m.m + m.n) { tile_width(m)? } else { return None };
        Some(Chosen { product: Product::Tiles, panel })
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
            Product::Tiles if left && apart == 1 => Some(copy(count, terms, across, 2, Packing::Along { odd })),
            Product::Tiles => {
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
        self.rows * self.cols * if matches!(self.packing, Packing::Rows { .. }) { 6 } else { 12 }
    }

    fn work(&self, buffer: BufferId) -> Work {
        let to = Operand { buffer, dtype: DType::F32, offset: 0, outer: vec![], row: self.cols, col: 1 };
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
        self.end = (self.end + copy.rows * copy.cols * 4).next_multiple_of(64);
        buffers.push(Buffer { shape: Shape::from(vec![copy.rows, copy.cols]), dtype: DType::F32, storage });
        self.copies.push((copy.clone(), buffers.len() - 1));
        buffers.len() - 1
    }
}
