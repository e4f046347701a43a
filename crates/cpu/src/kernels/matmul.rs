//! Products with an epilogue. A unit is one tile of the result; the sum over k runs in order inside it, so the bits do not
//! depend on who computes which tile.

use std::ops::Range;

use citius_graph::DType;
use citius_plan::{MOST_OPERANDS, Matmul, Operand, Plan};

use crate::interpreter::{self, BLOCK, Source};
use crate::isa::Isa;
use crate::kernels::Found;
use crate::kernels::loops::outer_offset;
#[cfg(target_arch = "x86_64")]
use crate::kernels::nonzeros::Sparse;
#[cfg(target_arch = "x86_64")]
use crate::kernels::skipping::Skipping;
#[cfg(target_arch = "x86_64")]
use crate::x86::nonzeros::Side;
#[cfg(target_arch = "x86_64")]
use crate::x86::odd::{self, Odd};

pub struct MatmulTask {
    work: Matmul,
    kernel: Kernel,
    /// For a left side of bytes, when most of them are zero.
    #[cfg(target_arch = "x86_64")]
    sparse: Option<Box<Sparse>>,
    /// For a side that has many zeros.
    #[cfg(target_arch = "x86_64")]
    skipping: Option<Skipping>,
    /// Panels of the right side are copied together before they are multiplied.
    #[cfg(target_arch = "x86_64")]
    packs: bool,
    /// Sides are of pairs; the right one lies in panels, from end to end.
    pairs: bool,
    /// `a` leads to the addresses of the left side's rows, not to their elements.
    #[cfg(target_arch = "x86_64")]
    rows_in_place: Option<Side>,
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
    pub fn new(work: &Matmul, plan: &Plan, isa: Isa, found: &Found) -> MatmulTask {
        #[cfg(target_arch = "x86_64")]
        let rows_in_place = super::in_place::side_of(plan, isa, work);
        let work = with_wide_result(work.clone());
        #[cfg(target_arch = "x86_64")]
        let (kernel, packs) = Kernel::new(&work, isa, rows_in_place);
        #[cfg(not(target_arch = "x86_64"))]
        let kernel = Kernel::Compiled(isa);
        let tile = match &kernel {
            Kernel::Compiled(_) => (ROWS, COLS),
            #[cfg(target_arch = "x86_64")]
            Kernel::Generated(kernel) => kernel.tile(),
        };
        #[cfg(target_arch = "x86_64")]
        let sparse = match kernel {
            Kernel::Compiled(_) => None,
            Kernel::Generated(_) => Sparse::new(&work, found).map(Box::new),
        };
        #[cfg(target_arch = "x86_64")]
        let skipping = match kernel {
            Kernel::Generated(_) if sparse.is_none() && rows_in_place.is_none() => {
                Skipping::new(&work, plan, isa, tile)
            }
            _ => None,
        };
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (found, plan);
        MatmulTask {
            kernel,
            #[cfg(target_arch = "x86_64")]
            sparse,
            #[cfg(target_arch = "x86_64")]
            skipping,
            #[cfg(target_arch = "x86_64")]
            packs,
            pairs: false,
            #[cfg(target_arch = "x86_64")]
            rows_in_place,
            tile,
            bands: work.m.div_ceil(tile.0),
            panels: work.n.div_ceil(tile.1),
            a: std::ptr::null(),
            b: std::ptr::null(),
            bases: vec![std::ptr::null_mut(); work.operands.len()],
            work,
        }
    }

    /// A product of pairs of bfloat16, as [`crate::halves`] makes it. `None` where generated code has no answer.
    #[cfg(target_arch = "x86_64")]
    pub fn of_pairs(work: &Matmul) -> Option<MatmulTask> {
        let kernel = crate::x86::MatmulKernel::of_pairs(work)?;
        let tile = kernel.tile();
        Some(MatmulTask {
            kernel: Kernel::Generated(Box::new(kernel)),
            sparse: None,
            skipping: None,
            packs: false,
            pairs: true,
            rows_in_place: None,
            tile,
            bands: work.m.div_ceil(tile.0),
            panels: work.n.div_ceil(tile.1),
            a: std::ptr::null(),
            b: std::ptr::null(),
            bases: vec![std::ptr::null_mut(); work.operands.len()],
            work: work.clone(),
        })
    }

    #[cfg(target_arch = "x86_64")]
    pub fn is_of_pairs(&self) -> bool {
        self.pairs
    }

    #[cfg(target_arch = "x86_64")]
    pub fn sparse(&self) -> Option<&Sparse> {
        self.sparse.as_deref()
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
        #[cfg(target_arch = "x86_64")]
        if let Some(skipping) = &self.skipping {
            return skipping.units();
        }
        self.work.outer.iter().product::<usize>() * self.bands * self.panels
    }

    /// About `units` units: whole panels where they are that many.
    pub fn grain(&self, units: usize) -> usize {
        #[cfg(target_arch = "x86_64")]
        if self.skipping.is_some() {
            return 1;
        }
        if 2 * units > self.bands { units.next_multiple_of(self.bands) } else { units.max(1) }
    }

    /// Less than 1 where zeros are skipped, as many as there usually are.
    pub fn share(&self) -> f64 {
        #[cfg(target_arch = "x86_64")]
        if self.skipping.is_some() {
            return 0.6;
        }
        1.0
    }

    /// SAFETY: as `Task::run`; reach of all operands is checked by the plan's verifier.
    pub unsafe fn run(&self, units: Range<usize>) {
        #[cfg(target_arch = "x86_64")]
        if let Some(sparse) = self.sparse.as_ref().filter(|s| s.applies()) {
            return sparse.run(&self.work, units, self.units(), self.b, &self.bases);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(skipping) = &self.skipping {
            units.for_each(|unit| self.skip_zeros(skipping, unit));
            return;
        }
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

    /// A unit of rows, or of columns, without its zeros; by tiles where there are too few.
    #[cfg(target_arch = "x86_64")]
    unsafe fn skip_zeros(&self, skipping: &Skipping, unit: usize) {
        if skipping.run(&self.work, unit, self.a, self.b, &self.bases) {
            return;
        }
        let (lines, cols) = (skipping.lines(unit), self.tile.1);
        if skipping.turned() {
            for panel in lines.start / cols..lines.end.div_ceil(cols) {
                self.run_bands(0, panel, 0, self.bands);
            }
        } else {
            self.run_rows(lines);
        }
    }

    /// The tiles of these rows, which are those of whole bands.
    #[cfg(target_arch = "x86_64")]
    unsafe fn run_rows(&self, lines: Range<usize>) {
        let bands = lines.start / self.tile.0..lines.end.div_ceil(self.tile.0);
        (0..self.panels).for_each(|panel| self.run_bands(0, panel, bands.start, bands.len()));
    }

    /// `count` tiles below each other.
    unsafe fn run_bands(&self, outer: usize, panel: usize, band: usize, count: usize) {
        let work = &self.work;
        let (tile_rows, tile_cols) = self.tile;
        let (row, col) = (band * tile_rows, panel * tile_cols);
        let cols = tile_cols.min(work.n - col);
        let mut a = self.a;
        let mut b = self.b.add(if self.pairs { col * work.k } else { col });
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
                    compiled(*isa, work, a.add((row + n * tile_rows) * work.a.row), b, table, rows, cols);
                    for (i, o) in work.operands.iter().enumerate() {
                        table[i] = table[i].add(tile_rows * o.row * 4);
                    }
                }
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Generated(kernel) => {
                if self.packs {
                    b = pack(b, work.b.row, work.k, cols, tile_cols);
                }
                let mut apart = Apart::uninit();
                if let Some(odd) = kernel.odd(cols) {
                    if odd == Odd::AlongK {
                        copy_column(b.add(cols - 1), work.b.row, work.k, &mut apart);
                    }
                    table[work.operands.len()] = apart.as_mut_ptr() as *mut u8;
                }
                // where rows are given by their addresses: which ones, and how far along them
                let left = |a: *const f32, row: usize| match self.rows_in_place {
                    None => (a.add(row * work.a.row), 0),
                    Some(Side::Rows) => ((self.a as *const *const f32).add(row) as *const f32, 0),
                    Some(Side::Columns) => (self.a, row),
                };
                let whole = count.min((work.m - row) / tile_rows);
                if whole > 0 {
                    kernel.run(left(a, row), b, table, tile_rows, cols, whole);
                }
                if whole < count {
                    let down = whole * tile_rows;
                    for (i, o) in work.operands.iter().enumerate() {
                        table[i] = table[i].add(down * o.row * 4);
                    }
                    kernel.run(left(a, row + down), b, table, work.m - row - down, cols, 1);
                }
            }
        }
    }
}

/// A column result of a left side stored in columns is the row result of the sides exchanged: `(AᵀB)ᵀ = BᵀA`.
fn with_wide_result(work: Matmul) -> Matmul {
    let column = work.n == 1 && work.m > 1 && work.a.row == 1 && work.deep.is_empty();
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

#[cfg(target_arch = "x86_64")]
impl Kernel {
    /// The kernel, and whether it reads panels of the right side that are packed.
    fn new(work: &Matmul, isa: Isa, rows_in_place: Option<Side>) -> (Kernel, bool) {
        debug_assert!(work.operands.iter().all(|o| o.dtype == DType::F32), "epilogues read and write f32");
        if isa >= Isa::Avx512
            && let Some(kernel) = crate::x86::MatmulKernel::new(work, rows_in_place)
        {
            let (rows, cols) = kernel.tile();
            let far = work.b.row >= FAR && work.b.col == 1 && work.k >= FAR / 16;
            let often = work.m / rows >= OFTEN && work.deep.is_empty() && rows_in_place.is_none();
            let packed = Matmul { b: Operand { row: cols, ..work.b.clone() }, ..work.clone() };
            return match crate::x86::MatmulKernel::new(&packed, None)
                .filter(|k| far && often && k.tile() == (rows, cols))
            {
                Some(packed) => (Kernel::Generated(Box::new(packed)), true),
                None => (Kernel::Generated(Box::new(kernel)), false),
            };
        }
        (Kernel::Compiled(isa), false)
    }
}

/// The sums of a column that are taken apart, and that column.
#[cfg(target_arch = "x86_64")]
type Apart = std::mem::MaybeUninit<[f32; odd::SUMS + odd::LONGEST]>;

/// SAFETY: element i is at `b + i·row`, for i below `k`, which is at most [`odd::LONGEST`].
#[cfg(target_arch = "x86_64")]
unsafe fn copy_column(b: *const f32, row: usize, k: usize, apart: &mut Apart) {
    let to = (apart.as_mut_ptr() as *mut f32).add(odd::SUMS);
    for i in 0..k {
        to.add(i).write(*b.add(i * row));
    }
}

/// Rows of a panel that lie this many numbers apart, or more, fall on few sets of the caches: they would push each other out.
#[cfg(target_arch = "x86_64")]
const FAR: usize = 1024;
/// Bands that read a panel for which it is worth copying.
#[cfg(target_arch = "x86_64")]
const OFTEN: usize = 8;

/// `k` rows of `cols` numbers, one after the other, each with room for `wide`; they stay until the next call on this thread.
///
/// SAFETY: row i is at `b + i·row`.
#[cfg(target_arch = "x86_64")]
unsafe fn pack(b: *const f32, row: usize, k: usize, cols: usize, wide: usize) -> *const f32 {
    use crate::memory::Aligned;
    thread_local! {
        static PANEL: std::cell::RefCell<(usize, Aligned)> = std::cell::RefCell::new((0, Aligned::new(0)));
    }
    PANEL.with_borrow_mut(|(room, panel)| {
        let bytes = k * wide * 4;
        if *room < bytes {
            (*room, *panel) = (bytes, Aligned::new(bytes));
        }
        let to = panel.pointer() as *mut f32;
        for i in 0..k {
            std::ptr::copy_nonoverlapping(b.add(i * row), to.add(i * wide), cols);
        }
        to as *const f32
    })
}

unsafe fn compiled(isa: Isa, work: &Matmul, a: *const f32, b: *const f32, table: &[*mut u8], rows: usize, cols: usize) {
    match isa {
        Isa::Portable => tile_portable(work, a, b, table, rows, cols),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 | Isa::Amx => tile_avx2(work, a, b, table, rows, cols),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 | Isa::Amx => tile_portable(work, a, b, table, rows, cols),
    }
}

/// The sums of a tile, rows apart by [`COLS`].
type Sums = [[f32; COLS]; ROWS];

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn tile_avx2(work: &Matmul, a: *const f32, b: *const f32, table: &[*mut u8], rows: usize, cols: usize) {
    let mut sums: Sums = [[0.0; COLS]; ROWS];
    match rows {
        1 => multiply_avx2::<1>(work, a, b, cols, &mut sums),
        2 => multiply_avx2::<2>(work, a, b, cols, &mut sums),
        3 => multiply_avx2::<3>(work, a, b, cols, &mut sums),
        4 => multiply_avx2::<4>(work, a, b, cols, &mut sums),
        5 => multiply_avx2::<5>(work, a, b, cols, &mut sums),
        _ => multiply_avx2::<6>(work, a, b, cols, &mut sums),
    }
    epilogue::<true>(work, &sums, table, rows, cols)
}

/// `R` rows by two vectors: twelve accumulators at most, of sixteen registers.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn multiply_avx2<const R: usize>(work: &Matmul, a: *const f32, b: *const f32, cols: usize, sums: &mut Sums) {
    use std::arch::x86_64::*;
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let mask = |from: usize| _mm256_cmpgt_epi32(_mm256_set1_epi32(cols as i32 - from as i32), lanes);
    let (first, second) = (mask(0), mask(8));
    let (whole, wide) = (cols == COLS, cols > 8);
    let mut low = [_mm256_setzero_ps(); R];
    let mut high = [_mm256_setzero_ps(); R];
    let (row, col) = (work.a.row, work.a.col);
    for (a, b) in work.turns().map(|at| (a.add(at.0), b.add(at.1))) {
        for k in 0..work.k {
            let line = b.add(k * work.b.row);
            let (x, y) = match (whole, wide) {
                (true, _) => (_mm256_loadu_ps(line), _mm256_loadu_ps(line.add(8))),
                (false, true) => (_mm256_loadu_ps(line), _mm256_maskload_ps(line.add(8), second)),
                (false, false) => (_mm256_maskload_ps(line, first), _mm256_setzero_ps()),
            };
            let column = a.add(k * col);
            for i in 0..R {
                let s = _mm256_broadcast_ss(&*column.add(i * row));
                low[i] = _mm256_fmadd_ps(s, x, low[i]);
                if wide {
                    high[i] = _mm256_fmadd_ps(s, y, high[i]);
                }
            }
        }
    }
    for i in 0..R {
        _mm256_storeu_ps(sums[i].as_mut_ptr(), low[i]);
        _mm256_storeu_ps(sums[i].as_mut_ptr().add(8), high[i]);
    }
}

/// The same in plain code, for the compiler to vectorise as it can.
unsafe fn tile_portable(work: &Matmul, a: *const f32, b: *const f32, table: &[*mut u8], rows: usize, cols: usize) {
    let mut sums: Sums = [[0.0; COLS]; ROWS];
    let mut line = [0.0f32; COLS];
    for (a, b) in work.turns().map(|at| (a.add(at.0), b.add(at.1))) {
        for k in 0..work.k {
            std::ptr::copy_nonoverlapping(b.add(k * work.b.row), line.as_mut_ptr(), cols);
            for (i, sum) in sums.iter_mut().enumerate().take(rows) {
                let x = *a.add(i * work.a.row + k * work.a.col);
                sum.iter_mut().zip(&line).for_each(|(s, y)| *s += x * y);
            }
        }
    }
    epilogue::<false>(work, &sums, table, rows, cols)
}

/// Runs the epilogue on a whole tile at once, its rows one after the other in a block.
#[inline(always)]
unsafe fn epilogue<const FMA: bool>(work: &Matmul, sums: &Sums, table: &[*mut u8], rows: usize, cols: usize) {
    const { assert!(ROWS * COLS <= BLOCK) };
    let n = rows * cols;
    let mut product = [0.0f32; ROWS * COLS];
    for (line, sum) in product.chunks_exact_mut(cols).zip(sums).take(rows) {
        line.copy_from_slice(&sum[..cols]);
    }
    let registers = &mut *interpreter::registers(&work.program);
    let at = |o: usize, row: usize| table[o].add(row * work.operands[o].row * 4);
    let load = |o: usize, out: &mut [f32]| {
        let operand = &work.operands[o];
        for (row, out) in out.chunks_exact_mut(cols).enumerate() {
            Source { pointer: at(o, row), dtype: operand.dtype, stride: operand.col }.read(out);
        }
    };
    interpreter::run::<FMA>(&work.program, registers, n, cols, load, &product);
    for &(value, target) in &work.stores {
        let stride = work.operands[target].col;
        for (row, line) in registers.value(value, n).chunks_exact(cols).enumerate() {
            let to = at(target, row) as *mut f32;
            match stride {
                1 => std::ptr::copy_nonoverlapping(line.as_ptr(), to, cols),
                _ => line.iter().enumerate().for_each(|(j, &x)| *to.add(j * stride) = x),
            }
        }
    }
}
