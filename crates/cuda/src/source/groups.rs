//! Hopper's matrix units read both sides from shared memory, for four warps at once (`wgmma`): 64 rows by up to 256 columns, sixteen
//! terms at a time, or eight that are words. Rows there are 128 bytes, eight of them a group whose sixteen-byte pieces change places by
//! row, so that neither writing nor reading meets in one bank.
//!
//! Words have to lie along `k` there, and what the units do not read of them is cut off. So they go through registers, where they are
//! rounded, and turned where they lie across `k`; a stage is loaded while the one before is multiplied.

use super::tensor::{Lies, TensorTile};
use super::text::Text;
use crate::precision::Precision;

/// Bytes of a row: 64 terms of a row or column, or 32 words, or a term of 64 rows or columns.
pub const ROW: usize = 128;

/// Bytes of a row that an instruction multiplies: sixteen terms, or eight that are words.
const TERMS: usize = 32;

/// Rows and columns of a warp's part of a tile, and how to find its first ones: each of two groups of warps has half of the rows, or where
/// there are only 64 half of the columns.
pub fn warps(rows: usize, cols: usize) -> (usize, usize, String) {
    match rows {
        64 => (16, cols / 2, format!("const int wm = warp % 4 * 16, wn = warp / 4 * {};", cols / 2)),
        _ => (16, cols, "const int wm = warp * 16, wn = 0;".to_owned()),
    }
}

/// Where piece `q` of a side goes in its stage; `beside` of them lie side by side in memory.
pub fn place(q: &str, beside: usize, lies: Lies) -> String {
    match lies {
        // rows of the tile, each with its 64 terms
        Lies::AlongK => format!("{q} / 8 * {ROW} + ({q} % 8 ^ {q} / 8 % 8) * 16"),
        // blocks of 64 rows or columns of the tile, each with a row for a term
        Lies::Across => {
            format!("{q} % {beside} / 8 * {} + {q} / {beside} * {ROW} + ({q} % 8 ^ {q} / {beside} % 8) * 16", 64 * ROW)
        }
    }
}

/// Rows or columns of a side whose words are turned: each thread has a block of four by four.
pub const TURNED: usize = 128;

/// Where piece `j` of a thread's block lies in a stage whose words lie across `k`: of the extent, and of `k`. Eight lanes have a line of
/// memory.
pub fn turned_piece(j: usize) -> (String, String) {
    ("warp % 4 * 32 + lane % 8 * 4".to_owned(), format!("(lane / 8 + warp / 4 * 4) * 4 + {j}"))
}

/// Where the four terms of row or column `i` of a block go in their stage, counted from the one that the lane begins with: so eight
/// lanes write to different banks.
pub fn turned_place(i: usize) -> String {
    let row = format!("(warp % 4 * 32 + lane % 8 * 4 + ({i} + {BEGINS}) % 4)");
    format!("{row} * {ROW} + ((lane / 8 + warp / 4 * 4) ^ {row} % 8) * 16")
}

/// The row or column of its block that a lane writes first.
const BEGINS: &str = "lane / 2 % 4";

/// The words of a piece in the order in which the lane writes them.
pub fn in_order_of_lane(piece: &str) -> String {
    format!("words_from({piece}, {BEGINS})")
}

/// Starts the products of the stage that begins `at`.
pub fn multiply(text: &mut Text, tile: &TensorTile, (left, right): (Lies, Lies), of_left: usize, strips: usize) {
    // of the 64 rows of the group, and of its columns
    let first = |lies: Lies, at: &str| match lies {
        Lies::AlongK => format!("({at}) * {ROW}"),
        Lies::Across => format!("({at}) / 64 * {} + ({at}) % 64 * 2", 64 * ROW),
    };
    let halves = tile.precision.is_half();
    let (terms, kind) = match tile.precision {
        Precision::Fp16 => (16, "f16"),
        Precision::Bf16 => (16, "bf16"),
        Precision::Tf32 | Precision::Fp32 => (8, "tf32"),
    };
    let step = |lies: Lies| match lies {
        Lies::AlongK => TERMS,
        Lies::Across => terms * ROW,
    };
    // words have to lie along `k`
    let turned = |lies: Lies| if halves { format!(", {}", (lies == Lies::Across) as u8) } else { String::new() };
    text.line(format!("const u64 left = group_side(at + {});", first(left, "wm / 64 * 64")));
    text.line(format!("const u64 right = group_side(at + {of_left} + {});", first(right, "wn")));
    text.line("groups_begin();");
    let sums: Vec<String> = (0..4 * strips).map(|i| format!("%{i}")).collect();
    let places: Vec<String> = (0..4 * strips).map(|i| format!("\"+f\"(acc[0][{}][{}])", i / 4, i % 4)).collect();
    for part in 0..tile.depth() / terms {
        text.line(format!(
            "asm volatile(\"{{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n{}k{terms}.f32.{kind}.{kind} {{{}}}, %{}, %{}, p, 1, 1{}{}; }}\" : {} : \"l\"(left + {}), \"l\"(right + {}));",
            8 * strips,
            sums.join(", "),
            4 * strips,
            4 * strips + 1,
            turned(left),
            turned(right),
            places.join(", "),
            part * step(left) / 16,
            part * step(right) / 16,
        ));
    }
    text.line("groups_end();");
}
