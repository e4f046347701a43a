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
                    Op::Transpose { .. } | Op::Slice { .. } => inputs[0],
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
    let Op::Matmul { ta, .. } = node.op else { return Err(format!("%{id} is not a product")) };
    let (dims, rank) = (node.shape.dims(), node.shape.rank());
    let a_dims = draft.nodes[node.inputs[0]].shape.dims();
    let k = if ta { a_dims[rank - 2] } else { a_dims[rank - 1] };
    let side = |input: usize, rows: usize, cols: usize| view(draft, input, rank, rows, cols);
    let (a_row, a_col) = if ta { (rank - 1, rank - 2) } else { (rank - 2, rank - 1) };
    let a = side(node.inputs[0], a_row, a_col);
    let b = side(node.inputs[1], rank - 2, rank - 1);

    let space = draft.loop_space(id);
    let identity = Access::identity(&node.shape);
    let mut emitter = Emitter::new(draft, kernel, space.len());
    let results = emitter.roots()?;
    let stride = |w: &Walk, axis: usize| identity.0[axis].follows.map_or(0, |l| w.strides[l]);
    let operand = |w: &Walk| Operand {
        buffer: w.buffer,
        dtype: w.dtype,
        offset: w.offset,
        outer: (0..rank - 2).map(|axis| stride(w, axis)).collect(),
        row: stride(w, rank - 2),
        col: stride(w, rank - 1),
    };
    Ok(Matmul {
        outer: dims[..rank - 2].to_vec(),
        m: dims[rank - 2],
        n: dims[rank - 1],
        k,
        a,
        b,
        operands: emitter.walks.iter().map(operand).collect(),
        program: emitter.program,
        stores: results,
    })
}

/// An operand of a product: views down to the stored node, as strides over its axes.
fn view(draft: &Draft, id: NodeId, rank: usize, row: usize, col: usize) -> Operand {
    let shape = &draft.nodes[id].shape;
    // here every axis is a loop axis, also those of size 1
    let every = (0..shape.rank()).map(|a| crate::access::Axis { follows: Some(a), start: 0 }).collect();
    let (mut node, mut access) = (id, Access(every));
    while !draft.stored.contains(&node) {
        match draft.inputs_under(node, &access).pop() {
            Some((input, a)) => (node, access) = (input, a),
            None => break,
        }
    }
    // what is left is stored, or a reshape of stored bytes
    let base = draft.base(node);
    let (offset, strides) = access.strides(&draft.nodes[node].shape, rank);
    let one = |axis: usize| shape.dims()[axis] == 1;
    Operand {
        buffer: draft.buffer_of[&base],
        dtype: draft.nodes[base].dtype,
        offset,
        outer: strides[..rank - 2].to_vec(),
        row: strides[row],
        col: if one(col) { 1 } else { strides[col] },
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
