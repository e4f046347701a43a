//! What tests share: one body runs on every executor through [`Evaluate`].
//!
//! | check | an executor against |
//! |---|---|
//! | [`map_ops()`], [`big_ops()`], [`products()`], [`wide_recurrences()`], [`composed()`] | the naive f64 [`Reference`], outputs and gradients |
//! | [`golden::ops()`], [`golden::layers()`], [`golden::losses()`], [`golden::optimizers()`], … | PyTorch |
//!
//! The reference itself is held against finite differences ([`finite`]) and the same goldens. Everything here panics on
//! a mismatch: it is for tests.

pub mod cases;
mod compare;
mod cpu;
mod cuda;
mod evaluate;
pub mod finite;
pub mod golden;
mod recurrence;
mod reference;

pub use cases::{Case, big_ops, composed, map_ops, products, wide_recurrences};
pub use compare::{Tolerance, compare};
pub use cpu::Cpu;
pub use cuda::Cuda;
pub use evaluate::{Evaluate, Naive, Values};
pub use reference::Reference;
