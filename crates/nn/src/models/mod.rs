//! Whole networks.

mod lenet;
mod mlp;
mod network;

pub use lenet::LeNet;
pub use mlp::{Mlp, mlp};
pub use network::{Frame, Network, RowShape};
