//! A small product for one of its outer indices, by one block of 256 threads on the matrix units: attention's, whose results the same
//! block goes on with. Both sides are brought to shared memory, rounded on the way, and multiplied there.

use citius_graph::DType;
use citius_plan::{Matmul, Operand};

use super::Sync;
use super::matmul::epilogue;
use super::program::element;
use super::tensor::THREADS;
use super::text::Text;

/// Rows, columns and terms, at most.
const MOST: usize = 64;
/// Rows and columns of an instruction's result, and its terms.
const ROWS: usize = 16;
const COLS: usize = 8;
const TERMS: usize = 8;

pub fn suits(m: &Matmul) -> bool {
    let floats = [&m.a, &m.b].iter().all(|o| o.dtype == DType::F32);
    floats && m.deep.is_empty() && [m.m, m.n, m.k].iter().all(|n| (1..=MOST).contains(n))
}

/// A side in shared memory, with zeros behind its end.
struct Side<'a> {
    name: &'static str,
    operand: &'a Operand,
    /// Rows of the left side, or columns of the right one, and as many as the instructions take.
    extent: usize,
    padded: usize,
    /// Steps along that extent and along `k`, in memory.
    steps: (usize, usize),
    terms: usize,
    padded_terms: usize,
}

impl Side<'_> {
    /// Neighbours are along `k`; else along the extent.
    fn along_k(&self) -> bool {
        self.steps.1 == 1
    }

    /// Floats from one row of it to the next, such that the words of a fragment lie in different banks.
    fn pitch(&self) -> usize {
        match self.along_k() {
            true => self.padded_terms + 4,
            false => self.padded.next_multiple_of(32) + 8,
        }
    }

    fn floats(&self) -> usize {
        self.pitch() * if self.along_k() { self.padded } else { self.padded_terms }
    }

    /// Its element in shared memory.
    fn place(&self, at: &str, k: &str) -> String {
        let (row, col) = if self.along_k() { (at, k) } else { (k, at) };
        format!("{}[({row}) * {} + {col}]", self.name, self.pitch())
    }

    fn bring(&self, text: &mut Text, outer: &[String]) {
        let width = if self.along_k() { self.padded_terms } else { self.padded };
        let all = self.padded * self.padded_terms;
        let each = all.div_ceil(THREADS);
        let part = |text: &mut Text| {
            text.line(format!("const int e = tid + i * {THREADS};"));
            let (at, k) = if self.along_k() { ("e / ", "e % ") } else { ("e % ", "e / ") };
            text.line(format!("const int at = {at}{width}, k = {k}{width};"));
        };
        let name = self.name;
        text.line(format!("u32 {name}_in[{each}];"));
        text.line("#pragma unroll");
        text.block(format!("for (int i = 0; i < {each}; i++)"), |text| {
            part(text);
            let row_col = if name == "left" { ("at", "k") } else { ("k", "at") };
            let from = element(self.operand, outer, row_col.0, row_col.1);
            let (extent, terms) = (self.extent, self.terms);
            text.line(format!("{name}_in[i] = at < {extent} && k < {terms} ? __float_as_uint({from}) : 0u;"));
        });
        text.line("#pragma unroll");
        text.block(format!("for (int i = 0; i < {each}; i++)"), |text| {
            part(text);
            let inside = if all.is_multiple_of(THREADS) { String::new() } else { format!("if (e < {all}) ") };
            text.line(format!("{inside}{} = tf32({name}_in[i]);", self.place("at", "k")));
        });
    }
}

/// The product for the given outer indices. Returns the floats of shared memory it needs.
pub fn emit(text: &mut Text, sync: &mut Sync, m: &Matmul, outer: &[String]) -> usize {
    let padded_terms = m.k.next_multiple_of(TERMS);
    let left = Side {
        name: "left",
        operand: &m.a,
        extent: m.m,
        padded: m.m.next_multiple_of(ROWS),
        steps: (m.a.row, m.a.col),
        terms: m.k,
        padded_terms,
    };
    let right = Side {
        name: "right",
        operand: &m.b,
        extent: m.n,
        padded: m.n.next_multiple_of(COLS),
        steps: (m.b.col, m.b.row),
        terms: m.k,
        padded_terms,
    };
    text.line(format!("u32* const left = (u32*)shared; u32* const right = left + {};", left.floats()));
    left.bring(text, outer);
    right.bring(text, outer);
    sync.inside(text);
    // warps down and across
    let down = left.padded / ROWS;
    let across = THREADS / 32 / down;
    let strips = (right.padded / COLS).div_ceil(across);
    text.line(format!("const int wm = warp % {down} * {ROWS}, wn = warp / {down} * {};", strips * COLS));
    text.line("const int g = lane / 4, t = lane % 4;");
    text.block(format!("if (warp < {})", down * across), |text| {
        text.line(format!("float acc[{strips}][4] = {{}};"));
        text.line("#pragma unroll");
        text.block(format!("for (int k = 0; k < {padded_terms}; k += {TERMS})"), |text| {
            let a = |row: &str, k: &str| left.place(row, k);
            text.line(format!(
                "const u32 a[4] = {{{}, {}, {}, {}}};",
                a("wm + g", "k + t"),
                a("wm + g + 8", "k + t"),
                a("wm + g", "k + t + 4"),
                a("wm + g + 8", "k + t + 4")
            ));
            text.line("#pragma unroll");
            text.block(format!("for (int j = 0; j < {strips}; j++)"), |text| {
                // of the last strips, some may be beyond the end
                text.line(format!("const int col = min(wn + j * {COLS}, {}) + g;", right.padded - COLS));
                let b = |k: &str| right.place("col", k);
                text.line(format!("multiply_tf32(acc[j], a, {}, {});", b("k + t"), b("k + t + 4")));
            });
        });
        text.line("#pragma unroll");
        text.block(format!("for (int e = 0; e < {}; e++)", 4 * strips), |text| {
            text.line(format!("const int row = wm + g + e / 2 % 2 * 8, col = wn + e / 4 * {COLS} + t * 2 + e % 2;"));
            text.block(format!("if (row < {} && col < {})", m.m, m.n), |text| {
                epilogue(text, m, outer, "acc[e / 4][e % 4]", "row", "col");
            });
        });
    });
    left.floats() + right.floats()
}
