//! A kernel's straight-line code as CUDA C++.

use citius_graph::DType;
use citius_graph::scalar::{Binary, Unary};
use citius_plan::{FoldKind, Instr, Operand, Program};

use super::text::Text;

/// Writes a line for each instruction; value `i` is `v{i}`. `load(i)` is the element of operand `i`, `fold(kind, value)` the fold
/// over a short row.
pub fn render(
    text: &mut Text,
    program: &Program,
    load: impl Fn(usize) -> String,
    product: &str,
    fold: impl Fn(FoldKind, &str) -> String,
) {
    for (i, instr) in program.instrs.iter().enumerate() {
        let v = |var: usize| format!("v{var}");
        let value = match *instr {
            Instr::Load(operand) => load(operand),
            Instr::Product => product.to_owned(),
            Instr::Const(c) => constant(c),
            Instr::Unary(op, a) => unary(op, &v(a)),
            Instr::Binary(op, a, b) => binary(op, &v(a), &v(b)),
            Instr::Select(c, a, b) => format!("v{c} != 0.0f ? v{a} : v{b}"),
            Instr::MulAdd(a, b, c) => format!("fmaf(v{a}, v{b}, v{c})"),
            Instr::NegMulAdd(a, b, c) => format!("fmaf(-v{a}, v{b}, v{c})"),
            Instr::FoldRow(kind, a) => fold(kind, &v(a)),
        };
        text.line(format!("const float v{i} = {value};"));
    }
}

pub fn constant(c: f32) -> String {
    if c.is_finite() { format!("{c:e}f") } else { format!("__int_as_float(0x{:08x})", c.to_bits()) }
}

pub fn identity(kind: FoldKind) -> &'static str {
    match kind {
        FoldKind::Sum => "0.0f",
        FoldKind::Max => "MINUS_INFINITY",
    }
}

/// `a` joined with `b`.
pub fn joined(kind: FoldKind, a: &str, b: &str) -> String {
    match kind {
        FoldKind::Sum => format!("{a} + {b}"),
        FoldKind::Max => format!("larger({a}, {b})"),
    }
}

pub fn of_warp(kind: FoldKind, value: &str) -> String {
    match kind {
        FoldKind::Sum => format!("sum_of_warp({value})"),
        FoldKind::Max => format!("max_of_warp({value})"),
    }
}

fn unary(op: Unary, a: &str) -> String {
    match op {
        Unary::Neg => format!("-{a}"),
        Unary::Abs => format!("fabsf({a})"),
        Unary::Sqrt => format!("sqrtf({a})"),
        Unary::Exp => format!("expf({a})"),
        Unary::Log => format!("logf({a})"),
        Unary::Tanh => format!("tanhf({a})"),
        Unary::Erf => format!("erff({a})"),
        Unary::Cos => format!("cosf({a})"),
        Unary::Floor => format!("floorf({a})"),
    }
}

fn binary(op: Binary, a: &str, b: &str) -> String {
    match op {
        Binary::Add => format!("{a} + {b}"),
        Binary::Sub => format!("{a} - {b}"),
        Binary::Mul => format!("{a} * {b}"),
        Binary::Div => format!("{a} / {b}"),
        Binary::Min => format!("smaller({a}, {b})"),
        Binary::Max => format!("larger({a}, {b})"),
        Binary::Lt => format!("truth({a} < {b})"),
        Binary::Le => format!("truth({a} <= {b})"),
        Binary::Eq => format!("truth({a} == {b})"),
    }
}

/// The element of an operand at (outer indices, row, column), each an expression.
pub fn element(o: &Operand, outer: &[String], row: &str, col: &str) -> String {
    let terms = o.outer.iter().zip(outer).map(|(s, i)| (*s, i.as_str())).chain([(o.row, row), (o.col, col)]);
    let mut index: Vec<String> = terms
        .filter(|(stride, _)| *stride > 0)
        .map(|(stride, i)| if stride == 1 { i.to_owned() } else { format!("{stride} * ({i})") })
        .collect();
    if o.offset > 0 || index.is_empty() {
        index.push(o.offset.to_string());
    }
    format!("{}[{}]", pointer(o), index.join(" + "))
}

/// The element as a number.
pub fn loaded(o: &Operand, outer: &[String], row: &str, col: &str) -> String {
    let element = element(o, outer, row, col);
    if o.dtype == DType::F32 { element } else { format!("(float){element}") }
}

fn pointer(o: &Operand) -> String {
    typed(o.buffer, o.dtype)
}

/// A buffer as a pointer to elements of this type.
pub fn typed(buffer: usize, dtype: DType) -> String {
    match dtype {
        DType::F32 => format!("f32(mem{buffer})"),
        DType::I32 => format!("i32(mem{buffer})"),
        DType::U8 => format!("bytes(mem{buffer})"),
    }
}
