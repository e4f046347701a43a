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
//! | [`form_fibres`] | calls → fibres in levels |
//! | [`cut`] | rows of each fibre, or tiles of a lone product, are dealt into units |
//! | [`postpone_tail`] | what only reports results runs a step behind, beside such a level |

mod dump;
mod fibre;
mod reach;
mod units;

use std::collections::BTreeSet;

use citius_graph::LeafKind;
use citius_plan::{Plan, Storage, Work};

pub use dump::Dump;
pub use fibre::{Fibre, form_fibres};
pub use units::{Cut, cut, cut_alone};

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
    pub ahead: Option<Beside>,
    pub behind: Option<Beside>,
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
        let mut levels = form_fibres(plan, &steps, &none);
        cut(plan, &mut levels, blocks, team);
        let mut behind = postpone_tail(plan, &mut levels, blocks);
        // what is written ahead would be gone before the tail has read it
        let written: Vec<usize> = early.iter().flat_map(|s| writes(plan, *s)).collect();
        let late = behind.iter().flat_map(|b| &b.stages).flat_map(|level| touched(plan, level));
        if late.into_iter().any(|id| written.contains(&id)) {
            (steps, early) = (all, Vec::new());
            levels = form_fibres(plan, &steps, &none);
            cut(plan, &mut levels, blocks, team);
            behind = postpone_tail(plan, &mut levels, blocks);
        }
        let mut stages = form_fibres(plan, &early, &none);
        let ahead = (!stages.is_empty()).then(|| {
            let level = idlest(&levels, blocks);
            let idle = blocks.saturating_sub(units(&levels[level])).max(1);
            cut(plan, &mut stages, idle, team);
            Beside { level, stages }
        });
        Schedule { team, levels, ahead, behind }
    }

    /// For a step with large products: a kernel for each level, run one after the other, and `library` calls by themselves.
    pub fn in_levels(plan: &Plan, library: &BTreeSet<usize>, multiprocessors: usize) -> Schedule {
        let team = Team { blocks: multiprocessors * WAVES, groups: 1, threads: 256 };
        let mut levels = form_fibres(plan, &combine_folds(plan), library);
        for fibre in levels.iter_mut().flatten() {
            match fibre.steps[..] {
                [Step::Call(i)] if library.contains(&i) => fibre.cut = Cut::Library,
                _ => cut_alone(plan, fibre, team),
            }
        }
        Schedule { team, levels, ahead: None, behind: None }
    }

    /// Barriers across the device in each step.
    pub fn barriers(&self) -> usize {
        self.levels.len()
    }

    /// Whether levels are kernels of their own.
    pub fn by_levels(&self) -> bool {
        self.levels.iter().flatten().any(|f| f.cut == Cut::Library)
    }

    /// All fibres, in the order they are written.
    pub fn fibres(&self) -> impl Iterator<Item = &Fibre> {
        let beside = [&self.ahead, &self.behind].into_iter().flatten().flat_map(|b| &b.stages);
        self.levels.iter().chain(beside).flatten()
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

/// The level that leaves most blocks without work; the last of those.
fn idlest(levels: &[Vec<Fibre>], blocks: usize) -> usize {
    (0..levels.len()).max_by_key(|&n| (blocks.saturating_sub(units(&levels[n])), n)).unwrap_or(0)
}

/// A loop that folds everything into one value, which its units have to share.
pub fn shares_a_fold(work: &Work) -> bool {
    matches!(work, Work::Loop(l) if l.outer.is_empty() && l.folds.iter().any(|f| f.whole))
}

fn combine_folds(plan: &Plan) -> Vec<Step> {
    let of_call = |(i, call): (usize, &citius_plan::Call)| {
        let combine = shares_a_fold(&call.work).then_some(Step::Combine(i));
        [Some(Step::Call(i)), combine].into_iter().flatten()
    };
    plan.calls.iter().enumerate().flat_map(of_call).collect()
}

/// (the rest, what needs nothing but a step's inputs)
fn take_ahead(plan: &Plan, steps: Vec<Step>) -> (Vec<Step>, Vec<Step>) {
    let is_input = |id: usize| match &plan.buffers[id].storage {
        Storage::Leaf { kind, .. } => *kind == LeafKind::Input,
        Storage::Constant(_) | Storage::Step => true,
        Storage::Scratch { .. } => false,
    };
    let written = |id: usize| plan.calls.iter().filter(|c| c.work.touches().1.contains(&id)).count();
    let kept = |id: usize| plan.outputs.iter().any(|o| o.1 == id);
    let early = |step: &Step| {
        let Step::Call(i) = *step else { return false };
        let (reads, writes) = plan.calls[i].work.touches();
        let scratch = |id: &usize| matches!(plan.buffers[*id].storage, Storage::Scratch { .. });
        let own = writes.iter().all(|id| scratch(id) && written(*id) == 1 && !kept(*id));
        own && !shares_a_fold(&plan.calls[i].work) && reads.iter().all(|id| is_input(*id))
    };
    let (early, rest): (Vec<Step>, Vec<Step>) = steps.into_iter().partition(early);
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
