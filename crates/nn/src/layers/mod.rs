//! Layers, one file each.

mod activation;
mod dropout;
mod linear;
mod sequential;

pub use activation::{Activation, Probed};
pub use dropout::Dropout;
pub use linear::Linear;
pub use sequential::Sequential;
