//! Layers, losses, optimisers, schedules, models: plain Rust over [`Tensor`], recorded in the graph and compiled into the step.
//! A layer, loss or optimiser of your own is written the same way, in your own crate:
//!
//! ```
//! use citius_graph::{Graph, Init, Tensor};
//! use citius_nn::{Learning, Linear, Module, Optimizer, Sequential, Update};
//!
//! /// y = x ∘ s with a learned s per feature.
//! struct Scale(usize);
//! impl Module for Scale {
//!     fn forward(&self, x: &Tensor) -> Tensor {
//!         x * x.graph().parameter("scale", &[self.0], Init::Constant(1.0))
//!     }
//!     fn describe(&self) -> String {
//!         format!("Scale {}", self.0)
//!     }
//! }
//!
//! /// log cosh, a smooth mean absolute error.
//! fn log_cosh(prediction: &Tensor, target: &Tensor) -> Tensor {
//!     let d = prediction - target;
//!     ((&d * -2.0).softplus() + d - 2f64.ln()).mean_all()
//! }
//!
//! /// p' = p − rate·sign(m), m' = m + 0.1·(g − m).
//! struct SignMomentum;
//! impl Optimizer for SignMomentum {
//!     fn update(&self, u: &Update) -> Tensor {
//!         let m = u.state("momentum");
//!         let m = u.keep(&m, &(&m + (u.gradient - &m) * 0.1));
//!         let zero = m.constant(0.0);
//!         u.parameter - u.rate * (m.gt(&zero) - m.lt(&zero))
//!     }
//! }
//!
//! let g = Graph::new();
//! let model = Sequential::new().with(Scale(10)).with(Linear::new("head", 10, 1));
//! let loss = log_cosh(&model.forward(&g.input("x", &[32, 10])), &g.input("y", &[32, 1]));
//! let learned = Learning::new(SignMomentum, 1e-3).record(&loss)?;
//! assert_eq!(learned.parameters.len(), 3); // scale, head.weight, head.bias
//! # Ok::<(), citius_graph::TraceError>(())
//! ```

mod clip;
mod config;
mod init;
pub mod layers;
mod learn;
pub mod losses;
pub mod models;
mod module;
pub mod optim;
mod pace;
mod probes;
mod scaling;
pub mod schedules;
mod vary;

pub use citius_graph::ops::recurrence::Cell;
pub use citius_graph::{Graph, Tensor};
pub use clip::{Clip, global_norm};
pub use config::{ByName, from_name, name_or_table};
pub use init::{WeightInit, gain};
pub use layers::{
    Activation, BatchNorm, Checkpoint, Conv1d, Conv2d, ConvTranspose2d, DropPath, Dropout, Dropout2d, Embedding,
    Flatten, GlobalPool, GroupNorm, Identity, InstanceNorm, LayerNorm, LearnedPositions, Linear, Masks,
    MultiheadAttention, Pool, Recurrent, Residual, RmsNorm, RotaryPositions, Sequence, Sequential, SinusoidalPositions,
    TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer, Upsample, checkpoint,
    gru, lstm, rnn, rnn_relu,
};
pub use learn::{Learned, LearnedParameter, Learning};
pub use losses::{Loss, Reduction, bce_with_logits, broadcast, cross_entropy, huber, mae, mse, nll, quantile};
pub use models::{
    Depth, Forecaster, Frame, Gpt, Head, HiddenLayer, LayerMode, LayerNormKind, LeNet, Mixer, Mlp, NLinear, Network,
    ResNet, ResNet9, RowShape, Stem, TableNet, TransformerClassifier, Vgg, Vit, forecaster, mlp,
};
pub use module::Module;
pub use optim::{Adam, AdamW, Lamb, Lion, Muon, MuonSize, Optimizer, OptimizerConfig, RmsProp, Sgd, Update};
pub use probes::awake_units;
pub use scaling::LossScaling;
pub use schedules::{Plateau, PlateauWatch, Schedule, ScheduleConfig};
pub use vary::{Vary, vary};
