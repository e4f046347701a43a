//! Tensors one after the other along an axis.

use super::Vjp;
use crate::{Op, Tensor};

impl Tensor {
    /// `parts` must be at least one tensor; all but `axis` must agree.
    #[track_caller]
    pub fn concat(parts: &[Tensor], axis: usize) -> Tensor {
        let first = &parts[0];
        let mut dims = first.dims();
        for (i, part) in parts.iter().enumerate() {
            let other = part.dims();
            let fits = axis < dims.len()
                && other.len() == dims.len()
                && part.dtype() == first.dtype()
                && (0..dims.len()).all(|a| a == axis || other[a] == dims[a]);
            if !fits {
                let problem = format!(
                    "part {i} is {} {}, part 0 is {} {}: all axes but {axis} must agree",
                    part.dtype(),
                    part.shape(),
                    first.dtype(),
                    first.shape()
                );
                first.fail("concat", problem);
                return first.clone();
            }
        }
        if parts.len() == 1 {
            return first.clone();
        }
        dims[axis] = parts.iter().map(|p| p.dims()[axis]).sum();
        let ids: Vec<_> = parts.iter().map(|p| p.id()).collect();
        first.graph().add(Op::Concat { axis }, &ids, dims.into(), first.dtype())
    }
}

pub(super) fn vjp(v: &Vjp, axis: usize) -> Vec<Option<Tensor>> {
    let mut start = 0;
    v.x.iter()
        .map(|x| {
            let end = start + x.dims()[axis];
            let part = v.dy.slice(axis, start, end);
            start = end;
            Some(part)
        })
        .collect()
}
