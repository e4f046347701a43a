//! Index of the largest element.

use crate::{DType, Op, Tensor};

impl Tensor {
    /// Along `axis`, which is dropped; i32; the first among equals. No gradient.
    #[track_caller]
    pub fn argmax(&self, axis: usize) -> Tensor {
        let rank = self.rank();
        if axis >= rank || self.dims()[axis] == 0 {
            self.fail("argmax", format!("axis {axis} of {} has no largest element", self.shape()));
            return self.clone();
        }
        if self.dtype() != DType::F32 {
            self.fail("argmax", format!("needs f32, got {}; use to_f32()", self.dtype()));
            return self.clone();
        }
        let mut perm: Vec<usize> = (0..rank).filter(|&a| a != axis).collect();
        perm.push(axis);
        let last = self.transpose(&perm);
        let dims = last.dims()[..rank - 1].to_vec();
        self.graph().add(Op::ArgMax, &[last.id()], dims.into(), DType::I32)
    }
}
