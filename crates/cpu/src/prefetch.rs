//! Asking memory for bytes that will be read soon.

use std::cell::UnsafeCell;

/// Asks for the lines that hold these bytes. A hint: nothing is read, the address may lead anywhere.
#[inline(always)]
pub(crate) fn prefetch(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes + 63).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: the instruction is part of every x86-64 and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(start.wrapping_add(line) as *const i8) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}

/// Bytes that will be read to fill in the next step's batch; asked for a few at a time between kernels, as all at once would wait
/// for the processor's few outstanding misses.
pub(crate) struct Wanted {
    /// Changed by the feeding thread alone, while the others wait.
    ranges: UnsafeCell<Vec<(*const u8, usize)>>,
}

/// More are not asked for.
const MOST: usize = 4096;

impl Wanted {
    pub fn new() -> Wanted {
        Wanted { ranges: UnsafeCell::new(Vec::with_capacity(MOST)) }
    }

    /// SAFETY: called by the feeding thread while the others wait.
    pub unsafe fn clear(&self) {
        (*self.ranges.get()).clear();
    }

    /// SAFETY: called by the feeding thread while the others wait.
    pub unsafe fn add(&self, bytes: &[u8]) {
        let ranges = &mut *self.ranges.get();
        if ranges.len() < MOST {
            ranges.push((bytes.as_ptr(), bytes.len()));
        }
    }

    /// Asks for part `n` of `of`.
    ///
    /// SAFETY: nobody adds to them meanwhile.
    #[inline]
    pub unsafe fn ask(&self, n: usize, of: usize) {
        let ranges = &*self.ranges.get();
        for (start, bytes) in &ranges[ranges.len() * n / of..ranges.len() * (n + 1) / of] {
            prefetch(*start, *bytes);
        }
    }
}
