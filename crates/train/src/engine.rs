//! Where steps run: on the processor or on a GPU. All plans of an engine share one model.

use std::fmt;
use std::str::FromStr;

use citius_cpu::{Driver, Inputs, Memory, Options, Span, Times};
use citius_cuda::Precision;
use citius_plan::Plan;

use crate::{Material, Settings, TrainError};

/// The device a person asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Device {
    /// The faster one for the model at hand.
    #[default]
    Auto,
    Cpu,
    /// A GPU by number.
    Cuda(usize),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Device, String> {
        let number = |n: &str| n.parse().ok().map(Device::Cuda);
        match text {
            "auto" => Ok(Device::Auto),
            "cpu" => Ok(Device::Cpu),
            "cuda" => Ok(Device::Cuda(0)),
            _ => text
                .strip_prefix("cuda:")
                .and_then(number)
                .ok_or_else(|| format!("there is no device \"{text}\": auto, cpu, cuda, or cuda:1 for the second GPU")),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Device::Auto => write!(f, "auto"),
            Device::Cpu => write!(f, "cpu"),
            Device::Cuda(0) => write!(f, "cuda"),
            Device::Cuda(n) => write!(f, "cuda:{n}"),
        }
    }
}

/// How to run steps; changes the speed, and rounding between devices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine {
    pub device: Device,
    pub cpu: Options,
    pub cuda: citius_cuda::Options,
}

impl Machine {
    /// For the steps of a training: products in its precision, batches on their way as it says, compiled for as many as there are.
    pub fn of(device: Device, cpu: Options, settings: &Settings, material: &Material) -> Machine {
        let halves_from = (settings.precision == Precision::Bf16).then_some(citius_cpu::LARGE_PRODUCT);
        let cuda = citius_cuda::Options {
            precision: settings.precision,
            unpinned: material.unpinned(),
            ..citius_cuda::Options::default()
        };
        Machine { device, cpu: Options { halves_from, ..cpu }, cuda }.for_steps_of(settings, material)
    }

    /// The same, compiled for the steps of this training: a GPU's code is made with less care where they are few.
    pub fn for_steps_of(self, settings: &Settings, material: &Material) -> Machine {
        let rows = material.rows().max(1);
        let steps = rows.div_ceil(settings.batch_size.clamp(1, rows)).saturating_mul(settings.epochs);
        Machine { cuda: citius_cuda::Options { steps: Some(steps as u64), ..self.cuda }, ..self }
    }
}

impl From<Options> for Machine {
    fn from(cpu: Options) -> Machine {
        Machine { device: Device::Cpu, cpu, cuda: citius_cuda::Options::default() }
    }
}

/// Plans ready to run, and the model they share.
pub struct Engine {
    memory: Memory,
    place: Place,
    #[cfg(test)]
    pub(crate) pretence: tests::Pretence,
}

enum Place {
    Cpu(Vec<citius_cpu::Executable>),
    Cuda { session: Box<citius_cuda::Session>, steps: Vec<citius_cuda::Executable> },
}

impl Engine {
    /// `inputs` are bound for every run of every plan. Here [`Device::Auto`] is the processor: who wants the faster device has
    /// tried both before.
    pub fn new(plans: Vec<Plan>, seed: u64, inputs: &Inputs, machine: Machine) -> Result<Engine, TrainError> {
        let mut memory = Memory::new(seed);
        for plan in &plans {
            memory.admit(plan)?;
        }
        let place = match machine.device {
            Device::Cpu | Device::Auto => {
                let bind = |plan| citius_cpu::Executable::new(plan, &mut memory, machine.cpu);
                Place::Cpu(plans.into_iter().map(bind).collect::<Result<_, _>>()?)
            }
            Device::Cuda(index) => {
                let device = citius_cuda::Device::open(index)?;
                let mut session = citius_cuda::Session::new(device, &plans)?;
                session.upload(&memory)?;
                let steps = citius_cuda::Executable::all(plans, &session, inputs, machine.cuda)?;
                Place::Cuda { session: Box::new(session), steps }
            }
        };
        Ok(Engine {
            memory,
            place,
            #[cfg(test)]
            pretence: tests::Pretence::default(),
        })
    }

    /// Takes up to `steps` steps of plan `which`, numbered from `first`; returns how many were taken.
    pub fn run(
        &mut self,
        which: usize,
        inputs: &Inputs,
        first: u64,
        steps: u64,
        driver: &mut dyn Driver,
    ) -> Result<u64, TrainError> {
        #[cfg(test)]
        let driver = &mut tests::Late { driver, stopped: false, steps: self.pretence.late };
        #[cfg(test)]
        if let Some(left) = self.pretence.fails_at.map(|at| at.saturating_sub(first)).filter(|left| *left < steps) {
            let Place::Cpu(all) = &mut self.place else { unreachable!("tests pretend on the processor") };
            all[which].run(&mut self.memory, inputs, first, left, driver)?;
            let what = "an illegal memory access was encountered".to_owned();
            return Err(citius_cuda::CudaError::Device { doing: "running a step", what }.into());
        }
        match &mut self.place {
            Place::Cpu(all) => Ok(all[which].run(&mut self.memory, inputs, first, steps, driver)?),
            Place::Cuda { session, steps: all } => {
                Ok(all[which].run(session, self.memory.seed(), inputs, first, steps, driver)?)
            }
        }
    }

    /// The model's values, as of the last [`Engine::bring_home`].
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The model's values, to be changed; [`Engine::send_out`] makes the changes count.
    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Has [`Engine::memory`] hold what the steps have made of the model.
    pub fn bring_home(&mut self) -> Result<(), TrainError> {
        match &mut self.place {
            Place::Cpu(_) => Ok(()),
            Place::Cuda { session, .. } => Ok(session.download(&mut self.memory)?),
        }
    }

    /// Has the steps go on from what [`Engine::memory`] holds.
    pub fn send_out(&mut self) -> Result<(), TrainError> {
        match &mut self.place {
            Place::Cpu(_) => Ok(()),
            Place::Cuda { session, .. } => Ok(session.upload(&self.memory)?),
        }
    }

    pub fn plan(&self, which: usize) -> &Plan {
        match &self.place {
            Place::Cpu(all) => all[which].plan(),
            Place::Cuda { steps, .. } => steps[which].plan(),
        }
    }

    /// Index of a named output of plan `which`.
    pub fn output(&self, which: usize, name: &str) -> Option<usize> {
        self.plan(which).outputs.iter().position(|o| o.0 == name)
    }

    /// Where the time of plan `which` went, on a GPU.
    pub fn ledger(&self, which: usize) -> Option<citius_cuda::Ledger> {
        match &self.place {
            Place::Cpu(_) => None,
            Place::Cuda { steps, .. } => Some(steps[which].ledger()),
        }
    }

    /// Where the time of plan `which` went, on the processor.
    pub fn times(&mut self, which: usize) -> Option<Times> {
        match &mut self.place {
            Place::Cpu(all) => Some(all[which].times()),
            Place::Cuda { .. } => None,
        }
    }

    /// What each thread of the processor did in plan `which`, as far as it was kept.
    pub fn spans(&mut self, which: usize) -> Vec<Span> {
        match &mut self.place {
            Place::Cpu(all) => all[which].spans(),
            Place::Cuda { .. } => Vec::new(),
        }
    }

    /// Has no step of a processor timed until further notice, or steps timed again as before: to see what it costs.
    pub fn pause_timing(&mut self, paused: bool) {
        if let Place::Cpu(all) = &mut self.place {
            all.iter_mut().for_each(|executable| executable.pause_timing(paused));
        }
    }

    /// Forgets where the time of plan `which` went.
    pub fn reset_times(&mut self, which: usize) {
        match &mut self.place {
            Place::Cpu(all) => all[which].reset_times(),
            Place::Cuda { steps, .. } => steps[which].reset_ledger(),
        }
    }

    /// Cycles of the calls of plan `which` on a GPU, where they were counted: [group][part], see
    /// [`citius_cuda::Executable::ticks`].
    pub fn ticks(&self, which: usize) -> Result<Vec<Vec<i64>>, TrainError> {
        match &self.place {
            Place::Cpu(_) => Ok(Vec::new()),
            Place::Cuda { steps, .. } => Ok(steps[which].ticks()?),
        }
    }

    /// Threads of the processor, or groups of threads of the GPU, in use for plan `which`.
    pub fn threads(&self, which: usize) -> usize {
        match &self.place {
            Place::Cpu(all) => all[which].threads(),
            Place::Cuda { steps, .. } => steps[which].schedule().team.size(),
        }
    }

    /// Whether the number of threads for plan `which` has been tried out.
    pub fn settled(&self, which: usize) -> bool {
        match &self.place {
            Place::Cpu(all) => all[which].settled(),
            Place::Cuda { .. } => true,
        }
    }

    /// The instruction set, or the GPU.
    pub fn hardware(&self) -> String {
        match &self.place {
            Place::Cpu(all) => all.first().map_or(String::new(), |e| e.isa().to_string()),
            Place::Cuda { session, .. } => session.device().name.clone(),
        }
    }

    /// "cpu" or "cuda".
    pub fn device(&self) -> &'static str {
        match &self.place {
            Place::Cpu(_) => "cpu",
            Place::Cuda { .. } => "cuda",
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use citius_cpu::{Batch, Driver, Flow, Outputs, Slots};

    /// Has the processor behave as a GPU might.
    #[derive(Default)]
    pub(crate) struct Pretence {
        /// Steps that still happen after the driver has said stop.
        pub late: u64,
        /// The number of a step that is never taken.
        pub fails_at: Option<u64>,
    }

    /// Stops `steps` steps after its driver does.
    pub(super) struct Late<'a> {
        pub driver: &'a mut dyn Driver,
        pub stopped: bool,
        pub steps: u64,
    }

    impl Driver for Late<'_> {
        fn feed(&mut self, step: u64, slots: &mut Slots) {
            self.driver.feed(step, slots);
        }

        fn fill(&mut self, step: u64, slots: &mut Slots) -> Flow {
            self.driver.fill(step, slots)
        }

        fn left(&self) -> Option<&dyn Batch> {
            self.driver.left()
        }

        fn after(&mut self, step: u64, outputs: &Outputs) -> Flow {
            self.stopped |= self.driver.after(step, outputs) == Flow::Stop;
            if self.stopped && self.steps == 0 {
                return Flow::Stop;
            }
            self.steps -= u64::from(self.stopped);
            Flow::Continue
        }
    }
}
