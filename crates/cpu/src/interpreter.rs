//! Runs a program on blocks of elements: one instruction at a time over a block that stays in the first-level cache. The path
//! of machines without AVX-512, and of the few kernels that have no generated code.

use std::cell::UnsafeCell;

use citius_graph::DType;
use citius_graph::scalar::{Binary, Unary};
use citius_plan::{FoldKind, Instr, Program};

use crate::math;

/// Elements per block: 16 values of 1 KiB fit the cache.
pub const BLOCK: usize = 256;

/// Values of a program for one block.
pub struct Registers(Vec<[f32; BLOCK]>);

/// This thread's registers, grown to fit the program: after the first step nothing is allocated. A pointer rather than a
/// closure, so that the caller's loops are compiled for the caller's instruction set.
///
/// SAFETY of using it: until the next call on this thread, by one kernel at a time.
pub fn registers(program: &Program) -> *mut Registers {
    thread_local! {
        static REGISTERS: UnsafeCell<Registers> = const { UnsafeCell::new(Registers(Vec::new())) };
    }
    REGISTERS.with(|cell| {
        // SAFETY: kernels do not call each other, so no reference to this thread's registers is alive here.
        let registers = unsafe { &mut *cell.get() };
        if registers.0.len() < program.instrs.len() {
            registers.0.resize(program.instrs.len(), [0.0; BLOCK]);
        }
        cell.get()
    })
}

impl Registers {
    pub fn value(&self, var: usize, n: usize) -> &[f32] {
        &self.0[var][..n]
    }
}

/// Where a block of an operand begins, and the distance to the next element.
#[derive(Clone, Copy)]
pub struct Source {
    pub pointer: *const u8,
    pub dtype: DType,
    pub stride: usize,
}

impl Source {
    /// SAFETY: `pointer + i·stride` for `i < n` is inside the operand's buffer: the plan's verifier checked its reach.
    #[inline(always)]
    pub unsafe fn read(self, out: &mut [f32]) {
        let stride = self.stride;
        match self.dtype {
            DType::F32 => {
                let p = self.pointer as *const f32;
                match stride {
                    0 => out.fill(*p),
                    1 => out.iter_mut().enumerate().for_each(|(i, x)| *x = *p.add(i)),
                    _ => out.iter_mut().enumerate().for_each(|(i, x)| *x = *p.add(i * stride)),
                }
            }
            DType::I32 => {
                let p = self.pointer as *const i32;
                out.iter_mut().enumerate().for_each(|(i, x)| *x = *p.add(i * stride) as f32);
            }
            DType::U8 => {
                let p = self.pointer;
                out.iter_mut().enumerate().for_each(|(i, x)| *x = *p.add(i * stride) as f32);
            }
        }
    }
}

/// Computes every value of the program for `n ≤ BLOCK` elements. They are whole rows of `row` elements, or one
/// row's part. `load(i, out)` fetches operand `i`; `product` is the accumulator of a matmul's epilogue.
///
/// SAFETY: as [`Source::read`] for each operand.
#[inline(always)]
pub unsafe fn run<const FMA: bool>(
    program: &Program,
    registers: &mut Registers,
    n: usize,
    row: usize,
    load: impl Fn(usize, &mut [f32]),
    product: &[f32],
) {
    for (i, instr) in program.instrs.iter().enumerate() {
        let (done, rest) = registers.0.split_at_mut(i);
        let out = &mut rest[0][..n];
        let v = |var: usize| &done[var][..n];
        match *instr {
            Instr::Load(operand) => load(operand, out),
            Instr::Product => out.copy_from_slice(&product[..n]),
            Instr::Const(c) => out.fill(c),
            Instr::Unary(op, a) => unary(op, out, v(a)),
            Instr::Binary(op, a, b) => binary(op, out, v(a), v(b)),
            Instr::FoldRow(kind, a) => {
                for (out, x) in out.chunks_exact_mut(row).zip(v(a).chunks_exact(row)) {
                    out.fill(match kind {
                        FoldKind::Sum => x.iter().sum(),
                        FoldKind::Max => x.iter().copied().fold(f32::NEG_INFINITY, math::max),
                    });
                }
            }
            Instr::Select(c, a, b) => {
                let (c, a, b) = (v(c), v(a), v(b));
                for j in 0..n {
                    out[j] = if c[j] != 0.0 { a[j] } else { b[j] };
                }
            }
            Instr::MulAdd(a, b, c) => {
                let (a, b, c) = (v(a), v(b), v(c));
                for j in 0..n {
                    out[j] = if FMA { a[j].mul_add(b[j], c[j]) } else { a[j] * b[j] + c[j] };
                }
            }
            Instr::NegMulAdd(a, b, c) => {
                let (a, b, c) = (v(a), v(b), v(c));
                for j in 0..n {
                    out[j] = if FMA { (-a[j]).mul_add(b[j], c[j]) } else { c[j] - a[j] * b[j] };
                }
            }
        }
    }
}

#[inline(always)]
fn unary(op: Unary, out: &mut [f32], a: &[f32]) {
    #[inline(always)]
    fn each(out: &mut [f32], a: &[f32], f: impl Fn(f32) -> f32) {
        out.iter_mut().zip(a).for_each(|(y, &x)| *y = f(x));
    }
    match op {
        Unary::Neg => each(out, a, |x| -x),
        Unary::Abs => each(out, a, f32::abs),
        Unary::Sqrt => each(out, a, f32::sqrt),
        Unary::Exp => each(out, a, math::exp),
        Unary::Log => each(out, a, math::log),
        Unary::Tanh => each(out, a, math::tanh),
        Unary::Erf => each(out, a, math::erf),
        Unary::Cos => each(out, a, math::cos),
        Unary::Floor => each(out, a, f32::floor),
    }
}

#[inline(always)]
fn binary(op: Binary, out: &mut [f32], a: &[f32], b: &[f32]) {
    #[inline(always)]
    fn each(out: &mut [f32], a: &[f32], b: &[f32], f: impl Fn(f32, f32) -> f32) {
        out.iter_mut().zip(a).zip(b).for_each(|((y, &a), &b)| *y = f(a, b));
    }
    let truth = |t: bool| if t { 1.0 } else { 0.0 };
    match op {
        Binary::Add => each(out, a, b, |a, b| a + b),
        Binary::Sub => each(out, a, b, |a, b| a - b),
        Binary::Mul => each(out, a, b, |a, b| a * b),
        Binary::Div => each(out, a, b, |a, b| a / b),
        Binary::Min => each(out, a, b, math::min),
        Binary::Max => each(out, a, b, math::max),
        Binary::Lt => each(out, a, b, |a, b| truth(a < b)),
        Binary::Le => each(out, a, b, |a, b| truth(a <= b)),
        Binary::Eq => each(out, a, b, |a, b| truth(a == b)),
    }
}
