//! NumPy's array files.
#![no_main]

use citius_data::Table;
use citius_fuzz::{Draw, caught_panics_are_fine, check_prepared};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: caught_panics_are_fine(), |input: &[u8]| {
    let mut draw = Draw::new(input);
    let options = draw.read_options();
    if let Ok(table) = Table::from_bytes("a.npy", draw.rest(), &options) {
        check_prepared(&table, &Default::default());
    }
});
