//! Pictures with labels, whatever holds them; and the commonest: a folder per class.
//!
//! ```text
//! animals/cat/1.jpg  animals/cat/more/2.png  animals/dog/1.jpg   →   classes cat 0, dog 1
//! ```

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::decode::{Channels, Picture, decode_into};
use crate::error::DataError;
use crate::escape::Escaped;
use crate::file;

/// Pictures that can be had in any order, from several threads at once.
pub trait Pictures: Send + Sync {
    /// For people.
    fn name(&self) -> &str;
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Names of the classes.
    fn labels(&self) -> &[String];
    /// The class of a picture.
    fn label(&self, i: usize) -> i32;
    /// What was left out, for people.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
    /// Where a picture is, for messages.
    fn path(&self, i: usize) -> String;
    /// Decodes a picture into memory that is used again; `file` holds its bytes meanwhile.
    fn load_into(&self, i: usize, channels: Channels, file: &mut Vec<u8>, into: &mut Picture) -> Result<(), DataError>;

    /// Decodes a picture.
    fn load(&self, i: usize, channels: Channels) -> Result<Picture, DataError> {
        let mut picture = Picture::default();
        self.load_into(i, channels, &mut Vec::new(), &mut picture)?;
        Ok(picture)
    }

    /// Height, width and channels (1 or 3), where all pictures share them.
    fn uniform(&self) -> Option<(usize, usize, usize)> {
        None
    }
}

/// A folder whose folders are classes, in the order of their names, as torchvision's `ImageFolder`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PictureFolder {
    dir: PathBuf,
    name: String,
    labels: Vec<String>,
    /// Relative to `dir`, with the class.
    files: Vec<(PathBuf, i32)>,
    skipped: Skipped,
}

/// Files that are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Skipped {
    /// Those that are hidden or no pictures.
    pub others: usize,
    /// Pictures of formats that are not read, relative to the folder.
    pub not_read: Vec<PathBuf>,
}

/// Names of picture files end so.
pub(super) const ENDINGS: [&str; 6] = ["jpg", "jpeg", "jpe", "jfif", "png", "webp"];
/// Endings of picture formats that are not read.
const NOT_READ: [&str; 8] = ["gif", "bmp", "tif", "tiff", "heic", "heif", "avif", "svg"];

/// Folders inside folders beyond this are a loop of links.
const DEEPEST: usize = 32;

const LAYOUT: &str = "expected a folder per class with its pictures inside, such as cat/1.jpg and dog/1.jpg";

impl PictureFolder {
    /// Finds the pictures; they are read when asked for.
    pub fn open(dir: impl AsRef<Path>) -> Result<PictureFolder, DataError> {
        let dir = dir.as_ref();
        let problem = |problem: String| DataError::Folder { dir: dir.escaped(), problem };
        if !dir.is_dir() {
            return Err(problem(match dir.exists() {
                true => format!("a file, not a folder; {LAYOUT}"),
                false => format!("no such folder; {LAYOUT}"),
            }));
        }
        let (mut labels, mut files, mut skipped) = (Vec::new(), Vec::new(), Skipped::default());
        let mut loose = 0;
        for (name, path) in sorted(dir)? {
            if !path.is_dir() {
                loose += is_picture(&name) as usize;
                skipped.others += 1;
                continue;
            }
            if hidden(&name) {
                continue;
            }
            let (before, not_read) = (files.len(), skipped.not_read.len());
            collect(&path, Path::new(&name), labels.len() as i32, 0, &mut files, &mut skipped)?;
            if files.len() == before {
                let unread =
                    note_not_read(&skipped.not_read[not_read..]).map_or(String::new(), |note| format!("; {note}"));
                return Err(problem(format!(
                    "the class folder {name:?} holds no picture ({}); fill it, or take it away{unread}",
                    ENDINGS.join(", ")
                )));
            }
            labels.push(name);
        }
        if labels.is_empty() {
            return Err(problem(match loose {
                0 => format!("no folders in it; {LAYOUT}"),
                1 => format!("1 picture but no class folders in it; {LAYOUT}"),
                _ => format!("{loose} pictures but no class folders in it; {LAYOUT}"),
            }));
        }
        Ok(PictureFolder { name: file::name(dir), dir: dir.to_owned(), labels, files, skipped })
    }

    /// Files that are hidden or no pictures that can be read.
    pub fn skipped(&self) -> usize {
        self.skipped.count()
    }
}

impl Skipped {
    pub(super) fn count(&self) -> usize {
        self.others + self.not_read.len()
    }
}

/// About pictures of formats that are not read.
fn note_not_read(paths: &[PathBuf]) -> Option<String> {
    let first = paths.first()?;
    let mut endings: Vec<String> = paths.iter().filter_map(|path| ending(&path.to_string_lossy())).collect();
    endings.sort();
    endings.dedup();
    let (pictures, are) = if paths.len() == 1 { ("picture", "is") } else { ("pictures", "are") };
    Some(format!(
        "{} {pictures} of a format that is not read ({}), such as {}, {are} left out; save as PNG, JPEG or WebP",
        paths.len(),
        endings.join(", "),
        first.escaped()
    ))
}

impl Pictures for PictureFolder {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.files.len()
    }

    fn labels(&self) -> &[String] {
        &self.labels
    }

    fn label(&self, i: usize) -> i32 {
        self.files[i].1
    }

    fn notes(&self) -> Vec<String> {
        note_not_read(&self.skipped.not_read).into_iter().collect()
    }

    fn path(&self, i: usize) -> String {
        self.dir.join(&self.files[i].0).to_string_lossy().into_owned()
    }

    fn load_into(&self, i: usize, channels: Channels, file: &mut Vec<u8>, into: &mut Picture) -> Result<(), DataError> {
        load_file(&self.dir.join(&self.files[i].0), channels, file, into)
    }
}

/// Reads and decodes one file; an error names it.
pub(super) fn load_file(
    path: &Path,
    channels: Channels,
    bytes: &mut Vec<u8>,
    into: &mut Picture,
) -> Result<(), DataError> {
    bytes.clear();
    File::open(path).and_then(|mut file| file.read_to_end(bytes)).map_err(|error| file::open_error(path, error))?;
    decode_into(bytes, channels, into).map_err(|problem| DataError::Picture { path: path.escaped(), problem })
}

/// Pictures in a folder and the folders inside it, in the order of their paths.
pub(super) fn collect(
    dir: &Path,
    relative: &Path,
    class: i32,
    depth: usize,
    files: &mut Vec<(PathBuf, i32)>,
    skipped: &mut Skipped,
) -> Result<(), DataError> {
    if depth > DEEPEST {
        let problem = format!("folders inside folders {DEEPEST} times over; is there a link that leads back up?");
        return Err(DataError::Folder { dir: dir.escaped(), problem });
    }
    for (name, path) in sorted(dir)? {
        let relative = relative.join(&name);
        match path.is_dir() {
            true if hidden(&name) => {}
            true => collect(&path, &relative, class, depth + 1, files, skipped)?,
            false if is_picture(&name) => files.push((relative, class)),
            false if !hidden(&name) && is_unread_picture(&name) => skipped.not_read.push(relative),
            false => skipped.others += 1,
        }
    }
    Ok(())
}

/// What is in a folder, in the order of the names' bytes on every machine.
fn sorted(dir: &Path) -> Result<Vec<(String, PathBuf)>, DataError> {
    let io = |source| DataError::Io { path: dir.escaped(), source };
    let mut entries = Vec::new();
    for entry in fs::read_dir(dir).map_err(io)? {
        let entry = entry.map_err(io)?;
        match entry.file_name().into_string() {
            Ok(name) => entries.push((name, entry.path())),
            Err(name) => {
                let problem = format!("the name {name:?} in it is not UTF-8 text; rename it");
                return Err(DataError::Folder { dir: dir.escaped(), problem });
            }
        }
    }
    entries.sort();
    Ok(entries)
}

fn hidden(name: &str) -> bool {
    name.starts_with('.')
}

pub(super) fn is_picture(name: &str) -> bool {
    !hidden(name) && ending(name).is_some_and(|ending| ENDINGS.contains(&&ending[..]))
}

/// A picture of a format that is not read, by its name; the decoder says what to do.
pub(super) fn is_unread_picture(name: &str) -> bool {
    ending(name).is_some_and(|ending| NOT_READ.contains(&&ending[..]))
}

fn ending(name: &str) -> Option<String> {
    name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::tests::png;

    fn write(dir: &Path, name: &str, bytes: &[u8]) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn classes_by_name_and_files_by_path() {
        let dir = tempfile::tempdir().unwrap();
        let picture = png(2, 1, 1, &[10, 20]);
        for name in ["dog/b.PNG", "dog/a.png", "cat/deep/c.png", "cat/z.png", "dog/notes.txt", "dog/.x.png", ".git/h"] {
            write(dir.path(), name, &picture);
        }
        write(dir.path(), "README.md", b"hello");
        let folder = PictureFolder::open(dir.path()).unwrap();
        assert_eq!(folder.labels(), ["cat", "dog"]);
        assert_eq!(folder.skipped(), 3);
        let found: Vec<(String, i32)> = (0..folder.len())
            .map(|i| (folder.path(i).replace(&dir.path().to_string_lossy().into_owned(), ""), folder.label(i)))
            .collect();
        let expected = [("/cat/deep/c.png", 0), ("/cat/z.png", 0), ("/dog/a.png", 1), ("/dog/b.PNG", 1)];
        assert!(found.iter().zip(expected).all(|(a, b)| a.0 == b.0 && a.1 == b.1) && found.len() == 4, "{found:?}");
        let got = folder.load(2, Channels::AsIs).unwrap();
        assert_eq!((got.width, got.height, got.channels, &got.pixels[..]), (2, 1, 1, &[10, 20][..]));
    }

    #[test]
    fn pictures_that_are_not_read_are_named() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["cat/1.png", "cat/2.gif", "dog/1.png", "dog/more/3.TIFF", "dog/.hidden.gif", "dog/notes.txt"] {
            write(dir.path(), name, b"x");
        }
        let folder = PictureFolder::open(dir.path()).unwrap();
        assert_eq!((folder.len(), folder.skipped()), (2, 4));
        assert_eq!(
            folder.notes(),
            [
                "2 pictures of a format that is not read (gif, tiff), such as cat/2.gif, are left out; save as PNG, JPEG or WebP"
            ]
        );
        write(dir.path(), "fish/1.bmp", b"x");
        let message = PictureFolder::open(dir.path()).unwrap_err().to_string();
        assert!(
            message.contains(r#""fish" holds no picture"#)
                && message.contains("1 picture of a format that is not read (bmp), such as fish/1.bmp, is left out"),
            "{message}"
        );
    }

    #[test]
    fn wrong_layouts_say_what_is_expected() {
        let dir = tempfile::tempdir().unwrap();
        let message = |path: &Path| PictureFolder::open(path).unwrap_err().to_string();
        assert!(message(dir.path()).contains("a folder per class"));
        assert!(message(&dir.path().join("none")).contains("no such folder"));
        write(dir.path(), "1.jpg", b"x");
        assert!(message(dir.path()).contains("1 picture but no class folders"));
        assert!(message(&dir.path().join("1.jpg")).contains("a file, not a folder"));
        write(dir.path(), "cat/1.jpg", b"x");
        fs::create_dir(dir.path().join("dog")).unwrap();
        assert!(message(dir.path()).contains(r#"class folder "dog" holds no picture"#));
    }

    #[test]
    fn vanished_and_broken_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let whole = png(8, 8, 1, &[7; 64]);
        write(dir.path(), "a/1.png", &whole[..whole.len() - 30]);
        write(dir.path(), "a/2.png", &whole);
        write(dir.path(), "a/3.png", b"");
        let folder = PictureFolder::open(dir.path()).unwrap();
        fs::remove_file(dir.path().join("a/2.png")).unwrap();
        let message = |i| folder.load(i, Channels::Rgb).unwrap_err().to_string();
        assert!(message(0).contains("a/1.png: not a usable PNG"), "{}", message(0));
        assert!(message(1).contains("a/2.png: no such file"), "{}", message(1));
        assert!(message(2).contains("a/3.png: the file is empty"), "{}", message(2));
    }
}
