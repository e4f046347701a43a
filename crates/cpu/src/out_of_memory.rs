//! The allocator of a program that ends with a sentence where memory runs out, instead of an abort.
//!
//! Large allocations are asked for with `try_reserve` and fail as errors that say what was too large. Thousands of small ones cannot
//! be, in our code and in that of others; what they need is so little that the process is at its end.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// Smaller requests are not refused to their callers: the process ends there and then.
const SMALL: usize = 1 << 16;

const MESSAGE: &[u8] =
    b"\nerror: memory ran out (the machine's, the container's, or a limit such as ulimit -v): close other programs, \
raise the limit, or use less data, a smaller batch or a smaller network; what was saved before is whole\n";

/// A request could not be met: an abort that follows is for want of memory.
static FAILED: AtomicBool = AtomicBool::new(false);

/// The system's allocator. Where it has no memory for a small request, the process ends with a message and exit code 1. A large one
/// fails as usual; if its caller cannot go on, the message follows once [`end_aborts_with_a_message`] was called.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReportingAllocator;

// SAFETY: every request goes to the system's allocator as it came, and its answer is passed on.
unsafe impl GlobalAlloc for ReportingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        noted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        noted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::realloc`.
        noted(unsafe { System.realloc(pointer, layout, size) }, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[inline]
fn noted(pointer: *mut u8, size: usize) -> *mut u8 {
    if pointer.is_null() {
        failed(size);
    }
    pointer
}

#[cold]
fn failed(size: usize) {
    FAILED.store(true, Ordering::Relaxed);
    if size < SMALL {
        end();
    }
}

/// Has the process end with a message where it would abort for want of memory.
pub fn end_aborts_with_a_message() {
    #[cfg(unix)]
    {
        extern "C" fn on_abort(_: libc::c_int) {
            if FAILED.load(Ordering::Relaxed) {
                end();
            }
        }
        // SAFETY: the handler writes to a file descriptor and ends the process, both of which a signal handler may do; it returns
        // only where memory has not run out, and then the abort goes on.
        unsafe { libc::signal(libc::SIGABRT, on_abort as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
}

/// Writes the message and ends the process, without any memory.
fn end() -> ! {
    #[cfg(unix)]
    // SAFETY: the message is valid for its length; `_exit` never returns.
    unsafe {
        libc::write(2, MESSAGE.as_ptr().cast(), MESSAGE.len());
        libc::_exit(1)
    }
    #[cfg(not(unix))]
    {
        let _ = MESSAGE;
        std::process::exit(1)
    }
}
