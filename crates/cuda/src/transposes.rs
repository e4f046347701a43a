//! Pass `read_through_transposes`: the planner copies a right side that is stored the other way, since a processor reads along rows.
//! Here threads read it where it is, and the copy, with the barrier behind it, is gone.

use citius_graph::DType;
use citius_plan::{Instr, Loop, Operand, Plan, Storage, Work};

/// Pass `keep_zeros`: scratch memory begins as zeros, and here every value has bytes of its own. So zeros around a value, as
/// padding has them, need not be written again in each step.
pub fn keep_zeros(plan: &mut Plan) {
    let zeros = |work: &Work| match work {
        Work::Loop(l) if l.folds.is_empty() && l.program.instrs == [Instr::Const(0.0)] => {
            let targets: Vec<usize> = l.stores.iter().map(|s| l.operands[s.1].buffer).collect();
            Some(targets)
        }
        _ => None,
    };
    let stays = |id: &usize| {
        let scratch = matches!(plan.buffers[*id].storage, Storage::Scratch { .. });
        let output = plan.outputs.iter().any(|o| o.1 == *id);
        // others write the rest of it, and nobody changes it in place
        let changed = |work: &Work| work.touches().1.contains(id) && work.touches().0.contains(id);
        scratch && !output && !plan.calls.iter().any(|c| changed(&c.work))
    };
    let drop: Vec<bool> = plan.calls.iter().map(|c| zeros(&c.work).is_some_and(|t| t.iter().all(stays))).collect();
    let mut drop = drop.into_iter();
    plan.calls.retain(|_| !drop.next().unwrap_or(false));
}

pub fn read_through_transposes(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    let mut at = 0;
    while at < plan.calls.len() {
        match replacement(&plan, at) {
            Some((copy, source)) => {
                for call in &mut plan.calls {
                    if let Work::Matmul(m) = &mut call.work
                        && m.b.buffer == copy
                    {
                        m.b = source.clone();
                    }
                }
                plan.calls.remove(at);
            }
            None => at += 1,
        }
    }
    plan
}

/// What call `at` copies, if it only turns a matrix for products to read.
fn replacement(plan: &Plan, at: usize) -> Option<(usize, Operand)> {
    let Work::Loop(l) = &plan.calls[at].work else { return None };
    let (from, to) = plain_copy(l)?;
    let copy = to.buffer;
    let scratch = matches!(plan.buffers[copy].storage, Storage::Scratch { .. });
    let output = plan.outputs.iter().any(|o| o.1 == copy);
    let whole =
        to.offset == 0 && to.row == l.cols && to.col == 1 && plan.buffers[copy].shape.elements() == l.rows * l.cols;
    let mut last = plan.calls[at].wave;
    for (i, call) in plan.calls.iter().enumerate().filter(|(i, _)| *i != at) {
        let (reads, writes) = call.work.touches();
        if writes.contains(&copy) {
            return None;
        }
        if reads.contains(&copy) {
            // only as the right side of a product without outer indices
            let Work::Matmul(m) = &call.work else { return None };
            let only = m.outer.is_empty()
                && m.deep.is_empty()
                && m.b.buffer == copy
                && m.b.offset == 0
                && (m.b.row, m.b.col) == (l.cols, 1)
                && m.a.buffer != copy
                && m.operands.iter().all(|o| o.buffer != copy);
            if !only {
                return None;
            }
            last = last.max(plan.calls[i].wave);
        }
    }
    // nobody writes the source before the last product has read it
    let overwritten = plan
        .calls
        .iter()
        .any(|c| c.wave <= last && c.work.touches().1.contains(&from.buffer) && c.wave >= plan.calls[at].wave);
    let good = scratch && !output && whole && !overwritten;
    good.then(|| (copy, from.clone()))
}

fn plain_copy(l: &Loop) -> Option<(&Operand, &Operand)> {
    let plain = l.outer.is_empty() && l.folds.is_empty() && l.program.instrs == [Instr::Load(0)];
    match l.stores[..] {
        // whole numbers would be copied as numbers
        [(0, target)] if plain && l.operands[0].dtype == DType::F32 => Some((&l.operands[0], &l.operands[target])),
        _ => None,
    }
}
