//! How the index of a node follows from the index of the loop that computes it. Views (broadcast, transpose, slice, windows,
//! reshape) never move bytes: they only change this.

use citius_graph::Shape;
use smallvec::{SmallVec, smallvec};

/// For each axis of a node: which loop axes it follows, if any, and where it starts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Access(pub Vec<Axis>);

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Axis {
    pub start: usize,
    /// Loop axis, and how far one step of it goes.
    pub follows: SmallVec<[(usize, usize); 2]>,
}

impl Axis {
    /// One loop axis, step by step.
    pub fn along(axis: usize) -> Axis {
        Axis { start: 0, follows: smallvec![(axis, 1)] }
    }

    pub fn times(&self, factor: usize) -> Axis {
        let follows = self.follows.iter().map(|&(axis, step)| (axis, step * factor)).collect();
        Axis { start: self.start * factor, follows }
    }

    fn plus(mut self, other: Axis) -> Axis {
        self.start += other.start;
        self.follows.extend(other.follows);
        self
    }
}

impl Access {
    /// The loop walks exactly this shape; axes of size 1 are not loop axes.
    pub fn identity(shape: &Shape) -> Access {
        let mut next = 0;
        let axis = |&size: &usize| {
            if size == 1 {
                return Axis::default();
            }
            next += 1;
            Axis::along(next - 1)
        };
        Access(shape.dims().iter().map(axis).collect())
    }

    /// The loop axis that an axis of an identity is.
    pub fn loop_axis(&self, axis: usize) -> Option<usize> {
        self.0[axis].follows.first().map(|f| f.0)
    }

    pub fn through_broadcast(&self, from: &Shape) -> Access {
        let extra = self.0.len() - from.rank();
        let axis = |(i, &size): (usize, &usize)| if size == 1 { Axis::default() } else { self.0[i + extra].clone() };
        Access(from.dims().iter().enumerate().map(axis).collect())
    }

    pub fn through_transpose(&self, perm: &[usize]) -> Access {
        let mut axes = vec![Axis::default(); perm.len()];
        for (i, &p) in perm.iter().enumerate() {
            axes[p] = self.0[i].clone();
        }
        Access(axes)
    }

    pub fn through_slice(&self, axis: usize, start: usize) -> Access {
        let mut access = self.clone();
        access.0[axis].start += start;
        access
    }

    pub fn through_windows(&self, axis: usize, stride: usize, dilation: usize) -> Access {
        let mut axes = self.0.clone();
        let within = axes.remove(axis + 1).times(dilation);
        axes[axis] = axes[axis].times(stride).plus(within);
        Access(axes)
    }

    /// `None` when the reshape does more than add or drop axes of size 1.
    pub fn through_reshape(&self, to: &Shape, from: &Shape) -> Option<Access> {
        only_ones_differ(to, from).then(|| {
            let mut wide = self.0.iter().zip(to.dims()).filter(|(_, d)| **d != 1).map(|(a, _)| a.clone());
            let axis = |&size: &usize| if size == 1 { Axis::default() } else { wide.next().unwrap_or_default() };
            Access(from.dims().iter().map(axis).collect())
        })
    }

    /// (offset, stride for each loop axis) into a contiguous tensor of this shape.
    pub fn strides(&self, shape: &Shape, loop_axes: usize) -> (usize, Vec<usize>) {
        let (mut offset, mut strides) = (0, vec![0; loop_axes]);
        for (axis, step) in self.0.iter().zip(shape.strides()) {
            offset += axis.start * step;
            for &(l, steps) in &axis.follows {
                strides[l] += step * steps;
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
