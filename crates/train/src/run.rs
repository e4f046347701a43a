//! A run under way: fit, perhaps refit, judge, save.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use citius_cpu::Isa;
use citius_cuda::{CudaError, KernelCache};
use citius_data::{Dataset, Escaped, shell_word};

use crate::checkpoint::{Search, State};
use crate::checkpoint_writer::{CheckpointWriter, Written};
use crate::events::{Event, Listener};
use crate::fit::{EpochEnd, Fit, FitData, Progress};
use crate::log::Log;
use crate::predictor::Predictor;
use crate::tensors::Tensors;
use crate::{
    Ceilings, Choice, Device, Ending, Ledger, Machine, Material, Metrics, Report, RunOptions, Settings, TrainError,
    Training, model,
};

/// Time between two accounts of the time.
const ACCOUNT_EVERY: Duration = Duration::from_secs(5);

/// A run under way.
pub struct Run<'a, 'scope> {
    pub training: &'a Training,
    /// The training's, with the batch in pieces where a GPU has no room for the whole.
    pub settings: Settings,
    pub options: &'a RunOptions,
    /// The device is decided.
    pub machine: Machine,
    /// The training's, and the device.
    pub choices: Vec<Choice>,
    pub out: PathBuf,
    pub log: Log<'a>,
    pub stop: &'a AtomicBool,
    pub checkpoints: CheckpointWriter,
    pub books: Books,
    /// Of the data, taken while the step is being compiled.
    pub fingerprint: Option<ScopedJoinHandle<'scope, u64>>,
    /// Another run's model is in the directory: only one that has learned something takes its place.
    pub replaces: bool,
}

/// What is needed to keep account of a run's time.
pub struct Books {
    began: Instant,
    /// When the account was last given.
    told: Instant,
    /// Seconds that reading took before.
    reading: f64,
    /// Seconds spent before there was anything to train.
    preparing: f64,
    /// Seconds spent on checkpoints, and on the model at the end.
    saving: f64,
    /// Seconds spent on judging the result.
    judging: f64,
    /// Of trainings of this run that are over.
    earlier: Ledger,
    ceilings: Option<Ceilings>,
}

impl Books {
    pub fn open(began: Instant, reading: f64) -> Books {
        let (told, ceilings) = (Instant::now(), Ceilings::known());
        let (preparing, saving, judging) = (0.0, 0.0, 0.0);
        Books { began, told, reading, preparing, saving, judging, earlier: Ledger::default(), ceilings }
    }

    /// The account of the run so far.
    fn ledger(&mut self, fit: &mut Fit) -> Ledger {
        self.told = Instant::now();
        let mut ledger = fit.ledger(self.ceilings.as_ref()).after(&self.earlier);
        ledger.parts.reading += self.reading;
        ledger.parts.preparing += self.preparing;
        ledger.parts.checkpoint += self.saving;
        ledger.parts.metrics += self.judging;
        ledger.of(self.reading + self.began.elapsed().as_secs_f64())
    }
}

impl Run<'_, '_> {
    /// To its end, whatever that is.
    pub fn go(mut self) -> Result<Report, TrainError> {
        let training = self.training;
        let Training { problem, wishes, .. } = training;
        let settings = &self.settings.clone();
        let mut state = State::new(wishes, settings, self.machine.device, 0);
        let mut resumed = training.resumed.as_ref();
        if let Some((_, saved, _)) = resumed {
            state.search = saved.search.clone();
        }
        let (scale, labels) = (problem.input.target_scale(), problem.input.labels());
        self.log.on(&self.started());
        self.books.preparing = self.books.began.elapsed().as_secs_f64();

        if settings.refit && state.search.is_none() {
            let data = FitData { train: &problem.train, validation: problem.validation.as_ref(), scale, labels };
            let mut fit = self.fit(settings, data, settings.epochs)?;
            let end = self.train(&mut fit, &mut state, resumed.take())?;
            if end != EpochEnd::Done {
                return self.finish(&mut fit, &state, end);
            }
            state.search = Some(Search::of(fit.progress()));
            self.books.earlier = fit.ledger(None);
        }
        let all;
        let (data, epochs) = match &state.search {
            None => {
                let validation = problem.validation.as_ref();
                (FitData { train: &problem.train, validation, scale, labels }, settings.epochs)
            }
            Some(search) => {
                let began = Instant::now();
                let rows =
                    problem.all_rows().ok_or_else(|| TrainError::Setting("not all rows are in memory".into()))?;
                all = Material::Resident(rows);
                self.log.on(&Event::Refitting { epochs: search.epochs, rows: all.rows() });
                self.books.preparing += began.elapsed().as_secs_f64();
                (FitData { train: &all, validation: None, scale, labels }, search.epochs)
            }
        };
        let mut fit = self.fit(settings, data, epochs)?;
        let end = self.train(&mut fit, &mut state, resumed.take())?;
        self.finish(&mut fit, &state, end)
    }

    /// A network that has learned nothing here yet.
    fn fit<'a>(&self, settings: &'a Settings, data: FitData<'a>, epochs: usize) -> Result<Fit<'a>, TrainError> {
        let mut fit = Fit::new(self.training.model(self.machine.device)?, settings, data, epochs, self.machine)?;
        self.training.start.as_ref().map_or(Ok(()), |start| fit.begin_with(start))?;
        Ok(fit)
    }

    /// Epoch after epoch, with checkpoints.
    fn train(
        &mut self,
        fit: &mut Fit,
        state: &mut State,
        resumed: Option<&(PathBuf, State, Tensors)>,
    ) -> Result<EpochEnd, TrainError> {
        // what was done beside compiling, and whoever hears of its end, may take longer
        let compiled = Instant::now();
        if let Some(fingerprint) = self.fingerprint.take() {
            state.fingerprint = fingerprint.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        self.log.on(&Event::Ready { seconds: self.books.began.elapsed().as_secs_f64() });
        self.books.preparing += compiled.elapsed().as_secs_f64();
        let exposed = match self.machine.device {
            Device::Cuda(_) => KernelCache::usual().refused().map(str::to_owned),
            Device::Cpu | Device::Auto => None,
        };
        for message in fit.warnings().into_iter().chain(exposed) {
            self.log.on(&Event::Warning { message });
        }
        state.isa =
            (self.machine.device == Device::Cpu).then(|| self.machine.cpu.isa.unwrap_or_else(Isa::detect).to_string());
        if let Some((directory, saved, tensors)) = resumed {
            saved.restore(directory, tensors, fit)?;
            if let (Some(before), Some(now)) = (&saved.isa, &state.isa)
                && before != now
            {
                let message =
                    format!("the run began with the instructions {before} and goes on with {now}: it rounds otherwise");
                self.log.on(&Event::Warning { message });
            }
            self.log.on(&Event::Resumed { epoch: saved.progress.epoch, step: saved.progress.step });
        }
        loop {
            let end = match fit.epoch(&mut self.log, self.stop) {
                Ok(end) => end,
                // what the network has learned is on a GPU that does not answer
                Err(TrainError::Cuda(error)) => return Err(self.lost(error)),
                Err(error) => {
                    // the data failed, not the network: what it has learned can be taken up again
                    if fit.progress().step > 0
                        && let Err(no_room) = self.checkpoint_now(fit, state)
                    {
                        self.log.on(&Event::Warning { message: format!("no checkpoint: {no_room}") });
                    }
                    return Err(error);
                }
            };
            match end {
                EpochEnd::Continue => {
                    if self.books.told.elapsed() >= ACCOUNT_EVERY {
                        let ledger = self.books.ledger(fit);
                        self.log.on(&Event::Ledger(Box::new(ledger)));
                    }
                    let began = Instant::now();
                    let written = self.checkpoints.poll();
                    self.note_or_warn(written);
                    self.books.saving += began.elapsed().as_secs_f64();
                    if self.checkpoints.is_due(fit.progress().epoch, self.options.checkpoint_every) {
                        self.begin_checkpoint(fit, state);
                    }
                }
                end => return Ok(end),
            }
        }
    }

    /// What is left after a GPU has failed.
    fn lost(&mut self, error: CudaError) -> TrainError {
        let before = self.checkpoints.wait();
        self.note_or_warn(before);
        let out = shell_word(&self.out);
        let next = match self.out.join("checkpoint.safetensors").is_file() {
            true => {
                format!("go on from the last checkpoint with citius train --resume {out}, perhaps with --device cpu")
            }
            false => "there was no checkpoint yet: start again, perhaps with --device cpu".to_owned(),
        };
        TrainError::Lost { error, next }
    }

    /// Writes a checkpoint beside the steps that follow.
    fn begin_checkpoint(&mut self, fit: &Fit, state: &mut State) {
        let began = Instant::now();
        state.progress = fit.progress().clone();
        let before = self.checkpoints.wait();
        self.note_or_warn(before);
        let written = self.checkpoints.begin(state, fit.values());
        self.note_or_warn(written);
        self.books.saving += began.elapsed().as_secs_f64();
    }

    /// Writes a checkpoint before anything else happens.
    fn checkpoint_now(&mut self, fit: &Fit, state: &mut State) -> Result<(), TrainError> {
        let began = Instant::now();
        state.progress = fit.progress().clone();
        let before = self.checkpoints.wait();
        self.note_or_warn(before);
        let written = self.checkpoints.write(state, fit.values());
        self.books.saving += began.elapsed().as_secs_f64();
        self.note_checkpoint(written)
    }

    fn note_checkpoint(&mut self, written: Written) -> Result<(), TrainError> {
        let Written { epoch, step, result } = written;
        result?;
        let path = self.out.join("checkpoint.safetensors").to_string_lossy().into_owned();
        self.log.on(&Event::CheckpointSaved { epoch, step, path });
        Ok(())
    }

    /// A full disk must not end a training that may still find room at its end.
    fn note_or_warn(&mut self, written: Option<Written>) {
        if let Some(written) = written
            && let Err(error) = self.note_checkpoint(written)
        {
            self.log.on(&Event::Warning { message: format!("no checkpoint: {error}") });
        }
    }

    /// Judges and saves whatever there is.
    fn finish(&mut self, fit: &mut Fit, state: &State, end: EpochEnd) -> Result<Report, TrainError> {
        let training = self.training;
        let ending = match end {
            EpochEnd::Diverged(mut divergence) => {
                if self.replaces {
                    divergence.kept.push_str(", unsaved: the model of the run before stays");
                }
                Ending::Diverged(divergence)
            }
            EpochEnd::Interrupted => Ending::Interrupted,
            EpochEnd::Continue | EpochEnd::Done => {
                let early = state.search.as_ref().map_or(fit.progress().stopped_early, |s| s.stopped_early);
                if early { Ending::EarlyStopped } else { Ending::Completed }
            }
        };
        let judging = Instant::now();
        let mut report = self.report(fit, state, ending)?;
        self.books.judging += judging.elapsed().as_secs_f64();
        report.ledger = self.books.ledger(fit);
        match &report.ending {
            Ending::Diverged(divergence) => self.log.on(&Event::Diverged(divergence.clone())),
            Ending::Interrupted => {
                let p = fit.progress();
                let out = self.out.to_string_lossy().into_owned();
                self.log.on(&Event::Interrupted { epoch: p.epoch, step: p.step, out });
            }
            Ending::Completed | Ending::EarlyStopped => {}
        }
        let (saving, checkpoints) = (Instant::now(), self.books.saving);
        let before = self.checkpoints.wait();
        self.note_or_warn(before);
        let Training { problem, .. } = training;
        let settings = &self.settings;
        let choices = &self.choices;
        let predictor = fit.result();
        let stays = self.replaces && matches!(report.ending, Ending::Diverged(_));
        if !stays && let Err(error) = model::save(&self.out, predictor, problem, settings, choices, &report) {
            return Err(self.rescue(error, predictor, &report));
        }
        match (&report.ending, self.last_checkpoint(fit, state, &report)) {
            (_, Ok(())) => {}
            (Ending::Interrupted, Err(error)) => return Err(error),
            // the model is there; only going on from here is not possible
            (_, Err(error)) => self.log.on(&Event::Warning { message: format!("no checkpoint: {error}") }),
        }
        self.books.saving += (saving.elapsed().as_secs_f64() - (self.books.saving - checkpoints)).max(0.0);
        report.ledger = self.books.ledger(fit);
        self.log.on(&Event::Ledger(Box::new(report.ledger.clone())));
        self.log.on(&Event::Finished(Box::new(report.clone())));
        Ok(report)
    }

    /// Of a run that was interrupted, all that it goes on from; of one that is over, that it is.
    fn last_checkpoint(&mut self, fit: &Fit, state: &State, report: &Report) -> Result<(), TrainError> {
        let mut state = state.clone();
        match report.ending {
            Ending::Diverged(_) => Ok(()),
            Ending::Interrupted => self.checkpoint_now(fit, &mut state),
            Ending::Completed | Ending::EarlyStopped => {
                state.progress = fit.progress().clone();
                state.save_finished(&self.out)?;
                let Progress { epoch, step, .. } = state.progress;
                self.note_checkpoint(Written { epoch, step, result: Ok(()) })
            }
        }
    }

    /// Nothing learned is lost to a full disk: tries the system's temporary directory.
    fn rescue(&self, error: TrainError, predictor: &Predictor, report: &Report) -> TrainError {
        let Training { problem, .. } = self.training;
        let settings = &self.settings;
        let choices = &self.choices;
        // a name that nobody can foresee, for this user alone
        let refuge = tempfile::Builder::new().prefix(&format!("citius-{}-", problem.stem)).tempdir().ok();
        let saved =
            refuge.filter(|place| model::save(place.path(), predictor, problem, settings, choices, report).is_ok());
        let place = saved
            .map_or(String::new(), |place| format!("; the trained model is in {} instead", place.keep().escaped()));
        match error {
            TrainError::File { doing, path, problem, next } => {
                TrainError::File { doing, path, problem, next: format!("{next}{place}") }
            }
            other => other,
        }
    }

    fn report(&self, fit: &mut Fit, state: &State, ending: Ending) -> Result<Report, TrainError> {
        let training = self.training;
        let problem = &training.problem;
        let p = fit.progress().clone();
        let (threads, before) = (fit.threads(), state.search.as_ref().map_or((0, 0.0), |s| (s.steps, s.seconds)));
        let hardware = fit.engine().hardware();
        let scale = problem.input.target_scale();
        let judge = ending != Ending::Interrupted;
        let predictor = fit.result();
        let mut measure = |data: Option<&Dataset>| match data.filter(|_| judge) {
            None => Ok((Metrics::default(), None)),
            Some(data) => {
                let outputs = predictor.outputs(&data.features)?;
                self.settings.evaluate(&outputs, &data.target, scale, problem.input.labels())
            }
        };
        let validation = match (&state.search, &p.best) {
            (Some(search), _) => (search.validation, None),
            (None, Some(best)) => (best.metrics, None),
            (None, None) => measure(problem.validation.as_ref())?,
        };
        let train = match state.search.is_some() && judge {
            true => measure(problem.all_rows().as_ref())?.0,
            false => match problem.train.resident().filter(|_| self.settings.augment.is_empty()) {
                Some(train) => measure(Some(train))?.0,
                // another pass for a number that is near the last epoch's loss would be dear
                None => Metrics { loss: p.epoch_losses.last().copied(), ..Metrics::default() },
            },
        };
        let (test, tested) = measure(problem.test.as_ref())?;
        let (validation, validated) = validation;
        let steps = p.step + before.0;
        let seconds = p.seconds + before.1;
        Ok(Report {
            task: problem.task,
            data: problem.name.clone(),
            model: training.model(self.machine.device)?.describe(),
            ending,
            epochs: p.epoch,
            steps,
            seconds,
            us_per_step: if steps > 0 { seconds * 1e6 / steps as f64 } else { 0.0 },
            threads,
            device: self.machine.device.to_string(),
            hardware,
            seed: self.settings.seed,
            rows: training.rows(),
            best_epoch: state.search.as_ref().map(|s| s.best_epoch).or(p.best.as_ref().map(|b| b.epoch)),
            refit: state.search.is_some(),
            out: self.out.to_string_lossy().into_owned(),
            train,
            validation,
            test,
            classes: tested.or(validated),
            epoch_losses: p.epoch_losses,
            ledger: Ledger::default(),
        })
    }

    fn started(&self) -> Event {
        let Training { problem, .. } = self.training;
        let settings = &self.settings;
        let batch = settings.batch_size.clamp(1, problem.train.rows().max(1));
        Event::RunStarted {
            data: problem.name.clone(),
            task: problem.task.to_string(),
            model: self.training.model(self.machine.device).map_or(String::new(), |m| m.describe()),
            parameters: settings.parameters(&problem.train.form()) as usize,
            rows: self.training.rows(),
            steps_per_epoch: problem.train.rows().div_ceil(batch) as u64,
            settings: Box::new(settings.clone()),
            choices: self.choices.clone(),
            out: self.out.to_string_lossy().into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::{Silent, Unwatched, Wishes};

    /// A small table.
    fn points(folder: &Path) -> PathBuf {
        let source = folder.join("points.csv");
        let rows = (0..120).map(|i| format!("{},{},{}\n", i % 7, i % 11, (i % 7) * 2 - i % 11));
        fs::write(&source, format!("a,b,y\n{}", rows.collect::<String>())).unwrap();
        source
    }

    /// The last checkpoint stays as it is, one message says what happened, and the run can be taken up from there.
    #[test]
    fn a_gpu_that_fails_in_mid_run() {
        let folder = tempfile::tempdir().unwrap();
        let source = points(folder.path());
        let wishes = Wishes {
            source: Some(source),
            epochs: Some(6),
            batch_size: Some(16),
            refit: Some(false),
            ..Wishes::default()
        };
        let training = Training::new(wishes).unwrap();
        let (options, stop) =
            (RunOptions { checkpoint_every: Some(2), ..RunOptions::default() }, AtomicBool::new(false));
        let fails = |out: &Path, at: u64| {
            let Training { problem, settings, wishes, .. } = &training;
            let machine = Machine::default();
            let validation = problem.validation.as_ref();
            let data = FitData { train: &problem.train, validation, scale: (0.0, 1.0), labels: &[] };
            let mut fit = Fit::new(training.model(Device::Cpu).unwrap(), settings, data, 6, machine).unwrap();
            fit.pretence().fails_at = Some(at * fit.steps_per_epoch() + 2);
            fs::create_dir(out).unwrap();
            let (mut listener, mut watch) = (Silent, Unwatched);
            let log = Log::nowhere(&mut listener, &mut watch);
            let (out, choices) = (out.to_owned(), Vec::new());
            let checkpoints = CheckpointWriter::new(&out);
            let mut run = Run {
                training: &training,
                settings: training.settings.clone(),
                options: &options,
                machine,
                choices,
                out,
                log,
                stop: &stop,
                checkpoints,
                books: Books::open(Instant::now(), 0.0),
                fingerprint: None,
                replaces: false,
            };
            let mut state = State::new(wishes, settings, Device::Cpu, problem.fingerprint());
            run.train(&mut fit, &mut state, None).unwrap_err().to_string()
        };
        let early = fails(&folder.path().join("early"), 1);
        assert!(early.contains("no checkpoint yet") && early.contains("illegal memory access"), "{early}");
        assert_eq!(fs::read_dir(folder.path().join("early")).unwrap().count(), 0, "nothing is left behind");

        let out = folder.path().join("late");
        let late = fails(&out, 3);
        assert!(late.contains("the GPU failed while running a step") && late.contains("--resume"), "{late}");
        assert_eq!(State::load(&out).unwrap().0.progress.epoch, 2, "the last checkpoint");
        let resumed = Training::resume(&out, None).unwrap().run(&RunOptions::default(), &mut Silent, &stop).unwrap();
        let whole = RunOptions { out: Some(folder.path().join("whole")), ..RunOptions::default() };
        let whole = training.run(&whole, &mut Silent, &stop).unwrap();
        assert_eq!((resumed.epoch_losses, resumed.test), (whole.epoch_losses, whole.test));
    }

    #[test]
    fn a_model_is_not_replaced_by_one_that_diverged() {
        let folder = tempfile::tempdir().unwrap();
        let source = points(folder.path());
        let out = folder.path().join("out");
        let run = |lr: Option<f64>| {
            let wishes = Wishes { source: Some(source.clone()), epochs: Some(3), lr, ..Wishes::default() };
            let options = RunOptions { out: Some(out.clone()), force: true, ..RunOptions::default() };
            let report = Training::new(wishes).unwrap().run(&options, &mut Silent, &AtomicBool::new(false)).unwrap();
            (report.ending, fs::read(out.join("model.safetensors")).unwrap())
        };
        let (_, good) = run(None);
        let (ending, after) = run(Some(1e9));
        assert!(matches!(ending, Ending::Diverged(_)), "{ending:?}");
        assert!(after == good);
        assert!(run(Some(1e-2)).1 != good, "one that learned takes its place");
    }

    /// Stops the run as soon as it hears of progress.
    struct StopAtProgress<'a>(&'a AtomicBool);

    impl Listener for StopAtProgress<'_> {
        fn on(&mut self, event: &Event) {
            if matches!(event, Event::Progress { .. }) {
                self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn progress_is_told_however_short_the_epochs() {
        let folder = tempfile::tempdir().unwrap();
        let source = points(folder.path());
        let wishes = Wishes {
            source: Some(source),
            epochs: Some(200_000),
            patience: Some(0),
            refit: Some(false),
            hidden: Some(vec![4]),
            ..Wishes::default()
        };
        let (stop, out) = (AtomicBool::new(false), folder.path().join("out"));
        let options = RunOptions { out: Some(out), ..RunOptions::default() };
        let report = Training::new(wishes).unwrap().run(&options, &mut StopAtProgress(&stop), &stop).unwrap();
        assert_eq!(report.ending, Ending::Interrupted);
    }
}
