//! What runs on the sums of a tile behind the matrix units, once they have crossed shared memory.

use std::collections::BTreeMap;

use citius_graph::DType;
use citius_plan::{BufferId, Instr, Matmul, Operand};

use super::matmul::{all_rows, is_flat, split_row};
use super::program::{element, loaded, render};
use super::tensor::{THREADS, TensorTile};
use super::text::Text;

/// Groups of four neighbours whose operands are under way together, at most.
const TOGETHER: usize = 8;

/// Random numbers that are drawn where they are read.
pub struct Drawn {
    /// Streams of buffers.
    pub streams: BTreeMap<BufferId, u64>,
    /// Where the key lies among what is fed.
    pub key: usize,
}

impl Drawn {
    fn stream(&self, buffer: BufferId) -> Option<u64> {
        self.streams.get(&buffer).copied()
    }
}

/// Whether operand `o` of a product walks a buffer of so many elements from its beginning to its end, four at a time.
pub fn walks_whole(m: &Matmul, o: &Operand, elements: usize) -> bool {
    let plain = m.outer.is_empty() && o.offset == 0 && o.col == 1 && o.row == m.n;
    plain && m.n.is_multiple_of(4) && m.m * m.n == elements
}

/// Every thread takes some groups of four neighbours of a row at a time: first it loads what they need, then it stores.
pub fn epilogue(text: &mut Text, m: &Matmul, tile: &TensorTile, outer: &[String], drawn: &Drawn) {
    let (four, wide) = (tile.cols / 4, tile.sums_row());
    let together = (tile.rows / tile.split * four / THREADS).clamp(1, TOGETHER);
    let by_four = |o: &Operand| {
        o.col == 1
            && o.dtype == DType::F32
            && [o.offset, o.row].iter().chain(&o.outer).all(|s| s % 4 == 0)
            && m.n.is_multiple_of(4)
    };
    let used = |n: usize| m.program.instrs.contains(&Instr::Load(n));
    let (of_row, in_outer) = split_row(m, "flat");
    let (outer, row) = if is_flat(m) { (of_row.as_slice(), in_outer.as_str()) } else { (outer, "flat") };
    let at = |n: usize, col: &str| loaded(&m.operands[n], outer, row, col);
    let (all, whole_turns) = (all_rows(m), (tile.rows / tile.split * four).is_multiple_of(together * THREADS));
    // what lies beyond the end is not stored, but all is loaded at once, and nothing waits for anything else
    let near = |text: &mut Text| {
        let q = format!("first + g * {THREADS}");
        text.line(format!("const int q = {};", if whole_turns { q } else { format!("min({q}, end - 1)") }));
        let (flat, col) = (format!("r0 + q / {four}"), format!("c0 + q % {four} * 4"));
        let flat = match all.is_multiple_of(tile.rows) {
            true => flat,
            false => format!("min({flat}, (Index){})", all.saturating_sub(1)),
        };
        let col = match m.n.is_multiple_of(tile.cols) {
            true => col,
            false => format!("min({col}, (Index){})", m.n.saturating_sub(1) / 4 * 4),
        };
        text.line(format!("const Index flat = {flat}, col = {col};"));
    };
    let place = |text: &mut Text| {
        text.line(format!("const int q = first + g * {THREADS};"));
        text.line(format!("const Index flat = r0 + q / {four}, col = c0 + q % {four} * 4;"));
        let beyond = if whole_turns { "" } else { "q >= end || " };
        text.line(format!("if ({beyond}flat >= {all} || col >= {}) continue;", m.n));
    };
    let sum = |rank: &str| format!("load4_of({rank}, sums + q / {four} * {wide} + q % {four} * 4)");
    // of a cluster, each block has some rows
    let rows = tile.rows / tile.split;
    let start = if tile.split > 1 { format!("part * {} + tid", rows * four) } else { "tid".to_owned() };
    let end = if tile.split > 1 { format!("(part + 1) * {}", rows * four) } else { (rows * four).to_string() };
    text.line(format!("const int end = {end};"));
    text.line("#pragma unroll 1");
    text.block(format!("for (int first = {start}; first < end; first += {})", together * THREADS), |text| {
        for (n, o) in m.operands.iter().enumerate().filter(|(n, _)| used(*n)) {
            match o {
                o if o.col == 0 => text.line(format!("float in{n}[{together}];")),
                o if by_four(o) => text.line(format!("Four in{n}[{together}];")),
                _ => {}
            }
        }
        if tile.split > 1 {
            text.line(format!("Four products[{together}];"));
        }
        text.line("#pragma unroll");
        text.block(format!("for (int g = 0; g < {together}; g++)"), |text| {
            near(text);
            if tile.split > 1 {
                text.line(format!("products[g] = {};", sum("first_rank")));
                text.line("#pragma unroll");
                text.block(format!("for (int r = 1; r < {}; r++)", tile.split), |text| {
                    text.line(format!("const Four more = {};", sum("first_rank + r")));
                    text.line("for (int i = 0; i < 4; i++) products[g].v[i] += more.v[i];");
                });
            }
            for (n, o) in m.operands.iter().enumerate().filter(|(n, _)| used(*n)) {
                match o {
                    o if o.col == 0 => text.line(format!("in{n}[g] = {};", at(n, "col"))),
                    o if drawn.stream(o.buffer).is_some() => {
                        let (stream, key) = (drawn.stream(o.buffer).unwrap_or(0), drawn.key);
                        let index = format!("flat * (Index){} + col", o.row);
                        text.line(format!("in{n}[g] = uniform4(*(const u64*)(fed + {key}), {stream}ull, {index});"));
                    }
                    o if by_four(o) => text.line(format!("in{n}[g] = load4(&{});", at(n, "col"))),
                    _ => {}
                }
            }
        });
        text.line("#pragma unroll");
        text.block(format!("for (int g = 0; g < {together}; g++)"), |text| {
            place(text);
            text.line(match tile.split {
                1 => format!("const Four product = load4(sums + q / {four} * {wide} + q % {four} * 4);"),
                _ => "const Four product = products[g];".to_owned(),
            });
            let whole: Vec<bool> = m.stores.iter().map(|s| by_four(&m.operands[s.1])).collect();
            for (n, _) in whole.iter().enumerate().filter(|t| *t.1) {
                text.line(format!("Four out{n};"));
            }
            text.line("#pragma unroll");
            text.block("for (int i = 0; i < 4; i++)", |text| {
                if !m.n.is_multiple_of(4) {
                    text.line(format!("if (col + i >= {}) break;", m.n));
                }
                let load = |n: usize| match &m.operands[n] {
                    o if o.col == 0 => format!("in{n}[g]"),
                    o if by_four(o) => format!("in{n}[g].v[i]"),
                    _ => at(n, "(col + i)"),
                };
                render(text, &m.program, load, "product.v[i]", |_, _| String::new());
                for (n, (value, operand)) in m.stores.iter().enumerate() {
                    let target = element(&m.operands[*operand], outer, row, "(col + i)");
                    match whole[n] {
                        true => text.line(format!("out{n}.v[i] = v{value};")),
                        false => text.line(format!("{target} = v{value};")),
                    }
                }
            });
            for (n, (_, operand)) in m.stores.iter().enumerate().filter(|(n, _)| whole[*n]) {
                text.line(format!("store4(&{}, out{n});", element(&m.operands[*operand], outer, row, "col")));
            }
        });
    });
}
