//! Layers, one file each.

mod activation;
mod attention;
mod batch_norm;
mod checkpoint;
mod conv1d;
mod conv2d;
mod conv_transpose2d;
mod drop_path;
mod dropout;
mod dropout2d;
mod embedding;
mod flatten;
mod group_norm;
mod gru;
mod identity;
mod instance_norm;
mod layer_norm;
mod learned_positions;
mod linear;
mod lstm;
mod norm;
mod pair;
mod pool;
mod positions;
mod recurrent;
mod residual;
mod rms_norm;
mod rnn;
mod rotary_positions;
mod sequential;
mod sinusoidal_positions;
mod split;
mod transformer;
mod transformer_block;
mod transformer_decoder_layer;
mod transformer_encoder_layer;
mod upsample;

pub use activation::Activation;
pub use attention::{Masks, MultiheadAttention};
pub use batch_norm::BatchNorm;
pub use checkpoint::{Checkpoint, checkpoint};
pub use conv_transpose2d::ConvTranspose2d;
pub use conv1d::Conv1d;
pub use conv2d::Conv2d;
pub use drop_path::DropPath;
pub use dropout::Dropout;
pub use dropout2d::Dropout2d;
pub use embedding::Embedding;
pub use flatten::Flatten;
pub use group_norm::GroupNorm;
pub use gru::gru;
pub use identity::Identity;
pub use instance_norm::InstanceNorm;
pub use layer_norm::LayerNorm;
pub use learned_positions::LearnedPositions;
pub use linear::Linear;
pub use lstm::lstm;
pub use pair::Pair;
pub use pool::{GlobalPool, Pool};
pub use recurrent::{Recurrent, Sequence};
pub use residual::Residual;
pub use rms_norm::RmsNorm;
pub use rnn::{rnn, rnn_relu};
pub use rotary_positions::RotaryPositions;
pub use sequential::Sequential;
pub use sinusoidal_positions::SinusoidalPositions;
pub use split::Split;
pub use transformer::{TransformerDecoder, TransformerEncoder};
pub use transformer_decoder_layer::TransformerDecoderLayer;
pub use transformer_encoder_layer::TransformerEncoderLayer;
pub use upsample::Upsample;

/// `[…,width]` as `[rows,width]`.
#[track_caller]
fn rows(x: &citius_graph::Tensor) -> citius_graph::Tensor {
    let width = x.dims().last().copied().unwrap_or(1);
    x.reshape(&[x.elements() / width.max(1), width])
}

/// `{path}.{name}`, or the name alone where there is no path.
pub(crate) fn under(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }
}
