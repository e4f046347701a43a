//! Trace, shapes, derivative, verifier: a model is plain Rust over a [`Tensor`] handle, and running it once records a [`Graph`].
//!
//! ```
//! use citius_graph::{Graph, Init};
//! let g = Graph::new();
//! let x = g.input("x", &[32, 10]);
//! let w = g.parameter("w", &[10, 1], Init::Zeros);
//! let loss = x.matmul(&w).square().mean_all();
//! let dw = g.gradients(&loss, &[w])[0].clone().expect("w reaches the loss");
//! assert_eq!(dw.shape().dims(), [10, 1]);
//! ```

mod again;
mod derivative;
mod dtype;
mod dump;
mod error;
mod graph;
mod init;
mod limits;
mod mixing;
pub mod ops;
pub mod random;
pub mod scalar;
mod shape;
mod tensor;
mod verify;

pub use dtype::DType;
pub use error::{Place, TraceError};
pub use graph::{
    Caller, Graph, InMode, InPhase, Leaf, LeafKind, Mode, Names, Node, NodeId, Part, Phase, Scope, Seen, Starting,
};
pub use init::Init;
pub use limits::{Limit, OutOfRange};
pub use ops::convolve::Convolution;
pub use ops::{Op, Reduction, Vjp};
pub use shape::Shape;
pub use tensor::Tensor;
