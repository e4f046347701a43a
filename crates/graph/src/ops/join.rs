//! Tensors side by side: one after the other along an axis, or between zeros.

use super::Vjp;
use crate::{NodeId, Op, Tensor};

/// What a tensor is joined of: its parts, where each begins, and how far apart its neighbours are.
struct Joined {
    parts: Vec<Tensor>,
    at: Vec<Vec<usize>>,
    step: Vec<usize>,
}

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
            if axis >= dims.len() {
                first.fail("concat", format!("no axis {axis} in {}", first.shape()));
                return first.clone();
            }
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
        let mut start = 0;
        let place = |part: &Tensor| {
            let mut at = vec![0; dims.len()];
            at[axis] = start;
            start += part.dims()[axis];
            at
        };
        let at = parts.iter().map(place).collect();
        dims[axis] = start;
        Tensor::join(parts, at, &dims)
    }

    /// Part i begins at `at[i]`; together they fill `dims`.
    pub(crate) fn join(parts: &[Tensor], at: Vec<Vec<usize>>, dims: &[usize]) -> Tensor {
        Tensor::interleave(parts, at, vec![1; dims.len()], dims)
    }

    /// Part i begins at `at[i]`, its neighbours along axis a are `step[a]` apart; together they fill `dims`.
    pub(crate) fn interleave(parts: &[Tensor], at: Vec<Vec<usize>>, step: Vec<usize>, dims: &[usize]) -> Tensor {
        if parts.len() == 1 {
            return parts[0].clone();
        }
        let ids: Vec<_> = parts.iter().map(|p| p.id()).collect();
        parts[0].graph().add(Op::Join { at, step }, &ids, dims.into(), parts[0].dtype())
    }

    /// The sum of two that are joined alike, part by part: where one has zeros, the other's part is all there is to it. Gradients of strided
    /// convolutions that read the same pictures meet like this: where one of 1×1 is among them, in one phase of four.
    pub(crate) fn joined_sum(&self, other: &Tensor) -> Option<Tensor> {
        let (mine, theirs) = (self.joined()?, other.joined()?);
        let parts = || mine.parts.iter().zip(&theirs.parts);
        if mine.at != theirs.at || mine.step != theirs.step || parts().any(|(a, b)| a.shape() != b.shape()) {
            return None;
        }
        let sum = |(a, b): (&Tensor, &Tensor)| match (a.as_constant(), b.as_constant()) {
            (_, Some(0.0)) => a.clone(),
            (Some(0.0), _) => b.clone(),
            _ => a + b,
        };
        let parts = Vec::from_iter(parts().map(sum));
        let joined = Tensor::interleave(&parts, mine.at.clone(), mine.step.clone(), &self.dims());
        // their own rules hold for gradients of gradients
        Some(joined.with_gradient(&[self, other], |v| vec![Some(v.dy.clone()), Some(v.dy.clone())]))
    }

    fn joined(&self) -> Option<Joined> {
        let tensor = |&id: &NodeId| self.graph().tensor(id);
        let (op, inputs) = {
            let inner = self.graph().0.borrow();
            (inner.nodes[self.id()].op.clone(), inner.nodes[self.id()].inputs.clone())
        };
        match op {
            Op::Join { at, step } => Some(Joined { at, step, parts: inputs.iter().map(tensor).collect() }),
            // the value comes first
            Op::Custom { .. } => tensor(&inputs[0]).joined(),
            _ => None,
        }
    }

    /// So many zeros before and behind, for each axis.
    #[track_caller]
    pub fn pad(&self, zeros: &[(usize, usize)]) -> Tensor {
        self.pad_with(0.0, zeros)
    }

    /// So many elements of this value before and behind, for each axis.
    #[track_caller]
    pub fn pad_with(&self, value: f64, room: &[(usize, usize)]) -> Tensor {
        let dims = self.dims();
        if room.len() != dims.len() {
            self.fail("pad", format!("{} pairs for the {} axes of {}", room.len(), dims.len(), self.shape()));
            return self.clone();
        }
        if room.iter().all(|z| *z == (0, 0)) {
            return self.clone();
        }
        let to: Vec<usize> = dims.iter().zip(room).map(|(d, (low, high))| low + d + high).collect();
        let (mut parts, mut at) = (vec![self.clone()], vec![room.iter().map(|z| z.0).collect::<Vec<_>>()]);
        // strips: whole along the axes before, as wide as the tensor along those behind
        for (axis, &(low, high)) in room.iter().enumerate() {
            for (start, size) in [(0, low), (low + dims[axis], high)] {
                if size == 0 {
                    continue;
                }
                let strip = |a: usize| match a.cmp(&axis) {
                    std::cmp::Ordering::Less => (0, to[a]),
                    std::cmp::Ordering::Equal => (start, size),
                    std::cmp::Ordering::Greater => (room[a].0, dims[a]),
                };
                let (starts, sizes): (Vec<usize>, Vec<usize>) = (0..dims.len()).map(strip).unzip();
                parts.push(self.graph().full(value, &sizes));
                at.push(starts);
            }
        }
        Tensor::join(&parts, at, &to)
    }

    /// The axis the other way round.
    #[track_caller]
    pub fn flip(&self, axis: usize) -> Tensor {
        match self.dims().get(axis) {
            Some(0 | 1) => self.clone(),
            Some(&size) => {
                Tensor::concat(&(0..size).rev().map(|i| self.slice(axis, i, i + 1)).collect::<Vec<_>>(), axis)
            }
            None => {
                self.fail("flip", format!("no axis {axis} in {}", self.shape()));
                self.clone()
            }
        }
    }
}

pub(super) fn vjp(v: &Vjp, at: &[Vec<usize>], step: &[usize]) -> Vec<Option<Tensor>> {
    let part = |(x, at): (&Tensor, &Vec<usize>)| {
        let dims = x.dims();
        let cut = |t: Tensor, axis: usize| match step[axis] {
            1 => t.slice(axis, at[axis], at[axis] + dims[axis]),
            _ if dims[axis] == 0 => t.slice(axis, 0, 0),
            step => {
                let last = at[axis] + (dims[axis] - 1) * step;
                let every = t.slice(axis, at[axis], last + 1).windows(axis, 1, step, 1);
                every.reshape(&[&t.dims()[..axis], &[dims[axis]], &t.dims()[axis + 1..]].concat())
            }
        };
        Some((0..dims.len()).fold(v.dy.clone(), cut))
    };
    v.x.iter().zip(at).map(part).collect()
}
