//! Batches, in order, ready when they are asked for.
//!
//! A ring of slots is filled by threads that live as long as the loader, and by the caller's own thread when nothing is ready. What
//! is in a batch depends on the seed, the epoch and its number alone: any number of workers, any prefetch and any point of
//! resumption deliver the same bytes.
//!
//! ```text
//! mod.rs      Loader: what to load, the next batch, where it stands
//! ring.rs     slots shared with the workers: claimed, filled, published, released
//! supply.rs   positions of an epoch → rows in a slot
//! windows.rs  blocks of a stream held in memory: this window's and the next one's
//! tuning.rs   how many workers: measured while running
//! ```

mod ring;
mod supply;
mod tuning;
mod windows;

use std::ops::Range;
use std::sync::{Arc, MutexGuard};
use std::thread::{JoinHandle, available_parallelism};
use std::time::{Duration, Instant};

use crate::error::DataError;
use crate::order::{Sampling, Shard};
use crate::schema::Schema;
use crate::slot::{Allocator, FieldMut, FieldsRef, Slot, heap};
use crate::source::{Source, Stream};
use ring::Ring;
use supply::{Drawn, Scratch, Supply};
use tuning::Tuning;

/// What to load and how.
#[derive(Clone)]
pub struct LoaderOptions {
    pub batch_size: usize,
    pub sampling: Sampling,
    pub seed: u64,
    /// Leave out the last batch of an epoch when it is smaller than the others.
    pub drop_last: bool,
    pub shard: Shard,
    /// Threads that fill slots; `None`: as many as turn out fastest, down to none. Changes the speed, never the batches.
    pub workers: Option<usize>,
    /// Batches held ready; `None`: one for each worker, two more, and more where they are small.
    pub prefetch: Option<usize>,
    /// Bytes for slots and, with a stream, for its windows.
    pub memory_limit: usize,
    /// Rows of a stream that are mixed with each other; `None`: as many as the memory allows.
    pub window: Option<u32>,
    /// What to do about a block of a stream that cannot be read.
    pub on_error: OnError,
    /// Where slots get their memory.
    pub allocator: Arc<dyn Allocator>,
}

impl Default for LoaderOptions {
    fn default() -> LoaderOptions {
        LoaderOptions {
            batch_size: 32,
            sampling: Sampling::Shuffled,
            seed: 0,
            drop_last: false,
            shard: Shard::default(),
            workers: None,
            prefetch: None,
            memory_limit: 128 << 20,
            window: None,
            on_error: OnError::Fail,
            allocator: heap(),
        }
    }
}

/// What to do about rows that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// Stop with the error.
    #[default]
    Fail,
    /// Put neighbouring rows in their place, and count.
    Skip,
}

/// Chunks of about this many bytes are filled at a time: less would be spent on handing over, more would leave the cache.
const CHUNK_BYTES: usize = 64 << 10;
const MOST_BATCHES_IN_CHUNK: usize = 16;
/// As many chunks are held ready where they are small: a worker then sleeps and wakes less often.
const MOST_CHUNKS: usize = 16;
const USUAL_BYTES: usize = 1 << 20;
/// More threads than this only wait for each other.
const MOST_WORKERS: usize = 64;

/// Delivers batches.
pub struct Loader {
    ring: Arc<Ring>,
    /// Those that fill, and those that wait for a disk.
    threads: Vec<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
    options: LoaderOptions,
    tuning: Tuning,
    scratch: Scratch,
    /// The rows of the batch that was left to be written.
    left: Drawn,
    /// The next batch: its epoch, and its number within it.
    epoch: u64,
    batch: u64,
    /// The chunk being handed out is written straight into the caller's buffers.
    direct: bool,
    failed: bool,
    /// The workers sleep until the next batch is asked for.
    resting: bool,
    waited: Duration,
    delivered: u64,
}

/// One batch, in a slot that is the caller's until this is dropped.
pub struct Batch<'a> {
    slot: MutexGuard<'a, Slot>,
    range: Range<usize>,
    pub epoch: u64,
    /// Number within its epoch.
    pub index: u64,
}

impl Batch<'_> {
    pub fn rows(&self) -> usize {
        self.range.len()
    }

    /// Values of each field of the schema, row-major.
    pub fn fields(&self) -> FieldsRef<'_> {
        self.slot.rows(self.range.clone())
    }
}

/// Where a loader stands.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct LoaderReport {
    /// Threads that fill slots besides the caller's.
    pub workers: usize,
    /// Whether that number is still being tried out.
    pub settled: bool,
    /// Threads that wait for a disk and check what comes.
    pub readers: usize,
    /// Batches there is room for.
    pub prefetch: usize,
    /// Bytes of slots, and at most of windows.
    pub slot_bytes: usize,
    pub window_bytes: usize,
    /// Rows mixed with each other where the data is streamed.
    pub window_rows: Option<u32>,
    pub batches: u64,
    /// Time the caller spent in the loader: filling or waiting.
    pub seconds: f64,
    /// Rows replaced because they could not be read.
    pub skipped_rows: u64,
}

impl Loader {
    /// Batches of a source's rows.
    pub fn new(source: Arc<dyn Source>, options: LoaderOptions) -> Result<Loader, DataError> {
        Loader::start(Supply::source(source, &options)?, options, 0, 0)
    }

    /// Batches of a stream's rows, mixed within windows.
    pub fn stream(stream: Arc<dyn Stream>, options: LoaderOptions) -> Result<Loader, DataError> {
        Loader::start(Supply::stream(stream, &options)?, options, 0, 0)
    }

    /// The same loader, about to deliver this batch of this epoch.
    pub fn seek(self, epoch: u64, batch: u64) -> Result<Loader, DataError> {
        if batch > self.batches_per_epoch() {
            return Err(DataError::Inconsistent(format!(
                "batch {batch} of an epoch that has {}",
                self.batches_per_epoch()
            )));
        }
        let (supply, options) = (self.ring.supply.again(), self.options.clone());
        drop(self);
        Loader::start(supply, options, epoch, batch)
    }

    fn start(mut supply: Supply, options: LoaderOptions, epoch: u64, batch: u64) -> Result<Loader, DataError> {
        let batch_bytes = supply.schema().row_bytes().saturating_mul(options.batch_size).max(1);
        let in_chunk = (CHUNK_BYTES / batch_bytes).clamp(1, MOST_BATCHES_IN_CHUNK);
        let cores = available_parallelism().map_or(1, |n| n.get());
        let most_workers = options.workers.unwrap_or(cores).min(MOST_WORKERS);
        let chunk_bytes = batch_bytes * in_chunk;
        let usual = (USUAL_BYTES / chunk_bytes).min(MOST_CHUNKS).max(most_workers + 2);
        let wanted = options.prefetch.map_or(usual, |batches| batches.div_ceil(in_chunk));
        let least = 1 + (most_workers > 0) as usize;
        let slots = wanted.min(options.memory_limit / chunk_bytes).max(least);
        let batches = supply.positions().len().div_ceil(options.batch_size) as u64;
        if batches == 0 {
            return Err(DataError::Empty {
                file: supply.name().to_owned(),
                what: "not one batch of rows".into(),
                next: "add rows, use a smaller batch, or keep the last one".into(),
            });
        }
        let first_batch = batch / in_chunk as u64 * in_chunk as u64;
        supply.begin(epoch, supply.positions().start + (first_batch * options.batch_size as u64) as u32);
        let first_chunk = epoch * batches.div_ceil(in_chunk as u64) + batch / in_chunk as u64;
        let ring = Arc::new(Ring::new(supply, &options, in_chunk, slots, first_chunk)?);
        let fixed = options.workers.map(|n| n.min(MOST_WORKERS));
        let tuning = Tuning::new(fixed, cores.min(MOST_WORKERS), ring.supply.is_heavy());
        let mut scratch = Scratch::default();
        ring.prepare(&mut scratch);
        ring.set_active(tuning.workers());
        let mut loader = Loader {
            ring,
            threads: Vec::new(),
            readers: Vec::new(),
            options,
            tuning,
            scratch,
            left: Drawn::default(),
            epoch,
            batch,
            direct: false,
            failed: false,
            resting: false,
            waited: Duration::ZERO,
            delivered: 0,
        };
        for number in 0..loader.ring.supply.readers() {
            let reader = loader.start_thread(format!("disk-{number}"), |ring| ring.supply.read_on())?;
            loader.readers.push(reader);
        }
        loader.start_threads()?;
        // while the workers begin
        loader.ring.touch();
        Ok(loader)
    }

    pub fn name(&self) -> &str {
        self.ring.supply.name()
    }

    /// The fields of a batch.
    pub fn schema(&self) -> &Schema {
        self.ring.supply.schema()
    }

    pub fn rows_per_epoch(&self) -> usize {
        self.ring.supply.positions().len()
    }

    pub fn batches_per_epoch(&self) -> u64 {
        self.ring.batches
    }

    /// The next batch to be delivered: epoch, and number within it.
    pub fn position(&self) -> (u64, u64) {
        (self.epoch, self.batch)
    }

    /// The next batch; `None` once at the end of each epoch.
    pub fn next_batch(&mut self) -> Result<Option<Batch<'_>>, DataError> {
        if self.at_end_of_epoch() {
            return Ok(None);
        }
        let (epoch, index) = (self.epoch, self.batch);
        let (chunk, within) = self.arrive(false)?;
        let range = self.ring.batch_range(index);
        self.depart();
        let slot = self.ring.slot(chunk)?;
        let range = within..within + range.len();
        Ok(Some(Batch { slot, range, epoch, index }))
    }

    /// Writes the next batch into the caller's buffers, which have room for a whole batch; the number of its rows, or `None` once
    /// at the end of each epoch. Where no worker is ahead, rows go there straight from the source.
    pub fn next_into(&mut self, into: &mut [FieldMut<'_>]) -> Result<Option<usize>, DataError> {
        self.next_or_leave(into, || false)
    }

    /// The same, but where rows are copied straight from memory, `leave` may say that they are to be left: any thread can have them
    /// from [`Loader::write_left`] until the next batch is asked for.
    pub fn next_or_leave(
        &mut self,
        into: &mut [FieldMut<'_>],
        leave: impl FnOnce() -> bool,
    ) -> Result<Option<usize>, DataError> {
        if self.at_end_of_epoch() {
            return Ok(None);
        }
        let (epoch, index) = (self.epoch, self.batch);
        let (chunk, within) = self.arrive(true)?;
        let range = self.ring.batch_range(index);
        let rows = range.len();
        let mut parts = supply::parts(self.schema(), into, 0..rows)?;
        if self.direct && self.ring.supply.is_plain() && leave() {
            self.ring.supply.draw(epoch, range, &mut self.scratch);
            std::mem::swap(&mut self.left, &mut self.scratch.drawn);
        } else if self.direct {
            // a look at the clock costs as much as a small batch: the first of a chunk stands for the others
            let start = (within == 0).then(Instant::now);
            let done = self.ring.supply.fill(epoch, range, &mut parts, &mut self.scratch);
            self.waited += start.map_or(Duration::ZERO, |start| start.elapsed() * self.ring.in_chunk as u32);
            if let Err(error) = done {
                self.failed = true;
                return Err(error);
            }
        } else {
            let slot = self.ring.slot(chunk)?;
            for (to, from) in parts.iter_mut().zip(slot.rows(within..within + rows)) {
                to.bytes_mut().copy_from_slice(from.bytes());
            }
        }
        self.depart();
        Ok(Some(rows))
    }

    /// Writes the batch that was left, into buffers as those of [`Loader::next_or_leave`].
    pub fn write_left(&self, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        let mut parts = supply::parts(self.schema(), into, 0..self.left.rows())?;
        self.ring.supply.gather(&self.left, &mut parts)
    }

    /// Shows the memory that the next batch will be gathered from by [`Loader::next_into`], to somebody who can ask for it ahead: a table,
    /// the bytes of a row in it, and which rows.
    pub fn show_next(&mut self, see: impl FnMut(&[u8], usize, &[u32])) {
        if self.direct && self.batch < self.ring.batches {
            let positions = self.ring.batch_range(self.batch);
            self.ring.supply.show(self.epoch, positions, &mut self.scratch, see);
        }
    }

    /// Has the workers sleep until the next batch is asked for, so that they are in nobody's way; returns when they do.
    pub fn rest(&mut self) {
        if self.tuning.workers() > 0 && !self.failed {
            self.ring.rest();
            self.resting = true;
        }
    }

    /// Where it stands.
    pub fn report(&self) -> LoaderReport {
        let ring = &self.ring;
        LoaderReport {
            workers: self.tuning.workers(),
            settled: self.tuning.settled(),
            readers: self.readers.len(),
            prefetch: ring.slots() * ring.in_chunk,
            slot_bytes: ring.slots() * ring.in_chunk * self.options.batch_size * self.schema().row_bytes(),
            window_bytes: ring.supply.window_bytes(),
            window_rows: ring.supply.window_rows(),
            batches: self.delivered,
            seconds: self.waited.as_secs_f64(),
            skipped_rows: ring.supply.skipped_rows(),
        }
    }

    fn at_end_of_epoch(&mut self) -> bool {
        let end = self.batch == self.ring.batches;
        if end {
            (self.epoch, self.batch) = (self.epoch + 1, 0);
        }
        end
    }

    /// Makes the chunk of the next batch available; its number, and the batch's first row in it.
    fn arrive(&mut self, may_be_direct: bool) -> Result<(u64, usize), DataError> {
        if self.failed {
            return Err(DataError::Inconsistent(format!("{}: the loader has stopped after an error", self.name())));
        }
        if std::mem::take(&mut self.resting) {
            self.ring.set_active(self.tuning.workers());
        }
        let (chunk, first) = self.ring.chunk_of(self.epoch, self.batch);
        if first == 0 || self.delivered == 0 {
            self.begin_chunk(chunk, may_be_direct)?;
        } else if self.direct && !may_be_direct {
            // the caller changed its way of asking in the middle of a chunk
            self.ring.fill(chunk, &mut self.scratch)?;
            self.direct = false;
        }
        Ok((chunk, first * self.options.batch_size))
    }

    fn begin_chunk(&mut self, chunk: u64, may_be_direct: bool) -> Result<(), DataError> {
        self.ring.release_before(chunk);
        self.direct = false;
        if self.tuning.begin_chunk() {
            self.ring.set_active(self.tuning.workers());
            self.start_threads()?;
        }
        if may_be_direct && self.tuning.workers() == 0 && self.ring.claim_exactly(chunk) {
            self.direct = true;
            return Ok(());
        }
        let start = Instant::now();
        let arrived = self.ring.await_chunk(chunk, &mut self.scratch);
        self.waited += start.elapsed();
        self.failed = arrived.is_err();
        arrived
    }

    fn depart(&mut self) {
        self.batch += 1;
        self.delivered += 1;
        self.tuning.delivered(self.waited);
    }

    /// Enough threads for the number wanted now, and asleep those that are likely to be wanted: starting one takes as long as
    /// many small batches.
    fn start_threads(&mut self) -> Result<(), DataError> {
        while self.threads.len() < self.tuning.workers().max(self.tuning.likely_workers()) {
            let number = self.threads.len();
            let worker = self.start_thread(format!("loader-{number}"), move |ring| ring.work(number))?;
            self.threads.push(worker);
        }
        Ok(())
    }

    fn start_thread(
        &self,
        name: String,
        work: impl FnOnce(&Ring) + Send + 'static,
    ) -> Result<JoinHandle<()>, DataError> {
        let ring = self.ring.clone();
        let thread = std::thread::Builder::new().name(name).spawn(move || work(&ring));
        thread.map_err(|source| DataError::Io { path: format!("{}: a loader thread", self.name()), source })
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.ring.stop();
        for thread in self.threads.drain(..).chain(self.readers.drain(..)) {
            let _ = thread.join(); // a panic was turned into an error before
        }
    }
}
