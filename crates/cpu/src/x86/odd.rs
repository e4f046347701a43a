//! One column more than half a vector: nine sums in sixteen lanes. Vectors of half the length take half the time on processors that
//! do a whole one in two halves, so eight columns go into such a vector, and the ninth is summed in lanes that are elements of
//! k, or rows, whichever lie side by side in A. It joins the others before the epilogue.

use citius_plan::Matmul;

use super::asm::Gpr::*;
use super::asm::*;
use super::matmul::LANES;
use super::nonzeros::Side;

/// What the lanes of the odd column's sums are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Odd {
    /// Elements of the sum over k. The column is copied together before the first tile.
    AlongK,
    /// Rows of the tile.
    AlongRows,
}

/// Numbers in front of the copied column: the sums of a tile's rows.
pub const SUMS: usize = LANES;
/// Longest column that is copied.
pub const LONGEST: usize = 16 * LANES;
/// Rows of a tile, which have a lane each.
pub const MOST_ROWS: usize = LANES;
/// Larger products may be computed in other ways too (`kernels/skipping.rs`), which take each sum in the order of k.
const SMALL: usize = 1 << 20;
/// Masks: the last, partial vector of k; the lane of the odd column; the rows of a tile.
const K_TAIL: u8 = 3;
const LANE: u8 = 4;
const ROWS: u8 = 5;

impl Odd {
    /// How the last of these columns is summed, if apart.
    pub fn of(work: &Matmul, in_place: Option<Side>, cols: usize) -> Option<Odd> {
        let plain = work.deep.is_empty() && work.m * work.n * work.k <= SMALL;
        if cols % LANES != LANES / 2 + 1 || !plain {
            return None;
        }
        let odd = match in_place {
            Some(Side::Rows) => Odd::AlongK,
            Some(Side::Columns) => Odd::AlongRows,
            None if work.a.row == 1 => Odd::AlongRows,
            None if work.a.col == 1 => Odd::AlongK,
            None => return None,
        };
        let worth_copying = (2 * LANES..=LONGEST).contains(&work.k);
        (odd == Odd::AlongRows || worth_copying).then_some(odd)
    }

    pub fn set_masks(self, asm: &mut Asm, work: &Matmul, rows: usize) {
        for (mask, bits) in [(K_TAIL, (1 << (work.k % LANES)) - 1), (LANE, 1 << (LANES / 2)), (ROWS, (1 << rows) - 1)] {
            asm.set(Rax, bits);
            asm.mask_from(mask, Rax);
        }
    }

    /// Sums along k, written where `sums` is; `a` says where element `k` of row `i` is. Overwrites `rax` and vectors 0–17.
    pub fn sum_along_k(asm: &mut Asm, work: &Matmul, rows: usize, sums: Mem, a: impl Fn(usize, usize) -> Mem) {
        let (b, x) = (16u8, 17u8);
        (0..LANES as u8).for_each(|r| asm.zero(r));
        asm.load_gpr(Rax, sums);
        let column = |k: usize| Mem::at(Rax, 4 * (SUMS + k) as i32);
        let whole = work.k / LANES * LANES;
        for k in (0..whole).step_by(LANES) {
            asm.load(b, column(k), 0);
            (0..rows).for_each(|i| asm.three(FMA231, i as u8, b, Rm::Mem(a(i, k))));
        }
        if whole < work.k {
            asm.load(b, column(whole), K_TAIL);
            for i in 0..rows {
                asm.load(x, a(i, whole), K_TAIL);
                asm.three(FMA231, i as u8, b, Rm::Zmm(x));
            }
        }
        asm.sum_each_of_sixteen(x);
        asm.store(Mem::at(Rax, 0), 0, 0);
    }

    /// A step of k: `sums += a·b`, of all rows.
    pub fn step_along_rows(asm: &mut Asm, sums: u8, a: Mem, b: Mem, temp: u8) {
        asm.spread(temp, Rm::Spread(b));
        asm.three_masked(FMA231, sums, temp, Rm::Mem(a), ROWS);
    }

    /// The sum of a row, from where `rax` points, into its lane of the row's last vector.
    pub fn join(asm: &mut Asm, row: usize, vector: u8) {
        asm.spread_masked(vector, Mem::at(Rax, 4 * row as i32), LANE);
    }
}
