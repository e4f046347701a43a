//! Pictures whose classes nobody knows: single files, all that is in a folder, those that a table names.

use std::path::{Path, PathBuf};

use super::decode::{Channels, Picture};
use super::folder::{ENDINGS, Pictures, Skipped, collect, is_picture, is_unread_picture, load_file};
use super::list;
use crate::error::DataError;
use crate::escape::Escaped;
use crate::file;
use crate::source::expand;

/// Pictures without labels: all are of the class 0, which has no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PictureFiles {
    name: String,
    files: Vec<PathBuf>,
    shown: Vec<String>,
    skipped: Skipped,
}

impl PictureFiles {
    /// Finds the pictures of all sources, one after the other; they are read when asked for. A source is a picture, a
    /// folder with any folders inside it, a table with a column of paths, or a pattern for names of files.
    pub fn open(sources: &[impl AsRef<Path>]) -> Result<PictureFiles, DataError> {
        let sources = expanded(sources)?;
        let alone = sources.len() == 1;
        let name = match &sources[..] {
            [source] => file::name(source),
            _ => format!("{} sources", sources.len()),
        };
        let mut found = PictureFiles { name, files: Vec::new(), shown: Vec::new(), skipped: Skipped::default() };
        for source in &sources {
            match (source.is_dir(), alone) {
                (true, true) => found.add_folder(source, Path::new(""))?,
                (true, false) => found.add_folder(source, source)?,
                (false, _) if is_picture_file(source)? => {
                    found.add(source.clone(), source.to_string_lossy().into_owned());
                }
                (false, _) => list::paths(source)?.into_iter().for_each(|(path, written)| found.add(path, written)),
            }
        }
        Ok(found)
    }

    /// Paths as they were given: of a file itself, of a list as written in it, of a folder relative to it, or, where
    /// there are several sources, behind its own path.
    pub fn shown(&self) -> &[String] {
        &self.shown
    }

    /// Files in folders that are hidden or no pictures.
    pub fn skipped(&self) -> usize {
        self.skipped.count()
    }

    fn add(&mut self, path: PathBuf, shown: String) {
        self.files.push(path);
        self.shown.push(shown);
    }

    fn add_folder(&mut self, dir: &Path, shown_under: &Path) -> Result<(), DataError> {
        let mut inside = Vec::new();
        collect(dir, Path::new(""), 0, 0, &mut inside, &mut self.skipped)?;
        if inside.is_empty() {
            let problem = format!("no picture in it ({})", ENDINGS.join(", "));
            return Err(DataError::Folder { dir: dir.escaped(), problem });
        }
        for (path, _) in inside {
            self.add(dir.join(&path), shown_under.join(&path).to_string_lossy().into_owned());
        }
        Ok(())
    }
}

/// Patterns replaced by the files they name.
fn expanded(sources: &[impl AsRef<Path>]) -> Result<Vec<PathBuf>, DataError> {
    let mut all = Vec::new();
    for source in sources {
        let source = source.as_ref();
        let text = source.to_string_lossy();
        match !source.exists() && text.contains(['*', '?', '[']) {
            true => all.extend(expand(&text)?),
            false => all.push(source.to_owned()),
        }
    }
    Ok(all)
}

/// Else it is a list. A damaged picture may be told by its name alone, one without an ending by its bytes.
fn is_picture_file(path: &Path) -> Result<bool, DataError> {
    let head = file::head(path, 16)?;
    let name = file::name(path).to_lowercase();
    Ok(is_unread_picture(&name) || is_picture(&name) || super::decode::is_known(&head))
}

impl Pictures for PictureFiles {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.files.len()
    }

    fn labels(&self) -> &[String] {
        &[]
    }

    fn label(&self, _: usize) -> i32 {
        0
    }

    fn path(&self, i: usize) -> String {
        self.files[i].to_string_lossy().into_owned()
    }

    fn load_into(&self, i: usize, channels: Channels, file: &mut Vec<u8>, into: &mut Picture) -> Result<(), DataError> {
        load_file(&self.files[i], channels, file, into)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::picture::tests::png;

    #[test]
    fn files_folders_lists_and_patterns() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, grey) in [("flat/b.png", 2), ("flat/a.png", 1), ("tree/x/deep/d.png", 4), ("tree/c.png", 3)] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), png(1, 1, 1, &[grey])).unwrap();
        }
        fs::write(at("flat/notes.txt"), "no picture").unwrap();
        fs::write(at("list.csv"), "path\ntree/c.png\nflat/a.png\n").unwrap();
        fs::copy(at("flat/a.png"), at("without-ending")).unwrap();
        let open = |names: &[&str]| {
            let sources: Vec<PathBuf> = names.iter().map(|name| at(name)).collect();
            let found = PictureFiles::open(&sources).unwrap();
            let greys = (0..found.len()).map(|i| found.load(i, Channels::Grey).unwrap().pixels[0]).collect::<Vec<_>>();
            (found.shown().to_vec(), greys)
        };
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let full = |name: &str| at(name).to_string_lossy().into_owned();
        assert_eq!(open(&["flat"]), (strings(&["a.png", "b.png"]), vec![1, 2]));
        assert_eq!(open(&["tree"]), (strings(&["c.png", "x/deep/d.png"]), vec![3, 4]));
        assert_eq!(open(&["list.csv"]), (strings(&["tree/c.png", "flat/a.png"]), vec![3, 1]));
        assert_eq!(open(&["without-ending"]), (vec![full("without-ending")], vec![1]));
        assert_eq!(open(&["flat/*.png"]), (vec![full("flat/a.png"), full("flat/b.png")], vec![1, 2]));
        let (shown, greys) = open(&["tree/c.png", "flat"]);
        assert_eq!((shown, greys), (["tree/c.png", "flat/a.png", "flat/b.png"].map(full).to_vec(), vec![3, 1, 2]));
        assert_eq!(PictureFiles::open(&[at("flat")]).unwrap().skipped(), 1);
    }

    #[test]
    fn what_is_no_picture_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let message = |name: &str| PictureFiles::open(&[folder.path().join(name)]).unwrap_err().to_string();
        fs::create_dir(folder.path().join("empty")).unwrap();
        assert!(message("empty").contains("no picture in it (jpg"), "{}", message("empty"));
        assert!(message("none.png").contains("none.png: no such file"), "{}", message("none.png"));
        fs::write(folder.path().join("old.gif"), b"GIF89a").unwrap();
        let gif = PictureFiles::open(&[folder.path().join("old.gif")]).unwrap();
        assert!(gif.load(0, Channels::Rgb).unwrap_err().to_string().contains("GIF is not read"));
    }
}
