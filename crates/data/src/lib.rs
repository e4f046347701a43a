//! Files to data sets: the first room on the way of the bytes.
//!
//! ```text
//! file ── table::Table ── prepare::Preparation ── dataset::Dataset ── order::Order ── batches
//!      ├─ idx::Images, cifar::Cifar ────────────┘
//!      └─ picture::PictureSource ── batches
//! ```
//!
//! [`Table::read`] reads delimited text and NPY, [`Preparation::fit`] learns from the training rows
//! how a table becomes numbers, [`Preparation::encode`] makes the [`Dataset`] a trainer gathers
//! from, and [`Order`] says which row comes when. Every failure is a [`DataError`] that names the
//! file, the line and what to do; no input makes this crate panic.

pub mod cifar;
pub mod dataset;
pub mod digits;
pub mod error;
mod file;
pub mod idx;
pub mod order;
pub mod picture;
pub mod prepare;
pub mod rng;
pub mod schema;
pub mod slot;
pub mod source;
pub mod split;
mod suggest;
pub mod table;

pub use cifar::{Cifar, read_cifar};
pub use dataset::{Dataset, Features, Target};
pub use error::DataError;
pub use idx::{Images, Mnist, image_dataset, mnist_dir, pixel_mean_std, read_images, read_labels};
pub use order::Order;
pub use picture::{Grid, PictureFolder, PictureList, PictureSource, Pictures, Pipeline, Transform};
pub use prepare::{Preparation, PrepareOptions, Task, infer_task};
pub use schema::{Field, Kind, Schema};
pub use slot::{Allocator, FieldMut, FieldRef, Heap, Slot};
pub use source::{InMemory, Rows, Source, Stream};
pub use split::{SplitOptions, Splits, read_row_file, strata};
pub use table::{Column, Delimiter, MISSING, ReadOptions, Table, Values};
