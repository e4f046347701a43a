//! Several arrays in a zip: as it comes, or put together here so that its checksums hold.

use std::io::{Cursor, Write};

use citius_data::Table;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::{Draw, check_prepared};

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let options = draw.read_options();
    let zip = if draw.flag() { zipped(draw) } else { draw.rest().to_vec() };
    if let Ok(table) = Table::from_bytes("a.npz", &zip, &options) {
        check_prepared(&table, &Default::default());
    }
}

/// Members of the rest: how it is kept, a length, the bytes.
fn zipped(mut draw: Draw<'_>) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for at in 0..8 {
        if draw.is_empty() {
            break;
        }
        let method = draw.pick(&[CompressionMethod::Stored, CompressionMethod::Deflated]);
        let length = draw.short() as usize;
        let name = format!("{}{}", ["x", "y", "x_", "..", "x_1", "", "é", "b"][at], draw.pick(&[".npy", "", "_0.npy"]));
        // a name that is taken already is left out
        if zip.start_file(name, SimpleFileOptions::default().compression_method(method)).is_ok() {
            zip.write_all(draw.take(length)).expect("memory");
        }
    }
    zip.finish().expect("memory").into_inner()
}
