//! Stretching axes of size 1 (and adding axes on the left).

use super::Vjp;
use crate::{Op, Shape, Tensor};

impl Tensor {
    #[track_caller]
    pub fn broadcast_to(&self, dims: &[usize]) -> Tensor {
        let (from, to) = (self.shape(), Shape::new(dims));
        if from == to {
            return self.clone();
        }
        if Shape::broadcast(&from, &to).as_ref() != Some(&to) {
            self.fail(
                "broadcast",
                format!("{from} does not stretch to {to}: each axis, from the right, must be equal or 1"),
            );
            return self.graph().full(0.0, dims);
        }
        let graph = self.graph().clone();
        // a stretch of a stretch is one stretch
        let source = {
            let inner = graph.0.borrow();
            match inner.nodes[self.id()].op {
                Op::Broadcast => inner.nodes[self.id()].inputs[0],
                _ => self.id(),
            }
        };
        graph.add(Op::Broadcast, &[source], to, self.dtype())
    }

    /// Sums the axes that a broadcast from `dims` had stretched.
    #[track_caller]
    pub(crate) fn sum_to(&self, dims: &[usize]) -> Tensor {
        let from = self.dims();
        let extra = from.len() - dims.len();
        let stretched = |&axis: &usize| axis < extra || (dims[axis - extra] == 1 && from[axis] != 1);
        let axes: Vec<usize> = (0..from.len()).filter(stretched).collect();
        match axes.is_empty() {
            true => self.reshape(dims),
            false => self.sum(&axes, true).reshape(dims),
        }
    }
}

pub(super) fn vjp(v: &Vjp) -> Vec<Option<Tensor>> {
    vec![Some(v.dy.sum_to(v.x[0].shape().dims()))]
}
