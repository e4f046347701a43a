//! Parquet: whole and in blocks it holds the same, and what it holds can be prepared.

use crate::{Draw, check_blocks, check_prepared, with_file};

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let options = draw.read_options();
    let table = with_file("a.parquet", draw.rest(), |path| check_blocks(path, &options, 0));
    if let Some(table) = table {
        check_prepared(&table, &Default::default());
    }
}
