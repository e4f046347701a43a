//! Products on the matrix units: a tile per block of 256 threads. Sixteen bytes at a time, parts of both sides go through a ring of
//! stages in shared memory while the one before is multiplied; the sums then cross shared memory once more, so that the epilogue
//! reads and writes whole rows. Windows of a convolution are walked where they are, as any product's sides.

use citius_graph::DType;
use citius_plan::{Instr, Matmul, Operand};

use super::matmul::{all_rows, along_k, is_flat, split_row};
use super::program::{element, loaded, render};
use super::text::Text;
use crate::choice::Chip;
use crate::precision::Precision;

/// Threads of a block.
pub const THREADS: usize = 256;
/// Parts of a sum that are under way or being multiplied.
const STAGES: usize = 3;
/// Sixteen-byte pieces of `k` in a stage.
const PIECES: usize = 8;
/// Bytes of a row of a stage that lies along `k`, with its padding: neighbouring rows begin in other banks.
const ROW: usize = 16 * (PIECES + 1);

/// How a tile of a product is computed on the matrix units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorTile {
    pub rows: usize,
    pub cols: usize,
    precision: Precision,
}

/// Which way a side of a product lies in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lies {
    AlongK,
    Across,
}

impl TensorTile {
    /// `None` where a side cannot be brought sixteen bytes at a time.
    pub fn choose(m: &Matmul, precision: Precision, chip: Chip) -> Option<TensorTile> {
        // copies past the registers, and matrix units for these numbers, came with 8.0
        if chip.capability < (8, 0)
            || precision == Precision::Fp32
            || left(m, precision).is_none()
            || right(m, precision).is_none()
        {
            return None;
        }
        let outer = if is_flat(m) { 1 } else { m.outer.iter().product::<usize>() };
        // smaller tiles read both sides more often
        let sizes = [(128, 128, 1.0), (128, 64, 1.2), (64, 128, 1.2), (64, 64, 1.5)];
        let cost = |&(rows, cols, each): &(usize, usize, f64)| {
            let units = outer * all_rows(m).div_ceil(rows) * m.n.div_ceil(cols);
            units.div_ceil(chip.multiprocessors.max(1)) as f64 * (rows * cols) as f64 * each
        };
        let best = sizes.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
        Some(TensorTile { rows: best.0, cols: best.1, precision })
    }

    pub fn units(&self, m: &Matmul) -> usize {
        let outer = if is_flat(m) { 1 } else { m.outer.iter().product::<usize>() };
        outer * all_rows(m).div_ceil(self.rows) * m.n.div_ceil(self.cols)
    }

    /// Of a block's own memory.
    pub fn bytes(&self, m: &Matmul) -> usize {
        let sums = self.rows * self.sums_row() * 4;
        sums.max(
            STAGES
                * (self.side_bytes(left(m, self.precision), self.rows)
                    + self.side_bytes(right(m, self.precision), self.cols)),
        )
    }

    /// Floats of a row of sums.
    fn sums_row(&self) -> usize {
        self.cols + 4
    }

    /// Bytes of a stage of a side.
    fn side_bytes(&self, lies: Option<Lies>, extent: usize) -> usize {
        match lies {
            Some(Lies::AlongK) => extent * ROW,
            _ => self.depth() * self.across_row(extent),
        }
    }

    /// Bytes of a row that lies across `k`.
    fn across_row(&self, extent: usize) -> usize {
        // words are read one by one, halves by matrices
        if self.precision == Precision::Tf32 { (extent + 8) * 4 } else { (extent + 8) * 2 }
    }

    /// Terms of a stage.
    fn depth(&self) -> usize {
        PIECES * piece(self.precision)
    }

    /// Warps down and across.
    fn warps(&self) -> (usize, usize) {
        if self.rows > self.cols { (4, 2) } else { (2, 4) }
    }
}

/// Elements of sixteen bytes.
fn piece(precision: Precision) -> usize {
    16 / bytes(precision)
}

fn bytes(precision: Precision) -> usize {
    if precision.is_half() { 2 } else { 4 }
}

fn left(m: &Matmul, precision: Precision) -> Option<Lies> {
    let p = piece(precision);
    let even = |stride: usize| aligned(&m.a, stride, p) && m.deep.iter().all(|d| d.a % p == 0);
    match (m.a.row, m.a.col) {
        _ if m.a.dtype != DType::F32 => None,
        (_, 1) if m.k.is_multiple_of(p) && even(m.a.row) => Some(Lies::AlongK),
        (1, _) if m.m.is_multiple_of(p) && even(m.a.col) => Some(Lies::Across),
        _ => None,
    }
}

fn right(m: &Matmul, precision: Precision) -> Option<Lies> {
    let p = piece(precision);
    let even = |stride: usize| aligned(&m.b, stride, p) && m.deep.iter().all(|d| d.b % p == 0);
    match (m.b.row, m.b.col) {
        _ if m.b.dtype != DType::F32 => None,
        (_, 1) if m.n.is_multiple_of(p) && even(m.b.row) => Some(Lies::Across),
        (1, _) if m.k.is_multiple_of(p) && even(m.b.col) => Some(Lies::AlongK),
        _ => None,
    }
}

fn aligned(o: &Operand, stride: usize, to: usize) -> bool {
    stride.is_multiple_of(to) && o.offset.is_multiple_of(to) && o.outer.iter().all(|s| s % to == 0)
}

/// The tile whose first row is `r0` and whose first column is `c0`.
pub fn emit(text: &mut Text, m: &Matmul, tile: TensorTile, outer: &[String]) {
    let precision = tile.precision;
    let (Some(left), Some(right)) = (left(m, precision), right(m, precision)) else { return };
    let (size, depth) = (bytes(precision), tile.depth());
    let offset = |o: &Operand| {
        let outer = o.outer.iter().zip(outer).filter(|(s, _)| **s > 0).map(|(s, i)| format!(" + (Index){s} * ({i})"));
        format!("({}{}) * {size}ll", o.offset, outer.collect::<String>())
    };
    text.line(format!("const char* A = (const char*)(mem{}) + {};", m.a.buffer, offset(&m.a)));
    text.line(format!("const char* B = (const char*)(mem{}) + {};", m.b.buffer, offset(&m.b)));
    let of_left = tile.side_bytes(Some(left), tile.rows);
    let stage = of_left + tile.side_bytes(Some(right), tile.cols);
    text.line("const u32 base = shared_address(stages);");
    let rows = all_rows(m);
    let a_row = |row: &str| match is_flat(m) {
        false => format!("({row}) * (Index){}", m.a.row),
        true => {
            let (outer, row) = split_row(m, row);
            let terms = m.a.outer.iter().zip(&outer).map(|(s, i)| format!(" + ({i}) * (Index){s}"));
            format!("({row}) * (Index){}{}", m.a.row, terms.collect::<String>())
        }
    };
    let sides = [
        Side { name: "a", lies: left, extent: tile.rows, first: "r0", end: rows, at: 0 },
        Side { name: "b", lies: right, extent: tile.cols, first: "c0", end: m.n, at: of_left },
    ];
    sides[0].places(text, &tile, &a_row);
    sides[1].places(text, &tile, &|col| format!("({col}) * (Index){}", m.b.col));
    let turns = m.terms().div_ceil(depth);
    let bring = |text: &mut Text, turn: &str, into: &str| {
        text.block("", |text| {
            text.line(format!("const u32 to = base + ({into}) * {stage};"));
            for (side, memory, (stride, deep)) in [
                (&sides[0], "A", (m.a.col, (|d| d.a) as fn(&citius_plan::Deep) -> usize)),
                (&sides[1], "B", (m.b.row, |d| d.b)),
            ] {
                for j in 0..side.pieces() {
                    text.block("", |text| {
                        let (name, at) = (side.name, side.at);
                        text.line(format!("const int k = ({turn}) * {depth} + {name}_k{j};"));
                        let along = along_k(m, stride, deep);
                        text.line(format!("const bool there = {name}_in{j} && k < {};", m.terms()));
                        text.line(format!(
                            "copy16(to + {at} + {name}_to{j}, there ? {memory} + ({name}_from{j} + {along}) * {size}ll : {memory}, there);"
                        ));
                    });
                }
            }
        });
        text.line("copies_end();");
    };
    let (down, across) = tile.warps();
    let (wm, wn) = (tile.rows / down, tile.cols / across);
    let (mt, nt) = (wm / 16, wn / 8);
    text.line(format!("const int wm = warp / {across} * {wm}, wn = warp % {across} * {wn};"));
    text.line(format!("float acc[{mt}][{nt}][4] = {{}};"));
    for s in 0..STAGES - 1 {
        if s < turns {
            bring(text, &s.to_string(), &s.to_string());
        } else {
            text.line("copies_end();");
        }
    }
    text.line("#pragma unroll 1");
    text.block(format!("for (int turn = 0; turn < {turns}; turn++)"), |text| {
        text.line(format!("copies_wait<{}>();", STAGES - 2));
        text.line("__syncthreads();");
        let ahead = STAGES - 1;
        text.block(format!("if (turn + {ahead} < {turns})"), |text| {
            bring(text, &format!("turn + {ahead}"), &format!("(turn + {ahead}) % {STAGES}"));
        });
        text.line("else copies_end();");
        text.line(format!("const u32 at = base + turn % {STAGES} * {stage};"));
        text.line("#pragma unroll");
        text.block(format!("for (int ks = 0; ks < {}; ks++)", PIECES / 2), |text| {
            text.line(format!("u32 a[{mt}][4], b[{}][4];", nt / 2));
            text.line("#pragma unroll");
            text.block(format!("for (int i = 0; i < {mt}; i++)"), |text| left_fragment(text, &tile, left));
            text.line("#pragma unroll");
            text.block(format!("for (int j = 0; j < {}; j++)", nt / 2), |text| {
                right_fragment(text, &tile, right, of_left);
            });
            text.line("#pragma unroll");
            text.line(format!("for (int i = 0; i < {mt}; i++)"));
            text.line("    #pragma unroll");
            text.line(format!(
                "    for (int j = 0; j < {nt}; j++) multiply_{precision}(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);"
            ));
        });
    });
    text.line("copies_wait<0>();");
    text.line("__syncthreads();");
    let wide = tile.sums_row();
    text.line("float* sums = (float*)stages;");
    text.line("#pragma unroll");
    text.line(format!("for (int i = 0; i < {mt}; i++)"));
    text.line("    #pragma unroll");
    text.block(format!("    for (int j = 0; j < {nt}; j++)"), |text| {
        text.line(format!("float* to = sums + (wm + i * 16 + lane / 4) * {wide} + wn + j * 8 + lane % 4 * 2;"));
        text.line("*(float2*)to = make_float2(acc[i][j][0], acc[i][j][1]);");
        text.line(format!("*(float2*)(to + {}) = make_float2(acc[i][j][2], acc[i][j][3]);", 8 * wide));
    });
    text.line("__syncthreads();");
    epilogue(text, m, &tile, outer);
}

/// A side of a product on its way into shared memory.
struct Side {
    name: &'static str,
    lies: Lies,
    /// Rows or columns of the tile.
    extent: usize,
    first: &'static str,
    /// Of all tiles.
    end: usize,
    /// In a stage.
    at: usize,
}

impl Side {
    /// Of a thread in each stage.
    fn pieces(&self) -> usize {
        self.extent * PIECES / THREADS
    }

    /// For each piece: the term `_k` in its stage, where it comes `_from` and goes `_to`, and whether it is `_in` the matrix.
    fn places(&self, text: &mut Text, tile: &TensorTile, address: &dyn Fn(&str) -> String) {
        let Side { name, first, end, .. } = *self;
        let p = piece(tile.precision);
        for j in 0..self.pieces() {
            let q = format!("(tid + {})", j * THREADS);
            let (along, place, to) = match self.lies {
                Lies::AlongK => (
                    format!("{q} / {PIECES}"),
                    format!("{q} % {PIECES} * {p}"),
                    format!("{q} / {PIECES} * {ROW} + {q} % {PIECES} * 16"),
                ),
                Lies::Across => {
                    let each = self.extent / p;
                    let row = tile.across_row(self.extent);
                    (
                        format!("{q} % {each} * {p}"),
                        format!("{q} / {each}"),
                        format!("{q} / {each} * {row} + {q} % {each} * 16"),
                    )
                }
            };
            text.line(format!("const Index {name}_at{j} = {first} + {along};"));
            text.line(format!("const bool {name}_in{j} = {name}_at{j} < {end};"));
            let inside = format!("min({name}_at{j}, (Index){})", end.saturating_sub(1));
            text.line(format!("const Index {name}_from{j} = {};", address(&inside)));
            text.line(format!("const int {name}_k{j} = {place};"));
            text.line(format!("const u32 {name}_to{j} = {to};"));
        }
    }
}

/// `a[i]`: sixteen rows of the left side.
fn left_fragment(text: &mut Text, tile: &TensorTile, lies: Lies) {
    let row = tile.across_row(tile.rows);
    match (tile.precision, lies) {
        (Precision::Tf32, Lies::AlongK) => {
            text.line(format!(
                "load_matrices(a[i], at + (wm + i * 16 + lane % 16) * {ROW} + (ks * 8 + lane / 16 * 4) * 4);"
            ));
        }
        (_, Lies::AlongK) => {
            text.line(format!(
                "load_matrices(a[i], at + (wm + i * 16 + lane % 16) * {ROW} + (ks * 16 + lane / 16 * 8) * 2);"
            ));
        }
        (Precision::Tf32, Lies::Across) => {
            text.line(format!("const u32 from = at + (ks * 8 + lane % 4) * {row} + (wm + i * 16 + lane / 4) * 4;"));
            text.line("a[i][0] = load_word(from), a[i][1] = load_word(from + 32);");
            text.line(format!(
                "a[i][2] = load_word(from + {}), a[i][3] = load_word(from + {});",
                4 * row,
                4 * row + 32
            ));
        }
        (_, Lies::Across) => {
            text.line(format!(
                "load_turned(a[i], at + (ks * 16 + lane / 16 * 8 + lane % 8) * {row} + (wm + i * 16 + lane / 8 % 2 * 8) * 2);"
            ));
        }
    }
    if tile.precision == Precision::Tf32 {
        text.line("for (int w = 0; w < 4; w++) a[i][w] = tf32(a[i][w]);");
    }
}

/// `b[j]`: sixteen columns of the right side.
fn right_fragment(text: &mut Text, tile: &TensorTile, lies: Lies, of_left: usize) {
    let row = tile.across_row(tile.cols);
    let at = format!("at + {of_left}");
    match (tile.precision, lies) {
        (Precision::Tf32, Lies::AlongK) => text.line(format!(
            "load_matrices(b[j], {at} + (wn + j * 16 + lane / 16 * 8 + lane % 8) * {ROW} + (ks * 8 + lane / 8 % 2 * 4) * 4);"
        )),
        (_, Lies::AlongK) => text.line(format!(
            "load_matrices(b[j], {at} + (wn + j * 16 + lane / 16 * 8 + lane % 8) * {ROW} + (ks * 16 + lane / 8 % 2 * 8) * 2);"
        )),
        (Precision::Tf32, Lies::Across) => {
            text.line(format!("const u32 from = {at} + (ks * 8 + lane % 4) * {row} + (wn + j * 16 + lane / 4) * 4;"));
            text.line(format!("b[j][0] = load_word(from), b[j][1] = load_word(from + {});", 4 * row));
            text.line(format!("b[j][2] = load_word(from + 32), b[j][3] = load_word(from + {});", 4 * row + 32));
        }
        (_, Lies::Across) => text.line(format!(
            "load_turned(b[j], {at} + (ks * 16 + lane / 8 % 2 * 8 + lane % 8) * {row} + (wn + j * 16 + lane / 16 * 8) * 2);"
        )),
    }
    if tile.precision == Precision::Tf32 {
        text.line("for (int w = 0; w < 4; w++) b[j][w] = tf32(b[j][w]);");
    }
}

/// Groups of four neighbours whose operands are under way together.
const TOGETHER: usize = 4;

/// Every thread takes some groups of four neighbours of a row at a time: first it loads what they need, then it stores.
fn epilogue(text: &mut Text, m: &Matmul, tile: &TensorTile, outer: &[String]) {
    let (four, wide) = (tile.cols / 4, tile.sums_row());
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
    let place = |text: &mut Text| {
        text.line(format!("const int q = first + g * {THREADS};"));
        text.line(format!("const Index flat = r0 + q / {four}, col = c0 + q % {four} * 4;"));
        text.line(format!("if (flat >= {} || col >= {}) continue;", all_rows(m), m.n));
    };
    text.line("#pragma unroll 1");
    text.block(
        format!("for (int first = tid; first < {}; first += {})", tile.rows * four, TOGETHER * THREADS),
        |text| {
            for (n, o) in m.operands.iter().enumerate().filter(|(n, _)| used(*n)) {
                match o {
                    o if o.col == 0 => text.line(format!("float in{n}[{TOGETHER}];")),
                    o if by_four(o) => text.line(format!("Four in{n}[{TOGETHER}];")),
                    _ => {}
                }
            }
            text.line("#pragma unroll");
            text.block(format!("for (int g = 0; g < {TOGETHER}; g++)"), |text| {
                place(text);
                for (n, o) in m.operands.iter().enumerate().filter(|(n, _)| used(*n)) {
                    match o {
                        o if o.col == 0 => text.line(format!("in{n}[g] = {};", at(n, "col"))),
                        o if by_four(o) => text.line(format!("in{n}[g] = load4(&{});", at(n, "col"))),
                        _ => {}
                    }
                }
            });
            text.line("#pragma unroll");
            text.block(format!("for (int g = 0; g < {TOGETHER}; g++)"), |text| {
                place(text);
                text.line(format!("const Four product = load4(sums + q / {four} * {wide} + q % {four} * 4);"));
                let together: Vec<bool> = m.stores.iter().map(|s| by_four(&m.operands[s.1])).collect();
                for (n, _) in together.iter().enumerate().filter(|t| *t.1) {
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
                        match together[n] {
                            true => text.line(format!("out{n}.v[i] = v{value};")),
                            false => text.line(format!("{target} = v{value};")),
                        }
                    }
                });
                for (n, (_, operand)) in m.stores.iter().enumerate().filter(|(n, _)| together[*n]) {
                    text.line(format!("store4(&{}, out{n});", element(&m.operands[*operand], outer, row, "col")));
                }
            });
        },
    );
}
