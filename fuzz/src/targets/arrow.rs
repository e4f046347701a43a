//! Arrow files and streams: whole and in blocks they hold the same, and what they hold can be prepared.

use crate::{Draw, check_blocks, check_prepared, with_file};

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let options = draw.read_options();
    let table = with_file("a.arrow", draw.rest(), |path| check_blocks(path, &options, 0));
    if let Some(table) = table {
        check_prepared(&table, &Default::default());
    }
}
