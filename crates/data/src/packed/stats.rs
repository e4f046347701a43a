//! What the values of a field look like, gathered block by block while they are written.

use serde::{Deserialize, Serialize};

use crate::schema::{Field, Schema};
use crate::slot::FieldRef;

/// Fields with more values in a row have statistics of all their values only.
pub const MOST_COLUMNS: usize = 4096;

/// Statistics of a field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldStats {
    pub field: String,
    /// Of all values of the field.
    pub all: ColumnStats,
    /// Of each value of a row; empty where a row has more than [`MOST_COLUMNS`].
    pub columns: Vec<ColumnStats>,
    /// Rows of each class, for a field that has classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<u64>,
    /// Values of a field with classes that are none of them.
    #[serde(default)]
    pub unknown: u64,
}

/// Statistics of some values. Only finite ones enter; without any, the extremes, the mean and the deviation are 0.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ColumnStats {
    /// Finite values.
    pub count: u64,
    /// NaN.
    pub missing: u64,
    pub infinite: u64,
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    /// Over all values, not over a sample of them: divided by `count`.
    pub deviation: f64,
}

/// The statistics of all fields, while they grow.
pub(super) struct Gatherer {
    fields: Vec<Growing>,
}

struct Growing {
    field: Field,
    columns: Vec<Sums>,
    classes: Vec<u64>,
    unknown: u64,
}

/// Chan's: the sum, and the sum of squared distances from the mean, which merge without loss of digits.
#[derive(Debug, Clone, Copy)]
struct Sums {
    count: u64,
    missing: u64,
    infinite: u64,
    min: f64,
    max: f64,
    sum: f64,
    squares: f64,
}

const NOTHING: Sums =
    Sums { count: 0, missing: 0, infinite: 0, min: f64::INFINITY, max: f64::NEG_INFINITY, sum: 0.0, squares: 0.0 };

impl Gatherer {
    pub fn new(schema: &Schema) -> Gatherer {
        let growing = |field: &Field| Growing {
            columns: vec![NOTHING; if field.width() <= MOST_COLUMNS { field.width() } else { 1 }],
            classes: vec![0; field.labels.len()],
            unknown: 0,
            field: field.clone(),
        };
        Gatherer { fields: schema.fields.iter().map(growing).collect() }
    }

    /// Takes in the rows of a block.
    pub fn add(&mut self, fields: &[FieldRef<'_>]) {
        for (growing, values) in self.fields.iter_mut().zip(fields) {
            match values {
                FieldRef::U8(values) => add_values(&mut growing.columns, values),
                FieldRef::I32(values) => add_values(&mut growing.columns, values),
                FieldRef::F32(values) => add_values(&mut growing.columns, values),
            }
            if let (FieldRef::I32(values), false) = (values, growing.classes.is_empty()) {
                for value in *values {
                    match usize::try_from(*value).ok().and_then(|class| growing.classes.get_mut(class)) {
                        Some(count) => *count += 1,
                        None => growing.unknown += 1,
                    }
                }
            }
        }
    }

    pub fn finish(self) -> Vec<FieldStats> {
        let finish = |growing: Growing| {
            let all = growing.columns.iter().fold(NOTHING, |all, column| all.merge(column));
            let apart = growing.columns.len() == growing.field.width();
            FieldStats {
                field: growing.field.name,
                all: all.finish(),
                columns: growing.columns.iter().filter(|_| apart).map(Sums::finish).collect(),
                classes: growing.classes,
                unknown: growing.unknown,
            }
        };
        self.fields.into_iter().map(finish).collect()
    }
}

impl Sums {
    fn merge(&self, other: &Sums) -> Sums {
        let (n, m) = (self.count as f64, other.count as f64);
        let step = other.mean() - self.mean();
        Sums {
            count: self.count + other.count,
            missing: self.missing + other.missing,
            infinite: self.infinite + other.infinite,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            sum: self.sum + other.sum,
            squares: self.squares + other.squares + step * step * (n * m / (n + m).max(1.0)),
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    fn finish(&self) -> ColumnStats {
        let some = |value: f64| if self.count > 0 { value } else { 0.0 };
        ColumnStats {
            count: self.count,
            missing: self.missing,
            infinite: self.infinite,
            min: some(self.min),
            max: some(self.max),
            mean: self.mean(),
            deviation: some((self.squares / self.count.max(1) as f64).sqrt()),
        }
    }
}

trait Number: Copy {
    fn number(self) -> f64;
}

impl Number for u8 {
    fn number(self) -> f64 {
        self as f64
    }
}

impl Number for i32 {
    fn number(self) -> f64 {
        self as f64
    }
}

impl Number for f32 {
    fn number(self) -> f64 {
        self as f64
    }
}

/// Lanes that are summed side by side where all values belong to one column.
const LANES: usize = 64;

/// Adds rows of values, `columns.len()` in each; a single column takes all. Two passes: the values are in the cache.
fn add_values<T: Number>(columns: &mut [Sums], values: &[T]) {
    let lanes = match columns.len() {
        0 => return,
        1 => LANES,
        columns => columns,
    };
    let (mut sum, mut squares) = (vec![0f64; lanes], vec![0f64; lanes]);
    let (mut min, mut max) = (vec![f64::INFINITY; lanes], vec![f64::NEG_INFINITY; lanes]);
    let (mut count, mut missing) = (vec![0u64; lanes], vec![0u64; lanes]);
    for row in values.chunks(lanes) {
        let n = row.len();
        let (sum, min, max) = (&mut sum[..n], &mut min[..n], &mut max[..n]);
        let (count, missing) = (&mut count[..n], &mut missing[..n]);
        for (i, value) in row.iter().enumerate() {
            let value = value.number();
            let finite = value.is_finite();
            sum[i] += if finite { value } else { 0.0 };
            min[i] = if finite && value < min[i] { value } else { min[i] };
            max[i] = if finite && value > max[i] { value } else { max[i] };
            count[i] += finite as u64;
            missing[i] += value.is_nan() as u64;
        }
    }
    let mean: Vec<f64> = sum.iter().zip(&count).map(|(sum, count)| sum / (*count).max(1) as f64).collect();
    for row in values.chunks(lanes) {
        let n = row.len();
        let (squares, mean) = (&mut squares[..n], &mean[..n]);
        for (i, value) in row.iter().enumerate() {
            let value = value.number();
            let distance = if value.is_finite() { value - mean[i] } else { 0.0 };
            squares[i] += distance * distance;
        }
    }
    for lane in 0..lanes {
        let rows = values.len() / lanes + (lane < values.len() % lanes) as usize;
        let sums = Sums {
            count: count[lane],
            missing: missing[lane],
            infinite: rows as u64 - count[lane] - missing[lane],
            min: min[lane],
            max: max[lane],
            sum: sum[lane],
            squares: squares[lane],
        };
        let column = &mut columns[if lanes == LANES && columns.len() == 1 { 0 } else { lane }];
        *column = column.merge(&sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Kind;

    fn stats(field: Field, blocks: &[FieldRef<'_>]) -> FieldStats {
        let mut gatherer = Gatherer::new(&Schema::new(vec![field]).unwrap());
        blocks.iter().for_each(|block| gatherer.add(&[*block]));
        gatherer.finish().remove(0)
    }

    #[test]
    fn columns_are_told_apart_and_merged() {
        let blocks = [
            FieldRef::F32(&[1.0, 10.0, f32::NAN, f32::INFINITY, 3.0, 20.0]),
            FieldRef::F32(&[5.0, 30.0, 7.0, f32::NEG_INFINITY]),
        ];
        let got = stats(Field::new("x", Kind::F32, &[2]), &blocks);
        let (a, b) = (got.columns[0], got.columns[1]);
        assert_eq!((a.count, a.missing, a.infinite, a.min, a.max, a.mean), (4, 1, 0, 1.0, 7.0, 4.0));
        assert!((a.deviation - 5f64.sqrt()).abs() < 1e-12);
        assert_eq!((b.count, b.missing, b.infinite, b.min, b.max, b.mean), (3, 0, 2, 10.0, 30.0, 20.0));
        assert_eq!((got.all.count, got.all.missing, got.all.infinite, got.all.max), (7, 1, 2, 30.0));
        assert!((got.all.mean - 76.0 / 7.0).abs() < 1e-12);
    }

    #[test]
    fn digits_far_from_zero_are_kept() {
        let values: Vec<i32> = (0..100_001).map(|i| 2_000_000_000 + i % 2).collect();
        let got = stats(Field::new("x", Kind::I32, &[]), &[FieldRef::I32(&values[..7]), FieldRef::I32(&values[7..])]);
        assert!((got.all.deviation - 0.5).abs() < 1e-6, "{got:?}");
        assert_eq!(got.columns, [got.all]);
    }

    #[test]
    fn wide_rows_have_one_summary() {
        let values = vec![3u8; (MOST_COLUMNS + 1) * 2];
        let got = stats(Field::new("x", Kind::U8, &[MOST_COLUMNS + 1]), &[FieldRef::U8(&values)]);
        assert!(got.columns.is_empty());
        assert_eq!((got.all.count, got.all.mean, got.all.deviation), (values.len() as u64, 3.0, 0.0));
    }

    #[test]
    fn classes_are_counted() {
        let field = Field::classes("y", vec!["a".into(), "b".into()]);
        let got = stats(field, &[FieldRef::I32(&[0, 1, 1, -1, 2])]);
        assert_eq!((got.classes, got.unknown), (vec![1, 2], 2));
        let empty = stats(Field::new("y", Kind::F32, &[]), &[]);
        assert_eq!(empty.all, ColumnStats::default());
    }
}
