//! The ops. Map ops live in [`map`], one file each; the big ops are the closed set below, one file each, and every executor
//! matches them exhaustively.

pub mod argmax;
pub mod broadcast;
pub mod cast;
pub mod concat;
pub mod gather_rows;
pub mod map;
pub mod matmul;
pub mod recurrence;
pub mod reduce;
pub mod reshape;
pub mod slice;
pub mod softmax;
pub mod transpose;

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
    Concat {
        axis: usize,
    },
    /// `[…,m,k] × […,k,n]`; `ta`/`tb`: that operand is stored with its last two axes swapped.
    Matmul {
        ta: bool,
        tb: bool,
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
            Op::Cast => "cast",
            Op::Broadcast => "broadcast",
            Op::Reshape => "reshape",
            Op::Transpose { .. } => "transpose",
            Op::Slice { .. } => "slice",
            Op::Concat { .. } => "concat",
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
            Op::Concat { axis } => vec![*axis as u64],
            Op::Matmul { ta, tb } => vec![*ta as u64, *tb as u64],
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
        Op::Map { def, .. } => (def.vjp)(v),
        Op::Broadcast => broadcast::vjp(v),
        Op::Reshape => vec![Some(v.dy.reshape(v.x[0].shape().dims()))],
        Op::Transpose { perm } => transpose::vjp(v, perm),
        Op::Slice { axis, start } => slice::vjp(v, *axis, *start),
        Op::Concat { axis } => concat::vjp(v, *axis),
        Op::Matmul { ta, tb } => matmul::vjp(v, *ta, *tb),
        Op::Reduce { kind, .. } => reduce::vjp(v, *kind),
        Op::GatherRows => gather_rows::vjp(v),
        Op::ScatterRows => gather_rows::scatter_vjp(v),
        Op::Recurrence { scan, notes } => recurrence::vjp(v, scan, *notes),
        Op::RecurrenceGradient { .. } => recurrence::gradient_vjp(v),
    }
}
