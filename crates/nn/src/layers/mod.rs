//! Layers, one file each.

mod activation;
mod batch_norm;
mod drop_path;
mod dropout;
mod dropout2d;
mod flatten;
mod group_norm;
mod identity;
mod instance_norm;
mod layer_norm;
mod linear;
mod norm;
mod residual;
mod rms_norm;
mod sequential;
mod split;
mod upsample;

pub use activation::Activation;
pub use batch_norm::BatchNorm;
pub use drop_path::DropPath;
pub use dropout::Dropout;
pub use dropout2d::Dropout2d;
pub use flatten::Flatten;
pub use group_norm::GroupNorm;
pub use identity::Identity;
pub use instance_norm::InstanceNorm;
pub use layer_norm::LayerNorm;
pub use linear::Linear;
pub use residual::Residual;
pub use rms_norm::RmsNorm;
pub use sequential::Sequential;
pub use split::Split;
pub use upsample::Upsample;
