//! Text in other encodings holds in small blocks what it holds as a whole.

use citius_data::ReadOptions;

use crate::{Draw, check_blocks, with_file};

const ENCODINGS: [&str; 8] =
    ["latin-1", "utf-16le", "utf-16be", "shift_jis", "gb18030", "iso-2022-jp", "euc-kr", "utf-8"];

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let encoding = Some(draw.pick(&ENCODINGS).parse().expect("a known encoding"));
    let (options, size) = (ReadOptions { encoding, ..draw.read_options() }, draw.byte() as u64);
    with_file("a.csv", draw.rest(), |path| check_blocks(path, &options, size));
}
