//! Asking memory for bytes that will be read soon.

use std::cell::UnsafeCell;
use std::ops::Range;

/// Asks for the lines that hold these bytes. A hint: nothing is read, the address may lead anywhere.
#[inline(always)]
pub(crate) fn prefetch(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // one that is not needed would take the place of one that is
        let before = start as usize % 64;
        for line in (0..before + bytes).step_by(64) {
            // SAFETY: the instruction is part of every x86-64 and faults nowhere.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(start.wrapping_sub(before).wrapping_add(line) as *const i8) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}

/// One of several parts that are all alike; found without a division, which would take as long as asking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    n: usize,
    /// Of the whole, in units of 2⁻³².
    each: usize,
}

impl Share {
    /// The parts of `of`.
    pub fn first(of: usize) -> Share {
        Share { n: 0, each: (1usize << 32).div_ceil(of.max(1)) }
    }

    #[inline(always)]
    pub fn nth(self, n: usize) -> Share {
        Share { n, ..self }
    }

    /// Which of `count` things: less than 2³¹, and all of them in all parts together.
    #[inline(always)]
    pub fn of(self, count: usize) -> Range<usize> {
        let until = |n: usize| ((count * (n * self.each)) >> 32).min(count);
        until(self.n)..until(self.n + 1)
    }
}

/// Rows that will be read to fill in the next step's batch; asked for a few at a time between kernels, as all at once would wait
/// for the processor's few outstanding misses.
pub(crate) struct Wanted {
    /// Changed by the feeding thread alone, while the others wait.
    tables: UnsafeCell<Tables>,
}

struct Tables {
    /// Where each begins, the bytes of its rows, and how many are wanted.
    all: Vec<(*const u8, usize, usize)>,
    /// Of the first table, then of the next.
    rows: Vec<u32>,
}

/// More are not asked for.
const MOST: usize = 4096;

impl Wanted {
    pub fn new() -> Wanted {
        Wanted { tables: UnsafeCell::new(Tables { all: Vec::with_capacity(8), rows: Vec::with_capacity(MOST) }) }
    }

    /// SAFETY: called by the feeding thread while the others wait.
    pub unsafe fn clear(&self) {
        let tables = &mut *self.tables.get();
        tables.all.clear();
        tables.rows.clear();
    }

    /// SAFETY: called by the feeding thread while the others wait.
    pub unsafe fn add(&self, table: &[u8], width: usize, rows: &[u32]) {
        let tables = &mut *self.tables.get();
        let room = MOST - tables.rows.len();
        if room > 0 && tables.all.len() < tables.all.capacity() {
            let rows = &rows[..room.min(rows.len())];
            tables.all.push((table.as_ptr(), width, rows.len()));
            tables.rows.extend_from_slice(rows);
        }
    }

    /// SAFETY: nobody adds to them meanwhile.
    #[inline]
    pub unsafe fn ask(&self, share: Share) {
        let Tables { all, rows } = &*self.tables.get();
        let mut rows = &rows[..];
        for (table, width, count) in all {
            let (own, others) = rows.split_at(*count);
            for row in &own[share.of(*count)] {
                prefetch(table.wrapping_add(*row as usize * width), *width);
            }
            rows = others;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_the_whole() {
        for of in 1..40 {
            for count in [0, 1, 2, 7, 31, 32, 64, 1000, 4096, 65537, (1 << 31) - 1] {
                let mut next = 0;
                for n in 0..of {
                    let share = Share::first(of).nth(n).of(count);
                    assert_eq!(share.start, next, "{n} of {of}, {count}");
                    assert!(share.len() <= count / of + 1);
                    next = share.end;
                }
                assert_eq!(next, count, "{of}");
            }
        }
    }
}
