//! Passes that form kernels: one per stored node, then neighbours merged, then loops moved into the epilogue of products.

use std::collections::{HashMap, HashSet};

use citius_graph::{DType, NodeId, Op};

use crate::access::Access;
use crate::draft::{Body, Draft, Kernel, Root, Target};

/// A kernel with more operands or roots than this is not merged further.
const MOST_OPERANDS: usize = 24;

/// Pass `form_kernels`: a kernel for each stored node that is not given.
pub fn form_kernels(draft: &mut Draft) {
    let mut kernels = Vec::new();
    let targets = update_targets(draft);
    for id in draft.order().into_iter().filter(|id| draft.stored.contains(id) && !draft.is_given(*id)) {
        let node = &draft.nodes[id];
        let target = targets.iter().find(|t| t.1 == id).map_or(id, |t| t.0);
        if draft.gathered.contains_key(&id) {
            kernels.push(Kernel { body: Body::Other(id), roots: vec![] });
            continue;
        }
        match &node.op {
            Op::Matmul { .. } => {
                let root = Root { value: id, defines: Some(id), fold: None, target: draft.whole(id, id) };
                kernels.push(Kernel { body: Body::Matmul(id), roots: vec![root] });
            }
            Op::GatherRows
            | Op::ScatterRows
            | Op::Random { .. }
            | Op::ArgMax
            | Op::Recurrence { .. }
            | Op::RecurrenceGradient { .. } => {
                kernels.push(Kernel { body: Body::Other(id), roots: vec![] });
            }
            Op::Reduce { kind, axes } => {
                let input = node.inputs[0];
                let shape = &draft.nodes[input].shape;
                let identity = Access::identity(shape);
                let folded: Vec<usize> = axes.iter().filter_map(|&a| identity.loop_axis(a)).collect();
                // strides of the result, 0 along folded axes
                let kept = identity.through_broadcast(&node.shape);
                let (offset, strides) = kept.strides(&node.shape, draft.loop_space(input).len());
                let target = Target { node: id, offset, strides };
                let root = Root { value: input, defines: Some(id), fold: Some((*kind, folded)), target };
                kernels.push(Kernel { body: Body::Loop(draft.loop_space(input)), roots: vec![root] });
            }
            Op::Join { at: starts, step } => {
                for (&part, starts) in node.inputs.iter().zip(starts) {
                    let shape = &draft.nodes[part].shape;
                    let mut at = Access::identity(shape);
                    for (axis, (start, step)) in at.0.iter_mut().zip(starts.iter().zip(step)) {
                        *axis = axis.times(*step);
                        axis.start = *start;
                    }
                    if shape.elements() == 0 {
                        continue;
                    }
                    let (offset, strides) = at.strides(&node.shape, draft.loop_space(part).len());
                    let target = Target { node: id, offset, strides };
                    let root = Root { value: part, defines: None, fold: None, target };
                    kernels.push(Kernel { body: Body::Loop(draft.loop_space(part)), roots: vec![root] });
                }
            }
            Op::Transpose { perm } if draft.is_unstored_product(node.inputs[0]) => {
                let product = node.inputs[0];
                let shape = &draft.nodes[product].shape;
                // where each axis of the product is in the result
                let mut place = vec![0; perm.len()];
                perm.iter().enumerate().for_each(|(to, &from)| place[from] = to);
                let at = Access::identity(shape).through_transpose(&place);
                let (offset, strides) = at.strides(&node.shape, draft.loop_space(product).len());
                let target = Target { node: id, offset, strides };
                let root = Root { value: product, defines: Some(id), fold: None, target };
                kernels.push(Kernel { body: Body::Matmul(product), roots: vec![root] });
            }
            _ => {
                let root = Root { value: id, defines: Some(id), fold: None, target: draft.whole(id, target) };
                kernels.push(Kernel { body: Body::Loop(draft.loop_space(id)), roots: vec![root] });
            }
        }
    }
    for &(leaf, value) in &draft.updates {
        if !targets.contains(&(leaf, value)) && leaf != value {
            let root = Root { value, defines: None, fold: None, target: draft.whole(value, leaf) };
            kernels.push(Kernel { body: Body::Loop(draft.loop_space(value)), roots: vec![root] });
        }
    }
    draft.kernels = kernels;
}

/// Updates whose value can be written straight over the leaf: made by a map op, for this leaf alone, not read under a name.
fn update_targets(draft: &Draft) -> Vec<(NodeId, NodeId)> {
    let mut direct: Vec<(NodeId, NodeId)> = Vec::new();
    for &(leaf, value) in &draft.updates {
        let map = matches!(draft.nodes[value].op, Op::Map { .. }) && draft.stored.contains(&value);
        let named = draft.outputs.iter().any(|o| draft.base(o.1) == value);
        let once = draft.updates.iter().filter(|u| u.1 == value).count() == 1;
        if map && once && !named && !draft.gathered.contains_key(&value) {
            direct.push((leaf, value));
        }
    }
    direct
}

/// Which loops `merge_loops` may join.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// One of the two updates a parameter or state: the optimiser's pass takes the probes' folds along.
    Updates,
    /// Neither folds: what a product's registers can take should not wait for a fold.
    Plain,
    Any,
}

/// Pass `merge_loops`: loops over the same space that share a load, or feed one another element by element, become one, as long
/// as the longest chain of kernels does not grow.
pub fn merge_loops(draft: &mut Draft, join: Join) {
    let mut links = Links::new(draft);
    let mut i = 0;
    while i < draft.kernels.len() {
        let mut j = i + 1;
        while j < draft.kernels.len() {
            match merged(draft, &links, join, i, j) {
                Some(kernel) => {
                    draft.kernels[i] = kernel;
                    draft.kernels.remove(j);
                    links.joined(draft, i, j);
                    // what was refused before may now fit
                    j = i + 1;
                }
                None => j += 1,
            }
        }
        i += 1;
    }
}

fn merged(draft: &Draft, links: &Links, join: Join, i: usize, j: usize) -> Option<Kernel> {
    let (a, b) = (&draft.kernels[i], &draft.kernels[j]);
    let (Body::Loop(space), Body::Loop(other)) = (&a.body, &b.body) else { return None };
    let roots = || a.roots.iter().chain(&b.roots);
    let allowed = match join {
        Join::Updates => roots().any(|r| draft.is_given(r.target.node)),
        Join::Plain => roots().all(|r| r.fold.is_none()),
        Join::Any => true,
    };
    let apart = roots().any(|r| r.fold.is_some() && draft.apart.contains(&r.value));
    // a copy of integers moves bits; an expression reads numbers
    let apart = apart || roots().any(|r| draft.nodes[r.target.node].dtype != DType::F32);
    if !allowed || apart || space != other || !folds_agree(a, b) {
        return None;
    }
    let loaded = |k: usize| links.loads[k].iter().map(|l| l.0).collect::<HashSet<_>>();
    let (la, lb) = (loaded(i), loaded(j));
    let feeds = |k: &Kernel, l: &HashSet<NodeId>| k.roots.iter().any(|r| r.defines.is_some_and(|d| l.contains(&d)));
    let shared = la.intersection(&lb).any(|&n| space.is_empty() || draft.nodes[n].shape.elements() > 1);
    // a call costs more than the work on one number
    let scalars = space.is_empty() && links.before[i] == links.before[j];
    if !(feeds(a, &lb) || feeds(b, &la) || shared || scalars) || links.lengthens(i, j) || links.meet_elsewhere(i, j) {
        return None;
    }
    joined(draft, a, b, &[])
}

/// Both kernels in one, unless an iteration would need what another one makes or overwrites.
fn joined(draft: &Draft, a: &Kernel, b: &Kernel, read_by_product: &[NodeId]) -> Option<Kernel> {
    let roots = a.roots.iter().chain(&b.roots).cloned().collect();
    let kernel = Kernel { body: a.body.clone(), roots };
    let loads = draft.loads(&kernel).ok()?;
    // an update in place may read the old value only at the element it writes
    let clobbers = kernel.roots.iter().any(|r| {
        let whole = Access::identity(&draft.nodes[r.target.node].shape);
        let read_elsewhere = |(n, at): &(NodeId, Access)| *n == r.target.node && *at != whole;
        read_by_product.contains(&r.target.node) || loads.iter().any(read_elsewhere)
    });
    (!clobbers && loads.len() + kernel.roots.len() <= MOST_OPERANDS).then_some(kernel)
}

/// All folds of a kernel run over the same axes.
fn folds_agree(a: &Kernel, b: &Kernel) -> bool {
    let mut sets = a.roots.iter().chain(&b.roots).filter_map(|r| r.fold.as_ref().map(|f| &f.1));
    sets.next().is_none_or(|first| sets.all(|s| s == first))
}

/// Pass `fuse_epilogues`: a loop without folds that reads a product element by element runs on the product's registers.
pub fn fuse_epilogues(draft: &mut Draft) {
    let mut links = Links::new(draft);
    let mut i = 0;
    while i < draft.kernels.len() {
        if let Body::Matmul(product) = draft.kernels[i].body {
            let found = (0..draft.kernels.len()).find_map(|j| epilogue(draft, &links, i, j, product).map(|k| (j, k)));
            if let Some((j, kernel)) = found {
                draft.kernels[i] = kernel;
                draft.kernels.remove(j);
                i -= (j < i) as usize;
                links = Links::new(draft);
            }
        }
        i += 1;
    }
}

fn epilogue(draft: &Draft, links: &Links, i: usize, j: usize, product: NodeId) -> Option<Kernel> {
    let (a, b) = (&draft.kernels[i], &draft.kernels[j]);
    let Body::Loop(space) = &b.body else { return None };
    let same_axes = b.roots.iter().all(|r| draft.nodes[r.value].shape == draft.nodes[product].shape);
    let folds = b.roots.iter().any(|r| r.fold.is_some());
    let reads_product = links.loads[j].iter().any(|l| l.0 == product);
    if folds || !same_axes || !reads_product || *space != draft.loop_space(product) || links.meet_elsewhere(i, j) {
        return None;
    }
    let numbers = links.loads[j].iter().all(|(n, _)| draft.nodes[*n].dtype == DType::F32);
    if !numbers {
        return None;
    }
    // a product must not wait for what only its epilogue needs: two halves of a sum run side by side
    if links.before(j, i) > links.before[i] {
        return None;
    }
    let operands: Vec<NodeId> = draft.nodes[product].inputs.iter().map(|&n| draft.base(n)).collect();
    joined(draft, a, b, &operands)
}

/// Pass `drop_unread`: what only its own kernel reads, in registers, is never written.
pub fn drop_unread(draft: &mut Draft) {
    let links = Links::new(draft);
    let named: HashSet<NodeId> = draft.outputs.iter().map(|o| draft.base(o.1)).collect();
    for i in 0..draft.kernels.len() {
        let read_elsewhere =
            |n: NodeId| links.loads.iter().enumerate().any(|(j, l)| j != i && l.iter().any(|(loaded, _)| *loaded == n));
        let needed = |r: &Root| match r.defines {
            Some(made) if made == r.target.node => named.contains(&made) || read_elsewhere(made),
            _ => true,
        };
        let gone: Vec<NodeId> =
            draft.kernels[i].roots.iter().filter(|r| !needed(r)).filter_map(|r| r.defines).collect();
        // a fold keeps its root: its kernel's axes are arranged by it
        let folds = |n: NodeId| draft.kernels[i].roots.iter().any(|r| r.defines == Some(n) && r.fold.is_some());
        let gone: Vec<NodeId> = gone.into_iter().filter(|&n| !folds(n)).collect();
        if gone.len() < draft.kernels[i].roots.len() {
            draft.kernels[i].roots.retain(|r| r.defines.is_none_or(|n| !gone.contains(&n)));
            gone.iter().for_each(|n| {
                draft.stored.remove(n);
            });
        }
    }
}

/// What each kernel loads, which kernels must run after it, and how many wait before and after it on the longest chain.
pub struct Links {
    pub loads: Vec<Vec<(NodeId, Access)>>,
    pub next: Vec<Vec<usize>>,
    before: Vec<usize>,
    after: Vec<usize>,
}

impl Links {
    pub fn new(draft: &Draft) -> Links {
        let loads = draft.kernels.iter().map(|k| draft.loads(k).unwrap_or_default()).collect();
        let mut links = Links { loads, next: vec![], before: vec![], after: vec![] };
        links.connect(draft);
        links
    }

    /// Kernel `j` went into kernel `i`.
    fn joined(&mut self, draft: &Draft, i: usize, j: usize) {
        self.loads[i] = draft.loads(&draft.kernels[i]).unwrap_or_default();
        self.loads.remove(j);
        self.connect(draft);
    }

    /// Edges: from the maker of a node to its readers, and from the readers of a leaf to the kernel that overwrites it.
    fn connect(&mut self, draft: &Draft) {
        let mut makers: HashMap<NodeId, Vec<usize>> = HashMap::new();
        let mut writers: HashMap<NodeId, Vec<usize>> = HashMap::new();
        for (k, kernel) in draft.kernels.iter().enumerate() {
            if let Body::Other(id) = kernel.body {
                makers.entry(id).or_default().push(k);
            }
            for root in &kernel.roots {
                let leaf = draft.is_given(root.target.node);
                if leaf {
                    writers.entry(root.target.node).or_default().push(k);
                }
                if let Some(made) = root.defines.or((!leaf).then_some(root.target.node)) {
                    makers.entry(made).or_default().push(k);
                }
            }
        }
        self.next = vec![Vec::new(); draft.kernels.len()];
        for (k, loads) in self.loads.iter().enumerate() {
            for (node, _) in loads {
                let before = makers.get(node).into_iter().flatten();
                before.filter(|&&m| m != k).for_each(|&m| self.next[m].push(k));
                let after = writers.get(node).into_iter().flatten();
                after.filter(|&&w| w != k).for_each(|&w| self.next[k].push(w));
            }
        }
        self.next.iter_mut().for_each(|n| {
            n.sort_unstable();
            n.dedup();
        });
        let order = self.in_order();
        self.before = vec![0; order.len()];
        self.after = vec![0; order.len()];
        for &k in &order {
            self.next[k].iter().for_each(|&n| self.before[n] = self.before[n].max(self.before[k] + 1));
        }
        for &k in order.iter().rev() {
            self.after[k] = self.next[k].iter().map(|&n| self.after[n] + 1).max().unwrap_or(0);
        }
    }

    /// Kernels in the order they can run; those on a cycle at the end.
    fn in_order(&self) -> Vec<usize> {
        let mut waiting = vec![0; self.next.len()];
        self.next.iter().flatten().for_each(|&k| waiting[k] += 1);
        let mut order: Vec<usize> = (0..waiting.len()).filter(|&k| waiting[k] == 0).collect();
        let mut at = 0;
        while at < order.len() {
            for &n in &self.next[order[at]] {
                waiting[n] -= 1;
                if waiting[n] == 0 {
                    order.push(n);
                }
            }
            at += 1;
        }
        order.extend((0..waiting.len()).filter(|&k| waiting[k] > 0));
        order
    }

    /// The wave in which kernel `k` could run if it did not wait for `without`.
    fn before(&self, k: usize, without: usize) -> usize {
        let into = |p: &usize| *p != without && self.next[*p].contains(&k);
        (0..self.next.len()).filter(into).map(|p| self.before[p] + 1).max().unwrap_or(0)
    }

    /// Would these two as one kernel make the longest chain longer?
    fn lengthens(&self, i: usize, j: usize) -> bool {
        let pair = |k: usize| k == i || k == j;
        let into = |k: usize| !pair(k) && self.next[k].iter().any(|&n| pair(n));
        let before = (0..self.next.len()).filter(|&k| into(k)).map(|k| self.before[k] + 1).max().unwrap_or(0);
        let following = self.next[i].iter().chain(&self.next[j]).filter(|&&k| !pair(k));
        let after = following.map(|&k| self.after[k] + 1).max().unwrap_or(0);
        let longest = (0..self.next.len()).map(|k| self.before[k] + self.after[k]).max().unwrap_or(0);
        before + after > longest
    }

    /// Is there a way from one to the other through a third kernel?
    fn meet_elsewhere(&self, i: usize, j: usize) -> bool {
        self.leads(i, j) || self.leads(j, i)
    }

    fn leads(&self, from: usize, to: usize) -> bool {
        let mut seen = vec![false; self.next.len()];
        let mut stack: Vec<usize> = self.next[from].iter().copied().filter(|&k| k != to).collect();
        while let Some(k) = stack.pop() {
            if k == to {
                return true;
            }
            if !std::mem::replace(&mut seen[k], true) {
                stack.extend(&self.next[k]);
            }
        }
        false
    }
}
