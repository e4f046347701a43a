//! How the index of a node follows from the index of the loop that computes it. Views (broadcast, transpose, slice, reshape)
//! never move bytes: they only change this.

use citius_graph::Shape;

/// For each axis of a node: which loop axis it follows, if any, and where it starts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Access(pub Vec<Axis>);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Axis {
    pub follows: Option<usize>,
    pub start: usize,
}

const FIXED: Axis = Axis { follows: None, start: 0 };

impl Access {
    /// The loop walks exactly this shape; axes of size 1 are not loop axes.
    pub fn identity(shape: &Shape) -> Access {
        let mut next = 0;
        let axis = |&size: &usize| {
            if size == 1 {
                return FIXED;
            }
            next += 1;
            Axis { follows: Some(next - 1), start: 0 }
        };
        Access(shape.dims().iter().map(axis).collect())
    }

    pub fn through_broadcast(&self, from: &Shape) -> Access {
        let extra = self.0.len() - from.rank();
        let axis = |(i, &size): (usize, &usize)| if size == 1 { FIXED } else { self.0[i + extra] };
        Access(from.dims().iter().enumerate().map(axis).collect())
    }

    pub fn through_transpose(&self, perm: &[usize]) -> Access {
        let mut axes = vec![FIXED; perm.len()];
        for (i, &p) in perm.iter().enumerate() {
            axes[p] = self.0[i];
        }
        Access(axes)
    }

    pub fn through_slice(&self, axis: usize, start: usize) -> Access {
        let mut access = self.clone();
        access.0[axis].start += start;
        access
    }

    /// `None` when the reshape does more than add or drop axes of size 1.
    pub fn through_reshape(&self, to: &Shape, from: &Shape) -> Option<Access> {
        only_ones_differ(to, from).then(|| {
            let mut wide = self.0.iter().zip(to.dims()).filter(|(_, d)| **d != 1).map(|(a, _)| *a);
            let axis = |&size: &usize| if size == 1 { FIXED } else { wide.next().unwrap_or(FIXED) };
            Access(from.dims().iter().map(axis).collect())
        })
    }

    /// (offset, stride for each loop axis) into a contiguous tensor of this shape.
    pub fn strides(&self, shape: &Shape, loop_axes: usize) -> (usize, Vec<usize>) {
        let (mut offset, mut strides) = (0, vec![0; loop_axes]);
        for (axis, step) in self.0.iter().zip(shape.strides()) {
            offset += axis.start * step;
            if let Some(l) = axis.follows {
                strides[l] += step;
            }
        }
        (offset, strides)
    }
}

/// The sizes of the loop that walks `shape`.
pub fn loop_axes(shape: &Shape) -> Vec<usize> {
    shape.dims().iter().copied().filter(|&d| d != 1).collect()
}

pub fn only_ones_differ(a: &Shape, b: &Shape) -> bool {
    loop_axes(a) == loop_axes(b)
}
