//! Tables as rows of cells, to be compared.

use std::path::Path;

use citius_data::table::open_blocks_of;
use citius_data::{DataError, MISSING, ReadOptions, Table, TableBlocks, Values};

/// The cells of each row: the bits of a number, a text, or nothing.
pub fn rows_of(table: &Table) -> Vec<Vec<Option<String>>> {
    let cell = |values: &Values, row: usize| match values {
        Values::Number(numbers) => Some(numbers[row]).filter(|n| !n.is_nan()).map(|n| format!("{:x}", n.to_bits())),
        Values::Text { codes, .. } if codes[row] == MISSING => None,
        Values::Text { codes, labels } => Some(format!("{:?}", labels[codes[row] as usize])),
    };
    (0..table.rows).map(|row| table.columns.iter().map(|column| cell(&column.values, row)).collect()).collect()
}

/// As [`rows_of`], block after block.
pub fn rows_of_blocks(blocks: &dyn TableBlocks) -> Result<Vec<Vec<Option<String>>>, DataError> {
    let mut rows = Vec::new();
    for (block, cut) in blocks.blocks().windows(2).enumerate() {
        let table = blocks.read(block)?;
        assert_eq!(table.rows as u32, cut[1] - cut[0], "rows of block {block}");
        assert!(table.names().eq(blocks.columns().iter().map(String::as_str)), "columns of block {block}");
        rows.extend(rows_of(&table));
    }
    Ok(rows)
}

/// Reads a file whole and in blocks, those of text of about so many bytes: both are refused, or both hold the same. The whole
/// table, if there is one.
pub fn check_blocks(path: &Path, options: &ReadOptions, bytes: u64) -> Option<Table> {
    let whole = Table::read(path, options);
    let blocks = open_blocks_of(path, options, bytes);
    let in_blocks = blocks.and_then(|blocks| Ok((rows_of_blocks(&*blocks)?, blocks.columns(), blocks.header())));
    match (whole, in_blocks) {
        (Ok(table), Ok((rows, names, header))) => {
            assert_eq!(rows_of(&table), rows);
            assert!(table.names().eq(names.iter().map(String::as_str)));
            assert_eq!(table.header, header);
            Some(table)
        }
        // formats that have no blocks
        (Ok(table), Err(error)) if error.to_string().contains("cannot be read in blocks") => Some(table),
        (Ok(_), Err(error)) => panic!("whole it is read, in blocks not: {error}"),
        (Err(error), Ok(_)) => panic!("in blocks it is read, whole not: {error}"),
        (Err(_), Err(_)) => None,
    }
}
