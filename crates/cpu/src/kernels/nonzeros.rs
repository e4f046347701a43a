//! Pictures and counts are mostly zero. A batch that enters as bytes and is multiplied is listed as it enters: which of its
//! bytes are not zero, and what they are. Where those are few, the products walk the lists, and what a zero byte stands for is
//! added once: with `x = t(u) + shift`, `t(0) = 0`,
//!
//! ```text
//! x·W  = t(u)·W  + shift·Σ rows of W
//! xᵀ·dy = t(u)ᵀ·dy + shift·Σ rows of dy
//! ```
//!
//! Where they are many, the batch is written in full and the dense products serve. Which of the two depends on some rows of the
//! batch alone, never on threads or on time, so results stay the same bits. They differ from dense ones by rounding.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use citius_graph::DType;
use citius_plan::{BufferId, Call, Instr, Loop, MOST_OPERANDS, Matmul, Plan, Work};

use crate::isa::Isa;
use crate::memory::Aligned;
use crate::prefetch::{Share, prefetch};
use crate::x86::nonzeros::{Args, CHUNK, LIST, NonzerosKernel, PANEL, Side, lists_of};

/// Columns taken together when a batch is listed: a cache line of bytes.
const BLOCK: usize = 64;
/// A batch is listed when at most this share of its bytes is not zero: an entry costs more than its share of a dense product.
const FEW: f64 = 0.4;
/// Rows of a batch that are looked at.
const SAMPLE: usize = 8;
/// Batches and layers smaller than this are not worth a list.
const FEWEST_ROWS: usize = 8;
const FEWEST_SUMS: usize = 256;

/// Bytes of a batch that are not zero: for each chunk of rows and each pair of columns a list.
pub struct Nonzeros {
    rows: usize,
    width: usize,
    scale: f32,
    shift: f32,
    lists: Aligned,
    /// What each byte stands for, less `shift`.
    values: Aligned,
    /// The batch at hand is listed; else it is written in full.
    listed: AtomicBool,
    /// Not only products that walk the lists read the batch: it is always written in full.
    in_full: AtomicBool,
}

impl Nonzeros {
    /// Batches worth listing, each with the buffer that holds it in full.
    pub fn find(plan: &Plan, isa: Isa) -> Vec<(BufferId, Arc<Nonzeros>)> {
        if isa < Isa::Avx512 {
            return vec![];
        }
        plan.calls.iter().filter_map(|call| Entering::new(&call.work, plan)).filter_map(|e| e.lists(plan)).collect()
    }

    /// Once it is known how many products walk the lists of the batch in `buffer`.
    pub fn settle(&self, plan: &Plan, buffer: BufferId, walkers: usize) {
        let readers = plan.calls.iter().filter(|c| c.work.touches().0.contains(&buffer)).count();
        let named = plan.outputs.iter().any(|o| o.1 == buffer);
        self.in_full.store(walkers < readers || named, Ordering::Relaxed);
    }

    fn blocks(&self) -> usize {
        self.width.div_ceil(BLOCK)
    }

    fn list(&self, chunk: usize, pair: usize) -> *mut u8 {
        // in bounds: `lists` was sized for every chunk and pair
        self.lists.pointer().wrapping_add((chunk * lists_of(self.width) + pair) * LIST)
    }
}

/// A call by which bytes enter a step as numbers.
struct Entering {
    out: BufferId,
    table: BufferId,
    /// `None`: all rows of the table, in order.
    indices: Option<BufferId>,
    rows: usize,
    table_rows: usize,
    width: usize,
    affine: (f32, f32),
}

impl Entering {
    fn new(work: &Work, plan: &Plan) -> Option<Entering> {
        match work {
            Work::Gather(g) => {
                let bytes = plan.buffers[g.table].dtype == DType::U8 && plan.buffers[g.out].dtype == DType::F32;
                bytes.then(|| Entering {
                    out: g.out,
                    table: g.table,
                    indices: Some(g.indices),
                    rows: g.rows,
                    table_rows: g.table_rows,
                    width: g.width,
                    affine: g.affine.unwrap_or((1.0, 0.0)),
                })
            }
            Work::Loop(l) => {
                let [from, to] = l.operands.as_slice() else { return None };
                let &[rows, width] = plan.buffers[to.buffer].shape.dims() else { return None };
                let bytes = from.dtype == DType::U8 && to.dtype == DType::F32;
                let whole = from.offset == 0 && to.offset == 0 && l.outer.is_empty() && l.rows * l.cols == rows * width;
                let straight = |o: &citius_plan::Operand| o.col == 1 && (o.row == l.cols || l.rows == 1);
                let plain = bytes && whole && straight(from) && straight(to) && l.folds.is_empty();
                let affine = affine(l)?;
                plain.then_some(Entering {
                    out: to.buffer,
                    table: from.buffer,
                    indices: None,
                    rows,
                    table_rows: rows,
                    width,
                    affine,
                })
            }
            Work::Matmul(_) | Work::Scatter(_) | Work::Random(_) | Work::ArgMax(_) => None,
            Work::Recurrence(_) | Work::RecurrenceGradient(_) => None,
        }
    }

    /// Lists for it, if a product large enough takes it as its left side.
    fn lists(&self, plan: &Plan) -> Option<(BufferId, Arc<Nonzeros>)> {
        let worthwhile = |call: &Call| match &call.work {
            Work::Matmul(m) => side(m, self.out, self.rows, self.width).is_some() && self.rows * m.n >= FEWEST_SUMS,
            _ => false,
        };
        let writers = plan.calls.iter().filter(|c| c.work.touches().1.contains(&self.out)).count();
        if writers != 1 || self.rows < FEWEST_ROWS || !plan.calls.iter().any(worthwhile) {
            return None;
        }
        let chunks = self.rows.div_ceil(CHUNK);
        let lists = Aligned::try_new(chunks * lists_of(self.width) * LIST + 64).ok()?;
        let (scale, shift) = self.affine;
        let values = Aligned::new(256 * 4);
        for u in 0..256 {
            // SAFETY: holds 256 values.
            unsafe { *(values.pointer() as *mut f32).add(u) = (u as f32).mul_add(scale, shift) - shift };
        }
        let (rows, width) = (self.rows, self.width);
        let (listed, in_full) = (AtomicBool::new(false), AtomicBool::new(true));
        Some((self.out, Arc::new(Nonzeros { rows, width, scale, shift, lists, values, listed, in_full })))
    }
}

/// `(scale, shift)` of a loop that does nothing else to the one value it loads.
fn affine(work: &Loop) -> Option<(f32, f32)> {
    let &[(result, 1)] = work.stores.as_slice() else { return None };
    let instrs = &work.program.instrs;
    let constant = |v: usize| if let Instr::Const(c) = instrs[v] { Some(c) } else { None };
    let loaded = |v: usize| instrs[v] == Instr::Load(0);
    match instrs[result] {
        Instr::Load(0) => Some((1.0, 0.0)),
        Instr::MulAdd(x, s, c) if loaded(x) => Some((constant(s)?, constant(c)?)),
        Instr::MulAdd(s, x, c) if loaded(x) => Some((constant(s)?, constant(c)?)),
        Instr::Binary(citius_graph::scalar::Binary::Mul, x, s) if loaded(x) => Some((constant(s)?, 0.0)),
        Instr::Binary(citius_graph::scalar::Binary::Mul, s, x) if loaded(x) => Some((constant(s)?, 0.0)),
        _ => None,
    }
}

/// How a product takes the batch `[rows, width]` in `buffer` as its left side.
pub fn side(work: &Matmul, buffer: BufferId, rows: usize, width: usize) -> Option<Side> {
    let a = &work.a;
    if a.buffer != buffer || a.offset != 0 || !work.outer.is_empty() || !work.deep.is_empty() || work.b.buffer == buffer
    {
        return None;
    }
    // along an axis of one element a stride says nothing
    let walks = |m: usize, k: usize, row: usize, col: usize| {
        (work.m, work.k) == (m, k) && (m == 1 || a.row == row) && (k == 1 || a.col == col)
    };
    if walks(rows, width, width, 1) {
        return Some(Side::Rows);
    }
    walks(width, rows, 1, width).then_some(Side::Columns)
}

/// Brings a batch of bytes into the step: numbers in full, and lists of those that are not zero.
pub struct EnterTask {
    from: Entering,
    to: Arc<Nonzeros>,
    table: *const u8,
    indices: *const i32,
    next: *const i32,
    out: *mut f32,
}

/// Tables beyond this do not stay in the cache by themselves.
const PREFETCH_FROM: usize = 1 << 19;

impl EnterTask {
    pub fn new(work: &Work, plan: &Plan, found: &[(BufferId, Arc<Nonzeros>)]) -> Option<EnterTask> {
        let from = Entering::new(work, plan)?;
        let to = found.iter().find(|f| f.0 == from.out)?.1.clone();
        let null = std::ptr::null_mut::<u8>();
        Some(EnterTask { from, to, table: null, indices: null as _, next: null as _, out: null as _ })
    }

    pub fn bind(&mut self, pointers: &[*mut u8], next: &dyn Fn(usize) -> Option<*const u8>) {
        self.table = pointers[self.from.table];
        self.out = pointers[self.from.out] as *mut f32;
        if let Some(indices) = self.from.indices {
            self.indices = pointers[indices] as *const i32;
            let large = self.from.table_rows * self.from.width > PREFETCH_FROM;
            self.next = next(indices).filter(|_| large).map_or(std::ptr::null(), |p| p as *const i32);
        }
    }

    /// A unit is a block of columns of a chunk of rows.
    pub fn units(&self) -> usize {
        self.from.rows.div_ceil(CHUNK) * self.to.blocks()
    }

    /// SAFETY: as `Task::run`. An index outside the table reads row 0: data and tokens are checked where they enter.
    pub unsafe fn run(&self, units: Range<usize>) {
        if units.is_empty() {
            return;
        }
        // everyone who enters a part of the batch comes to the same result
        let listed = self.few();
        self.to.listed.store(listed, Ordering::Relaxed);
        let blocks = self.to.blocks();
        for unit in units {
            let (chunk, column) = (unit / blocks, unit % blocks * BLOCK);
            let rows = chunk * CHUNK..(chunk * CHUNK + CHUNK).min(self.from.rows);
            if listed {
                self.list(chunk, rows.clone(), column);
            }
            if !listed || self.to.in_full.load(Ordering::Relaxed) {
                self.widen(rows, column);
            }
        }
    }

    /// Are few bytes of some rows of the batch, spread evenly, not zero?
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,popcnt")]
    unsafe fn few(&self) -> bool {
        use std::arch::x86_64::*;
        let (rows, width) = (self.from.rows, self.from.width);
        let sample = rows.min(SAMPLE);
        let mut count = 0;
        for i in 0..sample {
            let row = self.table.add(self.row(i * rows / sample) * width) as *const i8;
            for c in (0..width).step_by(64) {
                let bytes = _mm512_maskz_loadu_epi8(first_lanes(width - c), row.add(c));
                count += _mm512_test_epi8_mask(bytes, bytes).count_ones();
            }
        }
        count as f64 <= FEW * (sample * width) as f64
    }

    /// Sixteen rows at a time: their bytes are turned so that each vector holds four columns, and each half of its 32 bits a pair.
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,popcnt")]
    unsafe fn list(&self, chunk: usize, rows: Range<usize>, column: usize) {
        use std::arch::x86_64::*;
        let width = self.from.width;
        let mask = first_lanes(width - column);
        let low = _mm512_set1_epi32(0xFFFF);
        let high = _mm512_set1_epi32(0xFFFF_0000u32 as i32);
        let lists = self.to.list(chunk, column / 2);
        let mut lengths = [0usize; BLOCK / 2];
        let count = (width - column).min(BLOCK).div_ceil(16);
        for group in rows.clone().step_by(16) {
            let mut lines = [_mm512_setzero_si512(); 16];
            for (line, r) in lines.iter_mut().zip(group..rows.end) {
                *line = _mm512_maskz_loadu_epi8(mask, self.table.add(self.row(r) * width + column) as *const i8);
            }
            let numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            let numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32((group - rows.start) as i32));
            let numbers = _mm512_slli_epi32::<16>(numbers);
            // turned[q][i]: columns 16q.. of rows i, 4+i, 8+i, 12+i, a quarter of the vector each
            let mut turned = [[_mm512_setzero_si512(); 4]; 4];
            for i in 0..4 {
                let (a, b, c, d) = (lines[i], lines[4 + i], lines[8 + i], lines[12 + i]);
                let (ab, cd) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d));
                let (ef, gh) = (_mm512_shuffle_i32x4::<0xEE>(a, b), _mm512_shuffle_i32x4::<0xEE>(c, d));
                turned[0][i] = _mm512_shuffle_i32x4::<0x88>(ab, cd);
                turned[1][i] = _mm512_shuffle_i32x4::<0xDD>(ab, cd);
                turned[2][i] = _mm512_shuffle_i32x4::<0x88>(ef, gh);
                turned[3][i] = _mm512_shuffle_i32x4::<0xDD>(ef, gh);
            }
            for (q, [a, b, c, d]) in turned.into_iter().enumerate().take(count) {
                let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
                let (ef, gh) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
                let fours = [
                    _mm512_unpacklo_epi64(ab, cd),
                    _mm512_unpackhi_epi64(ab, cd),
                    _mm512_unpacklo_epi64(ef, gh),
                    _mm512_unpackhi_epi64(ef, gh),
                ];
                for (i, four) in fours.into_iter().enumerate() {
                    let pairs = [
                        (_mm512_test_epi32_mask(four, low), _mm512_and_si512(four, low)),
                        (_mm512_test_epi32_mask(four, high), _mm512_srli_epi32::<16>(four)),
                    ];
                    for (n, (mask, values)) in pairs.into_iter().enumerate() {
                        let pair = 8 * q + 2 * i + n;
                        let entries = _mm512_maskz_compress_epi32(mask, _mm512_or_si512(values, numbers));
                        // before this group a list holds at most as many entries as there were rows: 16 more always fit
                        _mm512_storeu_si512(lists.add(pair * LIST + 8 + lengths[pair]) as *mut _, entries);
                        lengths[pair] += 4 * mask.count_ones() as usize;
                    }
                }
            }
        }
        for (pair, &length) in lengths.iter().enumerate().take(8 * count) {
            *(lists.add(pair * LIST) as *mut u64) = length as u64;
        }
    }

    /// The batch in full.
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
    unsafe fn widen(&self, rows: Range<usize>, column: usize) {
        use std::arch::x86_64::*;
        let width = self.from.width;
        let (scale, shift) = (_mm512_set1_ps(self.to.scale), _mm512_set1_ps(self.to.shift));
        for r in rows {
            let (from, to) = (self.table.add(self.row(r) * width), self.out.add(r * width));
            for c in (column..width.min(column + BLOCK)).step_by(16) {
                let mask = first_lanes(width - c) as u16;
                let bytes = _mm_maskz_loadu_epi8(mask, from.add(c) as *const i8);
                let x = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), scale, shift);
                _mm512_mask_storeu_ps(to.add(c), mask, x);
            }
        }
    }

    /// The table row for position `r`, row 0 for one that does not exist.
    #[inline(always)]
    unsafe fn row(&self, r: usize) -> usize {
        if self.indices.is_null() {
            return r;
        }
        let index = *self.indices.add(r) as usize;
        if index < self.from.table_rows { index } else { 0 }
    }

    /// See [`crate::kernels::Task::lines_ahead`].
    pub fn lines_ahead(&self) -> usize {
        self.from.rows * (1 + self.from.width / 64)
    }

    /// Asks memory for what these units will read in the next step: part `n` of `of`.
    ///
    /// SAFETY: as `Task::run`; the next batch's indices are complete.
    pub unsafe fn ask_ahead(&self, units: &Range<usize>, share: Share) {
        if self.next.is_null() || units.is_empty() {
            return;
        }
        let blocks = self.to.blocks();
        let chunks = units.start / blocks..(units.end - 1) / blocks + 1;
        // columns of these units: of a single chunk, some
        let columns = match chunks.len() {
            1 => units.start % blocks * BLOCK..((units.end - 1) % blocks + 1) * BLOCK,
            _ => 0..self.from.width,
        };
        let first = chunks.start * CHUNK;
        let rows = (chunks.end * CHUNK).min(self.from.rows) - first;
        for r in share.of(rows) {
            let ahead = *self.next.add(first + r) as usize;
            if ahead < self.from.table_rows {
                prefetch(self.table.wrapping_add(ahead * self.from.width + columns.start), columns.len());
            }
        }
    }
}

/// A mask of the first `n` of 64 lanes.
#[inline(always)]
fn first_lanes(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// A product that can walk the lists of its left side.
pub struct Sparse {
    lists: Arc<Nonzeros>,
    kernel: NonzerosKernel,
    /// For [`Side::Rows`]: a chunk of rows of sums for each chunk and panel.
    sums: Aligned,
}

impl Sparse {
    pub fn new(work: &Matmul, found: &[(BufferId, Arc<Nonzeros>)]) -> Option<Sparse> {
        let lists = &found.iter().find(|f| f.0 == work.a.buffer)?.1;
        let side = side(work, work.a.buffer, lists.rows, lists.width)?;
        let kernel = NonzerosKernel::new(work, side, lists.shift)?;
        let tiles = lists.rows.div_ceil(CHUNK) * work.n.div_ceil(PANEL);
        let sums = Aligned::try_new(if side == Side::Rows { tiles * CHUNK * PANEL * 4 } else { 0 }).ok()?;
        Some(Sparse { lists: lists.clone(), kernel, sums })
    }

    /// Does it walk these lists?
    pub fn walks(&self, lists: &Arc<Nonzeros>) -> bool {
        Arc::ptr_eq(&self.lists, lists)
    }

    /// Is the batch at hand listed?
    pub fn applies(&self) -> bool {
        // set in an earlier wave: a barrier lies between
        self.lists.listed.load(Ordering::Relaxed)
    }

    /// What falls to units `units` of `of`: a share of the panels' chunks of rows, or pairs of columns, in order, so that all units
    /// together do each once.
    ///
    /// SAFETY: as `Task::run`; `b` and `bases` point at the first elements of the operands.
    pub unsafe fn run(&self, work: &Matmul, units: Range<usize>, of: usize, b: *const f32, bases: &[*mut u8]) {
        let per_panel = match self.kernel.side() {
            Side::Rows => work.m.div_ceil(CHUNK),
            Side::Columns => work.m.div_ceil(2),
        };
        let items = per_panel * work.n.div_ceil(PANEL);
        let mut item = (units.start * items).div_ceil(of);
        let end = (units.end * items).div_ceil(of);
        while item < end {
            let (panel, first) = (item / per_panel, item % per_panel);
            // chunks one at a time, pairs as many as there are
            let last = match self.kernel.side() {
                Side::Rows => first + 1,
                Side::Columns => per_panel.min(first + end - item),
            };
            self.run_in_panel(work, panel * PANEL, first..last, b, bases);
            item += last - first;
        }
    }

    unsafe fn run_in_panel(&self, work: &Matmul, col: usize, items: Range<usize>, b: *const f32, bases: &[*mut u8]) {
        let (rows, lists, sums) = match self.kernel.side() {
            Side::Rows => {
                let bytes = CHUNK * PANEL * 4;
                let sums = self.sums.pointer().add((col / PANEL * work.m.div_ceil(CHUNK) + items.start) * bytes);
                std::ptr::write_bytes(sums, 0, bytes);
                let first = items.start * CHUNK;
                (first..(first + CHUNK).min(work.m), self.lists.list(items.start, 0), sums as *mut f32)
            }
            Side::Columns => {
                let rows = 2 * items.start..(2 * items.end).min(work.m);
                (rows, self.lists.list(0, items.start), std::ptr::null_mut())
            }
        };
        let mut table = [std::ptr::null_mut::<u8>(); MOST_OPERANDS];
        for ((place, base), o) in table.iter_mut().zip(bases).zip(&work.operands) {
            *place = base.add((rows.start * o.row + col * o.col) * 4);
        }
        // columns of bytes that are walked: all, or those that make these rows of the result
        let columns = if self.kernel.side() == Side::Rows { self.lists.width } else { rows.len() };
        let mut args = Args {
            lists,
            pairs: columns / 2,
            half: columns % 2,
            b: b.add(col),
            values: self.lists.values.pointer() as *const f32,
            sums,
            rows: rows.len(),
            table: table.as_ptr(),
            end: std::ptr::null(),
            chunks: 0,
        };
        self.kernel.run(&mut args, PANEL.min(work.n - col));
    }
}

#[cfg(test)]
mod tests {
    use citius_graph::{Graph, Init, random};

    use super::*;
    use crate::kernels::Task;
    use crate::{Driver, Executable, Flow, Inputs, Memory, Options, Outputs, Slots};

    /// Keeps `relu(x·w + b)` and `xᵀ·dy`; feeds the batch, or its row numbers.
    struct Keep {
        bytes: Vec<u8>,
        rows: Vec<i32>,
        kept: Vec<Vec<f32>>,
    }

    impl Driver for Keep {
        fn feed(&mut self, _: u64, slots: &mut Slots) {
            if let Some(rows) = slots.i32("rows") {
                rows.copy_from_slice(&self.rows);
            }
            if let Some(x) = slots.u8("x") {
                x.copy_from_slice(&self.bytes);
            }
        }
        fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
            self.kept = vec![outputs.f32(0).to_vec(), outputs.f32(1).to_vec()];
            Flow::Continue
        }
    }

    struct Case {
        rows: usize,
        width: usize,
        n: usize,
        gathered: bool,
        affine: Option<(f64, f64)>,
        /// Of the bytes that are not zero.
        share: f32,
    }

    const TABLE: usize = 300;

    /// Returns whether the products walked lists.
    fn check(case: &Case, threads: usize) -> bool {
        let &Case { rows, width, n, gathered, affine, share } = case;
        let height = if gathered { TABLE } else { rows };
        let uniform = |stream, i| random::uniform(1, stream, i as u64);
        let byte = |i: usize| match (uniform(1, i) < share, i / width % 9) {
            // a row without any now and then
            (true, row) if row != 4 => 1 + (uniform(2, i) * 255.0) as u8,
            _ => 0,
        };
        let bytes: Vec<u8> = (0..height * width).map(byte).collect();
        let numbers: Vec<i32> = (0..rows).map(|r| if gathered { (r * 37 + 5) % TABLE } else { r } as i32).collect();

        let g = Graph::new();
        let table = g.input_of("x", &[height, width], DType::U8);
        let x = match gathered {
            true => table.gather_rows(&g.input_of("rows", &[rows], DType::I32)).to_f32(),
            false => table.to_f32(),
        };
        let x = affine.map_or(x.clone(), |(scale, shift)| x * scale + shift);
        let normal = Init::Normal { mean: 0.0, std: 1.0 };
        let (w, b) = (g.parameter("w", &[width, n], normal), g.parameter("b", &[n], normal));
        let dy = g.parameter("dy", &[rows, n], normal);
        g.output("h", &(x.matmul(&w) + &b).relu());
        g.output("g", &x.t().matmul(&dy));
        let mut memory = Memory::new(3);
        let plan = citius_plan::compile(&g).unwrap();
        let options = Options { threads, isa: Some(Isa::Avx512), ..Options::default() };
        let mut step = Executable::new(plan, &mut memory, options).unwrap();
        let mut keep = Keep { bytes: bytes.clone(), rows: numbers.clone(), kept: vec![] };
        let inputs = if gathered { Inputs::new().u8("x", &bytes) } else { Inputs::new() };
        step.run(&mut memory, &inputs, 0, 2, &mut keep).unwrap();

        let (scale, shift) = affine.unwrap_or((1.0, 0.0));
        let x = |r: usize, k: usize| bytes[numbers[r] as usize * width + k] as f64 * scale + shift;
        let value = |name: &str, i: usize| memory.get(name).unwrap()[i] as f64;
        let close = |what: &str, found: f32, terms: &mut dyn Iterator<Item = f64>, bias: f64, floor: f64| {
            let (mut sum, mut size) = (bias, bias.abs());
            terms.for_each(|t| (sum, size) = (sum + t, size + t.abs()));
            assert!((found as f64 - sum.max(floor)).abs() <= 2e-6 * size, "{what}: {found} for {sum}");
        };
        for i in 0..rows * n {
            let (r, c) = (i / n, i % n);
            let mut terms = (0..width).map(|k| x(r, k) * value("w", k * n + c));
            close("x·w", keep.kept[0][i], &mut terms, value("b", c), 0.0);
        }
        for i in 0..width * n {
            let (k, c) = (i / n, i % n);
            let mut terms = (0..rows).map(|r| x(r, k) * value("dy", r * n + c));
            close("xᵀ·dy", keep.kept[1][i], &mut terms, 0.0, f64::NEG_INFINITY);
        }
        let walks = |t: &&Task| matches!(t, Task::Matmul(m) if m.sparse().is_some_and(|s| s.applies()));
        let walking = step.tasks.iter().filter(walks).count();
        assert!(walking == 0 || walking == 2, "{walking} of 2");
        walking == 2
    }

    /// Whole and partial vectors, panels and chunks; a column without a partner; bytes as they are, scaled, and shifted.
    #[test]
    fn lists_and_dense_products_agree() {
        if Isa::detect() < Isa::Avx512 {
            return;
        }
        let shapes =
            [(64, 784, 64), (20, 195, 25), (100, 33, 130), (16, 16, 16), (150, 47, 70), (8, 1, 64), (9, 2, 33)];
        let affines = [None, Some((1.0 / 255.0, 0.0)), Some((0.0127, -0.424))];
        for (i, (rows, width, n)) in shapes.into_iter().enumerate() {
            for gathered in [true, false] {
                for threads in [1, 3] {
                    let mut case = Case { rows, width, n, gathered, affine: affines[i % 3], share: 0.15 };
                    assert!(check(&case, threads), "{rows}×{width}×{n}, few");
                    case.share = 0.9;
                    assert!(!check(&case, threads), "{rows}×{width}×{n}, many");
                }
            }
        }
    }
}
