use std::sync::Arc;

use citius_cpu::Inputs;
use citius_plan::Plan;

use crate::choice::{Scheduled, schedule};
use crate::compile::{Care, compile_all};
use crate::device::{Bytes, Device, Event, HostBytes, Kernel, LARGEST_CLUSTER, Module, Stream};
use crate::draw::Draw;
use crate::error::CudaError;
use crate::estimate::Estimate;
use crate::layout::Layout;
use crate::ledger::Ledger;
use crate::levels::Levels;
use crate::precision::Precision;
use crate::schedule::{Schedule, Team};
use crate::session::{Session, as_bytes};
use crate::source;

/// How to run a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Who runs a step; `None`: as the size of the step suggests.
    pub team: Option<Team>,
    /// Of large products.
    pub precision: Precision,
    /// Arithmetic from which a product is cuBLASLt's; `None`: from where it is faster.
    pub library_from: Option<usize>,
    /// Steps that will be taken, where that is known: for a short training it is not worth compiling them well.
    pub steps: Option<u64>,
    /// Count the cycles of every part of a step: see [`Executable::ticks`].
    pub timed: bool,
    /// Batches on their way lie in memory that the system may move: copies take longer, and the host waits for them.
    pub unpinned: bool,
}

/// How a step is started.
pub(crate) enum Form {
    /// One kernel for many steps, all of whose blocks are there at once.
    Together(Kernel),
    /// A kernel or a product of the library after the other.
    Levels(Box<Levels>),
}

/// Bytes of a chunk of steps on their way to or from the GPU, at most.
const CHUNK_BYTES: usize = 32 << 20;
/// Steps of a launch, at most: between two looks at the results.
const CHUNK_STEPS: usize = 512;

/// … of those that are recorded, each by itself, as it always finds its inputs in the same place; and the arithmetic and bytes from which
/// a step is so long that it may go alone.
const RECORDED_STEPS: usize = 8;
const LONG_STEP: usize = 64 << 30;

/// A plan with its kernel and its memory on a GPU.
pub struct Executable {
    pub(crate) plan: Plan,
    pub(crate) schedule: Schedule,
    pub(crate) layout: Layout,
    pub(crate) device: Arc<Device>,
    pub(crate) form: Form,
    pub(crate) scratch: Bytes,
    pub(crate) barrier: Bytes,
    pub(crate) chunks: [Chunk; 2],
    pub(crate) draw: Option<Draw>,
    pub(crate) compute: Stream,
    pub(crate) copy: Stream,
    pub(crate) ticks: Option<Bytes>,
    pub(crate) chunk_steps: usize,
    pub(crate) ledger: Ledger,
    /// Of each block's own memory.
    pub(crate) chip_bytes: usize,
}

/// Steps on their way.
pub(crate) struct Chunk {
    pub fed_host: HostBytes,
    pub fed: Bytes,
    pub results: Bytes,
    pub results_host: HostBytes,
    pub copying: Event,
    pub copied: Event,
    pub computing: Event,
    pub computed: Event,
    pub done: Event,
    pub steps: usize,
    pub first: u64,
    /// What was filled, or drawn, is in the GPU's own memory.
    pub copied_in: bool,
}

impl Executable {
    /// Generates and compiles the kernel and takes memory. Inputs that `inputs` has stay for every run; all others are fed.
    pub fn new(plan: Plan, session: &Session, inputs: &Inputs, options: Options) -> Result<Executable, CudaError> {
        let [executable] = Executable::all([plan], session, inputs, options)?
            .try_into()
            .unwrap_or_else(|_| unreachable!("one plan, one executable"));
        Ok(executable)
    }

    /// One for each plan. Their kernels are compiled side by side: that is what a cold start waits for.
    pub fn all(
        plans: impl IntoIterator<Item = Plan>,
        session: &Session,
        inputs: &Inputs,
        options: Options,
    ) -> Result<Vec<Executable>, CudaError> {
        session.device.enter()?;
        let designs: Vec<Design> =
            plans.into_iter().map(|plan| Design::new(plan, session, inputs, options)).collect::<Result<_, _>>()?;
        let capability = session.device.capability;
        let each = designs.iter().flat_map(|design| design.sources.iter().map(|source| (source.as_str(), design.care)));
        let sources: Vec<(&str, Care)> = each.collect();
        let mut images = compile_all(&sources, capability)?.into_iter();
        let bind = |design: Design| {
            let own: Vec<Vec<u8>> = (&mut images).take(design.sources.len()).collect();
            design.bind(&own, session, options)
        };
        designs.into_iter().map(bind).collect()
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Cycles spent so far, [group][part]: part `n` is call `n` of the plan, 900 + 2·l the work of level `l`, 901 + 2·l its barrier.
    pub fn ticks(&self) -> Result<Vec<Vec<i64>>, CudaError> {
        let Some(ticks) = &self.ticks else { return Ok(Vec::new()) };
        let mut bytes = vec![0; self.schedule.team.size() * 8192];
        ticks.read(0, &mut bytes)?;
        let number = |b: &[u8]| i64::from_le_bytes(b.try_into().unwrap_or_default());
        Ok(bytes.chunks(8192).map(|block| block.chunks(8).map(number).collect()).collect())
    }

    /// Forgets where it went.
    pub fn reset_ledger(&mut self) {
        self.ledger = Ledger::default();
    }

    /// Where the time of all runs so far went.
    pub fn ledger(&self) -> Ledger {
        self.ledger
    }
}

/// Steps that are sent at once, at most.
pub(crate) fn chunk_steps(plan: &Plan, schedule: &Schedule, layout: &Layout) -> usize {
    let widest = layout.fed_bytes.max(layout.result_bytes).max(1);
    let total = plan.total();
    let most = match schedule.by_levels() {
        false => CHUNK_STEPS,
        true if total.flops + total.bytes < LONG_STEP => RECORDED_STEPS,
        true => 1,
    };
    (CHUNK_BYTES / widest).clamp(1, most)
}

/// A plan on its way: scheduled, laid out and rendered.
struct Design {
    plan: Plan,
    schedule: Schedule,
    layout: Layout,
    sources: Vec<String>,
    care: Care,
}

/// Microseconds of all steps of a training up to which compiling them well would take longer than it saves: it takes a second or so.
const SHORT: f64 = 2e6;

impl Design {
    fn new(plan: Plan, session: &Session, inputs: &Inputs, options: Options) -> Result<Design, CudaError> {
        citius_plan::verify(&plan).map_err(CudaError::Plan)?;
        let device = &session.device;
        let is_bound = |name: &str| inputs.find(name).is_some();
        let most = |blocks: usize| blocks.clamp(1, device.multiprocessors).min(device.most_blocks(blocks));
        let scheduled = schedule(&plan, device.chip(), &most, options);
        let whole = options.steps.map(|steps| steps as f64 * Estimate::of(&scheduled, options.precision).micros());
        // large products are nothing without care
        let short = !scheduled.schedule.by_levels() && whole.is_some_and(|whole| whole < SHORT);
        let care = if short { Care::Little } else { Care::Full };
        let Scheduled { plan, schedule, half } = scheduled;
        let layout = Layout::new(&plan, &schedule, &session.places, &is_bound, &half, device.block_bytes);
        let sources = source::render(&plan, &schedule, &layout, &session.places, options.timed);
        Ok(Design { plan, schedule, layout, sources, care })
    }

    /// Loads the kernels and takes memory.
    fn bind(self, images: &[Vec<u8>], session: &Session, options: Options) -> Result<Executable, CudaError> {
        let Design { plan, schedule, layout, .. } = self;
        let (device, team) = (session.device.clone(), schedule.team);
        let modules = images.iter().map(|image| Module::load(&device, image)).collect::<Result<Vec<_>, _>>()?;
        let draw = Draw::new(&modules[0], &layout)?;
        let chip_bytes = layout.chip_bytes(&session.places);
        let form = match schedule.by_levels() {
            true => {
                Form::Levels(Box::new(Levels::new(&device, &modules, &plan, &schedule, &layout, options.precision)?))
            }
            false => {
                let kernel = modules[0].kernel("steps")?;
                kernel.allow_shared(chip_bytes)?;
                if team.blocks > 8 && team.blocks <= LARGEST_CLUSTER && device.has_clusters() {
                    kernel.allow_large_clusters()?;
                }
                Form::Together(kernel)
            }
        };
        let scratch = Bytes::new(&device, "the step", layout.scratch_bytes)?;
        for (offset, values) in &layout.constants {
            scratch.write(*offset, as_bytes(values))?;
        }
        let chunk_steps = chunk_steps(&plan, &schedule, &layout);
        let chunk = || -> Result<Chunk, CudaError> {
            Ok(Chunk {
                fed_host: match options.unpinned {
                    true => HostBytes::movable(&device, layout.fed_bytes * chunk_steps),
                    false => HostBytes::pinned(&device, layout.fed_bytes * chunk_steps)?,
                },
                fed: Bytes::new(&device, "batches", layout.fed_bytes * chunk_steps)?,
                results: Bytes::new(&device, "results", layout.result_bytes * chunk_steps)?,
                results_host: HostBytes::pinned(&device, layout.result_bytes * chunk_steps)?,
                copying: Event::new(&device)?,
                copied: Event::new(&device)?,
                computing: Event::new(&device)?,
                computed: Event::new(&device)?,
                done: Event::new(&device)?,
                steps: 0,
                first: 0,
                copied_in: false,
            })
        };
        let chunks = [chunk()?, chunk()?];
        let barrier = Bytes::new(&device, "the step", 256)?;
        let ticks = options.timed.then(|| Bytes::new(&device, "clocks", schedule.team.size() * 8192)).transpose()?;
        let (compute, copy) = (Stream::new(&device)?, Stream::new(&device)?);
        Ok(Executable {
            plan,
            schedule,
            layout,
            form,
            scratch,
            barrier,
            chunks,
            draw,
            compute,
            copy,
            ticks,
            chunk_steps,
            ledger: Ledger::default(),
            chip_bytes,
            device,
        })
    }
}
