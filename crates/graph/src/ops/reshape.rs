//! The same elements in the same order under another shape.

use crate::{Op, Shape, Tensor};

impl Tensor {
    #[track_caller]
    pub fn reshape(&self, dims: &[usize]) -> Tensor {
        let (from, to) = (self.shape(), Shape::new(dims));
        if from == to {
            return self.clone();
        }
        if from.elements() != to.elements() {
            self.fail("reshape", format!("{from} has {} elements, {to} has {}", from.elements(), to.elements()));
            return self.graph().full(0.0, dims);
        }
        let graph = self.graph().clone();
        let source = {
            let inner = graph.0.borrow();
            match inner.nodes[self.id()].op {
                Op::Reshape => inner.nodes[self.id()].inputs[0],
                _ => self.id(),
            }
        };
        if graph.tensor(source).shape() == to {
            return graph.tensor(source);
        }
        graph.add(Op::Reshape, &[source], to, self.dtype())
    }

    /// Of `[n,features]` that were flattened from a transpose which leaves the first axis in place: what was transposed, and how.
    pub fn flattened_from(&self) -> Option<(Tensor, Vec<usize>)> {
        let inner = self.graph().0.borrow();
        let flat = &inner.nodes[self.id()];
        let [rows, _] = flat.shape.dims() else { return None };
        let turned = &inner.nodes[*flat.inputs.first().filter(|_| matches!(flat.op, Op::Reshape))?];
        match &turned.op {
            Op::Transpose { perm } if perm[0] == 0 && turned.shape.dims()[0] == *rows => {
                Some((self.graph().tensor(turned.inputs[0]), perm.clone()))
            }
            _ => None,
        }
    }

    /// The axes that were merged into the last of `[rows,…]`, if a reshape made it of several.
    pub fn merged_axes(&self) -> Option<Vec<usize>> {
        let inner = self.graph().0.borrow();
        let flat = &inner.nodes[self.id()];
        let before = inner.nodes[*flat.inputs.first().filter(|_| matches!(flat.op, Op::Reshape))?].shape.dims();
        let (last, lead) = flat.shape.dims().split_last()?;
        let merged = before.strip_prefix(lead)?;
        (merged.len() > 1 && merged.iter().product::<usize>() == *last).then(|| merged.to_vec())
    }

    /// Keeps the first `axes` axes and merges the rest into one: `[n,c,h,w].flatten(1)` is `[n,c·h·w]`.
    #[track_caller]
    pub fn flatten(&self, axes: usize) -> Tensor {
        let dims = self.dims();
        let keep = axes.min(dims.len());
        let mut to = dims[..keep].to_vec();
        to.push(dims[keep..].iter().product());
        self.reshape(&to)
    }
}
