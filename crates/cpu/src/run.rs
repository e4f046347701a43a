//! Many steps in one go: the caller's thread feeds and observes, all threads walk the plan.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use citius_graph::DType;

use crate::copies::Own;
use crate::executable::{CpuError, Executable};
use crate::kernels::Context;
use crate::memory::Memory;
use crate::pool::FlushSubnormals;
use crate::prefetch::{Share, Wanted};
use crate::schedule::{Heap, Part, Schedule};
use crate::timing::{Doing, Watch};

/// Lines of the next batch that memory is asked for between two waves, unless they have to be more: asking takes time too.
const AT_ONCE: usize = 16;

/// Whether to take the next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    Continue,
    Stop,
}

/// Feeds each step and looks at its results.
pub trait Driver {
    /// Fills inputs that were not bound for the whole run, for this step. Called one step ahead: for what is small and helps to
    /// prepare a step, such as the numbers of the rows to gather.
    fn feed(&mut self, _step: u64, _slots: &mut Slots) {}
    /// The row numbers of this input from this step on, where they follow from a rule that a device can apply by itself; a device
    /// that does asks for neither `feed` nor `fill`.
    fn rows(&self, _input: &str, _step: u64) -> Option<RowOrder> {
        None
    }
    /// Fills inputs that were not bound for the whole run, just before this step: for whole batches. `Stop` ends the run without the
    /// step.
    fn fill(&mut self, _step: u64, _slots: &mut Slots) -> Flow {
        Flow::Continue
    }
    /// What [`Driver::fill`] has left to the threads ([`Slots::leave`]).
    fn left(&self) -> Option<&dyn Batch> {
        None
    }
    /// After each step.
    fn after(&mut self, step: u64, outputs: &Outputs) -> Flow;
}

/// Rows in the order of a keyed permutation, as `citius_data::Network` describes it; one step takes up where the last ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowOrder {
    /// Position of the first row.
    pub start: u32,
    /// Rows in all.
    pub rows: u32,
    pub blocks: u32,
    pub low_bits: u32,
    pub rounds: u32,
    pub keys: [[u32; 4]; 12],
}

/// A batch that every thread can write for itself: twice from memory costs less than once from core to core.
pub trait Batch: Sync {
    /// Fills the inputs of a step, the same bytes in whoever's slots. It must not panic.
    fn write(&self, slots: &mut Slots);
}

/// Data that stays the same for a run, by input name.
#[derive(Default, Clone)]
pub struct Inputs<'a> {
    entries: Vec<(&'a str, Data<'a>)>,
}

#[derive(Clone, Copy)]
enum Data<'a> {
    F32(&'a [f32]),
    I32(&'a [i32]),
    U8(&'a [u8]),
}

impl<'a> Inputs<'a> {
    pub fn new() -> Inputs<'a> {
        Inputs::default()
    }
    pub fn f32(mut self, name: &'a str, data: &'a [f32]) -> Self {
        self.entries.push((name, Data::F32(data)));
        self
    }
    pub fn i32(mut self, name: &'a str, data: &'a [i32]) -> Self {
        self.entries.push((name, Data::I32(data)));
        self
    }
    pub fn u8(mut self, name: &'a str, data: &'a [u8]) -> Self {
        self.entries.push((name, Data::U8(data)));
        self
    }

    /// The data of an i32 input; none where there is no such one.
    pub fn whole_numbers(&self, name: &str) -> &'a [i32] {
        match self.entries.iter().find(|e| e.0 == name) {
            Some((_, Data::I32(data))) => data,
            _ => &[],
        }
    }

    /// The data of an f32 input.
    pub fn numbers(&self, name: &str) -> &'a [f32] {
        match self.entries.iter().find(|e| e.0 == name) {
            Some((_, Data::F32(data))) => data,
            _ => &[],
        }
    }

    /// The data of a u8 input.
    pub fn bytes(&self, name: &str) -> &'a [u8] {
        match self.entries.iter().find(|e| e.0 == name) {
            Some((_, Data::U8(data))) => data,
            _ => &[],
        }
    }

    /// (pointer, elements, dtype)
    pub fn find(&self, name: &str) -> Option<(*const u8, usize, DType)> {
        let data = self.entries.iter().find(|e| e.0 == name)?.1;
        Some(match data {
            Data::F32(d) => (d.as_ptr() as *const u8, d.len(), DType::F32),
            Data::I32(d) => (d.as_ptr() as *const u8, d.len(), DType::I32),
            Data::U8(d) => (d.as_ptr(), d.len(), DType::U8),
        })
    }
}

/// Inputs to be filled for a step.
pub struct Slots<'a> {
    pub(crate) slots: &'a [Slot],
    /// For the next step, or for this one.
    ahead: bool,
    /// A bit for each slot that was handed out: never twice.
    taken: u128,
    /// `None`: not the feeding thread's.
    wanted: Option<&'a Wanted>,
    may_leave: bool,
    left: bool,
}

/// Inputs that can be filled for a step: the bits of `taken`.
pub(crate) const MOST_SLOTS: usize = 128;

pub(crate) struct Slot {
    pub name: String,
    pub elements: usize,
    pub dtype: DType,
    /// What the running step reads.
    pub now: *mut u8,
    /// What the next step will read, if it was filled ahead.
    pub next: *mut u8,
    pub fed: Cell<bool>,
}

impl Slot {
    /// The same input at another place.
    pub fn at(&self, now: *mut u8) -> Slot {
        let (name, next, fed) = (self.name.clone(), std::ptr::null_mut(), Cell::new(false));
        Slot { name, now, next, fed, ..*self }
    }
}

impl<'a> Slots<'a> {
    fn new(slots: &'a [Slot], wanted: Option<&'a Wanted>, ahead: bool) -> Slots<'a> {
        Slots { slots, ahead, taken: 0, wanted, may_leave: false, left: false }
    }

    /// Rows of a table, of `width` bytes each, that will be read to fill in the next step's batch: memory is asked for them while this
    /// step runs.
    pub fn will_read(&mut self, table: &[u8], width: usize, rows: &[u32]) {
        if let Some(wanted) = self.wanted {
            // SAFETY: given to the feeding thread alone, while the others wait.
            unsafe { wanted.add(table, width, rows) };
        }
    }

    /// Asks to leave the slots as they are, and has every thread that reads them write [`Driver::left`]. Not where it is in vain
    /// (`false`): one thread alone reads them, or they are large.
    pub fn leave(&mut self) -> bool {
        self.left = self.may_leave;
        self.left
    }

    /// The slot of an i32 input; `None` when there is none of this name and type, or it was asked for before.
    pub fn i32(&mut self, name: &str) -> Option<&'a mut [i32]> {
        let (pointer, elements) = self.find(name, DType::I32)?;
        // SAFETY: holds `elements` values of this type, only the thread these slots were made for touches it, while none reads it, and
        // `find` gives it out once.
        Some(unsafe { std::slice::from_raw_parts_mut(pointer as *mut i32, elements) })
    }

    /// The slot of an f32 input.
    pub fn f32(&mut self, name: &str) -> Option<&'a mut [f32]> {
        let (pointer, elements) = self.find(name, DType::F32)?;
        // SAFETY: as above.
        Some(unsafe { std::slice::from_raw_parts_mut(pointer as *mut f32, elements) })
    }

    /// The slot of a u8 input.
    pub fn u8(&mut self, name: &str) -> Option<&'a mut [u8]> {
        let (pointer, elements) = self.find(name, DType::U8)?;
        // SAFETY: as above.
        Some(unsafe { std::slice::from_raw_parts_mut(pointer, elements) })
    }

    fn find(&mut self, name: &str, dtype: DType) -> Option<(*mut u8, usize)> {
        let (i, slot) = self.slots.iter().enumerate().find(|(_, s)| s.name == name && s.dtype == dtype)?;
        if i >= MOST_SLOTS || self.taken >> i & 1 == 1 {
            return None;
        }
        self.taken |= 1 << i;
        slot.fed.set(slot.fed.get() | self.ahead);
        Some((if self.ahead { slot.next } else { slot.now }, slot.elements))
    }
}

/// Inputs to be filled that an executor has elsewhere than in slots of its own: in memory on the way to a device, say.
pub struct Staging {
    slots: Vec<Slot>,
    wanted: Wanted,
}

impl Staging {
    /// Name, type and number of elements of each input.
    pub fn new(inputs: impl IntoIterator<Item = (String, DType, usize)>) -> Staging {
        let null = std::ptr::null_mut();
        let slot =
            |(name, dtype, elements)| Slot { name, elements, dtype, now: null, next: null, fed: Cell::new(false) };
        Staging { slots: inputs.into_iter().map(slot).collect(), wanted: Wanted::new() }
    }

    /// The inputs of one step, at these places.
    ///
    /// SAFETY: each place has room for its input, is aligned for its type, and is touched by nobody else while the slots live.
    pub unsafe fn at(&mut self, places: impl Iterator<Item = *mut u8>) -> Slots<'_> {
        for (slot, place) in self.slots.iter_mut().zip(places) {
            (slot.now, slot.next) = (place, place);
        }
        self.wanted.clear();
        Slots::new(&self.slots, Some(&self.wanted), false)
    }
}

/// Results of the step just taken.
pub struct Outputs<'a> {
    views: &'a [View],
}

/// One result.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub pointer: *const u8,
    pub elements: usize,
    pub dtype: DType,
}

impl<'a> Outputs<'a> {
    /// SAFETY: each pointer leads to so many elements of its type, which nobody writes while the outputs live.
    pub unsafe fn new(views: &'a [View]) -> Outputs<'a> {
        Outputs { views }
    }

    /// Values of output `index` (see [`Executable::output`]).
    pub fn f32(&self, index: usize) -> &[f32] {
        let (pointer, elements) = self.find(index, DType::F32);
        // SAFETY: who made the outputs said so.
        unsafe { std::slice::from_raw_parts(pointer as *const f32, elements) }
    }

    pub fn i32(&self, index: usize) -> &[i32] {
        let (pointer, elements) = self.find(index, DType::I32);
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(pointer as *const i32, elements) }
    }

    /// A scalar output.
    #[inline]
    pub fn scalar(&self, index: usize) -> f32 {
        self.f32(index)[0]
    }

    /// Panics when the output has another type.
    #[inline]
    fn find(&self, index: usize, dtype: DType) -> (*const u8, usize) {
        let View { pointer, elements, dtype: found } = self.views[index];
        assert!(found == dtype, "output {index} is {found}, not {dtype}");
        (pointer, elements)
    }
}

/// Steps timed together when the number of threads is chosen; fewer are enough where they take this many seconds.
const TRIAL: u64 = 64;
const LONG_TRIAL: f64 = 0.02;

impl Executable {
    /// Takes up to `steps` steps, numbered from `first`; returns how many were taken.
    pub fn run(
        &mut self,
        memory: &mut Memory,
        inputs: &Inputs,
        first: u64,
        steps: u64,
        driver: &mut dyn Driver,
    ) -> Result<u64, CpuError> {
        self.bind(memory, inputs)?;
        if steps == 0 {
            return Ok(0);
        }
        let _subnormals = FlushSubnormals::new();
        let began = Instant::now();
        let mut taken = 0;
        let slots = std::mem::take(&mut self.slots);
        driver.feed(first, &mut Slots::new(&slots, Some(&self.wanted), true));
        self.slots = slots;
        let mut stopped = false;
        while taken < steps && !stopped {
            let threads = self.tuning.threads();
            let most = match (self.tuning.has_choice(), self.tuning.settled()) {
                (false, _) => steps - taken,
                (true, true) => self.tuning.review.min(steps - taken),
                (true, false) => self.tuning.shortest.min(steps - taken),
            };
            let trial = !self.tuning.settled();
            self.stopwatch.next(first + taken);
            let mut start = Instant::now();
            let end = first + steps;
            let (mut done, mut stop) = self.walk(memory.seed(), first + taken, most, threads, end, driver);
            let mut timed = done;
            let left = steps - taken - done;
            // too short to tell: those that follow count, where there are enough
            if trial && !stop && left >= self.tuning.shortest && start.elapsed().as_secs_f64() < LONG_TRIAL {
                start = Instant::now();
                let (first, most) = (first + taken + done, TRIAL.min(left));
                self.stopwatch.next(first);
                (timed, stop) = self.walk(memory.seed(), first, most, threads, end, driver);
                done += timed;
            }
            if timed >= self.tuning.shortest {
                self.tuning.observe(threads, start.elapsed().as_secs_f64() / timed as f64);
                if trial && self.tuning.settled() {
                    self.stopwatch.settle(taken + done);
                }
            }
            taken += done;
            stopped = stop;
        }
        self.stopwatch.ran(taken, began.elapsed(), self.tuning.threads());
        Ok(taken)
    }

    /// `most` steps with a fixed number of threads; (steps taken, whether the driver stopped).
    fn walk(&self, seed: u64, first: u64, most: u64, threads: usize, end: u64, driver: &mut dyn Driver) -> (u64, bool) {
        let schedule = &self.schedules[threads - 1];
        let waves = self.plan().waves;
        // later on thread 0 may already be feeding the next step but one
        let together = if threads == 1 { waves } else { schedule.together };
        let lines: usize = schedule.gathers.iter().flatten().map(|part| self.tasks[part.task].lines_ahead()).sum();
        let asking = together.min(lines.div_ceil(AT_ONCE));
        let mut apart =
            (0..threads).filter(|thread| schedule.apart[*thread]).map(|thread| &self.own[thread - 1]).peekable();
        let may_leave = apart.peek().is_some() && apart.all(Own::can_write);
        self.barrier.reset();
        let round = Round {
            schedule,
            seed,
            last: first + most - 1,
            end,
            threads,
            together,
            asking,
            shares: [Share::first(waves), Share::first(together), Share::first(asking)],
            may_leave,
            stop: AtomicBool::new(false),
            lead: Lead(UnsafeCell::new(Leading { driver, taken: 0, panic: None })),
            left: Left(UnsafeCell::new(None)),
        };
        let (timed, stride, burst) = (self.stopwatch.due, self.stopwatch.stride, self.stopwatch.burst);
        let body = |thread: usize| {
            if thread >= threads {
                return;
            }
            let _subnormals = FlushSubnormals::new();
            let mut due = timed;
            for step in first..first + most {
                let mut watch = Watch(None);
                if step >= due {
                    watch = self.watch(thread, step, burst == 1 || step > due);
                    due += if step + 1 == due + burst { stride } else { 0 };
                }
                if self.step(&round, thread, step, &mut watch) == Flow::Stop {
                    return;
                }
            }
        };
        if threads == 1 {
            body(0)
        } else {
            self.pool.run(&body)
        }
        // all threads have left the closure
        let Round { lead, stop, .. } = round;
        let lead = lead.0.into_inner();
        if let Some(panic) = lead.panic {
            std::panic::resume_unwind(panic);
        }
        (lead.taken, stop.load(Ordering::Relaxed))
    }

    /// Times this step on this thread. `counts`: not the first of a burst.
    #[cold]
    #[inline(never)]
    fn watch(&self, thread: usize, step: u64, counts: bool) -> Watch<'_> {
        // SAFETY: this thread's own, inside of a run, and one at a time.
        let lane = unsafe { self.stopwatch.lane(thread) };
        Watch(Some(self.stopwatch.watch(lane, step, counts)))
    }

    /// What one thread does in a step. `Stop`: it is the last.
    #[inline(always)]
    fn step(&self, round: &Round, thread: usize, step: u64, watch: &mut Watch) -> Flow {
        let Round { schedule, seed, end, threads, together, asking, may_leave, stop, lead, left, .. } = round;
        let [all, shared, early] = &round.shares;
        let (barrier, threads, asking, may_leave) = (&self.barrier, *threads, *asking, *may_leave);
        watch.begin();
        if thread == 0 {
            schedule.heaps.iter().for_each(|heap| heap.refill());
            // SAFETY: thread 0, and the others wait at the barrier below.
            unsafe {
                self.advance(step);
                (*lead.0.get()).call(stop, |driver| {
                    let mut slots = Slots::new(&self.slots, Some(&self.wanted), false);
                    slots.may_leave = may_leave;
                    let flow = driver.fill(step, &mut slots);
                    watch.did(Doing::Fill);
                    self.wanted.clear();
                    if step + 1 < *end {
                        driver.feed(step + 1, &mut Slots::new(&self.slots, Some(&self.wanted), true));
                    }
                    if may_leave {
                        let batch = driver.left().filter(|_| slots.left);
                        assert!(batch.is_some() == slots.left, "a batch was left, and the driver has none");
                        left.set(batch);
                    }
                    flow
                });
            }
            watch.did(Doing::Feed);
        }
        barrier.wait(thread, threads);
        watch.did(Doing::Wait);
        if stop.load(Ordering::Relaxed) {
            return Flow::Stop;
        }
        // SAFETY: set before the barrier. Threads with copies have parts, so all meet again before the driver is called again.
        let batch = if may_leave { unsafe { left.get() } } else { None };
        if thread == 0 || schedule.apart[thread] {
            // SAFETY: in this thread's own slots; others read thread 0's after a barrier, if they do.
            unsafe { self.take_inputs(thread, batch) };
            watch.did(Doing::Copy);
        }
        if thread == 1 && threads == 2 {
            for (from, to, bytes) in &self.early {
                // SAFETY: a parameter, and this thread's copy of it; nobody updates one before all have met again.
                unsafe { std::ptr::copy_nonoverlapping(*from, *to, *bytes) };
            }
        }
        if batch.is_some() && schedule.meet_first {
            barrier.wait(thread, threads);
            watch.did(Doing::Wait);
        }
        let context = Context { seed: *seed, step };
        for (n, (wave, meet)) in schedule.waves[thread].iter().zip(&schedule.barriers).enumerate() {
            if thread == 0 {
                // SAFETY: thread 0 feeds.
                unsafe { self.wanted.ask(all.nth(n)) };
            } else if schedule.apart[thread] && n < *together {
                // SAFETY: fed before the barrier.
                unsafe { self.wanted.ask(shared.nth(n)) };
            }
            for part in schedule.gathers[thread].iter().filter(|_| n < asking) {
                // SAFETY: the next step's indices were fed before the barrier.
                unsafe { self.tasks[part.task].ask_ahead(&part.units, early.nth(n)) };
            }
            for part in wave {
                match part.heap {
                    // SAFETY: operands were bound and verified; parts of a wave write disjoint elements.
                    None => unsafe { self.tasks[part.task].run(part.units.clone(), &context) },
                    Some(heap) => self.run_from(&schedule.heaps[heap], part, thread, &context),
                }
                watch.did(Doing::Call(part.task));
            }
            if *meet {
                barrier.wait(thread, threads);
                watch.did(Doing::Wait);
            }
        }
        if thread == 0 {
            // SAFETY: as above: the others are at the barrier of the next step, or have left.
            unsafe {
                let lead = &mut *lead.0.get();
                lead.taken += 1;
                lead.call(stop, |driver| driver.after(step, &Outputs::new(&self.views)));
            }
            watch.did(Doing::Watch);
            if stop.load(Ordering::Relaxed) {
                // lets the others go, who see why
                if step < round.last {
                    barrier.wait(thread, threads);
                }
                watch.end();
                return Flow::Stop;
            }
        }
        watch.end();
        Flow::Continue
    }

    /// A long call, as much of it as the others leave; out of the way of short steps.
    #[cold]
    #[inline(never)]
    fn run_from(&self, heap: &Heap, part: &Part, thread: usize, context: &Context) {
        while let Some(units) = heap.take(&part.units, thread) {
            // SAFETY: operands were bound and verified; units of a call write disjoint elements.
            unsafe { self.tasks[part.task].run(units, context) };
        }
    }

    /// Brings a step's inputs to where this thread reads them: the batch that the driver has left, or what thread 0 has filled.
    ///
    /// SAFETY: thread 0, or a thread with copies; nobody else calls this for it, or writes the originals while it copies them.
    unsafe fn take_inputs(&self, thread: usize, left: Option<&dyn Batch>) {
        let own = thread.checked_sub(1).map(|other| &self.own[other]);
        match (left, own) {
            (Some(batch), own) => batch.write(&mut Slots::new(own.map_or(&self.slots, |own| &own.slots), None, false)),
            (None, Some(own)) => own.copy(),
            (None, None) => {}
        }
    }
}

/// What all steps of a walk have in common.
struct Round<'a> {
    schedule: &'a Schedule,
    seed: u64,
    /// The last step of the walk, and the one behind the last of the run.
    last: u64,
    end: u64,
    threads: usize,
    /// Waves that all threads walk before thread 0 may feed the next step but one, and those between which memory is asked.
    together: usize,
    asking: usize,
    /// What is asked for in each of all waves, of those together, and of those that ask.
    shares: [Share; 3],
    may_leave: bool,
    stop: AtomicBool,
    lead: Lead<'a>,
    left: Left,
}

/// What thread 0 alone touches during a run.
struct Leading<'a> {
    driver: &'a mut dyn Driver,
    taken: u64,
    panic: Option<Box<dyn Any + Send>>,
}

impl Leading<'_> {
    /// Calls the driver. Should it panic, all threads leave the run in good order before the panic goes on.
    fn call(&mut self, stop: &AtomicBool, f: impl FnOnce(&mut dyn Driver) -> Flow) {
        if self.panic.is_some() {
            return;
        }
        match catch_unwind(AssertUnwindSafe(|| f(self.driver))) {
            Ok(Flow::Continue) => {}
            Ok(Flow::Stop) => stop.store(true, Ordering::Relaxed),
            Err(panic) => {
                self.panic = Some(panic);
                stop.store(true, Ordering::Relaxed);
            }
        }
    }
}

struct Lead<'a>(UnsafeCell<Leading<'a>>);
// SAFETY: `Executable::walk` enters it on thread 0 alone.
unsafe impl Sync for Lead<'_> {}

/// The batch that the driver has left to the threads, for this step.
struct Left(UnsafeCell<Option<*const (dyn Batch + 'static)>>);
// SAFETY: thread 0 writes it while the others wait at a barrier; a `Batch` is `Sync`.
unsafe impl Sync for Left {}

impl Left {
    /// SAFETY: called by thread 0 while the others wait.
    unsafe fn set(&self, batch: Option<&dyn Batch>) {
        // only the lifetime is forgotten
        let forget = |batch| std::mem::transmute::<&dyn Batch, *const (dyn Batch + 'static)>(batch);
        *self.0.get() = batch.map(forget);
    }

    /// SAFETY: the driver whose batch it is has not been called since it was set.
    unsafe fn get(&self) -> Option<&dyn Batch> {
        (*self.0.get()).map(|batch| &*batch)
    }
}
