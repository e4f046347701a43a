//! A schedule as one CUDA C++ kernel that runs any number of steps.

pub mod blocks;
pub mod epilogue;
mod functions;
mod groups;
pub mod loops;
pub mod matmul;
pub mod program;
mod recurrence;
pub mod rows;
mod side;
pub mod tensor;
mod text;

use citius_plan::{FoldKind, Loop, Matmul, Nest, Plan, Work};

use crate::draw::rows_alone;
use crate::layout::{Layout, LeafPlaces};
use crate::schedule::{Beside, Cut, Fibre, Grid, Schedule, Step};
use epilogue::Drawn;
use functions::{Function, Functions};
use loops::Place;
use matmul::Tile;
use recurrence::Walkers;
use text::Text;

/// What every function is told: the step's memory.
const REGIONS: &str = "const Args& args, char* scratch, char* leaves, char* fed, char* results";

const PRELUDE: &str = include_str!("prelude.cu");
const DRAW: &str = include_str!("draw.cu");
const TENSOR: &str = include_str!("tensor.cu");

/// Levels of a source: the compiler takes seconds for a hundred of them, and several sources are compiled side by side.
pub const LEVELS_TOGETHER: usize = 8;

/// The kernel `steps` for this schedule; or, of one that is run level by level, kernels in several sources, level `n` in number
/// `n / LEVELS_TOGETHER` and what else there is in the first.
pub fn render(plan: &Plan, schedule: &Schedule, layout: &Layout, leaves: &LeafPlaces, timed: bool) -> Vec<String> {
    let stage = Stage::new(plan, schedule, layout);
    if schedule.by_levels() {
        let part = |(n, levels): (usize, &[Vec<Fibre>])| {
            let mut text = head(plan, schedule, layout, timed, n == 0);
            emit_levels(&mut text, &stage, n * LEVELS_TOGETHER, levels, timed);
            if n == 0 {
                emit_outputs(&mut text, layout);
            }
            text.into_string()
        };
        return schedule.levels.chunks(LEVELS_TOGETHER).enumerate().map(part).collect();
    }
    let mut text = head(plan, schedule, layout, timed, true);
    let mut functions = Functions::new(layout.on_chip.is_none());
    let mut shared = Vec::new();
    for fibre in schedule.fibres().filter(|f| f.cut != Cut::Library) {
        let mut body = Text::default();
        shared.push(emit_fibre(&mut body, &stage, fibre, timed, true));
        functions.add(body.into_string());
    }
    let mut calls = functions.write(&mut text, false).into_iter();
    let shared = shared.into_iter().max().unwrap_or(0).max(32);
    let mut of = |levels: &[Vec<Fibre>]| -> Vec<Calls> {
        let ours = |level: &Vec<Fibre>| level.iter().filter(|f| f.cut != Cut::Library).cloned().collect::<Vec<_>>();
        levels
            .iter()
            .map(|level| ours(level).iter().zip(&mut calls).map(|(f, call)| (call, f.units())).collect())
            .collect()
    };
    let levels = of(&schedule.levels);
    let stage = |b: &Beside| (b.level, of(&b.stages).into_iter().flatten().collect::<Calls>());
    let ahead = schedule.ahead.iter().map(stage).collect();
    let behind = schedule.behind.as_ref().map(|b| (b.level, of(&b.stages)));
    let kernel = Kernel { layout, leaves, levels, ahead, behind, timed };
    kernel.emit(&mut text, shared);
    vec![text.into_string()]
}

/// What every source begins with.
fn head(plan: &Plan, schedule: &Schedule, layout: &Layout, timed: bool, first: bool) -> Text {
    let mut text = Text::default();
    text.line(format!("#define THREADS {}", schedule.team.threads));
    text.line(format!("#define GROUPS {}", schedule.team.groups));
    text.line(format!("#define BLOCKS {}", schedule.team.blocks));
    text.line(format!("typedef {} Index;", if layout.large { "long long" } else { "int" }));
    let bound = layout.bound.len().max(1);
    text.block("struct Args", |text| {
        text.line("char *scratch, *leaves, *fed, *results;");
        text.line(format!("char* bound[{bound}];"));
        text.line("unsigned* barrier;");
        text.line("unsigned long long steps;");
        text.line("long long* ticks;");
    });
    text.line(";");
    if timed {
        text.line("#define TIMED");
    }
    text.line(PRELUDE);
    if first && rows_alone(layout).is_some() {
        text.line(DRAW);
    }
    if schedule.fibres().any(|f| matches!(f.cut, Cut::Tensor { .. })) {
        text.line(TENSOR);
    }
    if layout.on_chip.is_some() {
        text.line("extern __shared__ __align__(256) char chip[];");
    }
    for (id, buffer) in plan.buffers.iter().enumerate() {
        text.line(format!("#define mem{id} ({})  // {} {}", layout.pointer(id), buffer.dtype, buffer.shape));
    }
    for ((call, fold), parts) in layout.all_parts() {
        let region = if layout.on_chip.is_some() { "chip" } else { "scratch" };
        text.line(format!("#define part{call}_{fold} ({region} + {})", parts.offset));
    }
    text
}

/// Kernels for some levels, the first of which has this number.
fn emit_levels(text: &mut Text, stage: &Stage, first: usize, levels: &[Vec<Fibre>], timed: bool) {
    let is_ours = |f: &&Fibre| f.cut != Cut::Library;
    let mut functions = Functions::new(false);
    let mut shared = Vec::new();
    for fibre in levels.iter().flatten().filter(is_ours) {
        let mut body = Text::default();
        shared.push(emit_fibre(&mut body, stage, fibre, timed, false));
        functions.add(body.into_string());
    }
    let mut calls = functions.write(text, true).into_iter().zip(shared);
    for (n, level) in levels.iter().enumerate() {
        let fibres: Vec<&Fibre> = level.iter().filter(is_ours).collect();
        let calls: Vec<(Function, usize)> = (&mut calls).take(fibres.len()).collect();
        emit_level(text, first + n, &fibres, &calls);
    }
}

/// What all fibres are written with.
struct Stage<'a> {
    plan: &'a Plan,
    layout: &'a Layout,
    threads: usize,
    drawn: Drawn,
}

impl<'a> Stage<'a> {
    fn new(plan: &'a Plan, schedule: &Schedule, layout: &'a Layout) -> Stage<'a> {
        let stream = |i: &usize| match &plan.calls[*i].work {
            Work::Random(r) => Some((r.out, r.stream.into())),
            _ => None,
        };
        let streams = schedule.drawn.iter().filter_map(stream).collect();
        let drawn = Drawn { streams, key: layout.key_offset.unwrap_or(0) };
        Stage { plan, layout, threads: schedule.team.threads, drawn }
    }
}

/// A unit of each call of the fibre in turn. Returns the floats of shared memory it needs.
fn emit_fibre(text: &mut Text, stage: &Stage, fibre: &Fibre, timed: bool, early: bool) -> usize {
    let Stage { plan, layout, .. } = *stage;
    let mut shared = 0;
    text.block("", |text| {
        text.line("const int tid = threadIdx.x % THREADS, lane = tid % 32, warp = tid / 32;");
        if let Cut::Rows { rows, per_unit } = fibre.cut {
            text.line(format!("const Index r0 = (Index)unit * {per_unit}, r1 = min(r0 + {per_unit}, (Index){rows});"));
        }
        if let Cut::Blocks { .. } = fibre.cut {
            text.line("const Index block = unit;");
        }
        if layout.on_chip.is_none() && early {
            ask_early(text, plan, fibre);
        }
        let mut sync = Sync::default();
        let mut combines = 0;
        if timed {
            text.line("long long before = clock64();");
        }
        for step in &fibre.steps {
            let (touched, comment) = touches(plan, *step);
            text.line("");
            text.line(format!("// {comment}"));
            sync.before(text, touched);
            match *step {
                // the loop's only unit has written the result itself
                Step::Combine(call) if single(plan, call, layout) => {}
                Step::Combine(call) => {
                    let Work::Loop(l) = &plan.calls[call].work else { continue };
                    for (i, fold) in l.folds.iter().enumerate().filter(|(_, f)| f.whole) {
                        let parts = layout.parts(call, i);
                        let function = match fold.kind {
                            FoldKind::Sum => "sum_of_parts",
                            FoldKind::Max => "max_of_parts",
                        };
                        text.block(format!("if (warp == {combines} % WARPS)"), |text| {
                            text.line(format!("const float x = {function}(f32(part{call}_{i}), {});", parts.units));
                            let target = program::element(&l.operands[fold.operand], &[], "0", "0");
                            text.line(format!("if (lane == 0) {target} = x;"));
                        });
                        combines += 1;
                    }
                }
                Step::Call(call) => text.block("", |text| {
                    shared = shared.max(emit_call(text, &mut sync, stage, (call, fibre)));
                }),
            }
            sync.after(step_buffers(plan, *step));
            if timed {
                let (Step::Call(slot) | Step::Combine(slot)) = *step;
                text.line(format!("tick(args, {slot}, before);"));
            }
        }
    });
    shared
}

fn emit_call(text: &mut Text, sync: &mut Sync, stage: &Stage, (call, fibre): (usize, &Fibre)) -> usize {
    let Stage { plan, layout, threads, ref drawn } = *stage;
    match &plan.calls[call].work {
        Work::Loop(l) => {
            let outer = own_cut_of_loop(text, l, fibre);
            let per_unit = match fibre.cut {
                Cut::Blocks { count, .. } => {
                    let rows = l.rows / count;
                    text.line(format!("const Index r0 = block * {rows}, r1 = r0 + {rows};"));
                    rows
                }
                Cut::Rows { per_unit, .. } => per_unit,
                Cut::Tiles { .. } | Cut::Tensor { .. } | Cut::Own { .. } | Cut::Library => l.rows,
            };
            // a unit that has everything writes the result, others leave a part
            let whole = fibre.rows == 0 || fibre.units() == 1;
            let parts = |fold: usize| match whole {
                true => program::element(&l.operands[l.folds[fold].operand], &outer, "0", "0"),
                false => format!("f32(part{call}_{fold})[unit]"),
            };
            let alone = matches!(fibre.cut, Cut::Blocks { .. });
            let place = Place { rows: fibre.rows, outer: &outer, per_unit, threads, alone, parts: &parts };
            loops::emit(text, sync, l, &place);
            loops::shared(l, threads)
        }
        Work::Matmul(m) => match fibre.cut {
            Cut::Tiles { tile, .. } => {
                let outer = place_of_tile(text, m, (tile.rows, tile.cols), "unit");
                text.line(format!("const Index r1 = min(r0 + {}, (Index){});", tile.rows, matmul::all_rows(m)));
                matmul::emit(text, sync, m, tile, &outer);
                tile.shared()
            }
            Cut::Tensor { tile, .. } => {
                let split = tile.split;
                if split > 1 {
                    // clusters may be larger, as another product of the level asks for
                    text.line(format!(
                        "const int part = unit % {split}, first_rank = cluster_rank() / {split} * {split};"
                    ));
                }
                let unit = if split > 1 { format!("(unit / {split})") } else { "unit".to_owned() };
                let outer = place_of_tile(text, m, (tile.rows, tile.cols), &unit);
                tensor::emit(text, m, tile, &outer, drawn);
                0
            }
            Cut::Blocks { on_units: true, .. } if blocks::suits(m) => {
                sync.before_shared(text);
                blocks::emit(text, sync, m, &indices(&m.outer, "block"))
            }
            Cut::Blocks { .. } => {
                let (tile, _) = Tile::inside(m, m.m, m.n, threads);
                text.line(format!("const Index r0 = 0, r1 = {}, c0 = 0;", m.m));
                matmul::emit(text, sync, m, tile, &indices(&m.outer, "block"));
                tile.shared()
            }
            Cut::Rows { per_unit, .. } => {
                let (tile, _) = Tile::inside(m, per_unit.min(m.m), m.n, threads);
                text.line("const Index c0 = 0;");
                matmul::emit(text, sync, m, tile, &[]);
                tile.shared()
            }
            Cut::Own { .. } | Cut::Library => unreachable!("products are cut into rows or tiles"),
        },
        Work::Gather(g) => {
            whole_rows(text, fibre, g.rows);
            rows::gather(text, g, &plan.buffers);
            0
        }
        Work::Scatter(s) => {
            sync.before_shared(text);
            rows::scatter(text, sync, s, threads)
        }
        Work::Random(r) => {
            whole_rows(text, fibre, 1);
            rows::random(text, r, fibre.rows, layout.key_offset.unwrap_or(0));
            0
        }
        Work::ArgMax(a) => {
            whole_rows(text, fibre, a.rows);
            rows::argmax(text, a);
            0
        }
        Work::Recurrence(r) => {
            whole_rows(text, fibre, r.rows);
            sync.before_shared(text);
            recurrence::walk(text, r, &walkers(fibre, r.rows, threads))
        }
        Work::RecurrenceGradient(r) => {
            whole_rows(text, fibre, r.rows);
            sync.before_shared(text);
            recurrence::walk_back(text, r, &walkers(fibre, r.rows, threads))
        }
    }
}

/// First row and column of a unit's tile; returns its outer indices, of which a flat product has none.
fn place_of_tile(text: &mut Text, m: &Matmul, (rows, cols): (usize, usize), unit: &str) -> Vec<String> {
    let (down, across) = (matmul::all_rows(m).div_ceil(rows), m.n.div_ceil(cols));
    text.line(format!("const int in_outer = {unit} % {};", down * across));
    text.line(format!("const Index r0 = in_outer / {across} * {rows}, c0 = in_outer % {across} * {cols};"));
    match matmul::is_flat(m) {
        true => Vec::new(),
        false => indices(&m.outer, &format!("({unit} / {})", down * across)),
    }
}

fn walkers(fibre: &Fibre, rows: usize, threads: usize) -> Walkers {
    let rows = if let Cut::Rows { per_unit, .. } = fibre.cut { per_unit } else { rows };
    Walkers { threads, rows }
}

/// Where the fibre is not cut into rows, the unit has them all.
fn whole_rows(text: &mut Text, fibre: &Fibre, rows: usize) {
    if !matches!(fibre.cut, Cut::Rows { .. }) {
        text.line(format!("const Index r0 = 0, r1 = {rows};"));
    }
}

/// Rows and outer indices of a unit of a loop that has outer indices; returns these.
fn own_cut_of_loop(text: &mut Text, l: &Loop, fibre: &Fibre) -> Vec<String> {
    if fibre.rows > 0 {
        return Vec::new();
    }
    let (extent, piece) = match l.nest {
        Nest::Rows if l.folds.iter().any(|f| f.whole) => (l.rows, l.rows),
        Nest::Rows => (l.rows, loops::own_rows(l)),
        Nest::Columns => (l.cols, loops::OWN_COLUMNS),
    };
    let each = extent.div_ceil(piece.max(1)).max(1);
    text.line(format!("const Index r0 = (Index)(unit % {each}) * {piece}, r1 = min(r0 + {piece}, (Index){extent});"));
    indices(&l.outer, &format!("(unit / {each})"))
}

/// The indices that a flat one stands for.
fn indices(sizes: &[usize], flat: &str) -> Vec<String> {
    let inner = |axis: usize| sizes[axis + 1..].iter().product::<usize>();
    (0..sizes.len()).map(|axis| format!("{flat} / {} % {}", inner(axis), sizes[axis])).collect()
}

/// The kernel of a level, with a block for each unit; each function comes with the floats of shared memory it needs.
fn emit_level(text: &mut Text, n: usize, fibres: &[&Fibre], calls: &[(Function, usize)]) {
    if fibres.is_empty() {
        return;
    }
    let grid = Grid::of(fibres.iter().copied());
    let cluster = if grid.cluster > 1 { format!("__cluster_dims__({}, 1, 1) ", grid.cluster) } else { String::new() };
    // several tiles on a multiprocessor: one begins or ends while another is multiplied
    let tiles = fibres.iter().filter_map(|f| if let Cut::Tensor { tile, .. } = f.cut { Some(tile) } else { None });
    let together = tiles.map(|tile| tile.together()).min();
    let bounds = together.map_or("THREADS".to_owned(), |n| format!("THREADS, {n}"));
    let head = format!(
        "extern \"C\" __global__ void {cluster}__launch_bounds__({bounds}) level{n}(const __grid_constant__ Args args)"
    );
    text.block(head, |text| {
        text.line("level_begins();");
        let shared = calls.iter().map(|c| c.1).max().unwrap_or(0).max(32);
        match together.is_some() {
            // where the stages are, which take more than any other fibre may
            true => text.line("float* const shared = (float*)stages;"),
            false => text.line(format!("__shared__ __align__(16) float shared[{shared}];")),
        }
        step_names(text);
        for (i, ((function, _), (start, count))) in calls.iter().zip(&grid.units).enumerate() {
            let otherwise = if i > 0 { "else " } else { "" };
            let call = function.call(&format!("blockIdx.x - {start}"));
            let from = if *start > 0 { format!("blockIdx.x >= {start} && ") } else { String::new() };
            text.line(format!("{otherwise}if ({from}blockIdx.x < {}) {call}", start + count));
        }
    });
}

/// Copies results that live elsewhere.
fn emit_outputs(text: &mut Text, layout: &Layout) {
    text.block("extern \"C\" __global__ void outputs(const __grid_constant__ Args args)", |text| {
        text.line("level_begins();");
        step_names(text);
        for (from, to, words) in &layout.copied {
            text.line(format!(
                "for (Index e = blockIdx.x * blockDim.x + threadIdx.x; e < {words}; e += gridDim.x * blockDim.x)"
            ));
            text.line(format!("    ((int*)({to}))[e] = ((int*)({from}))[e];"));
        }
    });
}

fn step_names(text: &mut Text) {
    text.line("const unsigned s = 0;");
    text.line("char *const scratch = args.scratch, *const leaves = args.leaves;");
    text.line("char *const fed = args.fed, *const results = args.results;");
}

/// All whole folds of the loop are written by its only unit.
fn single(plan: &Plan, call: usize, layout: &Layout) -> bool {
    let Work::Loop(l) = &plan.calls[call].work else { return false };
    l.folds.iter().enumerate().filter(|(_, f)| f.whole).all(|(i, _)| layout.parts(call, i).units == 1)
}

/// Asks memory for what later calls of the fibre read and nobody in it writes.
fn ask_early(text: &mut Text, plan: &Plan, fibre: &Fibre) {
    let Cut::Rows { rows, .. } = fibre.cut else { return };
    let touched: Vec<(Vec<usize>, Vec<usize>)> = fibre.steps.iter().map(|s| step_buffers(plan, *s)).collect();
    let mut asked = Vec::new();
    for (step, (reads, _)) in fibre.steps.iter().zip(&touched).skip(1) {
        let Step::Call(call) = *step else { continue };
        for &id in reads {
            let elements = plan.buffers[id].shape.elements();
            let written = touched.iter().any(|(_, writes)| writes.contains(&id));
            let in_place = plan.calls[call].work.touches().1.contains(&id);
            if (written && !in_place) || asked.contains(&id) || elements < 32 {
                continue;
            }
            let bytes = plan.buffers[id].dtype.bytes();
            let local = crate::schedule::row_pitch(&plan.calls[call].work, id, rows);
            let line = match local {
                Some(pitch) => {
                    format!("soon((char*)(mem{id}) + (u64)r0 * {}, (int)(r1 - r0) * {});", pitch * bytes, pitch * bytes)
                }
                None if elements * bytes <= MOST_ASKED => format!("soon((char*)(mem{id}), {});", elements * bytes),
                None => continue,
            };
            asked.push(id);
            text.line(line);
        }
    }
}

/// Bytes of one buffer that are asked for, at most: some of the first-level cache.
const MOST_ASKED: usize = 48 << 10;

/// The functions of a level and their units.
type Calls = Vec<(Function, usize)>;

struct Kernel<'a> {
    layout: &'a Layout,
    leaves: &'a LeafPlaces,
    levels: Vec<Calls>,
    /// In stages.
    ahead: Vec<(usize, Calls)>,
    /// In stages.
    behind: Option<(usize, Vec<Calls>)>,
    timed: bool,
}

impl Kernel<'_> {
    fn emit(&self, text: &mut Text, shared: usize) {
        text.line("");
        let head = "extern \"C\" __global__ void __launch_bounds__(THREADS * GROUPS, 1) steps(const __grid_constant__ Args args)";
        text.block(head, |text| {
            let each = shared.next_multiple_of(4);
            text.line(format!("__shared__ __align__(16) float all_shared[GROUPS * {each}];"));
            text.line(format!("float* const shared = all_shared + threadIdx.x / THREADS * {each};"));
            text.line("u32 goal = 0;");
            text.line("char *const scratch = args.scratch, *const leaves = args.leaves;");
            self.bring(text, true);
            for (_, calls) in &self.ahead {
                text.block("if (args.steps > 0)", |text| {
                    self.at_step(text, "0", |text| deal(text, calls));
                    text.line("all_groups(args.barrier, goal);");
                });
            }
            text.block("for (unsigned n = 0; n < args.steps; n++)", |text| {
                if self.timed {
                    text.line("long long before = clock64();");
                }
                for (level, calls) in self.levels.iter().enumerate() {
                    self.level(text, level, calls);
                }
                if !self.layout.copied.is_empty() {
                    self.at_step(text, "n", |text| self.copy_outputs(text));
                    text.line("all_groups(args.barrier, goal);");
                }
            });
            if self.behind.is_some() {
                text.line("if (args.steps > 0)");
                self.behind(text, "args.steps - 1");
            }
            self.bring(text, false);
        });
    }

    fn level(&self, text: &mut Text, level: usize, calls: &Calls) {
        self.at_step(text, "n", |text| deal(text, calls));
        for (_, early) in self.ahead.iter().filter(|a| a.0 == level) {
            // blocks behind those of the level begin
            let before: usize = calls.iter().map(|c| c.1).sum();
            text.line("if (n + 1 < args.steps)");
            self.at_step(text, "n + 1", |text| {
                text.line(format!("const int turn = (TEAM + TEAMS - {before} % TEAMS) % TEAMS;"));
                deal_from(text, early, "turn");
            });
        }
        if self.behind.as_ref().is_some_and(|b| b.0 == level) {
            text.line("if (n > 0)");
            self.behind(text, "n - 1");
        }
        if self.timed {
            text.line(format!("tick(args, {}, before);", 900 + 2 * level));
        }
        text.line("all_groups(args.barrier, goal);");
        if self.timed {
            text.line(format!("tick(args, {}, before);", 901 + 2 * level));
        }
    }

    /// What is one block's: the last one's.
    fn behind(&self, text: &mut Text, step: &str) {
        let Some((_, stages)) = &self.behind else { return };
        self.at_step(text, step, |text| {
            text.block("if (TEAM == TEAMS - 1)", |text| {
                for calls in stages {
                    for (function, _) in calls {
                        // the one before may still read shared memory
                        text.line("sync_group();");
                        text.line(function.call("0"));
                    }
                }
            });
        });
    }

    /// A scope in which names mean those of this step.
    fn at_step(&self, text: &mut Text, step: &str, body: impl FnOnce(&mut Text)) {
        text.block("", |text| {
            text.line(format!("const unsigned s = {step};"));
            text.line(format!("char* const fed = args.fed + s * {}ull;", self.layout.fed_bytes));
            text.line(format!("char* const results = args.results + s * {}ull;", self.layout.result_bytes));
            body(text);
        });
    }

    /// Outputs that live elsewhere.
    fn copy_outputs(&self, text: &mut Text) {
        for (from, to, words) in &self.layout.copied {
            text.line(format!(
                "for (Index e = TEAM * THREADS + threadIdx.x % THREADS; e < {words}; e += TEAMS * THREADS)"
            ));
            text.line(format!("    ((int*)({to}))[e] = ((int*)({from}))[e];"));
        }
    }

    /// Brings what lives in the block's own memory there, or the leaves home.
    fn bring(&self, text: &mut Text, in_: bool) {
        let Some(scratch) = self.layout.on_chip else { return };
        let each =
            |bytes: usize| format!("for (int e = threadIdx.x; e < {}; e += GROUPS * THREADS)", bytes.div_ceil(4));
        if in_ {
            // constants are among it
            text.line(format!("{} ((int*)chip)[e] = ((int*)scratch)[e];", each(scratch)));
            text.line(format!("{} ((int*)(chip + {scratch}))[e] = ((int*)leaves)[e];", each(self.leaves.bytes)));
            text.line("__syncthreads();");
        } else {
            text.line("__syncthreads();");
            text.line(format!("{} ((int*)leaves)[e] = ((int*)(chip + {scratch}))[e];", each(self.leaves.bytes)));
        }
    }
}

/// Deals the units of a level to the blocks.
fn deal(text: &mut Text, calls: &Calls) {
    deal_from(text, calls, "TEAM");
}

fn deal_from(text: &mut Text, calls: &Calls, turn: &str) {
    let units: usize = calls.iter().map(|c| c.1).sum();
    text.block(format!("for (int u = {turn}; u < {units}; u += TEAMS)"), |text| {
        let mut start = 0;
        for (i, (function, count)) in calls.iter().enumerate() {
            let otherwise = if i > 0 { "else " } else { "" };
            let condition = match start + count < units {
                true => format!("{otherwise}if (u < {}) ", start + count),
                false => otherwise.to_owned(),
            };
            text.line(format!("{condition}{}", function.call(&format!("u - {start}"))));
            start += count;
        }
        // the next unit uses the same shared memory
        text.line("sync_group();");
    });
}

/// (buffers read, buffers written), and what it is for people.
fn touches(plan: &Plan, step: Step) -> ((Vec<usize>, Vec<usize>), String) {
    match step {
        Step::Call(i) => (step_buffers(plan, step), plan.calls[i].label.replace('\n', " ")),
        Step::Combine(i) => (step_buffers(plan, step), format!("all parts of: {}", plan.calls[i].label)),
    }
}

fn step_buffers(plan: &Plan, step: Step) -> (Vec<usize>, Vec<usize>) {
    match step {
        Step::Call(i) => plan.calls[i].work.touches(),
        // the parts are nobody's buffer: it reads them under the name of the result
        Step::Combine(i) => {
            let values = crate::schedule::folded(&plan.calls[i].work);
            (values.clone(), values)
        }
    }
}

/// Block-wide barriers, only where they are needed.
#[derive(Default)]
pub struct Sync {
    /// Read and written since the last barrier.
    read: Vec<usize>,
    written: Vec<usize>,
    shared: bool,
}

impl Sync {
    fn before(&mut self, text: &mut Text, (reads, writes): (Vec<usize>, Vec<usize>)) {
        let meets = reads.iter().any(|id| self.written.contains(id))
            || writes.iter().any(|id| self.written.contains(id) || self.read.contains(id));
        if meets {
            self.always(text);
        }
    }

    fn after(&mut self, (reads, writes): (Vec<usize>, Vec<usize>)) {
        self.read.extend(reads);
        self.written.extend(writes);
    }

    /// Before shared memory is written.
    fn before_shared(&mut self, text: &mut Text) {
        if self.shared {
            self.always(text);
        }
    }

    /// After shared memory was written: others read it now.
    fn inside(&mut self, text: &mut Text) {
        self.always(text);
        self.shared = true;
    }

    fn always(&mut self, text: &mut Text) {
        text.line("sync_group();");
        *self = Sync::default();
    }
}
