//! Pass `form_fibres`.

use std::collections::BTreeSet;

use citius_plan::{BufferId, Matmul, Nest, Plan, Work};

use super::reach::{Rows, block_stretches, rows, stretches};
use super::units::Cut;
use super::{Step, folded, shares_a_fold};
use crate::source::matmul::is_flat;

/// Bytes of a product's right side that every block may read for its own rows; more is better shared between tiles.
const SMALL_RIGHT_SIDE: usize = 48 << 10;
/// Elements of a product that one group computes for an outer index, at most.
const MOST_OF_BLOCK: usize = 64 << 6;

/// Calls that one block runs after each other on the same rows.
#[derive(Clone, Debug)]
pub struct Fibre {
    pub steps: Vec<Step>,
    /// 0: cut in a way of its own, and alone.
    pub rows: usize,
    /// A row is one of the products' outer indices, with all rows of it that loops have.
    pub blocks: bool,
    pub cut: Cut,
}

impl Fibre {
    pub fn units(&self) -> usize {
        self.cut.units()
    }
}

/// Fibres in levels. A step comes after every earlier one that touches what it writes, or writes what it touches.
/// `blocks`: small products with outer indices may be taken together with what runs on the same indices.
pub fn form_fibres(plan: &Plan, steps: &[Step], alone: &BTreeSet<usize>, blocks: bool) -> Vec<Vec<Fibre>> {
    let mut forming = Forming { plan, steps, alone, blocks, fibres: Vec::new(), at: vec![0; steps.len()] };
    for i in 0..steps.len() {
        forming.place(i);
    }
    let depth = forming.fibres.iter().flatten().map(|f| f.level + 1).max().unwrap_or(0);
    let mut levels = vec![Vec::new(); depth];
    for f in forming.fibres.into_iter().flatten() {
        let steps = f.members.iter().map(|&i| steps[i]).collect();
        levels[f.level].push(Fibre { steps, rows: f.rows, blocks: f.blocks, cut: Cut::default() });
    }
    levels
}

struct Forming<'a> {
    plan: &'a Plan,
    steps: &'a [Step],
    /// Calls that keep to themselves.
    alone: &'a BTreeSet<usize>,
    blocks: bool,
    /// `None` where one was merged into another.
    fibres: Vec<Option<Forming1>>,
    /// The fibre of each step placed so far.
    at: Vec<usize>,
}

struct Forming1 {
    level: usize,
    members: Vec<usize>,
    rows: usize,
    blocks: bool,
}

impl Forming<'_> {
    fn place(&mut self, i: usize) {
        let before: Vec<usize> = (0..i).filter(|&j| self.depends(i, j)).collect();
        let level_of = |j: &usize| self.fibre(*j).level;
        let deepest = before.iter().map(level_of).max();
        if let Some(level) = deepest {
            let mut hosts: Vec<usize> = before.iter().filter(|j| level_of(j) == level).map(|&j| self.at[j]).collect();
            hosts.sort_unstable();
            hosts.dedup();
            if let Some(count) = self.common_rows(i, &hosts)
                && before.iter().filter(|j| level_of(j) == level).all(|&j| self.local(i, j, count))
            {
                let host = self.merge(&hosts);
                self.join(i, host);
                return;
            }
        }
        let level = deepest.map_or(0, |l| l + 1);
        let (count, alone) = self.own_rows(i);
        // scalars go to one group together
        let company = (0..self.fibres.len()).find(|&f| {
            let fibre = self.fibres[f].as_ref();
            !alone && count == 1 && self.is_scalar(i) && fibre.is_some_and(|f| f.level == level && f.rows == 1)
        });
        match company {
            Some(host) => self.join(i, host),
            None => {
                self.at[i] = self.fibres.len();
                let rows = if alone { 0 } else { count };
                self.fibres.push(Some(Forming1 {
                    level,
                    members: vec![i],
                    rows,
                    blocks: self.own_blocks(i).is_some(),
                }));
            }
        }
    }

    fn is_scalar(&self, i: usize) -> bool {
        match self.steps[i] {
            Step::Combine(_) => true,
            Step::Call(c) => matches!(&self.plan.calls[c].work, Work::Loop(l) if l.rows * l.cols == 1),
        }
    }

    fn join(&mut self, i: usize, host: usize) {
        self.at[i] = host;
        if let Some(fibre) = &mut self.fibres[host] {
            fibre.members.push(i);
        }
    }

    fn fibre(&self, step: usize) -> &Forming1 {
        self.fibres[self.at[step]].as_ref().unwrap_or_else(|| unreachable!("merged fibres have no members"))
    }

    /// Makes one fibre of several of the same level and rows.
    fn merge(&mut self, hosts: &[usize]) -> usize {
        for &other in &hosts[1..] {
            let Some(gone) = self.fibres[other].take() else { continue };
            for member in gone.members {
                self.join(member, hosts[0]);
            }
        }
        if let Some(fibre) = &mut self.fibres[hosts[0]] {
            fibre.members.sort_unstable();
        }
        hosts[0]
    }

    /// (rows, cut in a way of its own)
    fn own_rows(&self, i: usize) -> (usize, bool) {
        match self.steps[i] {
            Step::Combine(_) => (1, false),
            Step::Call(_) if self.own_blocks(i).is_some() => (self.own_blocks(i).unwrap_or(0), false),
            Step::Call(c) => match rows(&self.plan.calls[c].work) {
                Rows::Fixed(n) => (n, self.is_wide_product(c)),
                Rows::Flat(n) => (flat_rows(n), false),
                Rows::Own => (0, true),
            },
        }
    }

    /// The rows into which the hosts and this step can all be cut.
    fn common_rows(&self, i: usize, hosts: &[usize]) -> Option<usize> {
        let mut counts = hosts.iter().map(|&h| self.fibres[h].as_ref().map_or((0, false), |f| (f.rows, f.blocks)));
        let (count, blocks) = counts.next()?;
        let fits = match self.steps[i] {
            Step::Call(_) if blocks => self.fits_blocks(i, count),
            Step::Combine(_) => count == 1 && !blocks,
            Step::Call(c) => rows(&self.plan.calls[c].work).can_be(count) && !self.is_wide_product(c),
        };
        (count > 0 && fits && counts.all(|c| c == (count, blocks))).then_some(count)
    }

    /// Outer indices of a product small enough for a group to compute it for each of them.
    fn own_blocks(&self, i: usize) -> Option<usize> {
        let Step::Call(c) = self.steps[i] else { return None };
        let Work::Matmul(m) = &self.plan.calls[c].work else { return None };
        let small = m.m * m.n <= MOST_OF_BLOCK && m.deep.is_empty() && !is_flat(m);
        let free = self.blocks && !m.outer.is_empty() && !self.alone.contains(&c);
        (free && small).then(|| m.outer.iter().product())
    }

    fn fits_blocks(&self, i: usize, count: usize) -> bool {
        let Step::Call(c) = self.steps[i] else { return false };
        match &self.plan.calls[c].work {
            Work::Loop(l) => {
                let rows = l.outer.is_empty() && l.nest == Nest::Rows && l.rows > count && l.rows.is_multiple_of(count);
                rows && l.folds.iter().all(|f| !f.whole)
            }
            _ => self.own_blocks(i) == Some(count),
        }
    }

    /// A product whose right side is too large for every block to read.
    fn is_wide_product(&self, call: usize) -> bool {
        let large = |m: &Matmul| m.terms() * m.n * 4 > SMALL_RIGHT_SIDE;
        self.alone.contains(&call) || matches!(&self.plan.calls[call].work, Work::Matmul(m) if large(m))
    }

    /// Rows of step `i` touch what rows of step `j` touch only where the row is the same.
    fn local(&self, i: usize, j: usize, count: usize) -> bool {
        if count == 1 {
            return true;
        }
        let (Step::Call(a), Step::Call(b)) = (self.steps[i], self.steps[j]) else { return false };
        let (a, b) = (&self.plan.calls[a].work, &self.plan.calls[b].work);
        let stretches = if self.fibre(j).blocks { block_stretches } else { stretches };
        shared(self.touches(i), self.touches(j)).into_iter().all(|id| {
            // a value folded by all units is nobody's row
            !folded(b).contains(&id)
                && stretches(a, id, count)
                    .iter()
                    .all(|s| stretches(b, id, count).iter().all(|t| s.meets_only_itself(*t)))
        })
    }

    fn depends(&self, i: usize, j: usize) -> bool {
        let call = |s: Step| match s {
            Step::Call(c) | Step::Combine(c) => c,
        };
        let (a, b) = (call(self.steps[i]), call(self.steps[j]));
        // calls of one wave leave each other alone
        let apart = a != b && self.plan.calls[a].wave == self.plan.calls[b].wave;
        !apart && !shared(self.touches(i), self.touches(j)).is_empty()
    }

    fn touches(&self, i: usize) -> (Vec<BufferId>, Vec<BufferId>) {
        match self.steps[i] {
            Step::Call(c) => self.plan.calls[c].work.touches(),
            Step::Combine(c) => {
                let values = folded(&self.plan.calls[c].work);
                debug_assert!(shares_a_fold(&self.plan.calls[c].work));
                (values.clone(), values)
            }
        }
    }
}

/// Buffers that both touch and at least one writes.
fn shared(a: (Vec<BufferId>, Vec<BufferId>), b: (Vec<BufferId>, Vec<BufferId>)) -> Vec<BufferId> {
    let touches = |x: &(Vec<BufferId>, Vec<BufferId>), id: &BufferId| x.0.contains(id) || x.1.contains(id);
    let mut ids: Vec<BufferId> =
        a.1.iter().filter(|id| touches(&b, id)).chain(b.1.iter().filter(|id| touches(&a, id))).copied().collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// A flat stretch that begins a fibre is cut into pieces of about this many elements.
fn flat_rows(elements: usize) -> usize {
    const PIECE: usize = 64;
    let most = elements.div_ceil(PIECE).max(1);
    (1..=most).rev().find(|n| elements.is_multiple_of(*n)).unwrap_or(1)
}
