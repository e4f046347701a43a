//! Pass `lower`: draft kernels become calls. Accesses become offsets and strides, expressions become programs, and loop axes
//! that every operand walks evenly are merged.

use std::collections::HashMap;

use citius_graph::scalar::{Instr as ScalarInstr, Scalar};
use citius_graph::{DType, NodeId, Op, Reduction};

use crate::access::Access;
use crate::draft::{Body, Draft, Kernel, Source};
use crate::plan::*;
use crate::program::{Instr, Program, Var};

pub fn lower(draft: &Draft, kernel: &Kernel) -> Result<Work, String> {
    match kernel.body {
        Body::Loop(ref space) => lower_loop(draft, kernel, space).map(Work::Loop),
        Body::Matmul(id) => lower_matmul(draft, kernel, id).map(Work::Matmul),
        Body::Other(id) => Ok(lower_other(draft, id)),
    }
}

/// An operand before its axes are merged: a stride for each loop axis.
struct Walk {
    buffer: BufferId,
    dtype: DType,
    offset: usize,
    strides: Vec<usize>,
}

struct Emitter<'a> {
    draft: &'a Draft,
    kernel: &'a Kernel,
    axes: usize,
    program: Program,
    walks: Vec<Walk>,
    made: HashMap<(NodeId, Access), Var>,
}

impl<'a> Emitter<'a> {
    fn new(draft: &'a Draft, kernel: &'a Kernel, axes: usize) -> Emitter<'a> {
        Emitter { draft, kernel, axes, program: Program::default(), walks: vec![], made: HashMap::new() }
    }

    fn value(&mut self, id: NodeId, access: Access) -> Result<Var, String> {
        if let Some(&var) = self.made.get(&(id, access.clone())) {
            return Ok(var);
        }
        let node = &self.draft.nodes[id];
        let var = match self.draft.source(self.kernel, id, &access) {
            Source::Load => self.load(id, id, &access),
            Source::Alias(base) => self.load(base, id, &access),
            Source::Product => self.program.push(Instr::Product),
            Source::RowFold(kind, value) => self.row_fold(kind, value)?,
            Source::Own => return Err(format!("%{id} {} is made by another iteration", node.op.name())),
            Source::Compute => {
                let inputs = self.draft.inputs_under(id, &access);
                let inputs: Vec<Var> = inputs.into_iter().map(|(i, a)| self.value(i, a)).collect::<Result<_, _>>()?;
                match &node.op {
                    Op::Constant(c) => self.program.push(Instr::Const(*c as f32)),
                    Op::Map { def, attrs } => self.inline(|s, x| (def.expr)(s, x, attrs), &inputs),
                    Op::Cast | Op::Detach | Op::Broadcast | Op::Reshape => inputs[0],
                    Op::Transpose { .. } | Op::Slice { .. } | Op::Windows { .. } => inputs[0],
                    other => return Err(format!("%{id} {} is not an expression", other.name())),
                }
            }
        };
        self.made.insert((id, access), var);
        Ok(var)
    }

    /// Reads `base`'s bytes as a tensor shaped like `id`.
    fn load(&mut self, base: NodeId, id: NodeId, access: &Access) -> Var {
        let (offset, strides) = access.strides(&self.draft.nodes[id].shape, self.axes);
        let buffer = self.draft.buffer_of[&base];
        let same = |w: &Walk| w.buffer == buffer && w.offset == offset && w.strides == strides;
        let operand = self.walks.iter().position(same).unwrap_or_else(|| {
            self.walks.push(Walk { buffer, dtype: self.draft.nodes[base].dtype, offset, strides });
            self.walks.len() - 1
        });
        self.program.push(Instr::Load(operand))
    }

    fn row_fold(&mut self, kind: Reduction, value: NodeId) -> Result<Var, String> {
        let access = Access::identity(&self.draft.nodes[value].shape);
        let value = self.value(value, access)?;
        Ok(self.program.push(Instr::FoldRow(fold_kind(kind), value)))
    }

    fn inline(&mut self, expr: impl Fn(&mut Scalar, &[usize]) -> usize, inputs: &[Var]) -> Var {
        let mut scalar = Scalar::default();
        let x: Vec<usize> = (0..inputs.len()).map(|i| scalar.input(i)).collect();
        let result = expr(&mut scalar, &x);
        let mut vars: Vec<Var> = Vec::with_capacity(scalar.instrs.len());
        for instr in &scalar.instrs {
            let var = match *instr {
                ScalarInstr::Input(i) => inputs[i],
                ScalarInstr::Const(c) => self.program.push(Instr::Const(c as f32)),
                ScalarInstr::Unary(op, a) => self.program.push(Instr::Unary(op, vars[a])),
                ScalarInstr::Binary(op, a, b) => self.program.push(Instr::Binary(op, vars[a], vars[b])),
                ScalarInstr::Select(c, a, b) => self.program.push(Instr::Select(vars[c], vars[a], vars[b])),
            };
            vars.push(var);
        }
        vars[result]
    }

    /// Emits all roots; returns (value, walk) of each in order.
    fn roots(&mut self) -> Result<Vec<(Var, usize)>, String> {
        let mut results = Vec::new();
        for root in &self.kernel.roots {
            let access = Access::identity(&self.draft.nodes[root.value].shape);
            // a root that defines its value computes it; a copy loads it
            let var = match &root.fold {
                Some((kind, _)) if self.draft.is_short_row_fold(self.kernel, root) => {
                    self.row_fold(*kind, root.value)?
                }
                _ => self.value(root.value, access)?,
            };
            let (target, dtype) = (&root.target, self.draft.nodes[root.target.node].dtype);
            self.walks.push(Walk {
                buffer: self.draft.target_buffer(root),
                dtype,
                offset: target.offset,
                strides: target.strides.clone(),
            });
            results.push((var, self.walks.len() - 1));
        }
        let mut vars: Vec<Var> = results.iter().map(|r| r.0).collect();
        self.program.fuse_multiply_add(&mut vars);
        results.iter_mut().zip(vars).for_each(|(r, v)| r.0 = v);
        Ok(results)
    }
}

fn lower_loop(draft: &Draft, kernel: &Kernel, space: &[usize]) -> Result<Loop, String> {
    let mut emitter = Emitter::new(draft, kernel, space.len());
    let results = emitter.roots()?;
    let folded: Vec<usize> = kernel.roots.iter().find_map(|r| r.fold.as_ref()).map_or(vec![], |f| f.1.clone());
    let (mut sizes, mut kinds) = (space.to_vec(), (0..space.len()).map(|a| folded.contains(&a)).collect::<Vec<_>>());
    merge_axes(&mut sizes, &mut kinds, &mut emitter.walks);
    let (order, nest, whole) = arrange(&kinds)?;
    copy_bits(&emitter.program, &mut emitter.walks, &results)?;
    let size = |axis: Option<usize>| axis.map_or(1, |a| sizes[a]);
    let stride = |w: &Walk, axis: Option<usize>| axis.map_or(0, |a| w.strides[a]);
    let operand = |w: &Walk| Operand {
        buffer: w.buffer,
        dtype: w.dtype,
        offset: w.offset,
        outer: order.outer.iter().map(|&a| w.strides[a]).collect(),
        row: stride(w, order.row),
        col: stride(w, order.col),
    };
    let mut stores = Vec::new();
    let mut folds = Vec::new();
    for (root, (value, operand)) in kernel.roots.iter().zip(results) {
        match &root.fold {
            Some((kind, _)) if !draft.is_short_row_fold(kernel, root) => {
                folds.push(Fold { kind: fold_kind(*kind), value, operand, whole });
            }
            // a short row's fold is a value like any other; its operand stands still along the row
            Some(_) | None => stores.push((value, operand)),
        }
    }
    Ok(Loop {
        outer: order.outer.iter().map(|&a| sizes[a]).collect(),
        rows: size(order.row),
        cols: size(order.col),
        nest,
        operands: emitter.walks.iter().map(operand).collect(),
        program: emitter.program,
        stores,
        folds,
    })
}

/// Integers are only ever copied: the kernel moves their bits as if they were f32.
fn copy_bits(program: &Program, walks: &mut [Walk], results: &[(Var, usize)]) -> Result<(), String> {
    if results.iter().all(|r| walks[r.1].dtype == DType::F32) {
        return Ok(());
    }
    let copies = program.instrs.iter().all(|i| matches!(i, Instr::Load(_)));
    if !copies || walks.iter().any(|w| w.dtype != DType::I32) {
        return Err("arithmetic on integers".into());
    }
    walks.iter_mut().for_each(|w| w.dtype = DType::F32);
    Ok(())
}

fn fold_kind(reduction: Reduction) -> FoldKind {
    match reduction {
        Reduction::Sum => FoldKind::Sum,
        Reduction::Max => FoldKind::Max,
    }
}

/// Merges neighbouring axes that every operand walks as one and that are folded alike.
fn merge_axes(sizes: &mut Vec<usize>, kinds: &mut Vec<bool>, walks: &mut [Walk]) {
    let mut axis = 0;
    while axis + 1 < sizes.len() {
        let inner = sizes[axis + 1];
        let even = walks.iter().all(|w| w.strides[axis] == w.strides[axis + 1] * inner);
        if even && kinds[axis] == kinds[axis + 1] {
            sizes[axis] *= inner;
            sizes.remove(axis + 1);
            kinds.remove(axis);
            walks.iter_mut().for_each(|w| {
                w.strides.remove(axis);
            });
        } else {
            axis += 1;
        }
    }
}

/// Which axis becomes the row, the column, the outer loops.
struct Order {
    outer: Vec<usize>,
    row: Option<usize>,
    col: Option<usize>,
}

/// (order, nest, whole fold) for axes that are kept (`false`) or folded (`true`).
fn arrange(folded: &[bool]) -> Result<(Order, Nest, bool), String> {
    let n = folded.len();
    let kept: Vec<usize> = (0..n).filter(|&a| !folded[a]).collect();
    let gone: Vec<usize> = (0..n).filter(|&a| folded[a]).collect();
    let plain = |whole| {
        let order = Order { outer: (0..n.saturating_sub(2)).collect(), row: n.checked_sub(2), col: n.checked_sub(1) };
        Ok((order, Nest::Rows, whole))
    };
    match (gone.as_slice(), kept.as_slice()) {
        ([], _) => plain(false),
        (_, []) if n <= 2 => plain(true),
        // rows are folded along their columns
        ([col], [outer @ .., row]) if *col == n - 1 => {
            Ok((Order { outer: outer.to_vec(), row: Some(*row), col: Some(*col) }, Nest::Rows, false))
        }
        // columns are folded along their rows
        ([row], [outer @ .., col]) => {
            Ok((Order { outer: outer.to_vec(), row: Some(*row), col: Some(*col) }, Nest::Columns, false))
        }
        ([row, col], outer) if *col == n - 1 => {
            Ok((Order { outer: outer.to_vec(), row: Some(*row), col: Some(*col) }, Nest::Rows, true))
        }
        _ => Err("too many folded axes".into()),
    }
}

fn lower_matmul(draft: &Draft, kernel: &Kernel, id: NodeId) -> Result<Matmul, String> {
    let node = &draft.nodes[id];
    let Op::Matmul { ta, inner, .. } = node.op else { return Err(format!("%{id} is not a product")) };
    let (dims, batch) = (node.shape.dims(), node.shape.rank() - 2);
    let (a, b) = (Side::new(draft, node.inputs[0]), Side::new(draft, node.inputs[1]));
    let (a_row, a_k) = if ta { (batch + inner, batch) } else { (batch, batch + 1) };
    let mut sums: Vec<Deep> =
        (0..inner).map(|i| Deep { size: b.dims[batch + i], a: a.strides[a_k + i], b: b.strides[batch + i] }).collect();
    merge_sums(&mut sums);
    let k = sums.pop().unwrap_or(Deep { size: 1, a: 1, b: 1 });

    let space = draft.loop_space(id);
    let identity = Access::identity(&node.shape);
    let mut emitter = Emitter::new(draft, kernel, space.len());
    let results = emitter.roots()?;
    let stride = |w: &Walk, axis: usize| identity.loop_axis(axis).map_or(0, |l| w.strides[l]);
    let operand = |w: &Walk| Operand {
        buffer: w.buffer,
        dtype: w.dtype,
        offset: w.offset,
        outer: (0..batch).map(|axis| stride(w, axis)).collect(),
        row: stride(w, batch),
        col: stride(w, batch + 1),
    };
    let mut work = Matmul {
        outer: dims[..batch].to_vec(),
        m: dims[batch],
        n: dims[batch + 1],
        k: k.size,
        deep: sums,
        a: a.operand(batch, a.strides[a_row], k.a),
        b: b.operand(batch, k.b, b.stride(batch + inner)),
        operands: emitter.walks.iter().map(operand).collect(),
        program: emitter.program,
        stores: results,
    };
    merge_rows(&mut work);
    Ok(work)
}

/// Axes that both sides walk as one become one.
fn merge_sums(sums: &mut Vec<Deep>) {
    sums.retain(|d| d.size != 1);
    let mut i = 0;
    while i + 1 < sums.len() {
        let (outer, inner) = (sums[i], sums[i + 1]);
        if outer.a == inner.a * inner.size && outer.b == inner.b * inner.size {
            sums[i] = Deep { size: outer.size * inner.size, ..inner };
            sums.remove(i + 1);
        } else {
            i += 1;
        }
    }
}

/// Rows of several matrices that share their right side are rows of one.
fn merge_rows(work: &mut Matmul) {
    work.drop_outer(|size, _| size == 1);
    while let Some(last) = work.outer.len().checked_sub(1) {
        let one = work.m == 1;
        let even = |o: &Operand| one || o.outer[last] == o.row * work.m;
        if work.b.outer[last] != 0 || !even(&work.a) || !work.operands.iter().all(even) {
            return;
        }
        if one {
            [&mut work.a].into_iter().chain(&mut work.operands).for_each(|o| o.row = o.outer[last]);
        }
        work.m *= work.outer[last];
        work.drop_outer(|_, axis| axis == last);
    }
}

impl Matmul {
    fn drop_outer(&mut self, drop: impl Fn(usize, usize) -> bool) {
        let kept: Vec<bool> = self.outer.iter().enumerate().map(|(axis, &size)| !drop(size, axis)).collect();
        let keep = |list: &mut Vec<usize>| {
            let mut kept = kept.iter();
            list.retain(|_| *kept.next().unwrap_or(&true));
        };
        keep(&mut self.outer);
        [&mut self.a, &mut self.b].into_iter().chain(&mut self.operands).for_each(|o| keep(&mut o.outer));
    }
}

/// An operand of a product: views down to the stored node, as strides over its axes.
struct Side {
    buffer: BufferId,
    dtype: DType,
    offset: usize,
    dims: Vec<usize>,
    strides: Vec<usize>,
}

impl Side {
    fn new(draft: &Draft, id: NodeId) -> Side {
        let dims = draft.nodes[id].shape.dims().to_vec();
        // here every axis is a loop axis, also those of size 1
        let every = (0..dims.len()).map(crate::access::Axis::along).collect();
        let (mut node, mut access) = (id, Access(every));
        while !draft.stored.contains(&node) {
            match draft.inputs_under(node, &access).pop() {
                Some((input, a)) => (node, access) = (input, a),
                None => break,
            }
        }
        // what is left is stored, or a reshape of stored bytes
        let base = draft.base(node);
        let (offset, strides) = access.strides(&draft.nodes[node].shape, dims.len());
        Side { buffer: draft.buffer_of[&base], dtype: draft.nodes[base].dtype, offset, dims, strides }
    }

    /// Of an axis; along a single element, neighbours are beside each other.
    fn stride(&self, axis: usize) -> usize {
        if self.dims[axis] == 1 { 1 } else { self.strides[axis] }
    }

    fn operand(&self, batch: usize, row: usize, col: usize) -> Operand {
        let outer = self.strides[..batch].to_vec();
        Operand { buffer: self.buffer, dtype: self.dtype, offset: self.offset, outer, row, col }
    }
}

fn lower_other(draft: &Draft, id: NodeId) -> Work {
    let chain = draft.gathered.get(&id);
    let node = &draft.nodes[chain.map_or(id, |c| c.gather)];
    let buffer = |n: NodeId| draft.buffer_of[&draft.base(n)];
    let out = draft.buffer_of[&id];
    let shape = |i: usize| &draft.nodes[node.inputs[i]].shape;
    match &node.op {
        Op::GatherRows => Work::Gather(Gather {
            table: buffer(node.inputs[0]),
            indices: buffer(node.inputs[1]),
            out,
            rows: shape(1).elements(),
            table_rows: shape(0).dims()[0],
            width: shape(0).dims()[1..].iter().product(),
            affine: chain.and_then(|c| c.affine),
        }),
        Op::ScatterRows => Work::Scatter(Scatter {
            values: buffer(node.inputs[0]),
            indices: buffer(node.inputs[1]),
            out,
            rows: shape(1).elements(),
            table_rows: node.shape.dims()[0],
            width: node.shape.dims()[1..].iter().product(),
        }),
        Op::Random { stream } => Work::Random(Random { out, stream: *stream, elements: node.shape.elements() }),
        Op::Recurrence { scan, notes } => {
            let mut inputs = node.inputs.iter().map(|&i| buffer(i));
            let mut next = || inputs.next().unwrap_or(out);
            Work::Recurrence(Recurrence {
                scan: *scan,
                rows: shape(0).dims()[0] / scan.steps,
                width: node.shape.dims()[1],
                products: next(),
                weights: next(),
                biases: scan.bias.then(|| [next(), next()]),
                start: (0..scan.starts()).map(|_| next()).collect(),
                lengths: scan.lengths.then(&mut next),
                out,
                notes: *notes,
            })
        }
        Op::RecurrenceGradient { scan, arriving } => {
            let mut inputs = node.inputs.iter().map(|&i| buffer(i));
            let mut next = || inputs.next().unwrap_or(out);
            Work::RecurrenceGradient(RecurrenceGradient {
                scan: *scan,
                rows: node.shape.dims()[0] / (scan.steps + 1),
                width: shape(1).dims()[0],
                states: next(),
                weights: next(),
                lengths: scan.lengths.then(&mut next),
                each: arriving.each.then(&mut next),
                last: arriving.last.then(&mut next),
                cell: arriving.cell.then(&mut next),
                out,
            })
        }
        _ => {
            let cols = shape(0).dims().last().copied().unwrap_or(1);
            Work::ArgMax(ArgMax { input: buffer(node.inputs[0]), out, rows: node.shape.elements(), cols })
        }
    }
}
