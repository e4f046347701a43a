//! Index of the largest element of each row; the first among equals, and not-a-number wins as in PyTorch.

use std::ops::Range;

use citius_plan::ArgMax;

pub struct ArgMaxTask {
    work: ArgMax,
    input: *const f32,
    out: *mut i32,
}

impl ArgMaxTask {
    pub fn new(work: &ArgMax) -> ArgMaxTask {
        ArgMaxTask { work: work.clone(), input: std::ptr::null(), out: std::ptr::null_mut() }
    }

    pub fn bind(&mut self, pointers: &[*mut u8]) {
        self.input = pointers[self.work.input] as *const f32;
        self.out = pointers[self.work.out] as *mut i32;
    }

    pub fn units(&self) -> usize {
        self.work.rows
    }

    /// SAFETY: as `Task::run`; `input` holds rows × cols values and `out` one for each row.
    pub unsafe fn run(&self, rows: Range<usize>) {
        for r in rows {
            let row = std::slice::from_raw_parts(self.input.add(r * self.work.cols), self.work.cols);
            let mut best = 0;
            for (i, &x) in row.iter().enumerate() {
                if x > row[best] || (x.is_nan() && !row[best].is_nan()) {
                    best = i;
                }
            }
            *self.out.add(r) = best as i32;
        }
    }
}
