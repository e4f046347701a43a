//! Segments whose values are computed again on the way back instead of being kept: gradient checkpointing. The memory of a segment
//! is then needed by one segment at a time, for the price of computing it twice.
//!
//! The derivative replays a segment's nodes from its inputs. A replay must not be found equal to what was there before, and must wait
//! for the gradient that asks for it, or it would run at once and be kept as well: so it reads its inputs through [`AFTER`].

use std::collections::HashMap;
use std::ops::Range;

use crate::graph::{Inner, Node};
use crate::ops::map::MapDef;
use crate::{DType, Graph, LeafKind, NodeId, Op, Tensor};

/// The first input, once the second is there.
static AFTER: MapDef = MapDef {
    name: "after",
    arity: 2,
    sample_attrs: &[],
    expr: |_, x, _| x[0],
    vjp: |v| vec![Some(v.dy.clone()), None],
    samples: &[],
    kinks: &[],
};

impl Graph {
    /// What `record` records is a segment: its values are computed again for the gradient. Within another segment it is part of that.
    pub fn recomputed<R>(&self, record: impl FnOnce() -> R) -> R {
        let start = {
            let mut inner = self.0.borrow_mut();
            inner.segments_open += 1;
            inner.nodes.len()
        };
        let result = record();
        let mut inner = self.0.borrow_mut();
        inner.segments_open -= 1;
        let end = inner.nodes.len();
        if inner.segments_open == 0 && end > start {
            inner.segments.push(start..end);
        }
        result
    }

    /// The same, where memory is short: if [`Graph::save_memory`] was asked for before. How a layer offers itself as a segment.
    pub fn may_recompute<R>(&self, record: impl FnOnce() -> R) -> R {
        let wanted = self.0.borrow().save_memory;
        if wanted { self.recomputed(record) } else { record() }
    }

    /// Layers recorded from now on that offer themselves as segments are.
    pub fn save_memory(&self, wanted: bool) {
        self.0.borrow_mut().save_memory = wanted;
    }

    /// How many segments there are.
    pub fn segments(&self) -> usize {
        self.0.borrow().segments.len()
    }
}

/// The segments of a graph while its derivative is taken.
pub(crate) struct Replays {
    segments: Vec<Range<NodeId>>,
    /// For each segment once a gradient has reached it: what a node of it, or an input, is called the second time.
    made: Vec<Option<HashMap<NodeId, NodeId>>>,
    /// What no data and no chance goes into: as good the first time.
    fixed: Vec<bool>,
}

impl Replays {
    pub fn new(graph: &Graph) -> Replays {
        let inner = graph.0.borrow();
        let segments = inner.segments.clone();
        let mut fixed = Vec::new();
        if !segments.is_empty() {
            inner.nodes.iter().for_each(|node| {
                let now = is_fixed(&inner, node, &fixed);
                fixed.push(now);
            });
        }
        Replays { made: vec![None; segments.len()], segments, fixed }
    }

    /// Inputs and value of node `id` as its gradient is to read them, given the gradient `dy` that has arrived.
    pub fn seen(&mut self, graph: &Graph, nodes: &[Node], id: NodeId, dy: &Tensor) -> (Vec<Tensor>, Tensor) {
        let segment = self.segments.iter().position(|s| s.contains(&id)).filter(|_| dy.elements() > 0);
        let Some(segment) = segment else {
            return (nodes[id].inputs.iter().map(|&i| graph.tensor(i)).collect(), graph.tensor(id));
        };
        if self.made[segment].is_none() {
            self.made[segment] = Some(self.replay(graph, nodes, self.segments[segment].clone(), dy));
        }
        let again = |id: NodeId| {
            let made = self.made[segment].as_ref().and_then(|made| made.get(&id));
            graph.tensor(made.copied().unwrap_or(id))
        };
        (nodes[id].inputs.iter().map(|&i| again(i)).collect(), again(id))
    }

    fn replay(&self, graph: &Graph, nodes: &[Node], range: Range<NodeId>, dy: &Tensor) -> HashMap<NodeId, NodeId> {
        // one number of the gradient
        let gate = (0..dy.rank()).fold(dy.clone(), |gate, axis| gate.slice(axis, 0, 1)).reshape(&[]);
        let mut made = HashMap::new();
        for id in range.clone().filter(|&id| !self.fixed[id]) {
            let node = &nodes[id];
            for &input in &node.inputs {
                let outside = !range.contains(&input) && !self.fixed[input] && nodes[input].dtype == DType::F32;
                if outside && !made.contains_key(&input) {
                    made.insert(input, AFTER.apply(&[], &[&graph.tensor(input), &gate]).id());
                }
            }
            let inputs: Vec<NodeId> = match &node.op {
                Op::Leaf(_) => continue,
                // the same numbers, drawn a second time
                Op::Random { .. } => vec![gate.id()],
                _ => node.inputs.iter().map(|input| made.get(input).copied().unwrap_or(*input)).collect(),
            };
            let _line = graph.attributed(node.place.file, node.place.line);
            let _layer = node.place.layer.clone().map(|layer| graph.scope(layer));
            made.insert(id, graph.add(node.op.clone(), &inputs, node.shape.clone(), node.dtype).id());
        }
        made
    }
}

fn is_fixed(inner: &Inner, node: &Node, fixed: &[bool]) -> bool {
    match &node.op {
        Op::Leaf(leaf) => inner.leaves[*leaf].kind != LeafKind::Input,
        Op::Random { .. } => false,
        _ => node.inputs.iter().all(|&input| fixed[input]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Init;

    fn gradient(segmented: bool) -> Graph {
        let g = Graph::new();
        let x = g.input("x", &[4, 3]);
        let w = g.parameter("w", &[3, 3], Init::Zeros);
        let block = |x: &Tensor| (x.matmul(&w).tanh() * g.random_uniform(&[4, 3])).exp();
        let h = if segmented { g.recomputed(|| block(&x)) } else { block(&x) };
        let loss = h.square().sum_all();
        let dw = g.gradients(&loss, std::slice::from_ref(&w))[0].clone().unwrap();
        g.output("dw", &dw);
        assert!(g.check().is_ok() && g.verify().is_ok(), "{:?} {:?}", g.check(), g.verify());
        g
    }

    #[test]
    fn a_segment_is_recorded_twice_and_waits() {
        let count = |g: &Graph, name: &str| g.nodes().iter().filter(|n| n.op.name() == name).count();
        let (plain, segmented) = (gradient(false), gradient(true));
        assert_eq!((count(&plain, "random"), count(&segmented, "random")), (1, 2));
        assert_eq!((count(&plain, "exp"), count(&segmented, "exp")), (1, 2));
        assert_eq!((count(&plain, "after"), count(&segmented, "after")), (0, 1));
        // both draw the same numbers
        let streams = |g: &Graph| {
            let random = |n: &Node| if let Op::Random { stream } = n.op { Some(stream) } else { None };
            g.nodes().iter().filter_map(random).collect::<Vec<_>>()
        };
        assert_eq!(streams(&segmented), [1, 1]);
    }

    #[test]
    fn layers_offer_and_the_outermost_counts() {
        let g = Graph::new();
        let x = g.input("x", &[4, 3]);
        g.may_recompute(|| x.exp());
        assert_eq!(g.segments(), 0);
        g.save_memory(true);
        g.may_recompute(|| g.recomputed(|| x.tanh()));
        assert_eq!(g.segments(), 1);
    }
}
