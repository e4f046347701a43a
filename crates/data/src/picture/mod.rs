//! Pictures: files to the numbers a network takes, fast enough to keep it busy.
//!
//! ```text
//! decode.rs      bytes → Picture: JPEG, PNG, WebP, told apart by their first bytes
//! jpeg.rs png.rs webp.rs   one format each
//! exif.rs        which way up
//! folder.rs      the trait Pictures; a folder per class
//! list.rs        a table of paths and labels
//! files.rs       without labels: files, folders and lists, to be predicted
//! grid.rs        pictures of one size, in memory
//! canvas.rs      a picture being worked on: crops and flips wait for the pass that writes anyway
//! resize.rs      to another size
//! transform/     one file per transform, and the registry of them
//! pipeline.rs    Picture → transforms → values of a slot
//! source.rs      Pictures through a Pipeline, as a Source
//! mix.rs         MixUp and CutMix of any Source
//! sheet.rs       a contact sheet, to look at what one has (letters: font.rs)
//! ```

mod canvas;
mod decode;
mod exif;
mod files;
mod folder;
mod font;
mod grid;
mod jpeg;
mod list;
mod mix;
mod pipeline;
mod png;
mod resize;
mod sheet;
mod source;
pub mod transform;
mod webp;

pub use decode::{Channels, MOST_PIXELS, Picture, decode, decode_into};
pub use files::PictureFiles;
pub use folder::{PictureFolder, Pictures};
pub use grid::{Grid, Layout};
pub use list::PictureList;
pub use mix::{Mix, Mixed};
pub use pipeline::{IMAGENET_MEAN, IMAGENET_STD, Output, Pipeline};
pub use sheet::contact_sheet;
pub use source::PictureSource;
pub use transform::Transform;

#[cfg(test)]
mod tests;
