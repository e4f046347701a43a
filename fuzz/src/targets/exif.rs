//! Orientations in JPEG and PNG files: whatever they say, the pixels are those of the picture.

use citius_data::picture::{Channels, decode};

use crate::Draw;

const JPEG: &[u8] = include_bytes!("../../seeds/picture_decode/grey.jpg");
const PNG: &[u8] = include_bytes!("../../seeds/picture_decode/grey.png");

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let (jpeg, prefix) = (draw.flag(), draw.flag());
    let prefix: &[u8] = if jpeg || prefix { b"Exif\0\0" } else { b"" };
    let block = [prefix, draw.take(65_000)].concat();
    let (plain, marked) = if jpeg { (JPEG, with_app1(&block)) } else { (PNG, with_chunk(&block)) };
    let upright = decode(plain, Channels::Grey).expect("a whole picture");
    let Ok(turned) = decode(&marked, Channels::Grey) else { return };
    let sizes = (turned.width, turned.height);
    assert!(sizes == (upright.width, upright.height) || sizes == (upright.height, upright.width));
    let sorted = |mut pixels: Vec<u8>| {
        pixels.sort();
        pixels
    };
    assert_eq!(sorted(turned.pixels), sorted(upright.pixels));
}

/// Behind the marker that begins the file.
fn with_app1(block: &[u8]) -> Vec<u8> {
    let (start, rest) = JPEG.split_at(2);
    let length = (block.len() as u16 + 2).to_be_bytes();
    [start, &[0xff, 0xe1], &length, block, rest].concat()
}

/// Behind the signature and the header.
fn with_chunk(block: &[u8]) -> Vec<u8> {
    let (start, rest) = PNG.split_at(8 + 25);
    let chunk = [b"eXIf", block].concat();
    [start, &(block.len() as u32).to_be_bytes(), &chunk, &crc32fast::hash(&chunk).to_be_bytes(), rest].concat()
}
