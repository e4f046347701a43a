//! Text in small blocks holds what it holds as a whole.
#![no_main]

use citius_data::Table;
use citius_data::table::open_blocks_of;
use citius_fuzz::{Draw, caught_panics_are_fine, rows_of, rows_of_blocks, with_file};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: caught_panics_are_fine(), |input: &[u8]| {
    let mut draw = Draw::new(input);
    let (options, size) = (draw.read_options(), draw.byte() as u64);
    with_file("a.csv", draw.rest(), |path| {
        let whole = Table::read(path, &options);
        let blocks = open_blocks_of(path, &options, size);
        let in_blocks = blocks.and_then(|blocks| Ok((rows_of_blocks(&*blocks)?, blocks.columns(), blocks.header())));
        match (whole, in_blocks) {
            (Ok(table), Ok((rows, names, header))) => {
                assert_eq!(rows_of(&table), rows);
                assert!(table.names().eq(names.iter().map(String::as_str)));
                assert_eq!(table.header, header);
            }
            // what compressed text and other formats are is not this target's matter
            (Ok(_), Err(error)) if error.to_string().contains("cannot be read in blocks") => {}
            (Ok(_), Err(error)) => panic!("whole it is read, in blocks not: {error}"),
            (Err(error), Ok(_)) => panic!("in blocks it is read, whole not: {error}"),
            (Err(_), Err(_)) => {}
        }
    });
});
