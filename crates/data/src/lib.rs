//! Files to data sets: the first room on the way of the bytes.
//!
//! ```text
//! file ── table::Table ── prepare::Preparation ── dataset::Dataset ── order::Order ── batches
//!      └─ idx::Images ───────────────────────────┘
//! file ── table::TableBlocks ── source::Encoded, larger than memory
//!      ├─ idx::Images, cifar::Cifar ────────────┘
//!      └─ picture::PictureSource ── batches
//! ```
//!
//! [`Table::read`] reads delimited text, JSON lines, Parquet, Arrow, NPY and NPZ, [`Preparation::fit`] learns from the training rows
//! how a table becomes numbers, [`Preparation::encode`] makes the [`Dataset`] a trainer gathers
//! from, and [`Order`] says which row comes when. Every failure is a [`DataError`] that names the
//! file, the line and what to do; no input makes this crate panic.

pub mod bounded;
pub mod checksum;
pub mod cifar;
pub mod dataset;
pub mod digits;
mod encoding;
pub mod error;
mod escape;
mod file;
pub mod found;
pub mod idx;
pub mod inspect;
pub mod loader;
pub mod memory;
pub mod order;
pub mod packed;
pub mod picture;
pub mod prepare;
pub mod rng;
pub mod schema;
pub mod slot;
pub mod source;
pub mod split;
mod suggest;
pub mod table;
pub mod whole;

pub use checksum::Checksum;
pub use cifar::{Cifar, read_cifar};
pub use dataset::{Dataset, Features, Target};
pub use encoding::TextEncoding;
pub use error::DataError;
pub use escape::{Escaped, escaped_lines, is_hidden, shell_word};
pub use found::Found;
pub use idx::{Images, Mnist, image_dataset, mnist_dir, pixel_mean_std, read_images, read_labels};
pub use inspect::{Inspection, byte_size, count, plural};
pub use loader::{Batch, Loader, LoaderOptions, LoaderReport, OnError};
pub use order::{Network, Order, Sampling, Shard, Weights};
pub use packed::{PackOptions, PackWriter, PackedFile, pack_source, pack_stream};
pub use picture::{Grid, PictureFiles, PictureFolder, PictureList, PictureSource, Pictures, Pipeline, Transform};
pub use prepare::{
    Categorical, ColumnOptions, Fill, Impute, Pca, Preparation, PreparationNote, PrepareOptions, Scale, Select, Task,
    TextFeatures, infer_task,
};
pub use rng::SplitMix64;
pub use schema::{Field, INPUT, Kind, Schema, TARGET};
pub use slot::{Allocator, FieldMut, FieldRef, Heap, Slot};
pub use source::{Encoded, InMemory, Rows, Source, Stream};
pub use split::{SplitOptions, Splits, read_row_file, strata};
pub use table::{Column, Delimiter, MISSING, ReadOptions, Reading, Table, TableBlocks, Values, open_blocks};
pub use whole::{WholeFile, write_whole};
