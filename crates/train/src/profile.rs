//! A look at a few steps of a run, with every call timed.

use std::collections::BTreeMap;
use std::time::Duration;

use citius_cpu::{Doing, Span, Timing};
use citius_graph::{LeafKind, Phase};
use citius_plan::{Plan, Storage};
use serde::{Deserialize, Serialize};

use crate::counterfactual::counterfactuals;
use crate::ledger::of_plan;
use crate::rig::{Held, Rig, Supply};
use crate::{Ceilings, Counterfactuals, Device, Ledger, Machine, RunOptions, TrainError, Training};

/// What to look at.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProfileOptions {
    /// Steps to time.
    pub steps: u64,
    /// Time for counterfactuals; none: none are measured.
    pub otherwise: Option<Duration>,
}

impl Default for ProfileOptions {
    fn default() -> ProfileOptions {
        ProfileOptions { steps: 100, otherwise: Some(Duration::from_secs(4)) }
    }
}

/// Where the time and the memory of steps go.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Profile {
    pub model: String,
    /// `cpu`, `cuda` or `cuda:1`.
    pub device: String,
    pub hardware: String,
    /// Rows of a step.
    pub batch: usize,
    /// Steps in an epoch.
    pub steps_per_epoch: u64,
    /// With all kernels.
    pub ledger: Ledger,
    pub memory: MemoryUse,
    /// Of the processor.
    pub ceilings: Option<Ceilings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Counterfactuals>,
    /// What each thread did; the name of a call is that of the kernel.
    #[serde(skip)]
    pub trace: Vec<Traced>,
}

/// A stretch of a thread's time, in seconds since the first.
#[derive(Clone, PartialEq, Debug)]
pub struct Traced {
    pub thread: usize,
    pub step: u64,
    pub name: String,
    /// `data`, `copy`, `forward`, `backward`, `update`, `threads` or `metrics`, as in a ledger.
    pub part: &'static str,
    pub start: f64,
    pub end: f64,
    /// FLOPs and bytes, of a call.
    pub work: Option<(usize, usize)>,
}

/// Bytes of a step.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryUse {
    /// At the moment when most are in use.
    pub peak: Kinds,
    /// In use at each wave of the step.
    pub timeline: Vec<Kinds>,
    /// Taken for what comes and goes within a step.
    pub arena: usize,
}

/// Bytes by what they are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Kinds {
    pub parameters: usize,
    pub gradients: usize,
    /// Moments and averages, and what updates compute.
    pub optimiser: usize,
    pub activations: usize,
    /// Tables and batches.
    pub data: usize,
}

impl Kinds {
    pub fn sum(&self) -> usize {
        self.parameters + self.gradients + self.optimiser + self.activations + self.data
    }

    pub fn named(&self) -> [(&'static str, usize); 5] {
        let Kinds { parameters, gradients, optimiser, activations, data } = *self;
        [
            ("parameters", parameters),
            ("gradients", gradients),
            ("optimiser", optimiser),
            ("activations", activations),
            ("data", data),
        ]
    }

    fn add(&mut self, kind: Kind, bytes: usize) {
        *match kind {
            Kind::Parameters => &mut self.parameters,
            Kind::Gradients => &mut self.gradients,
            Kind::Optimiser => &mut self.optimiser,
            Kind::Activations => &mut self.activations,
            Kind::Data => &mut self.data,
        } += bytes;
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Parameters,
    Gradients,
    Optimiser,
    Activations,
    Data,
}

/// Seconds for threads and workers to be tried out.
const WARM_UP: f64 = 0.15;
/// Spans that are kept of a thread, at most.
const MOST_SPANS: usize = 200_000;

impl Training {
    /// Takes some steps on a throw-away copy of the model, and times every call.
    pub fn profile(&self, options: &RunOptions, asked: ProfileOptions) -> Result<Profile, TrainError> {
        let prepared = self.prepared(options)?;
        let (settings, machine, material) = (&prepared.settings, prepared.machine, &self.problem.train);
        let held = Held::new(material, settings)?;
        // a call is told of at most twice a step, and there are not more than some others
        let spans = (asked.steps as usize).saturating_mul(4096).min(MOST_SPANS);
        let mut timed = machine;
        timed.cpu.timing = Timing::Every { spans };
        let mut rig = Rig::new(material, settings, timed, Supply::Real, &held, None)?;
        rig.warm_up(WARM_UP)?;
        let on_gpu = matches!(machine.device, Device::Cuda(_));
        let ceilings = (!on_gpu).then(Ceilings::get);
        let batch = rig.batch;
        let engine = rig.engine().ok_or_else(|| TrainError::Setting("there is nothing to compute".into()))?;
        engine.reset_times(0);
        let seconds = rig.run(asked.steps.max(1))? * asked.steps.max(1) as f64;
        let engine = rig.engine().ok_or_else(|| TrainError::Setting("there is nothing to compute".into()))?;
        let ledger = of_plan(engine, seconds, ceilings.as_ref());
        let kept = engine.spans(0);
        let plan = engine.plan(0);
        let profile = Profile {
            model: self.model_of(settings, machine)?.describe(),
            device: machine.device.to_string(),
            hardware: engine.hardware(),
            batch,
            steps_per_epoch: material.rows().div_ceil(batch.max(1)) as u64,
            memory: memory_use(plan),
            trace: traced(plan, &kept),
            ledger,
            ceilings,
            otherwise: None,
        };
        drop(rig);
        let otherwise =
            asked.otherwise.map(|budget| counterfactuals(material, settings, machine, budget)).transpose()?;
        Ok(Profile { otherwise, ..profile })
    }

    /// What steps of this run would cost otherwise, measured in about this time.
    pub fn counterfactuals(&self, options: &RunOptions, budget: Duration) -> Result<Counterfactuals, TrainError> {
        let prepared = self.prepared(options)?;
        counterfactuals(&self.problem.train, &prepared.settings, prepared.machine, budget)
    }

    fn model_of(&self, settings: &crate::Settings, machine: Machine) -> Result<Box<dyn citius_nn::Module>, TrainError> {
        settings.model_for(machine.device, self.problem.train.width(), self.problem.train.outputs())
    }
}

fn traced(plan: &Plan, spans: &[Span]) -> Vec<Traced> {
    let traced = |span: &Span| {
        let (name, part, work) = match span.doing {
            Doing::Fill => ("fill".to_owned(), "data", None),
            Doing::Feed => ("draw the next rows".to_owned(), "data", None),
            Doing::Copy => ("take inputs".to_owned(), "copy", None),
            Doing::Wait => ("wait for threads".to_owned(), "threads", None),
            Doing::Watch => ("look at results".to_owned(), "metrics", None),
            Doing::Call(n) => {
                let call = &plan.calls[n];
                let part = match call.phase {
                    Phase::Batch => "copy",
                    Phase::Forward => "forward",
                    Phase::Backward => "backward",
                    Phase::Update => "update",
                };
                (call.work.shape(), part, Some((call.cost.flops, call.cost.bytes)))
            }
        };
        Traced { thread: span.thread, step: span.step, name, part, start: span.start, end: span.end, work }
    };
    spans.iter().map(traced).collect()
}

/// What is in use at each wave. A value is in use from the call that makes it to the last that reads it.
fn memory_use(plan: &Plan) -> MemoryUse {
    let bytes = |id: usize| plan.buffers[id].shape.elements() * plan.buffers[id].dtype.bytes();
    let mut lasting = Kinds::default();
    for (id, buffer) in plan.buffers.iter().enumerate() {
        match &buffer.storage {
            Storage::Leaf { kind: LeafKind::Input, .. } => lasting.add(Kind::Data, bytes(id)),
            Storage::Leaf { kind: LeafKind::Parameter, .. } => lasting.add(Kind::Parameters, bytes(id)),
            Storage::Leaf { kind: LeafKind::State, .. } => lasting.add(Kind::Optimiser, bytes(id)),
            Storage::Scratch { .. } | Storage::Constant(_) | Storage::Step => {}
        }
    }
    // made in the first wave, read in the last, for this
    let mut lives: BTreeMap<usize, (usize, usize, Kind)> = BTreeMap::new();
    for call in &plan.calls {
        let (reads, writes) = call.work.touches();
        let kind = match call.phase {
            Phase::Batch => Kind::Data,
            Phase::Forward => Kind::Activations,
            Phase::Backward => Kind::Gradients,
            Phase::Update => Kind::Optimiser,
        };
        for id in writes.into_iter().chain(reads) {
            if let Storage::Scratch { .. } = plan.buffers[id].storage {
                lives.entry(id).or_insert((call.wave, call.wave, kind)).1 = call.wave;
            }
        }
    }
    for (_, id) in &plan.outputs {
        if let Some(life) = lives.get_mut(id) {
            life.1 = plan.waves.saturating_sub(1);
        }
    }
    let timeline: Vec<Kinds> = (0..plan.waves)
        .map(|wave| {
            let mut kinds = lasting;
            let alive = lives.iter().filter(|(_, (first, last, _))| (*first..=*last).contains(&wave));
            alive.for_each(|(id, (_, _, kind))| kinds.add(*kind, bytes(*id)));
            kinds
        })
        .collect();
    let peak = timeline.iter().copied().max_by_key(Kinds::sum).unwrap_or(lasting);
    MemoryUse { peak, timeline, arena: plan.scratch_bytes }
}
