//! Pass `choose_stored`: which nodes get bytes of their own. Everything else is recomputed where it is used, which fuses
//! element-wise chains without further ado.

use std::collections::{BTreeSet, HashSet};

use citius_graph::{DType, NodeId, Op, Shape};

use crate::access;
use crate::draft::{Draft, DraftNode, GatherChain};
use crate::program::SHORT_ROW;

/// A shared expression dearer than this many FLOPs is stored rather than computed twice.
const RECOMPUTE_FLOPS: usize = 8;
/// So is one of so many elements, which leave the caches, whose readers would read more without: gradients that meet where a network's
/// branches part would else be read branch by branch, by every reader.
const FAR_ELEMENTS: usize = 1 << 21;

/// An expression with more loads, or more ops one inside the other, than this is stored halfway: a kernel's operands and our
/// recursion have limits.
const MOST_LOADS: usize = 16;
const DEEPEST: usize = 100;

/// Pass `untranspose_products`: products read their right side along its rows, so a right side stored the other way is copied
/// (the left side may have any strides).
pub fn untranspose_products(draft: &mut Draft) {
    for id in draft.order() {
        let Op::Matmul { ta, tb: true, inner } = draft.nodes[id].op else { continue };
        let whole = draft.nodes[id].inputs[1];
        let b = repeated(draft, whole).unwrap_or(whole);
        let rank = draft.nodes[b].shape.rank();
        let mut perm: Vec<usize> = (0..rank).collect();
        perm.swap(rank - 2, rank - 1);
        let dims: Vec<usize> = perm.iter().map(|&p| draft.nodes[b].shape.dims()[p]).collect();
        // a row or a column has the same bytes either way
        let vector = dims[rank - 2..].contains(&1);
        let op = if vector { Op::Reshape } else { Op::Transpose { perm } };
        let turned = DraftNode { op, inputs: vec![b], shape: dims.into(), ..draft.nodes[id].clone() };
        let turned = draft.push(turned);
        if !vector {
            draft.stored.insert(turned);
        }
        let right = match b == whole {
            true => turned,
            false => {
                let mut dims = draft.nodes[whole].shape.dims().to_vec();
                let rank = dims.len();
                dims.swap(rank - 2, rank - 1);
                let node = DraftNode {
                    op: Op::Broadcast,
                    inputs: vec![turned],
                    shape: dims.into(),
                    ..draft.nodes[id].clone()
                };
                draft.push(node)
            }
        };
        draft.nodes[id].op = Op::Matmul { ta, tb: false, inner };
        draft.nodes[id].inputs[1] = right;
    }
}

pub fn choose_stored(draft: &mut Draft) {
    let order = draft.order();
    let users = draft.users();
    for &id in &order {
        let node = draft.nodes[id].clone();
        match &node.op {
            Op::Leaf(_) | Op::Step | Op::Iota => store(draft, id),
            Op::Reduce { .. } => store(draft, id),
            Op::Random { .. } => {
                store(draft, id);
                node.inputs.iter().for_each(|&i| contiguous(draft, i));
            }
            Op::Join { .. } => store(draft, id),
            Op::Matmul { .. } => {
                store(draft, id);
                strided(draft, node.inputs[0]);
                rows(draft, node.inputs[1]);
            }
            Op::ArgMax | Op::GatherRows | Op::ScatterRows | Op::Recurrence { .. } | Op::RecurrenceGradient { .. } => {
                store(draft, id);
                node.inputs.iter().for_each(|&i| contiguous(draft, i));
            }
            Op::Reshape if !access::only_ones_differ(&node.shape, &draft.nodes[node.inputs[0]].shape) => {
                contiguous(draft, node.inputs[0]);
            }
            Op::Broadcast if draft.nodes[node.inputs[0]].shape.elements() < node.shape.elements() => {
                // compute once, not once per copy; along a short row the copies are lanes of one vector
                let source = under_views(draft, node.inputs[0]);
                let along_short_row = stretches_short_row(&draft.nodes[node.inputs[0]].shape, &node.shape);
                if matches!(draft.nodes[source].op, Op::Map { .. }) && !along_short_row {
                    store(draft, source);
                }
            }
            Op::Map { .. } | Op::Cast | Op::Constant(_) | Op::Detach | Op::Custom { .. } => {}
            Op::Broadcast | Op::Reshape | Op::Transpose { .. } | Op::Slice { .. } | Op::Windows { .. } => {}
        }
    }
    let updated: HashSet<NodeId> = draft.updates.iter().map(|u| u.0).collect();
    for i in 0..draft.outputs.len() {
        let id = draft.outputs[i].1;
        contiguous(draft, id);
        // a leaf read under a name shows the value it had during the step, not the one it gets at the end
        let base = draft.base(id);
        if updated.contains(&base) {
            let copy = DraftNode { op: Op::Detach, inputs: vec![id], ..draft.nodes[id].clone() };
            let copy = draft.push(copy);
            draft.stored.insert(copy);
            draft.outputs[i].1 = copy;
        }
    }
    // an update's value is stored straight into the leaf; see `fuse`
    for id in draft.updates.iter().map(|u| u.1).collect::<Vec<_>>() {
        if matches!(draft.nodes[id].op, Op::Map { .. }) {
            store(draft, id);
        }
    }
    let mut flops = vec![0; draft.nodes.len()];
    // loads that computing a node in place takes, and ops one inside the other
    let (mut loads, mut depth) = (vec![0; draft.nodes.len()], vec![0; draft.nodes.len()]);
    let mut far = vec![BTreeSet::new(); draft.nodes.len()];
    for &id in &order {
        let inputs = draft.nodes[id].inputs.clone();
        far[id] = far_reads(draft, id, &far);
        let load = |i: &NodeId| if draft.stored.contains(i) { 1 } else { loads[*i] };
        loads[id] = inputs.iter().map(load).sum::<usize>();
        depth[id] = 1 + inputs.iter().map(|&i| if draft.stored.contains(&i) { 0 } else { depth[i] }).max().unwrap_or(0);
        let expression = matches!(draft.nodes[id].op, Op::Map { .. });
        if expression && (loads[id] > MOST_LOADS || depth[id] > DEEPEST) {
            store(draft, id);
        }
        let Op::Map { def, attrs } = &draft.nodes[id].op else {
            let through = draft.nodes[id].inputs.first().map_or(0, |&i| flops[i]);
            flops[id] = if draft.stored.contains(&id) { 0 } else { through };
            continue;
        };
        let own = {
            let mut scalar = citius_graph::scalar::Scalar::default();
            let x: Vec<_> = (0..def.arity).map(|i| scalar.input(i)).collect();
            (def.expr)(&mut scalar, &x, attrs);
            scalar.instrs.iter().map(scalar_flops).sum::<usize>()
        };
        flops[id] = own + draft.nodes[id].inputs.iter().map(|&i| flops[i]).sum::<usize>();
        let shared = users[id].len() > 1;
        // in the epilogue of a product nobody else reads, storing this costs nothing more
        let lone_product = |&i: &NodeId| matches!(draft.nodes[i].op, Op::Matmul { .. }) && users[i].len() == 1;
        let on_product = draft.nodes[id].inputs.iter().any(lone_product);
        // stored, its parts are read once, and it is written and read by all but that one reader
        let (parts, readers) = (far[id].len(), users[id].len());
        let scattered = draft.nodes[id].shape.elements() >= FAR_ELEMENTS && parts * readers > parts + readers;
        if shared && (flops[id] >= RECOMPUTE_FLOPS || on_product || scattered) {
            store(draft, id);
        }
        if draft.stored.contains(&id) {
            flops[id] = 0;
        }
    }
    // what was stored meanwhile may have cut a view in two
    loop {
        let before = draft.stored.len();
        for &id in &order {
            if let (Op::Matmul { .. }, &[_, right]) = (&draft.nodes[id].op, draft.nodes[id].inputs.as_slice()) {
                rows(draft, right);
            }
        }
        if draft.stored.len() == before {
            break;
        }
    }
}

/// Pass `turn_results`: a product that is only read with its rows in another order is stored in that order at once. Its columns
/// stay neighbours.
pub fn turn_results(draft: &mut Draft) {
    let users = draft.users();
    let kept = draft.kept();
    for id in draft.order() {
        let Op::Transpose { perm } = &draft.nodes[id].op else { continue };
        let product = draft.nodes[id].inputs[0];
        let alone = users[product] == [id] && !kept.contains(&product);
        let rows = perm.last() == Some(&(perm.len() - 1));
        if draft.stored.contains(&id) && matches!(draft.nodes[product].op, Op::Matmul { .. }) && alone && rows {
            draft.stored.remove(&product);
        }
    }
}

/// Pass `recut_maps`: an expression of a product that was given other axes, and of stored values, is computed under the product's axes:
/// there it can be the product's epilogue. Who reads it reads the same bytes.
pub fn recut_maps(draft: &mut Draft) {
    let users = draft.users();
    let kept = draft.kept();
    // stored values on the longest way to each
    let mut depth = vec![0; draft.nodes.len()];
    for id in draft.order() {
        let before = draft.nodes[id].inputs.iter().map(|&i| depth[i]).max().unwrap_or(0);
        depth[id] = before + (draft.stored.contains(&id) && !draft.is_given(id)) as usize;
    }
    for id in draft.order() {
        let lone = |of: NodeId, by: NodeId| users[of] == [by] && !kept.contains(&of);
        let product = |&recut: &NodeId| {
            let product = *draft.nodes[recut].inputs.first().filter(|_| draft.is_recut(recut) && lone(recut, id))?;
            (matches!(draft.nodes[product].op, Op::Matmul { .. }) && lone(product, recut)).then_some((recut, product))
        };
        let map = matches!(draft.nodes[id].op, Op::Map { .. }) && draft.stored.contains(&id) && !kept.contains(&id);
        let Some(found) = draft.nodes[id].inputs.iter().find_map(product).filter(|_| map) else { continue };
        draft.stored.remove(&id);
        // a product does not wait for what only its epilogue needs
        let in_time = |i: NodeId| depth[i] < depth[found.1];
        match can_recut(draft, id, found.0, &in_time) {
            true => {
                let map = recut(draft, id, found);
                draft.stored.insert(map);
                draft.nodes[id] = DraftNode { op: Op::Reshape, inputs: vec![map], ..draft.nodes[id].clone() };
            }
            false => store(draft, id),
        }
    }
}

/// Is this an expression of `product`, of stored values of the same shape that are there in time, and of numbers?
fn can_recut(draft: &Draft, id: NodeId, product: NodeId, in_time: &dyn Fn(NodeId) -> bool) -> bool {
    let node = &draft.nodes[id];
    let inside = |&i: &NodeId| draft.nodes[i].shape == node.shape && can_recut(draft, i, product, in_time);
    match node.op {
        _ if id == product || constant(draft, id).is_some() => true,
        _ if draft.stored.contains(&id) => node.dtype == DType::F32 && in_time(id),
        Op::Map { .. } => node.inputs.iter().all(inside),
        _ => false,
    }
}

/// The same under the axes of `product`, of which `of` is a recut.
fn recut(draft: &mut Draft, id: NodeId, (of, product): (NodeId, NodeId)) -> NodeId {
    let node = draft.nodes[id].clone();
    let (op, inputs) = match node.op {
        _ if id == of => return product,
        _ if draft.stored.contains(&id) => (Op::Reshape, vec![id]),
        Op::Map { .. } => {
            let inputs = node.inputs.iter().map(|&i| recut(draft, i, (of, product))).collect();
            (node.op.clone(), inputs)
        }
        _ => (Op::Broadcast, vec![under_views(draft, id)]),
    };
    draft.push(DraftNode { op, inputs, shape: draft.nodes[product].shape.clone(), ..node })
}

/// Bytes that are not f32 are only read where they are, gathered, or, as i32, copied.
pub fn check_stored(draft: &Draft) -> Result<(), String> {
    for &id in &draft.stored {
        let node = &draft.nodes[id];
        let made =
            !draft.is_given(id) && !matches!(node.op, Op::GatherRows | Op::ArgMax) && !draft.gathered.contains_key(&id);
        if made && node.dtype == DType::U8 {
            return Err(format!(
                "{} at {}: bytes cannot be rearranged; use to_f32() first",
                node.op.name(),
                node.place
            ));
        }
    }
    Ok(())
}

/// Pass `absorb_gathers`: gather → cast → ·scale → +shift, each used once, is one gather that widens as it copies.
pub fn absorb_gathers(draft: &mut Draft) {
    let users = draft.users();
    let kept = draft.kept();
    for gather in draft.order() {
        if !matches!(draft.nodes[gather].op, Op::GatherRows) {
            continue;
        }
        let mut end = gather;
        let mut affine = None;
        while let ([user], false) = (users[end].as_slice(), kept.contains(&end)) {
            let node = &draft.nodes[*user];
            let constant = |i: usize| constant(draft, node.inputs[i]);
            let name = node.op.name();
            let next = match (&node.op, name) {
                (Op::Cast, _) => Some(None),
                (Op::Map { .. }, "mul") if affine.is_none() && draft.nodes[end].dtype == DType::F32 => {
                    constant(0).or(constant(1)).map(|c| Some((c, 0.0)))
                }
                (Op::Map { .. }, "add") if draft.nodes[end].dtype == DType::F32 => {
                    let (scale, shift) = affine.unwrap_or((1.0, 0.0));
                    (shift == 0.0).then(|| constant(0).or(constant(1)).map(|c| Some((scale, c)))).flatten()
                }
                _ => None,
            };
            match next {
                Some(step) => affine = step.or(affine),
                None => break,
            }
            end = *user;
        }
        if end != gather {
            draft.stored.remove(&gather);
            draft.stored.insert(end);
            draft.gathered.insert(end, GatherChain { gather, affine });
        }
    }
}

fn store(draft: &mut Draft, id: NodeId) {
    draft.stored.insert(id);
}

/// Stored values, at least as large as this node, that computing it in place reads. `far`: the same of the nodes before it.
fn far_reads(draft: &Draft, id: NodeId, far: &[BTreeSet<NodeId>]) -> BTreeSet<NodeId> {
    let elements = |id: NodeId| draft.nodes[id].shape.elements();
    let mut reads = BTreeSet::new();
    for &input in &draft.nodes[id].inputs {
        match draft.stored.contains(&input) {
            true => reads.extend([input]),
            false => reads.extend(&far[input]),
        }
    }
    reads.retain(|read| elements(*read) >= elements(id));
    reads
}

/// Needs bytes, but any strides will do: views above a stored node stay views.
fn strided(draft: &mut Draft, id: NodeId) {
    let node = &draft.nodes[id];
    let view = match node.op {
        Op::Detach | Op::Broadcast | Op::Transpose { .. } | Op::Slice { .. } | Op::Windows { .. } => true,
        Op::Reshape => access::only_ones_differ(&node.shape, &draft.nodes[node.inputs[0]].shape),
        _ => false,
    };
    if draft.stored.contains(&id) {
        return;
    }
    if view {
        strided(draft, node.inputs[0]);
    } else if matches!(node.op, Op::Reshape) {
        // a view of contiguous bytes, addressed by its own shape
        contiguous(draft, node.inputs[0]);
    } else {
        store(draft, id);
    }
}

/// Needs rows whose elements are neighbours (the right side of a product).
fn rows(draft: &mut Draft, id: NodeId) {
    let last = draft.nodes[id].shape.rank() - 1;
    if last_axis_is_contiguous(draft, id, last) {
        strided(draft, id);
    } else if let Some(source) = repeated(draft, id) {
        rows(draft, source);
    } else {
        store(draft, id);
    }
}

/// The matrix that a broadcast repeats whole: copying it once is enough.
fn repeated(draft: &Draft, id: NodeId) -> Option<NodeId> {
    let node = &draft.nodes[id];
    let source = *node.inputs.first().filter(|_| matches!(node.op, Op::Broadcast))?;
    let (from, to) = (draft.nodes[source].shape.dims(), node.shape.dims());
    (from.len() >= 2 && from.ends_with(&to[to.len() - 2..])).then_some(source)
}

fn last_axis_is_contiguous(draft: &Draft, mut id: NodeId, mut axis: usize) -> bool {
    loop {
        let node = &draft.nodes[id];
        if draft.stored.contains(&id) || node.shape.dims()[axis] == 1 {
            let wider = &node.shape.dims()[axis + 1..];
            return node.shape.dims()[axis] == 1 || wider.iter().all(|&d| d == 1);
        }
        let Some(&input) = node.inputs.first() else { return true };
        let from = &draft.nodes[input].shape;
        match &node.op {
            Op::Detach | Op::Slice { .. } => {}
            Op::Windows { axis: cut, stride, dilation } => match axis.checked_sub(*cut) {
                None => {}
                Some(0) if *stride == 1 => {}
                Some(1) if *dilation == 1 => axis -= 1,
                Some(0 | 1) => return false,
                Some(_) => axis -= 1,
            },
            Op::Transpose { perm } => axis = perm[axis],
            Op::Broadcast => {
                let extra = node.shape.rank() - from.rank();
                if axis < extra || from.dims()[axis - extra] == 1 {
                    return false;
                }
                axis -= extra;
            }
            Op::Reshape if access::only_ones_differ(&node.shape, from) => {
                let wide = |dims: &[usize]| (0..dims.len()).filter(|&a| dims[a] != 1).collect::<Vec<_>>();
                let nth = wide(node.shape.dims()).iter().position(|&a| a == axis);
                match nth.map(|n| wide(from.dims())[n]) {
                    Some(a) => axis = a,
                    None => return true,
                }
            }
            _ => return axis == node.shape.rank() - 1,
        }
        id = input;
    }
}

/// Needs its own bytes in its own order.
fn contiguous(draft: &mut Draft, id: NodeId) {
    let node = &draft.nodes[id];
    match node.op {
        Op::Detach | Op::Reshape => contiguous(draft, node.inputs[0]),
        _ => store(draft, id),
    }
}

/// `[…,1]` to `[…,n]` with n at most [`SHORT_ROW`], nothing else.
fn stretches_short_row(from: &Shape, to: &Shape) -> bool {
    let (Some((&1, rows)), Some((&n, to_rows))) = (from.dims().split_last(), to.dims().split_last()) else {
        return false;
    };
    n <= SHORT_ROW && rows == to_rows && !rows.is_empty()
}

fn under_views(draft: &Draft, mut id: NodeId) -> NodeId {
    while let Op::Detach | Op::Broadcast | Op::Reshape | Op::Transpose { .. } | Op::Slice { .. } | Op::Windows { .. } =
        draft.nodes[id].op
    {
        id = draft.nodes[id].inputs[0];
    }
    id
}

/// The number, when it is one everywhere.
pub fn constant(draft: &Draft, id: NodeId) -> Option<f32> {
    match draft.nodes[under_views(draft, id)].op {
        Op::Constant(c) => Some(c as f32),
        _ => None,
    }
}

fn scalar_flops(instr: &citius_graph::scalar::Instr) -> usize {
    use citius_graph::scalar::Instr;
    match instr {
        Instr::Input(_) | Instr::Const(_) => 0,
        Instr::Unary(op, _) => op.flops(),
        Instr::Binary(op, ..) => op.flops(),
        Instr::Select(..) => 1,
    }
}
