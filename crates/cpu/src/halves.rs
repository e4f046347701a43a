//! Pass `halve_products`: both sides of a large product are packed as pairs of bfloat16 along `k`, and multiplied two terms an
//! instruction; sums, epilogues and everything else stay in 32 bits. Only where the processor has the instruction (AVX512-BF16).

use std::collections::{BTreeMap, BTreeSet};

use citius_graph::{DType, Shape};
use citius_plan::{Buffer, BufferId, Call, Cost, Instr, Loop, Matmul, Nest, Operand, Plan, Program, Storage, Work};

use crate::isa::Isa;

/// Arithmetic from which a product gains, where packing costs little beside it.
pub const LARGE_PRODUCT: usize = 8 << 20;
/// A side shorter than this is packed for too few products.
const SHORTEST: usize = 32;

/// Which calls of a plan are not what they look like.
#[derive(Default)]
pub struct Halves {
    /// Copies that pack pairs.
    pub packs: BTreeMap<usize, Pairs>,
    /// Products of pairs.
    pub products: BTreeSet<usize>,
}

/// How the terms of a pair lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pairs {
    /// From the first to the second.
    pub apart: usize,
    /// The last pair of each row, or the last row of pairs, has no second.
    pub odd: bool,
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

/// The plan with products of at least `from` operations in pairs.
pub fn halve_products(plan: Plan, isa: Isa, from: usize) -> (Plan, Halves) {
    let suits = |call: &Call| matches!(&call.work, Work::Matmul(m) if suits(m, from));
    if isa != Isa::Avx512 || !has_halves() || !plan.calls.iter().any(suits) {
        return (plan, Halves::default());
    }
    let Plan { mut buffers, mut scratch_bytes, calls, outputs, limits, warnings, .. } = plan;
    let mut new_buffer = |dims: [usize; 2]| -> BufferId {
        let offset = scratch_bytes.next_multiple_of(64);
        scratch_bytes = offset + dims[0] * dims[1] * 4;
        buffers.push(Buffer {
            shape: Shape::from(dims.to_vec()),
            dtype: DType::F32,
            storage: Storage::Scratch { offset },
        });
        buffers.len() - 1
    };
    let mut all: Vec<(Call, Kind)> = Vec::new();
    for mut call in calls {
        let wave = 2 * call.wave;
        call.wave = wave + 1;
        let product = suits(&call);
        if let (Work::Matmul(m), true) = (&mut call.work, product) {
            let pairs = m.k.div_ceil(2);
            let odd = !m.k.is_multiple_of(2);
            for left in [true, false] {
                // along a row where terms are neighbours, else across two rows
                let (side, along) = if left { (&m.a, m.a.col == 1) } else { (&m.b, false) };
                let (step, across, count) = if left { (m.a.col, m.a.row, m.m) } else { (m.b.row, m.b.col, m.n) };
                let (rows, cols) = if along { (count, pairs) } else { (pairs, count) };
                let buffer = new_buffer([rows, cols]);
                let (row, col) = if along { (across, 2 * step) } else { (2 * step, across) };
                let source = Operand { outer: vec![], row, col, ..side.clone() };
                let target = Operand { buffer, dtype: DType::F32, offset: 0, outer: vec![], row: cols, col: 1 };
                let (row, col) = match (left, along) {
                    (true, true) => (cols, 1),
                    (true, false) => (1, cols),
                    (false, _) => (cols, 1),
                };
                let packed = Operand { row, col, ..target.clone() };
                if left {
                    m.a = packed;
                } else {
                    m.b = packed;
                }
                let cost = Cost { flops: 0, bytes: 12 * rows * cols };
                let work = Work::Loop(copy(rows, cols, source, target));
                let (label, phase) = (format!("pairs of bfloat16 for {}", call.label), call.phase);
                all.push((Call { work, wave, cost, label, phase }, Kind::Pack(Pairs { apart: step, odd })));
            }
            m.k = pairs;
        }
        all.push((call, if product { Kind::Product } else { Kind::Other }));
    }
    all.sort_by_key(|(call, _)| call.wave);
    let mut halves = Halves::default();
    for (i, (_, kind)) in all.iter().enumerate() {
        match kind {
            Kind::Pack(pairs) => drop(halves.packs.insert(i, *pairs)),
            Kind::Product => drop(halves.products.insert(i)),
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
    Pack(Pairs),
    Product,
    Other,
}

/// Whether a product is large enough, and its sides and epilogue are such as pairs and generated code can have.
fn suits(m: &Matmul, from: usize) -> bool {
    let large = 2 * m.m * m.n * m.k >= from && m.m.min(m.n).min(m.k) >= SHORTEST.min(from);
    let plain = m.outer.is_empty() && m.deep.is_empty() && m.a.dtype == DType::F32 && m.b.dtype == DType::F32;
    let neighbours = (m.a.col == 1 || m.a.row == 1) && m.b.col == 1;
    large && plain && neighbours && m.k > 1 && can_be_generated(m)
}

#[cfg(target_arch = "x86_64")]
fn can_be_generated(m: &Matmul) -> bool {
    let (k, along) = (m.k.div_ceil(2), m.a.col == 1);
    let a = Operand { row: if along { k } else { 1 }, col: if along { 1 } else { m.m }, ..m.a.clone() };
    let b = Operand { row: m.n, ..m.b.clone() };
    crate::x86::MatmulKernel::of_pairs(&Matmul { k, a, b, ..m.clone() }).is_some()
}

#[cfg(not(target_arch = "x86_64"))]
fn can_be_generated(_: &Matmul) -> bool {
    false
}

fn copy(rows: usize, cols: usize, from: Operand, to: Operand) -> Loop {
    Loop {
        outer: vec![],
        rows,
        cols,
        nest: Nest::Rows,
        operands: vec![from, to],
        program: Program { instrs: vec![Instr::Load(0)] },
        stores: vec![(0, 1)],
        folds: vec![],
    }
}
