//! Products with an epilogue. A unit is one tile of the result; the sum over k runs in order inside it, so the bits do not
//! depend on who computes which tile.

use std::ops::Range;

use citius_graph::DType;
use citius_plan::{Matmul, Operand};

use crate::interpreter::{self, BLOCK, Source};
use crate::isa::Isa;
use crate::kernels::loops::{MOST_OPERANDS, outer_offset};

pub struct MatmulTask {
    work: Matmul,
    kernel: Kernel,
    /// Rows and columns of a tile.
    tile: (usize, usize),
    /// Tiles below each other, and beside each other.
    bands: usize,
    panels: usize,
    a: *const f32,
    b: *const f32,
    bases: Vec<*mut u8>,
}

enum Kernel {
    Compiled(Isa),
    #[cfg(target_arch = "x86_64")]
    Generated(Box<crate::x86::MatmulKernel>),
}

/// Tile of the compiled kernels.
const ROWS: usize = 6;
const COLS: usize = 16;

impl MatmulTask {
    pub fn new(work: &Matmul, isa: Isa) -> MatmulTask {
        let work = with_wide_result(work.clone());
        let kernel = Kernel::new(&work, isa);
        let tile = match &kernel {
            Kernel::Compiled(_) => (ROWS, COLS),
            #[cfg(target_arch = "x86_64")]
            Kernel::Generated(kernel) => kernel.tile(),
        };
        MatmulTask {
            kernel,
            tile,
            bands: work.m.div_ceil(tile.0),
            panels: work.n.div_ceil(tile.1),
            a: std::ptr::null(),
            b: std::ptr::null(),
            bases: vec![std::ptr::null_mut(); work.operands.len()],
            work,
        }
    }

    pub fn bind(&mut self, pointers: &[*mut u8]) {
        // SAFETY: offsets are inside the buffers (plan verifier).
        unsafe {
            self.a = (pointers[self.work.a.buffer] as *const f32).add(self.work.a.offset);
            self.b = (pointers[self.work.b.buffer] as *const f32).add(self.work.b.offset);
            for (base, o) in self.bases.iter_mut().zip(&self.work.operands) {
                *base = pointers[o.buffer].add(o.offset * o.dtype.bytes());
            }
        }
    }

    pub fn units(&self) -> usize {
        self.work.outer.iter().product::<usize>() * self.bands * self.panels
    }

    /// SAFETY: as `Task::run`; reach of all operands is checked by the plan's verifier.
    pub unsafe fn run(&self, units: Range<usize>) {
        // panels outside: a panel of B stays in the cache for all bands
        let mut band = units.start;
        let (mut outer, mut panel) = (0, 0);
        if band >= self.bands {
            let per_outer = self.bands * self.panels;
            (outer, panel, band) = (band / per_outer, band % per_outer / self.bands, band % self.bands);
        }
        let mut left = units.len();
        while left > 0 {
            let count = left.min(self.bands - band);
            self.run_bands(outer, panel, band, count);
            left -= count;
            band = 0;
            panel += 1;
            if panel == self.panels {
                panel = 0;
                outer += 1;
            }
        }
    }

    /// `count` tiles below each other.
    unsafe fn run_bands(&self, outer: usize, panel: usize, band: usize, count: usize) {
        let work = &self.work;
        let (tile_rows, tile_cols) = self.tile;
        let (row, col) = (band * tile_rows, panel * tile_cols);
        let cols = tile_cols.min(work.n - col);
        let mut a = self.a.add(row * work.a.row);
        let mut b = self.b.add(col);
        let mut table = [std::mem::MaybeUninit::<*mut u8>::uninit(); MOST_OPERANDS];
        for (i, o) in work.operands.iter().enumerate() {
            table[i].write(self.bases[i].add((row * o.row + col * o.col) * 4));
        }
        // the operands were written above, and nobody looks at the others
        let table = &mut *(table.as_mut_ptr() as *mut [*mut u8; MOST_OPERANDS]);
        if outer > 0 {
            let at = |o: &Operand| outer_offset(o, &work.outer, outer);
            a = a.add(at(&work.a));
            b = b.add(at(&work.b));
            for (i, o) in work.operands.iter().enumerate() {
                table[i] = table[i].add(at(o) * 4);
            }
        }
        match &self.kernel {
            Kernel::Compiled(isa) => {
                for n in 0..count {
                    let rows = tile_rows.min(work.m - row - n * tile_rows);
                    compiled(*isa, work, a.add(n * tile_rows * work.a.row), b, table, rows, cols);
                    for (i, o) in work.operands.iter().enumerate() {
                        table[i] = table[i].add(tile_rows * o.row * 4);
                    }
                }
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Generated(kernel) => {
                let whole = count.min((work.m - row) / tile_rows);
                if whole > 0 {
                    kernel.run(a, b, table, tile_rows, cols, whole);
                }
                if whole < count {
                    let down = whole * tile_rows;
                    for (i, o) in work.operands.iter().enumerate() {
                        table[i] = table[i].add(down * o.row * 4);
                    }
                    kernel.run(a.add(down * work.a.row), b, table, work.m - row - down, cols, 1);
                }
            }
        }
    }
}

/// A column result of a left side stored in columns is the row result of the sides exchanged: `(AᵀB)ᵀ = BᵀA`.
fn with_wide_result(work: Matmul) -> Matmul {
    let column = work.n == 1 && work.m > 1 && work.a.row == 1;
    if !column {
        return work;
    }
    let swap = |o: Operand| Operand { row: o.col, col: o.row, ..o };
    Matmul {
        m: 1,
        n: work.m,
        a: Operand { row: 0, col: work.b.row, ..work.b },
        b: Operand { row: work.a.col, col: 1, ..work.a },
        operands: work.operands.into_iter().map(swap).collect(),
        ..work
    }
}

impl Kernel {
    fn new(work: &Matmul, isa: Isa) -> Kernel {
        debug_assert!(work.operands.iter().all(|o| o.dtype == DType::F32), "epilogues read and write f32");
        #[cfg(target_arch = "x86_64")]
        if isa == Isa::Avx512
            && let Some(kernel) = crate::x86::MatmulKernel::new(work)
        {
            return Kernel::Generated(Box::new(kernel));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = work;
        Kernel::Compiled(isa)
    }
}

unsafe fn compiled(isa: Isa, work: &Matmul, a: *const f32, b: *const f32, table: &[*mut u8], rows: usize, cols: usize) {
    match isa {
        Isa::Portable => tile::<false>(work, a, b, table, rows, cols),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => tile_avx2(work, a, b, table, rows, cols),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => tile::<false>(work, a, b, table, rows, cols),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn tile_avx2(work: &Matmul, a: *const f32, b: *const f32, table: &[*mut u8], rows: usize, cols: usize) {
    tile::<true>(work, a, b, table, rows, cols)
}

#[inline(always)]
unsafe fn tile<const FMA: bool>(
    work: &Matmul,
    a: *const f32,
    b: *const f32,
    table: &[*mut u8],
    rows: usize,
    cols: usize,
) {
    let mut sums = [[0.0f32; COLS]; ROWS];
    if rows == ROWS && cols == COLS {
        for k in 0..work.k {
            let line = &*(b.add(k * work.b.row) as *const [f32; COLS]);
            for (i, sum) in sums.iter_mut().enumerate() {
                let x = *a.add(i * work.a.row + k * work.a.col);
                for j in 0..COLS {
                    sum[j] = if FMA { x.mul_add(line[j], sum[j]) } else { x * line[j] + sum[j] };
                }
            }
        }
    } else {
        for k in 0..work.k {
            for (i, sum) in sums.iter_mut().enumerate().take(rows) {
                let x = *a.add(i * work.a.row + k * work.a.col);
                for (j, s) in sum.iter_mut().enumerate().take(cols) {
                    let y = *b.add(k * work.b.row + j);
                    *s = if FMA { x.mul_add(y, *s) } else { x * y + *s };
                }
            }
        }
    }
    const { assert!(COLS <= BLOCK) };
    interpreter::with_registers(&work.program, |registers| {
        for (i, sum) in sums.iter().enumerate().take(rows) {
            let at = |o: usize| table[o].add(i * work.operands[o].row * work.operands[o].dtype.bytes());
            let source =
                |o: usize| Source { pointer: at(o), dtype: work.operands[o].dtype, stride: work.operands[o].col };
            interpreter::run::<FMA>(&work.program, registers, cols, source, sum);
            for &(value, target) in &work.stores {
                debug_assert_eq!(work.operands[target].dtype, DType::F32);
                let (to, stride) = (at(target) as *mut f32, work.operands[target].col);
                for (j, &x) in registers.value(value, cols).iter().enumerate() {
                    *to.add(j * stride) = x;
                }
            }
        }
    });
}
