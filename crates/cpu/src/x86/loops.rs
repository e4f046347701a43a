//! Element-wise loops. `rdi` points at the table of operand pointers, `rsi` counts rows (or points at sums that wait), `rdx` is the number of columns, `rcx` the
//! current column, `r15` the last multiple of 16.

use citius_graph::DType;
use citius_plan::{Fold, FoldKind, Instr, Loop, MOST_OPERANDS, Nest, Operand, SHORT_ROW, Var};

use super::asm::Gpr::*;
use super::asm::*;
use super::code::Code;
use super::program::{Emitter, Operands, OutOfRegisters, Registers};
use super::short_rows::{self, ShortRows};

type Entry = unsafe extern "sysv64" fn(table: *mut *mut u8, rows: usize, cols: usize);

pub struct LoopKernel {
    entry: Entry,
    _code: Code,
    /// Takes blocks of rows together, and leaves the last ones to `entry`.
    short_rows: Option<ShortRows>,
    /// From a row of each operand to the next, in bytes.
    strides: Vec<usize>,
    /// From a column of each operand to the next, where `entry` takes so many at most.
    along: Option<Vec<usize>>,
}

/// Operands beyond these keep their pointer in the table.
const POINTERS: [Gpr; 8] = [R8, R9, R10, R11, R12, R13, Rbx, Rbp];
const SAVED: [Gpr; 6] = [Rbx, Rbp, R12, R13, R14, R15];
/// Rows taken together, each with accumulators of its own, when columns are folded.
const UNROLL: usize = 4;
/// Columns folded together along far rows, and bytes of an operand from which that is faster than down one column after the other.
const TOGETHER: usize = 256;
const FAR_BYTES: usize = 64 << 10;
const FAR_ROW: usize = 512;

impl LoopKernel {
    /// `None` where generated code has no answer (columns with a stride, too many values at once).
    pub fn new(work: &Loop) -> Option<LoopKernel> {
        let evenly = work.operands.iter().all(|o| o.col <= 1);
        let targets_f32 = work.targets().iter().all(|&t| work.operands[t].dtype == DType::F32);
        let near = work.operands.iter().all(|o| o.row * o.dtype.bytes() < i32::MAX as usize);
        let fold_targets = work.folds.iter().all(|f| work.nest == Nest::Rows || work.operands[f.operand].col == 1);
        // a row's fold is stored once; it is complete only when the row is one vector
        let stores = work.stores.iter().all(|s| work.operands[s.1].col == 1 || work.cols <= SHORT_ROW);
        if !(evenly && targets_f32 && near && fold_targets && stores) {
            return None;
        }
        let mut asm = Asm::default();
        Generator::new(work).ok()?.generate(&mut asm).ok()?;
        let code = Code::new(&asm.finish())?;
        // SAFETY: the bytes at the entry are a complete function of this signature.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(code.entry(0)) };
        let strides = work.operands.iter().map(|o| o.row * o.dtype.bytes()).collect();
        let steps = || work.operands.iter().map(|o| o.col * o.dtype.bytes()).collect();
        let along = folds_along(work).then(steps);
        Some(LoopKernel { entry, _code: code, short_rows: ShortRows::new(work), strides, along })
    }

    /// SAFETY: `table` holds, for each operand, a pointer at the first element of a stretch of `rows` × `cols`, and as many
    /// entries again for the kernel's own use.
    #[inline]
    pub unsafe fn run(&self, table: *mut *mut u8, rows: usize, cols: usize) {
        match (&self.short_rows, &self.along) {
            (Some(short_rows), _) => self.run_blocks(short_rows, table, rows, cols),
            (_, Some(steps)) if cols > TOGETHER => self.run_stretches(steps, table, rows, cols),
            _ => (self.entry)(table, rows, cols),
        }
    }

    /// SAFETY: as [`LoopKernel::run`].
    unsafe fn run_stretches(&self, steps: &[usize], table: *mut *mut u8, rows: usize, cols: usize) {
        for start in (0..cols).step_by(TOGETHER) {
            let mut moved = [std::ptr::null_mut::<u8>(); 2 * MOST_OPERANDS];
            for (i, step) in steps.iter().enumerate() {
                moved[i] = (*table.add(i)).add(start * step);
            }
            (self.entry)(moved.as_mut_ptr(), rows, TOGETHER.min(cols - start));
        }
    }

    /// SAFETY: as [`LoopKernel::run`].
    unsafe fn run_blocks(&self, short_rows: &ShortRows, table: *mut *mut u8, rows: usize, cols: usize) {
        let blocks = rows / short_rows::BLOCK;
        short_rows.run(table, blocks);
        let (done, rest) = (blocks * short_rows::BLOCK, rows % short_rows::BLOCK);
        if rest > 0 {
            let mut moved = [std::ptr::null_mut::<u8>(); 2 * MOST_OPERANDS];
            for (i, stride) in self.strides.iter().enumerate() {
                moved[i] = (*table.add(i)).add(done * stride);
            }
            (self.entry)(moved.as_mut_ptr(), rest, cols);
        }
    }
}

/// Whether columns are folded along rows, which lie far apart and come from far away: the sums wait in memory meanwhile.
fn folds_along(work: &Loop) -> bool {
    let far = |o: &Operand| {
        let row = o.row * o.dtype.bytes();
        row >= FAR_ROW && row * work.rows >= FAR_BYTES
    };
    work.nest == Nest::Columns && work.cols > 16 && work.operands.iter().any(far)
}

struct Generator<'a> {
    work: &'a Loop,
    results: Vec<Var>,
    /// Register of each value that stays the same for a row or for the whole call.
    pinned: Vec<Option<u8>>,
    accumulators: usize,
    along: bool,
}

/// Where operand `i` is at the current row and column.
struct At<'a> {
    work: &'a Loop,
    tail: bool,
}

impl At<'_> {
    fn pointer(&self, asm: &mut Asm, i: usize) -> Gpr {
        match POINTERS.get(i) {
            Some(&r) => r,
            None => {
                asm.load_gpr(Rax, table_entry(self.work, i, true));
                Rax
            }
        }
    }

    fn element(&self, asm: &mut Asm, i: usize) -> Mem {
        let base = self.pointer(asm, i);
        let scale = if self.work.operands[i].dtype == DType::U8 { 0 } else { 2 };
        match self.work.operands[i].col {
            0 => Mem::at(base, 0),
            _ => Mem { base, index: Some((Rcx, scale)), disp: 0 },
        }
    }
}

impl Operands for At<'_> {
    fn load(&self, asm: &mut Asm, i: usize, dst: u8) {
        let m = self.element(asm, i);
        let k = if self.tail { TAIL } else { 0 };
        match (self.work.operands[i].dtype, self.work.operands[i].col) {
            (DType::F32, 0) => asm.spread(dst, Rm::Spread(m)),
            (DType::F32, _) => asm.load(dst, m, k),
            (DType::I32, 0) => asm.spread_i32(dst, m),
            (DType::I32, _) => asm.load_i32(dst, m, k),
            // never a lone byte: see `Generator::new`
            (DType::U8, _) => asm.load_u8(dst, m, k),
        }
    }
}

/// The pointer of operand `i`: as given, or the copy that moves with rows.
fn table_entry(work: &Loop, i: usize, moving: bool) -> Mem {
    let slot = if moving { work.operands.len() + i } else { i };
    Mem::at(Rdi, 8 * slot as i32)
}

impl<'a> Generator<'a> {
    fn new(work: &'a Loop) -> Result<Generator<'a>, OutOfRegisters> {
        let lone_byte = work.operands.iter().any(|o| o.dtype == DType::U8 && o.col == 0);
        if lone_byte {
            return Err(OutOfRegisters);
        }
        let results = work.stores.iter().map(|s| s.0).chain(work.folds.iter().map(|f| f.value)).collect::<Vec<_>>();
        let along = folds_along(work);
        let per_fold = match work.nest {
            Nest::Rows => 1,
            Nest::Columns => UNROLL,
        };
        // one for whichever sum is at hand
        let accumulators = if along { 1 } else { work.folds.len() * per_fold };
        let pinned = vec![None; work.program.instrs.len()];
        let mut generator = Generator { work, results, pinned, accumulators, along };
        // a trial tells how many registers are over for values that can stay
        let mut trial = Asm::default();
        let first = accumulators as u8;
        if accumulators > 24 {
            return Err(OutOfRegisters);
        }
        let spare = generator.body(&mut trial, first, false, 0)?;
        let stays = |i: &usize| match work.program.instrs[*i] {
            Instr::Const(_) => true,
            Instr::Load(o) => {
                work.operands[o].col == 0 && (work.nest == Nest::Rows || along || work.operands[o].row == 0)
            }
            _ => false,
        };
        let mut candidates: Vec<usize> = (0..work.program.instrs.len()).filter(stays).collect();
        // loads first: a constant costs nothing extra as a memory operand
        candidates.sort_by_key(|&i| matches!(work.program.instrs[i], Instr::Const(_)));
        for (n, i) in candidates.into_iter().take(spare.saturating_sub(2)).enumerate() {
            generator.pinned[i] = Some(first + n as u8);
        }
        Ok(generator)
    }

    fn generate(&self, asm: &mut Asm) -> Result<(), OutOfRegisters> {
        SAVED.iter().for_each(|&r| asm.push(r));
        // k1 = lanes of the last, partial vector
        asm.copy_gpr(Rcx, Rdx);
        asm.and(Rcx, 15);
        asm.set(Rax, 1);
        asm.shift_left_by_cl(Rax);
        asm.subtract(Rax, 1);
        asm.mask_from(TAIL, Rax);
        asm.copy_gpr(R15, Rdx);
        asm.and(R15, !15);
        match self.work.nest {
            Nest::Rows => self.rows(asm)?,
            Nest::Columns if self.along => self.columns_along(asm)?,
            Nest::Columns => self.columns(asm)?,
        }
        SAVED.iter().rev().for_each(|&r| asm.pop(r));
        asm.leave();
        Ok(())
    }

    fn rows(&self, asm: &mut Asm) -> Result<(), OutOfRegisters> {
        let work = self.work;
        let at = At { work, tail: false };
        self.load_pointers(asm);
        self.pin(asm, &at, false);
        self.begin_folds(asm, true);
        let (next_row, end) = (asm.label(), asm.label());
        asm.subtract(Rsi, 0);
        asm.jump_if_zero(end);
        asm.place(next_row);
        self.pin(asm, &at, true);
        self.begin_folds(asm, false);
        asm.set(Rcx, 0);
        self.walk_columns(asm, |asm, tail| self.body(asm, self.first_free(), tail, 0).map(|_| ()))?;
        self.end_folds(asm, &at, false)?;
        self.next_row(asm);
        asm.subtract(Rsi, 1);
        asm.jump_if_not_zero(next_row);
        asm.place(end);
        self.end_folds(asm, &at, true)
    }

    fn columns(&self, asm: &mut Asm) -> Result<(), OutOfRegisters> {
        let work = self.work;
        asm.set(Rcx, 0);
        {
            let at = At { work, tail: false };
            self.load_pointers(asm);
            self.pin(asm, &at, false);
        }
        self.walk_columns(asm, |asm, tail| {
            self.load_pointers(asm);
            for (f, fold) in work.folds.iter().enumerate() {
                (0..UNROLL).for_each(|u| begin(asm, fold.kind, (f * UNROLL + u) as u8));
            }
            self.walk_rows(asm, |asm, u| self.body(asm, self.first_free(), tail, u).map(|_| ()))?;
            let at = At { work, tail };
            for (f, fold) in work.folds.iter().enumerate() {
                let r = |u: usize| (f * UNROLL + u) as u8;
                asm.fold(fold.kind, r(0), r(1), 0);
                asm.fold(fold.kind, r(2), r(3), 0);
                asm.fold(fold.kind, r(0), r(2), 0);
                let m = at.element(asm, fold.operand);
                asm.store(m, r(0), if tail { TAIL } else { 0 });
            }
            Ok(())
        })
    }

    /// Row by row, the sums of each of [`UNROLL`] rows beside each other in memory, at `rsi`: the same sums as `columns` has.
    fn columns_along(&self, asm: &mut Asm) -> Result<(), OutOfRegisters> {
        let work = self.work;
        let room = (work.folds.len() * UNROLL * TOGETHER * 4 + 64) as i32;
        asm.copy_gpr(Rsi, Rsp);
        asm.subtract(Rsi, room);
        asm.and(Rsi, -64);
        asm.subtract(Rsp, room + 64);
        let at = At { work, tail: false };
        self.load_pointers(asm);
        self.pin(asm, &at, false);
        asm.set(Rcx, 0);
        self.walk_columns(asm, |asm, _| {
            for (f, fold) in work.folds.iter().enumerate() {
                begin(asm, fold.kind, 0);
                (0..UNROLL).for_each(|u| asm.store(waiting(f, u), 0, 0));
            }
            Ok(())
        })?;
        self.walk_rows(asm, |asm, u| {
            self.pin(asm, &at, true);
            asm.set(Rcx, 0);
            self.walk_columns(asm, |asm, tail| self.body(asm, self.first_free(), tail, u).map(|_| ()))
        })?;
        asm.set(Rcx, 0);
        self.walk_columns(asm, |asm, tail| {
            for (f, fold) in work.folds.iter().enumerate() {
                (0..UNROLL).for_each(|u| asm.load(u as u8, waiting(f, u), 0));
                asm.fold(fold.kind, 0, 1, 0);
                asm.fold(fold.kind, 2, 3, 0);
                asm.fold(fold.kind, 0, 2, 0);
                let m = At { work, tail }.element(asm, fold.operand);
                asm.store(m, 0, if tail { TAIL } else { 0 });
            }
            Ok(())
        })?;
        asm.add(Rsp, room + 64);
        Ok(())
    }

    /// All rows, [`UNROLL`] at a time; `body` is told which of them it is.
    fn walk_rows(
        &self,
        asm: &mut Asm,
        mut body: impl FnMut(&mut Asm, usize) -> Result<(), OutOfRegisters>,
    ) -> Result<(), OutOfRegisters> {
        let rows = self.work.rows;
        let mut one = |asm: &mut Asm, u: usize| {
            body(asm, u)?;
            self.next_row(asm);
            Ok(())
        };
        if rows >= UNROLL {
            let again = asm.label();
            asm.set(R14, (rows / UNROLL) as i32);
            asm.place(again);
            (0..UNROLL).try_for_each(|u| one(asm, u))?;
            asm.subtract(R14, 1);
            asm.jump_if_not_zero(again);
        }
        (0..rows % UNROLL).try_for_each(|u| one(asm, u))
    }

    fn next_row(&self, asm: &mut Asm) {
        for (i, o) in self.work.operands.iter().enumerate().filter(|(_, o)| o.row != 0) {
            self.advance(asm, i, (o.row * o.dtype.bytes()) as i32);
        }
    }

    /// Whole vectors up to `r15`, then the tail up to `rdx`.
    fn walk_columns(
        &self,
        asm: &mut Asm,
        mut body: impl FnMut(&mut Asm, bool) -> Result<(), OutOfRegisters>,
    ) -> Result<(), OutOfRegisters> {
        let (next, tail, end) = (asm.label(), asm.label(), asm.label());
        asm.compare_gpr(Rcx, R15);
        asm.jump_if_not_below(tail);
        asm.place(next);
        body(asm, false)?;
        asm.add(Rcx, 16);
        asm.compare_gpr(Rcx, R15);
        asm.jump_if_below(next);
        asm.place(tail);
        asm.compare_gpr(Rcx, Rdx);
        asm.jump_if_not_below(end);
        body(asm, true)?;
        asm.place(end);
        Ok(())
    }

    /// The program for one vector, its stores and folds. Returns how many registers were never used.
    fn body(&self, asm: &mut Asm, first: u8, tail: bool, unroll: usize) -> Result<usize, OutOfRegisters> {
        let work = self.work;
        let at = At { work, tail };
        let k = if tail { TAIL } else { 0 };
        let mut emitter =
            Emitter::new(asm, &work.program, &self.results, Registers::new(first..32), &self.pinned).tail(tail);
        emitter.emit(&at, None)?;
        for &(value, target) in &work.stores {
            let r = emitter.register(value)?;
            let m = at.element(emitter.asm(), target);
            match work.operands[target].col {
                // one value for the row, the same in every lane
                0 => emitter.asm().store_one(m, r),
                _ => emitter.asm().store(m, r, k),
            }
        }
        for (f, fold) in work.folds.iter().enumerate() {
            let r = emitter.register(fold.value)?;
            let accumulator = self.accumulator(f, unroll);
            if self.along {
                emitter.asm().load(accumulator, waiting(f, unroll), 0);
            }
            emitter.asm().fold(fold.kind, accumulator, r, k);
            if self.along {
                emitter.asm().store(waiting(f, unroll), accumulator, 0);
            }
        }
        Ok(emitter.fewest_free())
    }

    fn accumulator(&self, fold: usize, unroll: usize) -> u8 {
        match self.work.nest {
            Nest::Rows => fold as u8,
            Nest::Columns if self.along => 0,
            Nest::Columns => (fold * UNROLL + unroll) as u8,
        }
    }

    fn first_free(&self) -> u8 {
        let pinned = self.pinned.iter().flatten().count();
        (self.accumulators + pinned) as u8
    }

    /// Fills pinned registers: per row those whose operand moves with the row, else the others.
    fn pin(&self, asm: &mut Asm, at: &At, per_row: bool) {
        for (i, r) in self.pinned.iter().enumerate() {
            match (r, self.work.program.instrs[i]) {
                (Some(r), Instr::Const(c)) if !per_row => asm.spread(*r, Rm::Const(c)),
                (Some(r), Instr::Load(o)) if (self.work.operands[o].row != 0) == per_row => at.load(asm, o, *r),
                _ => {}
            }
        }
    }

    /// Operands as they are at the start: into registers, or into the half of the table that may change.
    fn load_pointers(&self, asm: &mut Asm) {
        for i in 0..self.work.operands.len() {
            let from = table_entry(self.work, i, false);
            match POINTERS.get(i) {
                Some(&r) => asm.load_gpr(r, from),
                None => {
                    asm.load_gpr(Rax, from);
                    asm.store_gpr(table_entry(self.work, i, true), Rax);
                }
            }
        }
    }

    fn advance(&self, asm: &mut Asm, i: usize, bytes: i32) {
        match POINTERS.get(i) {
            Some(&r) => asm.add(r, bytes),
            None => asm.add_memory(table_entry(self.work, i, true), bytes),
        }
    }

    fn folds(&self, whole: bool) -> impl Iterator<Item = (usize, &Fold)> {
        self.work.folds.iter().enumerate().filter(move |(_, f)| f.whole == whole)
    }

    fn begin_folds(&self, asm: &mut Asm, whole: bool) {
        self.folds(whole).for_each(|(f, fold)| begin(asm, fold.kind, f as u8));
    }

    fn end_folds(&self, asm: &mut Asm, at: &At, whole: bool) -> Result<(), OutOfRegisters> {
        for (f, fold) in self.folds(whole) {
            asm.across(fold.kind, f as u8, 31);
            let pointer = at.pointer(asm, fold.operand);
            asm.store_one(Mem::at(pointer, 0), f as u8);
        }
        Ok(())
    }
}

/// Sums of the current columns, of a fold and one of the rows taken together.
fn waiting(fold: usize, unroll: usize) -> Mem {
    Mem { base: Rsi, index: Some((Rcx, 2)), disp: ((fold * UNROLL + unroll) * TOGETHER * 4) as i32 }
}

fn begin(asm: &mut Asm, kind: FoldKind, r: u8) {
    match kind {
        FoldKind::Sum => asm.zero(r),
        FoldKind::Max => asm.spread(r, Rm::Const(f32::NEG_INFINITY)),
    }
}
