//! Layers, one file each.

mod activation;
mod batch_norm;
mod dropout;
mod group_norm;
mod instance_norm;
mod layer_norm;
mod linear;
mod norm;
mod rms_norm;
mod sequential;
mod split;

pub use activation::Activation;
pub use batch_norm::BatchNorm;
pub use dropout::Dropout;
pub use group_norm::GroupNorm;
pub use instance_norm::InstanceNorm;
pub use layer_norm::LayerNorm;
pub use linear::Linear;
pub use rms_norm::RmsNorm;
pub use sequential::Sequential;
pub use split::Split;
