//! Blocks of a stream held in memory: those of the window whose rows are being handed out, and, more and more of them, those of
//! the next.
//!
//! Windows are opened in order and at most two at a time, so memory is bounded. Blocks are loaded by whoever fills a slot: those of a
//! window that is needed now at once, by all fillers together; those of the next window little by little, in step with what
//! has been handed out, so that reading and training overlap without threads of their own. Where a disk is waited for, threads do
//! nothing else, as far ahead as there is room.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{LoaderOptions, OnError};
use crate::error::DataError;
use crate::order::{Place, Sampling, Window, WindowOrder};
use crate::slot::{Allocator, FieldMut, Slot};
use crate::source::Stream;

pub(super) struct Windows {
    stream: Arc<dyn Stream>,
    positions: Range<u32>,
    shuffle: bool,
    seed: u64,
    window_rows: u32,
    largest_block: usize,
    /// Blocks that are announced ahead of the one being read.
    announced: usize,
    /// Threads that wait for the disk and load all blocks, if there are any.
    readers: usize,
    on_error: OnError,
    allocator: Arc<dyn Allocator>,
    /// The first position that is asked for.
    first: (u64, u32),
    state: Mutex<State>,
    changed: Condvar,
    stopped: AtomicBool,
    skipped: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Orders of the epochs in use.
    orders: Vec<(u64, Arc<WindowOrder>)>,
    open: Vec<Open>,
    /// The window to be opened next: epoch and number.
    next: Option<(u64, usize)>,
    free: Vec<Slot>,
}

/// A window some of whose rows are still to be handed out.
struct Open {
    epoch: u64,
    number: usize,
    rows: u32,
    left: u32,
    blocks: Vec<u32>,
    /// As far as loaded.
    held: Vec<Option<Arc<Slot>>>,
    /// Blocks that somebody has begun to load, and that are loaded.
    begun: usize,
    loaded: usize,
    failed: Option<Arc<DataError>>,
    all: Option<Arc<Vec<Arc<Slot>>>>,
}

/// This many windows are in memory: one handed out, one loaded.
const OPEN: usize = 2;

/// The disk is told of blocks of about so many bytes before they are read.
const ANNOUNCED_BYTES: usize = 24 << 20;

/// Memory is asked for a row of so many bytes or more while so many others are copied.
const LONG_ROW: usize = 64;
const AHEAD: usize = 8;

impl Windows {
    pub fn new(stream: Arc<dyn Stream>, positions: Range<u32>, options: &LoaderOptions) -> Result<Windows, DataError> {
        let shuffle = match options.sampling {
            Sampling::InOrder => false,
            Sampling::Shuffled => true,
            Sampling::Weighted(_) => {
                return Err(DataError::Unsupported {
                    file: stream.name().to_owned(),
                    what: "rows of a stream cannot be drawn by weight".into(),
                    next: "load it into memory, or draw without weights".into(),
                });
            }
        };
        let blocks = stream.blocks();
        if blocks.first() != Some(&0) || blocks.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(DataError::Inconsistent(format!("{}: its blocks do not rise from 0", stream.name())));
        }
        let largest_block = blocks.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let room = options.memory_limit / OPEN / stream.schema().row_bytes().max(1);
        let window_rows = options.window.unwrap_or(u32::try_from(room).unwrap_or(u32::MAX)).max(largest_block);
        Ok(Windows {
            positions,
            shuffle,
            seed: options.seed,
            window_rows,
            largest_block: largest_block as usize,
            announced: (ANNOUNCED_BYTES / (largest_block as usize * stream.schema().row_bytes()).max(1)).clamp(1, 64),
            readers: stream.readers(),
            on_error: options.on_error,
            allocator: options.allocator.clone(),
            first: (0, 0),
            state: Mutex::default(),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            skipped: AtomicU64::new(0),
            stream,
        })
    }

    pub fn again(&self) -> Windows {
        Windows {
            stream: self.stream.clone(),
            positions: self.positions.clone(),
            allocator: self.allocator.clone(),
            state: Mutex::default(),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            skipped: AtomicU64::new(self.skipped_rows()),
            ..*self
        }
    }

    pub fn begin(&mut self, epoch: u64, position: u32) {
        self.first = (epoch, position);
    }

    pub fn stream(&self) -> &dyn Stream {
        self.stream.as_ref()
    }

    pub fn positions(&self) -> Range<u32> {
        self.positions.clone()
    }

    pub fn window_rows(&self) -> u32 {
        self.window_rows
    }

    pub fn readers(&self) -> usize {
        self.readers
    }

    pub fn skipped_rows(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Writes the rows at these positions.
    pub fn fill(
        &self,
        epoch: u64,
        positions: Range<u32>,
        into: &mut [FieldMut<'_>],
        places: &mut Vec<Place>,
        scratch: &mut Vec<u32>,
    ) -> Result<(), DataError> {
        let order = self.order(&mut self.lock(), epoch);
        let mut at = positions.start;
        while at < positions.end {
            let number = order.window_at(at);
            let Window { start, rows, .. } = order.windows()[number];
            let end = positions.end.min(start + rows);
            let blocks = self.held(epoch, number)?;
            places.resize((end - at) as usize, Place::default());
            order.places(number, at, places, scratch);
            for (f, (field, to)) in self.stream.schema().fields.iter().zip(into.iter_mut()).enumerate() {
                let row = field.bytes();
                let to = &mut to.bytes_mut()[(at - positions.start) as usize * row..];
                copy_rows(&blocks, f, row, places, to);
            }
            drop(blocks);
            self.handed_out(epoch, number, end - at);
            at = end;
        }
        Ok(())
    }

    /// The life of a thread that waits for the disk.
    pub fn read_on(&self) {
        let mut state = self.lock();
        while !self.stopped.load(Ordering::Acquire) {
            if state.open.len() < OPEN {
                self.open_next(&mut state);
            }
            let next = state.open.iter().find(|open| open.begun < open.blocks.len() && open.failed.is_none());
            state = match next.map(|open| (open.epoch, open.number)) {
                Some(id) => self.load_one(state, id),
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Loads the next blocks of the window after the one being handed out, as many as are due, where nobody else does.
    pub fn read_ahead(&self) {
        if self.readers > 0 {
            // a block that has come waits for a core, and the disk for the thread that is to ask for the next
            std::thread::yield_now();
            return;
        }
        let mut state = self.lock();
        loop {
            if self.stopped.load(Ordering::Acquire) || state.open.is_empty() {
                return;
            }
            if state.open.len() == 1 {
                self.open_next(&mut state);
            }
            let [now, ahead, ..] = &mut state.open[..] else { return };
            let handed_out = (now.rows - now.left) as usize;
            let due = (ahead.blocks.len() * handed_out).div_ceil(now.rows.max(1) as usize);
            if ahead.begun >= due.min(ahead.blocks.len()) || ahead.failed.is_some() {
                return;
            }
            let id = (ahead.epoch, ahead.number);
            state = self.load_one(state, id);
        }
    }

    /// All blocks of a window, loaded.
    fn held(&self, epoch: u64, number: usize) -> Result<Arc<Vec<Arc<Slot>>>, DataError> {
        let id = (epoch, number);
        let mut state = self.lock();
        loop {
            if self.stopped.load(Ordering::Acquire) {
                return Err(DataError::Inconsistent(format!("{}: the loader was stopped", self.stream.name())));
            }
            let Some(open) = state.open.iter_mut().find(|open| (open.epoch, open.number) == id) else {
                match state.open.len() < OPEN {
                    true => self.open_next(&mut state),
                    false => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
                continue;
            };
            if let Some(error) = &open.failed {
                return Err(DataError::Shared(error.clone()));
            }
            if let Some(all) = &open.all {
                return Ok(all.clone());
            }
            state = match open.begun < open.blocks.len() && self.readers == 0 {
                true => self.load_one(state, id),
                false => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Reads one block of an open window, without the lock.
    fn load_one<'a>(&'a self, mut state: MutexGuard<'a, State>, id: (u64, usize)) -> MutexGuard<'a, State> {
        let Some(open) = state.open.iter_mut().find(|open| (open.epoch, open.number) == id) else { return state };
        let (place, block) = (open.begun, open.blocks[open.begun] as usize);
        open.begun += 1;
        let coming = open.blocks.get(place + self.announced).copied();
        let free = state.free.pop();
        drop(state);
        if let Some(coming) = coming {
            self.stream.announce(coming as usize);
        }

        let rows = (self.stream.blocks()[block + 1] - self.stream.blocks()[block]) as usize;
        let read = || -> Result<Slot, DataError> {
            let mut slot = match free {
                Some(slot) => slot,
                None => Slot::new(self.stream.schema(), self.largest_block, self.allocator.as_ref())?,
            };
            self.stream.read(block, &mut slot.rows_mut(0..rows))?;
            Ok(slot)
        };
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).unwrap_or_else(|_| {
            Err(DataError::Inconsistent(format!("{}: its code panicked in block {block}", self.stream.name())))
        });

        let mut state = self.lock();
        if let Some(open) = state.open.iter_mut().find(|open| (open.epoch, open.number) == id) {
            match read {
                Ok(slot) => open.held[place] = Some(Arc::new(slot)),
                Err(_) if self.on_error == OnError::Skip => {
                    self.skipped.fetch_add(rows as u64, Ordering::Relaxed);
                }
                Err(error) => open.failed = Some(Arc::new(error)),
            }
            open.loaded += 1;
            if open.loaded == open.blocks.len() && open.failed.is_none() {
                open.close_up(self.stream.name());
            }
        }
        self.changed.notify_all();
        state
    }

    fn open_next(&self, state: &mut State) {
        let (first_epoch, first_position) = self.first;
        let (mut epoch, mut number) = state.next.unwrap_or_else(|| {
            let order = self.order(state, first_epoch);
            (first_epoch, order.window_at(first_position))
        });
        let order = loop {
            let order = self.order(state, epoch);
            match order.windows().get(number) {
                Some(window) if self.asked(epoch, window) > 0 => break order,
                Some(_) => number += 1,
                None => (epoch, number) = (epoch + 1, 0),
            }
        };
        let window = &order.windows()[number];
        let blocks: Vec<u32> = order.blocks(number).collect();
        let rows = self.asked(epoch, window);
        blocks.iter().take(self.announced).for_each(|block| self.stream.announce(*block as usize));
        state.open.push(Open {
            epoch,
            number,
            rows,
            left: rows,
            held: vec![None; blocks.len()],
            blocks,
            begun: 0,
            loaded: 0,
            failed: None,
            all: None,
        });
        state.next = Some((epoch, number + 1));
    }

    /// How many rows of a window will be asked for.
    fn asked(&self, epoch: u64, window: &Window) -> u32 {
        let begin = match epoch == self.first.0 {
            true => self.first.1.max(self.positions.start),
            false => self.positions.start,
        };
        let end = self.positions.end.min(window.start + window.rows);
        end.saturating_sub(begin.max(window.start))
    }

    fn handed_out(&self, epoch: u64, number: usize, rows: u32) {
        let mut state = self.lock();
        let Some(i) = state.open.iter().position(|open| (open.epoch, open.number) == (epoch, number)) else { return };
        state.open[i].left = state.open[i].left.saturating_sub(rows);
        if state.open[i].left > 0 {
            return;
        }
        let done = state.open.remove(i);
        let Open { held, all, .. } = done;
        drop(all);
        state.free.extend(held.into_iter().flatten().filter_map(Arc::into_inner));
        let oldest = state.open.first().map_or(epoch, |open| open.epoch);
        state.orders.retain(|(epoch, _)| *epoch >= oldest);
        self.changed.notify_all();
    }

    fn order(&self, state: &mut State, epoch: u64) -> Arc<WindowOrder> {
        if let Some((_, order)) = state.orders.iter().find(|(of, _)| *of == epoch) {
            return order.clone();
        }
        let order = WindowOrder::new(self.stream.blocks(), self.window_rows, self.shuffle, self.seed, epoch);
        let order = Arc::new(order);
        state.orders.push((epoch, order.clone()));
        order
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Every block is loaded, or skipped and replaced by the next that could be read.
    fn close_up(&mut self, name: &str) {
        let count = self.held.len();
        let good = |from: usize| (0..count).find_map(|step| self.held[(from + step) % count].clone());
        match (0..count).map(good).collect::<Option<Vec<_>>>() {
            Some(all) => self.all = Some(Arc::new(all)),
            None => {
                let problem = format!("{name}: not one block of a window could be read");
                self.failed = Some(Arc::new(DataError::Inconsistent(problem)));
            }
        }
    }
}

fn copy_rows(blocks: &[Arc<Slot>], field: usize, row: usize, places: &[Place], to: &mut [u8]) {
    // `row` bytes from each place; blocks are looked up once
    let bytes: smallvec::SmallVec<[&[u8]; 64]> =
        blocks.iter().map(|slot| slot.field(field).map_or(&[][..], |values| values.bytes())).collect();
    let from = |place: &Place| {
        let from = bytes[place.block as usize];
        // a block put in another's place may be shorter
        let start = place.row as usize * row;
        let start = if start + row <= from.len() { start } else { 0 };
        &from[start..start + row]
    };
    for (i, (place, to)) in places.iter().zip(to.chunks_exact_mut(row.max(1))).enumerate() {
        // windows are larger than caches: a row is on its way while others are copied
        if row >= LONG_ROW
            && let Some(ahead) = places.get(i + AHEAD)
        {
            std::hint::black_box(from(ahead)[0]);
        }
        to.copy_from_slice(from(place));
    }
}
