//! A side of a product on its way into shared memory, sixteen bytes at a time, or element by element where no sixteen lie beside
//! each other.

use citius_plan::Matmul;

use super::groups;
use super::tensor::{Lies, PIECES, ROW, THREADS, TensorTile, bytes, piece};
use super::text::Text;

/// Every stage is part of one row of terms, or several whole ones, of several whole deeper ones, and so on: where it begins and where a
/// piece lies in it can be told apart.
pub fn walks_evenly(m: &Matmul, depth: usize) -> bool {
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
pub enum Walk {
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
pub struct Side {
    pub name: &'static str,
    pub memory: &'static str,
    pub lies: Lies,
    /// Rows or columns of the tile.
    pub extent: usize,
    pub first: &'static str,
    /// Of all tiles.
    pub end: usize,
    /// In a stage.
    pub at: usize,
    pub walk: Walk,
}

impl Side {
    /// Of a thread in each stage.
    pub fn pieces(&self) -> usize {
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
    pub fn places(
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
    pub fn store(&self, text: &mut Text, tile: &TensorTile) {
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
    pub fn bring(
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
