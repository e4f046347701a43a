//! How a GPU runs a plan, and what that takes: decided by sizes alone, for running, printing and finding room.

use citius_plan::{Plan, Work};

use crate::device::Device;
use crate::executable::{Options, chunk_steps};
use crate::large::{LARGE_PRODUCT, Rule, call_library};
use crate::layout::{Layout, LeafPlaces};
use crate::parts::sum_in_parts;
use crate::precision::Halves;
use crate::product::WORKSPACE;
use crate::schedule::{Cut, Schedule, Team};
use crate::transposes::{keep_zeros, read_through_transposes, write_through_transposes};

/// A plan as a GPU runs it.
pub struct Scheduled {
    pub plan: Plan,
    pub schedule: Schedule,
    /// Buffers stored in 16 bits.
    pub half: Halves,
}

/// What of a GPU decides how it runs a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chip {
    pub multiprocessors: usize,
    /// Compute capability.
    pub capability: (i32, i32),
}

impl Chip {
    /// Blocks can be started as clusters.
    pub fn has_clusters(self) -> bool {
        self.capability.0 >= 9
    }

    /// Four warps can multiply at once, out of shared memory: Hopper, whose instructions for it nobody else has.
    pub fn has_groups(self) -> bool {
        self.capability == (9, 0)
    }
}

/// Decides how a GPU runs a plan. `most`: of so many blocks, how many can be started together.
pub fn schedule(plan: &Plan, chip: Chip, most: &dyn Fn(usize) -> usize, options: Options) -> Scheduled {
    let multiprocessors = chip.multiprocessors;
    let mut plan = read_through_transposes(plan);
    write_through_transposes(&mut plan);
    keep_zeros(&mut plan);
    // who names a team wants it
    let from = options.library_from.unwrap_or(LARGE_PRODUCT);
    let rule = Rule::new(options.precision, from, chip);
    if let Some(large) = call_library(&plan, rule).filter(|_| options.team.is_none()) {
        let schedule = Schedule::in_levels(&large.plan, &large.products, multiprocessors);
        return Scheduled { plan: large.plan, schedule, half: large.half };
    }
    let plan = sum_in_parts(&plan);
    let team = options.team.unwrap_or_else(|| suggested_team(&plan, multiprocessors));
    let schedule = Schedule::new(&plan, Team { blocks: most(team.blocks), ..team });
    Scheduled { plan, schedule, half: Halves::default() }
}

/// Bytes that a plan takes on a GPU, with the model and the inputs that stay.
pub fn bytes_needed(plan: &Plan, device: &Device, is_bound: &dyn Fn(&str) -> bool, options: Options) -> usize {
    let most = |blocks: usize| blocks.clamp(1, device.multiprocessors);
    let Scheduled { plan, schedule, half } = schedule(plan, device.chip(), &most, options);
    let mut places = LeafPlaces::default();
    places.admit(&plan);
    let layout = Layout::new(&plan, &schedule, &places, is_bound, &half, device.block_bytes);
    let bound: usize = layout.bound.iter().map(|i| i.elements * i.dtype.bytes()).sum();
    let chunks = 2 * chunk_steps(&plan, &schedule, &layout) * (layout.fed_bytes + layout.result_bytes);
    let library = schedule.levels.iter().flatten().any(|fibre| fibre.cut == Cut::Library);
    let workspace = if library { WORKSPACE } else { 0 };
    layout.scratch_bytes + places.bytes + bound + chunks + workspace
}

/// Steps this small are done by one multiprocessor before others could have been told.
const ONE_BLOCK: usize = 1 << 20;
/// … and these by one cluster.
const ONE_CLUSTER: usize = 8 << 20;

/// Who should run a step of this size, on a GPU with so many multiprocessors.
fn suggested_team(plan: &Plan, most: usize) -> Team {
    let total = plan.total();
    match total.flops + total.bytes {
        0..ONE_BLOCK => Team { blocks: 1, groups: 8, threads: 64 },
        // a walk keeps its weights in registers
        _ if plan.calls.iter().any(|c| matches!(c.work, Work::Recurrence(_))) => {
            Team { blocks: most, groups: 1, threads: 256 }
        }
        ONE_BLOCK..ONE_CLUSTER => Team { blocks: 16.min(most), groups: 2, threads: 256 },
        _ => Team { blocks: most, groups: 1, threads: 512 },
    }
}
