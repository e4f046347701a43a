//! Whole networks, one file each.

mod gpt;
mod mixer;
mod mlp;
mod patches;
mod table_net;
mod transformer_classifier;
mod vit;

pub use gpt::Gpt;
pub use mixer::Mixer;
pub use mlp::{Mlp, mlp};
pub use table_net::TableNet;
pub use transformer_classifier::TransformerClassifier;
pub use vit::Vit;
