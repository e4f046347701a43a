//! Products on the matrix units: a tile per block of 256 threads. Sixteen bytes at a time, parts of both sides go through a ring of
//! stages in shared memory while the one before is multiplied; the sums then cross shared memory once more, so that the epilogue
//! reads and writes whole rows. On Hopper, numbers of 16 bits, and words in large tiles, are multiplied by groups of warps
//! ([`super::groups`]). Where a product
//! has few tiles, the blocks of a cluster share the sum of each. Windows of a convolution are walked where they are, as any product's
//! sides.

use citius_graph::DType;
use citius_plan::{Matmul, Operand};

use super::epilogue::{Drawn, epilogue};
use super::groups;
use super::matmul::{all_rows, along_k, is_flat, split_row};
use super::side::{Side, Walk, walks_evenly};
use super::text::Text;
use crate::choice::Chip;
use crate::precision::Precision;

/// Threads of a block.
pub const THREADS: usize = 256;
/// Parts of a sum that are under way or being multiplied.
const STAGES: usize = 3;
/// Sixteen-byte pieces of `k` in a stage.
pub const PIECES: usize = 8;
/// Bytes of a row of a stage that lies along `k`, with its padding: neighbouring rows begin in other banks.
pub const ROW: usize = 16 * (PIECES + 1);

/// Blocks that share the sums of a tile, at most: a cluster that every GPU with clusters has.
const MOST_SPLIT: usize = 8;
/// Stages that a block multiplies, at least.
const LEAST_TURNS: usize = 4;
/// What begins and ends a tile, in stages of as many elements.
const ENDS: f64 = 4.0;
/// What words cost that are multiplied by groups of warps.
const BY_GROUPS: f64 = 0.8;
/// Two meetings of a cluster, in elements of a stage.
const MEETING: f64 = 16384.0;

/// How a tile of a product is computed on the matrix units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorTile {
    pub rows: usize,
    pub cols: usize,
    /// Blocks of a cluster that share the sum of a tile.
    pub split: usize,
    pub precision: Precision,
    /// Four warps multiply at once, out of shared memory ([`groups`]).
    pub by_groups: bool,
}

/// Which way a side of a product lies in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lies {
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
            || (scattered(m, precision).is_some() && !chip.has_groups())
        {
            return None;
        }
        let turns = m.terms().div_ceil(PIECES * piece(precision));
        let most = if chip.has_clusters() { MOST_SPLIT } else { 1 };
        let splits = [1, 2, 4, 8].into_iter().filter(|split| *split <= most && turns / split >= LEAST_TURNS.min(turns));
        // smaller tiles read both sides more often
        let sizes = [(128, 128, 1.0), (128, 64, 1.2), (64, 128, 1.2), (64, 64, 1.5)];
        let all = splits.flat_map(|split| {
            sizes.map(|(rows, cols, each)| {
                // words go to them through registers, in blocks that only large tiles have enough of
                let words = precision == Precision::Tf32 && rows.min(cols) >= groups::TURNED;
                let by_groups = chip.has_groups() && (precision.is_half() || words);
                let each = if by_groups && words { BY_GROUPS * each } else { each };
                (TensorTile { rows, cols, split, precision, by_groups }, each)
            })
        });
        let cost = |(tile, each): &(TensorTile, f64)| {
            let area = (tile.rows * tile.cols) as f64;
            let units = tile.units(m);
            let own = turns.div_ceil(tile.split) as f64 * area * each;
            // blocks of one multiprocessor take turns; filling the stages and the epilogue overlap with another's sums
            let (deep, ends) = (units.div_ceil(chip.multiprocessors), units.div_ceil(2 * chip.multiprocessors));
            deep as f64 * own + ends as f64 * ENDS * area + if tile.split > 1 { MEETING } else { 0.0 }
        };
        all.min_by(|a, b| cost(a).total_cmp(&cost(b))).map(|best| best.0)
    }

    pub fn units(&self, m: &Matmul) -> usize {
        let outer = if is_flat(m) { 1 } else { m.outer.iter().product::<usize>() };
        outer * all_rows(m).div_ceil(self.rows) * m.n.div_ceil(self.cols) * self.split
    }

    /// Tiles that a multiprocessor has registers for.
    pub fn together(&self) -> usize {
        if self.rows * self.cols <= 64 * 64 { 3 } else { 2 }
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
    pub fn sums_row(&self) -> usize {
        self.cols + 4
    }

    /// Bytes of a stage of a side.
    fn side_bytes(&self, lies: Option<Lies>, extent: usize) -> usize {
        match lies {
            _ if self.by_groups => extent * groups::ROW,
            Some(Lies::AlongK) => extent * ROW,
            _ => self.depth() * self.across_row(extent),
        }
    }

    /// Bytes of a row that lies across `k`.
    pub fn across_row(&self, extent: usize) -> usize {
        // words are read one by one, halves by matrices
        if self.precision == Precision::Tf32 { (extent + 8) * 4 } else { (extent + 8) * 2 }
    }

    /// Both sides go through registers on their way into shared memory: groups of warps take words along `k` alone, and cut off what
    /// they do not read.
    pub fn through_registers(&self) -> bool {
        self.by_groups && self.precision == Precision::Tf32
    }

    /// Terms of a stage.
    pub fn depth(&self) -> usize {
        PIECES * piece(self.precision)
    }

    /// Rows and columns of a warp's part, and how to find its first ones.
    fn warps(&self) -> (usize, usize, String) {
        if self.by_groups {
            return groups::warps(self.rows, self.cols);
        }
        let (down, across) = if self.rows > self.cols { (4, 2) } else { (2, 4) };
        let (wm, wn) = (self.rows / down, self.cols / across);
        (wm, wn, format!("const int wm = warp / {across} * {wm}, wn = warp % {across} * {wn};"))
    }
}

/// Elements of sixteen bytes.
pub fn piece(precision: Precision) -> usize {
    16 / bytes(precision)
}

pub fn bytes(precision: Precision) -> usize {
    if precision.is_half() { 2 } else { 4 }
}

fn left(m: &Matmul, precision: Precision) -> Option<Lies> {
    let p = piece(precision);
    let even = |stride: usize| aligned(&m.a, stride, p) && m.deep.iter().all(|d| d.a % p == 0);
    match (m.a.row, m.a.col) {
        _ if m.a.dtype != DType::F32 => None,
        (_, 1) if m.k.is_multiple_of(p) && even(m.a.row) => Some(Lies::AlongK),
        (1, _) if m.m.is_multiple_of(p) && even(m.a.col) => Some(Lies::Across),
        _ => scattered(m, precision),
    }
}

/// Neighbours of a left side that is brought element by element, because no sixteen bytes of it lie beside each other.
const FEW_NEIGHBOURS: usize = 16;

/// The left side, where it is windows of pictures with few channels: a tile has many results for each of its elements.
fn scattered(m: &Matmul, precision: Precision) -> Option<Lies> {
    let p = piece(precision);
    match (m.a.row, m.a.col) {
        _ if m.a.dtype != DType::F32 || !precision.is_half() || m.deep.is_empty() => None,
        (_, 1) if m.k < FEW_NEIGHBOURS && !m.k.is_multiple_of(p) => Some(Lies::AlongK),
        // rows of several outer indices are no neighbours
        (1, _) if m.m < FEW_NEIGHBOURS && !m.m.is_multiple_of(p) && !is_flat(m) => Some(Lies::Across),
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

/// The tile whose first row is `r0` and whose first column is `c0`; with others of its cluster, part number `part` of its sum.
/// `drawn` says which operands are random numbers nobody has written.
pub fn emit(text: &mut Text, m: &Matmul, tile: TensorTile, outer: &[String], drawn: &Drawn) {
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
    let turns = m.terms().div_ceil(depth);
    // whether a stage is part of one row of terms, or several whole ones
    let (of_row, even) = (m.k.is_multiple_of(depth), walks_evenly(m, depth));
    let walk = |linear: bool| match (even, linear && of_row) {
        (_, true) => Walk::Straight,
        (true, false) => Walk::Even,
        (false, false) => Walk::Any,
    };
    let (mut a_walk, b_walk) = (walk(!is_flat(m)), walk(true));
    if scattered(m, precision).is_some() {
        a_walk = Walk::Elements;
    }
    let sides = [
        Side { name: "a", memory: "A", lies: left, extent: tile.rows, first: "r0", end: rows, at: 0, walk: a_walk },
        Side {
            name: "b",
            memory: "B",
            lies: right,
            extent: tile.cols,
            first: "c0",
            end: m.n,
            at: of_left,
            walk: b_walk,
        },
    ];
    let along: [&dyn Fn(&str) -> String; 2] =
        [&|k| along_k(m, k, m.a.col, |d| d.a), &|k| along_k(m, k, m.b.row, |d| d.b)];
    sides[0].places(text, &tile, &a_row, along[0]);
    sides[1].places(text, &tile, &|col| format!("({col}) * (Index){}", m.b.col), along[1]);
    let steps = [(m.a.row, m.a.col), (m.b.col, m.b.row)];
    // `guard`: the turn may be beyond the end
    let bring = |text: &mut Text, turn: &str, into: &str, guard: bool| {
        text.block("", |text| {
            if !tile.through_registers() {
                text.line(format!("const u32 to = base + ({into}) * {stage};"));
            }
            for ((side, along), steps) in sides.iter().zip(along).zip(steps) {
                let more = if guard { format!(" && {turn} < {turns}") } else { String::new() };
                side.bring(text, &tile, turn, &more, along, steps, m.terms());
            }
        });
        if !tile.through_registers() {
            text.line("copies_end();");
        }
    };
    let (wm, wn, places) = tile.warps();
    if tile.through_registers() {
        sides.iter().for_each(|side| text.line(format!("uint4 {}_in[{}];", side.name, side.pieces())));
    }
    let (mt, nt) = (wm / 16, wn / 8);
    text.line(places);
    text.line(format!("float acc[{mt}][{nt}][4] = {{}};"));
    // words across `k` are read four at a time: the rows or columns of a thread lie beside each other
    let turned = |lies: Lies| precision == Precision::Tf32 && !tile.by_groups && lies == Lies::Across;
    let (turned_rows, turned_cols) = (turned(left), turned(right));
    let own = turns.div_ceil(tile.split);
    if tile.split > 1 {
        text.line(format!("const int turn0 = part * {own}, turns = min({own}, {turns} - turn0);"));
    }
    // of the whole sum, and of this block
    let (first, end) = if tile.split > 1 { ("turn0 + ", "turns".to_owned()) } else { ("", turns.to_string()) };
    // of those that are loaded into registers, one at a time
    for s in 0..if tile.through_registers() { 1 } else { STAGES - 1 } {
        if s < own {
            // the last of a cluster may have fewer turns
            bring(text, &format!("{first}{s}"), &s.to_string(), tile.split > 1);
        } else if !tile.through_registers() {
            text.line("copies_end();");
        }
    }
    text.line("#pragma unroll 1");
    text.block(format!("for (int turn = 0; turn < {end}; turn++)"), |text| {
        if tile.through_registers() {
            // while the stage before is multiplied; the one before that has been by all
            text.line(format!("const u32 at = base + turn % {STAGES} * {stage};"));
            sides.iter().for_each(|side| side.store(text, &tile));
            text.block(format!("if (turn + 1 < {end})"), |text| {
                bring(text, &format!("{first}turn + 1"), "0", false);
            });
            text.line("groups_see();");
            text.line("__syncthreads();");
            groups::multiply(text, &tile, (Lies::AlongK, Lies::AlongK), of_left, nt);
            text.line("groups_wait<1>();");
            return;
        }
        text.line(format!("copies_wait<{}>();", STAGES - 2));
        if tile.by_groups {
            // a stage is overwritten when all have multiplied it
            text.line("groups_see();");
            text.line("groups_wait<0>();");
        }
        text.line("__syncthreads();");
        let ahead = STAGES - 1;
        let at = format!("const u32 at = base + turn % {STAGES} * {stage};");
        if tile.by_groups {
            // copies are started while these multiply
            text.line(&at);
            groups::multiply(text, &tile, (left, right), of_left, nt);
        }
        text.block(format!("if (turn + {ahead} < {end})"), |text| {
            bring(text, &format!("{first}turn + {ahead}"), &format!("(turn + {ahead}) % {STAGES}"), false);
        });
        text.line("else copies_end();");
        if tile.by_groups {
            return;
        }
        text.line(&at);
        text.line("#pragma unroll");
        text.block(format!("for (int ks = 0; ks < {}; ks++)", PIECES / 2), |text| {
            text.line(format!("u32 a[{mt}][4], b[{}][4];", nt / 2));
            text.line("#pragma unroll");
            match turned_rows {
                true => text.block(format!("for (int i = 0; i < {mt}; i += 2)"), |text| four_rows(text, &tile)),
                false => text.block(format!("for (int i = 0; i < {mt}; i++)"), |text| left_fragment(text, &tile, left)),
            }
            match turned_cols {
                true => columns_of_thread(text, &tile, nt, of_left),
                false => {
                    text.line("#pragma unroll");
                    text.block(format!("for (int j = 0; j < {}; j++)", nt / 2), |text| {
                        right_fragment(text, &tile, right, of_left);
                    });
                }
            }
            text.line("#pragma unroll");
            text.line(format!("for (int i = 0; i < {mt}; i++)"));
            text.line("    #pragma unroll");
            text.line(format!(
                "    for (int j = 0; j < {nt}; j++) multiply_{precision}(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);"
            ));
        });
    });
    if !tile.through_registers() {
        text.line("copies_wait<0>();");
    }
    if tile.by_groups {
        text.line("groups_wait<0>();");
    }
    text.line("__syncthreads();");
    let wide = tile.sums_row();
    text.line("float* sums = (float*)stages;");
    text.line("#pragma unroll");
    text.block(format!("for (int i = 0; i < {mt}; i++)"), |text| {
        // two rows of an instruction's result
        let rows = match turned_rows {
            true => ["wm + i / 2 * 32 + lane / 4 * 4 + i % 2 * 2", "wm + i / 2 * 32 + lane / 4 * 4 + i % 2 * 2 + 1"],
            false => ["wm + i * 16 + lane / 4", "wm + i * 16 + lane / 4 + 8"],
        };
        for (h, row) in rows.iter().enumerate() {
            text.line(format!("float* const to{h} = sums + ({row}) * {wide} + wn;"));
            let of = |j: usize, c: usize| format!("acc[i][{j}][{}]", 2 * h + c);
            let quad = |parts: [String; 4]| format!("make_float4({})", parts.join(", "));
            match (turned_cols, nt) {
                (true, 4) => (0..2).for_each(|c| {
                    let four = quad([0, 1, 2, 3].map(|j| of(j, c)));
                    text.line(format!("*(float4*)(to{h} + lane % 4 * 8 + {}) = {four};", 4 * c));
                }),
                (true, _) => {
                    let four = quad([of(0, 0), of(1, 0), of(0, 1), of(1, 1)]);
                    text.line(format!("*(float4*)(to{h} + lane % 4 * 4) = {four};"));
                }
                (false, _) => (0..nt).for_each(|j| {
                    let two = format!("make_float2({}, {})", of(j, 0), of(j, 1));
                    text.line(format!("*(float2*)(to{h} + lane % 4 * 2 + {}) = {two};", 8 * j));
                }),
            }
        }
    });
    text.line(if tile.split > 1 { "cluster_meets();" } else { "__syncthreads();" });
    epilogue(text, m, &tile, outer, drawn);
    if tile.split > 1 {
        // others still read this block's sums
        text.line("cluster_meets();");
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

/// `a[i]` and `a[i + 1]` of words that lie across `k`: of 32 rows, a thread has four neighbours.
fn four_rows(text: &mut Text, tile: &TensorTile) {
    let row = tile.across_row(tile.rows);
    text.line(format!("const u32 from = at + (ks * 8 + lane % 4) * {row} + (wm + i * 16 + lane / 4 * 4) * 4;"));
    text.line("u32 x[4], y[4];");
    text.line(format!("load_four(x, from), load_four(y, from + {});", 4 * row));
    text.line("for (int w = 0; w < 4; w++) a[i + w / 2][w % 2] = tf32(x[w]), a[i + w / 2][w % 2 + 2] = tf32(y[w]);");
}

/// All of `b` of words that lie across `k`: a thread has neighbouring columns, one in each strip of eight.
fn columns_of_thread(text: &mut Text, tile: &TensorTile, strips: usize, of_left: usize) {
    let row = tile.across_row(tile.cols);
    let load = if strips == 4 { "load_four" } else { "load_two" };
    text.line(format!(
        "const u32 from = at + {of_left} + (ks * 8 + lane % 4) * {row} + (wn + lane / 4 * {strips}) * 4;"
    ));
    text.line(format!("u32 x[{strips}], y[{strips}];"));
    text.line(format!("{load}(x, from), {load}(y, from + {});", 4 * row));
    text.line(format!(
        "for (int j = 0; j < {strips}; j++) b[j / 2][j % 2 * 2] = tf32(x[j]), b[j / 2][j % 2 * 2 + 1] = tf32(y[j]);"
    ));
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
        (_, Lies::Across) => text.line(format!(
            "load_turned(b[j], {at} + (ks * 16 + lane / 8 % 2 * 8 + lane % 8) * {row} + (wn + j * 16 + lane / 16 * 8) * 2);"
        )),
    }
    if tile.precision == Precision::Tf32 {
        text.line("for (int w = 0; w < 4; w++) b[j][w] = tf32(b[j][w]);");
    }
}
