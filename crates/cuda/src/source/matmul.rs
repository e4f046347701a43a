//! Products: a tile per block. Each thread has a few elements of the tile in registers and walks a slice of `k`; the slices'
//! sums are added in shared memory, always in the same order, and the epilogue runs on the result.

use citius_plan::{Deep, Matmul, Operand};

use super::program::{element, loaded, render, typed};
use super::text::Text;
use super::{Sync, indices};

/// How a tile of a product is computed by a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tile {
    pub rows: usize,
    pub cols: usize,
    /// Elements of one thread.
    micro: (usize, usize),
    /// Parts of `k` that run side by side.
    slices: usize,
}

/// Cycles until a value from the second-level cache is there.
const LATENCY: f64 = 500.0;
/// Loads of a thread that are on their way together.
const IN_FLIGHT: usize = 24;
/// Cycles from one level of the schedule to the next, roughly; what a tile costs beside it matters little.
const FIXED: f64 = 200.0;

/// Floats of shared memory for the slices' sums, for each thread.
const MOST_SHARED: usize = 16;

impl Tile {
    /// The tile with which `share` blocks are done soonest.
    pub fn choose(m: &Matmul, share: usize, threads: usize) -> Tile {
        let sizes = |most: usize| {
            let steps = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256];
            steps.into_iter().filter(move |s| *s < most).chain([most.clamp(1, 256)])
        };
        let mut best: Option<(f64, Tile)> = None;
        let all = all_rows(m);
        for rows in sizes(all) {
            for cols in sizes(m.n) {
                let (tile, cost) = Tile::inside(m, rows, cols, threads);
                let units = all.div_ceil(rows) * m.n.div_ceil(cols);
                let bytes = 4 * m.terms() * (rows + cols);
                let total = units.div_ceil(share.max(1)) as f64 * (cost + bytes as f64 / 48.0 + FIXED);
                if best.is_none_or(|b| total < b.0) {
                    best = Some((total, tile));
                }
            }
        }
        best.map_or(Tile { rows: 1, cols: 1, micro: (1, 1), slices: 1 }, |b| b.1)
    }

    /// The fastest way to compute a tile of this size, and its cycles.
    pub fn inside(m: &Matmul, rows: usize, cols: usize, of: usize) -> (Tile, f64) {
        let mut best: Option<(f64, Tile)> = None;
        for mr in [1, 2, 3, 4, 8] {
            for nr in [1, 2, 4] {
                let threads = rows.div_ceil(mr) * cols.div_ceil(nr);
                let most = (of / threads.max(1)).max(1);
                let mut slices = 1;
                while slices <= most && slices <= m.terms().max(1) {
                    let tile = Tile { rows, cols, micro: (mr, nr), slices };
                    let cost = tile.cycles(m, of);
                    let fits = mr <= rows.max(1) && nr <= cols.max(1) && tile.shared() <= MOST_SHARED * of;
                    if fits && best.is_none_or(|b| cost < b.0) {
                        best = Some((cost, tile));
                    }
                    slices *= 2;
                }
            }
        }
        best.map_or((Tile { rows, cols, micro: (1, 1), slices: 1 }, 0.0), |b| (b.1, b.0))
    }

    fn cycles(&self, m: &Matmul, of: usize) -> f64 {
        let (mr, nr) = self.micro;
        let threads = self.across() * self.down();
        let rounds = (threads * self.slices).div_ceil(of) as f64;
        let warps = (threads * self.slices).min(of).div_ceil(32) as f64;
        let steps = m.terms().div_ceil(self.slices) as f64;
        let loads = self.loads(m);
        // four schedulers start an instruction each cycle, one unit serves their loads
        let work = (warps * steps * ((mr * nr) as f64 + loads + 1.0) / 4.0).max(warps * steps * loads * 1.5);
        let busy = (warps / 4.0).clamp(0.25, 1.0);
        let wait = (steps / self.batch(m) as f64).ceil().max(1.0) * LATENCY;
        let gather = match self.slices {
            1 => 0.0,
            n => {
                let left = n / self.in_warp();
                let shuffles = (self.in_warp().ilog2() as usize * mr * nr) as f64 * warps;
                let elements = self.rows * self.cols;
                80.0 + shuffles + (elements * left) as f64 / 32.0 + (left * elements.div_ceil(of)) as f64 * 4.0
            }
        };
        rounds * (work / busy + wait) + gather
    }

    /// Loads of a thread for each `k`.
    fn loads(&self, m: &Matmul) -> f64 {
        let (mr, nr) = (self.micro.0 as f64, self.micro.1 as f64);
        let left = match (a_by_k(m), a_by_m(m, self)) {
            (true, _) => mr / 4.0,
            (false, true) => 1.0,
            (false, false) => mr,
        };
        left + if by_n(m, self) { 1.0 } else { nr }
    }

    /// Values of `k` whose loads are on their way together.
    fn batch(&self, m: &Matmul) -> usize {
        let most = (IN_FLIGHT as f64 / self.loads(m)).max(1.0) as usize;
        most.clamp(1, 16)
    }

    /// Threads side by side.
    fn across(&self) -> usize {
        self.cols.div_ceil(self.micro.1).max(1)
    }

    fn down(&self) -> usize {
        self.rows.div_ceil(self.micro.0).max(1)
    }

    /// Slices that sit in one warp and are added up by it.
    fn in_warp(&self) -> usize {
        let threads = self.across() * self.down();
        let fits = threads < 32 && threads.is_power_of_two() && (threads * self.slices).is_multiple_of(32);
        if fits { 32 / threads } else { 1 }
    }

    /// Floats of shared memory.
    pub fn shared(&self) -> usize {
        if self.slices > 1 { self.slices / self.in_warp() * self.rows * self.cols } else { 0 }
    }
}

/// The right side is the same for all outer indices, so that these and `m` count rows of one matrix.
pub fn is_flat(m: &Matmul) -> bool {
    !m.outer.is_empty() && m.b.outer.iter().all(|s| *s == 0)
}

/// Rows that tiles are cut from.
pub fn all_rows(m: &Matmul) -> usize {
    if is_flat(m) { m.outer.iter().product::<usize>() * m.m } else { m.m }
}

/// Outer indices and row of row `row` of all.
pub fn split_row(m: &Matmul, row: &str) -> (Vec<String>, String) {
    (indices(&m.outer, &format!("({row}) / {}", m.m.max(1))), format!("({row}) % {}", m.m.max(1)))
}

/// Four values of `k` come in one load of the left side.
fn a_by_k(m: &Matmul) -> bool {
    m.a.col == 1 && m.k.is_multiple_of(4) && aligned(&m.a, m.a.row, 4) && m.deep.iter().all(|d| d.a % 4 == 0)
}

/// The rows of a thread lie beside each other in the left side.
fn a_by_m(m: &Matmul, tile: &Tile) -> bool {
    let mr = tile.micro.0;
    let whole = m.m.is_multiple_of(mr) && tile.rows.is_multiple_of(mr);
    m.a.row == 1
        && !is_flat(m)
        && m.a.col > 1
        && [2, 4].contains(&mr)
        && whole
        && aligned(&m.a, m.a.col, mr)
        && m.deep.iter().all(|d| d.a % mr == 0)
}

/// The columns of a thread come in one load of the right side.
fn by_n(m: &Matmul, tile: &Tile) -> bool {
    let nr = tile.micro.1;
    let whole = m.n.is_multiple_of(nr) && tile.cols.is_multiple_of(nr);
    [2, 4].contains(&nr) && m.b.col == 1 && whole && aligned(&m.b, m.b.row, nr) && m.deep.iter().all(|d| d.b % nr == 0)
}

/// Four values of `k` come in one load of the right side, which is read as its transpose.
fn b_by_k(m: &Matmul) -> bool {
    m.b.col != 1 && m.b.row == 1 && a_by_k(m) && aligned(&m.b, m.b.col, 4) && m.deep.iter().all(|d| d.b % 4 == 0)
}

fn aligned(o: &Operand, stride: usize, to: usize) -> bool {
    stride.is_multiple_of(to) && o.offset.is_multiple_of(to) && o.outer.iter().all(|s| s % to == 0)
}

/// The tile whose first row is `r0`, up to row `r1`, and whose first column is `c0`.
pub fn emit(text: &mut Text, sync: &mut Sync, m: &Matmul, tile: Tile, outer: &[String]) {
    let (mr, nr) = tile.micro;
    let (across, down) = (tile.across(), tile.down());
    let threads = across * down;
    let slices = tile.slices;
    if slices > 1 {
        sync.before_shared(text);
    }
    let head = if slices > 1 {
        format!("if (tid < {})", threads * slices)
    } else {
        format!("for (int pos = tid; pos < {threads}; pos += THREADS)")
    };
    text.block(head, |text| {
        // slices take turns, so that neighbours read neighbours
        let first = match slices {
            1 => "0".to_owned(),
            _ => {
                text.line(format!("const int pos = tid % {threads}, slice = tid / {threads};"));
                "slice".to_owned()
            }
        };
        text.line(format!("const int x = pos % {across}, y = pos / {across};"));
        text.line(format!("float acc[{mr}][{nr}] = {{}};"));
        let vector_n = by_n(m, &tile);
        for i in 0..mr {
            // rows beyond the end compute a copy of the last, which nobody stores
            let all = all_rows(m);
            let last = if !a_by_k(m) && a_by_m(m, &tile) { all - mr + i } else { all.saturating_sub(1) };
            text.line(format!("const Index row{i} = min(r0 + y * {mr} + {i}, (Index){last});"));
            let start = match is_flat(m) {
                false => format!("row{i} * {}", m.a.row),
                true => {
                    let (outer, row) = split_row(m, &format!("row{i}"));
                    let terms = m.a.outer.iter().zip(&outer).map(|(s, i)| format!(" + ({i}) * {s}"));
                    format!("({row}) * {}{}", m.a.row, terms.collect::<String>())
                }
            };
            if a_by_k(m) || !a_by_m(m, &tile) {
                text.line(format!("const Index at{i} = {start};"));
            }
        }
        for j in 0..nr {
            let col = if vector_n { format!("x * {nr} + {j}") } else { format!("x + {}", j * across) };
            let last = if vector_n { m.n - nr + j } else { m.n.saturating_sub(1) };
            text.line(format!("const Index col{j} = min(c0 + {col}, (Index){last});"));
        }
        let offset = |o: &Operand| {
            // none where rows have their own
            let outer = o.outer.iter().zip(outer).filter(|(s, _)| **s > 0).map(|(s, i)| format!(" + {s} * ({i})"));
            format!("{}{}", o.offset, outer.collect::<String>())
        };
        text.line(format!("const float* A = {} + {};", typed(m.a.buffer, m.a.dtype), offset(&m.a)));
        text.line(format!("const float* B = {} + {};", typed(m.b.buffer, m.b.dtype), offset(&m.b)));
        let quad = if a_by_k(m) { 4 } else { 1 };
        let walk = Walk::new(m.terms().div_ceil(quad), slices, (tile.batch(m) / quad).max(1));
        walk.emit(text, |text, exact| {
            let turn = match slices {
                1 => "turn".to_owned(),
                _ => format!("({first} + turn * {slices})"),
            };
            text.line(format!("const int k = {turn}{};", if quad > 1 { " * 4" } else { "" }));
            if !exact {
                text.line(format!("const bool inside = k < {};", m.terms()));
            }
            if !m.deep.is_empty() {
                text.line(format!("const Index ka = {};", along_k(m, "k", m.a.col, |d| d.a)));
                text.line(format!("const Index kb = {};", along_k(m, "k", m.b.row, |d| d.b)));
            }
            let whole = m.deep.is_empty();
            let guard = |load: String, zero: &str| if exact { load } else { format!("inside ? {load} : {zero}") };
            let none = |n: usize| match n {
                2 => "make_float2(0, 0)",
                4 => "make_float4(0, 0, 0, 0)",
                _ => "0.0f",
            };
            let a_k = if whole { format!("(Index)k * {}", m.a.col) } else { "ka".to_owned() };
            if quad == 4 {
                for i in 0..mr {
                    let load =
                        guard(format!("*(const float4*)(A + at{i} + {})", if whole { "k" } else { "ka" }), none(4));
                    text.line(format!("const float4 a{i} = {load};"));
                }
                for j in (0..nr).filter(|_| b_by_k(m)) {
                    let load = guard(
                        format!("*(const float4*)(B + col{j} * {} + {})", m.b.col, if whole { "k" } else { "kb" }),
                        none(4),
                    );
                    text.line(format!("const float4 right{j} = {load};"));
                }
            } else if a_by_m(m, &tile) {
                let load = guard(format!("*(const float{mr}*)(A + row0 + {a_k})"), none(mr));
                text.line(format!("const float{mr} left = {load};"));
            } else {
                for i in 0..mr {
                    let load = guard(format!("A[at{i} + {a_k}]"), none(1));
                    text.line(format!("const float a{i} = {load};"));
                }
            }
            for q in (0..quad).filter(|_| !b_by_k(m)) {
                let at = match whole {
                    true => format!("(Index)(k + {q}) * {}", m.b.row),
                    false => format!("kb + {}", q * m.b.row),
                };
                if vector_n {
                    let load = guard(format!("*(const float{nr}*)(B + {at} + col0)"), none(nr));
                    text.line(format!("const float{nr} b{q} = {load};"));
                } else {
                    for j in 0..nr {
                        let load = guard(format!("B[{at} + col{j} * {}]", m.b.col), none(1));
                        text.line(format!("const float b{q}_{j} = {load};"));
                    }
                }
            }
            for q in 0..quad {
                for i in 0..mr {
                    let a = match (quad, a_by_m(m, &tile)) {
                        (4, _) => format!("a{i}.{}", part(q)),
                        (_, true) => format!("left.{}", part(i)),
                        (_, false) => format!("a{i}"),
                    };
                    for j in 0..nr {
                        let b = match (b_by_k(m), vector_n) {
                            (true, _) => format!("right{j}.{}", part(q)),
                            (false, true) => format!("b{q}.{}", part(j)),
                            (false, false) => format!("b{q}_{j}"),
                        };
                        text.line(format!("acc[{i}][{j}] = fmaf({a}, {b}, acc[{i}][{j}]);"));
                    }
                }
            }
        });
        let in_warp = tile.in_warp();
        if in_warp > 1 {
            text.line("#pragma unroll");
            text.block(format!("for (int d = {threads}; d < 32; d *= 2)"), |text| {
                let each = format!("for (int i = 0; i < {}; i++)", mr * nr);
                text.line("#pragma unroll");
                text.line(format!(
                    "{each} acc[i / {nr}][i % {nr}] += __shfl_xor_sync(0xffffffffu, acc[i / {nr}][i % {nr}], d);"
                ));
            });
        }
        let first = if in_warp > 1 { format!("if (lane < {threads}) ") } else { String::new() };
        for i in 0..mr {
            for j in 0..nr {
                let (row, col) = (format!("y * {mr} + {i}"), local_col(vector_n, nr, across, j));
                if slices > 1 {
                    let slice = if in_warp > 1 { "warp".to_owned() } else { format!("tid / {threads}") };
                    let at = format!("({slice} * {} + {row}) * {} + {col}", tile.rows, tile.cols);
                    let inside = inside(
                        !tile.rows.is_multiple_of(mr),
                        &row,
                        tile.rows,
                        !tile.cols.is_multiple_of(nr),
                        &col,
                        tile.cols,
                    );
                    text.line(format!("{first}{inside}shared[{at}] = acc[{i}][{j}];"));
                } else {
                    text.block(
                        format!(
                            "if ({row} < {} && {col} < {} && r0 + {row} < r1 && c0 + {col} < {})",
                            tile.rows, tile.cols, m.n
                        ),
                        |text| {
                            epilogue(
                                text,
                                m,
                                outer,
                                &format!("acc[{i}][{j}]"),
                                &format!("(r0 + {row})"),
                                &format!("(c0 + {col})"),
                            );
                        },
                    );
                }
            }
        }
    });
    if slices > 1 {
        sync.inside(text);
        let size = tile.rows * tile.cols;
        text.line("#pragma unroll 1");
        text.block(format!("for (int o = tid; o < {size}; o += THREADS)"), |text| {
            text.line("float sum = shared[o];");
            let left = slices / tile.in_warp();
            text.line("#pragma unroll 8");
            text.line(format!("for (int i = 1; i < {left}; i++) sum += shared[o + i * {size}];"));
            text.line(format!("const Index row = r0 + o / {0}, col = c0 + o % {0};", tile.cols));
            text.block(format!("if (row < r1 && col < {})", m.n), |text| {
                epilogue(text, m, outer, "sum", "row", "col");
            });
        });
    }
}

/// How far `k`, an expression which counts all terms of a sum, has gone in a side of the product.
pub fn along_k(m: &Matmul, k: &str, stride: usize, deep: fn(&Deep) -> usize) -> String {
    if m.deep.is_empty() {
        return format!("(Index)({k}) * {stride}");
    }
    let mut inner = m.k;
    let mut offset = format!("(Index)({k} % {inner}) * {stride}");
    for d in m.deep.iter().rev() {
        offset += &format!(" + (Index)({k} / {inner} % {}) * {}", d.size, deep(d));
        inner *= d.size;
    }
    offset
}

/// The name of element `i` of a vector.
fn part(i: usize) -> &'static str {
    ["x", "y", "z", "w"][i]
}

fn local_col(vector: bool, nr: usize, across: usize, j: usize) -> String {
    if vector { format!("x * {nr} + {j}") } else { format!("x + {}", j * across) }
}

fn inside(check_row: bool, row: &str, rows: usize, check_col: bool, col: &str, cols: usize) -> String {
    match (check_row, check_col) {
        (false, false) => String::new(),
        (true, false) => format!("if ({row} < {rows}) "),
        (false, true) => format!("if ({col} < {cols}) "),
        (true, true) => format!("if ({row} < {rows} && {col} < {cols}) "),
    }
}

/// The turns that a slice takes along `k`, in batches whose loads are on their way together.
struct Walk {
    batches: usize,
    batch: usize,
    /// No turn goes beyond the end.
    exact: bool,
}

impl Walk {
    fn new(turns: usize, slices: usize, most: usize) -> Walk {
        let each = turns.div_ceil(slices);
        let batches = each.div_ceil(most).max(1);
        let batch = each.div_ceil(batches);
        Walk { batches, batch, exact: batches * batch * slices == turns }
    }

    fn emit(&self, text: &mut Text, body: impl Fn(&mut Text, bool)) {
        let Walk { batches, batch, exact } = *self;
        let inner = |text: &mut Text, start: &str| {
            text.line("#pragma unroll");
            text.block(format!("for (int i = 0; i < {batch}; i++)"), |text| {
                text.line(format!("const int turn = {start}i;"));
                body(text, exact);
            });
        };
        if batches == 1 {
            return inner(text, "");
        }
        text.line("#pragma unroll 1");
        text.block(format!("for (int n = 0; n < {batches}; n++)"), |text| inner(text, &format!("n * {batch} + ")));
    }
}

/// Runs the program on an element of the product and stores what it makes.
pub fn epilogue(text: &mut Text, m: &Matmul, outer: &[String], product: &str, row: &str, col: &str) {
    let (of_row, in_outer) = split_row(m, row);
    let (outer, row) = if is_flat(m) { (&of_row[..], &in_outer[..]) } else { (outer, row) };
    render(text, &m.program, |i| loaded(&m.operands[i], outer, row, col), product, |_, _| String::new());
    for (value, operand) in &m.stores {
        text.line(format!("{} = v{value};", element(&m.operands[*operand], outer, row, col)));
    }
}
