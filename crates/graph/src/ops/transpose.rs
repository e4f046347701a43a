//! Axes in another order.

use super::Vjp;
use crate::{Op, Tensor};

impl Tensor {
    /// Axis `i` of the result is axis `perm[i]` of `self`.
    #[track_caller]
    pub fn transpose(&self, perm: &[usize]) -> Tensor {
        let dims = self.dims();
        let mut sorted = perm.to_vec();
        sorted.sort_unstable();
        if sorted != (0..dims.len()).collect::<Vec<_>>() {
            self.fail("transpose", format!("{perm:?} is not an order of the {} axes of {}", dims.len(), self.shape()));
            return self.clone();
        }
        let graph = self.graph().clone();
        // a transpose of a transpose is one transpose, or none
        let (source, perm) = {
            let inner = graph.0.borrow();
            match &inner.nodes[self.id()].op {
                Op::Transpose { perm: first } => {
                    (inner.nodes[self.id()].inputs[0], perm.iter().map(|&p| first[p]).collect::<Vec<_>>())
                }
                _ => (self.id(), perm.to_vec()),
            }
        };
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            return graph.tensor(source);
        }
        // an axis of size 1 can be anywhere
        let dims = graph.tensor(source).dims();
        let wide: Vec<usize> = perm.iter().copied().filter(|&p| dims[p] != 1).collect();
        if wide.is_sorted() {
            return graph.tensor(source).reshape(&perm.iter().map(|&p| dims[p]).collect::<Vec<_>>());
        }
        let shape = perm.iter().map(|&p| graph.tensor(source).dims()[p]).collect::<Vec<_>>().into();
        graph.add(Op::Transpose { perm }, &[source], shape, self.dtype())
    }

    /// Swaps the last two axes.
    #[track_caller]
    pub fn t(&self) -> Tensor {
        let rank = self.rank();
        if rank < 2 {
            self.fail("t", format!("needs two axes, {} has {rank}", self.shape()));
            return self.clone();
        }
        let mut perm: Vec<usize> = (0..rank).collect();
        perm.swap(rank - 2, rank - 1);
        self.transpose(&perm)
    }
}

pub(super) fn vjp(v: &Vjp, perm: &[usize]) -> Vec<Option<Tensor>> {
    let mut back = vec![0; perm.len()];
    for (i, &p) in perm.iter().enumerate() {
        back[p] = i;
    }
    vec![Some(v.dy.transpose(&back))]
}
