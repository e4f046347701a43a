//! Pass `read_inside_padding`: a value that is stored between zeros need not be stored once more for the products that read it without
//! them. The gradient of a convolution's result is such a one: the gradient of its input sees it padded, that of its kernel plain.

use std::collections::HashSet;

use citius_graph::{NodeId, Op};

use crate::access;
use crate::draft::{Draft, DraftNode};
use crate::materialise::constant;

/// Products read the inside of what is joined, where they read its one part that is not a number.
pub fn read_inside_padding(draft: &mut Draft) {
    let users = draft.users();
    let kept = draft.kept();
    for joined in draft.order() {
        let Some((part, at)) = padded(draft, joined, &kept) else { continue };
        let readers: Vec<NodeId> = users[part].iter().copied().filter(|&user| user != joined).collect();
        // whoever else reads it wants it plain, and products may have it so as well
        if readers.is_empty() || !readers.iter().all(|&reader| for_products(draft, &users, reader)) {
            continue;
        }
        let inside = inside(draft, joined, part, &at);
        for reader in readers {
            draft.nodes[reader].inputs.iter_mut().filter(|input| **input == part).for_each(|input| *input = inside);
        }
    }
}

/// The part that is no number, and where it begins.
fn padded(draft: &Draft, joined: NodeId, kept: &HashSet<NodeId>) -> Option<(NodeId, Vec<usize>)> {
    let node = &draft.nodes[joined];
    let Op::Join { at, step } = &node.op else { return None };
    let mut parts = node.inputs.iter().zip(at).filter(|(part, _)| constant(draft, **part).is_none());
    let (part, at) = parts.next().filter(|_| step.iter().all(|step| *step == 1))?;
    // rows that are longer begin where no sixteen bytes do
    let rows = node.shape.dims().last() == draft.nodes[*part].shape.dims().last();
    (parts.next().is_none() && rows && !has_bytes(draft, *part, kept)).then(|| (*part, at.clone()))
}

/// Whether it is in memory in any case: nothing would be saved.
fn has_bytes(draft: &Draft, id: NodeId, kept: &HashSet<NodeId>) -> bool {
    kept.contains(&id) || !matches!(draft.nodes[id].op, Op::Map { .. } | Op::Matmul { .. })
}

/// Whether it is a product, or a view that only products read.
fn for_products(draft: &Draft, users: &[Vec<NodeId>], id: NodeId) -> bool {
    let node = &draft.nodes[id];
    let view = match node.op {
        Op::Matmul { .. } => return true,
        Op::Transpose { .. } | Op::Broadcast => true,
        Op::Reshape => access::only_ones_differ(&node.shape, &draft.nodes[node.inputs[0]].shape),
        _ => false,
    };
    view && !users[id].is_empty() && users[id].iter().all(|&user| for_products(draft, users, user))
}

/// A view of the part where it is joined.
fn inside(draft: &mut Draft, joined: NodeId, part: NodeId, at: &[usize]) -> NodeId {
    let like = draft.nodes[joined].clone();
    let mut view = joined;
    for (axis, &start) in at.iter().enumerate() {
        let mut dims = draft.nodes[view].shape.dims().to_vec();
        let size = draft.nodes[part].shape.dims()[axis];
        if dims[axis] != size {
            dims[axis] = size;
            let op = Op::Slice { axis, start };
            view = draft.push(DraftNode { op, inputs: vec![view], shape: dims.into(), ..like.clone() });
        }
    }
    view
}
