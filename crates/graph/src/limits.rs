//! What is known while tracing of the whole numbers that an input will hold: tokens below the size of a vocabulary, classes below
//! their number. Data is checked against it where it is bound, before the first step.

use std::ops::Range;

use crate::error::Place;
use crate::{DType, Graph, LeafKind, Op, Tensor};

/// Numbers of an input that must be at least 0 and below a bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limit {
    /// Name of the input.
    pub input: String,
    /// What a number stands for: `token`.
    pub what: &'static str,
    pub below: usize,
    /// Numbers in a row of the input.
    pub width: usize,
    /// Those of a row that are meant.
    pub columns: Range<usize>,
    /// The layer that needs it.
    pub place: Place,
}

/// A number that is outside.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{what} {value} in row {row}, place {column} of \"{}\" is outside 0 to {} of {}: give the layer as many as there are, or look at \
     how the data was encoded",
    limit.input, limit.below.saturating_sub(1), limit.place, what = limit.what
)]
pub struct OutOfRange {
    pub value: i32,
    pub row: usize,
    pub column: usize,
    pub limit: Box<Limit>,
}

impl Limit {
    /// The first number of the input's data that is outside.
    pub fn check(&self, values: &[i32]) -> Result<(), OutOfRange> {
        // negative numbers are the largest of all
        let largest = |values: &[i32]| values.iter().fold(0u32, |most, &value| most.max(value as u32)) as usize;
        if values.is_empty() || largest(values) < self.below {
            return Ok(());
        }
        for (row, all) in values.chunks(self.width.max(1)).enumerate() {
            let end = self.columns.end.min(all.len());
            let own = all.get(self.columns.start..end).unwrap_or_default();
            if let Some(at) = own.iter().position(|&value| value as u32 as usize >= self.below) {
                return Err(OutOfRange {
                    value: own[at],
                    row,
                    column: self.columns.start + at,
                    limit: Box::new(self.clone()),
                });
            }
        }
        Ok(())
    }
}

impl Graph {
    /// The numbers of `indices` must be at least 0 and below `below`. Where they are an input's, it is known of the input from now on.
    #[track_caller]
    pub fn limit(&self, indices: &Tensor, what: &'static str, below: usize) {
        let place = self.place_here();
        let mut inner = self.0.borrow_mut();
        let (mut at, mut columns) = (indices.id(), None);
        let leaf = loop {
            let node = &inner.nodes[at];
            match &node.op {
                Op::Leaf(leaf) => break *leaf,
                Op::Reshape | Op::Detach if columns.is_none() => {}
                // the rows of a batch
                Op::GatherRows => {}
                Op::Slice { axis, start } if columns.is_none() && axis + 1 == node.shape.dims().len() => {
                    columns = Some(*start..start + node.shape.dims()[*axis]);
                }
                _ => return,
            }
            at = node.inputs[0];
        };
        let (found, dims) = (&inner.leaves[leaf], inner.nodes[at].shape.dims());
        if found.kind != LeafKind::Input || inner.nodes[at].dtype != DType::I32 {
            return;
        }
        let width = dims.iter().skip(1).product();
        // a slice of the last of several axes is not one run of numbers
        let columns = match columns {
            Some(_) if dims.len() != 2 => return,
            Some(columns) => columns,
            None => 0..width,
        };
        let limit = Limit { input: found.name.clone(), what, below, width, columns, place };
        if !inner.limits.contains(&limit) {
            inner.limits.push(limit);
        }
    }

    /// What is known of the inputs' numbers.
    pub fn limits(&self) -> Vec<Limit> {
        self.0.borrow().limits.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_outside_is_told_with_its_row() {
        let g = Graph::new();
        let batch = g.input_of("tokens", &[9, 4], DType::I32).gather_rows(&g.input_of("rows", &[2], DType::I32));
        g.limit(&batch.reshape(&[8]), "token", 5);
        let limits = g.limits();
        assert_eq!((limits.len(), limits[0].width, limits[0].columns.clone()), (1, 4, 0..4));
        assert!(limits[0].check(&[0, 1, 2, 3, 4, 4, 4, 4]).is_ok() && limits[0].check(&[]).is_ok());
        let outside = limits[0].check(&[0, 1, 2, 3, 4, 4, 5, 4]).unwrap_err();
        assert_eq!((outside.value, outside.row, outside.column), (5, 1, 2));
        let said = outside.to_string();
        assert!(said.contains("token 5 in row 1, place 2 of \"tokens\" is outside 0 to 4"), "{said}");
        assert!(said.contains("limits.rs"), "{said}");
        assert_eq!(limits[0].check(&[0, -1]).unwrap_err().value, -1);
    }

    #[test]
    fn columns_of_a_table_have_limits_of_their_own() {
        let g = Graph::new();
        let codes = g.input_of("codes", &[3, 2], DType::I32);
        g.limit(&codes.slice(1, 0, 1).reshape(&[3]), "category", 2);
        g.limit(&codes.slice(1, 1, 2), "category", 9);
        let limits = g.limits();
        let codes = [0, 8, 1, 8, 1, 0];
        assert!(limits.len() == 2 && limits.iter().all(|limit| limit.check(&codes).is_ok()));
        assert_eq!(limits[0].check(&[0, 8, 2, 8]).unwrap_err().row, 1);
        // what is computed has none
        let g = Graph::new();
        g.limit(&g.input("x", &[3, 2]).argmax(1), "class", 2);
        assert!(g.limits().is_empty());
    }
}
