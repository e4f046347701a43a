//! Columns of numbers to standardised rows of f32, as fast as memory allows, to the bit as [`Preparation`] does it.
//!
//! [`Preparation`]: crate::prepare::Preparation

use crate::prepare::PlainColumn;
use crate::table::Numbers;

/// Rows that are turned at a time: their inputs stay in the cache.
const TILE: usize = 64;
/// Columns that are turned at a time: their inputs fill a line of the cache.
const LANES: usize = 16;

/// Which columns hold the inputs.
pub(super) struct Plain {
    /// In the order of the file: each with the place of its first input in a row.
    inputs: Vec<(PlainColumn, usize)>,
    /// The columns, rising.
    pub places: Vec<usize>,
    /// The column of the target.
    pub target: usize,
    width: usize,
}

impl Plain {
    /// `inputs` in the order of the preparation.
    pub(super) fn new(inputs: Vec<PlainColumn>, target: usize) -> Plain {
        let mut width = 0;
        let mut inputs: Vec<(PlainColumn, usize)> = inputs
            .into_iter()
            .map(|column| {
                let first = width;
                width += 1 + column.missing as usize;
                (column, first)
            })
            .collect();
        inputs.sort_by_key(|(column, _)| column.place);
        let places = inputs.iter().map(|(column, _)| column.place).collect();
        Plain { inputs, places, target, width }
    }

    /// Writes the inputs of some rows, the `first` and those below it, a value of each column per row; how many, or
    /// `None` if a value is infinite or the columns do not fit.
    pub(super) fn write(&self, first: usize, numbers: &[Numbers<'_>], x: &mut [f32]) -> Option<usize> {
        let rows = numbers.first().map(rows_of)?;
        let x = x.get_mut(first.checked_mul(self.width)?..first.checked_add(rows)?.checked_mul(self.width)?)?;
        let fit = numbers.len() == self.inputs.len() && numbers.iter().all(|values| rows_of(values) == rows);
        let fine = fit && pulp::Arch::new().dispatch(Rows { plain: self, numbers, x });
        fine.then_some(rows)
    }
}

/// Rows to be written. Compiled for each kind of processor, so all it calls has to be inlined.
struct Rows<'a> {
    plain: &'a Plain,
    numbers: &'a [Numbers<'a>],
    x: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Rows<'_> {
    type Output = bool;

    #[inline(always)]
    fn call(self) -> bool {
        let Plain { inputs, width, .. } = self.plain;
        let mut fine = true;
        let mut lanes = [[0f32; TILE]; LANES];
        for (tile, rows) in self.x.chunks_mut(TILE * width).enumerate() {
            let from = tile * TILE;
            for (inputs, numbers) in inputs.chunks(LANES).zip(self.numbers.chunks(LANES)) {
                fine &= write_tile(inputs, numbers, from, rows, *width, &mut lanes);
            }
        }
        fine
    }
}

/// The inputs of a few columns in the rows of a tile.
#[inline(always)]
fn write_tile(
    inputs: &[(PlainColumn, usize)],
    numbers: &[Numbers<'_>],
    from: usize,
    rows: &mut [f32],
    width: usize,
    lanes: &mut [[f32; TILE]; LANES],
) -> bool {
    let to = from + rows.len() / width;
    let mut fine = true;
    for (((column, _), values), lane) in inputs.iter().zip(numbers).zip(lanes.iter_mut()) {
        fine &= match values {
            Numbers::F32(values) => standardise(column, &values[from..to], |v| v as f64, lane),
            Numbers::F64(values) => standardise(column, &values[from..to], |v| v, lane),
            Numbers::I32(values) => standardise(column, &values[from..to], |v| v as f64, lane),
            Numbers::I64(values) => standardise(column, &values[from..to], |v| v as f64, lane),
        };
    }
    // The usual case: each column one input, next to each other.
    let start = inputs.first().map_or(0, |(_, at)| *at);
    let adjacent = inputs.iter().zip(start..).all(|((column, at), place)| !column.missing && *at == place);
    if adjacent && inputs.len() == LANES {
        turn(lanes, rows, start, width);
        return fine;
    }
    for (((column, at), values), lane) in inputs.iter().zip(numbers).zip(lanes.iter()) {
        for (row, input) in rows.chunks_exact_mut(width).zip(lane) {
            row[*at] = *input;
        }
        if column.missing {
            for (row, place) in rows.chunks_exact_mut(width).zip(from..) {
                row[at + 1] = is_nan(values, place) as u8 as f32;
            }
        }
    }
    fine
}

/// Lanes to rows by way of pairs and fours of neighbouring lanes, so that little is moved one by one.
#[inline(always)]
fn turn(lanes: &[[f32; TILE]; LANES], rows: &mut [f32], start: usize, width: usize) {
    let mut fours = [[[0f32; 4]; TILE]; LANES / 4];
    for (fours, lanes) in fours.iter_mut().zip(lanes.chunks_exact(4)) {
        let (mut left, mut right) = ([[0f32; 2]; TILE], [[0f32; 2]; TILE]);
        for (pair, (a, b)) in left.iter_mut().zip(lanes[0].iter().zip(&lanes[1])) {
            *pair = [*a, *b];
        }
        for (pair, (a, b)) in right.iter_mut().zip(lanes[2].iter().zip(&lanes[3])) {
            *pair = [*a, *b];
        }
        for (four, (left, right)) in fours.iter_mut().zip(left.iter().zip(&right)) {
            *four = [left[0], left[1], right[0], right[1]];
        }
    }
    for (row, at) in rows.chunks_exact_mut(width).zip(0..TILE) {
        for (inputs, fours) in row[start..start + LANES].chunks_exact_mut(4).zip(&fours) {
            inputs.copy_from_slice(&fours[at]);
        }
    }
}

/// The inputs of some values, 0 where missing; `false` if a value is infinite.
#[inline(always)]
fn standardise<T: Copy>(column: &PlainColumn, values: &[T], wide: impl Fn(T) -> f64, inputs: &mut [f32; TILE]) -> bool {
    let (mean, std) = column.scale();
    let inverse = 1.0 / std;
    // A product instead of the quotient is a few units off in the last of 53 bits. That matters only where rounding to
    // 24 bits stands near a half, and where the result is too small for 24 bits or at the limit. Such a tile, or one
    // with a missing value, is done again, exactly.
    let mut doubtful = column.log || !inverse.is_normal() || !std.is_normal();
    if !doubtful {
        for (input, value) in inputs.iter_mut().zip(values) {
            let product = (wide(*value) - mean) * inverse;
            let plain = (product.abs() > 1e-37) & (product.abs() < PlainColumn::LIMIT);
            doubtful |= !plain | ((product.to_bits().wrapping_add(8)) & 0x1fff_fff0 == 0x1000_0000);
            *input = product as f32;
        }
    }
    let mut infinite = false;
    if doubtful {
        for (input, value) in inputs.iter_mut().zip(values) {
            let value = wide(*value);
            infinite |= value.is_infinite();
            *input = if value.is_nan() { 0.0 } else { column.input(value) };
        }
    }
    !infinite
}

fn is_nan(numbers: &Numbers<'_>, row: usize) -> bool {
    match numbers {
        Numbers::F32(values) => values[row].is_nan(),
        Numbers::F64(values) => values[row].is_nan(),
        Numbers::I32(_) | Numbers::I64(_) => false,
    }
}

fn rows_of(numbers: &Numbers<'_>) -> usize {
    match numbers {
        Numbers::F32(values) => values.len(),
        Numbers::F64(values) => values.len(),
        Numbers::I32(values) => values.len(),
        Numbers::I64(values) => values.len(),
    }
}
