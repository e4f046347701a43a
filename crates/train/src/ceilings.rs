//! What this machine can do at most: measured once, in less than a second, and kept in the user's cache folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use citius_cpu::{Plain, multiply_add, widest};
use citius_data::bounded;
use serde::{Deserialize, Serialize};

use crate::files::write_whole;

/// Ceilings of a processor.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ceilings {
    /// FLOP/s of multiply-adds in 32 bits, on all threads.
    pub flops: f64,
    /// The same on one thread.
    pub flops_one: f64,
    /// Bytes per second from and to memory, on all threads.
    pub memory: f64,
    /// The same from and to a cache that cores share.
    pub shared: f64,
    /// The same from and to cores' own caches.
    pub cache: f64,
}

/// What is kept on disk.
#[derive(Serialize, Deserialize)]
struct Kept {
    machine: String,
    ceilings: Ceilings,
}

/// Time for each of the measurements.
const SPAN: Duration = Duration::from_millis(40);
/// Turns of each; the best counts: whatever else runs here only ever takes away.
const TURNS: usize = 3;
/// Of what one thread does, the share that each of all must do for the measurement to be kept.
const CLEAR: f64 = 0.8;
/// A thread that does so much more than was kept: the machine was busy then, and is measured again.
const DOUBT: f64 = 1.1;
/// Bytes that no cache holds, on all threads.
const BEYOND_CACHES: usize = 256 << 20;
/// Bytes for each thread that a shared cache holds.
const IN_SHARED: usize = 4 << 20;
/// Bytes for each thread that its own cache holds.
const IN_CACHE: usize = 512 << 10;

impl Ceilings {
    /// From the cache, or measured now and kept.
    pub fn get() -> Ceilings {
        Ceilings::at(folder().as_deref())
    }

    /// From the cache alone.
    pub fn known() -> Option<Ceilings> {
        Ceilings::kept(folder()?.as_path())
    }

    fn at(folder: Option<&Path>) -> Ceilings {
        let kept = folder.and_then(Ceilings::kept);
        if let Some(kept) = kept.filter(|kept| one_turn(&mut Multiply) <= DOUBT * kept.flops_one) {
            return kept;
        }
        let ceilings = kept.map_or(Ceilings::measure(), |kept| Ceilings::measure().or_more(kept));
        // cores that get in each other's way are busy with something else, or are not cores: then each time anew
        if ceilings.flops < CLEAR * ceilings.flops_one * threads() as f64 {
            return ceilings;
        }
        if let Some(folder) = folder {
            ceilings.keep(folder);
        }
        ceilings
    }

    /// What either has seen.
    fn or_more(self, other: Ceilings) -> Ceilings {
        Ceilings {
            flops: self.flops.max(other.flops),
            flops_one: self.flops_one.max(other.flops_one),
            memory: self.memory.max(other.memory),
            shared: self.shared.max(other.shared),
            cache: self.cache.max(other.cache),
        }
    }

    fn keep(self, folder: &Path) {
        let kept = Kept { machine: machine(), ceilings: self };
        if let Ok(text) = serde_json::to_string_pretty(&kept) {
            // a cache that cannot be written only costs time
            let _ = fs::create_dir_all(folder);
            let _ = write_whole(&folder.join(FILE), text.as_bytes());
        }
    }

    /// `None`: nothing there, of another machine, or not what was written.
    fn kept(folder: &Path) -> Option<Ceilings> {
        let kept: Kept = serde_json::from_slice(&bounded::read_plain(&folder.join(FILE), KEPT).ok()?).ok()?;
        let Ceilings { flops, flops_one, memory, shared, cache } = kept.ceilings;
        let sound = |x: &f64| x.is_finite() && *x > 0.0;
        let all = [flops, flops_one, memory, shared, cache];
        (kept.machine == machine() && all.iter().all(sound)).then_some(kept.ceilings)
    }

    pub fn measure() -> Ceilings {
        let threads = threads();
        let each = BEYOND_CACHES / threads;
        Ceilings {
            flops: together(threads, |_| Multiply),
            flops_one: together(1, |_| Multiply),
            memory: together(threads, |_| Stream::new(each)),
            shared: together(threads, |_| Stream::new(IN_SHARED)),
            cache: together(threads, |_| Stream::new(IN_CACHE)),
        }
    }

    /// For a step on so many threads that touches so many bytes again and again.
    pub fn on(&self, threads: usize, bytes: f64) -> Ceilings {
        let share = (threads as f64 / self::threads() as f64).min(1.0);
        let flops = (self.flops_one * threads as f64).min(self.flops);
        // a cache holds about twice what was measured in it
        let each = bytes / threads.max(1) as f64 / 2.0;
        let memory = match each {
            b if b <= IN_CACHE as f64 => self.cache * share,
            b if b <= IN_SHARED as f64 => self.shared * share,
            _ => self.memory,
        };
        Ceilings { flops, memory, ..*self }
    }

    /// The least time that this work can take.
    pub fn seconds(&self, flops: f64, bytes: f64) -> f64 {
        (flops / self.flops).max(bytes / self.memory)
    }
}

const FILE: &str = "ceilings.json";
/// Bytes that it has at most.
const KEPT: u64 = 1 << 20;

/// As for compiled kernels.
fn folder() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    std::env::var_os("CITIUS_CACHE").map(PathBuf::from).or(base.map(|b| b.join("citius")))
}

/// The processor and how much of it is ours.
fn machine() -> String {
    let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name =
        told.lines().find_map(|line| line.strip_prefix("model name")).map(|n| n.trim_start_matches([' ', '\t', ':']));
    let isa = citius_cpu::Isa::detect();
    format!("{} × {}, {isa}", threads(), name.unwrap_or(std::env::consts::ARCH))
}

fn threads() -> usize {
    available_parallelism().map_or(1, |n| n.get())
}

/// Something to be done again and again.
trait Work: Send {
    /// FLOPs or bytes.
    fn once(&mut self) -> f64;
}

/// What so many threads do per second, the best of some turns.
fn together<W: Work>(threads: usize, work: impl Fn(usize) -> W + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let run = |thread: usize| {
        let mut work = work(thread);
        work.once();
        let mut rates = [0.0; TURNS];
        for rate in &mut rates {
            barrier.wait();
            *rate = one_turn(&mut work);
        }
        rates
    };
    let rates: Vec<[f64; TURNS]> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let own = run(0);
        [own].into_iter().chain(others.into_iter().map(|t| t.join().unwrap_or_default())).collect()
    });
    (0..TURNS).map(|turn| rates.iter().map(|r| r[turn]).sum::<f64>()).fold(0.0, f64::max)
}

/// What this thread does per second.
fn one_turn(work: &mut impl Work) -> f64 {
    let (start, mut done) = (Instant::now(), 0.0);
    while start.elapsed() < SPAN {
        done += work.once();
    }
    done / start.elapsed().as_secs_f64()
}

/// Arithmetic in registers.
struct Multiply;

impl Work for Multiply {
    fn once(&mut self) -> f64 {
        multiply_add(4000) as f64
    }
}

/// `a = a·s + b` over two arrays: of three bytes moved, two are read and one is written.
struct Stream {
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Stream {
    fn new(bytes: usize) -> Stream {
        let elements = bytes / 2 / size_of::<f32>();
        Stream { a: vec![1.0; elements], b: vec![0.5; elements] }
    }
}

impl Work for Stream {
    fn once(&mut self) -> f64 {
        widest(Triad { a: &mut self.a, b: &self.b });
        std::hint::black_box(&self.a);
        (3 * size_of::<f32>() * self.a.len()) as f64
    }
}

struct Triad<'a> {
    a: &'a mut [f32],
    b: &'a [f32],
}

impl Plain for Triad<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (a, b) in self.a.iter_mut().zip(self.b) {
            *a = *a * 0.999 + *b;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_once_and_again_where_the_cache_is_broken() {
        let folder = tempfile::tempdir().unwrap();
        let first = Ceilings { flops: 2e15, flops_one: 1e15, memory: 3e10, shared: 1e11, cache: 2e11 };
        first.keep(folder.path());
        let file = folder.path().join(FILE);
        assert_eq!(Ceilings::kept(folder.path()), Some(first));
        assert_eq!(Ceilings::at(Some(folder.path())), first, "not measured again");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        let whole = fs::read(&file).unwrap();
        for broken in [&whole[..whole.len() / 2], b"", b"{}", b"\xff\xfe"] {
            fs::write(&file, broken).unwrap();
            assert_eq!(Ceilings::kept(folder.path()), None);
        }
        let text = String::from_utf8(whole).unwrap();
        fs::write(&file, text.replace(&machine(), "another")).unwrap();
        assert_eq!(Ceilings::kept(folder.path()), None, "of another machine");
        fs::write(&file, text.replace("\"memory\": ", "\"memory\": -")).unwrap();
        assert_eq!(Ceilings::kept(folder.path()), None, "no machine has less than nothing");
        let busy = Ceilings { flops: 2e3, flops_one: 1e3, memory: 1e3, shared: 1e3, cache: 1e15 };
        busy.keep(folder.path());
        let calm = Ceilings::at(Some(folder.path()));
        assert!(calm.flops_one > 1e8 && calm.memory > 1e7, "measured on a busy machine: {calm:?}");
        assert_eq!(calm.cache, 1e15, "what was more stays");
        fs::remove_file(&file).unwrap();
        let anew = Ceilings::at(Some(folder.path()));
        assert!(anew != first && anew.flops > 1e8 && anew.memory > 1e7 && anew.cache > 1e7, "{anew:?}");
    }

    #[test]
    fn the_nearer_ceiling_counts() {
        let c = Ceilings { flops: 100.0, flops_one: 60.0, memory: 10.0, shared: 20.0, cache: 50.0 };
        assert_eq!(c.seconds(100.0, 5.0), 1.0);
        assert_eq!(c.seconds(10.0, 20.0), 2.0);
        let all = threads();
        assert_eq!(c.on(all, 10.0).memory, 50.0, "in the caches");
        assert_eq!(c.on(all, (all * IN_SHARED) as f64).memory, 20.0, "in what cores share");
        assert_eq!(c.on(all, 1e12).memory, 10.0);
        assert_eq!(c.on(1, 1e12).flops, 60.0);
    }
}
