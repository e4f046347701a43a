//! Pictures: files to the numbers a network takes, fast enough to keep it busy.
//!
//! ```text
//! decode.rs      bytes → Picture: JPEG, PNG, WebP, told apart by their first bytes
//! jpeg.rs png.rs webp.rs   one format each
//! exif.rs        which way up
//! folder.rs      the trait Pictures; a folder per class
//! list.rs        a table of paths and labels
//! grid.rs        pictures of one size, in memory
//! ```

mod decode;
mod exif;
mod folder;
mod grid;
mod jpeg;
mod list;
mod png;
mod webp;

pub use decode::{Channels, MOST_PIXELS, Picture, decode, decode_into};
pub use folder::{PictureFolder, Pictures};
pub use grid::{Grid, Layout};
pub use list::PictureList;

#[cfg(test)]
mod tests;
