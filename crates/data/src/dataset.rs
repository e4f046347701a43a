//! The in-memory data set a trainer gathers batches from: row-major features beside their targets.

use crate::error::DataError;

/// Rows of features with their targets.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Number of rows.
    pub rows: usize,
    /// Inputs, `[rows, width]`.
    pub features: Features,
    /// What to predict, `[rows, …]`.
    pub target: Target,
}

/// Inputs in row-major order, in the type they are kept in.
#[derive(Debug, Clone, PartialEq)]
pub enum Features {
    /// Ready values.
    F32 { data: Vec<f32>, width: usize },
    /// Bytes, a quarter of the memory traffic: value = byte · scale + shift.
    U8 { data: Vec<u8>, width: usize, scale: f32, shift: f32 },
    /// Numbers of tokens, for an embedding to look up.
    I32 { data: Vec<i32>, width: usize },
}

/// Targets in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// Numbers; a binary task has width 1 and the values 0 and 1.
    Values { data: Vec<f32>, width: usize },
    /// Class numbers in `0..classes`.
    Classes { data: Vec<i32>, classes: usize },
    /// A class number in `0..classes` for each of `length` places of a row, such as the tokens that come next.
    Sequence { data: Vec<i32>, length: usize, classes: usize },
}

impl Target {
    /// The targets of some rows and of further ones; of one kind and form, or the first alone.
    pub fn joined(first: Option<Target>, more: Option<Target>) -> Option<Target> {
        let (mut all, more) = match (first, more) {
            (Some(all), Some(more)) => (all, more),
            (first, more) => return first.or(more),
        };
        match (&mut all, more) {
            (Target::Values { data, .. }, Target::Values { data: more, .. }) => data.extend(more),
            (Target::Classes { data, .. }, Target::Classes { data: more, .. })
            | (Target::Sequence { data, .. }, Target::Sequence { data: more, .. }) => data.extend(more),
            _ => {}
        }
        Some(all)
    }
}

impl Dataset {
    /// A data set whose parts agree: lengths, and class numbers in range.
    pub fn new(rows: usize, features: Features, target: Target) -> Result<Dataset, DataError> {
        let dataset = Dataset { rows, features, target };
        dataset.check()?;
        Ok(dataset)
    }

    /// Values per row of features.
    pub fn width(&self) -> usize {
        self.features.width()
    }

    /// Values per row the model has to give, or per place of a row: the width of the target, or its number of classes.
    pub fn outputs(&self) -> usize {
        match &self.target {
            Target::Values { width, .. } => *width,
            Target::Classes { classes, .. } | Target::Sequence { classes, .. } => *classes,
        }
    }

    /// The given rows, in the given order. Numbers beyond the last row are left out.
    pub fn select(&self, rows: &[u32]) -> Dataset {
        let rows: Vec<usize> = rows.iter().map(|row| *row as usize).filter(|row| *row < self.rows).collect();
        let features = match &self.features {
            Features::F32 { data, width } => Features::F32 { data: gather(data, *width, &rows), width: *width },
            Features::U8 { data, width, scale, shift } => {
                Features::U8 { data: gather(data, *width, &rows), width: *width, scale: *scale, shift: *shift }
            }
            Features::I32 { data, width } => Features::I32 { data: gather(data, *width, &rows), width: *width },
        };
        let target = match &self.target {
            Target::Values { data, width } => Target::Values { data: gather(data, *width, &rows), width: *width },
            Target::Classes { data, classes } => Target::Classes { data: gather(data, 1, &rows), classes: *classes },
            Target::Sequence { data, length, classes } => {
                Target::Sequence { data: gather(data, *length, &rows), length: *length, classes: *classes }
            }
        };
        Dataset { rows: rows.len(), features, target }
    }

    /// Lengths agree and classes are in range.
    pub fn check(&self) -> Result<(), DataError> {
        let features = match &self.features {
            Features::F32 { data, width } => (data.len(), *width),
            Features::U8 { data, width, .. } => (data.len(), *width),
            Features::I32 { data, width } => (data.len(), *width),
        };
        let target = match &self.target {
            Target::Values { data, width } => (data.len(), *width),
            Target::Classes { data, .. } => (data.len(), 1),
            Target::Sequence { data, length, .. } => (data.len(), *length),
        };
        for (what, (len, width)) in [("features", features), ("target", target)] {
            if self.rows.checked_mul(width) != Some(len) {
                return Err(DataError::Inconsistent(format!(
                    "{what}: {len} values are not {} rows of {width}",
                    self.rows
                )));
            }
        }
        let (data, width, classes) = match &self.target {
            Target::Values { .. } => return Ok(()),
            Target::Classes { data, classes } => (data, 1, *classes),
            Target::Sequence { data, length, classes } => (data, *length, *classes),
        };
        if let Some(at) = data.iter().position(|c| usize::try_from(*c).map_or(true, |c| c >= classes)) {
            let (row, class) = (at / width.max(1) + 1, data[at]);
            return Err(DataError::Inconsistent(format!("row {row}: class {class} is not one of 0..{classes}")));
        }
        Ok(())
    }
}

impl Features {
    /// Values per row.
    pub fn width(&self) -> usize {
        match self {
            Features::F32 { width, .. } | Features::U8 { width, .. } | Features::I32 { width, .. } => *width,
        }
    }

    /// Whole rows; none of them where a row has no values.
    pub fn rows(&self) -> usize {
        let values = match self {
            Features::F32 { data, .. } => data.len(),
            Features::U8 { data, .. } => data.len(),
            Features::I32 { data, .. } => data.len(),
        };
        values.checked_div(self.width()).unwrap_or(0)
    }

    /// Leaves rows out at the end, or adds rows of zeros.
    pub fn resize(&mut self, rows: usize) {
        match self {
            Features::F32 { data, width } => data.resize(rows * *width, 0.0),
            Features::U8 { data, width, .. } => data.resize(rows * *width, 0),
            Features::I32 { data, width } => data.resize(rows * *width, 0),
        }
    }
}

fn gather<T: Copy>(data: &[T], width: usize, rows: &[usize]) -> Vec<T> {
    let mut out = Vec::with_capacity(rows.len() * width);
    for row in rows {
        if let Some(values) = data.get(row * width..(row + 1) * width) {
            out.extend_from_slice(values);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Dataset {
        Dataset::new(
            3,
            Features::F32 { data: vec![0., 1., 2., 3., 4., 5.], width: 2 },
            Target::Classes { data: vec![0, 1, 2], classes: 3 },
        )
        .unwrap()
    }

    #[test]
    fn select_gathers_in_order() {
        let picked = sample().select(&[2, 0, 9]);
        assert_eq!(picked.rows, 2);
        assert_eq!(picked.features, Features::F32 { data: vec![4., 5., 0., 1.], width: 2 });
        assert_eq!(picked.target, Target::Classes { data: vec![2, 0], classes: 3 });
        assert_eq!((picked.width(), picked.outputs()), (2, 3));
    }

    #[test]
    fn tokens_stay_whole_numbers() {
        let target = Target::Values { data: vec![0., 1., 2.], width: 1 };
        let tokens = Dataset::new(3, Features::I32 { data: vec![7, 8, 9, 10, 11, 12], width: 2 }, target).unwrap();
        assert_eq!(tokens.select(&[1]).features, Features::I32 { data: vec![9, 10], width: 2 });
        assert_eq!(tokens.width(), 2);
        let next = Target::Sequence { data: vec![8, 9, 10, 11, 12, 7], length: 2, classes: 13 };
        let text = Dataset::new(3, tokens.features, next).unwrap();
        assert_eq!(text.select(&[2]).target, Target::Sequence { data: vec![12, 7], length: 2, classes: 13 });
        assert_eq!(text.outputs(), 13);
        let beyond = Target::Sequence { data: vec![8, 9, 10, 11, 13, 7], length: 2, classes: 13 };
        assert!(Dataset::new(3, text.features, beyond).unwrap_err().to_string().contains("row 3: class 13"));
    }

    #[test]
    fn disagreements_are_refused() {
        let mut wrong = sample();
        wrong.rows = 4;
        assert!(wrong.check().is_err());
        let mut wrong = sample();
        wrong.target = Target::Classes { data: vec![0, 1, 3], classes: 3 };
        assert!(wrong.check().unwrap_err().to_string().contains("row 3"));
    }
}
