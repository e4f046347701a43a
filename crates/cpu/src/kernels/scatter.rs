//! Adds rows into a table of zeros, in the order of the indices: each unit owns some columns, so the order of additions, and
//! with it every bit, is the same for any number of threads.

use std::ops::Range;

use citius_plan::Scatter;

const COLUMNS: usize = 64;

pub struct ScatterTask {
    work: Scatter,
    values: *const f32,
    indices: *const i32,
    out: *mut f32,
}

impl ScatterTask {
    pub fn new(work: &Scatter) -> ScatterTask {
        let (values, indices, out) = (std::ptr::null(), std::ptr::null(), std::ptr::null_mut());
        ScatterTask { work: work.clone(), values, indices, out }
    }

    pub fn bind(&mut self, pointers: &[*mut u8]) {
        self.values = pointers[self.work.values] as *const f32;
        self.indices = pointers[self.work.indices] as *const i32;
        self.out = pointers[self.work.out] as *mut f32;
    }

    pub fn units(&self) -> usize {
        self.work.width.div_ceil(COLUMNS)
    }

    /// SAFETY: as `Task::run`; an index outside the table is skipped (the gather of the same indices reads row 0 for it).
    pub unsafe fn run(&self, units: Range<usize>) {
        let Scatter { rows, table_rows, width, .. } = self.work;
        let (start, end) = (units.start * COLUMNS, (units.end * COLUMNS).min(width));
        for r in 0..table_rows {
            std::slice::from_raw_parts_mut(self.out.add(r * width + start), end - start).fill(0.0);
        }
        for r in 0..rows {
            let index = *self.indices.add(r) as usize;
            if index < table_rows {
                let from = std::slice::from_raw_parts(self.values.add(r * width + start), end - start);
                let to = std::slice::from_raw_parts_mut(self.out.add(index * width + start), end - start);
                to.iter_mut().zip(from).for_each(|(y, x)| *y += x);
            }
        }
    }
}
