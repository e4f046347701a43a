//! Pass `sum_in_parts`: a long sum with few results leaves most of the device idle. It is cut into parts that many blocks add up
//! side by side, and the parts are added behind them, always in the same order.

use citius_graph::scalar::Binary;
use citius_graph::{DType, Shape};
use citius_plan::{
    Buffer, BufferId, Call, Cost, Fold, Instr, Loop, Matmul, Nest, Operand, Plan, Program, Storage, Work,
};

/// Elements from which columns are folded in parts.
const LONG_COLUMNS: usize = 1 << 16;
/// Rows of a part, at least: where a launch stands between, and where a barrier does.
pub const OF_LAUNCHES: usize = 64;
pub const OF_BARRIERS: usize = 256;
/// Blocks that share the columns, at most.
const MOST_UNITS: usize = 1024;

/// Terms of a product's sums from which they are cut, and the results up to which.
const LONG_SUM: usize = 2048;
const FEW_RESULTS: usize = 16384;
/// Terms of a part, at least, and of all parts where there may be more than [`SOME_PARTS`].
const PART_TERMS: usize = 400;
const VERY_LONG_SUM: usize = 1 << 16;
const SOME_PARTS: usize = 16;
/// Parts of a product, all loaded by one thread.
const MOST_PARTS: usize = 64;

/// Leaves room between the waves for calls of our own.
pub fn spread_waves(plan: &mut Plan) {
    plan.calls.iter_mut().for_each(|call| call.wave = 4 * call.wave + 4);
}

/// Puts calls in the order of their waves.
pub fn gather_waves(plan: &mut Plan) {
    plan.calls.sort_by_key(|call| call.wave);
    plan.waves = plan.calls.last().map_or(0, |c| c.wave + 1);
}

/// Both passes, for a plan run as one kernel.
pub fn sum_in_parts(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    spread_waves(&mut plan);
    multiply_in_parts(&mut plan, &parts_of_small);
    fold_columns_in_parts(&mut plan, OF_BARRIERS);
    gather_waves(&mut plan);
    plan
}

/// Elements up to which a loop is run twice rather than waited for.
const FEW_ELEMENTS: usize = 1 << 19;

/// A loop that folds columns and stores elements besides becomes two: elements are there with the rows they come from, and nobody waits
/// for the folds who only reads those.
pub fn part_columns(plan: &mut Plan) {
    let mut added = Vec::new();
    for call in &mut plan.calls {
        let Work::Loop(l) = &mut call.work else { continue };
        let stored = |id: BufferId| l.stores.iter().any(|s| l.operands[s.1].buffer == id);
        let loads = l.program.instrs.iter().filter_map(|i| if let Instr::Load(n) = i { Some(*n) } else { None });
        let in_place = loads.into_iter().any(|n| stored(l.operands[n].buffer));
        let few = l.outer.is_empty() && l.rows * l.cols <= FEW_ELEMENTS;
        if l.nest != Nest::Columns || l.stores.is_empty() || l.folds.is_empty() || in_place || !few {
            continue;
        }
        let elements = needed(Loop { nest: Nest::Rows, folds: vec![], ..l.clone() });
        *l = needed(Loop { stores: vec![], ..l.clone() });
        added.push(Call { work: Work::Loop(elements), label: format!("{} (elements)", call.label), ..call.clone() });
    }
    plan.calls.extend(added);
}

/// The loop without what none of its results needs.
fn needed(mut l: Loop) -> Loop {
    let mut used = vec![false; l.program.instrs.len()];
    l.stores.iter().map(|s| s.0).chain(l.folds.iter().map(|f| f.value)).for_each(|value| used[value] = true);
    for i in (0..used.len()).rev() {
        if !used[i] {
            continue;
        }
        l.program.instrs[i].operands().into_iter().flatten().for_each(|value| used[value] = true);
    }
    let (mut names, mut operands) = (vec![0; used.len()], Vec::new());
    let mut moved = |from: &mut usize| {
        operands.push(l.operands[*from].clone());
        *from = operands.len() - 1;
    };
    let mut program = Program::default();
    for (i, instr) in l.program.instrs.iter().enumerate().filter(|(i, _)| used[*i]) {
        let mut instr = instr.renamed(&names);
        if let Instr::Load(operand) = &mut instr {
            moved(operand);
        }
        names[i] = program.instrs.len();
        program.instrs.push(instr);
    }
    for (value, operand) in &mut l.stores {
        *value = names[*value];
        moved(operand);
    }
    for fold in &mut l.folds {
        fold.value = names[fold.value];
        moved(&mut fold.operand);
    }
    Loop { program, operands, ..l }
}

/// Long columns are folded in parts by many blocks, and the parts by few.
pub fn fold_columns_in_parts(plan: &mut Plan, least_rows: usize) {
    let mut added = Vec::new();
    for call in &mut plan.calls {
        let Work::Loop(l) = &mut call.work else { continue };
        let is_long = l.nest == Nest::Columns && l.outer.is_empty() && l.rows * l.cols >= LONG_COLUMNS;
        let part_rows = least_rows.max(l.rows * l.cols.div_ceil(32) / MOST_UNITS);
        let Some(parts) = (2..l.rows).find(|n| l.rows % n == 0 && l.rows / n <= part_rows).filter(|_| is_long) else {
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
            added.push(Call { work: Work::Loop(second), wave: call.wave + 1, cost, label, phase: call.phase });
        }
    }
    plan.calls.extend(added);
}

/// Parts of a product that is computed without the matrix units: of those with long sums and few results.
pub fn parts_of_small(m: &Matmul) -> Option<usize> {
    let results = m.outer.iter().product::<usize>() * m.m * m.n;
    let most = if m.terms() >= VERY_LONG_SUM { MOST_PARTS } else { SOME_PARTS };
    (m.terms() >= LONG_SUM && results <= FEW_RESULTS).then_some((m.terms() / PART_TERMS).min(most))
}

/// Cuts sums of products into up to `wanted` parts, which are added where the epilogue runs.
pub fn multiply_in_parts(plan: &mut Plan, wanted: &dyn Fn(&Matmul) -> Option<usize>) {
    let mut added = Vec::new();
    for call in &mut plan.calls {
        let Work::Matmul(m) = &mut call.work else { continue };
        let results = m.outer.iter().product::<usize>() * m.m * m.n;
        let Some(parts) = wanted(m).and_then(|wanted| cut_sum(m, wanted)) else { continue };
        let dims: Vec<usize> = [&[parts][..], &m.outer[..m.outer.len() - 1], &[m.m, m.n]].concat();
        let buffer = new_buffer(&mut plan.buffers, &dims);
        let epilogue = add_parts(m, buffer, parts);
        let cost = Cost { flops: results * epilogue.program.flops(), bytes: 4 * results * epilogue.operands.len() };
        let label = format!("{} (parts)", call.label);
        added.push(Call { work: Work::Loop(epilogue), wave: call.wave + 1, cost, label, phase: call.phase });
    }
    plan.calls.extend(added);
}

/// Makes an outer axis, the last, of a part of the sum; returns its size.
fn cut_sum(m: &mut Matmul, wanted: usize) -> Option<usize> {
    let divisor = |n: usize| (2..=wanted.min(MOST_PARTS)).rev().find(|p| n.is_multiple_of(*p));
    let (parts, a, b) = match m.deep.first_mut() {
        Some(deep) => {
            let parts = divisor(deep.size)?;
            deep.size /= parts;
            (parts, deep.a * deep.size, deep.b * deep.size)
        }
        None => {
            let parts = divisor(m.k)?;
            m.k /= parts;
            (parts, m.a.col * m.k, m.b.row * m.k)
        }
    };
    m.deep.retain(|d| d.size > 1);
    m.outer.push(parts);
    m.a.outer.push(a);
    m.b.outer.push(b);
    Some(parts)
}

/// Lets the product store its parts, one after the other, and returns what runs on their sum.
fn add_parts(m: &mut Matmul, buffer: BufferId, parts: usize) -> Loop {
    let outer: Vec<usize> = m.outer[..m.outer.len() - 1].to_vec();
    let each = outer.iter().product::<usize>() * m.m * m.n;
    let inner = |axis: usize| outer[axis + 1..].iter().product::<usize>() * m.m * m.n;
    let strides: Vec<usize> = (0..outer.len()).map(inner).collect();
    let of_part =
        |offset: usize, outer: Vec<usize>| Operand { buffer, dtype: DType::F32, offset, outer, row: m.n, col: 1 };
    let whole = of_part(0, [&strides[..], &[each]].concat());
    let mut operands = std::mem::replace(&mut m.operands, vec![whole]);
    let program = std::mem::replace(&mut m.program, Program { instrs: vec![Instr::Product] });
    let mut stores = std::mem::replace(&mut m.stores, vec![(0, 0)]);
    let mut sum = Program::default();
    let mut total = None;
    for part in 0..parts {
        operands.push(of_part(part * each, strides.clone()));
        sum.instrs.push(Instr::Load(operands.len() - 1));
        let loaded = sum.instrs.len() - 1;
        total = Some(match total {
            None => loaded,
            Some(before) => {
                sum.instrs.push(Instr::Binary(Binary::Add, before, loaded));
                sum.instrs.len() - 1
            }
        });
    }
    let mut names = Vec::new();
    for instr in &program.instrs {
        names.push(match (instr, total) {
            (Instr::Product, Some(total)) => total,
            _ => {
                sum.instrs.push(instr.renamed(&names));
                sum.instrs.len() - 1
            }
        });
    }
    stores.iter_mut().for_each(|s| s.0 = names[s.0]);
    Loop { outer, rows: m.m, cols: m.n, nest: Nest::Rows, operands, program: sum, stores, folds: vec![] }
}

pub fn new_buffer(buffers: &mut Vec<Buffer>, dims: &[usize]) -> BufferId {
    let shape = Shape::from(dims.to_vec());
    buffers.push(Buffer { shape, dtype: DType::F32, storage: Storage::Scratch { offset: 0 } });
    buffers.len() - 1
}
