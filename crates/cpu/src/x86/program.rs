//! Emits a program for 16 elements: every value in a vector register.

use citius_graph::scalar::{Binary, Unary};
use citius_plan::{FoldKind, Instr, Program, Var};

use super::asm::*;
use crate::math;

/// The program needs more registers than there are; the caller falls back.
#[derive(Debug)]
pub struct OutOfRegisters;

/// Where operands are, in the terms of the kernel around the program.
pub trait Operands {
    /// Emits the load of operand `i` into `dst`.
    fn load(&self, asm: &mut Asm, i: usize, dst: u8);
}

/// Registers handed out one by one.
#[derive(Clone)]
pub struct Registers {
    free: Vec<u8>,
    fewest: usize,
}

impl Registers {
    pub fn new(range: std::ops::Range<u8>) -> Registers {
        Registers { fewest: range.len(), free: range.rev().collect() }
    }

    pub fn take(&mut self) -> Result<u8, OutOfRegisters> {
        let r = self.free.pop().ok_or(OutOfRegisters)?;
        self.fewest = self.fewest.min(self.free.len());
        Ok(r)
    }

    pub fn give(&mut self, r: u8) {
        self.free.push(r);
    }

    /// The fewest that were ever free.
    pub fn fewest(&self) -> usize {
        self.fewest
    }
}

pub struct Emitter<'a> {
    asm: &'a mut Asm,
    program: &'a Program,
    registers: Registers,
    /// Values that stay in a register across iterations.
    pinned: &'a [Option<u8>],
    place: Vec<Option<u8>>,
    last_use: Vec<usize>,
    /// The vector is a row's tail: lanes beyond it count for nothing in a fold.
    tail: bool,
    /// Comparisons used only as the condition of selects become masks there.
    only_condition: Vec<bool>,
}

impl<'a> Emitter<'a> {
    pub fn new(
        asm: &'a mut Asm,
        program: &'a Program,
        results: &[Var],
        registers: Registers,
        pinned: &'a [Option<u8>],
    ) -> Emitter<'a> {
        let n = program.instrs.len();
        let mut last_use = vec![0; n];
        let mut only_condition: Vec<bool> = program
            .instrs
            .iter()
            .map(|i| matches!(i, Instr::Binary(Binary::Lt | Binary::Le | Binary::Eq, ..)))
            .collect();
        results.iter().for_each(|&r| only_condition[r] = false);
        for instr in &program.instrs {
            let condition = if let Instr::Select(c, ..) = instr { Some(*c) } else { None };
            for (at, var) in instr.operands().into_iter().enumerate() {
                if let Some(v) = var
                    && !(at == 0 && condition == Some(v))
                {
                    only_condition[v] = false;
                }
            }
        }
        for (i, instr) in program.instrs.iter().enumerate() {
            for v in instr.operands().into_iter().flatten() {
                last_use[v] = i;
                if only_condition[v] {
                    // its inputs are needed where the select is
                    program.instrs[v].operands().into_iter().flatten().for_each(|w| last_use[w] = last_use[w].max(i));
                }
            }
        }
        results.iter().for_each(|&r| last_use[r] = usize::MAX);
        Emitter { asm, program, registers, pinned, place: vec![None; n], last_use, tail: false, only_condition }
    }

    pub fn tail(mut self, tail: bool) -> Self {
        self.tail = tail;
        self
    }

    /// Emits every instruction; afterwards [`Emitter::register`] tells where results are. `product` is the accumulator.
    pub fn emit(&mut self, operands: &dyn Operands, product: Option<u8>) -> Result<(), OutOfRegisters> {
        for i in 0..self.program.instrs.len() {
            if self.pinned[i].is_some() {
                self.place[i] = self.pinned[i];
                continue;
            }
            match self.program.instrs[i] {
                Instr::Product => self.place[i] = product,
                Instr::Const(_) => {}
                Instr::Load(operand) => {
                    let r = self.registers.take()?;
                    operands.load(self.asm, operand, r);
                    self.place[i] = Some(r);
                }
                _ if self.only_condition[i] => {}
                instr => self.compute(i, instr, product)?,
            }
        }
        Ok(())
    }

    pub fn fewest_free(&self) -> usize {
        self.registers.fewest()
    }

    pub fn asm(&mut self) -> &mut Asm {
        self.asm
    }

    /// The register of a value, for reading; a constant is fetched.
    pub fn register(&mut self, var: Var) -> Result<u8, OutOfRegisters> {
        match (self.place[var], self.program.instrs[var]) {
            (Some(r), _) => Ok(r),
            (None, Instr::Const(c)) => {
                let r = self.registers.take()?;
                self.asm.spread(r, Rm::Const(c));
                self.place[var] = Some(r);
                Ok(r)
            }
            (None, _) => Err(OutOfRegisters),
        }
    }

    fn source(&self, var: Var) -> Option<Rm> {
        match (self.place[var], self.program.instrs[var]) {
            (Some(r), _) => Some(Rm::Zmm(r)),
            (None, Instr::Const(c)) => Some(Rm::Const(c)),
            (None, _) => None,
        }
    }

    /// A register for reading as first source; a constant gets a temporary one, returned for freeing.
    fn first(&mut self, var: Var) -> Result<(u8, Option<u8>), OutOfRegisters> {
        match (self.place[var], self.program.instrs[var]) {
            (Some(r), _) => Ok((r, None)),
            (None, Instr::Const(c)) => {
                let r = self.registers.take()?;
                self.asm.spread(r, Rm::Const(c));
                Ok((r, Some(r)))
            }
            (None, _) => Err(OutOfRegisters),
        }
    }

    fn dies(&self, var: Var, at: usize, product: Option<u8>) -> bool {
        let owned = self.place[var].is_some() && self.pinned[var].is_none() && self.place[var] != product;
        owned && self.last_use[var] <= at
    }

    fn compute(&mut self, i: usize, instr: Instr, product: Option<u8>) -> Result<(), OutOfRegisters> {
        let dst = match instr {
            Instr::MulAdd(a, b, c) | Instr::NegMulAdd(a, b, c) => self.multiply_add(i, instr, a, b, c, product)?,
            _ => {
                let dst = self.registers.take()?;
                self.plain(instr, dst)?;
                dst
            }
        };
        self.place[i] = Some(dst);
        // operands that are not read again give their registers back
        let mut read: Vec<Var> = instr.operands().into_iter().flatten().collect();
        if let Instr::Select(c, ..) = instr
            && self.only_condition[c]
        {
            read.extend(self.program.instrs[c].operands().into_iter().flatten());
        }
        read.sort_unstable();
        read.dedup();
        for v in read {
            if self.dies(v, i, product)
                && self.place[v] != Some(dst)
                && let Some(r) = self.place[v].take()
            {
                self.registers.give(r);
            }
        }
        Ok(())
    }

    /// `±a·b + c` in place of whichever operand is not needed any more.
    fn multiply_add(
        &mut self,
        i: usize,
        instr: Instr,
        a: Var,
        b: Var,
        c: Var,
        product: Option<u8>,
    ) -> Result<u8, OutOfRegisters> {
        let negative = matches!(instr, Instr::NegMulAdd(..));
        let (o231, o213) = if negative { (FNMA231, FNMA213) } else { (FMA231, FMA213) };
        let constant = |v: Var| matches!(self.program.instrs[v], Instr::Const(_)) && self.place[v].is_none();
        // the operand that may be a constant from the pool goes last
        let (a, b) = if constant(a) { (b, a) } else { (a, b) };
        if self.dies(c, i, product) && !constant(c) {
            let dst = self.place[c].ok_or(OutOfRegisters)?;
            let (x, temp) = self.first(a)?;
            let y = self.source(b).ok_or(OutOfRegisters)?;
            self.asm.three(o231, dst, x, y);
            temp.into_iter().for_each(|t| self.registers.give(t));
            return Ok(dst);
        }
        if a != b && self.dies(a, i, product) && !constant(b) {
            let dst = self.place[a].ok_or(OutOfRegisters)?;
            let (y, temp) = self.first(b)?;
            let z = self.source(c).ok_or(OutOfRegisters)?;
            self.asm.three(o213, dst, y, z);
            temp.into_iter().for_each(|t| self.registers.give(t));
            return Ok(dst);
        }
        let dst = self.registers.take()?;
        match self.source(c).ok_or(OutOfRegisters)? {
            Rm::Zmm(r) => self.asm.copy(dst, r),
            constant => self.asm.spread(dst, constant),
        }
        let (x, temp) = self.first(a)?;
        let y = self.source(b).ok_or(OutOfRegisters)?;
        self.asm.three(o231, dst, x, y);
        temp.into_iter().for_each(|t| self.registers.give(t));
        Ok(dst)
    }

    fn plain(&mut self, instr: Instr, dst: u8) -> Result<(), OutOfRegisters> {
        match instr {
            Instr::Unary(op, a) => {
                let (a, temp) = self.first(a)?;
                self.unary(op, dst, a)?;
                temp.into_iter().for_each(|t| self.registers.give(t));
            }
            Instr::Binary(op, a, b) => self.binary(op, dst, a, b)?,
            Instr::FoldRow(kind, a) => {
                let (a, temp) = self.first(a)?;
                let neutral = match kind {
                    FoldKind::Sum => 0.0,
                    FoldKind::Max => f32::NEG_INFINITY,
                };
                match self.tail {
                    true => {
                        self.asm.spread(dst, Rm::Const(neutral));
                        self.asm.copy_masked(dst, a, TAIL);
                    }
                    false => self.asm.copy(dst, a),
                }
                let other = self.registers.take()?;
                self.asm.across(kind, dst, other);
                self.registers.give(other);
                temp.into_iter().for_each(|t| self.registers.give(t));
            }
            Instr::Select(c, a, b) => {
                let (no, temp) = self.first(b)?;
                self.condition(c)?;
                let yes = self.source(a).ok_or(OutOfRegisters)?;
                self.asm.blend(dst, SCRATCH, no, yes);
                temp.into_iter().for_each(|t| self.registers.give(t));
            }
            Instr::Load(_) | Instr::Product | Instr::Const(_) | Instr::MulAdd(..) | Instr::NegMulAdd(..) => {}
        }
        Ok(())
    }

    /// Sets the scratch mask where the value is not 0.
    fn condition(&mut self, var: Var) -> Result<(), OutOfRegisters> {
        match self.program.instrs[var] {
            Instr::Binary(op, a, b) if self.only_condition[var] => self.compare(op, a, b),
            _ => {
                let (c, temp) = self.first(var)?;
                self.asm.compare(SCRATCH, c, Rm::Const(0.0), NOT_EQUAL);
                temp.into_iter().for_each(|t| self.registers.give(t));
                Ok(())
            }
        }
    }

    fn compare(&mut self, op: Binary, a: Var, b: Var) -> Result<(), OutOfRegisters> {
        let predicate = match op {
            Binary::Lt => LESS,
            Binary::Le => LESS_EQUAL,
            _ => EQUAL,
        };
        let (x, temp) = self.first(a)?;
        let y = self.source(b).ok_or(OutOfRegisters)?;
        self.asm.compare(SCRATCH, x, y, predicate);
        temp.into_iter().for_each(|t| self.registers.give(t));
        Ok(())
    }

    fn binary(&mut self, op: Binary, dst: u8, a: Var, b: Var) -> Result<(), OutOfRegisters> {
        let constant = |v: Var| matches!(self.program.instrs[v], Instr::Const(_)) && self.place[v].is_none();
        // a constant is cheapest as the last source
        let swap = matches!(op, Binary::Add | Binary::Mul) && constant(a);
        let (a, b) = if swap { (b, a) } else { (a, b) };
        let code = match op {
            Binary::Add => ADD,
            Binary::Sub => SUB,
            Binary::Mul => MUL,
            Binary::Div => DIV,
            Binary::Min | Binary::Max => {
                let code = if op == Binary::Min { MIN } else { MAX };
                return self.extreme(code, dst, a, b);
            }
            Binary::Lt | Binary::Le | Binary::Eq => {
                self.compare(op, a, b)?;
                self.asm.truth(dst, SCRATCH);
                return Ok(());
            }
        };
        let (x, temp) = self.first(a)?;
        let y = self.source(b).ok_or(OutOfRegisters)?;
        self.asm.three(code, dst, x, y);
        temp.into_iter().for_each(|t| self.registers.give(t));
        Ok(())
    }

    /// The hardware's min and max give the second source when either is not a number.
    fn extreme(&mut self, code: Op, dst: u8, a: Var, b: Var) -> Result<(), OutOfRegisters> {
        let number = |v: Var| matches!(self.program.instrs[v], Instr::Const(c) if !c.is_nan());
        let (a, b) = if number(b) { (b, a) } else { (a, b) };
        let known = number(a);
        let (x, temp) = self.first(a)?;
        let (y, temp2) = self.first(b)?;
        self.asm.three(code, dst, x, Rm::Zmm(y));
        if !known {
            self.asm.compare(SCRATCH, x, Rm::Zmm(x), UNORDERED);
            self.asm.copy_masked(dst, x, SCRATCH);
        }
        temp.into_iter().chain(temp2).for_each(|t| self.registers.give(t));
        Ok(())
    }

    fn unary(&mut self, op: Unary, dst: u8, a: u8) -> Result<(), OutOfRegisters> {
        match op {
            Unary::Neg => self.asm.three(XOR, dst, a, sign_bit()),
            Unary::Abs => self.asm.three(AND, dst, a, all_but_sign()),
            Unary::Sqrt => self.asm.two(SQRT, dst, Rm::Zmm(a)),
            Unary::Floor => self.asm.round(dst, a, DOWN),
            Unary::Exp => self.exp(dst, a)?,
            Unary::Log => self.log(dst, a)?,
            Unary::Tanh => self.tanh(dst, a)?,
            Unary::Erf => self.erf(dst, a)?,
            Unary::Cos => self.cos(dst, a)?,
        }
        Ok(())
    }

    /// `dst = ((c₀·x + c₁)·x + …)`; `dst` ≠ `x`
    fn polynomial(&mut self, dst: u8, x: u8, coefficients: &[f32]) {
        self.asm.spread(dst, Rm::Const(coefficients[0]));
        for &c in &coefficients[1..] {
            self.asm.three(FMA213, dst, x, Rm::Const(c));
        }
    }

    /// See [`math::exp`]; `dst` may not be `a`.
    fn exp(&mut self, dst: u8, a: u8) -> Result<(), OutOfRegisters> {
        let (n, r) = (self.registers.take()?, self.registers.take()?);
        // the constant first: not-a-number passes through
        self.asm.spread(r, Rm::Const(math::EXP_MAX));
        self.asm.three(MIN, r, r, Rm::Zmm(a));
        self.asm.spread(n, Rm::Const(math::EXP_MIN));
        self.asm.three(MAX, r, n, Rm::Zmm(r));
        self.asm.three(MUL, n, r, Rm::Const(std::f32::consts::LOG2_E));
        self.asm.round(n, n, TO_NEAREST);
        self.asm.three(FNMA231, r, n, Rm::Const(math::LN2_HIGH));
        self.asm.three(FNMA231, r, n, Rm::Const(math::LN2_LOW));
        self.polynomial(dst, r, &math::EXP);
        // p·r² + r + 1
        self.asm.three(MUL, dst, dst, Rm::Zmm(r));
        self.asm.three(FMA213, dst, r, Rm::Zmm(r));
        self.asm.three(ADD, dst, dst, Rm::Const(1.0));
        self.asm.three(SCALEF, dst, dst, Rm::Zmm(n));
        self.registers.give(n);
        self.registers.give(r);
        Ok(())
    }

    /// See [`math::log`].
    fn log(&mut self, dst: u8, a: u8) -> Result<(), OutOfRegisters> {
        let (e, m, z) = (self.registers.take()?, self.registers.take()?, self.registers.take()?);
        self.asm.exponent(e, a);
        self.asm.mantissa(m, a);
        // m in [√½, √2)
        self.asm.compare(SCRATCH, m, Rm::Const(std::f32::consts::SQRT_2), NOT_LESS);
        self.asm.three(ADD, z, e, Rm::Const(1.0));
        self.asm.copy_masked(e, z, SCRATCH);
        self.asm.three(MUL, z, m, Rm::Const(0.5));
        self.asm.copy_masked(m, z, SCRATCH);
        self.asm.three(SUB, m, m, Rm::Const(1.0));
        self.polynomial(dst, m, &math::LOG);
        self.asm.three(MUL, dst, dst, Rm::Zmm(m));
        self.asm.three(MUL, z, m, Rm::Zmm(m));
        self.asm.three(MUL, dst, dst, Rm::Zmm(z));
        self.asm.three(FMA231, dst, e, Rm::Const(math::LN2_LOW));
        self.asm.three(FNMA231, dst, z, Rm::Const(0.5));
        self.asm.three(ADD, dst, dst, Rm::Zmm(m));
        self.asm.three(FMA231, dst, e, Rm::Const(math::LN2_HIGH));
        // log 0 = −∞, log ∞ = ∞
        self.asm.compare(SCRATCH, a, Rm::Const(f32::INFINITY), EQUAL);
        self.asm.copy_masked(dst, a, SCRATCH);
        self.asm.compare(SCRATCH, a, Rm::Const(0.0), EQUAL);
        self.asm.spread(z, Rm::Const(f32::NEG_INFINITY));
        self.asm.copy_masked(dst, z, SCRATCH);
        [e, m, z].into_iter().for_each(|r| self.registers.give(r));
        Ok(())
    }

    /// See [`math::tanh`].
    fn tanh(&mut self, dst: u8, a: u8) -> Result<(), OutOfRegisters> {
        let (x, y) = (self.registers.take()?, self.registers.take()?);
        self.asm.three(AND, x, a, all_but_sign());
        self.asm.three(ADD, y, x, Rm::Zmm(x));
        self.exp(dst, y)?;
        self.asm.three(ADD, dst, dst, Rm::Const(1.0));
        self.asm.spread(y, Rm::Const(2.0));
        self.asm.three(DIV, y, y, Rm::Zmm(dst));
        self.asm.spread(dst, Rm::Const(1.0));
        self.asm.three(SUB, dst, dst, Rm::Zmm(y));
        self.asm.three(AND, y, a, sign_bit());
        self.asm.three(OR, dst, dst, Rm::Zmm(y));
        self.asm.compare(SCRATCH, x, Rm::Const(math::TANH_SMALL), LESS);
        self.asm.three(MUL, x, a, Rm::Zmm(a));
        self.polynomial(y, x, &math::TANH);
        self.asm.three(MUL, y, y, Rm::Zmm(x));
        self.asm.three(FMA213, y, a, Rm::Zmm(a));
        self.asm.copy_masked(dst, y, SCRATCH);
        [x, y].into_iter().for_each(|r| self.registers.give(r));
        Ok(())
    }

    /// See [`math::erf`].
    fn erf(&mut self, dst: u8, a: u8) -> Result<(), OutOfRegisters> {
        let (c, z, q) = (self.registers.take()?, self.registers.take()?, self.registers.take()?);
        self.asm.spread(c, Rm::Const(math::ERF_MAX));
        self.asm.three(MIN, c, c, Rm::Zmm(a));
        self.asm.spread(z, Rm::Const(-math::ERF_MAX));
        self.asm.three(MAX, c, z, Rm::Zmm(c));
        self.asm.three(MUL, z, c, Rm::Zmm(c));
        self.polynomial(dst, z, &math::ERF_P);
        self.polynomial(q, z, &math::ERF_Q);
        self.asm.three(MUL, dst, dst, Rm::Zmm(c));
        self.asm.three(DIV, dst, dst, Rm::Zmm(q));
        // ±1 beyond
        self.asm.three(AND, c, a, all_but_sign());
        self.asm.compare(SCRATCH, c, Rm::Const(math::ERF_MAX), NOT_LESS);
        self.asm.three(AND, q, a, sign_bit());
        self.asm.three(OR, q, q, Rm::Const(1.0));
        self.asm.copy_masked(dst, q, SCRATCH);
        self.asm.compare(SCRATCH, a, Rm::Zmm(a), UNORDERED);
        self.asm.copy_masked(dst, a, SCRATCH);
        [c, z, q].into_iter().for_each(|r| self.registers.give(r));
        Ok(())
    }

    /// See [`math::cos`].
    fn cos(&mut self, dst: u8, a: u8) -> Result<(), OutOfRegisters> {
        let (n, r) = (self.registers.take()?, self.registers.take()?);
        self.asm.three(MUL, n, a, Rm::Const(std::f32::consts::FRAC_1_PI));
        self.asm.round(n, n, TO_NEAREST);
        self.asm.copy(r, a);
        for part in math::PI {
            self.asm.three(FNMA231, r, n, Rm::Const(part));
        }
        self.asm.three(MUL, r, r, Rm::Zmm(r));
        self.polynomial(dst, r, &math::COS);
        // the sign of (−1)ⁿ: 1 − 4·frac(n/2)
        self.asm.three(MUL, n, n, Rm::Const(0.5));
        self.asm.round(r, n, DOWN);
        self.asm.three(SUB, n, n, Rm::Zmm(r));
        self.asm.spread(r, Rm::Const(1.0));
        self.asm.three(FNMA231, r, n, Rm::Const(4.0));
        self.asm.three(MUL, dst, dst, Rm::Zmm(r));
        self.registers.give(n);
        self.registers.give(r);
        Ok(())
    }
}

fn sign_bit() -> Rm {
    Rm::Const(-0.0)
}

fn all_but_sign() -> Rm {
    Rm::Const(f32::from_bits(0x7FFF_FFFF))
}
