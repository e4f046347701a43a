//! Kernels generated for the plan as AVX-512 machine code.

use citius_plan::{Loop, Matmul};

pub struct LoopKernel;
pub struct MatmulKernel;
impl LoopKernel {
    pub fn new(_: &Loop) -> Option<LoopKernel> {
        None
    }
    pub unsafe fn run(&self, _: &mut [*mut u8], _: usize, _: usize) {}
}
impl MatmulKernel {
    pub fn new(_: &Matmul) -> Option<MatmulKernel> {
        None
    }
    pub fn tile(&self) -> (usize, usize) {
        (1, 1)
    }
    pub unsafe fn run(&self, _: *const f32, _: *const f32, _: &[*mut u8], _: usize, _: usize) {}
}
