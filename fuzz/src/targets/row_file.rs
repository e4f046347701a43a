//! Files of row numbers.

use std::collections::HashSet;

use citius_data::read_row_file;

use crate::{Draw, with_file};

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let rows = match draw.byte() {
        255 => usize::MAX,
        254 => u32::MAX as usize,
        exponent => draw.byte() as usize * (1 << (exponent % 24)),
    };
    if let Ok(found) = with_file("rows.txt", draw.rest(), |path| read_row_file(path, rows)) {
        assert!(!found.is_empty() && found.iter().all(|row| (*row as usize) < rows));
        assert_eq!(found.iter().collect::<HashSet<_>>().len(), found.len(), "a row twice");
    }
}
