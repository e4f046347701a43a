//! Threads that live as long as their executable. Between runs they sleep; during a run they spin at light barriers, because a
//! wake-up costs more than a small step. Those that wait long are parked: the core may be needed by the thread they wait for.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

type Job = *const (dyn Fn(usize) + Sync);

struct Shared {
    /// (number of the job, the job)
    job: Mutex<(u64, Option<SendJob>)>,
    wake: Condvar,
    finished: AtomicUsize,
    parking: ParkingSpot,
    stop: AtomicBool,
}

#[derive(Clone, Copy)]
struct SendJob(Job);
// SAFETY: the closure is `Sync`, and `Pool::run` does not return before every thread has left it.
unsafe impl Send for SendJob {}

pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// A pool of `threads`, the caller's included.
    pub fn new(threads: usize) -> std::io::Result<Pool> {
        let shared = Arc::new(Shared {
            job: Mutex::new((0, None)),
            wake: Condvar::new(),
            finished: AtomicUsize::new(0),
            parking: ParkingSpot::new(),
            stop: AtomicBool::new(false),
        });
        let spawn = |index: usize| {
            let shared = shared.clone();
            std::thread::Builder::new().name(format!("citius-{index}")).spawn(move || work(&shared, index))
        };
        let threads = (1..threads).map(spawn).collect::<std::io::Result<Vec<_>>>()?;
        Ok(Pool { shared, threads })
    }

    /// Calls `job(i)` once on each thread `i`, and waits for all.
    pub fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        self.shared.finished.store(0, Ordering::Relaxed);
        if !self.threads.is_empty() {
            // SAFETY: only the lifetime is forgotten; the wait below keeps the closure alive while threads use it.
            let job: Job = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), Job>(job) };
            let mut slot = self.shared.job.lock().unwrap_or_else(|e| e.into_inner());
            *slot = (slot.0 + 1, Some(SendJob(job)));
            self.shared.wake.notify_all();
        }
        let together = Together;
        job(0);
        drop(together);
        self.shared.parking.wait_until(|| self.shared.finished.load(Ordering::Acquire) == self.threads.len());
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        drop(self.shared.job.lock().unwrap_or_else(|e| e.into_inner()));
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // a worker that panicked has already printed why
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared, index: usize) {
    let mut done = 0;
    loop {
        let job = {
            let mut slot = shared.job.lock().unwrap_or_else(|e| e.into_inner());
            while slot.0 == done && !shared.stop.load(Ordering::Acquire) {
                slot = shared.wake.wait(slot).unwrap_or_else(|e| e.into_inner());
            }
            if shared.stop.load(Ordering::Acquire) {
                return;
            }
            done = slot.0;
            slot.1
        };
        if let Some(SendJob(job)) = job {
            let _together = Together;
            // SAFETY: `Pool::run` keeps the closure alive until `finished` counts this thread.
            unsafe { (*job)(index) };
        }
        shared.finished.fetch_add(1, Ordering::Release);
        shared.parking.unpark();
    }
}

/// Threads of a run wait for each other, so one that panics would leave the others waiting for ever: better no process than a
/// silent one. Kernels have no reason to panic; drivers are caught before they get here.
struct Together;

impl Drop for Together {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("citius: a kernel thread panicked; this is a bug of ours, please report the message above");
            std::process::abort();
        }
    }
}

/// All threads meet here. Each says in a line of its own how often it has come, and looks at the others': one line crosses from core to
/// core, where a common counter would cross twice.
pub struct Barrier {
    arrivals: Vec<Arrivals>,
    parking: ParkingSpot,
}

#[repr(align(128))]
struct Arrivals(AtomicUsize);

impl Barrier {
    pub fn new(most_threads: usize) -> Barrier {
        let arrivals = (0..most_threads).map(|_| Arrivals(AtomicUsize::new(0))).collect();
        Barrier { arrivals, parking: ParkingSpot::new() }
    }

    /// While nobody waits: threads that stayed away are level with the others again.
    pub fn reset(&self) {
        self.arrivals.iter().for_each(|a| a.0.store(0, Ordering::Relaxed));
    }

    /// `thread` waits for all below `threads`.
    #[inline]
    pub fn wait(&self, thread: usize, threads: usize) {
        if threads == 1 {
            return;
        }
        let arrivals = &self.arrivals[..threads];
        let round = arrivals[thread].0.load(Ordering::Relaxed) + 1;
        arrivals[thread].0.store(round, Ordering::Release);
        self.parking.unpark();
        for other in arrivals {
            if other.0.load(Ordering::Acquire) < round {
                self.parking.wait_until(|| other.0.load(Ordering::Acquire) >= round);
            }
        }
    }
}

/// Where threads wait for what others do: they spin for some microseconds, then park until they are woken. They do not yield. A core that
/// is given away on a busy machine comes back after everyone else's turn, while a thread that is woken is among the next.
struct ParkingSpot {
    /// Spins before a thread parks: fewer each time it had to, more each time spinning was enough. A thread that shares its core with
    /// other work spins in vain, and the time counts against its turn.
    spins: AtomicU32,
    parked: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl ParkingSpot {
    /// The most are 50 to 200 µs, by the processor: some times what it costs to park and be woken.
    const SPINS: RangeInclusive<u32> = 60..=4000;
    /// [`ParkingSpot::unpark`] looks for parked threads without a fence. It may miss one that has just parked, which then looks again
    /// by itself.
    const LONGEST: Duration = Duration::from_millis(1);

    fn new() -> ParkingSpot {
        let spins = AtomicU32::new(*ParkingSpot::SPINS.end());
        ParkingSpot { spins, parked: AtomicUsize::new(0), lock: Mutex::new(()), wake: Condvar::new() }
    }

    #[inline]
    fn wait_until(&self, ready: impl Fn() -> bool) {
        let (least, most) = (*ParkingSpot::SPINS.start(), *ParkingSpot::SPINS.end());
        let spins = self.spins.load(Ordering::Relaxed);
        for _ in 0..spins {
            if ready() {
                if spins < most {
                    self.spins.store((spins * 2).min(most), Ordering::Relaxed);
                }
                return;
            }
            std::hint::spin_loop();
        }
        self.spins.store((spins / 2).max(least), Ordering::Relaxed);
        self.park_until(ready);
    }

    #[cold]
    #[inline(never)]
    fn park_until(&self, ready: impl Fn() -> bool) {
        let mut guard = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        self.parked.fetch_add(1, Ordering::SeqCst);
        while !ready() {
            guard = self.wake.wait_timeout(guard, ParkingSpot::LONGEST).unwrap_or_else(|e| e.into_inner()).0;
        }
        self.parked.fetch_sub(1, Ordering::SeqCst);
    }

    /// Called after each change that others may wait for.
    #[inline]
    fn unpark(&self) {
        if self.parked.load(Ordering::Relaxed) > 0 {
            self.unpark_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn unpark_all(&self) {
        // a thread between its look and its sleep holds the lock
        drop(self.lock.lock().unwrap_or_else(|e| e.into_inner()));
        self.wake.notify_all();
    }
}

/// Flushes subnormal numbers on this thread until dropped: Adam's moments of dead units decay into them, and they cost a
/// hundred times a normal number.
pub struct FlushSubnormals(u32);

impl FlushSubnormals {
    pub fn new() -> FlushSubnormals {
        #[cfg(target_arch = "x86_64")]
        {
            let mut mode: u32 = 0;
            // SAFETY: reads and writes this thread's own floating-point mode; bits 15 and 6 are FTZ and DAZ on every x86-64.
            unsafe {
                std::arch::asm!("stmxcsr [{}]", in(reg) &mut mode, options(nostack));
                let flushed = mode | 0x8040;
                std::arch::asm!("ldmxcsr [{}]", in(reg) &flushed, options(nostack));
            }
            FlushSubnormals(mode)
        }
        #[cfg(not(target_arch = "x86_64"))]
        FlushSubnormals(0)
    }
}

impl Drop for FlushSubnormals {
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: restores the mode read in `new` on the same thread.
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", in(reg) &self.0, options(nostack));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for a state that another thread brings about.
    fn comes_true(state: impl Fn() -> bool) -> bool {
        let look = |_| {
            std::thread::sleep(Duration::from_millis(1));
            state()
        };
        (0..60_000).any(look)
    }

    #[test]
    fn a_thread_that_waits_long_at_a_barrier_is_parked_until_all_have_come() {
        let barrier = Barrier::new(3);
        std::thread::scope(|scope| {
            (0..2).for_each(|i| {
                drop(scope.spawn({
                    let barrier = &barrier;
                    move || barrier.wait(i, 3)
                }))
            });
            let parked = comes_true(|| barrier.parking.parked.load(Ordering::SeqCst) == 2);
            barrier.wait(2, 3);
            assert!(parked, "both spin");
        });
        assert_eq!(barrier.parking.parked.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn the_caller_is_parked_while_a_thread_of_the_pool_works_long() {
        let pool = Pool::new(2).unwrap();
        let parked = AtomicBool::new(false);
        pool.run(&|thread| {
            if thread == 1 {
                let caller = comes_true(|| pool.shared.parking.parked.load(Ordering::SeqCst) == 1);
                parked.store(caller, Ordering::SeqCst);
            }
        });
        assert!(parked.load(Ordering::SeqCst));
    }

    #[test]
    fn who_had_to_park_spins_less_the_next_time_and_more_after_spinning_was_enough() {
        let spot = ParkingSpot::new();
        let spins = || spot.spins.load(Ordering::Relaxed);
        let wait = |looks: u32| {
            let looked = AtomicU32::new(0);
            spot.wait_until(|| looked.fetch_add(1, Ordering::Relaxed) >= looks);
        };
        (0..20).for_each(|_| wait(spins() + 2));
        assert_eq!(spins(), *ParkingSpot::SPINS.start());
        (0..20).for_each(|_| wait(10));
        assert_eq!(spins(), *ParkingSpot::SPINS.end());
    }
}
