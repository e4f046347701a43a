//! The rules every graph obeys, checked after tracing and after each pass that rewrites one.

use crate::ops::{Op, recurrence};
use crate::{DType, Graph, LeafKind, Shape};

impl Graph {
    /// `Err` says which node breaks which rule. A failure here is a mistake of ours, not of the user.
    pub fn verify(&self) -> Result<(), String> {
        let inner = self.0.borrow();
        for (id, node) in inner.nodes.iter().enumerate() {
            let broken = |rule: &str| Err(format!("%{id} {}: {rule}", node.op.name()));
            if node.inputs.iter().any(|&i| i >= id) {
                return broken("reads a later node");
            }
            let shape = |i: usize| &inner.nodes[node.inputs[i]].shape;
            let dtype = |i: usize| inner.nodes[node.inputs[i]].dtype;
            let inputs = match &node.op {
                Op::Leaf(_) | Op::Step | Op::Constant(_) | Op::Iota => Some(0),
                // one that is drawn a second time waits for its input
                Op::Random { .. } => Some(node.inputs.len().min(1)),
                Op::Map { def, .. } => Some(def.arity),
                Op::Detach | Op::Cast | Op::Broadcast | Op::Reshape | Op::ArgMax => Some(1),
                Op::Transpose { .. } | Op::Slice { .. } | Op::Reduce { .. } => Some(1),
                Op::Matmul { .. } | Op::GatherRows | Op::ScatterRows => Some(2),
                Op::Windows { .. } => Some(1),
                Op::Join { at, .. } => Some(at.len()),
                Op::Custom { .. } => None,
                Op::Recurrence { scan, .. } => Some(scan.inputs()),
                Op::RecurrenceGradient { scan, arriving } => Some(2 + scan.lengths as usize + arriving.count()),
            };
            if inputs.is_some_and(|n| n != node.inputs.len()) {
                return broken("wrong number of inputs");
            }
            let ok = match &node.op {
                Op::Leaf(i) => inner.leaves.get(*i).is_some_and(|l| l.node == id),
                Op::Step | Op::Constant(_) => node.shape.rank() == 0,
                Op::Iota | Op::Random { .. } => node.dtype == DType::F32,
                Op::Map { .. } => (0..node.inputs.len()).all(|i| *shape(i) == node.shape && dtype(i) == DType::F32),
                Op::Detach => *shape(0) == node.shape && dtype(0) == node.dtype,
                Op::Cast => *shape(0) == node.shape && node.dtype == DType::F32,
                Op::Broadcast => Shape::broadcast(shape(0), &node.shape).as_ref() == Some(&node.shape),
                Op::Reshape => shape(0).elements() == node.shape.elements(),
                Op::Transpose { perm } => {
                    perm.len() == node.shape.rank()
                        && perm.iter().enumerate().all(|(i, &p)| node.shape.dims()[i] == shape(0).dims()[p])
                }
                Op::Slice { axis, start } => start + node.shape.dims()[*axis] <= shape(0).dims()[*axis],
                Op::Windows { axis, stride, dilation } => {
                    let (dims, length) = (node.shape.dims(), shape(0).dims()[*axis]);
                    stride * dims[*axis].saturating_sub(1) + dilation * dims[*axis + 1].saturating_sub(1) < length
                }
                Op::Join { at, step } => {
                    let inside = |i: usize| {
                        let fits = |axis: usize| {
                            let size = shape(i).dims()[axis];
                            size == 0 || at[i][axis] + (size - 1) * step[axis] < node.shape.dims()[axis]
                        };
                        at[i].len() == node.shape.rank() && (0..at[i].len()).all(fits)
                    };
                    let elements: usize = (0..at.len()).map(|i| shape(i).elements()).sum();
                    elements == node.shape.elements() && (0..at.len()).all(inside)
                }
                Op::Custom { rule } => *shape(0) == node.shape && dtype(0) == node.dtype && *rule < inner.rules.len(),
                Op::Matmul { inner, .. } if *inner > 1 => {
                    let (a, b, batch) = (shape(0).dims(), shape(1).dims(), node.shape.rank() - 2);
                    a.len() == batch + 1 + inner
                        && b.len() == a.len()
                        && a[batch + 1..] == b[batch..batch + inner]
                        && node.shape.dims()[batch..] == [a[batch], b[batch + inner]]
                }
                Op::Matmul { ta, tb, .. } => {
                    let (a, b, r) = (shape(0).dims(), shape(1).dims(), node.shape.rank());
                    let swap = |d: &[usize], t: bool| if t { (d[r - 1], d[r - 2]) } else { (d[r - 2], d[r - 1]) };
                    a.len() == r && b.len() == r && {
                        let ((m, k), (k2, n)) = (swap(a, *ta), swap(b, *tb));
                        k == k2 && node.shape.dims()[r - 2..] == [m, n]
                    }
                }
                Op::Reduce { axes, .. } => axes.iter().all(|&a| node.shape.dims()[a] == 1),
                Op::ArgMax => node.dtype == DType::I32 && shape(0).dims()[..shape(0).rank() - 1] == *node.shape.dims(),
                Op::GatherRows | Op::ScatterRows => dtype(1) == DType::I32,
                Op::Recurrence { scan, notes } => {
                    let shapes: Vec<Shape> = (0..node.inputs.len()).map(|i| shape(i).clone()).collect();
                    recurrence::fits(scan, &shapes).is_ok() && {
                        let (rows, width) = (shape(0).dims()[0] / scan.steps, shape(1).dims()[0]);
                        *node.shape.dims() == [recurrence::result_rows(scan, rows, width, *notes), width]
                    }
                }
                Op::RecurrenceGradient { scan, .. } => {
                    let (height, width) = (node.shape.dims()[0], shape(1).dims()[0]);
                    height.is_multiple_of(scan.steps + 1) && {
                        let rows = height / (scan.steps + 1);
                        node.shape.dims()[1] == scan.cell.gradients() * width
                            && *shape(0).dims() == [recurrence::result_rows(scan, rows, width, true), width]
                    }
                }
            };
            if !ok {
                return broken("shape or dtype rule");
            }
        }
        for (leaf, value) in &inner.updates {
            let known = inner.leaves.iter().any(|l| l.node == *leaf && l.kind != LeafKind::Input);
            if !known || inner.nodes[*leaf].shape != inner.nodes[*value].shape {
                return Err(format!("%{leaf} <- %{value}: not an assignment to a parameter or state of that shape"));
            }
        }
        Ok(())
    }
}
