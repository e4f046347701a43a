//! The straight-line code a kernel runs for each element.

use citius_graph::scalar::{Binary, Unary};

use crate::plan::FoldKind;

pub type Var = usize;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Instr {
    /// Element of operand `i`, widened to f32.
    Load(usize),
    /// The product's element, in the epilogue of a matmul.
    Product,
    Const(f32),
    Unary(Unary, Var),
    Binary(Binary, Var, Var),
    /// `condition ≠ 0 ? then : otherwise`
    Select(Var, Var, Var),
    /// `a·b + c`, rounded once
    MulAdd(Var, Var, Var),
    /// `c − a·b`, rounded once
    NegMulAdd(Var, Var, Var),
    /// The value folded over its row, in every element of the row. Only in loops whose rows are at most [`SHORT_ROW`] long.
    FoldRow(FoldKind, Var),
}

/// A row this long fits one vector: a fold over it is there at once, for the rest of the same program to use.
pub const SHORT_ROW: usize = 16;

/// Instructions in order, each value made once.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Program {
    pub instrs: Vec<Instr>,
}

impl Program {
    /// The value of `instr`, adding it unless an equal one is there.
    pub fn push(&mut self, instr: Instr) -> Var {
        let same = |a: &Instr| match (a, &instr) {
            (Instr::Const(a), Instr::Const(b)) => a.to_bits() == b.to_bits(),
            (a, b) => a == b,
        };
        self.instrs.iter().position(same).unwrap_or_else(|| {
            self.instrs.push(instr);
            self.instrs.len() - 1
        })
    }

    pub fn flops(&self) -> usize {
        let flops = |i: &Instr| match i {
            Instr::Load(_) | Instr::Product | Instr::Const(_) => 0,
            Instr::Unary(op, _) => op.flops(),
            Instr::Binary(op, ..) => op.flops(),
            Instr::Select(..) => 1,
            Instr::MulAdd(..) | Instr::NegMulAdd(..) => 2,
            Instr::FoldRow(..) => 4,
        };
        self.instrs.iter().map(flops).sum()
    }

    /// Turns products that are used once, in a sum or difference, into fused multiply-adds, and drops what nobody uses.
    /// `results` are the values needed afterwards; they are renumbered.
    pub fn fuse_multiply_add(&mut self, results: &mut [Var]) {
        let uses = self.uses(results);
        for i in 0..self.instrs.len() {
            let product = |v: Var, other: &[Instr]| match other[v] {
                Instr::Binary(Binary::Mul, a, b) if uses[v] == 1 => Some((a, b)),
                _ => None,
            };
            self.instrs[i] = match self.instrs[i] {
                Instr::Binary(Binary::Add, a, b) => match (product(a, &self.instrs), product(b, &self.instrs)) {
                    (Some((x, y)), _) => Instr::MulAdd(x, y, b),
                    (None, Some((x, y))) => Instr::MulAdd(x, y, a),
                    (None, None) => self.instrs[i],
                },
                Instr::Binary(Binary::Sub, a, b) => match product(b, &self.instrs) {
                    Some((x, y)) => Instr::NegMulAdd(x, y, a),
                    None => self.instrs[i],
                },
                other => other,
            };
        }
        self.drop_unused(results);
    }

    fn drop_unused(&mut self, results: &mut [Var]) {
        let mut uses = self.uses(results);
        for i in (0..self.instrs.len()).rev() {
            if uses[i] == 0 {
                self.instrs[i].operands().into_iter().flatten().for_each(|v| uses[v] -= 1);
            }
        }
        let mut renamed = vec![0; self.instrs.len()];
        let mut kept = Vec::new();
        for (i, instr) in self.instrs.iter().enumerate().filter(|(i, _)| uses[*i] > 0) {
            renamed[i] = kept.len();
            kept.push(instr.renamed(&renamed));
        }
        self.instrs = kept;
        results.iter_mut().for_each(|r| *r = renamed[*r]);
    }

    fn uses(&self, results: &[Var]) -> Vec<usize> {
        let mut uses = vec![0; self.instrs.len()];
        let all = self.instrs.iter().flat_map(|i| i.operands()).flatten();
        all.chain(results.iter().copied()).for_each(|v| uses[v] += 1);
        uses
    }
}

impl Instr {
    /// The values it reads.
    pub fn operands(&self) -> [Option<Var>; 3] {
        match *self {
            Instr::Load(_) | Instr::Product | Instr::Const(_) => [None, None, None],
            Instr::Unary(_, a) | Instr::FoldRow(_, a) => [Some(a), None, None],
            Instr::Binary(_, a, b) => [Some(a), Some(b), None],
            Instr::Select(a, b, c) | Instr::MulAdd(a, b, c) | Instr::NegMulAdd(a, b, c) => [Some(a), Some(b), Some(c)],
        }
    }

    /// With other names for the values it reads.
    pub fn renamed(&self, to: &[Var]) -> Instr {
        match *self {
            Instr::Load(_) | Instr::Product | Instr::Const(_) => *self,
            Instr::Unary(op, a) => Instr::Unary(op, to[a]),
            Instr::FoldRow(kind, a) => Instr::FoldRow(kind, to[a]),
            Instr::Binary(op, a, b) => Instr::Binary(op, to[a], to[b]),
            Instr::Select(a, b, c) => Instr::Select(to[a], to[b], to[c]),
            Instr::MulAdd(a, b, c) => Instr::MulAdd(to[a], to[b], to[c]),
            Instr::NegMulAdd(a, b, c) => Instr::NegMulAdd(to[a], to[b], to[c]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_use_products_fuse() {
        let mut p = Program::default();
        let (a, b, c) = (p.push(Instr::Load(0)), p.push(Instr::Load(1)), p.push(Instr::Load(2)));
        let m = p.push(Instr::Binary(Binary::Mul, a, b));
        let mut result = [p.push(Instr::Binary(Binary::Add, c, m))];
        p.fuse_multiply_add(&mut result);
        assert_eq!(p.instrs.len(), 4);
        assert_eq!(p.instrs[result[0]], Instr::MulAdd(0, 1, 2));
    }
}
