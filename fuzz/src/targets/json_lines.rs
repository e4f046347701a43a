//! JSON lines to a table, in small blocks and whole, and on to the inputs of a network.

use crate::{Draw, check_blocks, check_prepared, with_file};

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let (options, prepare, size) = (draw.read_options(), draw.prepare_options(), draw.byte() as u64);
    with_file("a.jsonl", draw.rest(), |path| {
        if let Some(table) = check_blocks(path, &options, size) {
            check_prepared(&table, &prepare);
        }
    });
}
