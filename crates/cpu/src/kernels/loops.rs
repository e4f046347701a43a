//! Element-wise programs with stores and folds.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use citius_graph::DType;
use citius_plan::{Fold, FoldKind, Instr, Loop, MOST_OPERANDS, Nest, Operand};

use crate::interpreter::{self, BLOCK, Source};
use crate::isa::Isa;
use crate::widest::{Plain, widest};

/// Elements that make a unit worth handing to another thread.
const UNIT_ELEMENTS: usize = 2048;
/// The same for rows of dear elements (exponentials): their FLOPs.
const UNIT_FLOPS: usize = 6000;
/// Short rows that are folded and used again are computed so many at a time (`x86/short_rows.rs`).
const BLOCK_ROWS: usize = 16;
/// Columns per unit when columns are folded.
const UNIT_COLUMNS: usize = 64;
/// Up to so many columns, from so many rows on, units are rows, of about so many elements, and their sums are added behind.
const MOST_COLUMNS: usize = 256;
const MANY_ROWS: usize = 1024;
const ROWS_ELEMENTS: usize = 1 << 15;

pub struct LoopTask {
    work: Loop,
    kernel: Kernel,
    cut: Cut,
    /// First element of each operand; generated code keeps moving copies in the second half.
    bases: Vec<UnsafeCell<*mut u8>>,
    /// Folds that are cut into several units: what each unit leaves for each fold, combined in order by whoever finishes last.
    partials: Vec<UnsafeCell<f32>>,
    finished: AtomicUsize,
    /// The last unit, where it has fewer rows than the others and generated code has their number built in.
    last: Option<Kernel>,
    /// All units together are one call of the kernel on the operands as they are bound.
    in_one_go: bool,
}

enum Kernel {
    /// Sums of columns, of rows that lie far apart.
    Sums,
    Interpreted(Isa),
    #[cfg(target_arch = "x86_64")]
    Generated(crate::x86::LoopKernel),
}

/// How one outer index is cut into units.
#[derive(Clone, Copy)]
enum Cut {
    Rows { per_unit: usize, units: usize },
    Columns { per_unit: usize, units: usize },
}

impl LoopTask {
    pub fn new(work: &Loop, isa: Isa) -> LoopTask {
        let cut = Cut::new(work);
        let partials = if cut.units() > 1 { cut.units() * cut.partials(work) } else { 0 };
        let (mut kernel, mut last) = (Kernel::new(work, isa), None);
        if let (Nest::Columns, Cut::Rows { per_unit, units }) = (work.nest, cut) {
            let of = |rows: usize| Kernel::new(&Loop { rows, ..work.clone() }, isa);
            (kernel, last) = (of(per_unit), Some(of(work.rows - (units - 1) * per_unit)));
        }
        LoopTask {
            kernel,
            last,
            cut,
            bases: (0..2 * work.operands.len()).map(|_| UnsafeCell::new(std::ptr::null_mut())).collect(),
            partials: (0..partials).map(|_| UnsafeCell::new(0.0)).collect(),
            finished: AtomicUsize::new(0),
            in_one_go: work.outer.is_empty() && partials == 0,
            work: work.clone(),
        }
    }

    pub fn bind(&mut self, pointers: &[*mut u8]) {
        for (base, o) in self.bases.iter_mut().zip(&self.work.operands) {
            // SAFETY: the offset is inside the buffer (plan verifier).
            *base.get_mut() = unsafe { pointers[o.buffer].add(o.offset * o.dtype.bytes()) };
        }
    }

    pub fn units(&self) -> usize {
        self.work.outer.iter().product::<usize>() * self.cut.units()
    }

    /// SAFETY: as `Task::run`.
    pub unsafe fn run(&self, units: Range<usize>) {
        #[cfg(target_arch = "x86_64")]
        if let (Kernel::Generated(kernel), true) = (&self.kernel, self.in_one_go && units.len() == self.cut.units()) {
            // one thread alone has all units, so nobody else reads the moving half
            return kernel.run(UnsafeCell::raw_get(self.bases.as_ptr()), self.work.rows, self.work.cols);
        }
        let per_outer = self.cut.units();
        let split_fold = !self.partials.is_empty();
        let mut unit = units.start;
        while unit < units.end {
            // neighbours of one outer index run in one go, unless each leaves a partial result of its own
            let outer = unit / per_outer;
            let last = if split_fold { unit + 1 } else { units.end.min((outer + 1) * per_outer) };
            let (rows, cols) = self.cut.range(&self.work, unit % per_outer, last - outer * per_outer);
            let mut table = [std::ptr::null_mut::<u8>(); 2 * MOST_OPERANDS];
            for (i, o) in self.work.operands.iter().enumerate() {
                let elements = outer_offset(o, &self.work.outer, outer) + rows.start * o.row + cols.start * o.col;
                table[i] = (*self.bases[i].get()).add(elements * o.dtype.bytes());
            }
            if split_fold {
                let (each, width) = (self.cut.partials(&self.work), self.fold_width());
                for (i, fold) in self.split_folds().enumerate() {
                    table[fold.operand] = self.partials[unit * each + i * width].get() as *mut u8;
                }
            }
            let kernel = self.last.as_ref().filter(|_| last == self.units()).unwrap_or(&self.kernel);
            kernel.run(&self.work, &mut table, rows.len(), cols.len());
            unit = last;
        }
        if split_fold && self.finished.fetch_add(units.len(), Ordering::AcqRel) + units.len() == self.units() {
            self.finished.store(0, Ordering::Relaxed);
            self.combine();
        }
    }

    /// Folds of which each unit leaves a part.
    fn split_folds(&self) -> impl Iterator<Item = &Fold> {
        self.work.folds.iter().filter(|fold| fold.whole || self.work.nest == Nest::Columns)
    }

    /// Numbers that a fold leaves.
    fn fold_width(&self) -> usize {
        if self.work.nest == Nest::Columns { self.work.cols } else { 1 }
    }

    /// SAFETY: all units have left their partial results.
    unsafe fn combine(&self) {
        let (each, width) = (self.cut.partials(&self.work), self.fold_width());
        for (i, fold) in self.split_folds().enumerate() {
            for column in 0..width {
                let parts = self.partials[i * width + column..].iter().step_by(each).map(|p| *p.get());
                let value = match fold.kind {
                    FoldKind::Sum => parts.map(|p| p as f64).sum::<f64>() as f32,
                    FoldKind::Max => parts.fold(f32::NEG_INFINITY, crate::math::max),
                };
                *(*self.bases[fold.operand].get() as *mut f32).add(column * self.work.operands[fold.operand].col) =
                    value;
            }
        }
    }
}

#[inline]
pub fn outer_offset(o: &Operand, sizes: &[usize], mut index: usize) -> usize {
    let mut offset = 0;
    for axis in (0..sizes.len()).rev() {
        offset += index % sizes[axis] * o.outer[axis];
        index /= sizes[axis];
    }
    offset
}

impl Cut {
    fn new(work: &Loop) -> Cut {
        let whole = work.folds.iter().any(|f| f.whole);
        let columns = |per_unit: usize| Cut::Columns { per_unit, units: work.cols.div_ceil(per_unit).max(1) };
        let side_by_side = work.folds.iter().all(|f| work.operands[f.operand].col == 1);
        let some_rows =
            (ROWS_ELEMENTS / work.cols.max(1)).clamp(MANY_ROWS / 8, MANY_ROWS * 8).next_multiple_of(BLOCK_ROWS);
        let tall = work.outer.is_empty() && work.cols <= MOST_COLUMNS && work.rows >= MANY_ROWS.max(some_rows + 1);
        match work.nest {
            // few columns, many rows: those of a convolution's bias, or of batch norm
            Nest::Columns if tall && side_by_side => {
                Cut::Rows { per_unit: some_rows, units: work.rows.div_ceil(some_rows) }
            }
            Nest::Columns => columns(UNIT_COLUMNS),
            Nest::Rows if whole && !work.outer.is_empty() => Cut::Rows { per_unit: work.rows.max(1), units: 1 },
            Nest::Rows if work.rows == 1 && (whole || work.folds.is_empty()) => columns(UNIT_ELEMENTS),
            Nest::Rows => {
                let flops = work.cols * work.program.flops();
                let per_unit = (UNIT_ELEMENTS / work.cols.max(1)).min(UNIT_FLOPS / flops.max(1)).max(1);
                let in_blocks = work.program.instrs.iter().any(|i| matches!(i, Instr::FoldRow(..)));
                let per_unit = if in_blocks { per_unit.next_multiple_of(BLOCK_ROWS) } else { per_unit };
                Cut::Rows { per_unit, units: work.rows.div_ceil(per_unit).max(1) }
            }
        }
    }

    /// Numbers that a unit leaves of folds that are cut.
    fn partials(self, work: &Loop) -> usize {
        match (self, work.nest) {
            (Cut::Rows { .. }, Nest::Columns) => work.folds.len() * work.cols,
            (Cut::Columns { .. }, Nest::Columns) => 0,
            _ => work.folds.iter().filter(|f| f.whole).count(),
        }
    }

    fn units(self) -> usize {
        match self {
            Cut::Rows { units, .. } | Cut::Columns { units, .. } => units,
        }
    }

    /// (rows, columns) of units `first..last`.
    fn range(self, work: &Loop, first: usize, last: usize) -> (Range<usize>, Range<usize>) {
        match self {
            Cut::Rows { per_unit, .. } => (first * per_unit..(last * per_unit).min(work.rows), 0..work.cols),
            Cut::Columns { per_unit, .. } => (0..work.rows, first * per_unit..(last * per_unit).min(work.cols)),
        }
    }
}

impl Kernel {
    fn new(work: &Loop, isa: Isa) -> Kernel {
        if sums_far_columns(work) {
            return Kernel::Sums;
        }
        #[cfg(target_arch = "x86_64")]
        if isa >= Isa::Avx512
            && let Some(kernel) = crate::x86::LoopKernel::new(work)
        {
            return Kernel::Generated(kernel);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = work;
        Kernel::Interpreted(isa)
    }

    /// SAFETY: `table[i]` points at the first element of operand `i` of this stretch of `rows` × `cols`.
    unsafe fn run(&self, work: &Loop, table: &mut [*mut u8; 2 * MOST_OPERANDS], rows: usize, cols: usize) {
        match self {
            Kernel::Sums => {
                let (from, to) = (table[0] as *const f32, table[work.folds[0].operand] as *mut f32);
                widest(ColumnSums { from, row: work.operands[0].row, rows, cols, to })
            }
            Kernel::Interpreted(Isa::Portable) => interpret::<false>(work, table, rows, cols),
            #[cfg(target_arch = "x86_64")]
            Kernel::Interpreted(Isa::Avx2 | Isa::Avx512 | Isa::Amx) => interpret_avx2(work, table, rows, cols),
            #[cfg(not(target_arch = "x86_64"))]
            Kernel::Interpreted(Isa::Avx2 | Isa::Avx512 | Isa::Amx) => interpret::<false>(work, table, rows, cols),
            #[cfg(target_arch = "x86_64")]
            Kernel::Generated(kernel) => kernel.run(table.as_mut_ptr(), rows, cols),
        }
    }
}

/// Rows this many numbers apart, or more, fall on few sets of the caches: they are read along, not down.
const FAR: usize = 1024;

/// Nothing but sums of columns, of rows that lie far apart.
fn sums_far_columns(work: &Loop) -> bool {
    let [fold] = &work.folds[..] else { return false };
    let sums = work.nest == Nest::Columns && work.stores.is_empty() && fold.kind == FoldKind::Sum;
    let [from, to] = &work.operands[..] else { return false };
    let plain = from.dtype == DType::F32 && from.col == 1 && to.dtype == DType::F32 && to.col == 1 && fold.operand == 1;
    sums && plain && work.program.instrs == [Instr::Load(0)] && from.row >= FAR
}

struct ColumnSums {
    from: *const f32,
    row: usize,
    rows: usize,
    cols: usize,
    to: *mut f32,
}

impl Plain for ColumnSums {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        const WIDE: usize = 256;
        for start in (0..self.cols).step_by(WIDE) {
            let width = WIDE.min(self.cols - start);
            // every fourth row, as where columns are summed one after the other
            let mut sums = [[0.0f32; WIDE]; 4];
            for row in 0..self.rows {
                // SAFETY: `rows` × `cols` elements of the operand, whose reach the plan's verifier has checked.
                let line = unsafe { std::slice::from_raw_parts(self.from.add(row * self.row + start), width) };
                sums[row % 4].iter_mut().zip(line).for_each(|(sum, x)| *sum += x);
            }
            // SAFETY: as above, of the fold's target, which nobody else touches.
            let to = unsafe { std::slice::from_raw_parts_mut(self.to.add(start), width) };
            for (i, to) in to.iter_mut().enumerate() {
                *to = (sums[0][i] + sums[1][i]) + (sums[2][i] + sums[3][i]);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn interpret_avx2(work: &Loop, table: &[*mut u8], rows: usize, cols: usize) {
    interpret::<true>(work, table, rows, cols)
}

#[inline(always)]
unsafe fn interpret<const FMA: bool>(work: &Loop, table: &[*mut u8], rows: usize, cols: usize) {
    let at = |i: usize, r: usize, c: usize| {
        let o = &work.operands[i];
        table[i].add((r * o.row + c * o.col) * o.dtype.bytes())
    };
    let begin = |kind: FoldKind| match kind {
        FoldKind::Sum => 0.0,
        FoldKind::Max => f32::NEG_INFINITY,
    };
    let registers = &mut *interpreter::registers(&work.program);
    match work.nest {
        Nest::Rows => {
            let mut whole = [[0.0f32; LANES]; MOST_OPERANDS];
            work.folds.iter().zip(&mut whole).for_each(|(fold, lanes)| *lanes = [begin(fold.kind); LANES]);
            // several short rows make a block, or a long row several blocks
            let width = cols.clamp(1, BLOCK);
            let height = BLOCK / width;
            for r in (0..rows).step_by(height) {
                let lines = height.min(rows - r);
                let mut in_row = [[0.0f32; LANES]; MOST_OPERANDS];
                for c in (0..cols).step_by(width) {
                    let wide = width.min(cols - c);
                    let n = lines * wide;
                    let load = |i: usize, out: &mut [f32]| {
                        let o = &work.operands[i];
                        for (line, out) in out.chunks_exact_mut(wide).enumerate() {
                            Source { pointer: at(i, r + line, c), dtype: o.dtype, stride: o.col }.read(out);
                        }
                    };
                    interpreter::run::<FMA>(&work.program, registers, n, wide, load, &[]);
                    for &(value, target) in &work.stores {
                        for (line, values) in registers.value(value, n).chunks_exact(wide).enumerate() {
                            write(values, at(target, r + line, c), &work.operands[target]);
                        }
                    }
                    for (i, fold) in work.folds.iter().enumerate() {
                        for (line, values) in registers.value(fold.value, n).chunks_exact(wide).enumerate() {
                            if fold.whole {
                                fold_lanes(fold.kind, &mut whole[i], values);
                                continue;
                            }
                            if c == 0 {
                                in_row[i] = [begin(fold.kind); LANES];
                            }
                            fold_lanes(fold.kind, &mut in_row[i], values);
                            if c + wide == cols {
                                *(at(fold.operand, r + line, 0) as *mut f32) = across(fold.kind, in_row[i]);
                            }
                        }
                    }
                }
                if cols == 0 {
                    for (fold, line) in
                        work.folds.iter().filter(|f| !f.whole).flat_map(|f| (0..lines).map(move |l| (f, l)))
                    {
                        *(at(fold.operand, r + line, 0) as *mut f32) = begin(fold.kind);
                    }
                }
            }
            for (i, fold) in work.folds.iter().enumerate().filter(|(_, f)| f.whole) {
                *(at(fold.operand, 0, 0) as *mut f32) = across(fold.kind, whole[i]);
            }
        }
        Nest::Columns => {
            let mut sums = [[0.0f32; UNIT_COLUMNS]; MOST_OPERANDS];
            for c in (0..cols).step_by(UNIT_COLUMNS) {
                let n = UNIT_COLUMNS.min(cols - c);
                work.folds.iter().zip(&mut sums).for_each(|(fold, sum)| sum.fill(begin(fold.kind)));
                let height = BLOCK / n;
                for r in (0..rows).step_by(height) {
                    let lines = height.min(rows - r);
                    let load = |i: usize, out: &mut [f32]| {
                        let o = &work.operands[i];
                        for (line, out) in out.chunks_exact_mut(n).enumerate() {
                            Source { pointer: at(i, r + line, c), dtype: o.dtype, stride: o.col }.read(out);
                        }
                    };
                    interpreter::run::<FMA>(&work.program, registers, lines * n, n, load, &[]);
                    for (fold, sum) in work.folds.iter().zip(&mut sums) {
                        for values in registers.value(fold.value, lines * n).chunks_exact(n) {
                            sum.iter_mut().zip(values).for_each(|(s, &x)| *s = fold_two(fold.kind, *s, x));
                        }
                    }
                    for &(value, target) in &work.stores {
                        for (line, values) in registers.value(value, lines * n).chunks_exact(n).enumerate() {
                            write(values, at(target, r + line, c), &work.operands[target]);
                        }
                    }
                }
                for (fold, sum) in work.folds.iter().zip(&sums) {
                    write(&sum[..n], at(fold.operand, 0, c), &work.operands[fold.operand]);
                }
            }
        }
    }
}

#[inline(always)]
fn fold_lanes(kind: FoldKind, lanes: &mut [f32; LANES], values: &[f32]) {
    for chunk in values.chunks(LANES) {
        chunk.iter().zip(lanes.iter_mut()).for_each(|(&x, s)| *s = fold_two(kind, *s, x));
    }
}

const LANES: usize = 16;

#[inline(always)]
fn fold_two(kind: FoldKind, a: f32, b: f32) -> f32 {
    match kind {
        FoldKind::Sum => a + b,
        FoldKind::Max => crate::math::max(a, b),
    }
}

/// A fixed tree over the lanes.
fn across(kind: FoldKind, mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = fold_two(kind, lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// SAFETY: `to` with the operand's column stride is inside its buffer.
#[inline(always)]
unsafe fn write(values: &[f32], to: *mut u8, operand: &Operand) {
    let to = to as *mut f32;
    match operand.col {
        1 => std::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()),
        stride => values.iter().enumerate().for_each(|(i, &x)| *to.add(i * stride) = x),
    }
}

#[cfg(test)]
mod tests {
    use citius_graph::{Graph, Init};

    use super::*;
    use crate::{Driver, Executable, Flow, Inputs, Memory, Options, Outputs};

    const COLS: usize = 5;

    struct Keep(Vec<Vec<f32>>);

    impl Driver for Keep {
        fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
            self.0 = (0..3).map(|i| outputs.f32(i).to_vec()).collect();
            Flow::Continue
        }
    }

    /// Sums, maxima and elements of tall columns, which are folded in so many parts.
    fn folded(isa: Isa, threads: usize, (rows, parts): (usize, usize)) -> Vec<Vec<f32>> {
        let g = Graph::new();
        let y = g.parameter("x", &[rows, COLS], Init::Normal { mean: 0.0, std: 1.0 }).relu() * 3.0;
        g.output("sum", &y.sum(&[0], false));
        g.output("max", &y.max(&[0], false));
        g.output("y", &y);
        let plan = citius_plan::compile(&g).unwrap();
        let tall = plan.calls.iter().filter_map(|call| match &call.work {
            citius_plan::Work::Loop(work) if !work.folds.is_empty() => Some(LoopTask::new(work, isa).units()),
            _ => None,
        });
        assert_eq!(tall.max(), Some(parts));
        let mut memory = Memory::new(1);
        let options = Options { threads, isa: Some(isa), ..Options::default() };
        let mut step = Executable::new(plan, &mut memory, options).unwrap();
        let mut keep = Keep(vec![]);
        // twice: whoever comes last has to begin anew
        step.run(&mut memory, &Inputs::new(), 0, 2, &mut keep).unwrap();
        keep.0
    }

    #[test]
    fn tall_columns_are_folded_in_parts() {
        // fewer rows than a part has, one part, one row more, three and a shorter one
        for tall in [(2049, 1), (6560, 1), (6561, 2), (20_001, 4)] {
            for isa in Isa::available() {
                let one = folded(isa, 1, tall);
                let column = |c: usize| one[2].iter().skip(c).step_by(COLS).copied();
                for (c, (sum, max)) in one[0].iter().zip(&one[1]).enumerate() {
                    let exact = column(c).map(|y| y as f64).sum::<f64>();
                    assert!((*sum as f64 - exact).abs() <= 1e-5 * exact, "{isa}, {tall:?}: {sum} for {exact}");
                    assert_eq!(*max, column(c).fold(0.0, f32::max), "{isa}, {tall:?}");
                }
                for threads in [2, 3] {
                    assert!(folded(isa, threads, tall) == one, "{isa}, {tall:?}, {threads} threads");
                }
            }
        }
    }
}
