//! Tables as rows of cells, to be compared.

use citius_data::{DataError, MISSING, Table, TableBlocks, Values};

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
