//! Runs a [`citius_plan::Plan`] on the processor: all threads walk the plan together, kernels are chosen at run time for what
//! the machine offers, and a step allocates nothing. All CPU `unsafe` of the project lives in this crate.

mod copies;
mod executable;
mod halves;
mod interpreter;
mod isa;
mod kernels;
mod lanes;
mod math;
mod memory;
pub mod out_of_memory;
mod pages;
mod peak;
mod pool;
mod prefetch;
mod run;
mod schedule;
mod tensor_view;
mod timing;
mod tuning;
mod turned;
mod widest;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use executable::{CpuError, Executable, Options};
pub use halves::{Halved, LARGE_PRODUCT, gains_from_halves, halved, has_halves, in_thirds};
pub use isa::Isa;
pub use memory::{Leaf, Memory};
pub use peak::multiply_add;
pub use run::{Batch, Driver, Flow, Inputs, Outputs, RowOrder, Slots, Staging, View};
pub use tensor_view::TensorView;
pub use timing::{Doing, Mean, Span, Times, Timing};
pub use widest::{Plain, widest};
