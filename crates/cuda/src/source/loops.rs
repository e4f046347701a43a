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
    /// Where the parts of folds shared by units go: fold → expression of an element.
    pub parts: &'a dyn Fn(usize) -> String,
}

/// Floats of shared memory that it needs.
pub fn shared(l: &Loop, threads: usize) -> usize {
    match l.nest {
        Nest::Columns => threads * l.folds.len(),
        Nest::Rows => l.folds.iter().filter(|f| f.whole).count() * threads / 32,
    }
}

pub fn emit(text: &mut Text, sync: &mut Sync, l: &Loop, place: &Place) {
    match l.nest {
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

/// Every thread takes one element at a time.
fn ones(text: &mut Text, l: &Loop, place: &Place, stretch: &Stretch, whole: &[(usize, &Fold)]) {
    let Stretch { width, row, col, warps } = *stretch;
    // twice is enough to have loads under way, and more is only more to compile
    let turns = (place.per_unit * width).div_ceil(warps * 32);
    text.line(format!("#pragma unroll {}", turns.clamp(1, 2)));
    let head = format!("for (Index e = r0 * {width} + tid; e < r1 * {width}; e += {})", warps * 32);
    text.block(head, |text| {
        render(text, &l.program, |i| loaded(&l.operands[i], place.outer, row, col), "", |_, _| String::new());
        for (value, operand) in &l.stores {
            text.line(format!("{} = v{value};", element(&l.operands[*operand], place.outer, row, col)));
        }
        for (i, fold) in whole {
            text.line(format!("fold{i} = {};", joined(fold.kind, &format!("fold{i}"), &format!("v{}", fold.value))));
        }
    });
}

/// A unit is large, and four neighbours lie beside each other in every operand or are one element.
fn can_be_fours(l: &Loop, width: usize, place: &Place) -> bool {
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
    all && written_at_once
        && width.is_multiple_of(4)
        && l.cols.is_multiple_of(4)
        && place.per_unit * width >= 8 * place.threads
}

/// Every thread takes four neighbours at a time.
fn fours(text: &mut Text, l: &Loop, place: &Place, stretch: &Stretch, whole: &[(usize, &Fold)]) {
    let Stretch { width, row, col, .. } = *stretch;
    let quarter = width / 4;
    text.block(format!("for (Index q = r0 * {quarter} + tid; q < r1 * {quarter}; q += THREADS)"), |text| {
        text.line("const Index e = 4 * q;");
        let loads: Vec<usize> =
            l.program.instrs.iter().filter_map(|i| if let Instr::Load(n) = i { Some(*n) } else { None }).collect();
        for n in (0..l.operands.len()).filter(|n| loads.contains(n)) {
            let at = loaded(&l.operands[n], place.outer, row, col);
            match l.operands[n].col {
                0 => text.line(format!("const float in{n} = {at};")),
                _ => text.line(format!("const Four in{n} = load4(&{at});")),
            }
        }
        for (n, _) in l.stores.iter().enumerate() {
            text.line(format!("Four out{n};"));
        }
        text.line("#pragma unroll");
        text.block("for (int i = 0; i < 4; i++)", |text| {
            let load = |n: usize| if l.operands[n].col == 0 { format!("in{n}") } else { format!("in{n}.v[i]") };
            render(text, &l.program, load, "", |_, _| String::new());
            for (n, (value, _)) in l.stores.iter().enumerate() {
                text.line(format!("out{n}.v[i] = v{value};"));
            }
            for (i, fold) in whole {
                text.line(format!(
                    "fold{i} = {};",
                    joined(fold.kind, &format!("fold{i}"), &format!("v{}", fold.value))
                ));
            }
        });
        for (n, (_, operand)) in l.stores.iter().enumerate() {
            text.line(format!("store4(&{}, out{n});", element(&l.operands[*operand], place.outer, row, col)));
        }
    });
}

/// A warp takes a row at a time.
fn rows(text: &mut Text, l: &Loop, place: &Place) {
    text.line("#pragma unroll 1");
    text.block("for (Index row = r0 + warp; row < r1; row += WARPS)", |text| {
        for (i, fold) in l.folds.iter().enumerate() {
            text.line(format!("float fold{i} = {};", identity(fold.kind)));
        }
        let cols = l.cols;
        text.line(if cols > 256 { "#pragma unroll 4" } else { "#pragma unroll 1" });
        text.block(format!("for (int c = lane; c < {}; c += 32)", cols.next_multiple_of(32)), |text| {
            text.line(format!("const bool inside = c < {cols};"));
            text.line(format!("const int col = inside ? c : {};", cols.saturating_sub(1)));
            let fold = |kind: FoldKind, v: &str| of_warp(kind, &format!("inside ? {v} : {}", identity(kind)));
            render(text, &l.program, |i| loaded(&l.operands[i], place.outer, "row", "col"), "", fold);
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
        });
        for (i, fold) in l.folds.iter().enumerate() {
            text.line(format!("fold{i} = {};", of_warp(fold.kind, &format!("fold{i}"))));
            let target = element(&l.operands[fold.operand], place.outer, "row", "0");
            text.line(format!("if (lane == 0) {target} = fold{i};"));
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
