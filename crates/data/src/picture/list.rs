//! Pictures named in a table: a column of paths, relative to the table's own folder, and mostly a column of labels.

use std::path::{Path, PathBuf};

use super::decode::{Channels, Picture};
use super::folder::{Pictures, is_picture, load_file};
use crate::error::DataError;
use crate::suggest;
use crate::table::{MISSING, ReadOptions, Table};

/// Rows of a table, each a path and a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PictureList {
    name: String,
    dir: PathBuf,
    /// Paths and labels as written, and for each row which of them.
    paths: Vec<String>,
    labels: Vec<String>,
    rows: Vec<(u32, u32)>,
}

/// Columns that are taken where none is named.
const PATHS: [&str; 7] = ["path", "file", "filename", "file_name", "image", "picture", "image_path"];
const LABELS: [&str; 5] = ["label", "class", "target", "category", "y"];

impl PictureList {
    /// Reads the table; columns are found by their usual names, or there are only two.
    pub fn open(csv: impl AsRef<Path>) -> Result<PictureList, DataError> {
        let table = read(csv.as_ref(), None, None)?;
        let two = |i: usize| (table.columns.len() == 2).then_some(i);
        match (usual(&table, &PATHS).or(two(0)), usual(&table, &LABELS).or(two(1))) {
            (Some(path), Some(label)) if path != label => {
                PictureList::with_columns(csv, &path.to_string(), &label.to_string())
            }
            _ => Err(lacks(&table, "a column of paths (path, file, image …) and one of labels (label, class …)")),
        }
    }

    /// As [`PictureList::open`], with the columns named, or their indices.
    pub fn with_columns(csv: impl AsRef<Path>, path: &str, label: &str) -> Result<PictureList, DataError> {
        let csv = csv.as_ref();
        let table = read(csv, Some(path), None)?;
        let (path, label) = (table.column(path)?, table.column(label)?);
        for column in [path, label] {
            check_filled(&table, column, "every picture needs a path and a label: fill it, or take the row away")?;
        }
        let (path_codes, paths) = table.columns[path].labels();
        let (label_codes, labels) = table.columns[label].labels();
        // classes in the order of their names, whatever the order of rows; numbers by their value
        let mut order: Vec<u32> = (0..labels.len() as u32).collect();
        order.sort_by(|a, b| {
            let (a, b) = (&labels[*a as usize], &labels[*b as usize]);
            match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(a), Ok(b)) => a.total_cmp(&b),
                _ => a.cmp(b),
            }
        });
        let mut rank = vec![0; order.len()];
        order.iter().enumerate().for_each(|(rank_of, code)| rank[*code as usize] = rank_of as u32);
        debug_assert!(!label_codes.contains(&MISSING));
        Ok(PictureList {
            name: table.name.clone(),
            dir: csv.parent().map_or_else(PathBuf::new, Path::to_owned),
            rows: path_codes.iter().zip(label_codes.iter()).map(|(p, l)| (*p, rank[*l as usize])).collect(),
            paths: paths.to_vec(),
            labels: order.iter().map(|code| labels[*code as usize].clone()).collect(),
        })
    }
}

/// The pictures a table names, whether it has labels or not: where each is, and its path as written.
pub(super) fn paths(csv: &Path) -> Result<Vec<(PathBuf, String)>, DataError> {
    let table = read(csv, None, None)?;
    let first = (table.columns.len() <= 2).then_some(0);
    let Some(column) = usual(&table, &PATHS).or(first) else {
        return Err(lacks(&table, "a column of paths (path, file, image …)"));
    };
    // a first row that names a picture is no header
    let header = (table.header && is_picture(&table.columns[column].name)).then_some(false);
    let table = read(csv, Some(&column.to_string()), header)?;
    check_filled(&table, column, "every row needs a path: fill it, or take the row away")?;
    let dir = csv.parent().unwrap_or(Path::new(""));
    let (codes, paths) = table.columns[column].labels();
    let written = codes.iter().map(|code| &paths[*code as usize]);
    Ok(written.map(|path| (dir.join(path), path.clone())).collect())
}

/// The table; a column of paths is text even if it reads as numbers.
fn read(csv: &Path, path: Option<&str>, header: Option<bool>) -> Result<Table, DataError> {
    let text = path.map(str::to_owned).into_iter().collect();
    Table::read(csv, &ReadOptions { text, header, ..ReadOptions::default() })
}

/// The first column with one of these names.
fn usual(table: &Table, names: &[&str]) -> Option<usize> {
    table.names().position(|name| names.contains(&&name.to_lowercase()[..]))
}

fn lacks(table: &Table, missing: &str) -> DataError {
    let columns = suggest::list(table.names(), 20);
    DataError::MissingColumns { file: table.name.clone(), missing: missing.to_owned(), columns }
}

/// There are rows, and none of them has an empty cell in this column.
fn check_filled(table: &Table, column: usize, next: &str) -> Result<(), DataError> {
    if table.rows == 0 {
        return Err(DataError::Empty {
            file: table.name.clone(),
            what: "no rows".into(),
            next: "name pictures in it, one a row".into(),
        });
    }
    match (0..table.rows).find(|row| table.columns[column].is_missing(*row)) {
        None => Ok(()),
        Some(row) => Err(DataError::Cell {
            place: table.place(row, column),
            problem: "the cell is empty".into(),
            next: next.to_owned(),
        }),
    }
}

impl Pictures for PictureList {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn labels(&self) -> &[String] {
        &self.labels
    }

    fn label(&self, i: usize) -> i32 {
        self.rows[i].1 as i32
    }

    fn path(&self, i: usize) -> String {
        self.dir.join(&self.paths[self.rows[i].0 as usize]).to_string_lossy().into_owned()
    }

    fn load_into(&self, i: usize, channels: Channels, file: &mut Vec<u8>, into: &mut Picture) -> Result<(), DataError> {
        load_file(&self.dir.join(&self.paths[self.rows[i].0 as usize]), channels, file, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::tests::png;

    fn open(text: &str) -> Result<(tempfile::TempDir, PictureList), String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("p")).unwrap();
        for (name, grey) in [("p/a.png", 1), ("p/b.png", 2)] {
            std::fs::write(dir.path().join(name), png(1, 1, 1, &[grey])).unwrap();
        }
        let path = dir.path().join("list.csv");
        std::fs::write(&path, text).unwrap();
        PictureList::open(&path).map(|list| (dir, list)).map_err(|error| error.to_string())
    }

    #[test]
    fn usual_names_or_two_columns() {
        for text in ["id,class,file\n7,dog,p/a.png\n8,cat,p/b.png\n", "what,kind\np/a.png,dog\np/b.png,cat\n"] {
            let (_dir, list) = open(text).unwrap();
            assert_eq!(list.labels(), ["cat", "dog"]);
            assert_eq!((list.len(), list.label(0), list.label(1)), (2, 1, 0));
            assert_eq!(list.load(1, Channels::Grey).unwrap().pixels, [2]);
        }
        let (_dir, list) = open("file,label\np/a.png,10\np/b.png,9\n").unwrap();
        assert_eq!(list.labels(), ["9", "10"]);
    }

    #[test]
    fn paths_alone() {
        let written = |text: &str| -> Result<Vec<String>, String> {
            let dir = tempfile::tempdir().unwrap();
            let csv = dir.path().join("list.csv");
            std::fs::write(&csv, text).unwrap();
            let named = paths(&csv).map_err(|error| error.to_string())?;
            assert!(named.iter().all(|(place, path)| *place == dir.path().join(path)));
            Ok(named.into_iter().map(|(_, path)| path).collect())
        };
        for text in [
            "path\np/b.png\np/a.png\np/b.png\n",
            "id,class,file\n1,x,p/b.png\n2,x,p/a.png\n3,y,p/b.png\n",
            "p/b.png\np/a.png\np/b.png\n",
        ] {
            assert_eq!(written(text).unwrap(), ["p/b.png", "p/a.png", "p/b.png"], "{text}");
        }
        assert_eq!(written("file\n1\n2\n").unwrap(), ["1", "2"]);
        assert!(written("a,b,c\n1,2,3\n").unwrap_err().contains("a column of paths"));
        assert!(written("path,id\na.png,1\n,2\n").unwrap_err().contains("row 2"));
    }

    #[test]
    fn what_is_missing_is_said() {
        assert!(open("a,b,c\n1,2,3\n").unwrap_err().contains("a column of paths"));
        assert!(open("file,label\np/a.png,\np/b.png,cat\n").unwrap_err().contains("row 1"));
        let (_dir, list) = open("file,label\nnowhere.png,cat\np/b.png,dog\n").unwrap();
        assert!(list.load(0, Channels::Rgb).unwrap_err().to_string().contains("nowhere.png: no such file"));
    }
}
