//! A step allocates nothing, on any thread: counted by the allocator itself.

// SAFETY: every call goes to `System` unchanged, so its promises are ours; counting touches atomics alone and cannot allocate.
#![allow(unsafe_code)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use citius_cpu::{Driver, Executable, Inputs, Isa, Memory, Options};
use common::{Feeder, Filler, Rows, Training, digits, pictures, regress, sequences, table, table_filled, wide};

struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicUsize = AtomicUsize::new(0);

fn note(bytes: usize) {
    if COUNTS.load(SeqCst) && !is_harness() {
        CALLS.fetch_add(1, SeqCst);
        LARGEST.fetch_max(bytes, SeqCst);
    }
}

/// The first thread is the test harness's, which says when a test takes long. Steps run on others.
fn is_harness() -> bool {
    // SAFETY: both only ask for numbers.
    #[cfg(target_os = "linux")]
    return unsafe { libc::gettid() == libc::getpid() };
    #[cfg(not(target_os = "linux"))]
    false
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(0);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WARM_UP: u64 = 50;
const COUNTED: u64 = 500;

/// One test, so that no other runs while it counts.
#[test]
fn steps_do_not_allocate() {
    the_count_works();
    for training in [regress(0.0), regress(0.2), pictures(0.0), pictures(0.2), digits(0.1), table(0.0), sequences(0.1)]
    {
        for isa in Isa::available() {
            for threads in [1, 2] {
                count(&training, Options { threads, isa: Some(isa), ..Options::default() }, WARM_UP);
            }
        }
    }
    for training in [pictures(0.0), wide()] {
        for halves_from in [Some(1), None] {
            count(&training, Options { threads: 2, halves_from, thirds_from: Some(1), ..Options::default() }, WARM_UP);
        }
    }
    let filled = table_filled();
    for leaves in [false, true] {
        let filler = |watch| Filler { batch: Rows { of: &filled, step: 0 }, leaves, left: 0, watch };
        for inputs in [Inputs::new(), filled.batch()] {
            count_with(&filled, &inputs, Options { threads: 2, ..Options::default() }, WARM_UP, filler);
        }
    }
    // the search for the fastest number of threads has a first step on each
    count(&regress(0.0), Options::default(), 2000);
}

fn the_count_works() {
    COUNTS.store(true, SeqCst);
    drop(std::hint::black_box(vec![1u8; 100]));
    let (calls, largest) = counted();
    assert_eq!((calls, largest), (2, 100), "one allocation and its end");
}

fn count(training: &Training, options: Options, warm_up: u64) {
    count_with(training, &training.inputs(), options, warm_up, Feeder);
}

fn count_with<D: Driver>(
    training: &Training,
    inputs: &Inputs,
    options: Options,
    warm_up: u64,
    driver: impl Fn(Box<dyn FnMut(Option<u64>)>) -> D,
) {
    let mut memory = Memory::new(1);
    let mut executable = Executable::new(training.plan.clone(), &mut memory, options).unwrap();
    let mut expect_none = |when: &str, first: u64, steps: u64, from: Option<u64>| {
        let watch = move |step: Option<u64>| {
            if step == from {
                COUNTS.store(true, SeqCst);
            } else if step == Some(first + steps - 1) {
                COUNTS.store(false, SeqCst);
            }
        };
        executable.run(&mut memory, inputs, first, steps, &mut driver(Box::new(watch))).unwrap();
        let (calls, largest) = counted();
        let name = training.name;
        assert_eq!(calls, 0, "{name}, {options:?}: {calls} calls of the allocator, up to {largest} bytes, {when}");
    };
    expect_none("after the warm-up", 0, warm_up + COUNTED, Some(warm_up - 1));
    expect_none("from the first feed of a further run", warm_up + COUNTED, COUNTED, None);
}

/// (calls, largest) since the last time; stops counting.
fn counted() -> (usize, usize) {
    COUNTS.store(false, SeqCst);
    (CALLS.swap(0, SeqCst), LARGEST.swap(0, SeqCst))
}
