//! A range of one axis.

use super::Vjp;
use crate::{Op, Tensor};

impl Tensor {
    /// Elements `start..end` along `axis`.
    #[track_caller]
    pub fn slice(&self, axis: usize, start: usize, end: usize) -> Tensor {
        let mut dims = self.dims();
        if axis >= dims.len() || start > end || end > dims[axis] {
            self.fail("slice", format!("{start}..{end} of axis {axis} is outside {}", self.shape()));
            return self.clone();
        }
        if start == 0 && end == dims[axis] {
            return self.clone();
        }
        dims[axis] = end - start;
        self.graph().add(Op::Slice { axis, start }, &[self.id()], dims.into(), self.dtype())
    }
}

/// The gradient put back in its place between zeros.
pub(super) fn vjp(v: &Vjp, axis: usize, start: usize) -> Vec<Option<Tensor>> {
    let (whole, part) = (v.x[0].dims(), v.dy.dims());
    let zeros = |size: usize| {
        let mut dims = part.clone();
        dims[axis] = size;
        v.dy.graph().full(0.0, &dims)
    };
    let pieces = [zeros(start), v.dy.clone(), zeros(whole[axis] - start - part[axis])];
    let pieces: Vec<Tensor> = pieces.into_iter().filter(|p| p.dims()[axis] > 0).collect();
    vec![Some(Tensor::concat(&pieces, axis))]
}
