//! Pass `read_through_transposes`: the planner copies a right side that is stored the other way, since a processor reads along rows.
//! Here threads read it where it is, and the copy, with the barrier behind it, is gone.

use citius_graph::DType;
use citius_plan::{BufferId, Deep, Instr, Loop, Matmul, Operand, Plan, Storage, Work};

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
            Some((copy, digits)) => {
                for call in &mut plan.calls {
                    if let Work::Matmul(m) = &mut call.work
                        && m.b.buffer == copy
                        && let Some(moved) = digits.moved(&m.b, &right_extents(m))
                    {
                        m.b = moved;
                    }
                }
                plan.calls.remove(at);
            }
            None => at += 1,
        }
    }
    plan
}

/// Pass `write_through_transposes`: a product whose result is only copied in another order stores it so at once.
pub fn write_through_transposes(plan: &mut Plan) {
    let mut at = 0;
    while at < plan.calls.len() {
        match turned_result(plan, at) {
            Some((maker, m)) => {
                plan.calls[maker].work = Work::Matmul(m);
                plan.calls.remove(at);
            }
            None => at += 1,
        }
    }
}

/// The product whose result call `at` copies, storing to where that goes.
fn turned_result(plan: &Plan, at: usize) -> Option<(usize, Matmul)> {
    let Work::Loop(l) = &plan.calls[at].work else { return None };
    let (from, to) = plain_copy(l)?;
    let scratch = |id: usize| {
        let output = plan.outputs.iter().any(|o| o.1 == id);
        matches!(plan.buffers[id].storage, Storage::Scratch { .. }) && !output
    };
    let touching = |id: usize| {
        let touches = move |work: &Work| work.touches().0.contains(&id) || work.touches().1.contains(&id);
        plan.calls.iter().enumerate().filter(move |(i, c)| *i != at && touches(&c.work)).map(|(i, _)| i)
    };
    let mut makers = touching(from.buffer);
    let (Some(maker), None) = (makers.next(), makers.next()) else { return None };
    let Work::Matmul(m) = &plan.calls[maker].work else { return None };
    let [(_, store)] = m.stores[..] else { return None };
    // nobody else writes there, and who reads comes behind the copy
    let alone = touching(to.buffer).all(|i| !plan.calls[i].work.touches().1.contains(&to.buffer));
    let digits = Digits::new(l, from, to, plan.buffers[from.buffer].shape.elements())?;
    if !alone || !scratch(from.buffer) || !scratch(to.buffer) || m.operands[store].buffer != from.buffer {
        return None;
    }
    let extents: Vec<usize> = m.outer.iter().copied().chain([m.m, m.n]).collect();
    let mut m = m.clone();
    m.operands[store] = digits.moved(&m.operands[store], &extents)?;
    if m.operands[store].col != 1 && m.operands[store].row == 1 {
        m = turned(m);
    }
    Some((maker, m))
}

/// The transpose of a product: Cᵀ = Bᵀ·Aᵀ.
fn turned(m: Matmul) -> Matmul {
    let turn = |o: Operand| Operand { row: o.col, col: o.row, ..o };
    let deep = m.deep.iter().map(|d| Deep { a: d.b, b: d.a, ..*d }).collect();
    let operands = m.operands.into_iter().map(turn).collect();
    Matmul { m: m.n, n: m.m, a: turn(m.b), b: turn(m.a), deep, operands, ..m }
}

/// Where the elements of a buffer lie in another, of which it is a copy in another order: for each axis the steps in the one, its
/// size, and the steps in the other; largest steps first.
struct Digits {
    axes: Vec<[usize; 3]>,
    buffer: BufferId,
    offset: usize,
}

impl Digits {
    /// From elements of `one` to those of `other`, two operands of a loop; `one` covers all of its buffer.
    fn new(l: &Loop, one: &Operand, other: &Operand, elements: usize) -> Option<Digits> {
        let sizes = l.outer.iter().copied().chain([l.rows, l.cols]);
        let steps = |o: &Operand| o.outer.iter().copied().chain([o.row, o.col]).collect::<Vec<_>>();
        let axes = sizes.zip(steps(one)).zip(steps(other)).map(|((size, one), other)| [one, size, other]);
        let mut axes: Vec<_> = axes.filter(|[_, size, _]| *size > 1).collect();
        axes.sort_by_key(|[one, ..]| std::cmp::Reverse(*one));
        let dense = axes.iter().rev().try_fold(1, |inner, [one, size, _]| (*one == inner).then_some(inner * size));
        let whole = one.offset == 0 && dense == Some(elements);
        whole.then_some(Digits { axes, buffer: other.buffer, offset: other.offset })
    }

    /// An operand that walks the one buffer, walking the other; `extents` are of its outer axes, rows and columns.
    fn moved(&self, o: &Operand, extents: &[usize]) -> Option<Operand> {
        let mut reached = vec![0; self.axes.len()];
        let mut step = |stride: usize, extent: usize| {
            if stride == 0 || extent == 1 {
                return Some(0);
            }
            let at = self.axes.iter().position(|[one, ..]| stride >= *one && stride.is_multiple_of(*one))?;
            let [one, size, other] = self.axes[at];
            let times = stride / one;
            reached[at] += times * (extent - 1);
            // no carry into the next axis
            (reached[at] < size).then_some(times * other)
        };
        if o.offset != 0 {
            return None;
        }
        let outer = o.outer.iter().zip(extents).map(|(s, n)| step(*s, *n)).collect::<Option<Vec<_>>>()?;
        let row = step(o.row, extents[o.outer.len()])?;
        let col = step(o.col, extents[o.outer.len() + 1])?;
        Some(Operand { buffer: self.buffer, dtype: o.dtype, offset: self.offset, outer, row, col })
    }
}

/// Of a product's right side.
fn right_extents(m: &Matmul) -> Vec<usize> {
    m.outer.iter().copied().chain([m.k, m.n]).collect()
}

/// What call `at` copies, if it only turns a matrix for products to read.
fn replacement(plan: &Plan, at: usize) -> Option<(usize, Digits)> {
    let Work::Loop(l) = &plan.calls[at].work else { return None };
    let (from, to) = plain_copy(l)?;
    let copy = to.buffer;
    let scratch = matches!(plan.buffers[copy].storage, Storage::Scratch { .. });
    let output = plan.outputs.iter().any(|o| o.1 == copy);
    let digits = Digits::new(l, to, from, plan.buffers[copy].shape.elements())?;
    let mut last = plan.calls[at].wave;
    for (i, call) in plan.calls.iter().enumerate().filter(|(i, _)| *i != at) {
        let (reads, writes) = call.work.touches();
        if writes.contains(&copy) {
            return None;
        }
        if reads.contains(&copy) {
            // only as the right side of a product
            let Work::Matmul(m) = &call.work else { return None };
            let only = m.deep.is_empty()
                && m.b.buffer == copy
                && digits.moved(&m.b, &right_extents(m)).is_some()
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
    let good = scratch && !output && !overwritten;
    good.then_some((copy, digits))
}

fn plain_copy(l: &Loop) -> Option<(&Operand, &Operand)> {
    let plain = l.folds.is_empty() && l.program.instrs == [Instr::Load(0)];
    match l.stores[..] {
        // whole numbers would be copied as numbers
        [(0, target)] if plain && l.operands[0].dtype == DType::F32 => Some((&l.operands[0], &l.operands[target])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_plan::Program;

    fn operand(buffer: BufferId, outer: &[usize], row: usize, col: usize) -> Operand {
        Operand { buffer, dtype: DType::F32, offset: 0, outer: outer.to_vec(), row, col }
    }

    /// Keys `[3, 5 tokens, 4 heads·2]` turned to `[3, 4 heads·2, 5 tokens]`.
    fn turning() -> Loop {
        Loop {
            outer: vec![3],
            rows: 8,
            cols: 5,
            nest: citius_plan::Nest::Rows,
            operands: vec![operand(0, &[40], 1, 8), operand(1, &[40], 5, 1)],
            program: Program { instrs: vec![Instr::Load(0)] },
            stores: vec![(0, 1)],
            folds: vec![],
        }
    }

    #[test]
    fn operands_move_to_what_was_copied() {
        let l = turning();
        let (from, to) = plain_copy(&l).unwrap();
        let digits = Digits::new(&l, to, from, 120).unwrap();
        // a head's keys, [3, 4] of 2×5
        let moved = digits.moved(&operand(1, &[40, 10], 5, 1), &[3, 4, 2, 5]).unwrap();
        assert_eq!(moved, operand(0, &[40, 2], 1, 8));
        // and what is made the other way round, stored where it is copied to
        let back = Digits::new(&l, from, to, 120).unwrap();
        assert_eq!(back.moved(&operand(0, &[40, 2], 8, 1), &[3, 4, 5, 2]).unwrap(), operand(1, &[40, 10], 1, 5));
    }

    #[test]
    fn what_does_not_fit_stays() {
        let l = turning();
        let (from, to) = plain_copy(&l).unwrap();
        let digits = Digits::new(&l, to, from, 120).unwrap();
        // rows of ten elements are two of its rows
        assert_eq!(digits.moved(&operand(1, &[], 10, 1), &[12, 10]), None);
        assert_eq!(digits.moved(&operand(1, &[], 3, 1), &[2, 3]), None);
        // a copy of a part says nothing of the rest
        assert!(Digits::new(&l, to, from, 240).is_none());
    }
}
