use citius_graph::{Graph, LeafKind, NodeId, Op, Phase, TraceError};

use crate::cost::cost;
use crate::draft::{Body, Draft, Kernel, Root};
use crate::fuse::Join;
use crate::plan::*;
use crate::{fuse, lower, materialise, order, padding, place, split, verify};

#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// A mistake in the traced program.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Something that has no kernel yet.
    #[error("{0}")]
    Unsupported(String),
    /// A mistake of ours.
    #[error("internal error while planning: {0}; please report it with the output of `citius plan`")]
    Internal(String),
}

/// Compiles a traced graph: a straight list of passes.
pub fn compile(graph: &Graph) -> Result<Plan, CompileError> {
    compile_counted(graph).map(|(plan, _)| plan)
}

/// The plan, and how many kernels and buffers were looked at to make it: a measure of the work that no machine's speed is in.
pub fn compile_counted(graph: &Graph) -> Result<(Plan, u64), CompileError> {
    graph.check()?;
    graph.verify().map_err(CompileError::Internal)?;
    let mut draft = Draft::new(graph);
    split::split_reductions(&mut draft);
    materialise::untranspose_products(&mut draft);
    padding::read_inside_padding(&mut draft);
    materialise::choose_stored(&mut draft);
    // a GPU folds such an expression while it makes it
    if !graph.is_for_gpu() {
        materialise::recut_maps(&mut draft);
    }
    materialise::turn_results(&mut draft);
    materialise::absorb_gathers(&mut draft);
    materialise::check_stored(&draft).map_err(CompileError::Unsupported)?;
    let mut stored = draft.stored.clone();
    // stuck folds mended at once: one may free others, yet thousands must not take thousands of rounds
    let mut at_once = 1;
    loop {
        draft.stored = stored.clone();
        fuse::form_kernels(&mut draft);
        fuse::merge_loops(&mut draft, Join::Updates);
        fuse::merge_loops(&mut draft, Join::Plain);
        fuse::fuse_epilogues(&mut draft);
        fuse::merge_loops(&mut draft, Join::Any);
        fuse::drop_unread(&mut draft);
        let waves = order::order_waves(&mut draft).map_err(CompileError::Internal)?;
        match assemble(&mut draft, &waves, at_once) {
            Ok(mut plan) => {
                let kept: Vec<BufferId> = plan.outputs.iter().map(|o| o.1).collect();
                plan.scratch_bytes = place::place_buffers(&mut plan.buffers, &plan.calls, &kept);
                verify::verify(&plan).map_err(CompileError::Internal)?;
                (plan.limits, plan.warnings) = (graph.limits(), graph.warnings());
                return Ok((plan, draft.visits.get()));
            }
            Err(stuck) => {
                // a reduction whose input does not walk evenly: store that input, fold it by itself, and start over
                for Stuck { value, why } in stuck {
                    let value = value.filter(|&value| draft.apart.insert(value));
                    let value = value.ok_or(CompileError::Internal(why))?;
                    // other axes over stored bytes have them already
                    if !draft.is_recut(value) {
                        stored.insert(value);
                    }
                }
                at_once *= 2;
            }
        }
    }
}

struct Stuck {
    value: Option<NodeId>,
    why: String,
}

/// Pass `lower` over all kernels, and the list of buffers. `Err`: up to `most` kernels that cannot be lowered as they are.
fn assemble(draft: &mut Draft, waves: &[usize], most: usize) -> Result<Plan, Vec<Stuck>> {
    let buffers = allocate(draft);
    let mut calls = Vec::new();
    let mut stuck: Vec<Stuck> = Vec::new();
    for (kernel, &wave) in draft.kernels.iter().zip(waves) {
        let work = match lower::lower(draft, kernel) {
            Ok(work) => work,
            Err(why) => {
                let known =
                    |value: NodeId| draft.apart.contains(&value) || stuck.iter().any(|s| s.value == Some(value));
                let fold = |r: &&Root| r.fold.is_some() && !known(r.value);
                let value = kernel.roots.iter().find(fold).map(|r| r.value);
                // one that waits for the same value as another may be freed with it
                if value.is_some() || stuck.is_empty() {
                    stuck.push(Stuck { value, why });
                }
                if stuck.len() == most {
                    break;
                }
                continue;
            }
        };
        if !is_empty(&work) {
            let cost = cost(&work, &buffers);
            calls.push(Call { work, wave, cost, label: label(draft, kernel), phase: draft.phase(kernel) });
        }
    }
    if !stuck.is_empty() {
        return Err(stuck);
    }
    calls.sort_by_key(|c| c.wave);
    let outputs = draft.outputs.iter().map(|(name, id)| (name.clone(), draft.buffer_of[&draft.base(*id)])).collect();
    let waves = calls.iter().map(|c| c.wave + 1).max().unwrap_or(0);
    Ok(Plan { buffers, scratch_bytes: 0, calls, waves, outputs, limits: Vec::new(), warnings: Vec::new() })
}

/// A buffer for each stored node that is used; updates made in place share the leaf's.
fn allocate(draft: &mut Draft) -> Vec<Buffer> {
    let mut buffers = Vec::new();
    draft.buffer_of.clear();
    let order = draft.order();
    let written: Vec<usize> = draft.kernels.iter().flat_map(|k| &k.roots).map(|r| r.target.node).collect();
    for id in order.into_iter().chain(written) {
        if !(draft.stored.contains(&id) || draft.is_given(id)) || draft.buffer_of.contains_key(&id) {
            continue;
        }
        let node = &draft.nodes[id];
        let storage = match &node.op {
            Op::Leaf(i) => {
                let leaf = &draft.leaves[*i];
                let (name, kind) = (leaf.name.clone(), leaf.kind);
                Storage::Leaf { name, kind, init: leaf.init, seen: leaf.seen.clone(), part: leaf.part.clone() }
            }
            Op::Step => Storage::Step,
            Op::Iota => Storage::Constant((0..node.shape.elements()).map(|i| i as f32).collect()),
            _ => Storage::Scratch { offset: 0 },
        };
        buffers.push(Buffer { shape: node.shape.clone(), dtype: node.dtype, storage });
        draft.buffer_of.insert(id, buffers.len() - 1);
    }
    // a value stored straight into a leaf is read from there
    for root in draft.kernels.iter().flat_map(|k| &k.roots) {
        if let Some(made) = root.defines.filter(|&d| d != root.target.node && draft.is_given(root.target.node)) {
            let leaf = draft.buffer_of[&root.target.node];
            draft.buffer_of.insert(made, leaf);
        }
    }
    buffers
}

impl Draft {
    /// Of the product, or the latest of what a loop stores; rows of an input come with the batch.
    fn phase(&self, kernel: &Kernel) -> Phase {
        match kernel.body {
            Body::Matmul(id) => self.nodes[id].phase,
            Body::Other(id) => match self.gathers_input(id) {
                true => Phase::Batch,
                false => self.nodes[id].phase,
            },
            Body::Loop(_) => {
                kernel.roots.iter().map(|r| self.nodes[r.defines.unwrap_or(r.value)].phase).max().unwrap_or_default()
            }
        }
    }

    fn gathers_input(&self, id: NodeId) -> bool {
        let gather = self.gathered.get(&id).map_or(id, |chain| chain.gather);
        let table = self.nodes[gather].inputs.first().map(|&table| &self.nodes[self.base(table)].op);
        let is_input = |leaf: usize| self.leaves[leaf].kind == LeafKind::Input;
        matches!(self.nodes[gather].op, Op::GatherRows) && matches!(table, Some(Op::Leaf(leaf)) if is_input(*leaf))
    }

    pub(crate) fn target_buffer(&self, root: &Root) -> BufferId {
        self.buffer_of[&root.target.node]
    }
}

fn is_empty(work: &Work) -> bool {
    match work {
        Work::Loop(l) => l.outer.iter().product::<usize>() * l.rows * l.cols == 0 && l.folds.is_empty(),
        Work::Matmul(m) => m.outer.iter().product::<usize>() * m.m * m.n == 0,
        Work::Gather(g) => g.rows * g.width == 0,
        Work::Scatter(s) => s.table_rows * s.width == 0,
        Work::Random(r) => r.elements == 0,
        Work::ArgMax(a) => a.rows == 0,
        Work::Recurrence(r) => r.rows == 0,
        Work::RecurrenceGradient(r) => r.rows == 0,
    }
}

/// The ops of a kernel, shortest useful form, with the line of the user's program.
fn label(draft: &Draft, kernel: &Kernel) -> String {
    let place = |id: usize| {
        let place = &draft.nodes[id].place;
        place.rsplit('/').next().unwrap_or(place).to_string()
    };
    match &kernel.body {
        Body::Matmul(id) => {
            let ops: Vec<&str> = epilogue_ops(draft, kernel, *id);
            let epilogue = if ops.is_empty() { String::new() } else { format!(" → {}", ops.join(", ")) };
            format!("matmul{epilogue}  # {}", place(*id))
        }
        Body::Other(id) => format!("{}  # {}", draft.nodes[*id].op.name(), place(*id)),
        Body::Loop(_) => {
            let name = |r: &Root| draft.nodes[r.defines.unwrap_or(r.value)].op.name();
            let mut ops: Vec<&str> = kernel.roots.iter().map(name).collect();
            ops.dedup();
            let last = kernel.roots.last().map_or(String::new(), |r| place(r.defines.unwrap_or(r.value)));
            format!("{}  # {last}", ops.join(", "))
        }
    }
}

fn epilogue_ops<'a>(draft: &'a Draft, kernel: &Kernel, product: usize) -> Vec<&'a str> {
    let others = kernel.roots.iter().filter(|r| r.value != product);
    others.map(|r| draft.nodes[r.value].op.name()).collect()
}
