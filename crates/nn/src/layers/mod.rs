//! Layers, one file each.

mod activation;
mod conv1d;
mod conv2d;
mod conv_transpose2d;
mod dropout;
mod linear;
mod pair;
mod pool;
mod sequential;
mod split;

pub use activation::Activation;
pub use conv_transpose2d::ConvTranspose2d;
pub use conv1d::Conv1d;
pub use conv2d::Conv2d;
pub use dropout::Dropout;
pub use linear::Linear;
pub use pair::Pair;
pub use pool::{GlobalPool, Pool};
pub use sequential::Sequential;
pub use split::Split;
