use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::panic::Location;
use std::rc::Rc;

use crate::limits::Limit;
use crate::mixing::Mixed;
use crate::ops::custom::Rule;
use crate::ops::{Op, OpKey};
use crate::{DType, Init, Place, Shape, Tensor, TraceError};

pub type NodeId = usize;

/// Far beyond any machine's memory, and far from the end of the address space.
const MOST_ELEMENTS: usize = 1 << 48;

/// Are we tracing a step that learns, or one that only predicts? Dropout reads this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Train,
    Eval,
}

/// What a part of a step is for: whoever keeps account of time asks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Phase {
    /// Brings rows into the batch.
    Batch,
    #[default]
    Forward,
    Backward,
    Update,
}

impl Phase {
    pub const ALL: [Phase; 4] = [Phase::Batch, Phase::Forward, Phase::Backward, Phase::Update];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Batch => "batch",
            Phase::Forward => "forward",
            Phase::Backward => "backward",
            Phase::Update => "update",
        }
    }
}

/// One recorded op.
#[derive(Clone, Debug)]
pub struct Node {
    pub op: Op,
    pub inputs: Vec<NodeId>,
    pub shape: Shape,
    pub dtype: DType,
    pub place: Place,
    pub phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeafKind {
    /// Given anew for each step.
    Input,
    /// Learned.
    Parameter,
    /// Kept from step to step, not learned by the gradient (moments, running statistics, probes).
    State,
}

/// A named tensor that comes from outside the graph.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub name: String,
    pub kind: LeafKind,
    pub node: NodeId,
    pub init: Init,
    pub trainable: bool,
    /// Set when the user sees it otherwise than it is stored (a weight `[out,in]` kept as `[in,out]`, so that products read it in
    /// rows).
    pub seen: Option<Seen>,
    /// Set when the user's parameter is stored in several pieces, of which this is one.
    pub part: Option<Part>,
}

/// How the user sees what is stored: the stored axes in this order, under these sizes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub order: Vec<usize>,
    pub dims: Vec<usize>,
}

impl Seen {
    /// The transpose of a matrix stored with these sizes.
    pub fn transposed(stored: [usize; 2]) -> Seen {
        Seen { order: vec![1, 0], dims: vec![stored[1], stored[0]] }
    }

    /// Values as the user sees them, of values as they are stored.
    pub fn of_stored<T: Copy>(&self, dims: &[usize], values: &[T]) -> Vec<T> {
        self.places(dims).into_iter().map(|stored| values[stored]).collect()
    }

    /// The inverse of [`Seen::of_stored`].
    pub fn to_stored<T: Copy>(&self, dims: &[usize], values: &[T]) -> Vec<T> {
        let mut stored = values.to_vec();
        self.places(dims).into_iter().zip(values).for_each(|(at, value)| stored[at] = *value);
        stored
    }

    /// For each element in the user's order, where it is stored.
    fn places(&self, dims: &[usize]) -> Vec<usize> {
        let strides = Shape::new(dims).strides();
        self.order.iter().fold(vec![0], |places, &axis| {
            places
                .iter()
                .flat_map(|at| (0..dims[axis]).map(move |i| (at, i)))
                .map(|(at, i)| at + i * strides[axis])
                .collect()
        })
    }
}

/// A range of one axis of a parameter, stored by itself so that one thread can own it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The user's name for the whole.
    pub whole: String,
    /// Axis of the whole as stored.
    pub axis: usize,
    pub start: usize,
    /// Size of the whole along that axis.
    pub size: usize,
}

impl Part {
    /// Sizes of the whole, given those of this part.
    pub fn whole_dims(&self, own: &Shape) -> Vec<usize> {
        let mut dims = own.dims().to_vec();
        dims[self.axis] = self.size;
        dims
    }

    /// Calls `f(index in the part, index in the whole)` for every element.
    pub fn each(&self, own: &Shape, mut f: impl FnMut(usize, usize)) {
        let inner: usize = own.dims()[self.axis + 1..].iter().product();
        let block = own.dims()[self.axis] * inner;
        for i in 0..own.elements() {
            f(i, i / block * self.size * inner + self.start * inner + i % block);
        }
    }
}

/// Names by pattern: exact ones, and such as `"encoder.*"` or `"*.bias"`, where `*` stands for anything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Names(pub Vec<String>);

impl Names {
    pub fn covers(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| Names::covered(pattern, name))
    }

    /// Whether one pattern covers a name.
    pub fn covered(pattern: &str, name: &str) -> bool {
        let Some((start, rest)) = pattern.split_once('*') else { return name == pattern };
        let Some(mut name) = name.strip_prefix(start) else { return false };
        let (between, end) = rest.rsplit_once('*').unwrap_or(("", rest));
        // the first place of each piece leaves the most for the others
        for piece in between.split('*') {
            let Some(at) = name.find(piece) else { return false };
            name = &name[at + piece.len()..];
        }
        name.ends_with(end)
    }
}

/// The record of a traced computation. Cloning gives another handle to the same graph.
#[derive(Clone)]
pub struct Graph(pub(crate) Rc<RefCell<Inner>>);

pub(crate) struct Inner {
    pub nodes: Vec<Node>,
    pub leaves: Vec<Leaf>,
    pub outputs: Vec<(String, NodeId)>,
    /// leaf ← value, all at the end of the step.
    pub updates: Vec<(NodeId, NodeId)>,
    pub error: Option<TraceError>,
    same: HashMap<(OpKey, Vec<NodeId>, Shape), NodeId>,
    scopes: Vec<String>,
    /// Lines that ops are attributed to instead of their own; the outermost counts.
    callers: Vec<(&'static str, u32)>,
    frozen: Names,
    cut: Names,
    mode: Mode,
    phase: Phase,
    /// Whether gradients will be asked for, whatever the mode of layers.
    learns: bool,
    starts: Vec<Start>,
    random_streams: u32,
    pub rules: Vec<Rule>,
    pub warnings: Vec<TraceError>,
    pub limits: Vec<Limit>,
    pub mixed: Vec<Mixed>,
    /// Nodes that are computed again for the gradient; in order, none within another.
    pub segments: Vec<Range<NodeId>>,
    pub segments_open: usize,
    pub save_memory: bool,
    pub for_gpu: bool,
}

impl Default for Graph {
    fn default() -> Self {
        Graph::new()
    }
}

impl Graph {
    /// An empty graph in training mode.
    pub fn new() -> Graph {
        Graph::with_mode(Mode::Train)
    }

    pub fn with_mode(mode: Mode) -> Graph {
        Graph(Rc::new(RefCell::new(Inner {
            nodes: Vec::new(),
            leaves: Vec::new(),
            outputs: Vec::new(),
            updates: Vec::new(),
            error: None,
            same: HashMap::new(),
            scopes: Vec::new(),
            callers: Vec::new(),
            frozen: Names::default(),
            cut: Names::default(),
            mode,
            phase: Phase::default(),
            learns: mode == Mode::Train,
            starts: Vec::new(),
            random_streams: 0,
            rules: Vec::new(),
            warnings: Vec::new(),
            limits: Vec::new(),
            mixed: Vec::new(),
            segments: Vec::new(),
            segments_open: 0,
            save_memory: false,
            for_gpu: false,
        })))
    }

    /// What is recorded here is planned for a GPU: without what pays on processors alone.
    pub fn for_gpu(&self, yes: bool) {
        self.0.borrow_mut().for_gpu = yes;
    }

    pub fn is_for_gpu(&self) -> bool {
        self.0.borrow().for_gpu
    }

    pub fn mode(&self) -> Mode {
        self.0.borrow().mode
    }

    /// Whether the graph was begun in training mode: gradients may be asked for, whatever mode layers are in.
    pub fn learns(&self) -> bool {
        self.0.borrow().learns
    }

    /// Parameters declared after this call and covered by `frozen` are not trained, and layers do not move states that are.
    pub fn freeze(&self, frozen: Names) {
        self.0.borrow_mut().frozen = frozen;
    }

    /// Whether a parameter or state of this name must stay as it is.
    pub fn is_frozen(&self, name: &str) -> bool {
        self.0.borrow().frozen.covers(name)
    }

    /// Parameters declared after this call and covered by `cut` are handed out detached: they are meant to be trained, and no
    /// gradient reaches them.
    pub fn cut(&self, cut: Names) {
        self.0.borrow_mut().cut = cut;
    }

    /// Layers recorded while the guard lives are in this mode, whatever the graph's own.
    pub fn in_mode(&self, mode: Mode) -> InMode {
        let before = std::mem::replace(&mut self.0.borrow_mut().mode, mode);
        InMode(self.clone(), before)
    }

    /// Parameters declared while the guard lives start as `start` says, where it says something; the innermost guard counts.
    pub fn starting(&self, start: impl Fn(&str, &[usize]) -> Option<Init> + 'static) -> Starting {
        self.0.borrow_mut().starts.push(Rc::new(start));
        Starting(self.clone())
    }

    /// A tensor of f32 that is given anew for each step.
    #[track_caller]
    pub fn input(&self, name: &str, dims: &[usize]) -> Tensor {
        self.input_of(name, dims, DType::F32)
    }

    #[track_caller]
    pub fn input_of(&self, name: &str, dims: &[usize], dtype: DType) -> Tensor {
        self.leaf(name, LeafKind::Input, dims, dtype, Init::Zeros, None, None)
    }

    /// A learned tensor. Declaring the same name again gives the same parameter.
    #[track_caller]
    pub fn parameter(&self, name: &str, dims: &[usize], init: Init) -> Tensor {
        self.leaf(name, LeafKind::Parameter, dims, DType::F32, init, None, None)
    }

    /// A learned matrix `[out, in]` stored as `[in, out]`; the handle has the shape asked for.
    #[track_caller]
    pub fn parameter_stored_transposed(&self, name: &str, dims: [usize; 2], init: Init) -> Tensor {
        self.parameter_seen(name, &[dims[1], dims[0]], Seen::transposed([dims[1], dims[0]]), init).t()
    }

    /// A learned tensor stored with `dims`, which the user sees in another order; the handle is of what is stored.
    #[track_caller]
    pub fn parameter_seen(&self, name: &str, dims: &[usize], seen: Seen, init: Init) -> Tensor {
        self.leaf(name, LeafKind::Parameter, dims, DType::F32, init, Some(seen), None)
    }

    /// Elements `range` along `axis` of the learned tensor `whole`, which is stored with `dims`, in pieces. The pieces together
    /// start with the values that the whole would have had.
    #[track_caller]
    pub fn parameter_part(
        &self,
        whole: &str,
        dims: &[usize],
        axis: usize,
        range: std::ops::Range<usize>,
        init: Init,
        transposed: bool,
    ) -> Tensor {
        let mut own = dims.to_vec();
        own[axis] = range.len();
        let part = Part { whole: whole.to_string(), axis, start: range.start, size: dims[axis] };
        let name = format!("{whole}[{}..{}]", range.start, range.end);
        let seen = transposed.then(|| Seen::transposed([dims[0], dims[1]]));
        let t = self.leaf(&name, LeafKind::Parameter, &own, DType::F32, init, seen, Some(part));
        if transposed { t.t() } else { t }
    }

    /// A tensor kept from step to step that the gradient does not touch.
    #[track_caller]
    pub fn state(&self, name: &str, dims: &[usize], init: Init) -> Tensor {
        self.leaf(name, LeafKind::State, dims, DType::F32, init, None, None)
    }

    /// Something kept for each element of a parameter, under a name made from the parameter's own. It is stored as the parameter
    /// is, in the same pieces and turned the same way, so that both can be put together alike.
    #[track_caller]
    pub fn state_of(&self, parameter: &str, dims: &[usize], init: Init, named: impl Fn(&str) -> String) -> Tensor {
        let known = self.0.borrow().leaves.iter().find(|l| l.name == parameter).cloned();
        let known = known.filter(|l| self.tensor(l.node).dims() == dims);
        let part = known.as_ref().and_then(|l| l.part.clone()).map(|p| Part { whole: named(&p.whole), ..p });
        let seen = known.and_then(|l| l.seen);
        self.leaf(&named(parameter), LeafKind::State, dims, DType::F32, init, seen, part)
    }

    /// The number of steps already taken, counted exactly by the executor, as a scalar.
    #[track_caller]
    pub fn step(&self) -> Tensor {
        self.add(Op::Step, &[], Shape::default(), DType::F32)
    }

    #[track_caller]
    pub fn scalar(&self, value: f64) -> Tensor {
        self.add(Op::Constant(value), &[], Shape::default(), DType::F32)
    }

    #[track_caller]
    pub fn full(&self, value: f64, dims: &[usize]) -> Tensor {
        self.scalar(value).broadcast_to(dims)
    }

    /// A fresh tensor of uniform random numbers in `[0, 1)` at every step.
    #[track_caller]
    pub fn random_uniform(&self, dims: &[usize]) -> Tensor {
        let stream = {
            let mut inner = self.0.borrow_mut();
            inner.random_streams += 1;
            inner.random_streams
        };
        self.add(Op::Random { stream }, &[], dims.into(), DType::F32)
    }

    /// `0, 1, 2, … n−1` as f32.
    #[track_caller]
    pub fn iota(&self, n: usize) -> Tensor {
        self.add(Op::Iota, &[], Shape::new(&[n]), DType::F32)
    }

    /// Makes `value` readable after each step under `name`.
    pub fn output(&self, name: &str, value: &Tensor) {
        self.0.borrow_mut().outputs.push((name.to_string(), value.id()));
    }

    /// At the end of the step, `leaf` (a parameter or state) becomes `value`.
    #[track_caller]
    pub fn assign(&self, leaf: &Tensor, value: &Tensor) {
        if leaf.shape() != value.shape() {
            let problem = format!("{} cannot become {}", leaf.shape(), value.shape());
            return self.fail("assign", problem, Location::caller());
        }
        let mut inner = self.0.borrow_mut();
        let kept = inner.leaves.iter().find(|l| l.node == leaf.id() && l.kind != LeafKind::Input);
        let problem = match kept {
            None => Some("only a parameter or a state can be assigned".to_string()),
            Some(l) if inner.updates.iter().any(|u| u.0 == leaf.id()) => Some(format!(
                "\"{}\" is assigned twice in one step; a layer that is used twice and keeps count, such as \
                     batch norm, wants both inputs at once: concatenate them",
                l.name
            )),
            Some(_) => None,
        };
        match problem {
            None => inner.updates.push((leaf.id(), value.id())),
            Some(problem) => {
                drop(inner);
                self.fail("assign", problem, Location::caller());
            }
        }
    }

    /// Ops recorded while the guard lives are said to be in this layer.
    pub fn scope(&self, layer: impl Into<String>) -> Scope {
        self.0.borrow_mut().scopes.push(layer.into());
        Scope(self.clone())
    }

    /// Ops recorded while the guard lives belong to this phase of the step; [`Graph::gradients`] are backward by themselves.
    pub fn phase(&self, phase: Phase) -> InPhase {
        let before = std::mem::replace(&mut self.0.borrow_mut().phase, phase);
        InPhase(self.clone(), before)
    }

    /// Ops recorded while the guard lives are attributed to the line that called the caller of this (a layer's `forward`),
    /// unless an outer guard has a say.
    #[track_caller]
    pub fn called_here(&self) -> Caller {
        let at = Location::caller();
        self.attributed(at.file(), at.line())
    }

    pub(crate) fn attributed(&self, file: &'static str, line: u32) -> Caller {
        self.0.borrow_mut().callers.push((file, line));
        Caller(self.clone())
    }

    /// The first mistake made while tracing, if any.
    pub fn check(&self) -> Result<(), TraceError> {
        self.0.borrow().error.clone().map_or(Ok(()), Err)
    }

    pub fn tensor(&self, id: NodeId) -> Tensor {
        Tensor::new(self.clone(), id)
    }

    pub fn nodes(&self) -> Vec<Node> {
        self.0.borrow().nodes.clone()
    }

    pub fn leaves(&self) -> Vec<Leaf> {
        self.0.borrow().leaves.clone()
    }

    pub fn outputs(&self) -> Vec<(String, NodeId)> {
        self.0.borrow().outputs.clone()
    }

    pub fn updates(&self) -> Vec<(NodeId, NodeId)> {
        self.0.borrow().updates.clone()
    }

    /// The parameters that may be trained, as stored.
    pub fn trainable(&self) -> Vec<(Leaf, Tensor)> {
        let trainable = |l: &Leaf| l.kind == LeafKind::Parameter && l.trainable;
        self.leaves().into_iter().filter(trainable).map(|l| (l.clone(), self.tensor(l.node))).collect()
    }

    /// Records a mistake; the first is kept.
    #[track_caller]
    pub fn report(&self, op: &str, problem: impl Into<String>) {
        self.fail(op, problem.into(), Location::caller());
    }

    pub(crate) fn fail(&self, op: &str, problem: String, at: &'static Location<'static>) {
        let place = self.place(at);
        let mut inner = self.0.borrow_mut();
        if inner.error.is_none() {
            inner.error = Some(TraceError { op: op.to_string(), place, problem });
        }
    }

    /// What is allowed, and yet hardly meant.
    pub fn warnings(&self) -> Vec<TraceError> {
        self.0.borrow().warnings.clone()
    }

    /// Records what is allowed, and yet hardly meant.
    #[track_caller]
    pub fn warn_of(&self, op: &str, problem: impl Into<String>) {
        let place = self.place(Location::caller());
        self.warn(TraceError { op: op.to_string(), place, problem: problem.into() });
    }

    pub(crate) fn warn(&self, warning: TraceError) {
        let mut inner = self.0.borrow_mut();
        if !inner.warnings.contains(&warning) {
            inner.warnings.push(warning);
        }
    }

    /// Records an op, or finds the equal one that is there already.
    #[track_caller]
    pub(crate) fn add(&self, op: Op, inputs: &[NodeId], shape: Shape, dtype: DType) -> Tensor {
        self.add_at(op, inputs, shape, dtype, Location::caller())
    }

    pub(crate) fn add_at(
        &self,
        op: Op,
        inputs: &[NodeId],
        shape: Shape,
        dtype: DType,
        at: &'static Location<'static>,
    ) -> Tensor {
        if shape.elements() > MOST_ELEMENTS {
            self.fail(op.name(), format!("{shape} has more elements than memory can hold"), at);
        }
        let place = self.place(at);
        let mut inner = self.0.borrow_mut();
        let phase = inner.phase;
        let key = (op.key(), inputs.to_vec(), shape.clone());
        let id = match inner.same.get(&key) {
            Some(&id) => id,
            None => {
                inner.nodes.push(Node { op, inputs: inputs.to_vec(), shape, dtype, place, phase });
                let id = inner.nodes.len() - 1;
                inner.same.insert(key, id);
                id
            }
        };
        drop(inner);
        Tensor::new(self.clone(), id)
    }

    #[track_caller]
    #[allow(clippy::too_many_arguments)]
    fn leaf(
        &self,
        name: &str,
        kind: LeafKind,
        dims: &[usize],
        dtype: DType,
        init: Init,
        seen: Option<Seen>,
        part: Option<Part>,
    ) -> Tensor {
        let shape = Shape::new(dims);
        let known = self.0.borrow().leaves.iter().find(|l| l.name == name).cloned();
        if let Some(leaf) = known {
            let t = self.tensor(leaf.node);
            let alike = leaf.kind == kind && t.shape() == shape && t.dtype() == dtype;
            if !alike || leaf.seen != seen {
                let order = if alike { ", stored in another order of its axes" } else { "" };
                let problem = format!("\"{name}\" is already declared as {} {}{order}", t.dtype(), t.shape());
                self.fail("declare", problem, Location::caller());
                return self.scalar(0.0).broadcast_to(dims);
            }
            let known_as = leaf.part.as_ref().map_or(name, |p| &p.whole);
            return self.handed_out(t, kind, known_as);
        }
        let index = self.0.borrow().leaves.len();
        let t = self.add(Op::Leaf(index), &[], shape, dtype);
        let known_as = part.as_ref().map_or(name, |p| &p.whole).to_owned();
        let init = match kind {
            LeafKind::Parameter => {
                let whole = part.as_ref().map_or(dims.to_vec(), |p| p.whole_dims(&t.shape()));
                let starts = self.0.borrow().starts.clone();
                let told = starts.iter().rev().find_map(|s| s(&known_as, seen.as_ref().map_or(&whole, |s| &s.dims)));
                told.unwrap_or(init)
            }
            LeafKind::Input | LeafKind::State => init,
        };
        let mut inner = self.0.borrow_mut();
        let trainable = kind == LeafKind::Parameter && !inner.frozen.covers(&known_as);
        inner.leaves.push(Leaf { name: name.to_string(), kind, node: t.id(), init, trainable, seen, part });
        drop(inner);
        self.handed_out(t, kind, &known_as)
    }

    #[track_caller]
    fn handed_out(&self, leaf: Tensor, kind: LeafKind, known_as: &str) -> Tensor {
        let cut = kind == LeafKind::Parameter && self.0.borrow().cut.covers(known_as);
        if cut { leaf.detach() } else { leaf }
    }

    /// The line and layer of the caller.
    #[track_caller]
    pub(crate) fn place_here(&self) -> Place {
        self.place(Location::caller())
    }

    fn place(&self, at: &'static Location<'static>) -> Place {
        let inner = self.0.borrow();
        let (file, line) = inner.callers.first().copied().unwrap_or((at.file(), at.line()));
        Place { file, line, layer: inner.scopes.last().cloned() }
    }
}

/// Guard of [`Graph::called_here`].
pub struct Caller(Graph);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.0.borrow_mut().callers.pop();
    }
}

/// Guard of [`Graph::in_mode`].
pub struct InMode(Graph, Mode);

impl Drop for InMode {
    fn drop(&mut self) {
        self.0.0.borrow_mut().mode = self.1;
    }
}

/// How parameters start, by name and by the sizes that the user sees.
type Start = Rc<dyn Fn(&str, &[usize]) -> Option<Init>>;

/// Guard of [`Graph::starting`].
pub struct Starting(Graph);

impl Drop for Starting {
    fn drop(&mut self) {
        self.0.0.borrow_mut().starts.pop();
    }
}

/// Guard of [`Graph::scope`].
pub struct Scope(Graph);

impl Drop for Scope {
    fn drop(&mut self) {
        self.0.0.borrow_mut().scopes.pop();
    }
}

/// Guard of [`Graph::phase`].
pub struct InPhase(Graph, Phase);

impl Drop for InPhase {
    fn drop(&mut self) {
        self.0.0.borrow_mut().phase = self.1;
    }
}
