//! Runs a [`citius_plan::Plan`] on an NVIDIA GPU. The driver and the compiler are loaded at run time: building needs no toolkit, and
//! a machine without a GPU runs everything else. All CUDA `unsafe` of the project lives in this crate.
//!
//! ```text
//! schedule/  plan → fibres in levels: what a block runs by itself, and where all blocks wait for each other
//! layout.rs  where every buffer lies
//! source/    schedule → CUDA C++: one kernel that runs many steps, or one per level for steps with large products
//! large.rs, product.rs  large products by cuBLASLt, in 16 bits if asked
//! compile.rs source → machine code, kept on disk
//! device.rs  the GPU: memory, streams, kernels
//! session.rs parameters and states of a model on the GPU
//! executable.rs, run.rs  a plan bound to a GPU, and the loop that feeds it
//! ```

mod compile;
mod device;
mod error;
mod executable;
mod large;
mod layout;
mod levels;
mod product;
mod run;
mod schedule;
mod session;
mod source;
mod transposes;

pub use compile::{Cache, compile};
pub use device::Device;
pub use error::CudaError;
pub use executable::{Executable, Ledger, Options, Precision, Scheduled, bytes_needed, schedule};
pub use large::{LARGE_PRODUCT, Large, call_library};
pub use layout::{Layout, LeafPlaces};
pub use schedule::{Dump, Schedule, Team};
pub use session::Session;
pub use source::render;
pub use transposes::read_through_transposes;
