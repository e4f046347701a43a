//! The scalar language of map ops: straight-line code over a few primitives. Executors render it (a SIMD loop, CUDA C); the
//! reference evaluator runs it in f64.

/// A value of the program: the index of the instruction that makes it.
pub type Var = usize;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unary {
    Neg,
    Abs,
    Sqrt,
    Exp,
    Log,
    Tanh,
    Erf,
    Cos,
    Floor,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    /// As PyTorch's `minimum`: not-a-number wins.
    Min,
    Max,
    /// 1 where true, 0 elsewhere.
    Lt,
    Le,
    Eq,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Instr {
    Input(usize),
    Const(f64),
    Unary(Unary, Var),
    Binary(Binary, Var, Var),
    /// `condition ≠ 0 ? then : otherwise`
    Select(Var, Var, Var),
}

/// Builder of a scalar program; equal instructions are made once.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Scalar {
    pub instrs: Vec<Instr>,
}

impl Scalar {
    pub fn push(&mut self, instr: Instr) -> Var {
        let same = |a: &Instr| match (a, &instr) {
            (Instr::Const(a), Instr::Const(b)) => a.to_bits() == b.to_bits(),
            (a, b) => *a == *b,
        };
        self.instrs.iter().position(same).unwrap_or_else(|| {
            self.instrs.push(instr);
            self.instrs.len() - 1
        })
    }

    pub fn input(&mut self, index: usize) -> Var {
        self.push(Instr::Input(index))
    }
    pub fn c(&mut self, value: f64) -> Var {
        self.push(Instr::Const(value))
    }
    pub fn unary(&mut self, op: Unary, a: Var) -> Var {
        self.push(Instr::Unary(op, a))
    }
    pub fn binary(&mut self, op: Binary, a: Var, b: Var) -> Var {
        self.push(Instr::Binary(op, a, b))
    }
    pub fn neg(&mut self, a: Var) -> Var {
        self.unary(Unary::Neg, a)
    }
    pub fn exp(&mut self, a: Var) -> Var {
        self.unary(Unary::Exp, a)
    }
    pub fn log(&mut self, a: Var) -> Var {
        self.unary(Unary::Log, a)
    }
    pub fn add(&mut self, a: Var, b: Var) -> Var {
        self.binary(Binary::Add, a, b)
    }
    pub fn sub(&mut self, a: Var, b: Var) -> Var {
        self.binary(Binary::Sub, a, b)
    }
    pub fn mul(&mut self, a: Var, b: Var) -> Var {
        self.binary(Binary::Mul, a, b)
    }
    pub fn div(&mut self, a: Var, b: Var) -> Var {
        self.binary(Binary::Div, a, b)
    }
    pub fn min(&mut self, a: Var, b: Var) -> Var {
        self.binary(Binary::Min, a, b)
    }
    pub fn max(&mut self, a: Var, b: Var) -> Var {
        self.binary(Binary::Max, a, b)
    }
    pub fn lt(&mut self, a: Var, b: Var) -> Var {
        self.binary(Binary::Lt, a, b)
    }
    pub fn select(&mut self, condition: Var, then: Var, otherwise: Var) -> Var {
        self.push(Instr::Select(condition, then, otherwise))
    }

    /// Runs the program in f64 and returns the value of `result`.
    pub fn eval(&self, inputs: &[f64], result: Var) -> f64 {
        let mut values: Vec<f64> = Vec::with_capacity(self.instrs.len());
        for instr in &self.instrs[..=result] {
            let v = |i: &Var| values[*i];
            let value = match instr {
                Instr::Input(i) => inputs[*i],
                Instr::Const(c) => *c,
                Instr::Unary(op, a) => op.eval(v(a)),
                Instr::Binary(op, a, b) => op.eval(v(a), v(b)),
                Instr::Select(c, a, b) => {
                    if v(c) != 0.0 {
                        v(a)
                    } else {
                        v(b)
                    }
                }
            };
            values.push(value);
        }
        values[result]
    }
}

impl Unary {
    pub fn eval(self, x: f64) -> f64 {
        match self {
            Unary::Neg => -x,
            Unary::Abs => x.abs(),
            Unary::Sqrt => x.sqrt(),
            Unary::Exp => x.exp(),
            Unary::Log => x.ln(),
            Unary::Tanh => x.tanh(),
            Unary::Erf => erf(x),
            Unary::Cos => x.cos(),
            Unary::Floor => x.floor(),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Unary::Neg => "neg",
            Unary::Abs => "abs",
            Unary::Sqrt => "sqrt",
            Unary::Exp => "exp",
            Unary::Log => "log",
            Unary::Tanh => "tanh",
            Unary::Erf => "erf",
            Unary::Cos => "cos",
            Unary::Floor => "floor",
        }
    }

    /// Rough count of floating-point operations, for the plan's costs.
    pub fn flops(self) -> usize {
        match self {
            Unary::Neg | Unary::Abs | Unary::Floor => 1,
            Unary::Sqrt => 4,
            Unary::Exp | Unary::Log | Unary::Cos => 12,
            Unary::Tanh | Unary::Erf => 20,
        }
    }
}

impl Binary {
    pub fn eval(self, a: f64, b: f64) -> f64 {
        let truth = |t: bool| if t { 1.0 } else { 0.0 };
        match self {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a * b,
            Binary::Div => a / b,
            Binary::Min if a.is_nan() || b.is_nan() => f64::NAN,
            Binary::Max if a.is_nan() || b.is_nan() => f64::NAN,
            Binary::Min => a.min(b),
            Binary::Max => a.max(b),
            Binary::Lt => truth(a < b),
            Binary::Le => truth(a <= b),
            Binary::Eq => truth(a == b),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div => "div",
            Binary::Min => "min",
            Binary::Max => "max",
            Binary::Lt => "lt",
            Binary::Le => "le",
            Binary::Eq => "eq",
        }
    }

    pub fn flops(self) -> usize {
        match self {
            Binary::Div => 4,
            _ => 1,
        }
    }
}

/// The error function in f64: its series near 0, a continued fraction for erfc beyond; accurate to 1e-15.
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() {
        return x;
    }
    if a < 2.5 {
        // erf x = 2/√π · Σ (−1)ⁿ x^(2n+1) / (n! (2n+1))
        let (mut term, mut sum, mut n) = (x, x, 0.0);
        while term.abs() > 1e-17 * sum.abs() {
            n += 1.0;
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        return sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    if a > 6.5 {
        return x.signum();
    }
    // erfc a = exp(−a²)/√π · 1/(a + ½/(a + 1/(a + 3/2/(a + …))))
    let mut tail = a;
    for n in (1..=80).rev() {
        tail = a + (n as f64 / 2.0) / tail;
    }
    let erfc = (-a * a).exp() * std::f64::consts::FRAC_2_SQRT_PI / 2.0 / tail;
    x.signum() * (1.0 - erfc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_known_values() {
        for (x, y) in [
            (0.0, 0.0),
            (0.5, 0.5204998778130465),
            (1.0, 0.8427007929497149),
            (2.0, 0.9953222650189527),
            (3.0, 0.9999779095030014),
            (-1.0, -0.8427007929497149),
        ] {
            assert!((erf(x) - y).abs() < 1e-14, "erf({x}) = {}", erf(x));
        }
    }
}
