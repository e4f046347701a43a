//! What `compile` hands to an executor.

use citius_graph::ops::recurrence::Scan;
use citius_graph::{DType, Init, LeafKind, Limit, Part, Phase, Seen, Shape, TraceError};

use crate::cost::Cost;
use crate::program::{Program, Var};

pub type BufferId = usize;

/// The compiled step.
#[derive(Clone, Debug)]
pub struct Plan {
    pub buffers: Vec<Buffer>,
    /// Bytes of the arena that scratch buffers share.
    pub scratch_bytes: usize,
    /// In order. Calls of one wave do not depend on each other; a barrier stands between waves.
    pub calls: Vec<Call>,
    pub waves: usize,
    /// Names under which results can be read after a step.
    pub outputs: Vec<(String, BufferId)>,
    /// What the numbers of inputs must be; executors check the data that is bound to them.
    pub limits: Vec<Limit>,
    /// What is allowed, and yet hardly meant.
    pub warnings: Vec<TraceError>,
}

/// A contiguous tensor in memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub shape: Shape,
    pub dtype: DType,
    pub storage: Storage,
}

#[derive(Clone, Debug)]
pub enum Storage {
    /// Byte offset into the arena.
    Scratch { offset: usize },
    /// Owned outside the plan: inputs are bound before each step, parameters and states live across steps and plans.
    Leaf { name: String, kind: LeafKind, init: Init, seen: Option<Seen>, part: Option<Part> },
    /// Fixed contents.
    Constant(Vec<f32>),
    /// One f32: the number of steps already taken.
    Step,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub work: Work,
    pub wave: usize,
    pub cost: Cost,
    /// For people: the ops inside, and the user's line of the last.
    pub label: String,
    /// Of the product, or the latest of what a loop stores: softmax, cross-entropy and their gradient in one kernel are backward.
    pub phase: Phase,
}

/// The closed set of kernels; executors match it exhaustively.
#[derive(Clone, Debug)]
pub enum Work {
    Loop(Loop),
    Matmul(Matmul),
    Gather(Gather),
    Scatter(Scatter),
    Random(Random),
    ArgMax(ArgMax),
    Recurrence(Recurrence),
    RecurrenceGradient(RecurrenceGradient),
}

/// Elements of a buffer as a kernel walks them: `offset + Σ outer·i + row·r + col·c`.
#[derive(Clone, PartialEq, Debug)]
pub struct Operand {
    pub buffer: BufferId,
    pub dtype: DType,
    pub offset: usize,
    pub outer: Vec<usize>,
    pub row: usize,
    pub col: usize,
}

/// An element-wise program over an index space, with stores and folds.
#[derive(Clone, PartialEq, Debug)]
pub struct Loop {
    pub outer: Vec<usize>,
    pub rows: usize,
    pub cols: usize,
    pub nest: Nest,
    /// Loads first, then the targets of stores and folds.
    pub operands: Vec<Operand>,
    pub program: Program,
    /// (value, operand)
    pub stores: Vec<(Var, usize)>,
    pub folds: Vec<Fold>,
}

/// Which way a loop runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Nest {
    /// Rows outside, columns inside; folds run over columns, or over everything of one outer index.
    Rows,
    /// Columns outside, rows inside; folds run over rows.
    Columns,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FoldKind {
    Sum,
    Max,
}

/// A reduction of a loop's value. Its operand has `row` and `col` stride 0 where that axis is folded.
#[derive(Clone, PartialEq, Debug)]
pub struct Fold {
    pub kind: FoldKind,
    pub value: Var,
    pub operand: usize,
    /// Over rows and columns both (else over columns in `Nest::Rows`, over rows in `Nest::Columns`).
    pub whole: bool,
}

/// `C[m,n] = epilogue(Σₖ A[m,k]·B[k,n])` for each outer index. A: `row` walks m, `col` walks k. B: `row` walks k, `col` walks n
/// and is 1. Epilogue operands walk C. The sum also runs over the axes of `deep`, outermost first, around k.
#[derive(Clone, PartialEq, Debug)]
pub struct Matmul {
    pub outer: Vec<usize>,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub deep: Vec<Deep>,
    pub a: Operand,
    pub b: Operand,
    pub operands: Vec<Operand>,
    pub program: Program,
    pub stores: Vec<(Var, usize)>,
}

/// One more axis that a product sums over, with its strides in A and B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deep {
    pub size: usize,
    pub a: usize,
    pub b: usize,
}

impl Matmul {
    /// Terms of each sum.
    pub fn terms(&self) -> usize {
        self.deep.iter().map(|d| d.size).product::<usize>() * self.k
    }

    /// Offsets in A and B of each turn around k, in order.
    pub fn turns(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let count = self.deep.iter().map(|d| d.size).product::<usize>();
        (0..count).map(|mut turn| {
            let mut at = (0, 0);
            for deep in self.deep.iter().rev() {
                let i = turn % deep.size;
                turn /= deep.size;
                at = (at.0 + i * deep.a, at.1 + i * deep.b);
            }
            at
        })
    }
}

/// `out[i, …] = table[indices[i], …]·scale + shift`, widened to f32 when `out` is f32.
#[derive(Clone, PartialEq, Debug)]
pub struct Gather {
    pub table: BufferId,
    pub indices: BufferId,
    pub out: BufferId,
    pub rows: usize,
    pub table_rows: usize,
    pub width: usize,
    pub affine: Option<(f32, f32)>,
}

/// `out = 0; out[indices[i], …] += rows[i, …]`, in the order of i.
#[derive(Clone, PartialEq, Debug)]
pub struct Scatter {
    pub values: BufferId,
    pub indices: BufferId,
    pub out: BufferId,
    pub rows: usize,
    pub table_rows: usize,
    pub width: usize,
}

/// Uniform numbers keyed by (run seed, step, stream, index).
#[derive(Clone, PartialEq, Debug)]
pub struct Random {
    pub out: BufferId,
    pub stream: u32,
    pub elements: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ArgMax {
    pub input: BufferId,
    pub out: BufferId,
    pub rows: usize,
    pub cols: usize,
}

/// A recurrent layer of `width` units walks `rows` sequences; see [`Scan`] for the slots of `out`.
#[derive(Clone, PartialEq, Debug)]
pub struct Recurrence {
    pub scan: Scan,
    pub rows: usize,
    pub width: usize,
    /// `[steps·rows, gates·width]`
    pub products: BufferId,
    /// `[width, gates·width]`
    pub weights: BufferId,
    pub biases: Option<[BufferId; 2]>,
    /// h, and c of an LSTM; 0 if none is given.
    pub start: Vec<BufferId>,
    /// `[rows]`
    pub lengths: Option<BufferId>,
    pub out: BufferId,
    /// Whether `out` has room for them behind the states.
    pub notes: bool,
}

/// Back through the steps of a [`Recurrence`], whose `out` is `states` here. `out` is `[(steps+1)·rows, gradients·width]`: the
/// gradients of the gates, and in the last slot those of the start: of h in the first columns, then of c.
#[derive(Clone, PartialEq, Debug)]
pub struct RecurrenceGradient {
    pub scan: Scan,
    pub rows: usize,
    pub width: usize,
    pub states: BufferId,
    pub weights: BufferId,
    pub lengths: Option<BufferId>,
    /// Gradients that arrive: at the states of all steps, at the last, at the last cell.
    pub each: Option<BufferId>,
    pub last: Option<BufferId>,
    pub cell: Option<BufferId>,
    pub out: BufferId,
}

impl Work {
    /// (reads, writes); a loop or epilogue that updates a buffer in place names it in both.
    pub fn touches(&self) -> (Vec<BufferId>, Vec<BufferId>) {
        let split = |operands: &[Operand], targets: Vec<usize>| {
            let ids = |keep: &dyn Fn(usize) -> bool| {
                operands.iter().enumerate().filter(|(i, _)| keep(*i)).map(|(_, o)| o.buffer).collect::<Vec<_>>()
            };
            (ids(&|i| !targets.contains(&i)), ids(&|i| targets.contains(&i)))
        };
        match self {
            Work::Loop(l) => split(&l.operands, l.targets()),
            Work::Matmul(m) => {
                let (mut reads, writes) = split(&m.operands, m.stores.iter().map(|s| s.1).collect());
                reads.extend([m.a.buffer, m.b.buffer]);
                (reads, writes)
            }
            Work::Gather(g) => (vec![g.table, g.indices], vec![g.out]),
            Work::Scatter(s) => (vec![s.values, s.indices], vec![s.out]),
            Work::Random(r) => (vec![], vec![r.out]),
            Work::ArgMax(a) => (vec![a.input], vec![a.out]),
            Work::Recurrence(r) => {
                let mut reads = vec![r.products, r.weights];
                reads.extend(r.biases.iter().flatten().chain(&r.start).chain(&r.lengths));
                (reads, vec![r.out])
            }
            Work::RecurrenceGradient(r) => {
                let mut reads = vec![r.states, r.weights];
                reads.extend([r.lengths, r.each, r.last, r.cell].into_iter().flatten());
                (reads, vec![r.out])
            }
        }
    }
}

impl Loop {
    pub fn targets(&self) -> Vec<usize> {
        self.stores.iter().map(|s| s.1).chain(self.folds.iter().map(|f| f.operand)).collect()
    }
}

impl Plan {
    pub fn buffer_named(&self, leaf: &str) -> Option<BufferId> {
        self.buffers.iter().position(|b| matches!(&b.storage, Storage::Leaf { name, .. } if name == leaf))
    }
}
