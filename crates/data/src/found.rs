//! What a path leads to, told from its name and its first bytes.

use std::path::{Path, PathBuf};

use crate::error::DataError;
use crate::escape::Escaped;
use crate::source::expand;
use crate::table::{ReadOptions, Table};
use crate::{cifar, file, packed};

/// Data of some kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A directory with the four files of MNIST or of something like it.
    Mnist(PathBuf),
    /// A file or directory of CIFAR's binary version.
    Cifar(PathBuf),
    /// A folder per class.
    Pictures(PathBuf),
    Packed(PathBuf),
    /// One table, or several with the same columns.
    Tables(Vec<PathBuf>),
    Text(PathBuf),
}

/// Names of tables end so, before `.gz` and `.zst`.
const TABLES: [&str; 15] = [
    "csv", "tsv", "txt", "data", "jsonl", "ndjson", "npy", "npz", "parquet", "arrow", "feather", "ipc", "tab", "dat",
    "test",
];

impl Found {
    /// Looks at a path or pattern.
    pub fn at(path: &Path) -> Result<Found, DataError> {
        if path.is_dir() {
            return in_directory(path);
        }
        if !path.exists() && path.to_string_lossy().contains(['*', '?', '[']) {
            let mut files = expand(&path.to_string_lossy())?;
            return match files.len() {
                1 => Found::at(&files.remove(0)),
                _ => Ok(Found::Tables(files)),
            };
        }
        // what is read of a pipe is gone: its name has to do
        if !file::check_readable(path)?.is_file() {
            return Ok(Found::Tables(vec![path.to_owned()]));
        }
        let head = file::head(path, 64 << 10)?;
        let name = file::name(path).to_lowercase();
        let plain = name.strip_suffix(".gz").unwrap_or(&name);
        Ok(match () {
            () if packed::is_packed(&head) => Found::Packed(path.to_owned()),
            () if plain.ends_with(".bin") => Found::Cifar(path.to_owned()),
            () if (plain.ends_with(".txt") || plain.ends_with(".md")) && is_prose(&name, &head) => {
                Found::Text(path.to_owned())
            }
            () => Found::Tables(vec![path.to_owned()]),
        })
    }
}

fn in_directory(dir: &Path) -> Result<Found, DataError> {
    let entries: Vec<PathBuf> = std::fs::read_dir(dir)
        .map_err(|source| DataError::Io { path: dir.escaped(), source })?
        .flatten()
        .take(100_000)
        .map(|entry| entry.path())
        .collect();
    if entries.iter().any(|path| file::name(path).contains("-ubyte")) {
        return Ok(Found::Mnist(dir.to_owned()));
    }
    if entries.iter().any(|path| cifar::is_cifar(path)) {
        return Ok(Found::Cifar(dir.to_owned()));
    }
    if entries.iter().any(|path| path.is_dir() && !file::name(path).starts_with('.')) {
        return Ok(Found::Pictures(dir.to_owned()));
    }
    let mut tables: Vec<PathBuf> = entries.into_iter().filter(|path| is_table(path)).collect();
    tables.sort();
    let kinds: std::collections::BTreeSet<_> = tables.iter().map(|path| ending(path)).collect();
    match (tables.len(), kinds.len()) {
        (1.., 1) => Ok(Found::Tables(tables)),
        (0, _) => Err(DataError::Folder {
            dir: dir.escaped(),
            problem:
                "nothing in it is known: neither tables, nor a folder of pictures per class, nor MNIST's or CIFAR's \
                      files"
                    .into(),
        }),
        _ => Err(DataError::NotAFile {
            path: dir.escaped(),
            what: "a directory with several kinds of tables".into(),
            next: format!("name a file in it, such as {:?}, or a pattern", file::name(&tables[0])),
        }),
    }
}

fn is_table(path: &Path) -> bool {
    path.is_file() && TABLES.contains(&ending(path).as_str())
}

fn ending(path: &Path) -> String {
    let name = file::name(path).to_lowercase();
    let plain = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
    plain.rsplit_once('.').map_or(String::new(), |(_, ending)| ending.to_owned())
}

/// Lines that are no rows: cells in different numbers, or one of words.
fn is_prose(name: &str, head: &[u8]) -> bool {
    let lines = head.iter().rposition(|byte| *byte == b'\n').map_or(head, |end| &head[..end]);
    if std::str::from_utf8(lines).is_err() {
        return false; // compressed, or not text at all
    }
    match Table::from_bytes(name, lines, &ReadOptions::default()) {
        Ok(table) => table.columns.len() == 1 && matches!(table.columns[0].values, crate::table::Values::Text { .. }),
        Err(DataError::Ragged { .. } | DataError::OpenQuote { .. }) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn kinds_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let at = |name: &str| Found::at(&path(name)).unwrap();
        fs::write(path("a.csv"), "a,b\n1,2\n3,4\n").unwrap();
        assert_eq!(at("a.csv"), Found::Tables(vec![path("a.csv")]));
        fs::write(path("numbers.txt"), "1 2\n3 4\n").unwrap();
        assert_eq!(at("numbers.txt"), Found::Tables(vec![path("numbers.txt")]));
        fs::write(path("play.txt"), "First Citizen:\nBefore we proceed, hear me speak.\n\nAll:\nSpeak, speak.\n")
            .unwrap();
        assert_eq!(at("play.txt"), Found::Text(path("play.txt")));
        fs::create_dir_all(path("pets/cat")).unwrap();
        assert_eq!(at("pets"), Found::Pictures(path("pets")));
        fs::create_dir(path("parts")).unwrap();
        for part in ["parts/2.csv", "parts/1.csv"] {
            fs::write(path(part), "a,b\n1,2\n").unwrap();
        }
        assert_eq!(at("parts"), Found::Tables(vec![path("parts/1.csv"), path("parts/2.csv")]));
        assert_eq!(at("parts/*.csv"), Found::Tables(vec![path("parts/1.csv"), path("parts/2.csv")]));
        fs::create_dir(path("empty")).unwrap();
        assert!(Found::at(&path("empty")).unwrap_err().to_string().contains("nothing in it is known"));
        assert!(Found::at(&path("missing.csv")).is_err());
    }
}
