//! Rows of a table by number: the batch. Bytes widen to f32 and are scaled as they are copied; rows of the next batch are
//! asked for ahead, so that memory latency overlaps with this step's arithmetic.

use std::ops::Range;

use citius_graph::DType;
use citius_plan::{Gather, Plan};

use crate::isa::Isa;

/// Tables beyond this do not stay in the cache by themselves.
const PREFETCH_FROM: usize = 1 << 19;

pub struct GatherTask {
    work: Gather,
    from: DType,
    to: DType,
    isa: Isa,
    prefetch: bool,
    rows_per_unit: usize,
    table: *const u8,
    indices: *const i32,
    next: *const i32,
    out: *mut u8,
}

impl GatherTask {
    pub fn new(work: &Gather, plan: &Plan, isa: Isa) -> GatherTask {
        let (from, to) = (plan.buffers[work.table].dtype, plan.buffers[work.out].dtype);
        let null = std::ptr::null_mut();
        GatherTask {
            prefetch: work.table_rows * work.width * from.bytes() > PREFETCH_FROM,
            rows_per_unit: (1024 / work.width.max(1)).max(1),
            work: work.clone(),
            from,
            to,
            isa,
            table: null,
            indices: null as *const i32,
            next: null as *const i32,
            out: null,
        }
    }

    pub fn bind(&mut self, pointers: &[*mut u8], next: &dyn Fn(usize) -> Option<*const u8>) {
        self.table = pointers[self.work.table];
        self.indices = pointers[self.work.indices] as *const i32;
        self.next = next(self.work.indices).map_or(std::ptr::null(), |p| p as *const i32);
        self.out = pointers[self.work.out];
    }

    pub fn units(&self) -> usize {
        self.work.rows.div_ceil(self.rows_per_unit)
    }

    /// SAFETY: as `Task::run`. An index outside the table reads row 0: data and tokens are checked where they enter.
    pub unsafe fn run(&self, units: Range<usize>) {
        let rows = units.start * self.rows_per_unit..(units.end * self.rows_per_unit).min(self.work.rows);
        #[cfg(target_arch = "x86_64")]
        match self.isa {
            Isa::Avx512 => return self.rows_avx512(rows),
            Isa::Avx2 => return self.rows_avx2(rows),
            Isa::Portable => {}
        }
        self.rows(rows)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
    unsafe fn rows_avx512(&self, rows: Range<usize>) {
        self.rows(rows)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn rows_avx2(&self, rows: Range<usize>) {
        self.rows(rows)
    }

    #[inline(always)]
    unsafe fn rows(&self, rows: Range<usize>) {
        let (width, table_rows) = (self.work.width, self.work.table_rows);
        let row_bytes = width * self.from.bytes();
        for r in rows {
            let index = *self.indices.add(r) as usize;
            let index = if index < table_rows { index } else { 0 };
            let from = self.table.add(index * row_bytes);
            let to = self.out.add(r * width * self.to.bytes());
            match (self.from, self.to) {
                (DType::F32, DType::F32) => self.widen(from as *const f32, to as *mut f32, |x| x),
                (DType::U8, DType::F32) => self.widen(from, to as *mut f32, |x| x as f32),
                (DType::I32, DType::F32) => self.widen(from as *const i32, to as *mut f32, |x| x as f32),
                (DType::I32, _) | (DType::U8, _) | (DType::F32, _) => {
                    std::ptr::copy_nonoverlapping(from, to, row_bytes)
                }
            }
            if self.prefetch && !self.next.is_null() {
                let ahead = *self.next.add(r) as usize;
                if ahead < table_rows {
                    prefetch(self.table.add(ahead * row_bytes), row_bytes);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn widen<T: Copy>(&self, from: *const T, to: *mut f32, value: impl Fn(T) -> f32) {
        let width = self.work.width;
        match self.work.affine {
            Some((scale, shift)) => (0..width).for_each(|c| *to.add(c) = value(*from.add(c)) * scale + shift),
            None => (0..width).for_each(|c| *to.add(c) = value(*from.add(c))),
        }
    }
}

#[inline(always)]
unsafe fn prefetch(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes + 63).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // a hint: it may point past the table without harm
        _mm_prefetch::<_MM_HINT_T1>(start.wrapping_add(line) as *const i8);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}
