//! Attention has no way to know which axis is the batch: `[batch,tokens,width]` and `[tokens,batch,width]` are equally good shapes. A
//! loss knows: its first axis is the rows. So layers note along which axis their results have seen one another, and a loss looks
//! whether the rows of its prediction come from there.

use std::collections::HashSet;

use crate::error::{Place, TraceError};
use crate::graph::Inner;
use crate::{Graph, NodeId, Op, Tensor};

/// Places along `axis` of a value have seen one another.
#[derive(Clone, Debug)]
pub(crate) struct Mixed {
    value: NodeId,
    axis: usize,
    place: Place,
}

impl Graph {
    /// Notes that the places along `axis` of `value` have seen one another in this layer, as tokens do by attention.
    #[track_caller]
    pub fn note_mixed(&self, value: &Tensor, axis: usize) {
        let place = self.place_here();
        self.0.borrow_mut().mixed.push(Mixed { value: value.id(), axis, place });
    }

    /// Warns where the rows of a prediction, its first axis, have seen one another: then the layer was given another order of axes
    /// than it takes, and what it says of a row depends on the rest of the batch.
    pub fn warn_of_mixed_rows(&self, prediction: &Tensor) {
        let found = {
            let inner = self.0.borrow();
            if inner.mixed.is_empty() || prediction.rank() == 0 { None } else { met(&inner, prediction.id()) }
        };
        let Some(Mixed { value, axis, place }) = found else { return };
        let shape = self.tensor(value).shape();
        let problem = format!(
            "attends along axis {axis} of {shape}, which holds the rows of the batch where the loss is taken: every row sees the others. \
             Say batch_first(true) for [batch,tokens,width] and batch_first(false) for [tokens,batch,width], or transpose(&[1, 0, 2])"
        );
        self.warn(TraceError { op: "attention".to_owned(), place, problem });
    }
}

/// Walks back from the first axis of `prediction` to where its places have met, if they have.
fn met(inner: &Inner, prediction: NodeId) -> Option<Mixed> {
    let (mut open, mut seen) = (vec![(prediction, 0)], HashSet::new());
    while let Some((id, axis)) = open.pop() {
        if !seen.insert((id, axis)) {
            continue;
        }
        if let Some(mixed) = inner.mixed.iter().find(|m| (m.value, m.axis) == (id, axis)) {
            return Some(mixed.clone());
        }
        open.extend(sources(inner, id, axis));
    }
    None
}

/// The axes of a node's inputs that its axis is made of, where that is plain.
fn sources(inner: &Inner, id: NodeId, axis: usize) -> Vec<(NodeId, usize)> {
    let node = &inner.nodes[id];
    let (dims, inputs) = (node.shape.dims(), &node.inputs);
    let of = |input: usize| inner.nodes[inputs[input]].shape.dims();
    let all = || inputs.iter().map(|&input| (input, axis)).collect();
    match &node.op {
        Op::Map { .. } | Op::Join { .. } => all(),
        Op::Detach | Op::Custom { .. } | Op::Cast | Op::Slice { .. } => vec![(inputs[0], axis)],
        Op::Transpose { perm } => vec![(inputs[0], perm[axis])],
        Op::Reduce { axes, .. } if !axes.contains(&axis) => vec![(inputs[0], axis)],
        Op::Broadcast => {
            let own = (axis + of(0).len()).checked_sub(dims.len());
            own.filter(|&own| of(0)[own] == dims[axis]).map(|own| (inputs[0], own)).into_iter().collect()
        }
        Op::Reshape => {
            let before = |dims: &[usize], axis: usize| dims[..axis].iter().product::<usize>();
            // beside an axis of size 1 a merge looks like a squeeze, unless that axis is what a sum has left
            let summed = matches!(inner.nodes[inputs[0]].op, Op::Reduce { .. });
            let same = |&own: &usize| {
                let plain = own == axis || summed || !(of(0)[..own].contains(&1) || dims[..axis].contains(&1));
                of(0)[own] == dims[axis] && before(of(0), own) == before(dims, axis) && plain
            };
            (0..of(0).len()).find(same).map(|own| (inputs[0], own)).into_iter().collect()
        }
        Op::Matmul { ta, tb, inner: 1 } => {
            let last = dims.len() - 1;
            match axis {
                axis if axis == last => vec![(inputs[1], of(1).len() - if *tb { 2 } else { 1 })],
                axis if axis + 1 == last => vec![(inputs[0], of(0).len() - if *ta { 1 } else { 2 })],
                axis => (0..2).filter(|&i| of(i).len() == dims.len()).map(|i| (inputs[i], axis)).collect(),
            }
        }
        Op::GatherRows => {
            let lead = of(1).len();
            vec![if axis < lead { (inputs[1], axis) } else { (inputs[0], axis - lead + 1) }]
        }
        // others are not told apart: what is not sure is no warning
        _ => Vec::new(),
    }
}
