//! Files compressed with zstd: any bytes, frames put together here, or a table that is compressed and must be read as it is.

use citius_data::Table;
use citius_data::source::{Text, Unit};

use crate::{Draw, rows_of, with_file};

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let options = draw.read_options();
    let read = |name: &str, bytes: &[u8]| with_file(name, bytes, |path| Table::read(path, &options)).ok();
    match draw.byte() % 3 {
        0 => {
            read("a.csv.zst", draw.rest());
        }
        1 => {
            let bytes = frame(draw);
            read("a.csv.zst", &bytes);
            let _ = with_file("a.txt.zst", &bytes, |path| Text::open(path, Unit::Bytes));
        }
        _ => {
            let level = draw.byte() as i32 % 10 - 3;
            let plain = draw.rest();
            // what is compressed twice is undone once
            if plain.starts_with(&MAGIC) || plain.starts_with(b"\x1f\x8b") {
                return;
            }
            let compressed = zstd::encode_all(plain, level).expect("memory");
            let rows = |table: Option<Table>| table.map(|table| rows_of(&table));
            assert_eq!(rows(read("a.csv", plain)), rows(read("a.csv.zst", &compressed)), "compressed");
        }
    }
}

/// A frame with its descriptor, the bytes behind that, and blocks: plain ones, repeated bytes, compressed ones.
fn frame(mut draw: Draw<'_>) -> Vec<u8> {
    let (descriptor, fields) = (draw.byte(), draw.byte() as usize % 16);
    let mut bytes = [&MAGIC[..], &[descriptor], draw.take(fields)].concat();
    while !draw.is_empty() {
        let (kind, length) = (draw.byte() as u32 % 4, draw.short() as usize);
        let body = if kind == 1 { draw.take(1) } else { draw.take(length) };
        // what a repeated byte claims is longer than what is there
        let claim = if kind == 1 { (length as u32) << 5 } else { body.len() as u32 };
        let header = (claim << 3 | kind << 1 | draw.is_empty() as u32).to_le_bytes();
        bytes.extend(&header[..3]);
        bytes.extend(body);
    }
    bytes
}
