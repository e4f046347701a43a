//! The ops. Map ops live in [`map`], one file each; the big ops are the closed set below, one file each, and every executor
//! matches them exhaustively.

pub mod argmax;
pub mod broadcast;
pub mod cast;
pub mod convolve;
pub mod custom;
pub mod gather_rows;
pub mod join;
pub mod map;
pub mod matmul;
pub mod max_pool;
pub mod recurrence;
pub mod reduce;
pub mod reshape;
pub mod slice;
pub mod softmax;
pub mod transpose;
pub mod windows;

use map::MapDef;
use recurrence::{Arriving, Scan};
pub use reduce::Reduction;

use crate::Tensor;

/// What a node does. Shapes are on the node.
#[derive(Clone, Debug)]
pub enum Op {
    /// A named tensor from outside: index into the graph's leaves.
    Leaf(usize),
    /// The number of steps already taken.
    Step,
    Constant(f64),
    /// `0, 1, 2, …`
    Iota,
    /// Uniform numbers in `[0, 1)`, fresh at every step; the stream tells one use from another.
    Random {
        stream: u32,
    },
    /// One scalar expression for every element; inputs have the node's shape.
    Map {
        def: &'static MapDef,
        attrs: Vec<f64>,
    },
    /// Identity that stops gradients.
    Detach,
    /// The first input; its gradient goes by a rule of its own to the others: index into the graph's rules.
    Custom {
        rule: usize,
    },
    /// i32 or u8 to f32.
    Cast,
    Broadcast,
    Reshape,
    Transpose {
        perm: Vec<usize>,
    },
    Slice {
        axis: usize,
        start: usize,
    },
    /// Windows along an axis, an axis of their own behind it: `y[…,i,j,…] = x[…,stride·i + dilation·j,…]`.
    Windows {
        axis: usize,
        stride: usize,
        dilation: usize,
    },
    /// Tensors side by side, or interleaved: input i begins at `at[i]` and its neighbours along axis a are `step[a]` apart. Together
    /// they fill the result.
    Join {
        at: Vec<Vec<usize>>,
        step: Vec<usize>,
    },
    /// `[…,m,k] × […,k,n]`; `ta`/`tb`: that operand is stored with its last two axes swapped. `inner`: how many axes k is.
    Matmul {
        ta: bool,
        tb: bool,
        inner: usize,
    },
    /// Reduced axes are kept with size 1.
    Reduce {
        kind: Reduction,
        axes: Vec<usize>,
    },
    /// Index of the largest along the last axis, as i32, that axis dropped; the first among equals.
    ArgMax,
    /// Rows of a table: `table[indices[i], …]`.
    GatherRows,
    /// Gradient of [`Op::GatherRows`]: adds rows into a table of zeros, in the order of the indices.
    ScatterRows,
    /// A recurrent layer through all its steps: states, and with `notes` what its gradient will need.
    Recurrence {
        scan: Scan,
        notes: bool,
    },
    /// Back through all steps: the gradients of the gates, and of the start.
    RecurrenceGradient {
        scan: Scan,
        arriving: Arriving,
    },
}

/// Hashable identity of an op, for finding equal nodes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OpKey(&'static str, Vec<u64>);

impl Op {
    pub fn name(&self) -> &'static str {
        match self {
            Op::Leaf(_) => "leaf",
            Op::Step => "step",
            Op::Constant(_) => "constant",
            Op::Iota => "iota",
            Op::Random { .. } => "random",
            Op::Map { def, .. } => def.name,
            Op::Detach => "detach",
            Op::Custom { .. } => "custom",
            Op::Cast => "cast",
            Op::Broadcast => "broadcast",
            Op::Reshape => "reshape",
            Op::Transpose { .. } => "transpose",
            Op::Slice { .. } => "slice",
            Op::Windows { .. } => "windows",
            Op::Join { .. } => "join",
            Op::Matmul { .. } => "matmul",
            Op::Reduce { kind: Reduction::Sum, .. } => "sum",
            Op::Reduce { kind: Reduction::Max, .. } => "max",
            Op::ArgMax => "argmax",
            Op::GatherRows => "gather_rows",
            Op::ScatterRows => "scatter_rows",
            Op::Recurrence { .. } => "recurrence",
            Op::RecurrenceGradient { .. } => "recurrence_gradient",
        }
    }

    pub(crate) fn key(&self) -> OpKey {
        let words = match self {
            Op::Leaf(i) => vec![*i as u64],
            Op::Constant(c) => vec![c.to_bits()],
            Op::Random { stream } => vec![*stream as u64],
            Op::Map { attrs, .. } => attrs.iter().map(|a| a.to_bits()).collect(),
            Op::Transpose { perm } => perm.iter().map(|&p| p as u64).collect(),
            Op::Slice { axis, start } => vec![*axis as u64, *start as u64],
            Op::Windows { axis, stride, dilation } => vec![*axis as u64, *stride as u64, *dilation as u64],
            Op::Join { at, step } => at.iter().flatten().chain(step).map(|&a| a as u64).collect(),
            Op::Matmul { ta, tb, inner } => vec![*ta as u64, *tb as u64, *inner as u64],
            Op::Custom { rule } => vec![*rule as u64],
            Op::Reduce { axes, .. } => axes.iter().map(|&a| a as u64).collect(),
            Op::Step | Op::Iota | Op::Detach | Op::Cast | Op::Broadcast | Op::Reshape => vec![],
            Op::ArgMax | Op::GatherRows | Op::ScatterRows => vec![],
            Op::Recurrence { scan, notes } => scan.words().into_iter().chain([*notes as u64]).collect(),
            Op::RecurrenceGradient { scan, arriving } => {
                let arriving = [arriving.each, arriving.last, arriving.cell].map(|a| a as u64);
                scan.words().into_iter().chain(arriving).collect()
            }
        };
        OpKey(self.name(), words)
    }
}

/// What a derivative rule is given: the op's inputs, its output, and the gradient that arrives at the output.
pub struct Vjp<'a> {
    pub x: &'a [Tensor],
    pub y: &'a Tensor,
    pub dy: &'a Tensor,
    pub attrs: &'a [f64],
}

/// Gradients of the inputs; `None` where none flows.
pub(crate) fn vjp(op: &Op, v: &Vjp) -> Vec<Option<Tensor>> {
    match op {
        Op::Leaf(_) | Op::Step | Op::Constant(_) | Op::Iota | Op::Random { .. } => vec![],
        Op::Detach | Op::Cast | Op::ArgMax => vec![None],
        Op::Custom { rule } => custom::vjp(v, *rule),
        Op::Map { def, .. } => (def.vjp)(v),
        Op::Broadcast => broadcast::vjp(v),
        Op::Reshape => vec![Some(v.dy.reshape(v.x[0].shape().dims()))],
        Op::Transpose { perm } => transpose::vjp(v, perm),
        Op::Slice { axis, start } => slice::vjp(v, *axis, *start),
        Op::Windows { axis, stride, dilation } => windows::vjp(v, *axis, *stride, *dilation),
        Op::Join { at, step } => join::vjp(v, at, step),
        Op::Matmul { inner: 1, ta, tb } => matmul::vjp(v, *ta, *tb),
        Op::Matmul { inner, .. } => matmul::contract_vjp(v, *inner),
        Op::Reduce { kind, .. } => reduce::vjp(v, *kind),
        Op::GatherRows => gather_rows::vjp(v),
        Op::ScatterRows => gather_rows::scatter_vjp(v),
        Op::Recurrence { scan, notes } => recurrence::vjp(v, scan, *notes),
        Op::RecurrenceGradient { .. } => recurrence::gradient_vjp(v),
    }
}
