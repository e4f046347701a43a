//! A recurrent layer through all steps of a sequence, as one op in each direction.
//!
//! With `a = x·W` the product of all inputs at once, `b` and `d` its two biases, `h` the state before a step:
//!
//! | cell | a step |
//! |---|---|
//! | `Tanh`, `Relu` | `h' = φ(a + b + h·U + d)` |
//! | `Gru` | `r, z = σ(a + b + h·U + d)`, `n = tanh(a + b + r∘(h·U + d))`, `h' = (1−z)∘n + z∘h` |
//! | `Lstm` | `i, f, o = σ(a + b + h·U + d)`, `g = tanh(…)`, `c' = f∘c + i∘g`, `h' = o∘tanh c'` |
//!
//! A row past its length keeps its state.

use std::ops::Range;

use super::Vjp;
use crate::{DType, Graph, NodeId, Op, Shape, Tensor};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cell {
    Tanh,
    Relu,
    Gru,
    Lstm,
}

impl Cell {
    /// Values that a step computes from input and state, for each unit of the state: r, z, n or i, f, g, o.
    pub fn gates(self) -> usize {
        match self {
            Cell::Tanh | Cell::Relu => 1,
            Cell::Gru => 3,
            Cell::Lstm => 4,
        }
    }

    /// Factors that a step back multiplies gradients by, for each unit of the state.
    ///
    /// | cell | slopes |
    /// |---|---|
    /// | `Tanh`, `Relu` | ∂h'/∂pre |
    /// | `Gru` | ∂h'/∂n, ∂h'/∂z before their functions, ∂n/∂r before both, `r`, `z` |
    /// | `Lstm` | ∂c'/∂i, ∂c'/∂f, ∂c'/∂g, ∂h'/∂o before their functions, ∂h'/∂c', `f` |
    pub fn slopes(self) -> usize {
        match self {
            Cell::Tanh | Cell::Relu => 1,
            Cell::Gru => 5,
            Cell::Lstm => 6,
        }
    }

    /// Gradients that a step back leaves, for each unit: those of the gates. A GRU's n gets one more, in front, for what is
    /// multiplied by r: columns `r∘dn, dr, dz, dn`. So the last [`Cell::gates`] are the input's and the first are the state's,
    /// of which the GRU's begin with n.
    pub fn gradients(self) -> usize {
        match self {
            Cell::Gru => 4,
            Cell::Tanh | Cell::Relu | Cell::Lstm => self.gates(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Cell::Tanh => "rnn_tanh",
            Cell::Relu => "rnn_relu",
            Cell::Gru => "gru",
            Cell::Lstm => "lstm",
        }
    }
}

/// How a sequence is walked. The rows of `T` steps of `N` sequences are in order of time: row `t·N + n`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scan {
    pub cell: Cell,
    /// From the last step to the first.
    pub reverse: bool,
    pub steps: usize,
    /// Two biases are given; else they are 0.
    pub bias: bool,
    /// Where to start from is given; else it is 0.
    pub start: bool,
    /// Lengths of the sequences are given; else all are full.
    pub lengths: bool,
}

/// Sequences walked at a time: as many as fit one vector. Notes are kept for whole groups.
pub const LANES: usize = 16;

impl Scan {
    /// Slots of `N` rows with a state each: one more than steps. The start is before the first step in the direction of the walk.
    pub fn start_slot(&self) -> usize {
        if self.reverse { self.steps } else { 0 }
    }

    pub fn last_slot(&self) -> usize {
        if self.reverse { 0 } else { self.steps }
    }

    /// The states after each step, in order of time.
    pub fn after(&self) -> Range<usize> {
        if self.reverse { 0..self.steps } else { 1..self.steps + 1 }
    }

    /// The states before each step, in order of time.
    pub fn before(&self) -> Range<usize> {
        if self.reverse { 1..self.steps + 1 } else { 0..self.steps }
    }

    /// Slots that everyone may read: states, and the last cell of an LSTM.
    pub fn slots(&self) -> usize {
        self.steps + 1 + (self.cell == Cell::Lstm) as usize
    }

    /// The element at which notes for the gradient begin, at a multiple of a vector.
    pub fn notes_at(&self, rows: usize, width: usize) -> usize {
        (self.slots() * rows * width).next_multiple_of(LANES)
    }

    /// Elements of notes. Their order is the executor's own.
    pub fn notes(&self, rows: usize, width: usize) -> usize {
        self.steps * self.cell.slopes() * width * rows.next_multiple_of(LANES)
    }

    /// Inputs of [`Op::Recurrence`]: products, U, biases, starts, lengths.
    pub(crate) fn inputs(&self) -> usize {
        2 + 2 * self.bias as usize + self.starts() + self.lengths as usize
    }

    /// Starting states that are given: of h, of an LSTM also of c.
    pub fn starts(&self) -> usize {
        self.start as usize * (1 + (self.cell == Cell::Lstm) as usize)
    }

    pub(crate) fn words(&self) -> Vec<u64> {
        let flags = [self.reverse, self.bias, self.start, self.lengths].map(|f| f as u64);
        [self.cell as u64, self.steps as u64].into_iter().chain(flags).collect()
    }
}

/// Which gradients arrive at a recurrence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Arriving {
    /// At the states of all steps, `[T·N,H]`.
    pub each: bool,
    /// At the last state alone, `[N,H]`.
    pub last: bool,
    /// At the last cell of an LSTM, `[N,H]`.
    pub cell: bool,
}

impl Arriving {
    pub(crate) fn count(&self) -> usize {
        self.each as usize + self.last as usize + self.cell as usize
    }
}

/// Weights and walk of [`Tensor::recurrence`].
pub struct Recurrence<'a> {
    pub cell: Cell,
    pub reverse: bool,
    /// U `[H, G·H]`
    pub weights: &'a Tensor,
    /// b and d, `[G·H]` each
    pub biases: Option<(&'a Tensor, &'a Tensor)>,
    /// h before the first step, and c of an LSTM, `[N,H]`
    pub start: &'a [Tensor],
    /// `[N]`, as f32
    pub lengths: Option<&'a Tensor>,
    pub steps: usize,
}

/// What a recurrence gives.
pub struct States {
    /// After each step, in order of time, `[T·N,H]`.
    pub each: Tensor,
    /// After the last step of the walk, `[N,H]`.
    pub last: Tensor,
    /// An LSTM's c after the last step.
    pub cell: Option<Tensor>,
}

impl Tensor {
    /// Walks the products `self` `[T·N, G·H]` of `N` sequences.
    #[track_caller]
    pub fn recurrence(&self, r: &Recurrence) -> States {
        let g = self.graph();
        let scan = Scan {
            cell: r.cell,
            reverse: r.reverse,
            steps: r.steps,
            bias: r.biases.is_some(),
            start: !r.start.is_empty(),
            lengths: r.lengths.is_some(),
        };
        let mut inputs = vec![self, r.weights];
        inputs.extend(r.biases.iter().flat_map(|(b, d)| [*b, *d]));
        inputs.extend(r.start);
        inputs.extend(r.lengths);
        let shapes: Vec<Shape> = inputs.iter().map(|t| t.shape()).collect();
        let numbers = inputs.iter().all(|t| t.dtype() == DType::F32);
        let problem = if numbers { fits(&scan, &shapes).err() } else { Some("needs f32; use to_f32()".to_string()) };
        if let Some(problem) = problem {
            self.fail(scan.cell.name(), problem);
            let state = || g.full(0.0, &[0, 0]);
            return States { each: state(), last: state(), cell: (r.cell == Cell::Lstm).then(state) };
        }
        let ids: Vec<NodeId> = inputs.iter().map(|t| t.id()).collect();
        let y = record(g, scan, &ids, g.learns());
        let rows = shapes[0].dims()[0] / r.steps;
        let slots = |range: Range<usize>| y.slice(0, range.start * rows, range.end * rows);
        let slot = |n: usize| slots(n..n + 1);
        let cell = (r.cell == Cell::Lstm).then(|| slot(scan.steps + 1));
        States { each: slots(scan.after()), last: slot(scan.last_slot()), cell }
    }
}

/// `Err` says which shape does not fit.
pub(crate) fn fits(scan: &Scan, inputs: &[Shape]) -> Result<(), String> {
    if inputs.len() != scan.inputs() {
        return Err(format!("{} inputs, expected {}", inputs.len(), scan.inputs()));
    }
    if scan.steps == 0 {
        return Err("a sequence of length 0 has no steps to walk".into());
    }
    let ([rows, _], [width, columns]) = (inputs[0].dims(), inputs[1].dims()) else {
        return Err(format!("needs matrices, got {} and {}", inputs[0], inputs[1]));
    };
    if !rows.is_multiple_of(scan.steps) || *width == 0 || *columns != scan.cell.gates() * width {
        let gates = scan.cell.gates();
        return Err(format!("{} steps of {} by weights {}: must be [H,{gates}·H]", scan.steps, inputs[0], inputs[1]));
    }
    let sequences = rows / scan.steps;
    let mut expected = vec![("products", vec![*rows, *columns]), ("weights", vec![*width, *columns])];
    expected.extend((0..2 * scan.bias as usize).map(|_| ("a bias", vec![*columns])));
    expected.extend((0..scan.starts()).map(|_| ("a starting state", vec![sequences, *width])));
    expected.extend(scan.lengths.then(|| ("lengths", vec![sequences])));
    let wrong = inputs.iter().zip(&expected).find(|(found, (_, dims))| found.dims() != dims);
    wrong.map_or(Ok(()), |(found, (what, dims))| {
        Err(format!("{what} {found}: must be {} for {sequences} sequences", Shape::new(dims)))
    })
}

/// Rows of the result: states, and with `notes` what the gradient will need.
pub(crate) fn result_rows(scan: &Scan, rows: usize, width: usize, notes: bool) -> usize {
    match notes {
        true => (scan.notes_at(rows, width) + scan.notes(rows, width)).div_ceil(width.max(1)),
        false => scan.slots() * rows,
    }
}

#[track_caller]
fn record(g: &Graph, scan: Scan, inputs: &[NodeId], notes: bool) -> Tensor {
    let (rows, width) = (g.tensor(inputs[0]).dims()[0] / scan.steps, g.tensor(inputs[1]).dims()[0]);
    let shape = Shape::new(&[result_rows(&scan, rows, width, notes), width]);
    g.add(Op::Recurrence { scan, notes }, inputs, shape, DType::F32)
}

/// With D `[(T+1)·N, ·]` the gradients of the gates at every step and, behind them, those of the start:
/// da = D's last columns, dU = hᵀ·D's first columns with h the states before each step, db and dd the sums of D over rows.
pub(super) fn vjp(v: &Vjp, scan: &Scan, notes: bool) -> Vec<Option<Tensor>> {
    let (g, cell, steps) = (v.dy.graph(), scan.cell, scan.steps);
    let (rows, width) = (v.x[0].dims()[0] / steps, v.x[1].dims()[0]);
    let ids: Vec<NodeId> = v.x.iter().map(|x| x.id()).collect();
    // a step that was only to predict has left no notes: it is walked again
    let y = if notes { v.y.clone() } else { record(g, *scan, &ids, true) };
    let arrives = |slots: Range<usize>| part_of(v.dy, 0, slots.start * rows..slots.end * rows);
    let slot = |n: usize| arrives(n..n + 1);
    let at_start = slot(scan.start_slot());
    // a loss that reads the last state alone sends nothing to the others
    let (mut each, mut last) = (arrives(1..steps), slot(scan.last_slot()));
    if each.is_some() {
        each = Some(v.dy.slice(0, scan.after().start * rows, scan.after().end * rows));
        last = None;
    }
    let at_cell = (cell == Cell::Lstm).then(|| slot(steps + 1)).flatten();
    let arriving = Arriving { each: each.is_some(), last: last.is_some(), cell: at_cell.is_some() };
    if arriving.count() == 0 {
        let mut none = vec![None; v.x.len()];
        if scan.start {
            none[2 + 2 * scan.bias as usize] = at_start;
        }
        return none;
    }
    let mut inputs = vec![y.id(), ids[1]];
    inputs.extend(scan.lengths.then(|| ids[ids.len() - 1]));
    inputs.extend([each, last, at_cell].into_iter().flatten().map(|t| t.id()));
    let (gates, columns) = (cell.gates() * width, cell.gradients() * width);
    let shape = Shape::new(&[(steps + 1) * rows, columns]);
    let d = g.add(Op::RecurrenceGradient { scan: *scan, arriving }, &inputs, shape, DType::F32);

    let at_steps = d.slice(0, 0, steps * rows);
    // a GRU's n stands before r and z among the state's
    let in_order = |t: Tensor| match cell {
        Cell::Gru => {
            Tensor::concat(&[t.slice(t.rank() - 1, width, 3 * width), t.slice(t.rank() - 1, 0, width)], t.rank() - 1)
        }
        Cell::Tanh | Cell::Relu | Cell::Lstm => t,
    };
    let before = y.slice(0, scan.before().start * rows, scan.before().end * rows);
    let d_weights = before.t().matmul(&at_steps.slice(1, 0, gates));
    let mut dx = vec![Some(at_steps.slice(1, columns - gates, columns)), Some(in_order(d_weights))];
    if scan.bias {
        let sums = at_steps.sum(&[0], false);
        dx.push(Some(sums.slice(0, columns - gates, columns)));
        dx.push(Some(in_order(sums.slice(0, 0, gates))));
    }
    let at_starts = d.slice(0, steps * rows, (steps + 1) * rows);
    for n in 0..scan.starts() {
        let walked = at_starts.slice(1, n * width, (n + 1) * width);
        let own = at_start.clone().filter(|_| n == 0);
        dx.push(Some(own.map_or(walked.clone(), |own| own + &walked)));
    }
    dx.extend(scan.lengths.then_some(None));
    dx
}

/// The gradient of a recurrence is not differentiated again.
pub(super) fn gradient_vjp(v: &Vjp) -> Vec<Option<Tensor>> {
    v.y.fail("gradients", "a recurrence can be differentiated once, not twice".into());
    vec![None; v.x.len()]
}

/// Along this axis alone.
fn one_behind_the_other(at: &[Vec<usize>], step: &[usize], axis: usize) -> bool {
    let only_there = |at: &Vec<usize>| at.iter().enumerate().all(|(a, start)| a == axis || *start == 0);
    step.iter().all(|step| *step == 1) && at.iter().all(only_there)
}

/// Elements `range` along `axis`, without recording what would cut zeros or join and cut again; `None` if all are 0.
fn part_of(t: &Tensor, axis: usize, range: Range<usize>) -> Option<Tensor> {
    if range.is_empty() || t.as_constant() == Some(0.0) {
        return None;
    }
    let g = t.graph();
    let node = g.0.borrow().nodes[t.id()].clone();
    let input = |i: usize| g.tensor(node.inputs[i]);
    match &node.op {
        Op::Map { def, .. } if def.name == "add" => {
            match (part_of(&input(0), axis, range.clone()), part_of(&input(1), axis, range)) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            }
        }
        Op::Join { at, step } if one_behind_the_other(at, step, axis) => {
            let pieces: Vec<(Range<usize>, Tensor)> = (0..node.inputs.len())
                .map(|i| (at[i][axis]..at[i][axis] + input(i).dims()[axis], input(i)))
                .filter(|(at, _)| at.start < range.end && range.start < at.end)
                .collect();
            match &pieces[..] {
                [(at, piece)] if at.start <= range.start && range.end <= at.end => {
                    part_of(piece, axis, range.start - at.start..range.end - at.start)
                }
                pieces if pieces.iter().all(|(at, p)| part_of(p, axis, 0..at.len()).is_none()) => None,
                _ => Some(t.slice(axis, range.start, range.end)),
            }
        }
        Op::Transpose { perm } => part_of(&input(0), perm[axis], range).map(|part| part.transpose(perm)),
        // [T,N,…] as [T·N,…]: whole steps are steps
        Op::Reshape if axis == 0 && node.shape.rank() > 1 && input(0).rank() > 1 => {
            let (outer, inner) = (input(0).dims(), node.shape.dims());
            let row = |dims: &[usize]| dims[1..].iter().product::<usize>();
            let (from, to) = (range.start * row(inner), range.end * row(inner));
            let step = row(&outer).max(1);
            if !from.is_multiple_of(step) || !to.is_multiple_of(step) {
                return Some(t.slice(axis, range.start, range.end));
            }
            let mut dims = inner.to_vec();
            dims[0] = range.len();
            part_of(&input(0), 0, from / step..to / step).map(|part| part.reshape(&dims))
        }
        _ => Some(t.slice(axis, range.start, range.end)),
    }
}
