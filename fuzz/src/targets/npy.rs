//! NumPy's array files.

use citius_data::Table;

use crate::{Draw, check_prepared};

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let options = draw.read_options();
    if let Ok(table) = Table::from_bytes("a.npy", draw.rest(), &options) {
        check_prepared(&table, &Default::default());
    }
}
