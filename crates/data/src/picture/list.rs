//! Pictures named in a table: a column of paths, relative to the table's own folder, and a column of labels.

use std::path::{Path, PathBuf};

use super::decode::{Channels, Picture};
use super::folder::{Pictures, load_file};
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
        let table = read(csv.as_ref(), None)?;
        let usual = |names: &[&str]| {
            table.names().position(|name| names.contains(&&name.to_lowercase()[..])).map(|i| i.to_string())
        };
        let two = |i: usize| (table.columns.len() == 2).then(|| i.to_string());
        match (usual(&PATHS).or(two(0)), usual(&LABELS).or(two(1))) {
            (Some(path), Some(label)) if path != label => PictureList::with_columns(csv, &path, &label),
            _ => Err(DataError::MissingColumns {
                file: table.name.clone(),
                missing: "a column of paths (path, file, image …) and one of labels (label, class …)".into(),
                columns: suggest::list(table.names(), 20),
            }),
        }
    }

    /// As [`PictureList::open`], with the columns named, or their indices.
    pub fn with_columns(csv: impl AsRef<Path>, path: &str, label: &str) -> Result<PictureList, DataError> {
        let csv = csv.as_ref();
        let table = read(csv, Some(path))?;
        let (path, label) = (table.column(path)?, table.column(label)?);
        for column in [path, label] {
            if let Some(row) = (0..table.rows).find(|row| table.columns[column].is_missing(*row)) {
                return Err(DataError::Cell {
                    place: table.place(row, column),
                    problem: "the cell is empty".into(),
                    next: "every picture needs a path and a label: fill it, or take the row away".into(),
                });
            }
        }
        if table.rows == 0 {
            return Err(DataError::Empty {
                file: table.name.clone(),
                what: "no rows".into(),
                next: "name pictures in it, one a row".into(),
            });
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

/// The table; a column of paths is text even if it reads as numbers.
fn read(csv: &Path, path: Option<&str>) -> Result<Table, DataError> {
    let text = path.map(str::to_owned).into_iter().collect();
    Table::read(csv, &ReadOptions { text, ..ReadOptions::default() })
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
        self.dir.join(&self.paths[self.rows[i].0 as usize]).display().to_string()
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
    fn what_is_missing_is_said() {
        assert!(open("a,b,c\n1,2,3\n").unwrap_err().contains("a column of paths"));
        assert!(open("file,label\np/a.png,\np/b.png,cat\n").unwrap_err().contains("row 1"));
        let (_dir, list) = open("file,label\nnowhere.png,cat\np/b.png,dog\n").unwrap();
        assert!(list.load(0, Channels::Rgb).unwrap_err().to_string().contains("nowhere.png: no such file"));
    }
}
