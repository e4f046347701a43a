//! Delimited text to a table, and on to the inputs of a network.

use citius_data::Table;

use crate::{Draw, check_prepared};

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let (read, prepare) = (draw.read_options(), draw.prepare_options());
    if let Ok(table) = Table::from_bytes("a.csv", draw.rest(), &read) {
        check_prepared(&table, &prepare);
    }
}
