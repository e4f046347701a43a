//! Products on the matrix units: a tile per block of 256 threads. Sixteen bytes at a time, parts of both sides go through a ring of
//! stages in shared memory while the one before is multiplied; the sums then cross shared memory once more, so that the epilogue
//! reads and writes whole rows. On Hopper, numbers of 16 bits, and words in large tiles, are multiplied by groups of warps
//! ([`super::groups`]). Where a product
//! has few tiles, the blocks of a cluster share the sum of each. Windows of a convolution are walked where they are, as any product's
//! sides.

use std::collections::BTreeMap;

use citius_graph::DType;
use citius_plan::{BufferId, Instr, Matmul, Operand};

use super::groups;
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
    by_groups: bool,
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
    fn sums_row(&self) -> usize {
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
    fn across_row(&self, extent: usize) -> usize {
        // words are read one by one, halves by matrices
        if self.precision == Precision::Tf32 { (extent + 8) * 4 } else { (extent + 8) * 2 }
    }

    /// Both sides go through registers on their way into shared memory: groups of warps take words along `k` alone, and cut off what
    /// they do not read.
    fn through_registers(&self) -> bool {
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

/// Every stage is part of one row of terms, or several whole ones, of several whole deeper ones, and so on: where it begins and where a
/// piece lies in it can be told apart.
fn walks_evenly(m: &Matmul, depth: usize) -> bool {
    let mut left = depth;
    for size in std::iter::once(m.k).chain(m.deep.iter().rev().map(|d| d.size)) {
        if size.is_multiple_of(left) {
            return true;
        }
        if size == 0 || !left.is_multiple_of(size) {
            return false;
        }
        left /= size;
    }
    false
}

/// How the pieces of a side are found from stage to stage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walk {
    /// All of a thread's lie at fixed distances.
    Straight,
    /// Where a stage begins is the same for all.
    Even,
    /// Each by itself.
    Any,
    /// Each of their elements by itself.
    Elements,
}

/// A side of a product on its way into shared memory.
struct Side {
    name: &'static str,
    memory: &'static str,
    lies: Lies,
    /// Rows or columns of the tile.
    extent: usize,
    first: &'static str,
    /// Of all tiles.
    end: usize,
    /// In a stage.
    at: usize,
    walk: Walk,
}

impl Side {
    /// Of a thread in each stage.
    fn pieces(&self) -> usize {
        self.extent * PIECES / THREADS
    }

    /// Pieces side by side: of `k`, or of the extent.
    fn beside(&self, tile: &TensorTile) -> usize {
        match self.lies {
            Lies::AlongK => PIECES,
            Lies::Across => self.extent / piece(tile.precision),
        }
    }

    /// Neighbours along the extent become neighbours along `k` on the way: a thread has blocks of four by four.
    fn is_turned(&self, tile: &TensorTile) -> bool {
        tile.through_registers() && self.lies == Lies::Across
    }

    /// Bytes of a row in shared memory.
    fn row(&self, tile: &TensorTile) -> usize {
        match self.lies {
            _ if tile.by_groups => groups::ROW,
            Lies::AlongK => ROW,
            Lies::Across => tile.across_row(self.extent),
        }
    }

    /// For each piece: the term `_k` in its stage, where it comes `_from` and goes `_to`, and whether it is `_in` the matrix.
    fn places(
        &self,
        text: &mut Text,
        tile: &TensorTile,
        address: &dyn Fn(&str) -> String,
        along: &dyn Fn(&str) -> String,
    ) {
        let Side { name, first, end, memory, .. } = *self;
        let (p, beside, row) = (piece(tile.precision), self.beside(tile), self.row(tile));
        let whole = end.is_multiple_of(self.extent);
        if self.is_turned(tile) {
            (0..4).for_each(|i| text.line(format!("const u32 {name}_to{i} = {};", groups::turned_place(i))));
        }
        for j in 0..if self.walk == Walk::Straight { 1 } else { self.pieces() } {
            let q = format!("(tid + {})", j * THREADS);
            let (at, k) = match self.lies {
                _ if self.is_turned(tile) => groups::turned_piece(j),
                Lies::AlongK => (format!("{q} / {beside}"), format!("{q} % {beside} * {p}")),
                Lies::Across => (format!("{q} % {beside} * {p}"), format!("{q} / {beside}")),
            };
            text.line(format!("const Index {name}_at{j} = {first} + {at};"));
            text.line(format!("const int {name}_k{j} = {k};"));
            let to = match tile.by_groups {
                true => groups::place(&q, beside, self.lies),
                false => format!("{q} / {beside} * {row} + {q} % {beside} * 16"),
            };
            if !self.is_turned(tile) {
                text.line(format!("const u32 {name}_to{j} = {to};"));
            }
            if self.walk == Walk::Straight {
                // pieces beyond the end are not read
                let from = format!("{} + {}", address(&format!("{name}_at{j}")), along(&format!("{name}_k{j}")));
                text.line(format!(
                    "const char* const {name}_walk = {memory} + ({from}) * {}ll;",
                    bytes(tile.precision)
                ));
                continue;
            }
            text.line(format!(
                "const bool {name}_in{j} = {};",
                if whole { "true".into() } else { format!("{name}_at{j} < {end}") }
            ));
            let inside = if whole {
                format!("{name}_at{j}")
            } else {
                format!("min({name}_at{j}, (Index){})", end.saturating_sub(1))
            };
            text.line(format!("const Index {name}_from{j} = {};", address(&inside)));
            if self.walk == Walk::Even {
                text.line(format!("Index {name}_walk{j} = {name}_from{j} + {};", along(&format!("{name}_k{j}"))));
                text.line(format!("kept({name}_walk{j});"));
            }
        }
    }

    /// Writes what was loaded into the stage that begins `at`.
    fn store(&self, text: &mut Text, tile: &TensorTile) {
        let Side { name, at: side, .. } = *self;
        if self.is_turned(tile) {
            // beside what is loaded next, whose registers should be the same in every turn
            for j in 0..self.pieces() {
                let words = groups::in_order_of_lane(&format!("{name}_in[{j}]"));
                text.line(format!("const uint4 {name}_words{j} = {words};"));
            }
        }
        for j in 0..self.pieces() {
            let (to, words) = match self.is_turned(tile) {
                true => {
                    let word = ["x", "y", "z", "w"][j];
                    (format!("{name}_to{j} + {side}"), [0, 1, 2, 3].map(|i| format!("{name}_words{i}.{word}")))
                }
                false => {
                    let words = ["x", "y", "z", "w"].map(|word| format!("{name}_in[{j}].{word}"));
                    let to = match self.walk {
                        Walk::Straight => {
                            format!("{name}_to0 + {}", side + j * THREADS / PIECES * groups::ROW)
                        }
                        _ => format!("{name}_to{j} + {side}"),
                    };
                    (to, words)
                }
            };
            let words = words.map(|word| format!("tf32({word})"));
            text.line(format!("store16(at + {to}, {});", words.join(", ")));
        }
    }

    /// Starts the copies of a stage. `steps`: along the extent and along `k`.
    #[allow(clippy::too_many_arguments)]
    fn bring(
        &self,
        text: &mut Text,
        tile: &TensorTile,
        turn: &str,
        more: &str,
        along: &dyn Fn(&str) -> String,
        steps: (usize, usize),
        terms: usize,
    ) {
        let Side { name, memory, at, end, .. } = *self;
        let (size, depth) = (bytes(tile.precision), tile.depth());
        let stage = along(&format!("(({turn}) * {depth})"));
        let put = |j: usize, to: String, from: &str, there: &str| match tile.through_registers() {
            true => format!("{name}_in[{j}] = load16({from}, {there});"),
            false => format!("copy16(to + {to}, {from}, {there});"),
        };
        for j in 0..self.pieces() {
            match self.walk {
                Walk::Straight => {
                    // rows of pieces from the first one
                    let rows = j * THREADS / self.beside(tile);
                    let (distance, along_extent) = match self.lies {
                        _ if self.is_turned(tile) => (j * steps.1, 0),
                        Lies::AlongK => (rows * steps.0, rows),
                        Lies::Across => (rows * steps.1, 0),
                    };
                    if j == 0 {
                        text.line(format!("const char* const {name}_turn = {name}_walk + ({stage}) * {size}ll;"));
                    }
                    let whole = end.is_multiple_of(self.extent);
                    let inside = if whole { "true".into() } else { format!("{name}_at0 + {along_extent} < {end}") };
                    let to = format!("{name}_to0 + {}", at + rows * self.row(tile));
                    let from = format!("{name}_turn + {}ll", distance * size);
                    text.line(put(j, to, &from, &format!("{inside}{more}")));
                }
                Walk::Even => {
                    if j == 0 {
                        text.line(format!("const char* const {name}_turn = {memory} + ({stage}) * {size}ll;"));
                    }
                    let there = format!("{name}_in{j}{more}");
                    let from = format!("{there} ? {name}_turn + {name}_walk{j} * {size}ll : {memory}");
                    text.line(put(j, format!("{at} + {name}_to{j}"), &from, &there));
                }
                Walk::Any => text.block("", |text| {
                    text.line(format!("const int k = ({turn}) * {depth} + {name}_k{j};"));
                    text.line(format!("const bool there = {name}_in{j} && k < {terms};"));
                    let from = format!("{memory} + ({name}_from{j} + {}) * {size}ll", along("k"));
                    let from = format!("there ? {from} : {memory}");
                    text.line(put(j, format!("{at} + {name}_to{j}"), &from, "there"));
                }),
                Walk::Elements => text.block("", |text| {
                    text.line(format!("const int k = ({turn}) * {depth} + {name}_k{j};"));
                    text.line("u32 words[4] = {};");
                    text.line("#pragma unroll");
                    text.block("for (int e = 0; e < 8; e++)", |text| {
                        let (there, k, beside) = match self.lies {
                            Lies::AlongK => (format!("{name}_in{j} && k + e < {terms}"), "(k + e)", "0"),
                            Lies::Across => (format!("{name}_at{j} + e < {end} && k < {terms}"), "k", "e"),
                        };
                        let from = format!("{memory} + ({name}_from{j} + {beside} + {}) * {size}ll", along(k));
                        text.line(format!(
                            "if ({there}{more}) words[e / 2] |= (u32)*(const unsigned short*)({from}) << e % 2 * 16;"
                        ));
                    });
                    text.line(format!("store16(to + {at} + {name}_to{j}, words[0], words[1], words[2], words[3]);"));
                }),
            }
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
fn epilogue(text: &mut Text, m: &Matmul, tile: &TensorTile, outer: &[String], drawn: &Drawn) {
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
