//! Whole networks.

mod mlp;

pub use mlp::{Mlp, mlp};
