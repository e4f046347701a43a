//! Whole networks, one file each.

mod embedded;
mod forecaster;
mod gpt;
mod head;
mod hidden_layer;
mod lenet;
mod mixer;
mod mlp;
mod network;
mod nlinear;
mod patches;
mod resnet;
mod resnet9;
mod start;
mod table_net;
mod transformer_classifier;
mod vgg;
mod vit;

pub use forecaster::{Forecaster, forecaster};
pub use gpt::Gpt;
pub use head::Head;
pub use hidden_layer::{HiddenLayer, LayerMode, LayerNormKind};
pub use lenet::LeNet;
pub use mixer::Mixer;
pub use mlp::{Mlp, mlp};
pub use network::{Frame, Network, RowShape};
pub use nlinear::NLinear;
pub use resnet::{Depth, ResNet, Stem};
pub use resnet9::ResNet9;
pub use table_net::TableNet;
pub use transformer_classifier::TransformerClassifier;
pub use vgg::Vgg;
pub use vit::Vit;
