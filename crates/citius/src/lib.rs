//! Citius trains neural networks at the speed the machine allows.
//!
//! A table becomes a model in one call; everything left open is chosen, and said:
//!
//! ```no_run
//! use citius::prelude::*;
//!
//! let wishes = Wishes { source: Some("houses.csv".into()), target: Some("price".into()), ..Wishes::default() };
//! let report = Training::new(wishes)?.run(&RunOptions::default(), &mut Silent, &Default::default())?;
//! println!("test RMSE {:?}, saved in {}", report.test.rmse, report.out);
//!
//! let mut model = SavedModel::load(report.out.as_ref(), Default::default())?;
//! let (predictions, _) = model.predict("houses-new.csv".as_ref())?;
//! println!("{:?}", predictions.values);
//! # Ok::<(), TrainError>(())
//! ```
//!
//! A network, loss or optimiser of your own is plain Rust over [`graph::Tensor`]; see [`nn`]. The rooms, in the order data
//! walks through them:

pub use citius_cpu as cpu;
pub use citius_data as data;
pub use citius_doctor as doctor;
pub use citius_graph as graph;
pub use citius_nn as nn;
pub use citius_plan as plan;
pub use citius_train as train;

/// What most programs need.
pub mod prelude {
    pub use citius_cpu::{Executable, Inputs, Isa, Memory, Options};
    pub use citius_data::{
        DataError, Dataset, Features, Field, FieldMut, Kind, Loader, LoaderOptions, Order, Preparation, Rows, Sampling,
        Schema, Source, SplitOptions, Splits, Stream, Table, Target, Task,
    };
    pub use citius_doctor::{Doctor, Examination, Finding};
    pub use citius_graph::{DType, Graph, Init, Mode, Tensor, TraceError};
    pub use citius_nn::{
        Activation, Adam, AdamW, Clip, Dropout, Learning, Linear, Loss, Module, Optimizer, OptimizerConfig, RmsProp,
        ScheduleConfig, Sequential, Sgd, bce_with_logits, cross_entropy, huber, mae, mlp, mse,
    };
    pub use citius_plan::{Plan, compile};
    pub use citius_train::{
        About, Device, Event, Fit, FitData, Listener, LoadingOptions, Machine, Material, Metrics, PredictOptions,
        Predictions, Predictor, Pretrained, Problem, Report, RunOptions, SavedModel, Settings, Silent, TrainError,
        Training, Wishes,
    };
}
