//! Rows of a table by number: the batch. Bytes widen to f32 and are scaled as they are copied; rows of the next batch are
//! asked for while this step computes.

use std::ops::Range;

use citius_graph::DType;
use citius_plan::{Call, Gather, Plan, Work};

use crate::isa::Isa;
use crate::prefetch::{Share, prefetch};

/// Tables of more than this together do not stay in the cache by themselves: each pushes out the others.
const PREFETCH_FROM: usize = 1 << 19;

pub struct GatherTask {
    work: Gather,
    from: DType,
    to: DType,
    isa: Isa,
    prefetch: bool,
    /// Bytes of all tables that the step gathers from.
    tables: usize,
    /// Writes the addresses of the rows, for products that read them where they are.
    in_place: bool,
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
            prefetch: false,
            tables: tables(plan),
            #[cfg(target_arch = "x86_64")]
            in_place: super::in_place::stays(plan, isa, work),
            #[cfg(not(target_arch = "x86_64"))]
            in_place: false,
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
        self.prefetch = self.tables > PREFETCH_FROM && !self.next.is_null();
        self.out = pointers[self.work.out];
    }

    pub fn units(&self) -> usize {
        self.work.rows.div_ceil(self.rows_per_unit)
    }

    /// SAFETY: as `Task::run`. An index outside the table reads row 0: data and tokens are checked where they enter.
    pub unsafe fn run(&self, units: Range<usize>) {
        let rows = units.start * self.rows_per_unit..(units.end * self.rows_per_unit).min(self.work.rows);
        if self.in_place {
            return self.addresses(rows);
        }
        #[cfg(target_arch = "x86_64")]
        match self.isa {
            Isa::Avx512 | Isa::Amx => return self.rows_avx512(rows),
            Isa::Avx2 => return self.rows_avx2(rows),
            Isa::Portable => {}
        }
        self.rows(rows)
    }

    /// SAFETY: as `run`; a row is wider than an address.
    unsafe fn addresses(&self, rows: Range<usize>) {
        let row_bytes = self.work.width * self.from.bytes();
        for r in rows {
            *(self.out as *mut *const u8).add(r) = self.table.add(self.row(r) * row_bytes);
        }
    }

    /// Rows of f32 or bytes by masked vectors; the rest as on other machines.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
    unsafe fn rows_avx512(&self, rows: Range<usize>) {
        use std::arch::x86_64::*;
        let width = self.work.width;
        let as_they_are = self.to == self.from || (self.from, self.to) == (DType::I32, DType::F32);
        if width == 1 && as_they_are && self.from != DType::U8 && self.work.affine.is_none() {
            return self.column_avx512(rows);
        }
        if self.to != DType::F32 || self.from == DType::I32 {
            return self.rows(rows);
        }
        if width <= 16 && self.from == DType::F32 && self.work.affine.is_none() {
            let mask = ((1u32 << width) - 1) as u16;
            for r in rows {
                let from = (self.table as *const f32).add(self.row(r) * width);
                _mm512_mask_storeu_ps((self.out as *mut f32).add(r * width), mask, _mm512_maskz_loadu_ps(mask, from));
            }
            return;
        }
        let (scale, shift) = self.work.affine.unwrap_or((1.0, 0.0));
        let (scale, shift) = (_mm512_set1_ps(scale), _mm512_set1_ps(shift));
        let row_bytes = width * self.from.bytes();
        for r in rows {
            let from = self.table.add(self.row(r) * row_bytes);
            let to = (self.out as *mut f32).add(r * width);
            for c in (0..width).step_by(16) {
                let mask = if width - c >= 16 { 0xFFFF } else { (1u16 << (width - c)) - 1 };
                let x = match self.from {
                    DType::U8 => {
                        let bytes = _mm_maskz_loadu_epi8(mask, from.add(c) as *const i8);
                        _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))
                    }
                    DType::F32 | DType::I32 => _mm512_maskz_loadu_ps(mask, (from as *const f32).add(c)),
                };
                let y = if self.work.affine.is_some() { _mm512_fmadd_ps(x, scale, shift) } else { x };
                _mm512_mask_storeu_ps(to.add(c), mask, y);
            }
        }
    }

    /// Rows of one number each, sixteen at a time; whole numbers become what is asked for.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
    unsafe fn column_avx512(&self, rows: Range<usize>) {
        use std::arch::x86_64::*;
        let last = _mm512_set1_epi32(self.work.table_rows.min(i32::MAX as usize) as i32);
        for r in rows.clone().step_by(16) {
            let left = rows.end - r;
            let mask = if left >= 16 { 0xFFFF } else { (1u16 << left) - 1 };
            let index = _mm512_maskz_loadu_epi32(mask, self.indices.add(r));
            // a row that does not exist reads row 0
            let inside = _mm512_cmplt_epu32_mask(index, last);
            let index = _mm512_maskz_mov_epi32(inside, index);
            let mut x = _mm512_mask_i32gather_epi32::<4>(_mm512_setzero_si512(), mask, index, self.table as *const i32);
            if self.to != self.from {
                x = _mm512_castps_si512(_mm512_cvtepi32_ps(x));
            }
            _mm512_mask_storeu_epi32((self.out as *mut i32).add(r), mask, x);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn rows_avx2(&self, rows: Range<usize>) {
        self.rows(rows)
    }

    #[inline(always)]
    unsafe fn rows(&self, rows: Range<usize>) {
        let width = self.work.width;
        let row_bytes = width * self.from.bytes();
        for r in rows {
            let from = self.table.add(self.row(r) * row_bytes);
            let to = self.out.add(r * width * self.to.bytes());
            match (self.from, self.to) {
                (DType::F32, DType::F32) => self.widen(from as *const f32, to as *mut f32, |x| x),
                (DType::U8, DType::F32) => self.widen(from, to as *mut f32, |x| x as f32),
                (DType::I32, DType::F32) => self.widen(from as *const i32, to as *mut f32, |x| x as f32),
                (DType::I32, _) | (DType::U8, _) | (DType::F32, _) => {
                    std::ptr::copy_nonoverlapping(from, to, row_bytes)
                }
            }
        }
    }

    /// The table row for position `r`, row 0 for one that does not exist.
    #[inline(always)]
    unsafe fn row(&self, r: usize) -> usize {
        let index = *self.indices.add(r) as usize;
        if index < self.work.table_rows { index } else { 0 }
    }

    /// See [`crate::kernels::Task::lines_ahead`].
    pub fn lines_ahead(&self) -> usize {
        if self.prefetch { self.work.rows * (1 + self.work.width * self.from.bytes() / 64) } else { 0 }
    }

    /// Asks memory for what these units will read in the next step: part `n` of `of`. A few lines at a time, between kernels:
    /// all at once would wait for the processor's few outstanding misses.
    ///
    /// SAFETY: as `Task::run`; the next batch's indices are complete.
    pub unsafe fn ask_ahead(&self, units: &Range<usize>, share: Share) {
        if !self.prefetch {
            return;
        }
        let row_bytes = self.work.width * self.from.bytes();
        let first = units.start * self.rows_per_unit;
        let rows = (units.end * self.rows_per_unit).min(self.work.rows) - first;
        for r in share.of(rows) {
            let ahead = *self.next.add(first + r) as usize;
            if ahead < self.work.table_rows {
                prefetch(self.table.wrapping_add(ahead * row_bytes), row_bytes);
            }
        }
    }

    #[inline(always)]
    unsafe fn widen<T: Copy>(&self, from: *const T, to: *mut f32, value: impl Fn(T) -> f32) {
        let width = self.work.width;
        if width == 1 && self.work.affine.is_none() {
            *to = value(*from);
            return;
        }
        match self.work.affine {
            Some((scale, shift)) => (0..width).for_each(|c| *to.add(c) = value(*from.add(c)) * scale + shift),
            None => (0..width).for_each(|c| *to.add(c) = value(*from.add(c))),
        }
    }
}

fn tables(plan: &Plan) -> usize {
    let table = |call: &Call| if let Work::Gather(g) = &call.work { Some(g.table) } else { None };
    let mut ids: Vec<usize> = plan.calls.iter().filter_map(table).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().map(|id| plan.buffers[id].shape.elements() * plan.buffers[id].dtype.bytes()).sum()
}
