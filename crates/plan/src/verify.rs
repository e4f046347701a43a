//! The rules every plan obeys: operands stay inside their buffers, values are written before they are read, calls of a wave do
//! not disturb each other, and scratch buffers that live at the same time do not overlap.

use citius_graph::{DType, LeafKind};

use crate::plan::*;

/// Operands that executors have room for.
pub const MOST_OPERANDS: usize = 32;

/// `Err` says which call breaks which rule.
pub fn verify(plan: &Plan) -> Result<(), String> {
    let mut written = vec![None; plan.buffers.len()];
    for (i, call) in plan.calls.iter().enumerate() {
        let fail = |rule: String| Err(format!("call {i} ({}): {rule}", call.label));
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
        life[id] = life[id].map(|(first, _)| (first, plan.waves));
    }
    let placed: Vec<(usize, usize, usize, (usize, usize))> = plan
        .buffers
        .iter()
        .enumerate()
        .filter_map(|(id, b)| match (&b.storage, life[id]) {
            (Storage::Scratch { offset }, Some(life)) => {
                Some((id, *offset, offset + b.shape.elements() * b.dtype.bytes(), life))
            }
            _ => None,
        })
        .collect();
    for (n, a) in placed.iter().enumerate() {
        for b in &placed[..n] {
            let same_time = a.3.0 <= b.3.1 && b.3.0 <= a.3.1;
            let same_place = a.1 < b.2 && b.1 < a.2;
            if same_time && same_place {
                return Err(format!("b{} and b{} overlap in the arena", a.0, b.0));
            }
            if a.2 > plan.scratch_bytes {
                return Err(format!("b{} ends at {} of {} bytes", a.0, a.2, plan.scratch_bytes));
            }
        }
    }
    Ok(())
}

fn inside(plan: &Plan, work: &Work) -> Result<(), String> {
    if let Work::Recurrence(_) | Work::RecurrenceGradient(_) = work {
        let (reads, writes) = work.touches();
        if reads.into_iter().chain(writes).any(|id| plan.buffers[id].dtype != DType::F32) {
            return Err("walks numbers that are not f32".into());
        }
    }
    let check = |o: &Operand, outer: &[usize], rows: usize, cols: usize| {
        let reach = |stride: usize, size: usize| stride * size.saturating_sub(1);
        let far = o.offset
            + o.outer.iter().zip(outer).map(|(s, n)| reach(*s, *n)).sum::<usize>()
            + reach(o.row, rows)
            + reach(o.col, cols);
        let empty = outer.contains(&0) || rows == 0 || cols == 0;
        let elements = plan.buffers[o.buffer].shape.elements();
        if empty || far < elements { Ok(()) } else { Err(format!("b{}[{far}] of {elements}", o.buffer)) }
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
        Work::Gather(g) => {
            sizes(plan, &[(g.table, g.table_rows * g.width), (g.indices, g.rows), (g.out, g.rows * g.width)])
        }
        Work::Scatter(s) if plan.buffers[s.values].dtype != DType::F32 => Err("scatters what is not f32".into()),
        Work::Scatter(s) => {
            sizes(plan, &[(s.values, s.rows * s.width), (s.indices, s.rows), (s.out, s.table_rows * s.width)])
        }
        Work::ArgMax(a) if plan.buffers[a.input].dtype != DType::F32 => {
            Err("argmax of numbers that are not f32".into())
        }
        Work::Random(r) => sizes(plan, &[(r.out, r.elements)]),
        Work::ArgMax(a) => sizes(plan, &[(a.input, a.rows * a.cols), (a.out, a.rows)]),
        Work::Recurrence(r) => {
            let (state, gates) = (r.rows * r.width, r.scan.cell.gates() * r.width);
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
            let (state, gates) = (r.rows * r.width, r.scan.cell.gates() * r.width);
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
