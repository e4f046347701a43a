//! Runs a [`citius_plan::Plan`] on an NVIDIA GPU. The driver and the compiler are loaded at run time: building needs no toolkit, and
//! a machine without a GPU runs everything else. All CUDA `unsafe` of the project lives in this crate.
//!
//! ```text
//! choice.rs      which of the two ways below a plan goes, and the bytes it takes
//! transposes.rs  copies of transposed matrices are read and written through
//! schedule/      plan → fibres in levels: what a group of threads runs by itself, and where all of them meet
//! large.rs       large products for cuBLASLt, in 16 bits if asked (precision.rs)
//! layout.rs      where every buffer lies
//! source/        schedule → CUDA C++: one kernel that runs many steps, or one per level around large products
//! compile.rs     source → machine code, kept on disk (kernel_cache.rs)
//! device.rs      the GPU: memory, streams, kernels
//! session.rs     parameters and states of a model on the GPU
//! executable.rs  a plan bound to a GPU; levels.rs, product.rs: where it is kernels and products one after the other
//! run.rs         the loop that feeds it; ledger.rs: where the time went
//! ```

mod choice;
mod compile;
mod device;
mod draw;
mod error;
mod estimate;
mod executable;
mod kernel_cache;
mod large;
mod layout;
mod ledger;
mod levels;
mod parts;
mod precision;
mod product;
mod run;
mod schedule;
mod session;
mod source;
mod transposes;

pub use choice::{Chip, Scheduled, bytes_needed, schedule};
pub use compile::{Care, compile, load_compiler};
pub use device::Device;
pub use error::CudaError;
pub use estimate::Estimate;
pub use executable::{Executable, Options};
pub use kernel_cache::KernelCache;
pub use large::{By, LARGE_PRODUCT, Large, Rule, call_library};
pub use layout::{Layout, LeafPlaces};
pub use ledger::Ledger;
pub use precision::{Halves, Precision};
pub use schedule::{Dump, Schedule, Team};
pub use session::Session;
pub use source::render;
pub use transposes::{keep_zeros, read_through_transposes};
