//! Products with a batch of bytes that are mostly zero, from lists of those that are not (see [`crate::kernels::nonzeros`]).
//! Two columns of bytes at a time: neighbours are mostly zero together, and with two values for each load and store of a row the
//! multiply-adds are the limit again.
//!
//! `rdi` points at [`Args`], `rsi` walks a list, `rax`, `rcx` and `rdx` take an entry apart, `rbx` points at rows to read or add
//! to, `rbp` at the number that each byte stands for. The pointers of epilogue operands are where the other products have them.

use std::mem::offset_of;

use citius_plan::Matmul;

use super::asm::Gpr::*;
use super::asm::*;
use super::code::Code;
use super::matmul::{At, LANES, SAVED, Shared, epilogue, pin_constants};
use super::program::{OutOfRegisters, Registers};

/// Columns of a panel, at most.
pub const PANEL: usize = 64;
/// Rows that share a list.
pub const CHUNK: usize = 64;
/// Bytes of a list: its own length in bytes, then entries of `value | second value << 8 | row << 16`.
pub const LIST: usize = 8 + 4 * CHUNK;
/// Bytes of a row of sums.
const SUMS_ROW: usize = PANEL * 4;

/// What a kernel is called with.
#[repr(C)]
pub struct Args {
    /// The first pair's list.
    pub lists: *const u8,
    /// Whole pairs to walk, at least 1 unless there is a half one.
    pub pairs: usize,
    /// Walk the last column, which has no partner, too.
    pub half: usize,
    /// The right side, at the panel's first column.
    pub b: *const f32,
    /// Of each byte, less that of byte 0.
    pub values: *const f32,
    /// [`CHUNK`] rows of [`PANEL`] zeros to add to; only for [`Side::Rows`].
    pub sums: *mut f32,
    /// Rows of this chunk; only for [`Side::Rows`].
    pub rows: usize,
    /// Epilogue operands at the first element of the result.
    pub table: *const *mut u8,
    /// For the kernel's own use.
    pub end: *const u8,
    pub chunks: usize,
}

type Entry = unsafe extern "sysv64" fn(args: *mut Args);

/// Which way the bytes are multiplied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// `x·B`, for one chunk of rows of x and one panel of B.
    Rows,
    /// `xᵀ·B`, for some pairs of columns of x and one panel of B.
    Columns,
}

pub struct NonzerosKernel {
    side: Side,
    /// For a whole panel, for the last one.
    entries: [Entry; 2],
    _code: Code,
}

/// Epilogue operands that have a register beside what the walk needs.
const MOST_OPERANDS: usize = 8;

impl NonzerosKernel {
    /// `shift` is what byte 0 stands for. `None` where generated code has no answer; the dense product then serves.
    pub fn new(work: &Matmul, side: Side, shift: f32) -> Option<NonzerosKernel> {
        if work.operands.len() > MOST_OPERANDS || work.b.row * 4 * CHUNK >= i32::MAX as usize {
            return None;
        }
        let mut bytes = Vec::new();
        let mut offsets = [0; 2];
        for (panel, cols) in [PANEL, work.n % PANEL].into_iter().enumerate() {
            if cols == 0 || cols > work.n {
                continue;
            }
            let mut asm = Asm::default();
            let generator = Generator { work, cols, wide: cols.div_ceil(LANES), shift };
            match side {
                Side::Rows => generator.rows(&mut asm).ok()?,
                Side::Columns => generator.columns(&mut asm).ok()?,
            }
            offsets[panel] = bytes.len();
            bytes.extend(asm.finish());
            bytes.resize(bytes.len().next_multiple_of(64), 0xCC);
        }
        let code = Code::new(&bytes)?;
        // SAFETY: the bytes at each offset are a complete function of this signature; an unused entry repeats the other.
        let entries = offsets.map(|o| unsafe { std::mem::transmute::<*const u8, Entry>(code.entry(o)) });
        Some(NonzerosKernel { side, entries, _code: code })
    }

    pub fn side(&self) -> Side {
        self.side
    }

    /// SAFETY: the arguments are as [`Args`] says, for a panel of `cols` columns.
    pub unsafe fn run(&self, args: &mut Args, cols: usize) {
        self.entries[(cols != PANEL) as usize](args)
    }
}

struct Generator<'a> {
    work: &'a Matmul,
    cols: usize,
    wide: usize,
    shift: f32,
}

/// Vector registers: two rows of weights or of sums, then a row of column sums, then these.
const FIRST: u8 = 12;
const SECOND: u8 = 13;
const ROW: u8 = 14;
/// First of those that only epilogues use.
const REST: u8 = 18;

fn argument(offset: usize) -> Mem {
    Mem::at(Rdi, offset as i32)
}

impl Generator<'_> {
    /// Sums of all rows stay in the first-level cache while the right side streams by, once.
    fn rows(&self, asm: &mut Asm) -> Result<(), OutOfRegisters> {
        let (lists, b) = (R8, R9);
        self.begin(asm);
        asm.load_gpr(lists, argument(offset_of!(Args, lists)));
        asm.load_gpr(b, argument(offset_of!(Args, b)));
        asm.load_gpr(Rbx, argument(offset_of!(Args, sums)));
        (0..self.wide).for_each(|j| asm.zero(self.total(j)));
        let row_bytes = (self.work.b.row * 4) as i32;
        self.each_pair(asm, |asm, half| {
            for j in 0..self.wide {
                asm.load(self.low(j), Mem::at(b, (j * LANES * 4) as i32), self.mask(j));
                match half {
                    true => asm.zero(self.high(j)),
                    false => asm.load(self.high(j), Mem::at(b, row_bytes + (j * LANES * 4) as i32), self.mask(j)),
                }
            }
            if self.shift != 0.0 {
                (0..self.wide).for_each(|j| asm.three(ADD, self.total(j), self.total(j), Rm::Zmm(self.low(j))));
                (0..self.wide).for_each(|j| asm.three(ADD, self.total(j), self.total(j), Rm::Zmm(self.high(j))));
            }
            asm.copy_gpr(Rsi, lists);
            self.each_entry(asm, SUMS_ROW, |asm| {
                for j in 0..self.wide {
                    let m = Mem { base: Rbx, index: Some((Rax, 0)), disp: (j * LANES * 4) as i32 };
                    let sum = ROW + j as u8;
                    asm.load(sum, m, 0);
                    asm.three(FMA231, sum, FIRST, Rm::Zmm(self.low(j)));
                    asm.three(FMA231, sum, SECOND, Rm::Zmm(self.high(j)));
                    asm.store(m, sum, 0);
                }
            });
            asm.add(lists, LIST as i32);
            asm.add(b, 2 * row_bytes);
            Ok(())
        })?;
        (0..self.wide).for_each(|j| asm.three(MUL, self.total(j), self.total(j), Rm::Const(self.shift)));
        self.load_pointers(asm);
        let (pinned, free) = pin_constants(asm, self.work, REST);
        asm.load_gpr(Rcx, argument(offset_of!(Args, rows)));
        let again = asm.label();
        asm.place(again);
        for j in 0..self.wide {
            asm.three(ADD, self.low(0), self.total(j), Rm::Mem(Mem::at(Rbx, (j * LANES * 4) as i32)));
            epilogue(asm, self.work, &self.at(0, j), self.low(0), Registers::new(free..32), &pinned)?;
        }
        asm.add(Rbx, SUMS_ROW as i32);
        self.advance_pointers(asm, 1);
        asm.subtract(Rcx, 1);
        asm.jump_if_not_zero(again);
        self.end(asm);
        Ok(())
    }

    /// Sums of two rows of the result stay in registers; the right side, a batch of rows, stays in the first-level cache.
    fn columns(&self, asm: &mut Asm) -> Result<(), OutOfRegisters> {
        let row_bytes = self.work.b.row * 4;
        self.begin(asm);
        asm.load_gpr(Rbx, argument(offset_of!(Args, b)));
        self.total_of_rows(asm, row_bytes as i32);
        self.load_pointers(asm);
        let (pinned, free) = pin_constants(asm, self.work, REST);
        let chunks = self.work.k.div_ceil(CHUNK);
        let lists_apart = (lists_of(self.work.m) * LIST) as i32;
        self.each_pair(asm, |asm, half| {
            (0..2 * self.wide).for_each(|r| asm.zero(r as u8));
            asm.load_gpr(Rsi, argument(offset_of!(Args, lists)));
            let again = asm.label();
            if chunks > 1 {
                asm.set(Rax, chunks as i32);
                asm.store_gpr(argument(offset_of!(Args, chunks)), Rax);
                asm.place(again);
            }
            self.each_entry(asm, row_bytes, |asm| {
                for j in 0..self.wide {
                    let m = Mem { base: Rbx, index: Some((Rax, 0)), disp: (j * LANES * 4) as i32 };
                    asm.load(ROW + j as u8, m, self.mask(j));
                    asm.three(FMA231, self.low(j), FIRST, Rm::Zmm(ROW + j as u8));
                    asm.three(FMA231, self.high(j), SECOND, Rm::Zmm(ROW + j as u8));
                }
            });
            if chunks > 1 {
                // the same pair of the next chunk, whose list is where this one began and a whole set of lists on
                asm.add(Rbx, (CHUNK * row_bytes) as i32);
                asm.load_gpr(Rsi, argument(offset_of!(Args, lists)));
                asm.add(Rsi, lists_apart);
                asm.store_gpr(argument(offset_of!(Args, lists)), Rsi);
                asm.add_memory(argument(offset_of!(Args, chunks)), -1);
                asm.jump_if_not_zero(again);
                asm.add(Rbx, -((chunks * CHUNK * row_bytes) as i32));
                asm.add_memory(argument(offset_of!(Args, lists)), -(chunks as i32) * lists_apart);
            }
            for (row, first) in [(0, 0), (1, self.wide as u8)].into_iter().take(if half { 1 } else { 2 }) {
                for j in 0..self.wide {
                    let product = first + j as u8;
                    asm.three(ADD, product, product, Rm::Zmm(self.total(j)));
                    epilogue(asm, self.work, &self.at(row, j), product, Registers::new(free..32), &pinned)?;
                }
            }
            self.advance_pointers(asm, 2);
            asm.add_memory(argument(offset_of!(Args, lists)), LIST as i32);
            Ok(())
        })?;
        self.end(asm);
        Ok(())
    }

    fn begin(&self, asm: &mut Asm) {
        SAVED.iter().for_each(|&r| asm.push(r));
        if !self.cols.is_multiple_of(LANES) {
            asm.set(Rax, (1 << (self.cols % LANES)) - 1);
            asm.mask_from(TAIL, Rax);
        }
        asm.load_gpr(Rbp, argument(offset_of!(Args, values)));
    }

    fn end(&self, asm: &mut Asm) {
        SAVED.iter().rev().for_each(|&r| asm.pop(r));
        asm.leave();
    }

    /// `body` for each whole pair, then for a column without a partner.
    fn each_pair(
        &self,
        asm: &mut Asm,
        body: impl Fn(&mut Asm, bool) -> Result<(), OutOfRegisters>,
    ) -> Result<(), OutOfRegisters> {
        let (again, half, end) = (asm.label(), asm.label(), asm.label());
        asm.add_memory(argument(offset_of!(Args, pairs)), 0);
        asm.jump_if_zero(half);
        asm.place(again);
        body(asm, false)?;
        asm.add_memory(argument(offset_of!(Args, pairs)), -1);
        asm.jump_if_not_zero(again);
        asm.place(half);
        asm.add_memory(argument(offset_of!(Args, half)), 0);
        asm.jump_if_zero(end);
        body(asm, true)?;
        asm.place(end);
        Ok(())
    }

    /// `body` for each entry of the list at `rsi`, with its two values spread and `rax` at its row.
    fn each_entry(&self, asm: &mut Asm, row_bytes: usize, body: impl Fn(&mut Asm)) {
        let (again, end) = (asm.label(), asm.label());
        asm.load_gpr(Rcx, Mem::at(Rsi, 0));
        asm.add(Rsi, 8);
        asm.subtract(Rcx, 0);
        asm.jump_if_zero(end);
        asm.add_gpr(Rcx, Rsi);
        asm.store_gpr(argument(offset_of!(Args, end)), Rcx);
        asm.place(again);
        asm.load_u32(Rax, Mem::at(Rsi, 0));
        asm.byte_of_rax(Rcx, false);
        asm.byte_of_rax(Rdx, true);
        asm.shift_right(Rax, 16);
        asm.multiply(Rax, row_bytes as i32);
        let value = |byte: Gpr| Rm::Spread(Mem { base: Rbp, index: Some((byte, 2)), disp: 0 });
        asm.spread(FIRST, value(Rcx));
        asm.spread(SECOND, value(Rdx));
        body(asm);
        asm.add(Rsi, 4);
        asm.compare_with(Rsi, argument(offset_of!(Args, end)));
        asm.jump_if_not_zero(again);
        asm.place(end);
    }

    /// `shift·Σ rows of B`: what every row of the result has in common.
    fn total_of_rows(&self, asm: &mut Asm, row_bytes: i32) {
        (0..self.wide).for_each(|j| asm.zero(self.total(j)));
        if self.shift == 0.0 {
            return;
        }
        let again = asm.label();
        asm.copy_gpr(Rsi, Rbx);
        asm.set(Rcx, self.work.k as i32);
        asm.place(again);
        for j in 0..self.wide {
            asm.load(ROW, Mem::at(Rsi, (j * LANES * 4) as i32), self.mask(j));
            asm.three(ADD, self.total(j), self.total(j), Rm::Zmm(ROW));
        }
        asm.add(Rsi, row_bytes);
        asm.subtract(Rcx, 1);
        asm.jump_if_not_zero(again);
        (0..self.wide).for_each(|j| asm.three(MUL, self.total(j), self.total(j), Rm::Const(self.shift)));
    }

    fn load_pointers(&self, asm: &mut Asm) {
        asm.load_gpr(Rdx, argument(offset_of!(Args, table)));
        for (operand, r) in Shared::new(self.work).each() {
            asm.load_gpr(r, Mem::at(Rdx, 8 * operand as i32));
        }
    }

    fn advance_pointers(&self, asm: &mut Asm, rows: usize) {
        for (operand, r) in Shared::new(self.work).each() {
            asm.add(r, (rows * self.work.operands[operand].row * 4) as i32);
        }
    }

    fn at(&self, row: usize, vector: usize) -> At<'_> {
        At { work: self.work, row, vector, tail: self.mask(vector) != 0, lanes_are_rows: false }
    }

    /// The mask of vector `j` of a row.
    fn mask(&self, j: usize) -> u8 {
        if j + 1 == self.wide && !self.cols.is_multiple_of(LANES) { TAIL } else { 0 }
    }

    fn low(&self, j: usize) -> u8 {
        j as u8
    }

    fn high(&self, j: usize) -> u8 {
        (self.wide + j) as u8
    }

    fn total(&self, j: usize) -> u8 {
        (2 * self.wide + j) as u8
    }
}

/// Lists that a chunk of rows of this width has: a block of 16 columns has 8, whole or not.
pub fn lists_of(width: usize) -> usize {
    width.div_ceil(16) * 8
}
