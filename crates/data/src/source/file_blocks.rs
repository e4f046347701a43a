//! Several files with the same columns, read in blocks as one table.

use std::path::PathBuf;

use super::concat::common_name;
use super::files::check_columns;
use crate::error::DataError;
use crate::table::{Numbers, ReadOptions, Table, TableBlocks, Values, open_blocks_within};

/// Opens one file or several for reading in blocks of about so many rows at most. Columns of several files are matched by name,
/// those without a header by place; a column that is text in one file is text in all.
pub fn open_files(
    paths: &[PathBuf],
    options: &ReadOptions,
    most_rows: usize,
) -> Result<Box<dyn TableBlocks>, DataError> {
    match paths {
        [path] => open_blocks_within(path, options, most_rows),
        _ => Ok(Box::new(FileBlocks::open(paths, options, most_rows)?)),
    }
}

struct FileBlocks {
    name: String,
    files: Vec<OpenFile>,
    columns: Vec<String>,
    header: bool,
    starts: Vec<u32>,
    /// File and block of each block.
    places: Vec<(usize, usize)>,
}

/// One of the files.
struct OpenFile {
    blocks: Box<dyn TableBlocks>,
    /// Where each column of the table stands in this file; `None` where it stands in its own place.
    order: Option<Vec<usize>>,
}

impl FileBlocks {
    fn open(paths: &[PathBuf], options: &ReadOptions, most_rows: usize) -> Result<FileBlocks, DataError> {
        let mut options = options.clone();
        let mut opened: Vec<Box<dyn TableBlocks>> = Vec::new();
        // a block says what the columns of all blocks of its file hold
        let mut heads: Vec<Table> = Vec::new();
        for path in paths {
            let blocks = open_blocks_within(path, &options, most_rows)?;
            let head = blocks.read(0)?;
            match heads.first() {
                Some(first) => check_columns(first, &head)?,
                None => {
                    if options.expect_columns.is_empty() && head.header {
                        options.expect_columns = head.names().map(str::to_owned).collect();
                    }
                    if options.expect_written.is_empty() {
                        options.expect_written = head.reading.written.clone();
                    }
                }
            }
            opened.push(blocks);
            heads.push(head);
        }
        let Some(first) = heads.first() else {
            return Err(DataError::Inconsistent("no files to put together".into()));
        };
        let (columns, header): (Vec<String>, bool) = (first.names().map(str::to_owned).collect(), first.header);
        let is_text = |table: &Table, name: &str| {
            table.columns.iter().any(|column| column.name == name && matches!(column.values, Values::Text { .. }))
        };
        let text: Vec<&String> = columns.iter().filter(|name| heads.iter().any(|head| is_text(head, name))).collect();
        options.expect_text.extend(text.iter().map(|name| (*name).clone()));
        for ((blocks, head), path) in opened.iter_mut().zip(&heads).zip(paths) {
            if text.iter().any(|name| !is_text(head, name)) {
                *blocks = open_blocks_within(path, &options, most_rows)?;
            }
        }
        let name = common_name(heads.iter().map(|head| head.name.as_str()))?;
        let (mut starts, mut places, mut files) = (vec![0u32], Vec::new(), Vec::new());
        for (file, blocks) in opened.into_iter().enumerate() {
            for (block, cut) in blocks.blocks().windows(2).enumerate() {
                let end = starts.last().and_then(|start| start.checked_add(cut[1] - cut[0]));
                starts.push(end.ok_or_else(|| DataError::Unsupported {
                    file: name.clone(),
                    what: "has more than 4 billion rows in all".to_owned(),
                    next: "read fewer files".to_owned(),
                })?);
                places.push((file, block));
            }
            let own = blocks.columns();
            let order = columns.iter().map(|name| own.iter().position(|own| own == name));
            let order: Option<Vec<usize>> = order.collect();
            let misfit = || DataError::Inconsistent(format!("{}: its columns have changed", blocks.name()));
            let order = order.ok_or_else(misfit)?;
            let in_place = order.iter().enumerate().all(|(place, own)| place == *own);
            files.push(OpenFile { blocks, order: (!in_place).then_some(order) });
        }
        Ok(FileBlocks { name, files, columns, header, starts, places })
    }

    fn place(&self, block: usize) -> Result<(&OpenFile, usize), DataError> {
        let misfit = || DataError::Inconsistent(format!("{}: no block {block}", self.name));
        self.places.get(block).map(|(file, block)| (&self.files[*file], *block)).ok_or_else(misfit)
    }
}

impl TableBlocks for FileBlocks {
    fn name(&self) -> &str {
        &self.name
    }

    fn columns(&self) -> Vec<String> {
        self.columns.clone()
    }

    fn header(&self) -> bool {
        self.header
    }

    fn blocks(&self) -> &[u32] {
        &self.starts
    }

    fn row_in_file(&self, block: usize) -> u32 {
        self.place(block).map_or(0, |(file, block)| file.blocks.row_in_file(block))
    }

    fn read(&self, block: usize) -> Result<Table, DataError> {
        let (file, block) = self.place(block)?;
        let table = file.blocks.read(block)?;
        Ok(if file.order.is_some() { in_order(table, &self.columns) } else { table })
    }

    fn announce(&self, block: usize) {
        if let Ok((file, block)) = self.place(block) {
            file.blocks.announce(block);
        }
    }

    fn readers(&self) -> usize {
        self.files.iter().map(|file| file.blocks.readers()).max().unwrap_or(0)
    }

    fn read_columns(&self, block: usize, columns: &[usize]) -> Result<Table, DataError> {
        let (file, block) = self.place(block)?;
        let Some(order) = &file.order else { return file.blocks.read_columns(block, columns) };
        let mut own: Vec<usize> = columns.iter().filter_map(|column| order.get(*column).copied()).collect();
        own.sort_unstable();
        let names: Vec<String> = columns.iter().filter_map(|column| self.columns.get(*column).cloned()).collect();
        Ok(in_order(file.blocks.read_columns(block, &own)?, &names))
    }

    fn missing(&self, block: usize, column: usize) -> Result<usize, DataError> {
        let (file, block) = self.place(block)?;
        file.blocks.missing(block, file.order.as_ref().map_or(column, |order| order[column]))
    }

    fn visit_numbers(
        &self,
        block: usize,
        columns: &[usize],
        visit: &mut dyn FnMut(usize, &[Numbers<'_>]) -> bool,
    ) -> Result<bool, DataError> {
        match self.place(block)? {
            (OpenFile { blocks, order: None }, block) => blocks.visit_numbers(block, columns, visit),
            _ => Ok(false),
        }
    }
}

/// The columns in the order of these names.
fn in_order(mut table: Table, names: &[String]) -> Table {
    let place = |name: &str| names.iter().position(|own| own == name).unwrap_or(names.len());
    table.columns.sort_by_cached_key(|column| place(&column.name));
    table
}

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;
    use crate::table::concat;

    fn write(files: &[(&str, String)]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let path = |(name, text): &(&str, String)| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let paths = files.iter().map(path).collect();
        (folder, paths)
    }

    /// Rows in files of other orders of columns; the code of one file is text.
    fn parts() -> [(&'static str, String); 3] {
        let rows = |of: std::ops::Range<usize>, row: &dyn Fn(usize) -> String| of.map(row).collect::<String>();
        [
            ("a.csv", format!("n,city,code\n{}", rows(0..40, &|i| format!("{i},c{},{}\n", i % 5, i % 9)))),
            ("b.csv", format!("code,n,city\n{}", rows(40..90, &|i| format!("{},{i},c{}\n", i % 9, i % 7)))),
            ("c.csv", format!("city,code,n\n{}", rows(90..100, &|i| format!("c{},x{},{i}\n", i % 7, i % 9)))),
        ]
    }

    #[test]
    fn several_files_hold_in_blocks_what_they_hold_in_memory() {
        let (_folder, paths) = write(&parts());
        let options = ReadOptions::default();
        let whole = tables(&paths, &options).unwrap();
        for most_rows in [7, 1000] {
            let blocks = open_files(&paths, &options, most_rows).unwrap();
            let count = blocks.blocks().len() - 1;
            assert!(count >= if most_rows == 7 { 9 } else { 3 }, "{count} blocks");
            assert_eq!(
                (blocks.columns(), *blocks.blocks().last().unwrap()),
                (vec!["n".into(), "city".into(), "code".into()], 100)
            );
            let read = concat((0..count).map(|block| blocks.read(block).unwrap()).collect()).unwrap();
            assert_eq!((read.rows, &read.columns), (100, &whole.columns));
            let some = concat((0..count).map(|block| blocks.read_columns(block, &[0, 2]).unwrap()).collect()).unwrap();
            assert_eq!(some.columns, [whole.columns[0].clone(), whole.columns[2].clone()]);
            let last = blocks.blocks()[count - 1] - blocks.row_in_file(count - 1);
            assert_eq!(last, 90, "rows of the last file are counted from its beginning");
        }
    }

    #[test]
    fn other_columns_are_named() {
        let [a, ..] = parts();
        let (_folder, paths) = write(&[a, ("b.csv", "n,town,code\n1,2,3\n".into())]);
        let error = open_files(&paths, &ReadOptions::default(), 9).err().unwrap().to_string();
        assert!(error.contains("b.csv: lacks \"city\" of a.csv and has \"town\" in addition"), "{error}");
    }
}
