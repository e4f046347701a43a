//! Pass `call_library`: large products leave the processor's arithmetic. Exact ones go to cuBLASLt; in lower precision, ours run on
//! the matrix units with their epilogues ([`crate::source::tensor`]), and those so large that another pass, or a launch, matters little
//! are cuBLASLt's again, which knows those units best. What ran on the registers of a library's product becomes a loop of its own, and with half precision the
//! values that such products read and write are stored in 16 bits.

use std::collections::{BTreeMap, BTreeSet};

use citius_graph::DType;
use citius_graph::scalar::Binary;
use citius_plan::{BufferId, Call, Cost, Instr, Loop, Matmul, Nest, Operand, Plan, Program, Storage, Work};

use crate::choice::Chip;
use crate::parts::{
    OF_LAUNCHES, fold_columns_in_parts, gather_waves, multiply_in_parts, new_buffer, part_columns, parts_of_small,
    spread_waves,
};
use crate::precision::{Halves, Precision};
use crate::source::tensor::TensorTile;

/// Arithmetic from which a product is large, unless told otherwise.
pub const LARGE_PRODUCT: usize = 64 << 20;
/// … and from which the library is worth another pass over the result, or, where there is nothing but a product, a launch of its own.
const LARGEST: usize = 16 << 30;
const LARGE_PLAIN: usize = 4 << 30;

/// Arithmetic from which products go along with large ones.
const ALONG: usize = 8 << 20;

/// Who computes a large product.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum By {
    /// cuBLASLt.
    Library,
    /// A kernel of ours on the matrix units.
    Tensor(TensorTile),
}

/// What decides who computes a product.
#[derive(Clone, Copy)]
pub struct Rule {
    pub precision: Precision,
    /// Arithmetic from which a product is large.
    pub from: usize,
    /// … and that of each outer index, from which it goes along.
    along: usize,
    pub chip: Chip,
}

/// A plan with large products.
pub struct Large {
    pub plan: Plan,
    /// Its large products.
    pub products: BTreeMap<usize, By>,
    /// Buffers stored in 16 bits.
    pub half: Halves,
}

/// `None` when no product is large enough.
pub fn call_library(plan: &Plan, rule: Rule) -> Option<Large> {
    let suits = |call: &Call| matches!(&call.work, Work::Matmul(m) if rule.by(m).is_some());
    plan.calls.iter().any(suits).then(|| {
        let (mut plan, rule) = (plan.clone(), rule.with_others());
        spread_waves(&mut plan);
        part_columns(&mut plan);
        multiply_in_parts(&mut plan, &|m| rule.parts(m));
        part_epilogues(&mut plan, rule);
        fold_columns_in_parts(&mut plan, OF_LAUNCHES);
        let half = Halves { precision: rule.precision, ..Halves::default() };
        let mut large = Large { products: products(&plan, rule), plan, half };
        if rule.precision.is_half() {
            large.store_halves();
            large.cast_the_rest();
        }
        gather_waves(&mut large.plan);
        large.products = products(&large.plan, rule);
        large
    })
}

fn products(plan: &Plan, rule: Rule) -> BTreeMap<usize, By> {
    let by = |call: &Call| if let Work::Matmul(m) = &call.work { rule.by(m) } else { None };
    plan.calls.iter().enumerate().filter_map(|(i, call)| Some((i, by(call)?))).collect()
}

impl Rule {
    pub fn new(precision: Precision, from: usize, chip: Chip) -> Rule {
        Rule { precision, from, along: usize::MAX, chip }
    }

    /// Where there are large products, others go along to the matrix units, as long as nothing has to be stored in 16 bits for that.
    fn with_others(self) -> Rule {
        Rule { along: if self.precision == Precision::Tf32 { ALONG } else { usize::MAX }, ..self }
    }

    /// Who computes it, if it is large.
    pub fn by(&self, m: &Matmul) -> Option<By> {
        let one = 2 * m.m * m.n * m.terms();
        let flops = m.outer.iter().product::<usize>() * one;
        if flops < self.from && one < self.along {
            return None;
        }
        let matrices =
            m.deep.is_empty() && m.outer.len() <= 1 && is_matrix(&m.a, m.m, m.k) && is_matrix(&m.b, m.k, m.n);
        let library =
            matrices && (self.precision == Precision::Fp32 || flops >= if is_plain(m) { LARGE_PLAIN } else { LARGEST });
        let tile = TensorTile::choose(m, self.precision, self.chip).filter(|_| !library);
        tile.map(By::Tensor).or(matrices.then_some(By::Library))
    }

    /// Parts that the sum of a product is cut into: those with few tiles, whose results are gradients of weights.
    fn parts(&self, m: &Matmul) -> Option<usize> {
        match self.by(m) {
            None => parts_of_small(m),
            Some(By::Library) => None,
            Some(By::Tensor(tile)) => {
                // the blocks of a cluster share a sum already, unless it is very long
                let least = if tile.split > 1 { tile.split * LONG_PART } else { LEAST_TERMS };
                let wanted = (4 * self.chip.multiprocessors / tile.units(m).max(1)).min(m.terms() / least);
                (m.a.row == 1 && wanted > 1).then_some(wanted)
            }
        }
    }
}

/// Terms of a part, at least, and of a block's where a cluster shares a part.
const LEAST_TERMS: usize = 128;
const LONG_PART: usize = 2048;

/// One of its axes has neighbours beside each other, and rows or columns do not overlap, as windows do.
fn is_matrix(o: &Operand, rows: usize, cols: usize) -> bool {
    (o.col == 1 && o.row > 1 && o.row >= cols) || (o.row == 1 && o.col > 1 && o.col >= rows)
}

/// Nothing but the product, stored row by row.
fn is_plain(m: &Matmul) -> bool {
    let store = match m.stores[..] {
        [(0, operand)] => &m.operands[operand],
        _ => return false,
    };
    m.program.instrs == [Instr::Product] && store.col == 1 && store.row >= m.n
}

fn part_epilogues(plan: &mut Plan, rule: Rule) {
    let mut added = Vec::new();
    for call in &mut plan.calls {
        let Work::Matmul(m) = &mut call.work else { continue };
        if rule.by(m) != Some(By::Library) || is_plain(m) {
            continue;
        }
        let dims: Vec<usize> = m.outer.iter().copied().chain([m.m, m.n]).collect();
        let product = new_buffer(&mut plan.buffers, &dims);
        let outer = m.outer.iter().map(|_| m.m * m.n).collect();
        let whole = Operand { buffer: product, dtype: DType::F32, offset: 0, outer, row: m.n, col: 1 };
        let mut operands = std::mem::replace(&mut m.operands, vec![whole.clone()]);
        let mut program = std::mem::replace(&mut m.program, Program { instrs: vec![Instr::Product] });
        let stores = std::mem::replace(&mut m.stores, vec![(0, 0)]);
        operands.push(whole);
        let load = Instr::Load(operands.len() - 1);
        program.instrs.iter_mut().filter(|i| **i == Instr::Product).for_each(|i| *i = load);
        let epilogue = Loop {
            outer: m.outer.clone(),
            rows: m.m,
            cols: m.n,
            nest: Nest::Rows,
            operands,
            program,
            stores,
            folds: vec![],
        };
        let elements: usize = dims.iter().product();
        let cost = Cost { flops: elements * epilogue.program.flops(), bytes: elements * 4 * epilogue.operands.len() };
        let label = format!("{} (after the product)", call.label);
        added.push(Call { work: Work::Loop(flat(epilogue)), wave: call.wave + 1, cost, label, phase: call.phase });
    }
    plan.calls.extend(added);
}

/// One row, where every operand walks it evenly.
fn flat(mut l: Loop) -> Loop {
    let even = |o: &Operand| o.row == o.col * l.cols;
    if l.outer.is_empty() && l.operands.iter().all(even) {
        l.cols *= l.rows;
        l.rows = 1;
        l.operands.iter_mut().for_each(|o| o.row = 0);
    }
    l
}

impl Large {
    /// Values that only large products and loops touch are stored in 16 bits; results of weights' gradients stay whole, as do numbers
    /// that hold for a whole column, such as moments, and what is asked to equal something that is computed again.
    fn store_halves(&mut self) {
        let plan = &self.plan;
        let compared: BTreeSet<BufferId> = plan.calls.iter().flat_map(|call| compared(&call.work)).collect();
        for (id, buffer) in plan.buffers.iter().enumerate() {
            let scratch = matches!(buffer.storage, Storage::Scratch { .. });
            let output = plan.outputs.iter().any(|o| o.1 == id);
            if !scratch || output || compared.contains(&id) {
                continue;
            }
            let mut of_product = false;
            let mut only = true;
            for (i, call) in plan.calls.iter().enumerate() {
                let (reads, writes) = call.work.touches();
                if !reads.contains(&id) && !writes.contains(&id) {
                    continue;
                }
                match &call.work {
                    Work::Matmul(m) if self.products.contains_key(&i) => {
                        // the gradient of a weight walks the batch: its result feeds the optimiser
                        let gradient = m.a.row == 1 && writes.contains(&id);
                        let spread = |o: &Operand| o.buffer == id && (o.row == 0 || o.col == 0);
                        of_product |= !gradient && !m.operands.iter().any(spread);
                        only &= !gradient;
                    }
                    Work::Loop(l) => {
                        // what feeds an update of weights or states stays whole
                        let leaf = |id: &usize| matches!(plan.buffers[*id].storage, Storage::Leaf { .. });
                        only &= !(reads.contains(&id) && writes.iter().any(leaf));
                        only &= l.folds.iter().all(|f| l.operands[f.operand].buffer != id);
                    }
                    _ => only = false,
                }
            }
            if of_product && only {
                self.half.buffers.insert(id);
            }
        }
    }

    /// What large products read and others need whole gets a copy in 16 bits.
    fn cast_the_rest(&mut self) {
        // of a buffer as it was made by a wave
        let mut copies: Vec<((BufferId, Option<usize>), BufferId)> = Vec::new();
        let mut added = Vec::new();
        for &i in self.products.keys() {
            let wave = self.plan.calls[i].wave;
            for side in 0..2 {
                let Work::Matmul(m) = &self.plan.calls[i].work else { continue };
                let source = if side == 0 { m.a.buffer } else { m.b.buffer };
                if self.half.contains(source) {
                    continue;
                }
                let made = self.plan.calls.iter().filter(|c| c.wave < wave && c.work.touches().1.contains(&source));
                let made = made.map(|c| c.wave).max();
                let copy = match copies.iter().find(|c| c.0 == (source, made)) {
                    Some(copy) => copy.1,
                    None => {
                        let elements = self.plan.buffers[source].shape.elements();
                        let dims = self.plan.buffers[source].shape.dims().to_vec();
                        let copy = new_buffer(&mut self.plan.buffers, &dims);
                        self.half.buffers.insert(copy);
                        copies.push(((source, made), copy));
                        // right behind its maker, or before its first reader
                        let at = made.map_or(wave - 1, |made| made + 1);
                        added.push(Call {
                            work: Work::Loop(copying(source, copy, elements)),
                            wave: at,
                            cost: Cost { flops: 0, bytes: 6 * elements },
                            label: "to 16 bits".into(),
                            phase: self.plan.calls[i].phase,
                        });
                        copy
                    }
                };
                if let Work::Matmul(m) = &mut self.plan.calls[i].work {
                    let operand = if side == 0 { &mut m.a } else { &mut m.b };
                    operand.buffer = copy;
                }
            }
        }
        self.plan.calls.extend(added);
    }
}

/// Buffers whose elements are asked to equal others: the maximum of a window equals one of its elements only as long as none is rounded.
fn compared(work: &Work) -> Vec<BufferId> {
    let (program, operands) = match work {
        Work::Loop(l) => (&l.program, &l.operands),
        Work::Matmul(m) => (&m.program, &m.operands),
        _ => return vec![],
    };
    let loaded = |var: usize| match program.instrs[var] {
        Instr::Load(operand) => Some(operands[operand].buffer),
        _ => None,
    };
    let sides = program.instrs.iter().filter_map(|instr| match instr {
        Instr::Binary(Binary::Eq, a, b) => Some([*a, *b]),
        _ => None,
    });
    sides.flatten().filter_map(loaded).collect()
}

fn copying(from: BufferId, to: BufferId, elements: usize) -> Loop {
    let operand = |buffer| Operand { buffer, dtype: DType::F32, offset: 0, outer: vec![], row: 0, col: 1 };
    Loop {
        outer: vec![],
        rows: 1,
        cols: elements,
        nest: Nest::Rows,
        operands: vec![operand(from), operand(to)],
        program: Program { instrs: vec![Instr::Load(0)] },
        stores: vec![(0, 1)],
        folds: vec![],
    }
}
