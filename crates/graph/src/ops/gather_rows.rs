//! Rows of a table by number: batches, embeddings.

use super::Vjp;
use crate::{DType, Op, Tensor};

impl Tensor {
    /// `result[i, …] = self[indices[i], …]`; `indices` is i32, of any shape.
    #[track_caller]
    pub fn gather_rows(&self, indices: &Tensor) -> Tensor {
        if indices.dtype() != DType::I32 || self.rank() == 0 {
            self.fail(
                "gather_rows",
                format!(
                    "needs a table and i32 indices, got {} and {} {}",
                    self.shape(),
                    indices.dtype(),
                    indices.shape()
                ),
            );
            return self.clone();
        }
        if self.dims()[0] == 0 && indices.elements() > 0 {
            self.fail("gather_rows", format!("the table {} has no rows", self.shape()));
            return self.clone();
        }
        let mut dims = indices.dims();
        dims.extend_from_slice(&self.dims()[1..]);
        self.graph().add(Op::GatherRows, &[self.id(), indices.id()], dims.into(), self.dtype())
    }

    /// A table of `rows` zero rows to which row `i` of `self` is added at `indices[i]`.
    #[track_caller]
    pub fn scatter_rows(&self, indices: &Tensor, rows: usize) -> Tensor {
        let lead = indices.rank();
        let fits = self.rank() >= lead && self.dims()[..lead] == indices.dims();
        if indices.dtype() != DType::I32 || self.dtype() != DType::F32 || !fits {
            let problem = format!(
                "needs f32 rows and as many i32 indices, got {} {} and {} {}",
                self.dtype(),
                self.shape(),
                indices.dtype(),
                indices.shape()
            );
            self.fail("scatter_rows", problem);
            return self.clone();
        }
        let mut dims = vec![rows];
        dims.extend_from_slice(&self.dims()[lead..]);
        self.graph().add(Op::ScatterRows, &[self.id(), indices.id()], dims.into(), DType::F32)
    }
}

pub(super) fn vjp(v: &Vjp) -> Vec<Option<Tensor>> {
    let table = (v.x[0].dtype() == DType::F32).then(|| v.dy.scatter_rows(&v.x[1], v.x[0].dims()[0]));
    vec![table, None]
}

pub(super) fn scatter_vjp(v: &Vjp) -> Vec<Option<Tensor>> {
    vec![Some(v.dy.gather_rows(&v.x[1])), None]
}
