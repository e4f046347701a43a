//! What RNN, GRU and LSTM share: layers on top of each other, each in one or both directions.

use std::ops::Range;

use citius_graph::ops::recurrence::{Cell, LANES, Recurrence, States};
use citius_graph::{DType, Init, Tensor};

use crate::{Dropout, Module};

/// Settings of a recurrent layer, with PyTorch's names, shapes and start: `{path}.weight_ih_l0` `[G·H,in]`, `weight_hh_l0`
/// `[G·H,H]`, `bias_ih_l0`, `bias_hh_l0` `[G·H]`, then `_l1` …, and `_reverse` for the way back; all uniform within ±1/√H.
#[derive(Clone, Debug)]
pub struct Recurrent {
    pub(super) path: String,
    pub(super) cell: Cell,
    inputs: usize,
    hidden: usize,
    layers: usize,
    bias: bool,
    bidirectional: bool,
    batch_first: bool,
    dropout: f64,
    whole: bool,
}

/// What a recurrent layer gives. With D = 1 direction, or 2:
pub struct Sequence {
    /// States of the topmost layer at every step, `[T,N,D·H]`, or `[N,T,D·H]` with the batch first; 0 past a row's length.
    pub output: Tensor,
    /// Last states, `[layers·D,N,H]`.
    pub last: Tensor,
    /// Last cells of an LSTM, `[layers·D,N,H]`.
    pub cell: Option<Tensor>,
}

impl Recurrent {
    pub(super) fn new(path: impl Into<String>, cell: Cell, inputs: usize, hidden: usize) -> Recurrent {
        Recurrent {
            path: path.into(),
            cell,
            inputs,
            hidden,
            layers: 1,
            bias: true,
            bidirectional: false,
            batch_first: false,
            dropout: 0.0,
            whole: false,
        }
    }

    /// So many on top of each other.
    pub fn layers(mut self, layers: usize) -> Recurrent {
        self.layers = layers;
        self
    }

    pub fn bias(mut self, bias: bool) -> Recurrent {
        self.bias = bias;
        self
    }

    /// Walks the sequence both ways; a step's output is the states of both.
    pub fn bidirectional(mut self, bidirectional: bool) -> Recurrent {
        self.bidirectional = bidirectional;
        self
    }

    /// Inputs and outputs are `[N,T,…]` instead of `[T,N,…]`.
    pub fn batch_first(mut self, batch_first: bool) -> Recurrent {
        self.batch_first = batch_first;
        self
    }

    /// Between layers, not after the last.
    pub fn dropout(mut self, p: f64) -> Recurrent {
        self.dropout = p;
        self
    }

    /// Walks all rows as one instead of in strips, which serve the cores of a processor: the same function with the same
    /// parameters, for devices that share memory otherwise.
    pub fn whole(mut self) -> Recurrent {
        self.whole = true;
        self
    }

    /// Columns of the output.
    pub fn outputs(&self) -> usize {
        self.hidden * self.directions()
    }

    fn directions(&self) -> usize {
        1 + self.bidirectional as usize
    }

    /// Walks `x` from `start` (h, and c of an LSTM, `[layers·D,N,H]` each; none is 0). `lengths` `[N]` says how many steps each
    /// row has: past them its state stays and its output is 0, as with PyTorch's packed sequences.
    #[track_caller]
    pub fn walk(&self, x: &Tensor, start: &[Tensor], lengths: Option<&Tensor>) -> Sequence {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        let problem = self.problem(x, start, lengths);
        let x = match (&problem, self.batch_first) {
            (Some(_), _) => &g.full(0.0, &[1, 1, self.inputs]),
            (None, true) => &x.transpose(&[1, 0, 2]),
            (None, false) => x,
        };
        let (start, lengths) = if problem.is_some() { (&[][..], None) } else { (start, lengths) };
        if let Some(problem) = problem {
            g.report(&self.describe(), problem);
        }
        let rows = x.dims()[1];
        let lengths = lengths.map(|l| if l.dtype() == DType::F32 { l.clone() } else { l.to_f32() });
        let lengths = lengths.as_ref();
        let strips = self.strips(rows).into_iter().map(|strip| {
            let (from, to) = (strip.start, strip.end);
            let start: Vec<Tensor> = start.iter().map(|t| t.slice(1, from, to)).collect();
            self.stack(&x.slice(1, from, to), &start, lengths.map(|l| l.slice(0, from, to)))
        });
        let strips: Vec<Sequence> = strips.collect();
        let join = |part: &dyn Fn(&Sequence) -> Option<Tensor>| {
            let parts: Vec<Tensor> = strips.iter().filter_map(part).collect();
            (!parts.is_empty()).then(|| Tensor::concat(&parts, 1))
        };
        let output = join(&|s| Some(s.output.clone())).unwrap_or_else(|| x.clone());
        let last = join(&|s| Some(s.last.clone())).unwrap_or_else(|| x.clone());
        let output = if self.batch_first { output.transpose(&[1, 0, 2]) } else { output };
        Sequence { output, last, cell: join(&|s| s.cell.clone()) }
    }

    /// Rows that one thread may take through all layers and back by itself: two strips of whole groups of [`LANES`].
    fn strips(&self, rows: usize) -> Vec<Range<usize>> {
        let half = rows.div_ceil(2).next_multiple_of(LANES);
        let cut = if self.whole { rows } else { half.min(rows) };
        [0..cut, cut..rows].into_iter().filter(|strip| strip.start == 0 || !strip.is_empty()).collect()
    }

    /// All layers over `x` `[T,N,in]`.
    #[track_caller]
    fn stack(&self, x: &Tensor, start: &[Tensor], lengths: Option<Tensor>) -> Sequence {
        let (g, steps, rows) = (x.graph(), x.dims()[0], x.dims()[1]);
        // 1 at the steps a row has, [T·N,1]
        let has_step = lengths.as_ref().map(|l| {
            let time = g.iota(steps).reshape(&[steps, 1]).broadcast_to(&[steps, rows]);
            time.lt(&l.reshape(&[1, rows]).broadcast_to(&[steps, rows])).reshape(&[steps * rows, 1])
        });
        let mut below = x.reshape(&[steps * rows, x.dims()[2]]);
        let (mut last, mut cells) = (Vec::new(), Vec::new());
        // none at all was told before
        for layer in 0..self.layers.max(1) {
            if layer > 0 {
                below = Dropout::new(self.dropout).forward(&below);
            }
            let mut outputs = Vec::new();
            for reverse in [false, true].into_iter().take(self.directions()) {
                let n = last.len();
                let own = |t: &Tensor| t.slice(0, n, n + 1).reshape(&[rows, self.hidden]);
                let start: Vec<Tensor> = start.iter().map(own).collect();
                let states = self.direction(&below, layer, reverse, steps, &start, lengths.as_ref());
                outputs.push(has_step.iter().fold(states.each, |h, has| h * has));
                last.push(states.last.reshape(&[1, rows, self.hidden]));
                cells.extend(states.cell.map(|c| c.reshape(&[1, rows, self.hidden])));
            }
            below = Tensor::concat(&outputs, 1);
        }
        let cell = (self.cell == Cell::Lstm).then(|| Tensor::concat(&cells, 0));
        Sequence { output: below.reshape(&[steps, rows, self.outputs()]), last: Tensor::concat(&last, 0), cell }
    }

    /// One layer in one direction over `x` `[T·N,in]`.
    #[track_caller]
    fn direction(
        &self,
        x: &Tensor,
        layer: usize,
        reverse: bool,
        steps: usize,
        start: &[Tensor],
        lengths: Option<&Tensor>,
    ) -> States {
        let (g, gates, inputs) = (x.graph(), self.cell.gates() * self.hidden, x.dims()[1]);
        let name = |kind: &str| {
            let dot = if self.path.is_empty() { "" } else { "." };
            format!("{}{dot}{kind}_l{layer}{}", self.path, if reverse { "_reverse" } else { "" })
        };
        let bound = 1.0 / (self.hidden as f32).sqrt();
        let init = Init::Uniform { low: -bound, high: bound };
        let of_input = g.parameter_stored_transposed(&name("weight_ih"), [gates, inputs], init);
        let of_state = g.parameter_stored_transposed(&name("weight_hh"), [gates, self.hidden], init);
        let biases = self.bias.then(|| ["bias_ih", "bias_hh"].map(|kind| g.parameter(&name(kind), &[gates], init)));
        x.matmul(&of_input.t()).recurrence(&Recurrence {
            cell: self.cell,
            reverse,
            weights: &of_state.t(),
            biases: biases.as_ref().map(|[b, d]| (b, d)),
            start,
            lengths,
            steps,
        })
    }

    fn problem(&self, x: &Tensor, start: &[Tensor], lengths: Option<&Tensor>) -> Option<String> {
        let (dims, order) = (x.dims(), if self.batch_first { "[N,T,in]" } else { "[T,N,in]" });
        let &[first, second, last] = &dims[..] else {
            return Some(format!("input is {}, must be {order}", x.shape()));
        };
        let (steps, rows) = if self.batch_first { (second, first) } else { (first, second) };
        if last != self.inputs {
            return Some(format!("input is {}, last axis must be {}", x.shape(), self.inputs));
        }
        if steps == 0 {
            return Some(format!("input is {}: a sequence of length 0 has no steps to walk", x.shape()));
        }
        if self.layers == 0 || self.hidden == 0 {
            return Some("needs at least one layer and one unit".into());
        }
        let states = if self.cell == Cell::Lstm { 2 } else { 1 };
        if !start.is_empty() && start.len() != states {
            return Some(format!("{} starting states, needs {states} or none", start.len()));
        }
        let state = [self.layers * self.directions(), rows, self.hidden];
        if let Some(wrong) = start.iter().find(|t| t.dims() != state) {
            return Some(format!("a starting state is {}, must be {state:?}", wrong.shape()));
        }
        let wrong = lengths.filter(|l| l.dims() != [rows])?;
        Some(format!("lengths are {}, must be [{rows}]", wrong.shape()))
    }

    pub(super) fn describe(&self) -> String {
        let name = match self.cell {
            Cell::Tanh => "RNN tanh",
            Cell::Relu => "RNN relu",
            Cell::Gru => "GRU",
            Cell::Lstm => "LSTM",
        };
        let layers = if self.layers == 1 { String::new() } else { format!(" ×{}", self.layers) };
        let both = if self.bidirectional { ", both ways" } else { "" };
        format!("{name} {}→{}{layers}{both}", self.inputs, self.hidden)
    }
}

/// The outputs at every step, from 0 and in full.
impl Module for Recurrent {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        self.walk(x, &[], None).output
    }

    fn describe(&self) -> String {
        self.describe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::{gru, lstm, rnn};
    use citius_graph::{Graph, Op};

    #[test]
    fn names_and_shapes_are_pytorchs() {
        let g = Graph::new();
        let layer = lstm("rnn", 3, 5).layers(2).bidirectional(true).batch_first(true);
        let y = layer.walk(&g.input("x", &[4, 7, 3]), &[], None);
        assert_eq!((y.output.dims(), y.last.dims()), (vec![4, 7, 10], vec![4, 4, 5]));
        assert_eq!(y.cell.map(|c| c.dims()), Some(vec![4, 4, 5]));
        let shape = |name: &str| {
            let leaf = g.leaves().into_iter().find(|l| l.name == name).unwrap_or_else(|| panic!("no {name}"));
            g.tensor(leaf.node).t().dims()
        };
        assert_eq!(shape("rnn.weight_ih_l0"), [20, 3]);
        assert_eq!(shape("rnn.weight_hh_l1_reverse"), [20, 5]);
        assert_eq!(shape("rnn.weight_ih_l1"), [20, 10]);
        assert_eq!(g.leaves().len(), 1 + 16);
        assert!(g.check().is_ok() && g.verify().is_ok());
    }

    #[test]
    fn what_only_the_last_state_gets_is_not_spread_over_all() {
        let g = Graph::new();
        let y = gru("", 3, 5).batch_first(true).forward(&g.input("x", &[4, 7, 3]));
        let loss = y.slice(1, 6, 7).reshape(&[4, 5]).sum_all();
        let parameters: Vec<Tensor> = g.trainable().into_iter().map(|p| p.1).collect();
        assert!(g.gradients(&loss, &parameters).iter().all(|d| d.is_some()));
        let arriving: Vec<_> = g
            .nodes()
            .iter()
            .filter_map(|n| match n.op {
                Op::RecurrenceGradient { arriving, .. } => Some((arriving.each, arriving.last)),
                _ => None,
            })
            .collect();
        assert_eq!(arriving, [(false, true)], "{g}");
        assert!(g.check().is_ok() && g.verify().is_ok());
    }

    #[test]
    fn mistakes_name_the_layer() {
        let cases: [(&[usize], &str); 3] = [
            (&[7, 4, 2], "input is [7,4,2], last axis must be 3"),
            (&[7, 3], "input is [7,3], must be [T,N,in]"),
            (&[0, 4, 3], "length 0"),
        ];
        for (dims, expected) in cases {
            let g = Graph::new();
            rnn("rnn", 3, 5).forward(&g.input("x", dims));
            let message = g.check().unwrap_err().to_string();
            assert!(message.contains(expected) && message.contains("in rnn RNN tanh 3→5"), "{message}");
            assert!(message.contains("recurrent.rs"), "{message}");
        }
        let g = Graph::new();
        let x = g.input("x", &[7, 4, 3]);
        lstm("", 3, 5).walk(&x, &[g.full(0.0, &[1, 4, 5])], None);
        assert!(g.check().unwrap_err().to_string().contains("1 starting states, needs 2"));
        let g = Graph::new();
        gru("", 3, 5).walk(&g.input("x", &[7, 4, 3]), &[], Some(&g.input("lengths", &[7])));
        assert!(g.check().unwrap_err().to_string().contains("lengths are [7], must be [4]"));
    }
}
