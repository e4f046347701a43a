//! Delimited text to a table, and on to the inputs of a network.
#![no_main]

use citius_data::Table;
use citius_fuzz::{Draw, caught_panics_are_fine, check_prepared};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: caught_panics_are_fine(), |input: &[u8]| {
    let mut draw = Draw::new(input);
    let (read, prepare) = (draw.read_options(), draw.prepare_options());
    if let Ok(table) = Table::from_bytes("a.csv", draw.rest(), &read) {
        check_prepared(&table, &prepare);
    }
});
