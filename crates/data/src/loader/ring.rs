//! Slots shared between the caller and the workers.
//!
//! Chunks of an endless sequence of epochs are numbered. A filler *claims* the next number while it is less than the ring's length
//! ahead of what was *released*, fills the slot that the number falls on, and *publishes* the number there; the caller takes chunks in
//! order and releases them. Whoever must wait spins for a moment and then sleeps.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::LoaderOptions;
use super::supply::{Scratch, Supply};
use crate::error::DataError;
use crate::slot::Slot;

pub(super) struct Ring {
    pub supply: Supply,
    batch_size: usize,
    /// Batches in an epoch, and in a chunk.
    pub batches: u64,
    pub in_chunk: usize,
    cells: Vec<Cell>,
    claimed: Line<AtomicU64>,
    released: Line<AtomicU64>,
    cores: usize,
    /// Workers with a lower number work, the others sleep.
    active: AtomicUsize,
    stopped: AtomicBool,
    /// Where the caller waits for a chunk, workers for room, and those not needed for their day.
    caller: Bed,
    workers: Bed,
    spare: Bed,
}

/// Keeps what one thread writes away from what another reads.
#[repr(align(128))]
struct Line<T>(T);

struct Cell {
    slot: Mutex<Slot>,
    /// One more than the number of the chunk that is in the slot.
    published: Line<AtomicU64>,
    error: Mutex<Option<DataError>>,
}

/// About a microsecond.
const SPINS: usize = 100;

impl Ring {
    pub fn new(
        supply: Supply,
        options: &LoaderOptions,
        in_chunk: usize,
        slots: usize,
        first_chunk: u64,
    ) -> Result<Ring, DataError> {
        let cell = |_| {
            let slot = Slot::new(supply.schema(), options.batch_size * in_chunk, options.allocator.as_ref())?;
            Ok(Cell { slot: Mutex::new(slot), published: Line(AtomicU64::new(0)), error: Mutex::new(None) })
        };
        Ok(Ring {
            cells: (0..slots).map(cell).collect::<Result<_, DataError>>()?,
            batch_size: options.batch_size,
            batches: supply.positions().len().div_ceil(options.batch_size) as u64,
            in_chunk,
            supply,
            claimed: Line(AtomicU64::new(first_chunk)),
            released: Line(AtomicU64::new(first_chunk)),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get()),
            active: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            caller: Bed::default(),
            workers: Bed::default(),
            spare: Bed::default(),
        })
    }

    /// Puts rows that are only copied into all slots before anybody works, so that the first epoch begins as every other does.
    pub fn prepare(&self, scratch: &mut Scratch) {
        while self.supply.is_plain()
            && let Some(chunk) = self.claim()
        {
            self.fill_and_publish(chunk, scratch);
        }
    }

    /// Takes the memory of slots that nobody fills just now, the one needed last first.
    pub fn touch(&self) {
        let first = self.released.0.load(Ordering::Acquire);
        for chunk in (first..first + self.cells.len() as u64).rev().filter(|chunk| !self.is_published(*chunk)) {
            if let Ok(mut slot) = self.cell(chunk).slot.try_lock() {
                slot.touch();
            }
        }
    }

    pub fn slots(&self) -> usize {
        self.cells.len()
    }

    fn chunks(&self) -> u64 {
        self.batches.div_ceil(self.in_chunk as u64)
    }

    /// The chunk that holds a batch, and the batch's number in it.
    pub fn chunk_of(&self, epoch: u64, batch: u64) -> (u64, usize) {
        (epoch * self.chunks() + batch / self.in_chunk as u64, (batch % self.in_chunk as u64) as usize)
    }

    /// The positions of a batch in its epoch.
    pub fn batch_range(&self, batch: u64) -> Range<u32> {
        self.positions(batch, batch + 1)
    }

    fn positions(&self, first: u64, end: u64) -> Range<u32> {
        let all = self.supply.positions();
        let at = |batch: u64| (all.start as u64 + batch * self.batch_size as u64).min(all.end as u64) as u32;
        at(first)..at(end)
    }

    pub fn slot(&self, chunk: u64) -> Result<MutexGuard<'_, Slot>, DataError> {
        let cell = self.cell(chunk);
        if let Some(error) = cell.error.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(error);
        }
        Ok(cell.slot.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn cell(&self, chunk: u64) -> &Cell {
        &self.cells[(chunk % self.cells.len() as u64) as usize]
    }

    /// Waits until a chunk is in its slot. Meanwhile fills it, or others, where no worker does.
    pub fn await_chunk(&self, chunk: u64, scratch: &mut Scratch) -> Result<(), DataError> {
        let here = || self.is_published(chunk);
        while !here() {
            match self.helps(chunk).then(|| self.claim()).flatten() {
                Some(claimed) => self.fill_and_publish(claimed, scratch),
                None => self.caller.wait_until(here),
            }
        }
        match self.cell(chunk).error.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn is_published(&self, chunk: u64) -> bool {
        self.cell(chunk).published.0.load(Ordering::Acquire) == chunk + 1
    }

    /// Whether the caller's thread fills too: when nobody else would, or a core would be idle.
    fn helps(&self, chunk: u64) -> bool {
        let active = self.active.load(Ordering::Relaxed);
        active == 0 || self.claimed.0.load(Ordering::Relaxed) <= chunk || active < self.cores
    }

    /// Claims this chunk for the caller to gather itself, if it is the next and its rows can be had at any time.
    pub fn claim_exactly(&self, chunk: u64) -> bool {
        self.supply.is_random()
            && self.claimed.0.compare_exchange(chunk, chunk + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Claims the next chunk, if there is room for it.
    fn claim(&self) -> Option<u64> {
        let mut next = self.claimed.0.load(Ordering::Relaxed);
        loop {
            if next >= self.released.0.load(Ordering::Acquire) + self.cells.len() as u64 {
                return None;
            }
            match self.claimed.0.compare_exchange_weak(next, next + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(next),
                Err(now) => next = now,
            }
        }
    }

    /// The caller has no use for chunks below this one any more.
    pub fn release_before(&self, chunk: u64) {
        if self.released.0.load(Ordering::Relaxed) < chunk {
            self.released.0.store(chunk, Ordering::Release);
            if self.worth_waking() {
                self.workers.wake();
            }
        }
    }

    pub fn set_active(&self, workers: usize) {
        self.active.store(workers, Ordering::Release);
        self.spare.wake();
        self.workers.wake();
    }

    /// Has all workers sleep until some are active again, and waits until what they were about is done.
    pub fn rest(&self) {
        self.set_active(0);
        let (released, claimed) = (self.released.0.load(Ordering::Acquire), self.claimed.0.load(Ordering::Acquire));
        // a worker that was just waking may have claimed one more: it is not worth another look
        for chunk in released..claimed {
            self.caller.wait_until(|| self.is_published(chunk) || self.stopped.load(Ordering::Acquire));
        }
    }

    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.supply.stop();
        [&self.caller, &self.workers, &self.spare].into_iter().for_each(Bed::wake);
    }

    /// A worker's life.
    pub fn work(&self, number: usize) {
        let mut scratch = Scratch::default();
        let stopped = || self.stopped.load(Ordering::Acquire);
        let needed = || number < self.active.load(Ordering::Acquire);
        while !stopped() {
            if !needed() {
                self.spare.wait_until(|| stopped() || needed());
            } else if let Some(chunk) = self.claim() {
                self.fill_and_publish(chunk, &mut scratch);
            } else {
                self.workers.wait_until(|| stopped() || !needed() || self.worth_waking());
            }
        }
    }

    /// Half of the ring is free: a worker that was woken for each chunk would be about to sleep more than working.
    fn worth_waking(&self) -> bool {
        let ahead = self.claimed.0.load(Ordering::Relaxed).saturating_sub(self.released.0.load(Ordering::Acquire));
        2 * ahead <= self.cells.len() as u64
    }

    fn fill_and_publish(&self, chunk: u64, scratch: &mut Scratch) {
        let cell = self.cell(chunk);
        if let Err(error) = self.fill(chunk, scratch) {
            *cell.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
        cell.published.0.store(chunk + 1, Ordering::Release);
        self.caller.wake();
        self.supply.read_ahead(scratch);
    }

    /// Fills the slot of a chunk.
    pub fn fill(&self, chunk: u64, scratch: &mut Scratch) -> Result<(), DataError> {
        let (epoch, first) = (chunk / self.chunks(), chunk % self.chunks() * self.in_chunk as u64);
        let positions = self.positions(first, (first + self.in_chunk as u64).min(self.batches));
        let mut slot = self.cell(chunk).slot.lock().unwrap_or_else(PoisonError::into_inner);
        let mut into = slot.rows_mut(0..positions.len());
        let filled = catch_unwind(AssertUnwindSafe(|| self.supply.fill(epoch, positions, &mut into, scratch)));
        filled.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(DataError::Inconsistent(format!("{}: its code panicked while loading: {said}", self.supply.name())))
        })
    }
}

/// Where threads wait: they spin for a moment, then sleep until woken and done.
#[derive(Default)]
struct Bed {
    sleepers: AtomicU32,
    mutex: Mutex<()>,
    alarm: Condvar,
}

impl Bed {
    fn wake(&self) {
        // a sleeper that is not seen here will see what was stored before
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.mutex.lock().unwrap_or_else(PoisonError::into_inner));
            self.alarm.notify_all();
        }
    }

    fn wait_until(&self, done: impl Fn() -> bool) {
        for _ in 0..SPINS {
            if done() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        while !done() {
            guard = self.alarm.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::schema::{Field, Kind, Schema};
    use crate::slot::FieldMut;
    use crate::source::{Rows, Source};

    /// Rows of ones, of several pages each.
    struct Ones(Schema);

    impl Source for Ones {
        fn name(&self) -> &str {
            "ones"
        }
        fn schema(&self) -> &Schema {
            &self.0
        }
        fn rows(&self) -> u32 {
            8
        }
        fn gather(&self, _: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
            into.iter_mut().for_each(|field| field.bytes_mut().fill(1));
            Ok(())
        }
    }

    /// A worker may have filled a slot and not have said so yet.
    #[test]
    fn touching_slots_changes_nothing_in_them() {
        let source = Ones(Schema::new(vec![Field::new("x", Kind::U8, &[20_000])]).unwrap());
        let options = LoaderOptions { batch_size: 4, ..LoaderOptions::default() };
        let supply = Supply::source(Arc::new(source), &options).unwrap();
        let ring = Ring::new(supply, &options, 1, 2, 0).unwrap();
        ring.fill(0, &mut Scratch::default()).unwrap();
        ring.touch();
        assert!(ring.slot(0).unwrap().rows(0..4)[0].bytes().iter().all(|byte| *byte == 1));
    }
}
