//! Kernels generated for the plan as AVX-512 machine code: exact shapes, strides and constants are part of the instructions,
//! and a fused chain never leaves the registers.

mod asm;
mod code;
mod loops;
mod matmul;
pub mod nonzeros;
pub mod odd;
mod program;
mod short_rows;
mod sums;
mod transpose;

pub use loops::LoopKernel;
pub use matmul::MatmulKernel;
pub use sums::SumsKernel;
pub use transpose::{turn_block, weave_block};
