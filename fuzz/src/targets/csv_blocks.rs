//! Text in small blocks holds what it holds as a whole.

use crate::{Draw, check_blocks, with_file};

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let (options, size) = (draw.read_options(), draw.byte() as u64);
    with_file("a.csv", draw.rest(), |path| check_blocks(path, &options, size));
}
