//! The graph on its way to a plan: what is stored, and which kernel computes what.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use citius_graph::{DType, Graph, Leaf, NodeId, Op, Phase, Reduction, Shape};

use crate::access::{self, Access};
use crate::plan::BufferId;
use crate::program::SHORT_ROW;

#[derive(Clone, Debug)]
pub struct DraftNode {
    pub op: Op,
    pub inputs: Vec<NodeId>,
    pub shape: Shape,
    pub dtype: DType,
    /// `file:line` and layer of the user's program.
    pub place: String,
    pub phase: Phase,
}

pub struct Draft {
    pub nodes: Vec<DraftNode>,
    pub leaves: Vec<Leaf>,
    pub outputs: Vec<(String, NodeId)>,
    pub updates: Vec<(NodeId, NodeId)>,
    /// Nodes that have bytes of their own; the others are recomputed inside the kernels that use them.
    pub stored: HashSet<NodeId>,
    /// Stored nodes that are the end of a chain gather → cast → scale → shift, with that chain.
    pub gathered: HashMap<NodeId, GatherChain>,
    /// Stored values whose folds must stay kernels of their own.
    pub apart: HashSet<NodeId>,
    pub kernels: Vec<Kernel>,
    /// The graph has segments that are computed again: memory is what counts.
    pub saves_memory: bool,
    /// Where each stored node lives.
    pub buffer_of: HashMap<NodeId, BufferId>,
    /// Kernels looked at by passes that compare them, a measure of the work done.
    pub visits: Cell<u64>,
}

#[derive(Clone, Debug)]
pub struct GatherChain {
    pub gather: NodeId,
    pub affine: Option<(f32, f32)>,
}

#[derive(Clone, Debug)]
pub struct Kernel {
    pub body: Body,
    pub roots: Vec<Root>,
}

#[derive(Clone, Debug)]
pub enum Body {
    /// Walks this index space (axes of size 1 left out).
    Loop(Vec<usize>),
    /// A product; the roots are its epilogue.
    Matmul(NodeId),
    /// Gather, scatter, random, argmax, recurrence.
    Other(NodeId),
}

/// One value that a kernel leaves in memory.
#[derive(Clone, Debug)]
pub struct Root {
    /// The expression stored or folded.
    pub value: NodeId,
    /// The stored node this makes, if it is one.
    pub defines: Option<NodeId>,
    /// Reduction over these loop axes.
    pub fold: Option<(Reduction, Vec<usize>)>,
    pub target: Target,
}

/// Where a root goes: a stored node's buffer or a leaf, from an offset, with strides per loop axis.
#[derive(Clone, Debug)]
pub struct Target {
    pub node: NodeId,
    pub offset: usize,
    pub strides: Vec<usize>,
}

impl Draft {
    pub fn new(graph: &Graph) -> Draft {
        let nodes = graph.nodes();
        // gradients are in the graph by now: whoever reads a value with a rule for its gradient reads the value
        let value = |mut id: NodeId| {
            while let Op::Custom { .. } = nodes[id].op {
                id = nodes[id].inputs[0];
            }
            id
        };
        let node = |n: &citius_graph::Node| DraftNode {
            op: n.op.clone(),
            inputs: n.inputs.iter().map(|&i| value(i)).collect(),
            shape: n.shape.clone(),
            dtype: n.dtype,
            place: n.place.to_string(),
            phase: n.phase,
        };
        Draft {
            nodes: nodes.iter().map(node).collect(),
            leaves: graph.leaves(),
            outputs: graph.outputs().into_iter().map(|(name, id)| (name, value(id))).collect(),
            updates: graph.updates().into_iter().map(|(leaf, id)| (leaf, value(id))).collect(),
            stored: HashSet::new(),
            gathered: HashMap::new(),
            apart: HashSet::new(),
            kernels: Vec::new(),
            saves_memory: graph.segments() > 0,
            buffer_of: HashMap::new(),
            visits: Cell::new(0),
        }
    }

    pub fn push(&mut self, node: DraftNode) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    pub fn visit_kernels(&self, count: usize) {
        self.visits.set(self.visits.get() + count as u64);
    }

    /// Stored nodes that are read under a name after the step.
    pub fn named(&self) -> HashSet<NodeId> {
        self.outputs.iter().map(|o| self.base(o.1)).collect()
    }

    /// Outputs, and the values of updates.
    pub fn kept(&self) -> HashSet<NodeId> {
        self.outputs.iter().map(|o| o.1).chain(self.updates.iter().map(|u| u.1)).collect()
    }

    /// Live nodes, inputs before users.
    pub fn order(&self) -> Vec<NodeId> {
        let mut order = Vec::new();
        let mut state = vec![0u8; self.nodes.len()];
        let roots = self.outputs.iter().map(|o| o.1).chain(self.updates.iter().flat_map(|u| [u.0, u.1]));
        let mut stack: Vec<(NodeId, bool)> = roots.map(|r| (r, false)).collect();
        stack.reverse();
        while let Some((id, done)) = stack.pop() {
            if done {
                order.push(id);
            } else if state[id] == 0 {
                state[id] = 1;
                stack.push((id, true));
                stack.extend(self.nodes[id].inputs.iter().rev().filter(|&&i| state[i] == 0).map(|&i| (i, false)));
            }
        }
        order
    }

    /// For each node, the live nodes that read it.
    pub fn users(&self) -> Vec<Vec<NodeId>> {
        let mut users = vec![Vec::new(); self.nodes.len()];
        for id in self.order() {
            for &input in &self.nodes[id].inputs {
                if users[input].last() != Some(&id) {
                    users[input].push(id);
                }
            }
        }
        users
    }

    /// In memory before the step begins.
    pub fn is_given(&self, id: NodeId) -> bool {
        matches!(self.nodes[id].op, Op::Leaf(_) | Op::Step | Op::Iota)
    }

    /// What a kernel loads to compute its roots: (stored node, access). `Err` when it would need an element of its own result
    /// that another iteration makes.
    pub fn loads(&self, kernel: &Kernel) -> Result<Vec<(NodeId, Access)>, ()> {
        match &kernel.body {
            Body::Other(id) => {
                let inputs = match self.gathered.get(id) {
                    Some(chain) => &self.nodes[chain.gather].inputs,
                    None => &self.nodes[*id].inputs,
                };
                Ok(inputs.iter().map(|&i| (self.base(i), Access(vec![]))).collect())
            }
            Body::Loop(_) | Body::Matmul(_) => {
                let mut loads = Vec::new();
                let mut seen = HashSet::new();
                for root in &kernel.roots {
                    let access = Access::identity(&self.nodes[root.value].shape);
                    self.visit(kernel, root.value, access, &mut loads, &mut seen)?;
                }
                if let Body::Matmul(id) = kernel.body {
                    loads.extend(self.nodes[id].inputs.iter().map(|&i| (self.base(i), Access(vec![]))));
                }
                Ok(loads)
            }
        }
    }

    fn visit(
        &self,
        kernel: &Kernel,
        id: NodeId,
        access: Access,
        loads: &mut Vec<(NodeId, Access)>,
        seen: &mut HashSet<(NodeId, Access)>,
    ) -> Result<(), ()> {
        if !seen.insert((id, access.clone())) {
            return Ok(());
        }
        match self.source(kernel, id, &access) {
            Source::Load => loads.push((id, access)),
            Source::Alias(base) => loads.push((base, Access(vec![]))),
            Source::Own => return Err(()),
            Source::Product => {}
            Source::RowFold(_, value) => {
                let access = Access::identity(&self.nodes[value].shape);
                self.visit(kernel, value, access, loads, seen)?;
            }
            Source::Compute => {
                for (input, access) in self.inputs_under(id, &access) {
                    self.visit(kernel, input, access, loads, seen)?;
                }
            }
        }
        Ok(())
    }

    /// How a kernel comes by a node's element.
    pub fn source(&self, kernel: &Kernel, id: NodeId, access: &Access) -> Source {
        // a number is cheaper than a load, also one that has a place because it is read under a name
        if matches!(self.nodes[id].op, Op::Constant(_)) {
            return Source::Compute;
        }
        let identity = || *access == Access::identity(&self.nodes[id].shape);
        if matches!(kernel.body, Body::Matmul(m) if m == id) {
            return if identity() { Source::Product } else { Source::Own };
        }
        if let Some(root) = kernel.roots.iter().find(|r| r.defines == Some(id)) {
            return match &root.fold {
                None if identity() => Source::Compute,
                Some((kind, _)) if self.is_short_row_fold(kernel, root) => {
                    let row = Access::identity(&self.nodes[root.value].shape).through_broadcast(&self.nodes[id].shape);
                    if *access == row { Source::RowFold(*kind, root.value) } else { Source::Own }
                }
                _ => Source::Own,
            };
        }
        if self.stored.contains(&id) {
            return Source::Load;
        }
        if !self.is_recut(id) {
            return Source::Compute;
        }
        let base = self.base(id);
        if kernel.roots.iter().any(|r| r.defines == Some(base)) { Source::Own } else { Source::Alias(base) }
    }

    /// A reshape that does more than add or drop axes of size 1: other axes over the bytes of a stored node.
    pub fn is_recut(&self, id: NodeId) -> bool {
        let node = &self.nodes[id];
        matches!(node.op, Op::Reshape) && !access::only_ones_differ(&node.shape, &self.nodes[node.inputs[0]].shape)
    }

    /// A product that is stored in another order only (`turn_results`).
    pub fn is_unstored_product(&self, id: NodeId) -> bool {
        matches!(self.nodes[id].op, Op::Matmul { .. }) && !self.stored.contains(&id)
    }

    /// A fold over the last axis of a loop, short enough for one vector: its result is at hand in the same iteration.
    pub fn is_short_row_fold(&self, kernel: &Kernel, root: &Root) -> bool {
        match (&kernel.body, &root.fold) {
            (Body::Loop(space), Some((_, axes))) => {
                space.len() > 1 && *axes == [space.len() - 1] && (1..=SHORT_ROW).contains(&space[space.len() - 1])
            }
            _ => false,
        }
    }

    /// Inputs of a map op or view, with their access.
    pub fn inputs_under(&self, id: NodeId, access: &Access) -> Vec<(NodeId, Access)> {
        let node = &self.nodes[id];
        let shape = |i: usize| &self.nodes[node.inputs[i]].shape;
        let through = |a: Access| vec![(node.inputs[0], a)];
        match &node.op {
            Op::Custom { .. } => vec![(node.inputs[0], access.clone())],
            Op::Map { .. } | Op::Cast | Op::Detach => node.inputs.iter().map(|&i| (i, access.clone())).collect(),
            Op::Broadcast => through(access.through_broadcast(shape(0))),
            Op::Transpose { perm } => through(access.through_transpose(perm)),
            Op::Slice { axis, start } => through(access.through_slice(*axis, *start)),
            Op::Windows { axis, stride, dilation } => through(access.through_windows(*axis, *stride, *dilation)),
            Op::Reshape => match access.through_reshape(&node.shape, shape(0)) {
                Some(a) => through(a),
                // an alias of stored bytes; see `source`
                None => vec![],
            },
            Op::Constant(_) => vec![],
            Op::Leaf(_) | Op::Step | Op::Iota | Op::Random { .. } | Op::Join { .. } | Op::Matmul { .. } => vec![],
            Op::Reduce { .. } | Op::ArgMax | Op::GatherRows | Op::ScatterRows => vec![],
            Op::Recurrence { .. } | Op::RecurrenceGradient { .. } => vec![],
        }
    }

    /// The stored node under views that do not change the order of bytes or that strides can express.
    pub fn base(&self, mut id: NodeId) -> NodeId {
        while !self.stored.contains(&id) {
            match self.nodes[id].inputs.first() {
                Some(&input) => id = input,
                None => break,
            }
        }
        id
    }

    pub fn loop_space(&self, id: NodeId) -> Vec<usize> {
        access::loop_axes(&self.nodes[id].shape)
    }

    /// A contiguous store of a whole node.
    pub fn whole(&self, value: NodeId, target: NodeId) -> Target {
        let shape = &self.nodes[value].shape;
        let axes = access::loop_axes(shape).len();
        let (offset, strides) = Access::identity(shape).strides(shape, axes);
        Target { node: target, offset, strides }
    }
}

pub enum Source {
    /// From memory.
    Load,
    /// From the bytes of this stored node, under another shape.
    Alias(NodeId),
    /// By its expression, inside the kernel.
    Compute,
    /// The accumulator of the product.
    Product,
    /// This value folded over its short row.
    RowFold(Reduction, NodeId),
    /// Made by this kernel in another iteration: not available.
    Own,
}
