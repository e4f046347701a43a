//! Pass `call_library`: large products go to cuBLASLt, which knows the matrix units better than we do. What ran on a product's
//! registers becomes a loop of its own, and with half precision the values that such products read and write are stored in 16 bits.

use std::collections::BTreeSet;

use citius_graph::{DType, Shape};
use citius_plan::{
    Buffer, BufferId, Call, Cost, Fold, Instr, Loop, Matmul, Nest, Operand, Plan, Program, Storage, Work,
};

use crate::precision::{Halves, Precision};

/// Arithmetic from which a product is the library's, unless told otherwise.
pub const LARGE_PRODUCT: usize = 64 << 20;

/// A plan with products for the library.
pub struct Large {
    pub plan: Plan,
    /// Calls that are the library's: plain products.
    pub library: BTreeSet<usize>,
    /// Buffers stored in 16 bits.
    pub half: Halves,
    from: usize,
}

/// `None` when no product is large enough.
pub fn call_library(plan: &Plan, precision: Precision, from: usize) -> Option<Large> {
    let suits = |call: &Call| matches!(&call.work, Work::Matmul(m) if is_large(m, from));
    plan.calls.iter().any(suits).then(|| {
        let mut plan = plan.clone();
        // room between the waves for calls of our own
        plan.calls.iter_mut().for_each(|call| call.wave = 4 * call.wave + 4);
        part_epilogues(&mut plan, from);
        fold_columns_in_parts(&mut plan);
        let mut large = Large { plan, library: BTreeSet::new(), half: Halves { precision, ..Halves::default() }, from };
        if precision.is_half() {
            large.store_halves();
            large.cast_the_rest();
        }
        large.plan.calls.sort_by_key(|call| call.wave);
        large.plan.waves = large.plan.calls.last().map_or(0, |c| c.wave + 1);
        large.library = large.calls_of_library();
        large
    })
}

fn is_large(m: &Matmul, from: usize) -> bool {
    let flops = 2 * m.outer.iter().product::<usize>() * m.m * m.n * m.k;
    flops >= from && m.deep.is_empty() && m.outer.len() <= 1 && is_matrix(&m.a) && is_matrix(&m.b)
}

/// One of its axes has neighbours beside each other.
fn is_matrix(o: &Operand) -> bool {
    (o.col == 1 && o.row > 1) || (o.row == 1 && o.col > 1)
}

/// Nothing but the product, stored row by row.
fn is_plain(m: &Matmul) -> bool {
    let store = match m.stores[..] {
        [(0, operand)] => &m.operands[operand],
        _ => return false,
    };
    m.program.instrs == [Instr::Product] && store.col == 1 && store.row >= m.n
}

fn part_epilogues(plan: &mut Plan, from: usize) {
    let mut added = Vec::new();
    for call in &mut plan.calls {
        let Work::Matmul(m) = &mut call.work else { continue };
        if !is_large(m, from) || is_plain(m) {
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
        added.push(Call { work: Work::Loop(flat(epilogue)), wave: call.wave + 1, cost, label });
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

/// Long columns are folded in parts by many blocks, and the parts by few.
fn fold_columns_in_parts(plan: &mut Plan) {
    let mut added = Vec::new();
    for call in &mut plan.calls {
        let Work::Loop(l) = &mut call.work else { continue };
        let long = l.nest == Nest::Columns && l.outer.is_empty() && l.rows * l.cols >= LONG_COLUMNS;
        let Some(parts) = (2..l.rows).find(|n| l.rows % n == 0 && l.rows / n <= PART_ROWS).filter(|_| long) else {
            continue;
        };
        let rows = l.rows / parts;
        l.operands.iter_mut().for_each(|o| o.outer = vec![o.row * rows]);
        (l.outer, l.rows) = (vec![parts], rows);
        for fold in &l.folds {
            let buffer = new_buffer(&mut plan.buffers, &[parts, l.cols]);
            let part = Operand { buffer, dtype: DType::F32, offset: 0, outer: vec![l.cols], row: 0, col: 1 };
            let target = std::mem::replace(&mut l.operands[fold.operand], part);
            let from = Operand { buffer, dtype: DType::F32, offset: 0, outer: vec![], row: l.cols, col: 1 };
            let second = Loop {
                outer: vec![],
                rows: parts,
                cols: l.cols,
                nest: Nest::Columns,
                operands: vec![from, Operand { outer: vec![], ..target }],
                program: Program { instrs: vec![Instr::Load(0)] },
                stores: vec![],
                folds: vec![Fold { kind: fold.kind, value: 0, operand: 1, whole: false }],
            };
            let elements = parts * l.cols;
            let cost = Cost { flops: elements, bytes: 4 * elements };
            let label = format!("{} (parts)", call.label);
            added.push(Call { work: Work::Loop(second), wave: call.wave + 1, cost, label });
        }
    }
    plan.calls.extend(added);
}

/// Elements from which it is worth it, and the rows of a part.
const LONG_COLUMNS: usize = 1 << 20;
const PART_ROWS: usize = 256;

fn new_buffer(buffers: &mut Vec<Buffer>, dims: &[usize]) -> BufferId {
    let shape = Shape::from(dims.to_vec());
    buffers.push(Buffer { shape, dtype: DType::F32, storage: Storage::Scratch { offset: 0 } });
    buffers.len() - 1
}

impl Large {
    fn calls_of_library(&self) -> BTreeSet<usize> {
        let suits = |call: &Call| matches!(&call.work, Work::Matmul(m) if is_large(m, self.from) && is_plain(m));
        (0..self.plan.calls.len()).filter(|&i| suits(&self.plan.calls[i])).collect()
    }

    /// Values that only large products and loops touch are stored in 16 bits; results of weights' gradients stay whole.
    fn store_halves(&mut self) {
        let library = self.calls_of_library();
        let plan = &self.plan;
        for (id, buffer) in plan.buffers.iter().enumerate() {
            let scratch = matches!(buffer.storage, Storage::Scratch { .. });
            let output = plan.outputs.iter().any(|o| o.1 == id);
            if !scratch || output {
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
                    Work::Matmul(m) if library.contains(&i) => {
                        // the gradient of a weight walks the batch: its result feeds the optimiser
                        let gradient = m.a.row == 1 && writes.contains(&id);
                        of_product |= !gradient;
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
        let library = self.calls_of_library();
        // of a buffer as it was made by a wave
        let mut copies: Vec<((BufferId, Option<usize>), BufferId)> = Vec::new();
        let mut added = Vec::new();
        for i in library {
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
