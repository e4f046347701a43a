//! The rules every plan obeys: operands stay inside their buffers, values are written before they are read, calls of a wave do
//! not disturb each other, and scratch buffers that live at the same time do not overlap.

use crate::plan::*;

pub fn verify(plan: &Plan) -> Result<(), String> {
    let mut written = vec![None; plan.buffers.len()];
    for (i, call) in plan.calls.iter().enumerate() {
        let fail = |rule: String| Err(format!("call {i} ({}): {rule}", call.label));
        if let Err(rule) = inside(plan, &call.work) {
            return fail(rule);
        }
        let (reads, writes) = call.work.touches();
        for &id in &reads {
            let scratch = matches!(plan.buffers[id].storage, Storage::Scratch { .. });
            match written[id] {
                None if scratch => return fail(format!("reads b{id} before it is written")),
                Some(wave) if wave >= call.wave && !writes.contains(&id) => {
                    return fail(format!("reads b{id} in the wave that writes it"));
                }
                _ => {}
            }
        }
        for &id in &writes {
            if matches!(plan.buffers[id].storage, Storage::Constant(_) | Storage::Step) {
                return fail(format!("writes the constant b{id}"));
            }
            written[id] = Some(call.wave);
        }
    }
    Ok(())
}

fn inside(plan: &Plan, work: &Work) -> Result<(), String> {
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
        Work::Loop(l) => l.operands.iter().try_for_each(|o| check(o, &l.outer, l.rows, l.cols)),
        Work::Matmul(m) => {
            check(&m.a, &m.outer, m.m, m.k)?;
            check(&m.b, &m.outer, m.k, m.n)?;
            if m.b.col != 1 {
                return Err("the right side of a product must have neighbours in its rows".into());
            }
            m.operands.iter().try_for_each(|o| check(o, &m.outer, m.m, m.n))
        }
        Work::Gather(_) | Work::Scatter(_) | Work::Random(_) | Work::ArgMax(_) => Ok(()),
    }
}
