//! The dependence graph of the kernels, kept while they are merged: who reads and makes what, and the length of the longest chain
//! before and after each.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use citius_graph::NodeId;

use crate::access::Access;
use crate::draft::{Body, Draft};

/// Times that a pass computes all levels anew. In between they are upper bounds, so that many merges of many kernels cost no more
/// than few of few.
const RENEWALS: usize = 1024;

/// Readers and makers of one value that a kernel is compared with. A value that a whole network reads would else make all pairs.
const MOST_NEIGHBOURS: usize = 64;

/// What each kernel loads, which kernels must run after it, and how many wait before and after it on the longest chain. Kernels
/// keep their numbers until the pass is over; one that was merged into another is gone.
pub struct Links {
    /// (stored node, access) of each kernel.
    pub loads: Vec<Vec<(NodeId, Access)>>,
    /// The nodes of `loads`, sorted.
    loaded: Vec<Vec<NodeId>>,
    pub next: Vec<BTreeSet<usize>>,
    prev: Vec<BTreeSet<usize>>,
    gone: Vec<bool>,
    /// Kernels that load a node, that make it, and that overwrite it where it is a leaf.
    readers: Vec<BTreeSet<usize>>,
    makers: Vec<BTreeSet<usize>>,
    writers: Vec<BTreeSet<usize>>,
    before: Vec<usize>,
    after: Vec<usize>,
    longest: usize,
    /// Kernels of one number by `before`.
    scalars: HashMap<usize, BTreeSet<usize>>,
    /// Some kernels wait for each other, since a leaf is read by one that needs its new value too. Merges or `order_waves` end that.
    cyclic: bool,
    merges: usize,
}

impl Links {
    pub fn new(draft: &Draft) -> Links {
        let (kernels, nodes) = (draft.kernels.len(), draft.nodes.len());
        let mut links = Links {
            loads: vec![vec![]; kernels],
            loaded: vec![vec![]; kernels],
            next: vec![BTreeSet::new(); kernels],
            prev: vec![BTreeSet::new(); kernels],
            gone: vec![false; kernels],
            readers: vec![BTreeSet::new(); nodes],
            makers: vec![BTreeSet::new(); nodes],
            writers: vec![BTreeSet::new(); nodes],
            before: vec![0; kernels],
            after: vec![0; kernels],
            longest: 0,
            scalars: HashMap::new(),
            cyclic: false,
            merges: 0,
        };
        (0..kernels).for_each(|k| links.enter(draft, k));
        (0..kernels).for_each(|k| links.connect(draft, k));
        links.renew(draft);
        links
    }

    /// Kernel `j` went into kernel `i`, which `draft` holds already.
    pub fn merged(&mut self, draft: &Draft, i: usize, j: usize) {
        for k in [i, j] {
            for node in std::mem::take(&mut self.loaded[k]) {
                self.readers[node].remove(&k);
            }
            for other in std::mem::take(&mut self.next[k]) {
                self.prev[other].remove(&k);
            }
            for other in std::mem::take(&mut self.prev[k]) {
                self.next[other].remove(&k);
            }
            if let Some(level) = self.scalars.get_mut(&self.before[k]) {
                level.remove(&k);
            }
        }
        // roots are never lost by a merge: what `j` made, `i` makes
        self.forget(draft, j);
        self.gone[j] = true;
        self.loads[j].clear();
        (self.before[j], self.after[j]) = (0, 0);
        self.enter(draft, i);
        self.connect(draft, i);
        self.merges += 1;
        let kernels = draft.kernels.len();
        match self.merges.is_multiple_of(kernels / RENEWALS + 1) {
            true => self.renew(draft),
            false => self.level(draft, i),
        }
    }

    /// Leaves out the kernels that were merged into others.
    pub fn sweep(self, draft: &mut Draft) {
        let mut gone = self.gone.iter();
        draft.kernels.retain(|_| !gone.next().copied().unwrap_or(false));
    }

    pub fn is_gone(&self, k: usize) -> bool {
        self.gone[k]
    }

    /// Kernels behind `i` that read what it reads or makes, or make what it reads, or compute one number in its wave.
    pub fn neighbours(&self, draft: &Draft, i: usize) -> Vec<usize> {
        let behind = |set: &BTreeSet<usize>| set.range(i + 1..).take(MOST_NEIGHBOURS).copied().collect::<Vec<_>>();
        let scalar = is_scalar(draft, i);
        let mut found = Vec::new();
        for &node in &self.loaded[i] {
            if scalar || draft.nodes[node].shape.elements() > 1 {
                found.extend(behind(&self.readers[node]));
            }
            found.extend(behind(&self.makers[node]));
        }
        for made in draft.kernels[i].roots.iter().filter_map(|r| r.defines) {
            found.extend(behind(&self.readers[made]));
        }
        if let Some(level) = self.scalars.get(&self.before[i]).filter(|_| scalar) {
            found.extend(behind(level));
        }
        found.sort_unstable();
        found.dedup();
        draft.visit_kernels(found.len());
        found
    }

    /// Kernels that load this node.
    pub fn readers(&self, node: NodeId) -> &BTreeSet<usize> {
        &self.readers[node]
    }

    pub fn reads(&self, k: usize, node: NodeId) -> bool {
        self.loaded[k].binary_search(&node).is_ok()
    }

    /// Nodes that both load.
    pub fn shared(&self, i: usize, j: usize) -> impl Iterator<Item = NodeId> + '_ {
        self.loaded[i].iter().copied().filter(move |&node| self.reads(j, node))
    }

    pub fn in_one_wave(&self, i: usize, j: usize) -> bool {
        self.before[i] == self.before[j]
    }

    /// Would kernel `j`, if it did not wait for `i`, still wait longer than `i` does?
    pub fn waits_longer(&self, j: usize, i: usize) -> bool {
        let before = self.prev[j].iter().filter(|&&p| p != i).map(|&p| self.before[p] + 1).max().unwrap_or(0);
        before > self.before[i]
    }

    /// Would these two as one kernel make the longest chain longer?
    pub fn lengthens(&self, draft: &Draft, i: usize, j: usize) -> bool {
        let pair = |k: &&usize| **k != i && **k != j;
        let into = self.prev[i].iter().chain(&self.prev[j]).filter(pair);
        let before = into.map(|&k| self.before[k] + 1).max().unwrap_or(0);
        let following = self.next[i].iter().chain(&self.next[j]).filter(pair);
        let after = following.map(|&k| self.after[k] + 1).max().unwrap_or(0);
        draft.visit_kernels([i, j].iter().map(|&k| self.prev[k].len() + self.next[k].len()).sum());
        before + after > self.longest
    }

    /// Is there a way from one to the other through a third kernel?
    pub fn meet_elsewhere(&self, draft: &Draft, i: usize, j: usize) -> bool {
        self.leads(draft, i, j) || self.leads(draft, j, i)
    }

    fn leads(&self, draft: &Draft, from: usize, to: usize) -> bool {
        // levels rise along every edge, so a way to `to` passes none beyond it
        let on_the_way =
            |&&k: &&usize| self.cyclic || (self.before[k] < self.before[to] && self.after[k] > self.after[to]);
        let mut seen = BTreeSet::new();
        let mut stack: Vec<usize> = self.next[from].iter().filter(|&&k| k != to).filter(on_the_way).copied().collect();
        while let Some(k) = stack.pop() {
            if k == to || (!self.cyclic && self.next[k].contains(&to)) {
                return true;
            }
            if seen.insert(k) {
                stack.extend(self.next[k].iter().filter(on_the_way));
            }
        }
        draft.visit_kernels(seen.len());
        false
    }

    /// What kernel `k` loads, makes and overwrites.
    fn enter(&mut self, draft: &Draft, k: usize) {
        self.loads[k] = draft.loads(&draft.kernels[k]).unwrap_or_default();
        self.loaded[k] = self.loads[k].iter().map(|l| l.0).collect();
        self.loaded[k].sort_unstable();
        self.loaded[k].dedup();
        for &node in &self.loaded[k] {
            self.readers[node].insert(k);
        }
        let (made, overwritten) = results(draft, k);
        for node in made {
            self.makers[node].insert(k);
        }
        for node in overwritten {
            self.writers[node].insert(k);
        }
    }

    /// Kernel `j` makes nothing any more; its roots are in the kernel that `draft` holds in its place.
    fn forget(&mut self, draft: &Draft, j: usize) {
        let (made, overwritten) = results(draft, j);
        for node in made {
            self.makers[node].remove(&j);
        }
        for node in overwritten {
            self.writers[node].remove(&j);
        }
    }

    /// Edges of kernel `k`: from the maker of a node to its readers, and from the readers of a leaf to the kernel that overwrites it.
    fn connect(&mut self, draft: &Draft, k: usize) {
        let (made, overwritten) = results(draft, k);
        let loaded = &self.loaded[k];
        let sources = |sets: &[BTreeSet<usize>], nodes: &[NodeId]| {
            nodes.iter().flat_map(|&node| &sets[node]).copied().filter(|&other| other != k).collect::<Vec<_>>()
        };
        let mut prev = sources(&self.makers, loaded);
        prev.extend(sources(&self.readers, &overwritten));
        let mut next = sources(&self.readers, &made);
        next.extend(sources(&self.writers, loaded));
        draft.visit_kernels(prev.len() + next.len());
        for other in prev {
            self.prev[k].insert(other);
            self.next[other].insert(k);
        }
        for other in next {
            self.next[k].insert(other);
            self.prev[other].insert(k);
        }
    }

    /// All levels, from the edges.
    fn renew(&mut self, draft: &Draft) {
        let order = self.in_order();
        self.before.fill(0);
        self.after.fill(0);
        for &k in &order {
            for &n in &self.next[k] {
                self.before[n] = self.before[n].max(self.before[k] + 1);
            }
        }
        for &k in order.iter().rev() {
            self.after[k] = self.next[k].iter().map(|&n| self.after[n] + 1).max().unwrap_or(0);
        }
        self.longest = (0..order.len()).map(|k| self.before[k] + self.after[k]).max().unwrap_or(0);
        self.scalars.clear();
        for k in (0..order.len()).filter(|&k| !self.gone[k] && is_scalar(draft, k)) {
            self.scalars.entry(self.before[k]).or_default().insert(k);
        }
        draft.visit_kernels(order.len());
    }

    /// The levels of kernel `k`, and of others where they must rise: they stay upper bounds that rise along every edge.
    fn level(&mut self, draft: &Draft, k: usize) {
        let before = self.prev[k].iter().map(|&p| self.before[p] + 1).max().unwrap_or(0);
        let after = self.next[k].iter().map(|&n| self.after[n] + 1).max().unwrap_or(0);
        self.set_before(draft, k, before);
        self.after[k] = after;
        // around a cycle there is no end to it
        if self.cyclic {
            return;
        }
        let mut rising = BinaryHeap::from([Reverse((before, k))]);
        while let Some(Reverse((level, k))) = rising.pop() {
            draft.visit_kernels(1);
            let lower: Vec<usize> = self.next[k].iter().copied().filter(|&n| self.before[n] <= level).collect();
            for n in lower {
                self.set_before(draft, n, level + 1);
                rising.push(Reverse((level + 1, n)));
            }
        }
        rising.push(Reverse((after, k)));
        while let Some(Reverse((level, k))) = rising.pop() {
            draft.visit_kernels(1);
            let lower: Vec<usize> = self.prev[k].iter().copied().filter(|&p| self.after[p] <= level).collect();
            for p in lower {
                self.after[p] = level + 1;
                rising.push(Reverse((level + 1, p)));
            }
        }
    }

    fn set_before(&mut self, draft: &Draft, k: usize, before: usize) {
        let old = std::mem::replace(&mut self.before[k], before);
        if is_scalar(draft, k) {
            if let Some(level) = self.scalars.get_mut(&old) {
                level.remove(&k);
            }
            self.scalars.entry(before).or_default().insert(k);
        }
    }

    /// Kernels in the order they can run; those on a cycle at the end.
    fn in_order(&mut self) -> Vec<usize> {
        let mut waiting: Vec<usize> = self.prev.iter().map(|prev| prev.len()).collect();
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
        self.cyclic = order.len() < waiting.len();
        order.extend((0..waiting.len()).filter(|&k| waiting[k] > 0));
        order
    }
}

fn is_scalar(draft: &Draft, k: usize) -> bool {
    matches!(&draft.kernels[k].body, Body::Loop(space) if space.is_empty())
}

/// Nodes that a kernel makes, and leaves that it overwrites.
fn results(draft: &Draft, k: usize) -> (Vec<NodeId>, Vec<NodeId>) {
    let kernel = &draft.kernels[k];
    let (mut made, mut overwritten) = (Vec::new(), Vec::new());
    if let Body::Other(id) = kernel.body {
        made.push(id);
    }
    for root in &kernel.roots {
        let leaf = draft.is_given(root.target.node);
        if leaf {
            overwritten.push(root.target.node);
        }
        made.extend(root.defines.or((!leaf).then_some(root.target.node)));
    }
    (made, overwritten)
}
