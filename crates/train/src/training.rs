//! A run that is ready to start: its data, its settings, where it will run and where it will be kept; also one that was interrupted.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::scope;
use std::time::Instant;

use citius_cpu::Options;
use citius_cuda::Precision;
use citius_data::{Dataset, Escaped, shell_word};
use citius_nn::Module;

use crate::checkpoint::State;
use crate::checkpoint_writer::CheckpointWriter;
use crate::events::{Event, Listener, Rows, Unwatched, Watch};
use crate::folder::{Claim, check_out, created, next_free};
use crate::log::Log;
use crate::room::{Asked, in_room};
use crate::run::{Books, Run};
use crate::tensors::Tensors;
use crate::transfer::Start;
use crate::trial::{Decision, Job};
use crate::{Choice, Device, Machine, Problem, Report, Settings, TrainError, Wishes, choose};

/// Where and how to run; none of it changes the numbers, but for the device, which rounds in its own way.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Directory of the run; `runs/<source>-<n>` when open.
    pub out: Option<PathBuf>,
    /// Whether a run that is in that directory may be replaced.
    pub force: bool,
    /// When open, a run takes the one of its wishes, and a resumed run the one it began on.
    pub device: Option<Device>,
    /// Threads and instruction set.
    pub cpu: Options,
    /// Epochs between checkpoints; when open, one after every few seconds.
    pub checkpoint_every: Option<usize>,
}

/// A run that is ready to start: data, settings and the reasons for them.
pub struct Training {
    pub problem: Problem,
    pub settings: Settings,
    pub choices: Vec<Choice>,
    pub(crate) wishes: Wishes,
    /// Weights to begin with.
    pub(crate) start: Option<Start>,
    pub(crate) resumed: Option<(PathBuf, State, Tensors)>,
    /// Seconds that it took to come so far.
    reading: f64,
}

impl Training {
    /// Reads the data and chooses what is open.
    pub fn new(wishes: Wishes) -> Result<Training, TrainError> {
        let began = Instant::now();
        let training = Training::on(Problem::read(&wishes)?, wishes)?;
        Ok(Training { reading: began.elapsed().as_secs_f64(), ..training })
    }

    /// The same, on data that the caller has read.
    pub fn on(problem: Problem, wishes: Wishes) -> Result<Training, TrainError> {
        let began = Instant::now();
        let (settings, chosen) = choose(&problem, &wishes)?;
        let mut choices = [problem.choices.clone(), chosen].concat();
        let (start, said) = Start::read(&settings, &problem.train.form())?.unzip();
        choices.extend(said);
        let reading = began.elapsed().as_secs_f64();
        Ok(Training { problem, settings, choices, wishes, start, resumed: None, reading })
    }

    /// Takes up an interrupted run from its directory. `source`, if given, says where the data is now.
    pub fn resume(directory: &Path, source: Option<PathBuf>) -> Result<Training, TrainError> {
        let began = Instant::now();
        drop(Claim::take_existing(directory)?);
        let (state, tensors) = State::load(directory)?;
        let mut wishes = state.wishes.clone();
        wishes.source = source.or(wishes.source);
        if let Some(moved) = wishes.source.as_ref().filter(|path| !path.exists()) {
            return Err(TrainError::saved(
                directory,
                format!("its data, {}, is no longer there", moved.escaped()),
                format!("say where it is: citius train SOURCE --resume {}", shell_word(directory)),
            ));
        }
        // what was begun with is in the checkpoint; only training anew begins with it again
        let again = state.settings.refit && state.search.is_none();
        if !again && wishes.weights.as_ref().is_some_and(|path| !path.exists()) {
            (wishes.weights, wishes.ignore, wishes.new_head) = (None, None, None);
        }
        let training = Training::new(wishes)?.restored(directory, state, tensors)?;
        Ok(Training { reading: began.elapsed().as_secs_f64(), ..training })
    }

    /// Takes up an interrupted run from its directory, on data that the caller has read again.
    pub fn going_on(self, directory: &Path) -> Result<Training, TrainError> {
        let began = Instant::now();
        let (state, tensors) = State::load(directory)?;
        let training = self.restored(directory, state, tensors)?;
        Ok(Training { reading: training.reading + began.elapsed().as_secs_f64(), ..training })
    }

    fn restored(mut self, directory: &Path, state: State, tensors: Tensors) -> Result<Training, TrainError> {
        if self.problem.fingerprint() != state.fingerprint {
            return Err(TrainError::saved(
                directory,
                "the data is not what this run was started on",
                "restore the data, or start a new run",
            ));
        }
        self.settings = state.settings.clone();
        self.resumed = Some((directory.to_owned(), state, tensors));
        Ok(self)
    }

    /// What was asked for.
    pub fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// The directory of the run that is resumed.
    pub fn resumed_from(&self) -> Option<&Path> {
        self.resumed.as_ref().map(|(directory, ..)| directory.as_path())
    }

    /// Trains to the end, until `stop` is set, or until it diverges; the model is saved in each case.
    pub fn run(
        &self,
        options: &RunOptions,
        listener: &mut dyn Listener,
        stop: &AtomicBool,
    ) -> Result<Report, TrainError> {
        self.run_watched(options, listener, &mut Unwatched, stop)
    }

    /// The same, with somebody who hears every event and may add to them.
    pub fn run_watched(
        &self,
        options: &RunOptions,
        listener: &mut dyn Listener,
        watch: &mut dyn Watch,
        stop: &AtomicBool,
    ) -> Result<Report, TrainError> {
        let began = Instant::now();
        if let (None, Some(out)) = (&self.resumed, &options.out) {
            check_out(out, options.force)?;
        }
        // before anything is written
        let Prepared { settings, machine, choices, gpu } = self.prepared(options)?;
        let out = match (&self.resumed, &options.out) {
            (Some((directory, ..)), _) => directory.clone(),
            (None, Some(out)) => created(out)?,
            (None, None) => next_free(&self.problem.stem)?,
        };
        let claim = Claim::take(&out)?;
        match &self.resumed {
            // another process may have gone on with it meanwhile
            Some((directory, state, _)) if State::peek(directory).is_none_or(|now| now.progress != state.progress) => {
                let next = "resume it once more, from where it stands now";
                return Err(TrainError::saved(directory, "the run has gone on since its checkpoint was read", next));
            }
            Some(_) => {}
            None => check_out(&out, options.force)?,
        }
        if self.resumed.is_none() {
            // an earlier run's: resuming must not go on with it
            for name in ["checkpoint.json", "checkpoint.safetensors"] {
                let _ = fs::remove_file(out.join(name));
            }
        }
        let replaces = self.resumed.is_none() && out.join("model.safetensors").is_file();
        let mut log = Log::open(&out, self.resumed.is_some(), listener, watch);
        if let Some(message) = claim.warning.clone() {
            log.on(&Event::Warning { message });
        }
        let _open = gpu;
        let (checkpoints, books) = (CheckpointWriter::new(&out), Books::open(began, self.reading));
        scope(|scope| {
            let fingerprint = Some(scope.spawn(|| self.problem.fingerprint()));
            let training = self;
            Run {
                training,
                settings,
                options,
                machine,
                choices,
                out,
                log,
                stop,
                checkpoints,
                books,
                fingerprint,
                replaces,
            }
            .go()
        })
    }

    /// Decides on the device, and has the step fit its memory.
    pub(crate) fn prepared(&self, options: &RunOptions) -> Result<Prepared, TrainError> {
        let decision = self.decide(options)?;
        let machine = Machine::of(decision.device, options.cpu, &self.settings, &self.problem.train);
        let mut choices = [&self.choices[..], &[decision.choice]].concat();
        choices.extend(precision_on_processor(decision.device, &self.settings));
        let mut settings = self.settings.clone();
        // a run that goes on has its pieces
        if self.resumed.is_none() {
            let asked = Asked { limit: self.wishes.step_memory.map(|bytes| bytes.0), recompute: self.wishes.recompute };
            let gpu = decision.gpu.as_deref().map(|gpu| (gpu, machine.cuda));
            if let Some((fitted, choice)) = in_room(&settings, &self.problem.train, gpu, asked)? {
                settings = fitted;
                choices.push(choice);
            }
        }
        Ok(Prepared { settings, machine, choices, gpu: decision.gpu })
    }

    fn decide(&self, options: &RunOptions) -> Result<Decision, TrainError> {
        let job = Job { material: &self.problem.train, settings: &self.settings, cpu: options.cpu };
        match (options.device, &self.resumed) {
            (Some(asked), _) => Decision::of(asked, &job),
            (None, Some((_, state, _))) => Ok(Decision::again(state.device)),
            (None, None) => Decision::of(self.wishes.device.unwrap_or_default(), &job),
        }
    }

    pub(crate) fn rows(&self) -> Rows {
        let rows = |set: &Option<Dataset>| set.as_ref().map_or(0, |s| s.rows);
        Rows {
            train: self.problem.train.rows(),
            validation: rows(&self.problem.validation),
            test: rows(&self.problem.test),
        }
    }

    pub(crate) fn model(&self, device: Device) -> Result<Box<dyn Module>, TrainError> {
        self.settings.model_for(device, self.problem.train.width(), self.problem.train.outputs())
    }
}

/// What a run needs to begin.
pub(crate) struct Prepared {
    /// The training's, with the batch in pieces where there is no room for the whole.
    pub settings: Settings,
    pub machine: Machine,
    /// The training's, and those made here.
    pub choices: Vec<Choice>,
    /// Kept open while it is used.
    pub gpu: Option<Arc<citius_cuda::Device>>,
}

/// What a precision asked for means on a processor.
fn precision_on_processor(device: Device, settings: &Settings) -> Option<Choice> {
    let why = match settings.precision {
        _ if device != Device::Cpu => return None,
        Precision::Fp32 => return None,
        Precision::Bf16 if citius_cpu::gains_from_halves() => {
            "products that gain from it, all else in 32 bits; `citius plan` tells which"
        }
        Precision::Bf16 => "this processor is no faster in 16 bits: everything is computed in 32",
        Precision::Tf32 | Precision::Fp16 => "a GPU's; a processor computes in 32 bits",
    };
    Some(Choice::new("precision", settings.precision.to_string(), why))
}
