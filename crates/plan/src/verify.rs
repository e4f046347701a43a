//! The rules every plan obeys: operands stay inside their buffers, values are written before they are read, calls of a wave do
//! not disturb each other, and scratch buffers that live at the same time do not overlap.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use citius_graph::{DType, LeafKind};

use crate::place::ALIGN;
use crate::plan::*;
use crate::program::{Instr, SHORT_ROW};

/// Operands that executors have room for.
pub const MOST_OPERANDS: usize = 32;

/// `Err` says which call breaks which rule.
pub fn verify(plan: &Plan) -> Result<(), String> {
    plan.buffers.iter().enumerate().try_for_each(|(id, buffer)| sized(buffer).map_err(|e| format!("b{id} {e}")))?;
    if let Some((name, id)) = plan.outputs.iter().find(|o| o.1 >= plan.buffers.len()) {
        return Err(format!("output {name:?} is b{id}, which there is not"));
    }
    let mut written = vec![None; plan.buffers.len()];
    for (i, call) in plan.calls.iter().enumerate() {
        let fail = |rule: String| Err(format!("call {i} ({}): {rule}", call.label));
        if i > 0 && plan.calls[i - 1].wave > call.wave {
            return fail("stands behind a call of a later wave".into());
        }
        if let Err(rule) = inside(plan, &call.work) {
            return fail(rule);
        }
        let (reads, writes) = call.work.touches();
        for &id in &reads {
            let empty = plan.buffers[id].shape.elements() == 0;
            let scratch = matches!(plan.buffers[id].storage, Storage::Scratch { .. }) && !empty;
            match written[id] {
                None if scratch => return fail(format!("reads b{id} before it is written")),
                Some(wave) if wave >= call.wave && !writes.contains(&id) => {
                    return fail(format!("reads b{id} in the wave that writes it"));
                }
                _ => {}
            }
        }
        for &id in &writes {
            match &plan.buffers[id].storage {
                Storage::Constant(_) | Storage::Step => return fail(format!("writes the constant b{id}")),
                Storage::Leaf { kind: LeafKind::Input, .. } => return fail(format!("writes the input b{id}")),
                // parts of a concatenation write one scratch buffer together
                Storage::Leaf { .. } if written[id].is_some() => return fail(format!("b{id} is written twice")),
                Storage::Leaf { .. } | Storage::Scratch { .. } => {}
            }
            written[id] = Some(call.wave);
        }
    }
    no_overlap(plan)
}

/// Scratch buffers whose waves overlap do not share bytes.
fn no_overlap(plan: &Plan) -> Result<(), String> {
    let mut life: Vec<Option<(usize, usize)>> = vec![None; plan.buffers.len()];
    for call in &plan.calls {
        let (reads, writes) = call.work.touches();
        for id in reads.into_iter().chain(writes) {
            let (first, last) = life[id].unwrap_or((call.wave, call.wave));
            life[id] = Some((first.min(call.wave), last.max(call.wave)));
        }
    }
    for &(_, id) in &plan.outputs {
        life[id] = life[id].map(|(first, _)| (first, plan.waves)).or(Some((0, plan.waves)));
    }
    // in the order of their first waves; those that live at a time never overlap, so neighbours are enough
    let mut placed: Vec<(usize, usize, BufferId)> = Vec::new();
    for (id, buffer) in plan.buffers.iter().enumerate() {
        let Storage::Scratch { offset } = buffer.storage else { continue };
        in_arena(plan, buffer, offset, life[id].is_some()).map_err(|e| format!("b{id} {e}"))?;
        if let Some((first, _)) = life[id].filter(|_| buffer.shape.elements() > 0) {
            placed.push((first, offset, id));
        }
    }
    placed.sort_unstable();
    let end = |id: BufferId, offset: usize| offset + plan.buffers[id].shape.elements() * plan.buffers[id].dtype.bytes();
    let mut living: BTreeMap<usize, BufferId> = BTreeMap::new();
    let mut ending: BinaryHeap<Reverse<(usize, usize)>> = BinaryHeap::new();
    for (first, offset, id) in placed {
        while let Some(&Reverse((_, at))) = ending.peek().filter(|Reverse((last, _))| *last < first) {
            living.remove(&at);
            ending.pop();
        }
        let below = living.range(..=offset).next_back().filter(|(at, other)| end(**other, **at) > offset);
        let above = living.range(offset..).next().filter(|(at, _)| **at < end(id, offset));
        if let Some((_, other)) = below.or(above) {
            return Err(format!("b{id} and b{other} overlap in the arena"));
        }
        living.insert(offset, id);
        ending.push(Reverse((life[id].map_or(first, |l| l.1), offset)));
    }
    Ok(())
}

/// Bytes that can be counted, and that its storage has.
fn sized(buffer: &Buffer) -> Result<(), String> {
    let dims = buffer.shape.dims().iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    let elements = if buffer.shape.dims().contains(&0) { Some(0) } else { dims };
    let bytes = elements.and_then(|n| n.checked_mul(buffer.dtype.bytes())).filter(|&n| n <= isize::MAX as usize);
    let (Some(elements), Some(_)) = (elements, bytes) else {
        return Err(format!("of {} is larger than memory can be", buffer.shape));
    };
    match &buffer.storage {
        Storage::Constant(values) if values.len() != elements || buffer.dtype != DType::F32 => {
            Err(format!("of {elements} elements holds {} numbers", values.len()))
        }
        Storage::Step if elements != 1 || buffer.dtype != DType::F32 => Err("is no single number".into()),
        Storage::Leaf { kind, .. } if *kind != LeafKind::Input && buffer.dtype != DType::F32 => {
            Err(format!("lives across steps as {}, which only f32 do", buffer.dtype))
        }
        Storage::Constant(_) | Storage::Step | Storage::Leaf { .. } | Storage::Scratch { .. } => Ok(()),
    }
}

/// A scratch buffer ends inside the arena. One that nothing uses, as what is stored straight into a leaf, has no bytes there.
fn in_arena(plan: &Plan, buffer: &Buffer, offset: usize, used: bool) -> Result<(), String> {
    let bytes = if used { buffer.shape.elements() * buffer.dtype.bytes() } else { 0 };
    match offset.checked_add(bytes) {
        _ if !offset.is_multiple_of(ALIGN) => Err(format!("begins at byte {offset}, no multiple of {ALIGN}")),
        Some(end) if end <= plan.scratch_bytes => Ok(()),
        _ => Err(format!("has {bytes} bytes from {offset} on, beyond the arena's {}", plan.scratch_bytes)),
    }
}

fn inside(plan: &Plan, work: &Work) -> Result<(), String> {
    well_formed(work)?;
    let (reads, writes) = work.touches();
    if let Some(id) = reads.into_iter().chain(writes).find(|&id| id >= plan.buffers.len()) {
        return Err(format!("uses b{id}, which there is not"));
    }
    if let Work::Recurrence(_) | Work::RecurrenceGradient(_) = work {
        let (reads, writes) = work.touches();
        if reads.into_iter().chain(writes).any(|id| plan.buffers[id].dtype != DType::F32) {
            return Err("walks numbers that are not f32".into());
        }
    }
    let check = |o: &Operand, outer: &[usize], rows: usize, cols: usize| {
        let buffer = &plan.buffers[o.buffer];
        if o.outer.len() != outer.len() || o.dtype.bytes() != buffer.dtype.bytes() {
            return Err(format!("walks b{} by other axes or numbers than it has", o.buffer));
        }
        let mut steps = o.outer.iter().zip(outer).chain([(&o.row, &rows), (&o.col, &cols)]);
        let reach = |sum: usize, (stride, size): (&usize, &usize)| {
            stride.checked_mul(size.saturating_sub(1)).and_then(|far| sum.checked_add(far))
        };
        let far = steps.try_fold(o.offset, reach);
        let empty = outer.contains(&0) || rows == 0 || cols == 0;
        let elements = buffer.shape.elements();
        match far {
            _ if empty => Ok(()),
            Some(far) if far < elements => Ok(()),
            _ => Err(format!("b{}[{}] of {elements}", o.buffer, far.map_or("beyond".into(), |far| far.to_string()))),
        }
    };
    match work {
        Work::Loop(l) => {
            targets(&l.operands, &l.targets())?;
            l.operands.iter().try_for_each(|o| check(o, &l.outer, l.rows, l.cols))
        }
        Work::Matmul(m) => {
            targets(&m.operands, &m.stores.iter().map(|s| s.1).collect::<Vec<_>>())?;
            if [&m.a, &m.b].into_iter().chain(&m.operands).any(|o| o.dtype != DType::F32) {
                return Err("a product of numbers that are not f32".into());
            }
            // the axes around k are walked like outer ones
            let outer: Vec<usize> = m.outer.iter().copied().chain(m.deep.iter().map(|d| d.size)).collect();
            let walked = |o: &Operand, stride: fn(&Deep) -> usize| Operand {
                outer: o.outer.iter().copied().chain(m.deep.iter().map(stride)).collect(),
                ..o.clone()
            };
            check(&walked(&m.a, |d| d.a), &outer, m.m, m.k)?;
            check(&walked(&m.b, |d| d.b), &outer, m.k, m.n)?;
            if m.b.col != 1 {
                return Err("the right side of a product must have neighbours in its rows".into());
            }
            m.operands.iter().try_for_each(|o| check(o, &m.outer, m.m, m.n))
        }
        Work::Gather(g) if plan.buffers[g.indices].dtype != DType::I32 => Err("gathers by what is not i32".into()),
        Work::Scatter(s) if plan.buffers[s.indices].dtype != DType::I32 => Err("scatters by what is not i32".into()),
        Work::Gather(g) => sizes(
            plan,
            &[
                (g.table, g.table_rows.saturating_mul(g.width)),
                (g.indices, g.rows),
                (g.out, g.rows.saturating_mul(g.width)),
            ],
        ),
        Work::Scatter(s) if plan.buffers[s.values].dtype != DType::F32 => Err("scatters what is not f32".into()),
        Work::Scatter(s) => sizes(
            plan,
            &[
                (s.values, s.rows.saturating_mul(s.width)),
                (s.indices, s.rows),
                (s.out, s.table_rows.saturating_mul(s.width)),
            ],
        ),
        Work::ArgMax(a) if plan.buffers[a.input].dtype != DType::F32 => {
            Err("argmax of numbers that are not f32".into())
        }
        Work::Random(r) => sizes(plan, &[(r.out, r.elements)]),
        Work::ArgMax(a) => sizes(plan, &[(a.input, a.rows.saturating_mul(a.cols)), (a.out, a.rows)]),
        Work::Recurrence(r) => {
            let (state, gates) = (r.rows.saturating_mul(r.width), r.scan.cell.gates() * r.width);
            let mut expected = vec![(r.products, r.scan.steps * r.rows * gates), (r.weights, r.width * gates)];
            expected.extend(r.biases.iter().flatten().map(|&id| (id, gates)));
            expected.extend(r.start.iter().map(|&id| (id, state)));
            expected.extend(r.lengths.map(|id| (id, r.rows)));
            let notes = r.scan.notes_at(r.rows, r.width) + r.scan.notes(r.rows, r.width);
            let room = if r.notes { notes } else { r.scan.slots() * state };
            if r.start.len() != r.scan.starts() {
                return Err("a walk from a state that is not given".into());
            }
            sizes(plan, &expected).and_then(|()| at_least(plan, r.out, room))
        }
        Work::RecurrenceGradient(r) => {
            let (state, gates) = (r.rows.saturating_mul(r.width), r.scan.cell.gates() * r.width);
            let columns = r.scan.cell.gradients() * r.width;
            let mut expected = vec![(r.weights, r.width * gates), (r.out, (r.scan.steps + 1) * r.rows * columns)];
            expected.extend(r.lengths.map(|id| (id, r.rows)));
            expected.extend(r.each.map(|id| (id, r.scan.steps * state)));
            expected.extend([r.last, r.cell].into_iter().flatten().map(|id| (id, state)));
            let notes = r.scan.notes_at(r.rows, r.width) + r.scan.notes(r.rows, r.width);
            sizes(plan, &expected).and_then(|()| at_least(plan, r.states, notes))
        }
    }
}

/// Programs and stores name operands and values that there are, and indices are whole numbers.
fn well_formed(work: &Work) -> Result<(), String> {
    let (operands, program, stores, folds): (_, _, _, &[Fold]) = match work {
        Work::Loop(l) => (&l.operands, &l.program, &l.stores, &l.folds),
        Work::Matmul(m) => (&m.operands, &m.program, &m.stores, &[]),
        _ => return Ok(()),
    };
    let (vars, count) = (program.instrs.len(), operands.len());
    let fits = |(at, instr): (usize, &Instr)| match *instr {
        Instr::Load(operand) => operand < count,
        Instr::Product => matches!(work, Work::Matmul(_)),
        Instr::Const(_) => true,
        Instr::Unary(_, a) => a < at,
        Instr::FoldRow(_, a) => a < at && matches!(work, Work::Loop(l) if l.cols <= SHORT_ROW),
        Instr::Binary(_, a, b) => a < at && b < at,
        Instr::Select(a, b, c) | Instr::MulAdd(a, b, c) | Instr::NegMulAdd(a, b, c) => a < at && b < at && c < at,
    };
    let stored = stores.iter().all(|&(value, operand)| value < vars && operand < count);
    let folded = folds.iter().all(|f| f.value < vars && f.operand < count);
    let known = program.instrs.iter().enumerate().all(fits) && stored && folded;
    if known { Ok(()) } else { Err("its program names what is not there".into()) }
}

/// A kernel has few operands; what it writes is f32, and it reads what it writes only at the same elements.
fn targets(operands: &[Operand], targets: &[usize]) -> Result<(), String> {
    if operands.len() > MOST_OPERANDS {
        return Err(format!("{} operands, at most {MOST_OPERANDS}", operands.len()));
    }
    for &t in targets {
        let target = &operands[t];
        if target.dtype != DType::F32 {
            return Err(format!("writes {} into b{}", target.dtype, target.buffer));
        }
        let elsewhere = |(i, o): (usize, &Operand)| !targets.contains(&i) && o.buffer == target.buffer && o != target;
        if operands.iter().enumerate().any(elsewhere) {
            return Err(format!("reads b{} elsewhere than where it writes it", target.buffer));
        }
    }
    Ok(())
}

fn at_least(plan: &Plan, id: BufferId, elements: usize) -> Result<(), String> {
    let found = plan.buffers[id].shape.elements();
    if found >= elements { Ok(()) } else { Err(format!("b{id} has {found} elements, {elements} are used")) }
}

fn sizes(plan: &Plan, expected: &[(BufferId, usize)]) -> Result<(), String> {
    let wrong = expected.iter().find(|(id, n)| plan.buffers[*id].shape.elements() != *n);
    wrong.map_or(Ok(()), |(id, n)| {
        Err(format!("b{id} has {} elements, {n} expected", plan.buffers[*id].shape.elements()))
    })
}
