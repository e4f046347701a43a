//! Checkpoints written beside the training: the values are copied, and a thread writes the copy while steps go on. Where there is no
//! memory for a copy, the training waits until its values are written.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::TrainError;
use crate::checkpoint::{Snapshot, State, Values};

/// Time between two checkpoints, unless the epochs between them are given.
const EVERY: Duration = Duration::from_secs(10);
/// … and at least so many times what one takes.
const SHARE: u32 = 20;

/// Writes one checkpoint at a time.
pub(crate) struct CheckpointWriter {
    directory: PathBuf,
    pending: Option<Pending>,
    /// When the last one was complete, and how long it took.
    complete: Instant,
    took: Duration,
}

struct Pending {
    thread: JoinHandle<Written>,
    begun: Instant,
}

/// How a checkpoint ended.
pub(crate) struct Written {
    pub epoch: usize,
    pub step: u64,
    pub result: Result<(), TrainError>,
}

impl CheckpointWriter {
    pub fn new(directory: &Path) -> CheckpointWriter {
        CheckpointWriter {
            directory: directory.to_owned(),
            pending: None,
            complete: Instant::now(),
            took: Duration::ZERO,
        }
    }

    /// Whether it is time for another one, after this many epochs.
    pub fn is_due(&self, epoch: usize, every: Option<usize>) -> bool {
        match every {
            Some(every) => epoch.is_multiple_of(every.max(1)),
            None => self.pending.is_none() && self.complete.elapsed() >= EVERY.max(self.took * SHARE),
        }
    }

    /// Begins to write one; call [`CheckpointWriter::wait`] before. Gives it back where it is complete already.
    pub fn begin(&mut self, state: &State, values: Values) -> Option<Written> {
        let Some(snapshot) = Snapshot::of(values) else { return Some(self.write(state, values)) };
        let (begun, owned, directory) = (Instant::now(), state.clone(), self.directory.clone());
        let write = move || Written::of(&owned, owned.save(&directory, snapshot.values()));
        match Builder::new().name("citius-checkpoint".into()).spawn(write) {
            Ok(thread) => {
                self.pending = Some(Pending { thread, begun });
                None
            }
            Err(_) => Some(self.write(state, values)),
        }
    }

    /// Writes one from where the values are; call [`CheckpointWriter::wait`] before.
    pub fn write(&mut self, state: &State, values: Values) -> Written {
        let begun = Instant::now();
        let written = Written::of(state, state.save(&self.directory, values));
        (self.complete, self.took) = (Instant::now(), begun.elapsed());
        written
    }

    /// The one that is complete by now, if any.
    pub fn poll(&mut self) -> Option<Written> {
        let complete = self.pending.as_ref().is_some_and(|pending| pending.thread.is_finished());
        if complete { self.wait() } else { None }
    }

    /// The one that is being written, once it is complete.
    pub fn wait(&mut self) -> Option<Written> {
        let Pending { thread, begun } = self.pending.take()?;
        let written = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        (self.complete, self.took) = (Instant::now(), begun.elapsed());
        Some(written)
    }
}

impl Written {
    fn of(state: &State, result: Result<(), TrainError>) -> Written {
        Written { epoch: state.progress.epoch, step: state.progress.step, result }
    }
}

impl Drop for CheckpointWriter {
    /// A run that fails leaves no checkpoint half written.
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            let _ = pending.thread.join();
        }
    }
}
