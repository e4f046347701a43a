//! Overlapping windows along an axis, without a copy.

use super::Vjp;
use crate::{Op, Tensor};

impl Tensor {
    /// Windows of `size` elements along `axis`, `stride` apart, their elements `dilation` apart. The axis becomes two: which
    /// window, and which of its elements. Elements behind the last whole window are left out.
    #[track_caller]
    pub fn windows(&self, axis: usize, size: usize, stride: usize, dilation: usize) -> Tensor {
        let mut dims = self.dims();
        let reach = dilation * size.saturating_sub(1) + 1;
        let problem = match dims.get(axis) {
            None => Some(format!("no axis {axis} in {}", self.shape())),
            Some(_) if size == 0 || stride == 0 || dilation == 0 => {
                Some(format!("size {size}, stride {stride} and dilation {dilation} must be at least 1"))
            }
            Some(&length) if reach > length => Some(format!(
                "a window that reaches over {reach} elements, axis {axis} of {} has {length}",
                self.shape()
            )),
            Some(_) => None,
        };
        if let Some(problem) = problem {
            self.fail("windows", problem);
            return self.clone();
        }
        let count = (dims[axis] - reach) / stride + 1;
        dims[axis] = count;
        dims.insert(axis + 1, size);
        self.graph().add(Op::Windows { axis, stride, dilation }, &[self.id()], dims.into(), self.dtype())
    }

    /// `zeros` zeros between each two neighbours along an axis.
    #[track_caller]
    pub fn spread(&self, axis: usize, zeros: usize) -> Tensor {
        let dims = self.dims();
        if zeros == 0 || axis >= dims.len() || dims[axis] < 2 {
            return self.clone();
        }
        let mut alone = dims.clone();
        alone.insert(axis + 1, 1);
        let mut padding = vec![(0, 0); alone.len()];
        padding[axis + 1].1 = zeros;
        let mut wide = dims.clone();
        wide[axis] *= zeros + 1;
        self.reshape(&alone).pad(&padding).reshape(&wide).slice(axis, 0, wide[axis] - zeros)
    }
}

/// Each element gets the sum over the windows that hold it: for the j-th elements of all windows, dy at every `stride`-th place
/// from `dilation·j` on.
pub(super) fn vjp(v: &Vjp, axis: usize, stride: usize, dilation: usize) -> Vec<Option<Tensor>> {
    let (from, windows) = (v.x[0].dims(), v.dy.dims());
    let (count, size, length) = (windows[axis], windows[axis + 1], from[axis]);
    let mut flat = from.clone();
    flat[axis] = count * size;
    if stride == size && dilation == 1 {
        // each element is in one window at most
        let mut padding = vec![(0, 0); from.len()];
        padding[axis].1 = length - count * size;
        return vec![Some(v.dy.reshape(&flat).pad(&padding))];
    }
    flat[axis] = count;
    let share = |j: usize| {
        let spread = v.dy.slice(axis + 1, j, j + 1).reshape(&flat).spread(axis, stride - 1);
        let mut padding = vec![(0, 0); from.len()];
        padding[axis] = (dilation * j, length - dilation * j - spread.dims()[axis]);
        spread.pad(&padding)
    };
    vec![(0..size).map(share).reduce(|a, b| a + b)]
}
