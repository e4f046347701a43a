//! Passes that form kernels: one per stored node, then neighbours merged, then loops moved into the epilogue of products.

use std::collections::HashMap;

use citius_graph::{DType, NodeId, Op};

use crate::access::Access;
use crate::draft::{Body, Draft, Kernel, Root, Target};
use crate::links::Links;

/// A kernel with more operands or roots than this is not merged further.
const MOST_OPERANDS: usize = 24;

/// Pass `form_kernels`: a kernel for each stored node that is not given.
pub fn form_kernels(draft: &mut Draft) {
    let mut kernels = Vec::new();
    let targets = update_targets(draft);
    for id in draft.order().into_iter().filter(|id| draft.stored.contains(id) && !draft.is_given(*id)) {
        let node = &draft.nodes[id];
        let target = targets.get(&id).copied().unwrap_or(id);
        if draft.gathered.contains_key(&id) {
            kernels.push(Kernel { body: Body::Other(id), roots: vec![] });
            continue;
        }
        match &node.op {
            Op::Matmul { .. } => {
                let root = Root { value: id, defines: Some(id), fold: None, target: draft.whole(id, id) };
                kernels.push(Kernel { body: Body::Matmul(id), roots: vec![root] });
            }
            Op::GatherRows
            | Op::ScatterRows
            | Op::Random { .. }
            | Op::ArgMax
            | Op::Recurrence { .. }
            | Op::RecurrenceGradient { .. } => {
                kernels.push(Kernel { body: Body::Other(id), roots: vec![] });
            }
            Op::Reduce { kind, axes } => {
                let input = node.inputs[0];
                let shape = &draft.nodes[input].shape;
                let identity = Access::identity(shape);
                let folded: Vec<usize> = axes.iter().filter_map(|&a| identity.loop_axis(a)).collect();
                // strides of the result, 0 along folded axes
                let kept = identity.through_broadcast(&node.shape);
                let (offset, strides) = kept.strides(&node.shape, draft.loop_space(input).len());
                let target = Target { node: id, offset, strides };
                let root = Root { value: input, defines: Some(id), fold: Some((*kind, folded)), target };
                kernels.push(Kernel { body: Body::Loop(draft.loop_space(input)), roots: vec![root] });
            }
            Op::Join { at: starts, step } => {
                for (&part, starts) in node.inputs.iter().zip(starts) {
                    let shape = &draft.nodes[part].shape;
                    let mut at = Access::identity(shape);
                    for (axis, (start, step)) in at.0.iter_mut().zip(starts.iter().zip(step)) {
                        *axis = axis.times(*step);
                        axis.start = *start;
                    }
                    if shape.elements() == 0 {
                        continue;
                    }
                    let (offset, strides) = at.strides(&node.shape, draft.loop_space(part).len());
                    let target = Target { node: id, offset, strides };
                    let root = Root { value: part, defines: None, fold: None, target };
                    kernels.push(Kernel { body: Body::Loop(draft.loop_space(part)), roots: vec![root] });
                }
            }
            Op::Transpose { perm } if draft.is_unstored_product(node.inputs[0]) => {
                let product = node.inputs[0];
                let shape = &draft.nodes[product].shape;
                // where each axis of the product is in the result
                let mut place = vec![0; perm.len()];
                perm.iter().enumerate().for_each(|(to, &from)| place[from] = to);
                let at = Access::identity(shape).through_transpose(&place);
                let (offset, strides) = at.strides(&node.shape, draft.loop_space(product).len());
                let target = Target { node: id, offset, strides };
                let root = Root { value: product, defines: Some(id), fold: None, target };
                kernels.push(Kernel { body: Body::Matmul(product), roots: vec![root] });
            }
            _ => {
                let root = Root { value: id, defines: Some(id), fold: None, target: draft.whole(id, target) };
                kernels.push(Kernel { body: Body::Loop(draft.loop_space(id)), roots: vec![root] });
            }
        }
    }
    for &(leaf, value) in &draft.updates {
        if targets.get(&value) != Some(&leaf) && leaf != value {
            let root = Root { value, defines: None, fold: None, target: draft.whole(value, leaf) };
            kernels.push(Kernel { body: Body::Loop(draft.loop_space(value)), roots: vec![root] });
        }
    }
    draft.kernels = kernels;
}

/// Updates whose value can be written straight over the leaf: made by a map op, for this leaf alone, not read under a name. From the
/// value to the leaf.
fn update_targets(draft: &Draft) -> HashMap<NodeId, NodeId> {
    let named = draft.named();
    let mut times: HashMap<NodeId, usize> = HashMap::new();
    draft.updates.iter().for_each(|u| *times.entry(u.1).or_default() += 1);
    let direct = |&&(_, value): &&(NodeId, NodeId)| {
        let map = matches!(draft.nodes[value].op, Op::Map { .. }) && draft.stored.contains(&value);
        map && times[&value] == 1 && !named.contains(&value) && !draft.gathered.contains_key(&value)
    };
    draft.updates.iter().filter(direct).map(|&(leaf, value)| (value, leaf)).collect()
}

/// Which loops `merge_loops` may join.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// One of the two updates a parameter or state: the optimiser's pass takes the probes' folds along.
    Updates,
    /// Neither folds: what a product's registers can take should not wait for a fold.
    Plain,
    Any,
}

/// Pass `merge_loops`: loops over the same space that share a load, or feed one another element by element, become one, as long
/// as the longest chain of kernels does not grow.
pub fn merge_loops(draft: &mut Draft, join: Join) {
    let mut links = Links::new(draft);
    for i in 0..draft.kernels.len() {
        let mergeable = |k: usize, links: &Links| !links.is_gone(k) && matches!(draft.kernels[k].body, Body::Loop(_));
        if !mergeable(i, &links) {
            continue;
        }
        // what was refused before may fit after a merge
        while let Some((j, kernel)) = first_merge(draft, &links, join, i) {
            draft.kernels[i] = kernel;
            links.merged(draft, i, j);
        }
    }
    links.sweep(draft);
}

fn first_merge(draft: &Draft, links: &Links, join: Join, i: usize) -> Option<(usize, Kernel)> {
    links.neighbours(draft, i).into_iter().find_map(|j| merged(draft, links, join, i, j).map(|kernel| (j, kernel)))
}

fn merged(draft: &Draft, links: &Links, join: Join, i: usize, j: usize) -> Option<Kernel> {
    let (a, b) = (&draft.kernels[i], &draft.kernels[j]);
    let (Body::Loop(space), Body::Loop(other)) = (&a.body, &b.body) else { return None };
    if space != other {
        return None;
    }
    let roots = || a.roots.iter().chain(&b.roots);
    let allowed = match join {
        Join::Updates => roots().any(|r| draft.is_given(r.target.node)),
        Join::Plain => roots().all(|r| r.fold.is_none()),
        Join::Any => true,
    };
    let apart = roots().any(|r| r.fold.is_some() && draft.apart.contains(&r.value));
    // a copy of integers moves bits; an expression reads numbers
    let apart = apart || roots().any(|r| draft.nodes[r.target.node].dtype != DType::F32);
    if !allowed || apart || !folds_agree(a, b) {
        return None;
    }
    let feeds = |k: &Kernel, to: usize| k.roots.iter().any(|r| r.defines.is_some_and(|d| links.reads(to, d)));
    let shared = links.shared(i, j).any(|n| space.is_empty() || draft.nodes[n].shape.elements() > 1);
    // a call costs more than the work on one number
    let scalars = space.is_empty() && links.in_one_wave(i, j);
    if !(feeds(a, j) || feeds(b, i) || shared || scalars)
        || links.lengthens(draft, i, j)
        || links.meet_elsewhere(draft, i, j)
    {
        return None;
    }
    joined(draft, a, b, &[])
}

/// Both kernels in one, unless an iteration would need what another one makes or overwrites.
fn joined(draft: &Draft, a: &Kernel, b: &Kernel, read_by_product: &[NodeId]) -> Option<Kernel> {
    let roots = a.roots.iter().chain(&b.roots).cloned().collect();
    let kernel = Kernel { body: a.body.clone(), roots };
    let loads = draft.loads(&kernel).ok()?;
    // an update in place may read the old value only at the element it writes
    let clobbers = kernel.roots.iter().any(|r| {
        let whole = Access::identity(&draft.nodes[r.target.node].shape);
        let read_elsewhere = |(n, at): &(NodeId, Access)| *n == r.target.node && *at != whole;
        read_by_product.contains(&r.target.node) || loads.iter().any(read_elsewhere)
    });
    (!clobbers && loads.len() + kernel.roots.len() <= MOST_OPERANDS).then_some(kernel)
}

/// All folds of a kernel run over the same axes.
fn folds_agree(a: &Kernel, b: &Kernel) -> bool {
    let mut sets = a.roots.iter().chain(&b.roots).filter_map(|r| r.fold.as_ref().map(|f| &f.1));
    sets.next().is_none_or(|first| sets.all(|s| s == first))
}

/// Pass `fuse_epilogues`: a loop without folds that reads a product element by element runs on the product's registers.
pub fn fuse_epilogues(draft: &mut Draft) {
    let mut links = Links::new(draft);
    for i in 0..draft.kernels.len() {
        let Body::Matmul(product) = draft.kernels[i].body else { continue };
        let found = links.readers(product).iter().find_map(|&j| epilogue(draft, &links, i, j, product).map(|k| (j, k)));
        if let Some((j, kernel)) = found {
            draft.kernels[i] = kernel;
            links.merged(draft, i, j);
        }
    }
    links.sweep(draft);
}

fn epilogue(draft: &Draft, links: &Links, i: usize, j: usize, product: NodeId) -> Option<Kernel> {
    let (a, b) = (&draft.kernels[i], &draft.kernels[j]);
    let Body::Loop(space) = &b.body else { return None };
    let same_axes = b.roots.iter().all(|r| draft.nodes[r.value].shape == draft.nodes[product].shape);
    let folds = b.roots.iter().any(|r| r.fold.is_some());
    if folds || !same_axes || *space != draft.loop_space(product) || links.meet_elsewhere(draft, i, j) {
        return None;
    }
    let numbers = links.loads[j].iter().all(|(n, _)| draft.nodes[*n].dtype == DType::F32);
    if !numbers {
        return None;
    }
    // a product must not wait for what only its epilogue needs: two halves of a sum run side by side
    if links.waits_longer(j, i) {
        return None;
    }
    let operands: Vec<NodeId> = draft.nodes[product].inputs.iter().map(|&n| draft.base(n)).collect();
    joined(draft, a, b, &operands)
}

/// Pass `drop_unread`: what only its own kernel reads, in registers, is never written.
pub fn drop_unread(draft: &mut Draft) {
    let links = Links::new(draft);
    let named = draft.named();
    for i in 0..draft.kernels.len() {
        let read_elsewhere = |n: NodeId| links.readers(n).iter().any(|&j| j != i);
        let needed = |r: &Root| match r.defines {
            Some(made) if made == r.target.node => named.contains(&made) || read_elsewhere(made),
            _ => true,
        };
        let gone: Vec<NodeId> =
            draft.kernels[i].roots.iter().filter(|r| !needed(r)).filter_map(|r| r.defines).collect();
        // a fold keeps its root: its kernel's axes are arranged by it
        let folds = |n: NodeId| draft.kernels[i].roots.iter().any(|r| r.defines == Some(n) && r.fold.is_some());
        let gone: Vec<NodeId> = gone.into_iter().filter(|&n| !folds(n)).collect();
        if gone.len() < draft.kernels[i].roots.len() {
            draft.kernels[i].roots.retain(|r| r.defines.is_none_or(|n| !gone.contains(&n)));
            gone.iter().for_each(|n| {
                draft.stored.remove(n);
            });
        }
    }
}
