//! Whole networks.

mod forecaster;
mod mlp;

pub use forecaster::{Forecaster, forecaster};
pub use mlp::{Mlp, mlp};
