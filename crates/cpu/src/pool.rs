//! Threads that live as long as their executable. Between runs they sleep; during a run they spin at light barriers, because a
//! wake-up costs more than a small step.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

type Job = *const (dyn Fn(usize) + Sync);

struct Shared {
    /// (number of the job, the job)
    job: Mutex<(u64, Option<SendJob>)>,
    wake: Condvar,
    finished: AtomicUsize,
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
        let mut spin = Spin::default();
        while self.shared.finished.load(Ordering::Acquire) < self.threads.len() {
            spin.wait();
        }
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
}

#[repr(align(128))]
struct Arrivals(AtomicUsize);

impl Barrier {
    pub fn new(most_threads: usize) -> Barrier {
        Barrier { arrivals: (0..most_threads).map(|_| Arrivals(AtomicUsize::new(0))).collect() }
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
        for other in arrivals {
            let mut spin = Spin::default();
            while other.0.load(Ordering::Acquire) < round {
                spin.wait();
            }
        }
    }
}

/// Spins for some microseconds, then gives the core away: other work may hold the thread we wait for. Where that takes longer than
/// such work is usually given, it sleeps: a machine with more threads than cores has none to spin on.
#[derive(Default)]
struct Spin(u32);

/// What a waiting thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pause {
    Spin,
    Yield,
    Sleep(Duration),
}

impl Spin {
    const SPINS: u32 = 4000;
    const YIELDS: u32 = 200;
    const SHORTEST: Duration = Duration::from_micros(50);
    const LONGEST: Duration = Duration::from_millis(1);

    #[inline]
    fn wait(&mut self) {
        match self.next() {
            Pause::Spin => std::hint::spin_loop(),
            Pause::Yield => std::thread::yield_now(),
            Pause::Sleep(time) => std::thread::sleep(time),
        }
    }

    #[inline]
    fn next(&mut self) -> Pause {
        self.0 = self.0.saturating_add(1);
        match self.0 {
            n if n < Spin::SPINS => Pause::Spin,
            n if n < Spin::SPINS + Spin::YIELDS => Pause::Yield,
            n => Pause::Sleep((Spin::SHORTEST * (n - Spin::SPINS - Spin::YIELDS + 1).min(100)).min(Spin::LONGEST)),
        }
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

    #[test]
    fn a_thread_that_waits_long_spins_then_yields_then_sleeps() {
        let mut spin = Spin::default();
        let pauses: Vec<Pause> = (0..5000).map(|_| spin.next()).collect();
        let count = |kind: &dyn Fn(&Pause) -> bool| pauses.iter().filter(|p| kind(p)).count() as u32;
        assert_eq!(count(&|p| *p == Pause::Spin), Spin::SPINS - 1);
        assert_eq!(count(&|p| *p == Pause::Yield), Spin::YIELDS);
        assert!(pauses.is_sorted_by_key(|p| match p {
            Pause::Spin => Duration::ZERO,
            Pause::Yield => Duration::from_nanos(1),
            Pause::Sleep(time) => *time,
        }));
        assert_eq!(pauses.last(), Some(&Pause::Sleep(Spin::LONGEST)));
        // for days, without an overflow
        assert_eq!(Spin(u32::MAX).next(), Pause::Sleep(Spin::LONGEST));
    }
}
