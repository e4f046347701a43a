//! Element-wise programs with stores and folds, for the rows `r0..r1` of a unit.

use citius_graph::DType;
use citius_plan::{Fold, FoldKind, Instr, Loop, Nest, Operand};

use super::Sync;
use super::program::{element, identity, joined, loaded, of_warp, render};
use super::text::Text;

/// Rows of a unit where a loop has outer indices: 32, or more of short ones.
pub fn own_rows(l: &Loop) -> usize {
    (1024 / l.cols.max(1)).clamp(32, 1024)
}
/// Columns of a unit where columns are folded under outer indices.
pub const OWN_COLUMNS: usize = 32;

/// Where a loop is to run.
pub struct Place<'a> {
    /// Rows the loop is cut into; 0 where it has a cut of its own.
    pub rows: usize,
    /// One expression per outer index.
    pub outer: &'a [String],
    /// Rows of a unit, at most.
    pub per_unit: usize,
    /// Of the block.
    pub threads: usize,
    /// No other block is there to run while this one waits: it has more under way.
    pub alone: bool,
    /// Where the parts of folds shared by units go: fold → expression of an element.
    pub parts: &'a dyn Fn(usize) -> String,
}

/// Floats of shared memory that it needs.
pub fn shared(l: &Loop, threads: usize) -> usize {
    match l.nest {
        Nest::Columns => threads * l.folds.len() * if columns_by_four(l) { 4 } else { 1 },
        Nest::Rows => l.folds.iter().filter(|f| f.whole).count() * threads / 32,
    }
}

pub fn emit(text: &mut Text, sync: &mut Sync, l: &Loop, place: &Place) {
    match l.nest {
        Nest::Columns if columns_by_four(l) => four_columns(text, sync, l, place),
        Nest::Columns => columns(text, sync, l, place),
        Nest::Rows if row_by_row(l) => rows(text, l, place),
        Nest::Rows => elements(text, sync, l, place),
    }
}

fn row_by_row(l: &Loop) -> bool {
    let short = l.program.instrs.iter().any(|i| matches!(i, Instr::FoldRow(..)));
    short || l.folds.iter().any(|f| !f.whole)
}

/// Every thread takes an element at a time; warps that would have none pass by.
fn elements(text: &mut Text, sync: &mut Sync, l: &Loop, place: &Place) {
    let whole: Vec<(usize, &Fold)> = l.folds.iter().enumerate().filter(|(_, f)| f.whole).collect();
    // a flat loop is cut into rows that are stretches of its only one
    let (width, row, col) = match (l.rows, place.rows) {
        (1, count) if count > 1 => (l.cols / count, "0".to_owned(), "e".to_owned()),
        (1, _) => (l.cols, "0".to_owned(), "e".to_owned()),
        _ => (l.cols, format!("e / {}", l.cols.max(1)), format!("e % {}", l.cols.max(1))),
    };
    let warps = (place.per_unit * width).div_ceil(32).clamp(1, place.threads / 32);
    let some = warps < place.threads / 32;
    if !whole.is_empty() && warps > 1 {
        sync.before_shared(text);
    }
    let body = |text: &mut Text| {
        for (i, fold) in &whole {
            text.line(format!("float fold{i} = {};", identity(fold.kind)));
        }
        let stretch = Stretch { width, row: &row, col: &col, warps };
        if can_be_fours(l, width, place) {
            fours(text, l, place, &stretch, &whole);
        } else {
            ones(text, l, place, &stretch, &whole);
        }
        for (n, (i, fold)) in whole.iter().enumerate() {
            text.line(format!("fold{i} = {};", of_warp(fold.kind, &format!("fold{i}"))));
            let target = match warps {
                1 => (place.parts)(*i),
                _ => format!("shared[{n} * {warps} + warp]"),
            };
            text.line(format!("if (lane == 0) {target} = fold{i};"));
        }
    };
    let condition = if some { format!("if (warp < {warps})") } else { String::new() };
    text.block(condition, body);
    if whole.is_empty() || warps == 1 {
        return;
    }
    sync.inside(text);
    for (n, (i, fold)) in whole.iter().enumerate() {
        text.block(format!("if (warp == {})", n % (place.threads / 32)), |text| {
            text.line(format!("float x = lane < {warps} ? shared[{n} * {warps} + lane] : {};", identity(fold.kind)));
            text.line(format!("x = {};", of_warp(fold.kind, "x")));
            text.line(format!("if (lane == 0) {} = x;", (place.parts)(*i)));
        });
    }
}

/// The elements of a unit.
struct Stretch<'a> {
    /// Of one row of the cut.
    width: usize,
    /// Where element `e` is in the loop.
    row: &'a str,
    col: &'a str,
    /// Warps that take part.
    warps: usize,
}

/// Every thread takes an element at a time, or some whose operands are loaded first: loads do not wait for stores of others.
fn ones(text: &mut Text, l: &Loop, place: &Place, stretch: &Stretch, whole: &[(usize, &Fold)]) {
    let Stretch { width, row, col, warps } = *stretch;
    let turns = (place.per_unit * width).div_ceil(warps * 32);
    let together = turns.clamp(1, if place.alone { MOST_ALONE } else { MOST_TOGETHER });
    let loads = loads(l);
    let body = |text: &mut Text, load: &dyn Fn(usize) -> String| {
        render(text, &l.program, load, "", |_, _| String::new());
        for (value, operand) in &l.stores {
            text.line(format!("{} = v{value};", element(&l.operands[*operand], place.outer, row, col)));
        }
        for (i, fold) in whole {
            text.line(format!("fold{i} = {};", joined(fold.kind, &format!("fold{i}"), &format!("v{}", fold.value))));
        }
    };
    let at = |n: usize| loaded(&l.operands[n], place.outer, row, col);
    let step = warps * 32;
    if together == 1 {
        text.line("#pragma unroll 1");
        let head = format!("for (Index e = r0 * {width} + tid; e < r1 * {width}; e += {step})");
        text.block(head, |text| body(text, &at));
        return;
    }
    text.line("#pragma unroll 1");
    let head = format!("for (Index first = r0 * {width} + tid; first < r1 * {width}; first += {})", together * step);
    text.block(head, |text| {
        loads.iter().for_each(|n| text.line(format!("float in{n}[{together}];")));
        text.line("#pragma unroll");
        text.block(format!("for (int u = 0; u < {together}; u++)"), |text| {
            text.line(format!("const Index e = min(first + u * {step}, r1 * {width} - 1);"));
            loads.iter().for_each(|n| text.line(format!("in{n}[u] = {};", at(*n))));
        });
        text.line("#pragma unroll");
        text.block(format!("for (int u = 0; u < {together}; u++)"), |text| {
            text.line(format!("const Index e = first + u * {step};"));
            text.line(format!("if (e >= r1 * {width}) break;"));
            body(text, &|n| format!("in{n}[u]"));
        });
    });
}

/// Elements of a thread whose loads are under way together, at most, and of one that is alone.
pub const MOST_TOGETHER: usize = 4;
const MOST_ALONE: usize = 10;

/// A unit is large, and four neighbours lie beside each other in every operand or are one element.
fn can_be_fours(l: &Loop, width: usize, place: &Place) -> bool {
    lie_by_four(l) && width.is_multiple_of(4) && place.per_unit * width >= 8 * place.threads
}

/// Four neighbours lie beside each other in every operand, or are one element.
fn lie_by_four(l: &Loop) -> bool {
    let beside = |o: &Operand| match o.col {
        0 => true,
        1 => {
            o.offset.is_multiple_of(4)
                && o.row.is_multiple_of(4)
                && o.outer.iter().all(|s| s % 4 == 0)
                && o.dtype == DType::F32
        }
        _ => false,
    };
    let folds = |i: usize| l.folds.iter().any(|f| f.operand == i);
    let written_at_once = l.stores.iter().all(|s| l.operands[s.1].col == 1);
    let all = l.operands.iter().enumerate().all(|(i, o)| folds(i) || beside(o));
    all && written_at_once && l.cols.is_multiple_of(4)
}

/// Columns under outer indices, whose units begin at multiples of [`OWN_COLUMNS`].
fn columns_by_four(l: &Loop) -> bool {
    l.nest == Nest::Columns && !l.outer.is_empty() && lie_by_four(l)
}

/// Every thread takes some groups of four neighbours at a time, whose operands are loaded first.
fn fours(text: &mut Text, l: &Loop, place: &Place, stretch: &Stretch, whole: &[(usize, &Fold)]) {
    let Stretch { width, row, col, .. } = *stretch;
    let (quarter, loads) = (width / 4, loads(l));
    text.line("#pragma unroll 1");
    let step = format!("{FOURS_TOGETHER} * THREADS");
    text.block(format!("for (Index first = r0 * {quarter} + tid; first < r1 * {quarter}; first += {step})"), |text| {
        declare_fours(text, l, &loads, FOURS_TOGETHER);
        text.line("#pragma unroll");
        text.block(format!("for (int u = 0; u < {FOURS_TOGETHER}; u++)"), |text| {
            text.line(format!("const Index e = 4 * min(first + u * THREADS, r1 * {quarter} - 1);"));
            loads.iter().for_each(|n| text.line(format!("in{n}[u] = {};", load_four(l, *n, place, row, col))));
        });
        text.line("#pragma unroll");
        text.block(format!("for (int u = 0; u < {FOURS_TOGETHER}; u++)"), |text| {
            text.line(format!("if (first + u * THREADS >= r1 * {quarter}) break;"));
            text.line("const Index e = 4 * (first + u * THREADS);");
            four_results(text, l, place, (row, col), whole, &|i| format!("fold{i}"));
        });
    });
}

/// Groups of four whose loads are under way together, and loads where columns are folded.
const FOURS_TOGETHER: usize = 2;
const COLUMN_LOADS: usize = 8;

/// Operands that the program reads.
fn loads(l: &Loop) -> Vec<usize> {
    (0..l.operands.len()).filter(|n| l.program.instrs.contains(&Instr::Load(*n))).collect()
}

/// Where operands of some groups of four go.
fn declare_fours(text: &mut Text, l: &Loop, loads: &[usize], groups: usize) {
    for n in loads {
        let kind = if l.operands[*n].col == 0 { "float" } else { "Four" };
        text.line(format!("{kind} in{n}[{groups}];"));
    }
}

/// Four neighbours of an operand from (row, col) on, or the one element that they are.
fn load_four(l: &Loop, n: usize, place: &Place, row: &str, col: &str) -> String {
    let at = loaded(&l.operands[n], place.outer, row, col);
    if l.operands[n].col == 0 { at } else { format!("load4(&{at})") }
}

/// Results of group `u` of four neighbours, from (row, col) on. `fold(n)` is where fold `n` of neighbour `i` goes on.
fn four_results(
    text: &mut Text,
    l: &Loop,
    place: &Place,
    (row, col): (&str, &str),
    folds: &[(usize, &Fold)],
    fold: &dyn Fn(usize) -> String,
) {
    for (n, _) in l.stores.iter().enumerate() {
        text.line(format!("Four out{n};"));
    }
    text.line("#pragma unroll");
    text.block("for (int i = 0; i < 4; i++)", |text| {
        let load = |n: usize| if l.operands[n].col == 0 { format!("in{n}[u]") } else { format!("in{n}[u].v[i]") };
        render(text, &l.program, load, "", |_, _| String::new());
        for (n, (value, _)) in l.stores.iter().enumerate() {
            text.line(format!("out{n}.v[i] = v{value};"));
        }
        for (n, f) in folds {
            text.line(format!("{} = {};", fold(*n), joined(f.kind, &fold(*n), &format!("v{}", f.value))));
        }
    });
    for (n, (_, operand)) in l.stores.iter().enumerate() {
        text.line(format!("store4(&{}, out{n});", element(&l.operands[*operand], place.outer, row, col)));
    }
}

/// A warp takes a row at a time, or a few short ones. What they need is loaded first: loads do not wait for stores of others.
fn rows(text: &mut Text, l: &Loop, place: &Place) {
    let cols = l.cols;
    let pieces = cols.div_ceil(32).max(1);
    if pieces > MOST_PIECES {
        return long_rows(text, l, place);
    }
    let of_warp_rows = place.per_unit.div_ceil(place.threads / 32).max(1);
    let more = if place.alone { 2 } else { 1 };
    let together = (more * MOST_PIECES / pieces).min(more * MOST_ROWS).min(of_warp_rows);
    let loads = loads(l);
    text.line("#pragma unroll 1");
    text.block(format!("for (Index first = r0 + warp; first < r1; first += WARPS * {together})"), |text| {
        for n in &loads {
            let each = if l.operands[*n].col == 0 { 1 } else { pieces };
            text.line(format!("float in{n}[{together}][{each}];"));
        }
        text.line("#pragma unroll");
        text.block(format!("for (int r = 0; r < {together}; r++)"), |text| {
            text.line("const Index row = min(first + r * WARPS, r1 - 1);");
            for n in loads.iter().filter(|n| l.operands[**n].col == 0) {
                text.line(format!("in{n}[r][0] = {};", loaded(&l.operands[*n], place.outer, "row", "0")));
            }
            text.line("#pragma unroll");
            text.block(format!("for (int p = 0; p < {pieces}; p++)"), |text| {
                text.line(format!("const int col = min(p * 32 + lane, {});", cols.saturating_sub(1)));
                for n in loads.iter().filter(|n| l.operands[**n].col != 0) {
                    text.line(format!("in{n}[r][p] = {};", loaded(&l.operands[*n], place.outer, "row", "col")));
                }
            });
        });
        text.line("#pragma unroll");
        text.block(format!("for (int r = 0; r < {together}; r++)"), |text| {
            text.line("const Index row = first + r * WARPS;");
            text.line("if (row >= r1) break;");
            for (i, fold) in l.folds.iter().enumerate() {
                text.line(format!("float fold{i} = {};", identity(fold.kind)));
            }
            text.line("#pragma unroll");
            text.block(format!("for (int p = 0; p < {pieces}; p++)"), |text| {
                text.line(format!("const bool inside = p * 32 + lane < {cols};"));
                text.line(format!("const int col = inside ? p * 32 + lane : {};", cols.saturating_sub(1)));
                let load = |n: usize| match l.operands[n].col {
                    0 => format!("in{n}[r][0]"),
                    _ => format!("in{n}[r][p]"),
                };
                elements_of_row(text, l, place, &load);
            });
            ends_of_row(text, l, place);
        });
    });
}

/// Pieces of 32 elements that a warp has under way for each operand, and rows of them, at most.
const MOST_PIECES: usize = 8;
const MOST_ROWS: usize = 4;

fn long_rows(text: &mut Text, l: &Loop, place: &Place) {
    text.line("#pragma unroll 1");
    text.block("for (Index row = r0 + warp; row < r1; row += WARPS)", |text| {
        for (i, fold) in l.folds.iter().enumerate() {
            text.line(format!("float fold{i} = {};", identity(fold.kind)));
        }
        let cols = l.cols;
        text.line("#pragma unroll 4");
        text.block(format!("for (int c = lane; c < {}; c += 32)", cols.next_multiple_of(32)), |text| {
            text.line(format!("const bool inside = c < {cols};"));
            text.line(format!("const int col = inside ? c : {};", cols.saturating_sub(1)));
            elements_of_row(text, l, place, &|i| loaded(&l.operands[i], place.outer, "row", "col"));
        });
        ends_of_row(text, l, place);
    });
}

/// The program at (row, col), which counts if it is `inside`.
fn elements_of_row(text: &mut Text, l: &Loop, place: &Place, load: &dyn Fn(usize) -> String) {
    let fold = |kind: FoldKind, v: &str| of_warp(kind, &format!("inside ? {v} : {}", identity(kind)));
    render(text, &l.program, load, "", fold);
    if !l.stores.is_empty() {
        text.block("if (inside)", |text| {
            for (value, operand) in &l.stores {
                text.line(format!("{} = v{value};", element(&l.operands[*operand], place.outer, "row", "col")));
            }
        });
    }
    for (i, fold) in l.folds.iter().enumerate() {
        let next = joined(fold.kind, &format!("fold{i}"), &format!("v{}", fold.value));
        text.line(format!("if (inside) fold{i} = {next};"));
    }
}

fn ends_of_row(text: &mut Text, l: &Loop, place: &Place) {
    for (i, fold) in l.folds.iter().enumerate() {
        text.line(format!("fold{i} = {};", of_warp(fold.kind, &format!("fold{i}"))));
        let target = element(&l.operands[fold.operand], place.outer, "row", "0");
        text.line(format!("if (lane == 0) {target} = fold{i};"));
    }
}

/// As [`columns`], four neighbouring ones a thread.
fn four_columns(text: &mut Text, sync: &mut Sync, l: &Loop, place: &Place) {
    let side = OWN_COLUMNS / 4;
    let behind = place.threads / side;
    let folds: Vec<(usize, &Fold)> = l.folds.iter().enumerate().collect();
    text.line(format!("const int x = tid % {side}, y = tid / {side};"));
    text.line("const Index col = r0 + 4 * x;");
    for (i, fold) in &folds {
        let first = identity(fold.kind);
        text.line(format!("float fold{i}[4] = {{{first}, {first}, {first}, {first}}};"));
    }
    let loads = loads(l);
    let together = (COLUMN_LOADS / loads.len().max(1)).clamp(2, MOST_TOGETHER);
    text.line("if (col < r1)");
    text.line("#pragma unroll 1");
    text.block(format!("for (Index first = y; first < {}; first += {})", l.rows, together * behind), |text| {
        declare_fours(text, l, &loads, together);
        text.line("#pragma unroll");
        text.block(format!("for (int u = 0; u < {together}; u++)"), |text| {
            text.line(format!("const Index row = min(first + u * {behind}, (Index){});", l.rows.saturating_sub(1)));
            loads.iter().for_each(|n| text.line(format!("in{n}[u] = {};", load_four(l, *n, place, "row", "col"))));
        });
        text.line("#pragma unroll");
        text.block(format!("for (int u = 0; u < {together}; u++)"), |text| {
            text.line(format!("const Index row = first + u * {behind};"));
            text.line(format!("if (row >= {}) break;", l.rows));
            four_results(text, l, place, ("row", "col"), &folds, &|i| format!("fold{i}[i]"));
        });
    });
    sync.before_shared(text);
    for (i, _) in &folds {
        text.line("#pragma unroll");
        text.line(format!("for (int c = 0; c < 4; c++) shared[({i} * 4 + c) * THREADS + tid] = fold{i}[c];"));
    }
    sync.inside(text);
    text.block(format!("if (tid < {OWN_COLUMNS} && r0 + tid < r1)"), |text| {
        text.line("const Index col = r0 + tid;");
        for (i, fold) in &folds {
            text.line(format!("float x{i} = {};", identity(fold.kind)));
            let part = format!("shared[({i} * 4 + tid % 4) * THREADS + tid / 4 + j * {side}]");
            text.line(format!(
                "for (int j = 0; j < {behind}; j++) x{i} = {};",
                joined(fold.kind, &format!("x{i}"), &part)
            ));
            text.line(format!("{} = x{i};", element(&l.operands[fold.operand], place.outer, "0", "col")));
        }
    });
}

/// Threads side by side take columns; behind each other, rows of one column, whose parts are added up at the end. Here `r0..r1`
/// are columns.
fn columns(text: &mut Text, sync: &mut Sync, l: &Loop, place: &Place) {
    // threads side by side
    let side = if l.cols >= 32 { 32 } else { l.cols.next_power_of_two().max(1) };
    let behind = place.threads / side;
    text.block(format!("for (Index first = r0; first < r1; first += {side})"), |text| {
        text.line(format!("const int x = tid % {side}, y = tid / {side};"));
        text.line("const Index col = first + x;");
        for (i, fold) in l.folds.iter().enumerate() {
            text.line(format!("float fold{i} = {};", identity(fold.kind)));
        }
        text.line("if (col < r1)");
        text.line(if l.rows >= 64 * behind { "#pragma unroll 8" } else { "#pragma unroll 4" });
        text.block(format!("for (Index row = y; row < {}; row += {behind})", l.rows), |text| {
            render(text, &l.program, |i| loaded(&l.operands[i], place.outer, "row", "col"), "", |_, _| String::new());
            for (value, operand) in &l.stores {
                text.line(format!("{} = v{value};", element(&l.operands[*operand], place.outer, "row", "col")));
            }
            for (i, fold) in l.folds.iter().enumerate() {
                text.line(format!(
                    "fold{i} = {};",
                    joined(fold.kind, &format!("fold{i}"), &format!("v{}", fold.value))
                ));
            }
        });
        // the loop may come by again
        sync.always(text);
        for i in 0..l.folds.len() {
            text.line(format!("shared[{i} * THREADS + tid] = fold{i};"));
        }
        sync.inside(text);
        text.block("if (y == 0 && col < r1)", |text| {
            for (i, fold) in l.folds.iter().enumerate() {
                text.line(format!("float x{i} = {};", identity(fold.kind)));
                let next = joined(fold.kind, &format!("x{i}"), &format!("shared[{i} * THREADS + x + j * {side}]"));
                text.line(format!("for (int j = 0; j < {behind}; j++) x{i} = {next};"));
                text.line(format!("{} = x{i};", element(&l.operands[fold.operand], place.outer, "0", "col")));
            }
        });
    });
}
