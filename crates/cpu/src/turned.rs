//! Right sides of products that are turned copies of leaves (pass `untranspose_products` has them made): who packs a side reads the leaf
//! itself, and needs no copy.

use citius_graph::{DType, LeafKind};
use citius_plan::{Call, Instr, Loop, Operand, Plan, Storage, Work};

/// What the right side of a product is a turned copy of, as long as that is there unchanged.
pub fn original(plan: &Plan, product: &Call) -> Option<Operand> {
    let Work::Matmul(m) = &product.work else { return None };
    let mut makers = plan.calls.iter().filter(|call| writes(call, m.b.buffer));
    let (Some(Call { work: Work::Loop(copy), .. }), None) = (makers.next(), makers.next()) else { return None };
    let from = turns(copy)?;
    let whole = m.b.offset == 0 && (m.b.row, m.b.col) == (m.n, 1) && (copy.rows, copy.cols) == (m.k, m.n);
    let changed = || plan.calls.iter().any(|call| call.wave <= product.wave && writes(call, from.buffer));
    let leaf = matches!(&plan.buffers[from.buffer].storage, Storage::Leaf { kind, .. } if *kind != LeafKind::Input);
    (whole && leaf && !changed()).then(|| from.clone())
}

/// Copies that nobody reads but those who read their originals.
pub fn needless(plan: &Plan, reads_original: impl Fn(usize) -> bool) -> Vec<usize> {
    let copied = |i: usize| match &plan.calls[i].work {
        Work::Loop(copy) if turns(copy).is_some() => Some(copy.operands[1].buffer),
        _ => None,
    };
    // on the right of a product, and nowhere else in it
    let instead = |call: usize, buffer| match &plan.calls[call].work {
        Work::Matmul(m) if m.b.buffer == buffer => reads_original(call) as usize,
        _ => 0,
    };
    let wanted = |buffer| {
        let reads = |i: usize| plan.calls[i].work.touches().0.iter().filter(|id| **id == buffer).count();
        let read = (0..plan.calls.len()).any(|i| reads(i) > instead(i, buffer));
        read || plan.outputs.iter().any(|output| output.1 == buffer)
    };
    (0..plan.calls.len()).filter(|&i| copied(i).is_some_and(|buffer| !wanted(buffer))).collect()
}

/// Where a copy that turns a whole matrix reads.
fn turns(copy: &Loop) -> Option<&Operand> {
    let (from, to) = turning(copy)?;
    let whole = copy.outer.is_empty() && to.offset == 0 && to.row == copy.cols && from.col >= copy.rows;
    whole.then_some(from)
}

/// Where a loop that does nothing but copy f32 from columns to rows reads and writes.
pub fn turning(copy: &Loop) -> Option<(&Operand, &Operand)> {
    let copies = copy.program.instrs == [Instr::Load(0)] && copy.stores == [(0, 1)] && copy.folds.is_empty();
    let [from, to] = copy.operands.as_slice() else { return None };
    let turned = from.row == 1 && from.col > 1 && to.col == 1;
    (copies && turned && from.dtype == DType::F32 && to.dtype == DType::F32).then_some((from, to))
}

fn writes(call: &Call, buffer: usize) -> bool {
    call.work.touches().1.contains(&buffer)
}
