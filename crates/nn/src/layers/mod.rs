//! Layers, one file each.

mod activation;
mod dropout;
mod linear;
mod sequential;
mod split;

pub use activation::Activation;
pub use dropout::Dropout;
pub use linear::Linear;
pub use sequential::Sequential;
pub use split::Split;
