//! How a plan runs on many groups of threads that never leave the device.
//!
//! A barrier across the device costs about a microsecond, so few are wanted. Calls whose rows depend only on the same rows of
//! each other are taken together into a *fibre*: one group runs all of them on its own rows, with nothing but the group's own
//! barriers between. Fibres that do not depend on each other make a *level*; levels are separated by barriers across the device.
//!
//! | pass | does |
//! |---|---|
//! | [`combine_folds`] | a fold over everything that several blocks share gets a call of its own that adds up their parts |
//! | [`take_ahead`] | what needs only the data of a step runs a step ahead, beside a level that leaves blocks idle |
//! | [`drawn_in_place`] | random numbers that only a product's epilogue reads are drawn there |
//! | [`form_fibres`] | calls → fibres in levels |
//! | [`cut`] | rows of each fibre, or tiles of a lone product, are dealt into units |
//! | [`postpone_tail`] | what only reports results runs a step behind, beside such a level |

mod dump;
mod fibre;
mod reach;
mod units;

use std::collections::{BTreeMap, BTreeSet};

use citius_graph::LeafKind;
use citius_plan::{Plan, Storage, Work};

use crate::large::By;
use crate::source::blocks;
use crate::source::epilogue::walks_whole;

pub use dump::Dump;
pub use fibre::{Fibre, form_fibres};
pub use units::{Cut, Grid, cut, cut_alone};

/// A call of the plan, or one that this executor adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Call(usize),
    /// Adds up the parts that the units of this loop left.
    Combine(usize),
}

/// Who runs a step: groups of threads, some on each multiprocessor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Team {
    /// Multiprocessors.
    pub blocks: usize,
    /// On each.
    pub groups: usize,
    /// Of a group.
    pub threads: usize,
}

impl Team {
    pub fn size(self) -> usize {
        self.blocks * self.groups
    }
}

/// The plan, ready to be rendered for a team.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub team: Team,
    pub levels: Vec<Vec<Fibre>>,
    /// Of the next step, a stage each, one after the other.
    pub ahead: Vec<Beside>,
    pub behind: Option<Beside>,
    /// Calls whose random numbers are drawn where they are read.
    pub drawn: BTreeSet<usize>,
}

/// Blocks for each multiprocessor where kernels run by themselves.
const WAVES: usize = 8;

/// Fibres that run beside a level of another step.
#[derive(Clone, Debug)]
pub struct Beside {
    pub level: usize,
    /// In stages; a block-wide barrier stands between them.
    pub stages: Vec<Vec<Fibre>>,
}

impl Schedule {
    pub fn new(plan: &Plan, team: Team) -> Schedule {
        let (blocks, none) = (team.size(), BTreeSet::new());
        let all = combine_folds(plan);
        let (mut steps, mut early) = take_ahead(plan, all.clone());
        let mut levels = form_fibres(plan, &steps, &none, false);
        if form_fibres(plan, &early, &none, false).len() > levels.len() {
            // no room for so many stages
            (steps, early) = (all.clone(), Vec::new());
            levels = form_fibres(plan, &steps, &none, false);
        }
        cut(plan, &mut levels, blocks, team);
        let mut behind = postpone_tail(plan, &mut levels, blocks);
        // what is written ahead would be gone before the tail has read it
        let written: Vec<usize> = early.iter().flat_map(|s| writes(plan, *s)).collect();
        let late = behind.iter().flat_map(|b| &b.stages).flat_map(|level| touched(plan, level));
        if late.into_iter().any(|id| written.contains(&id)) {
            (steps, early) = (all, Vec::new());
            levels = form_fibres(plan, &steps, &none, false);
            cut(plan, &mut levels, blocks, team);
            behind = postpone_tail(plan, &mut levels, blocks);
        }
        let ahead = beside_idle(plan, &levels, form_fibres(plan, &early, &none, false), team);
        Schedule { team, levels, ahead, behind, drawn: BTreeSet::new() }
    }

    /// For a step with large products: a kernel for each level, run one after the other; what is `large` runs by itself.
    pub fn in_levels(plan: &Plan, large: &BTreeMap<usize, By>, multiprocessors: usize) -> Schedule {
        let alone: BTreeSet<usize> = large.keys().copied().collect();
        let team = Team { blocks: multiprocessors * WAVES, groups: 1, threads: 256 };
        let drawn = drawn_in_place(plan, large);
        let mut steps = combine_folds(plan);
        steps.retain(|s| !matches!(s, Step::Call(i) if drawn.contains(i)));
        let mut levels = form_fibres(plan, &steps, &alone, true);
        for fibre in levels.iter_mut().flatten() {
            let own = match fibre.steps[..] {
                [Step::Call(i)] => large.get(&i).map(|by| (by, &plan.calls[i].work)),
                _ => None,
            };
            match own {
                Some((By::Library, _)) => fibre.cut = Cut::Library,
                Some((By::Tensor(tile), Work::Matmul(m))) => {
                    fibre.cut = Cut::Tensor { tile: *tile, units: tile.units(m) };
                }
                _ => cut_alone(plan, fibre, team),
            }
            let units = large.values().any(|by| matches!(by, By::Tensor(_)));
            match &mut fibre.cut {
                Cut::Blocks { on_units, .. } => *on_units = units,
                // a product of attention that nothing runs behind
                cut @ Cut::Tiles { .. } if units && fibre.blocks && suits_blocks(plan, &fibre.steps) => {
                    *cut = Cut::Blocks { count: fibre.rows, on_units: true };
                }
                _ => {}
            }
        }
        // what takes longest begins first
        for level in &mut levels {
            level.sort_by_key(|f| std::cmp::Reverse(units::cost(plan, f) / f.units().max(1)));
        }
        Schedule { team, levels, ahead: Vec::new(), behind: None, drawn }
    }

    /// Barriers across the device in each step.
    pub fn barriers(&self) -> usize {
        self.levels.len()
    }

    /// Whether levels are kernels of their own.
    pub fn by_levels(&self) -> bool {
        self.levels.iter().flatten().any(|f| matches!(f.cut, Cut::Library | Cut::Tensor { .. }))
    }

    /// All fibres, in the order they are written.
    pub fn fibres(&self) -> impl Iterator<Item = &Fibre> {
        let beside = self.ahead.iter().chain(&self.behind).flat_map(|b| &b.stages);
        self.levels.iter().chain(beside).flatten()
    }
}

/// A lone product that a block can compute on the matrix units for each outer index.
fn suits_blocks(plan: &Plan, steps: &[Step]) -> bool {
    match steps {
        [Step::Call(i)] => matches!(&plan.calls[*i].work, Work::Matmul(m) if blocks::suits(m)),
        _ => false,
    }
}

/// Elements that each row of a call has of a buffer, if rows have their own.
pub fn row_pitch(work: &Work, buffer: usize, rows: usize) -> Option<usize> {
    let all = reach::stretches(work, buffer, rows);
    let first = *all.first()?;
    all.iter().all(|s| first.meets_only_itself(*s)).then_some(first.pitch)
}

pub fn units(level: &[Fibre]) -> usize {
    level.iter().map(Fibre::units).sum()
}

/// Each stage goes beside a level behind that of the stage before: of those with blocks to spare for all of it, the one whose
/// units take longest; else the one with most blocks to spare.
fn beside_idle(plan: &Plan, levels: &[Vec<Fibre>], stages: Vec<Vec<Fibre>>, team: Team) -> Vec<Beside> {
    let idle = |level: usize| team.size().saturating_sub(units(&levels[level]));
    let longest = |level: usize| levels[level].iter().map(|f| units::cost(plan, f) / f.units().max(1)).max();
    let (mut from, mut left) = (0, stages.len());
    let place = |mut stage: Vec<Fibre>| {
        left -= 1;
        // how many units it would have, if it had all blocks
        cut(plan, std::slice::from_mut(&mut stage), team.size(), team);
        let needed = units(&stage);
        let room = |n: &usize| (idle(*n).min(needed), longest(*n), *n);
        let level = (from..levels.len() - left).max_by_key(room).unwrap_or(0);
        from = level + 1;
        cut(plan, std::slice::from_mut(&mut stage), idle(level).max(1), team);
        Beside { level, stages: vec![stage] }
    };
    stages.into_iter().map(place).collect()
}

/// A loop that folds everything into one value, which its units have to share.
pub fn shares_a_fold(work: &Work) -> bool {
    matches!(work, Work::Loop(l) if l.outer.is_empty() && l.folds.iter().any(|f| f.whole))
}

/// Pass `draw_in_place`: random numbers that only the epilogue of a product on the matrix units reads are never written.
fn drawn_in_place(plan: &Plan, large: &BTreeMap<usize, By>) -> BTreeSet<usize> {
    let suits = |(i, call): &(usize, &citius_plan::Call)| {
        let Work::Random(r) = &call.work else { return false };
        let touches = |work: &Work| work.touches().0.contains(&r.out) || work.touches().1.contains(&r.out);
        let mut readers = plan.calls.iter().enumerate().filter(|(j, c)| j != i && touches(&c.work));
        let (Some((reader, call)), None) = (readers.next(), readers.next()) else { return false };
        let Work::Matmul(m) = &call.work else { return false };
        let mut own = m.operands.iter().filter(|o| o.buffer == r.out);
        matches!(large.get(&reader), Some(By::Tensor(_)))
            && ![m.a.buffer, m.b.buffer].contains(&r.out)
            && !plan.outputs.iter().any(|o| o.1 == r.out)
            && own.all(|o| walks_whole(m, o, r.elements))
    };
    plan.calls.iter().enumerate().filter(suits).map(|(i, _)| i).collect()
}

fn combine_folds(plan: &Plan) -> Vec<Step> {
    let of_call = |(i, call): (usize, &citius_plan::Call)| {
        let combine = shares_a_fold(&call.work).then_some(Step::Combine(i));
        [Some(Step::Call(i)), combine].into_iter().flatten()
    };
    plan.calls.iter().enumerate().flat_map(of_call).collect()
}

/// (the rest, what needs nothing but a step's inputs, directly or not)
fn take_ahead(plan: &Plan, steps: Vec<Step>) -> (Vec<Step>, Vec<Step>) {
    let is_input = |id: usize| match &plan.buffers[id].storage {
        Storage::Leaf { kind, .. } => *kind == LeafKind::Input,
        Storage::Constant(_) | Storage::Step => true,
        Storage::Scratch { .. } => false,
    };
    let written = |id: usize| plan.calls.iter().filter(|c| c.work.touches().1.contains(&id)).count();
    let kept = |id: usize| plan.outputs.iter().any(|o| o.1 == id);
    let (mut early, mut rest, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
    for step in steps {
        let Step::Call(i) = step else {
            rest.push(step);
            continue;
        };
        let (reads, writes) = plan.calls[i].work.touches();
        let scratch = |id: &usize| matches!(plan.buffers[*id].storage, Storage::Scratch { .. });
        let own = writes.iter().all(|id| scratch(id) && written(*id) == 1 && !kept(*id));
        let there = reads.iter().all(|id| is_input(*id) || known.contains(id));
        if own && there && !shares_a_fold(&plan.calls[i].work) {
            known.extend(writes);
            early.push(step);
        } else {
            rest.push(step);
        }
    }
    // a step that is nothing else has nothing to run beside
    if rest.is_empty() { (early, rest) } else { (rest, early) }
}

/// Takes off the last levels if they are one block's work and only report, and finds a level of the next step to run beside.
fn postpone_tail(plan: &Plan, levels: &mut Vec<Vec<Fibre>>, blocks: usize) -> Option<Beside> {
    let small = |level: &Vec<Fibre>| level.iter().all(|f| f.units() == 1);
    let mut at = levels.len();
    while at > 1 && small(&levels[at - 1]) && levels[at - 1].iter().all(|f| reports(plan, f)) {
        at -= 1;
    }
    let tail: Vec<usize> = levels[at..].iter().flat_map(|level| touched(plan, level)).collect();
    let apart = |n: usize| levels[..=n].iter().all(|level| touched(plan, level).iter().all(|id| !tail.contains(id)));
    let fitting: Vec<usize> = (0..at).filter(|&n| at < levels.len() && apart(n)).collect();
    // beside the latest that leaves a block idle
    let free = |n: &&usize| units(&levels[**n]) < blocks;
    let level = fitting.iter().rev().find(free).or(fitting.first()).copied()?;
    Some(Beside { level, stages: levels.split_off(at) })
}

fn touched(plan: &Plan, level: &[Fibre]) -> Vec<usize> {
    let calls = level.iter().flat_map(|f| &f.steps).map(|s| match s {
        Step::Call(i) => plan.calls[*i].work.touches(),
        Step::Combine(i) => (vec![], folded(&plan.calls[*i].work)),
    });
    calls.flat_map(|(reads, writes)| reads.into_iter().chain(writes)).collect()
}

fn writes(plan: &Plan, step: Step) -> Vec<usize> {
    match step {
        Step::Call(i) => plan.calls[i].work.touches().1,
        Step::Combine(i) => folded(&plan.calls[i].work),
    }
}

/// Writes nothing that outlives the step.
fn reports(plan: &Plan, fibre: &Fibre) -> bool {
    fibre
        .steps
        .iter()
        .flat_map(|s| writes(plan, *s))
        .all(|id| matches!(plan.buffers[id].storage, Storage::Scratch { .. }))
}

/// Buffers that receive the whole folds of a loop.
pub fn folded(work: &Work) -> Vec<usize> {
    match work {
        Work::Loop(l) => l.folds.iter().filter(|f| f.whole).map(|f| l.operands[f.operand].buffer).collect(),
        _ => vec![],
    }
}
