//! Sum, mean and maximum over any axes.

use super::Vjp;
use crate::{DType, Op, Tensor};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reduction {
    Sum,
    Max,
}

impl Tensor {
    #[track_caller]
    pub fn sum(&self, axes: &[usize], keepdims: bool) -> Tensor {
        self.reduce(Reduction::Sum, axes, keepdims)
    }

    #[track_caller]
    pub fn mean(&self, axes: &[usize], keepdims: bool) -> Tensor {
        let dims = self.dims();
        let count: usize = axes.iter().filter_map(|&a| dims.get(a)).product();
        if count == 0 {
            self.fail("mean", format!("{} has no elements along axes {axes:?} to take the mean of", self.shape()));
        }
        self.reduce(Reduction::Sum, axes, keepdims) * (1.0 / count.max(1) as f64)
    }

    /// Largest element; among equals the gradient is shared evenly.
    #[track_caller]
    pub fn max(&self, axes: &[usize], keepdims: bool) -> Tensor {
        self.reduce(Reduction::Max, axes, keepdims)
    }

    #[track_caller]
    pub fn sum_all(&self) -> Tensor {
        self.sum(&(0..self.rank()).collect::<Vec<_>>(), false)
    }

    #[track_caller]
    pub fn mean_all(&self) -> Tensor {
        self.mean(&(0..self.rank()).collect::<Vec<_>>(), false)
    }

    #[track_caller]
    fn reduce(&self, kind: Reduction, axes: &[usize], keepdims: bool) -> Tensor {
        let dims = self.dims();
        if self.dtype() != DType::F32 {
            self.fail("reduce", format!("needs f32, got {}; use to_f32()", self.dtype()));
            return self.clone();
        }
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        axes.dedup();
        if let Some(axis) = axes.iter().find(|&&a| a >= dims.len()) {
            self.fail("reduce", format!("no axis {axis} in {}", self.shape()));
            return self.clone();
        }
        if kind == Reduction::Max && axes.iter().any(|&a| dims[a] == 0) {
            self.fail("max", format!("{} has no largest element", self.shape()));
            return self.clone();
        }
        let kept: Vec<usize> = (0..dims.len()).map(|a| if axes.contains(&a) { 1 } else { dims[a] }).collect();
        let rest: Vec<usize> = (0..dims.len()).filter(|a| !axes.contains(a)).map(|a| dims[a]).collect();
        axes.retain(|&a| dims[a] != 1);
        let reduced = match axes.is_empty() {
            true => self.clone(),
            false => self.graph().add(Op::Reduce { kind, axes }, &[self.id()], kept.into(), self.dtype()),
        };
        if keepdims { reduced } else { reduced.reshape(&rest) }
    }
}

pub(super) fn vjp(v: &Vjp, kind: Reduction) -> Vec<Option<Tensor>> {
    let (x, dims) = (&v.x[0], v.x[0].dims());
    let dx = match kind {
        Reduction::Sum => v.dy.broadcast_to(&dims),
        Reduction::Max => {
            let ties = x.eq(&v.y.broadcast_to(&dims));
            let axes: Vec<usize> = (0..dims.len()).filter(|&a| v.y.dims()[a] != dims[a]).collect();
            let count = ties.sum(&axes, true);
            ties * (v.dy / count).broadcast_to(&dims)
        }
    };
    vec![Some(dx)]
}
