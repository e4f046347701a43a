//! Pass `cut`: how the rows of a fibre, or the tiles of a lone product, are dealt to blocks. Decided by shapes and the number of
//! blocks alone, so that sums have the same order in every run.

use citius_plan::{Nest, Plan, Work};

use super::{Fibre, Step, Team};
use crate::source::loops::MOST_TOGETHER;
use crate::source::matmul::{Tile, all_rows, is_flat};
use crate::source::tensor::TensorTile;

/// The pieces of a fibre.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cut {
    /// Stretches of so many rows.
    Rows { rows: usize, per_unit: usize },
    /// Tiles of a product, for each outer index.
    Tiles { tile: Tile, units: usize },
    /// Tiles on the matrix units.
    Tensor { tile: TensorTile, units: usize },
    /// An outer index of its products each; on the matrix units, if they may round.
    Blocks { count: usize, on_units: bool },
    /// As the lone call has it.
    Own { units: usize },
    /// The library's.
    Library,
}

/// The blocks of a level that is a kernel of its own.
pub struct Grid {
    /// First and count of each fibre's.
    pub units: Vec<(usize, usize)>,
    /// All of them: whole clusters.
    pub blocks: usize,
    /// Blocks of a cluster.
    pub cluster: usize,
}

impl Grid {
    pub fn of<'a>(fibres: impl IntoIterator<Item = &'a Fibre>) -> Grid {
        let mut grid = Grid { units: Vec::new(), blocks: 0, cluster: 1 };
        let cuts: Vec<Cut> = fibres.into_iter().map(|f| f.cut).collect();
        let split = |cut: &Cut| if let Cut::Tensor { tile, .. } = cut { tile.split } else { 1 };
        grid.cluster = cuts.iter().map(split).max().unwrap_or(1);
        for cut in &cuts {
            if split(cut) > 1 {
                grid.blocks = grid.blocks.next_multiple_of(grid.cluster);
            }
            grid.units.push((grid.blocks, cut.units()));
            grid.blocks += cut.units();
            if split(cut) > 1 {
                grid.blocks = grid.blocks.next_multiple_of(grid.cluster);
            }
        }
        grid.blocks = grid.blocks.next_multiple_of(grid.cluster);
        grid
    }
}

impl Default for Cut {
    fn default() -> Cut {
        Cut::Own { units: 0 }
    }
}

impl Cut {
    pub fn units(&self) -> usize {
        match self {
            Cut::Rows { rows, per_unit } => rows.div_ceil(*per_unit),
            Cut::Blocks { count, .. } => *count,
            Cut::Tiles { units, .. } | Cut::Tensor { units, .. } | Cut::Own { units } => *units,
            Cut::Library => 0,
        }
    }
}

/// Arithmetic below which another group is not worth its way to the data: on another multiprocessor, on the same one.
const LEAST_WORK: usize = 8 << 10;
const LEAST_WORK_NEAR: usize = 512;
/// So many of these fit into one group's share of a level.
const SMALL: usize = 8;

pub fn cut(plan: &Plan, levels: &mut [Vec<Fibre>], blocks: usize, team: Team) {
    let least = if team.blocks == 1 { LEAST_WORK_NEAR } else { LEAST_WORK };
    for level in levels {
        // the first groups take what is left over: they should have little
        level.sort_by_key(|f| cost(plan, f));
        let work: Vec<usize> = level.iter().map(|f| cost(plan, f)).collect();
        // a share of the groups as large as its share of the work, one at least
        let total: usize = work.iter().sum::<usize>().max(1);
        let small = work.iter().filter(|w| **w * blocks * SMALL < total).count();
        let spare = (blocks + small).saturating_sub(level.len());
        for (fibre, own) in level.iter_mut().zip(work) {
            let share = 1 + spare * own / total;
            let share = share.min(own.div_ceil(least)).max(1);
            fibre.cut = cut_fibre(plan, fibre, share, team.threads);
        }
    }
}

/// Cuts a fibre into as many pieces as its size asks for: where kernels run by themselves, there is no one to share with.
pub fn cut_alone(plan: &Plan, fibre: &mut Fibre, team: Team) {
    let share = cost(plan, fibre).div_ceil(PIECE).clamp(1, team.size());
    // a block would fold one stretch of columns after the other, and wait for each
    let columns = |s: &Step| matches!(s, Step::Call(i) if folds_columns(&plan.calls[*i].work));
    let share = if fibre.steps.iter().any(columns) { share.max(fibre.rows.div_ceil(COLUMNS)) } else { share };
    // elements that a thread has under way at once
    let share = match fibre.steps[..] {
        [Step::Call(i)] => match &plan.calls[i].work {
            Work::Loop(l) if l.rows == 1 => share.max(l.cols.div_ceil(MOST_TOGETHER * team.threads)).min(team.size()),
            _ => share,
        },
        _ => share,
    };
    fibre.cut = cut_fibre(plan, fibre, share, team.threads);
}

/// Columns that a block folds at a time.
const COLUMNS: usize = 32;

/// Arithmetic and bytes of a block that runs by itself.
const PIECE: usize = 64 << 10;

/// Arithmetic and bytes of a fibre.
pub fn cost(plan: &Plan, fibre: &Fibre) -> usize {
    let of = |s: &Step| match s {
        // rows anywhere in memory are long in coming
        Step::Call(i) if matches!(plan.calls[*i].work, Work::Gather(_)) => 16 * plan.calls[*i].cost.bytes,
        Step::Call(i) => plan.calls[*i].cost.flops + plan.calls[*i].cost.bytes,
        Step::Combine(_) => 256,
    };
    fibre.steps.iter().map(of).sum()
}

fn cut_fibre(plan: &Plan, fibre: &Fibre, share: usize, threads: usize) -> Cut {
    if fibre.rows > 0 {
        let alone = match fibre.steps[..] {
            [Step::Call(i)] => Some(&plan.calls[i].work),
            _ => None,
        };
        if let Some(Work::Matmul(m)) = alone {
            return tiles(m, share, threads);
        }
        if fibre.blocks {
            return Cut::Blocks { count: fibre.rows, on_units: false };
        }
        let per_unit = fibre.rows.div_ceil(share).max(1);
        // rows that lie beside each other are loaded together
        let per_unit = if per_unit > 4 { per_unit.next_multiple_of(4) } else { per_unit };
        // neighbouring columns are read together
        let columns = |s: &Step| matches!(s, Step::Call(i) if folds_long_columns(&plan.calls[*i].work));
        let per_unit = if fibre.steps.iter().any(columns) { per_unit.next_multiple_of(32) } else { per_unit };
        return Cut::Rows { rows: fibre.rows, per_unit };
    }
    let Some(Step::Call(i)) = fibre.steps.first() else { return Cut::Own { units: 1 } };
    match &plan.calls[*i].work {
        Work::Matmul(m) => tiles(m, share, threads),
        Work::Loop(l) => {
            let outer = l.outer.iter().product::<usize>();
            let each = match l.nest {
                // a unit per outer index where a fold takes all of it
                Nest::Rows if l.folds.iter().any(|f| f.whole) => 1,
                Nest::Rows => l.rows.div_ceil(crate::source::loops::own_rows(l)),
                Nest::Columns => l.cols.div_ceil(crate::source::loops::OWN_COLUMNS),
            };
            Cut::Own { units: outer * each }
        }
        Work::Scatter(s) => Cut::Own { units: s.table_rows.max(1) },
        Work::Gather(_) | Work::ArgMax(_) | Work::Random(_) => Cut::Own { units: 1 },
        Work::Recurrence(_) | Work::RecurrenceGradient(_) => Cut::Own { units: 1 },
    }
}

fn folds_columns(work: &Work) -> bool {
    matches!(work, Work::Loop(l) if l.nest == Nest::Columns)
}

fn folds_long_columns(work: &Work) -> bool {
    folds_columns(work) && matches!(work, Work::Loop(l) if l.rows * l.cols >= 1 << 16)
}

fn tiles(m: &citius_plan::Matmul, share: usize, threads: usize) -> Cut {
    let outer = if is_flat(m) { 1 } else { m.outer.iter().product::<usize>() };
    let tile = Tile::choose(m, (share / outer.max(1)).max(1), threads);
    Cut::Tiles { tile, units: outer * all_rows(m).div_ceil(tile.rows) * m.n.div_ceil(tile.cols) }
}
