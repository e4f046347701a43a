//! Layers, one file each.

mod activation;
mod dropout;
mod gru;
mod linear;
mod lstm;
mod recurrent;
mod rnn;
mod sequential;
mod split;

pub use activation::Activation;
pub use dropout::Dropout;
pub use gru::gru;
pub use linear::Linear;
pub use lstm::lstm;
pub use recurrent::{Recurrent, Sequence};
pub use rnn::{rnn, rnn_relu};
pub use sequential::Sequential;
pub use split::Split;
