//! CIFAR-10 and CIFAR-100, the binary version, plain or gzipped: a record is one or two bytes of labels and 3072 of
//! pixels.

use std::fs;
use std::path::{Path, PathBuf};

use crate::dataset::{Dataset, Features, Target};
use crate::error::DataError;
use crate::escape::Escaped;
use crate::file;
use crate::idx::{Images, pixel_mean_std};
use crate::picture::{Grid, Layout};

/// Channels, height and width.
pub const SHAPE: [usize; 3] = [3, 32, 32];
const PIXELS: usize = 3 * 32 * 32;

const CIFAR10: [&str; 10] = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ten,
    /// With 100 fine labels; 20 coarse ones are beside them.
    Hundred,
}

/// Pictures of 3×32×32 bytes, red, green and blue planes, with their classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Cifar {
    pub kind: Kind,
    pub train: Option<Part>,
    pub test: Option<Part>,
    /// Names of the classes.
    pub labels: Vec<String>,
    /// Names of the coarse classes of CIFAR-100.
    pub coarse_labels: Vec<String>,
}

/// Pictures of one half.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// `[pictures, 3, 32, 32]`
    pub pixels: Vec<u8>,
    pub classes: Vec<u8>,
    /// CIFAR-100's coarse classes; empty for CIFAR-10.
    pub coarse: Vec<u8>,
}

/// Reads a directory (`data_batch_*.bin` and `test_batch.bin`, or `train.bin` and `test.bin`) or one such file, each
/// also as `.gz`.
pub fn read_cifar(path: impl AsRef<Path>) -> Result<Cifar, DataError> {
    let path = path.as_ref();
    let (dir, files) = match path.is_dir() {
        true => (path, files_in(path)?),
        false => (path.parent().unwrap_or(Path::new(".")), vec![path.to_owned()]),
    };
    let known: Vec<(PathBuf, Kind, bool)> =
        files.iter().filter_map(|file| role(file).map(|(kind, train)| (file.clone(), kind, train))).collect();
    let problem = |problem: String| DataError::Folder { dir: path.escaped(), problem };
    let kind = match (known.first(), path.is_file()) {
        (Some((_, kind, _)), _) => *kind,
        (None, true) => guess(path)?,
        (None, false) if path.exists() => {
            let wanted = "data_batch_*.bin and test_batch.bin (CIFAR-10), or train.bin and test.bin (CIFAR-100)";
            return Err(problem(format!("no CIFAR files in it; expected {wanted}, each also as .gz")));
        }
        (None, false) => return Err(file::open_error(path, std::io::ErrorKind::NotFound.into())),
    };
    if known.iter().any(|(_, other, _)| *other != kind) {
        return Err(problem("files of CIFAR-10 and of CIFAR-100 in it; put them into folders of their own".into()));
    }
    let mut cifar = Cifar { kind, train: None, test: None, labels: Vec::new(), coarse_labels: Vec::new() };
    let known = if known.is_empty() { vec![(path.to_owned(), kind, true)] } else { known };
    for (file, kind, train) in known {
        let part = if train { &mut cifar.train } else { &mut cifar.test };
        read_part(&file, kind, part.get_or_insert_with(Part::empty))?;
    }
    (cifar.labels, cifar.coarse_labels) = match kind {
        Kind::Ten => {
            (names(dir, "batches.meta.txt", 10)?.unwrap_or_else(|| CIFAR10.map(String::from).to_vec()), vec![])
        }
        Kind::Hundred => {
            let numbers = |count: usize| (0..count).map(|class| class.to_string()).collect();
            let fine = names(dir, "fine_label_names.txt", 100)?.or(names(dir, "fine.meta.txt", 100)?);
            let coarse = names(dir, "coarse_label_names.txt", 20)?.or(names(dir, "coarse.meta.txt", 20)?);
            (fine.unwrap_or_else(|| numbers(100)), coarse.unwrap_or_else(|| numbers(20)))
        }
    };
    Ok(cifar)
}

impl Cifar {
    /// Train and test data sets of bytes, `(byte / 255 - mean) / std` with the training pictures' own mean and
    /// deviation over all channels. A half that was not there has no rows.
    pub fn datasets(self) -> Result<(Dataset, Dataset), DataError> {
        let (mut train, mut test) = (self.train.unwrap_or_else(Part::empty), self.test.unwrap_or_else(Part::empty));
        let measured = if train.classes.is_empty() { &mut test } else { &mut train };
        let (count, pixels) = (measured.classes.len(), std::mem::take(&mut measured.pixels));
        let images = Images { count, height: 3 * 32, width: 32, pixels };
        let (mean, std) = pixel_mean_std(&images);
        measured.pixels = images.pixels;
        let classes = self.labels.len();
        let dataset = |part: Part| {
            let (scale, shift) = (1.0 / (255.0 * std), -mean / std);
            let features = Features::U8 { data: part.pixels, width: PIXELS, scale, shift };
            let data: Vec<i32> = part.classes.iter().map(|class| *class as i32).collect();
            Dataset::new(data.len(), features, Target::Classes { data, classes })
        };
        Ok((dataset(train)?, dataset(test)?))
    }

    /// Train and test pictures, for a picture pipeline.
    pub fn grids(self, name: &str) -> Result<(Option<Grid>, Option<Grid>), DataError> {
        let labels = self.labels;
        let grid = |part: Part| {
            let classes = part.classes.iter().map(|class| *class as i32).collect();
            Grid::new(name, [32, 32, 3], Layout::Chw, part.pixels, classes, labels.clone())
        };
        Ok((self.train.map(grid).transpose()?, self.test.map(grid).transpose()?))
    }
}

impl Part {
    fn empty() -> Part {
        Part { pixels: Vec::new(), classes: Vec::new(), coarse: Vec::new() }
    }
}

impl Kind {
    fn label_bytes(self) -> usize {
        match self {
            Kind::Ten => 1,
            Kind::Hundred => 2,
        }
    }

    fn classes(self) -> u8 {
        match self {
            Kind::Ten => 10,
            Kind::Hundred => 100,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Ten => "CIFAR-10",
            Kind::Hundred => "CIFAR-100",
        }
    }
}

/// Whether a file's name is one of CIFAR's.
pub(crate) fn is_cifar(path: &Path) -> bool {
    role(path).is_some()
}

/// What a file is by its name, and whether it is for training.
fn role(path: &Path) -> Option<(Kind, bool)> {
    let name = file::name(path);
    let stem = name.strip_suffix(".gz").unwrap_or(&name).strip_suffix(".bin")?;
    match stem {
        "train" => Some((Kind::Hundred, true)),
        "test" => Some((Kind::Hundred, false)),
        "test_batch" => Some((Kind::Ten, false)),
        _ => stem.strip_prefix("data_batch_")?.parse::<u32>().ok().map(|_| (Kind::Ten, true)),
    }
}

/// A file of another name is what its length divides by.
fn guess(path: &Path) -> Result<Kind, DataError> {
    let bytes = file::read(path)?.len();
    [Kind::Ten, Kind::Hundred]
        .into_iter()
        .find(|kind| bytes > 0 && bytes % (PIXELS + kind.label_bytes()) == 0)
        .ok_or_else(|| DataError::Binary {
            file: file::name(path),
            format: "CIFAR",
            problem: format!("{bytes} bytes are neither records of 3073 (CIFAR-10) nor of 3074 (CIFAR-100)"),
        })
}

/// In the order of their names; where a file is there both plain and gzipped, the plain one.
fn files_in(dir: &Path) -> Result<Vec<PathBuf>, DataError> {
    let io = |source| DataError::Io { path: dir.escaped(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(io)? {
        files.push(entry.map_err(io)?.path());
    }
    files.sort();
    files.dedup_by(|second, first| file::name(second) == format!("{}.gz", file::name(first)));
    Ok(files)
}

/// Adds the records of a file.
fn read_part(path: &Path, kind: Kind, part: &mut Part) -> Result<(), DataError> {
    let bytes = file::read(path)?;
    let (label_bytes, record) = (kind.label_bytes(), PIXELS + kind.label_bytes());
    let broken = |problem: String| DataError::Binary { file: file::name(path), format: kind.name(), problem };
    if bytes.is_empty() || bytes.len() % record != 0 {
        return Err(broken(format!(
            "{} bytes are not whole records of {record}; it is cut short or of another kind",
            bytes.len()
        )));
    }
    part.pixels.reserve_exact(bytes.len() / record * PIXELS);
    for (i, record) in bytes.chunks_exact(record).enumerate() {
        let (labels, pixels) = record.split_at(label_bytes);
        let class = labels[label_bytes - 1];
        if class >= kind.classes() || (label_bytes == 2 && labels[0] >= 20) {
            return Err(broken(format!("the label of picture {} is {labels:?}, out of range", i + 1)));
        }
        part.pixels.extend_from_slice(pixels);
        part.classes.push(class);
        part.coarse.extend_from_slice(&labels[..label_bytes - 1]);
    }
    Ok(())
}

/// Names, one a line, if the file is there.
fn names(dir: &Path, file: &str, count: usize) -> Result<Option<Vec<String>>, DataError> {
    let path = dir.join(file);
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = file::read(&path)?;
    let text = String::from_utf8_lossy(&bytes);
    let names: Vec<String> = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect();
    if names.len() != count {
        let problem = format!("{file} names {} classes, there are {count}; mend it, or take it away", names.len());
        return Err(DataError::Folder { dir: dir.escaped(), problem });
    }
    Ok(Some(names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{Channels, Pictures};
    use std::io::Write;

    fn record(labels: &[u8], value: u8) -> Vec<u8> {
        let mut record = labels.to_vec();
        for channel in 0..3 {
            record.extend([value + channel; 1024]);
        }
        record
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn a_directory_of_ten() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("data_batch_1.bin"), [record(&[3], 10), record(&[9], 20)].concat()).unwrap();
        fs::write(dir.path().join("data_batch_1.bin.gz"), b"the plain one is taken").unwrap();
        fs::write(dir.path().join("data_batch_2.bin.gz"), gzip(&record(&[0], 30))).unwrap();
        fs::write(dir.path().join("test_batch.bin"), record(&[1], 40)).unwrap();
        let cifar = read_cifar(dir.path()).unwrap();
        assert_eq!(cifar.labels[3], "cat");
        let (train, test) = cifar.clone().datasets().unwrap();
        assert_eq!((train.rows, test.rows, train.width(), train.outputs()), (3, 1, 3072, 10));
        assert_eq!(train.target, Target::Classes { data: vec![3, 9, 0], classes: 10 });
        let (train, _) = cifar.grids("cifar").unwrap();
        assert_eq!(train.unwrap().load(1, Channels::Rgb).unwrap().pixels[..6], [20, 21, 22, 20, 21, 22]);
        let one = read_cifar(dir.path().join("test_batch.bin")).unwrap();
        assert_eq!((one.train, one.test.unwrap().classes), (None, vec![1]));
    }

    #[test]
    fn a_directory_of_a_hundred() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("train.bin"), record(&[19, 99], 1)).unwrap();
        let fine: String = (0..100).map(|i| format!("thing {i}\n")).collect();
        fs::write(dir.path().join("fine_label_names.txt"), &fine).unwrap();
        let cifar = read_cifar(dir.path()).unwrap();
        assert_eq!(
            (cifar.kind, &cifar.labels[99][..], &cifar.coarse_labels[19][..]),
            (Kind::Hundred, "thing 99", "19")
        );
        let part = cifar.train.unwrap();
        assert_eq!((part.classes, part.coarse), (vec![99], vec![19]));
        fs::write(dir.path().join("fine_label_names.txt"), "only\none more\n").unwrap();
        assert!(read_cifar(dir.path()).unwrap_err().to_string().contains("names 2 classes"));
    }

    #[test]
    fn broken_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let message = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            let message = read_cifar(&path).unwrap_err().to_string();
            fs::remove_file(path).unwrap();
            message
        };
        let whole = record(&[3], 1);
        assert!(message("test_batch.bin", &whole[..3000]).contains("cut short"));
        assert!(message("test_batch.bin", b"").contains("cut short"));
        assert!(message("test_batch.bin", &record(&[10], 1)).contains("picture 1 is [10], out of range"));
        assert!(message("other.bin", &whole[..100]).contains("neither"));
        assert!(message("test_batch.bin.gz", &gzip(&whole)[..40]).contains("ends early"));
        assert!(read_cifar(dir.path()).unwrap_err().to_string().contains("no CIFAR files"));
        assert!(read_cifar(dir.path().join("none.bin")).unwrap_err().to_string().contains("no such file"));
    }
}
