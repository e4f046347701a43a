//! IDX, the format MNIST ships in, plain or gzipped: a big-endian header and the bytes.

use std::path::{Path, PathBuf};

use crate::dataset::{Dataset, Features, Target};
use crate::error::DataError;
use crate::escape::Escaped;
use crate::file::{self, Promise};

/// Grey pictures of one size, row-major.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    pub count: usize,
    pub height: usize,
    pub width: usize,
    /// `count · height · width` bytes.
    pub pixels: Vec<u8>,
}

/// The four files of an MNIST-like directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mnist {
    pub train: (Images, Vec<u8>),
    pub test: (Images, Vec<u8>),
    /// Number of classes: one more than the largest label.
    pub classes: usize,
}

/// Reads an IDX file of pictures (magic 2051).
pub fn read_images(path: impl AsRef<Path>) -> Result<Images, DataError> {
    let ([count, height, width], pixels) = read_idx(path.as_ref(), 2051, "images")?;
    Ok(Images { count, height, width, pixels })
}

/// Reads an IDX file of labels (magic 2049).
pub fn read_labels(path: impl AsRef<Path>) -> Result<Vec<u8>, DataError> {
    let ([_], labels) = read_idx(path.as_ref(), 2049, "labels")?;
    Ok(labels)
}

/// Reads a directory with the four files, `train-images-idx3-ubyte` and so on, plain or `.gz`.
pub fn mnist_dir(dir: impl AsRef<Path>) -> Result<Mnist, DataError> {
    let dir = dir.as_ref();
    let wanted = [
        ("train-images", "idx3-ubyte"),
        ("train-labels", "idx1-ubyte"),
        ("t10k-images", "idx3-ubyte"),
        ("t10k-labels", "idx1-ubyte"),
    ];
    let paths = wanted.map(|(stem, kind)| find(dir, stem, kind));
    let missing: Vec<String> = wanted
        .iter()
        .zip(&paths)
        .filter(|(_, path)| path.is_none())
        .map(|((stem, kind), _)| format!("{stem}-{kind}[.gz]"))
        .collect();
    let [Some(train_images), Some(train_labels), Some(test_images), Some(test_labels)] = paths else {
        return Err(DataError::Folder {
            dir: dir.escaped(),
            problem: format!("an MNIST directory lacks {}", missing.join(", ")),
        });
    };
    let train = pair(&train_images, &train_labels)?;
    let test = pair(&test_images, &test_labels)?;
    if (train.0.height, train.0.width) != (test.0.height, test.0.width) {
        return Err(DataError::Folder {
            dir: dir.escaped(),
            problem: format!(
                "training images of {}×{} pixels, test images of {}×{}",
                train.0.height, train.0.width, test.0.height, test.0.width
            ),
        });
    }
    let classes = class_count(&train_labels, &train.1)?;
    if let Some(at) = test.1.iter().position(|label| *label as usize >= classes) {
        return Err(label_error(&test_labels, at, test.1[at], classes));
    }
    Ok(Mnist { train, test, classes })
}

/// A data set of pictures kept as bytes, `(byte / 255 - mean) / std` when used; `mean_std` is that
/// of these pixels when not given (give the training pictures' own to the test pictures).
pub fn image_dataset(
    images: Images,
    labels: &[u8],
    classes: usize,
    mean_std: Option<(f32, f32)>,
) -> Result<Dataset, DataError> {
    let (mean, std) = mean_std.unwrap_or_else(|| pixel_mean_std(&images));
    if !(mean.is_finite() && std.is_finite() && std > 0.0) {
        return Err(DataError::Inconsistent(format!("pixels cannot be scaled with mean {mean} and deviation {std}")));
    }
    if images.count != labels.len() {
        return Err(DataError::Inconsistent(format!("{} images with {} labels", images.count, labels.len())));
    }
    Dataset::new(
        images.count,
        Features::U8 {
            width: images.height.saturating_mul(images.width),
            data: images.pixels,
            scale: 1.0 / (255.0 * std),
            shift: -mean / std,
        },
        Target::Classes { data: labels.iter().map(|label| *label as i32).collect(), classes },
    )
}

/// Mean and deviation of `byte / 255` over all pixels; a deviation of 1 where all are alike.
pub fn pixel_mean_std(images: &Images) -> (f32, f32) {
    // Sums of whole numbers are exact: at most 2⁶⁴ / 255² ≈ 2⁴⁸ pixels fit.
    let (mut sum, mut squares) = (0u64, 0u64);
    for block in images.pixels.chunks(1 << 16) {
        sum += block.iter().map(|pixel| *pixel as u32).sum::<u32>() as u64;
        squares += block.iter().map(|pixel| *pixel as u32 * *pixel as u32).sum::<u32>() as u64;
    }
    let count = images.pixels.len().max(1) as u128;
    let spread = count * squares as u128 - sum as u128 * sum as u128; // count² · variance
    let mean = sum as f64 / (255.0 * count as f64);
    let std = (spread as f64).sqrt() / (255.0 * count as f64);
    (mean as f32, if std > 0.0 { std as f32 } else { 1.0 })
}

/// The sizes in the header and the bytes behind it, which are as many as the sizes say.
fn read_idx<const DIMS: usize>(path: &Path, magic: u32, what: &str) -> Result<([usize; DIMS], Vec<u8>), DataError> {
    let read = file::read_promised(path, 4 + 4 * DIMS, |header| {
        let found = number(header, 0).ok_or("its header is cut short")?;
        if found != magic {
            return Err(match found {
                2049 => format!("it holds labels, not {what}"),
                2051 => format!("it holds images, not {what}"),
                _ => format!("it begins with {found:#010x}, a file of {what} with {magic:#010x}"),
            });
        }
        let sizes = sizes::<DIMS>(header).ok_or("its header is cut short")?;
        sizes
            .iter()
            .try_fold(1u64, |product, size| product.checked_mul(*size as u64))
            .filter(|bytes| *bytes < 1 << 48)
            .ok_or_else(|| format!("its header promises {sizes:?} {what}, more than any file holds"))
    });
    let broken = |problem: String| DataError::Binary { file: file::name(path), format: "IDX", problem };
    let (header, body) = read.map_err(|error| match error {
        Promise::File(error) => error,
        Promise::Broken(problem) => broken(problem),
    })?;
    let sizes = sizes::<DIMS>(&header).ok_or_else(|| broken("its header is cut short".into()))?;
    if sizes.contains(&0) {
        return Err(broken(format!("it holds no {what}: sizes {sizes:?}")));
    }
    Ok((sizes, body))
}

fn sizes<const DIMS: usize>(header: &[u8]) -> Option<[usize; DIMS]> {
    let mut sizes = [0; DIMS];
    for (dim, size) in sizes.iter_mut().enumerate() {
        *size = number(header, dim + 1)? as usize;
    }
    Some(sizes)
}

/// The big-endian number at place `at` of the header.
fn number(header: &[u8], at: usize) -> Option<u32> {
    let bytes = header.get(4 * at..4 * at + 4)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// `train-images-idx3-ubyte`, `train-images.idx3-ubyte`, either also `.gz`.
fn find(dir: &Path, stem: &str, kind: &str) -> Option<PathBuf> {
    ["-", "."]
        .iter()
        .flat_map(|joint| ["", ".gz"].map(|ext| dir.join(format!("{stem}{joint}{kind}{ext}"))))
        .find(|path| path.is_file())
}

fn pair(images: &Path, labels: &Path) -> Result<(Images, Vec<u8>), DataError> {
    let (pictures, answers) = (read_images(images)?, read_labels(labels)?);
    if pictures.count != answers.len() {
        return Err(DataError::Binary {
            file: file::name(images),
            format: "IDX",
            problem: format!(
                "{} images, but {} labels in {}; one of them is another set's",
                pictures.count,
                answers.len(),
                file::name(labels)
            ),
        });
    }
    Ok((pictures, answers))
}

/// Labels go from 0 (or 1) up without a gap; a damaged one stands apart.
fn class_count(path: &Path, labels: &[u8]) -> Result<usize, DataError> {
    let broken = |problem: String| DataError::Binary { file: file::name(path), format: "IDX", problem };
    if let Some(only) = labels.first().filter(|first| labels.iter().all(|label| label == *first)) {
        let problem =
            format!("there is only one class, all labels are {only}, so there is nothing to learn; add others");
        return Err(broken(problem));
    }
    let mut seen = [false; 256];
    labels.iter().for_each(|label| seen[*label as usize] = true);
    let classes = (1..256).find(|class| !seen[*class]).unwrap_or(256);
    match labels.iter().position(|label| *label as usize >= classes) {
        Some(at) => Err(broken(format!(
            "label {} is {}, yet no training label is {classes}; number the classes from 0 up without a gap",
            at + 1,
            labels[at]
        ))),
        None => Ok(classes),
    }
}

/// A test label that no training label equals.
fn label_error(path: &Path, at: usize, label: u8, classes: usize) -> DataError {
    DataError::Binary {
        file: file::name(path),
        format: "IDX",
        problem: format!(
            "label {} is {label}, out of range: the training labels go from 0 to {}",
            at + 1,
            classes.saturating_sub(1)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn idx(magic: u32, sizes: &[u32], body: &[u8]) -> Vec<u8> {
        let mut bytes = magic.to_be_bytes().to_vec();
        sizes.iter().for_each(|size| bytes.extend(size.to_be_bytes()));
        bytes.extend(body);
        bytes
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn images(bytes: &[u8]) -> Result<Images, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x-idx3-ubyte");
        std::fs::write(&path, bytes).unwrap();
        read_images(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn plain_and_gzip() {
        let bytes = idx(2051, &[2, 1, 3], &[1, 2, 3, 4, 5, 6]);
        let got = images(&bytes).unwrap();
        assert_eq!((got.count, got.height, got.width), (2, 1, 3));
        assert_eq!(got.pixels, [1, 2, 3, 4, 5, 6]);
        assert_eq!(images(&gzip(&bytes)).unwrap(), got);
    }

    #[test]
    fn bad_files_are_refused() {
        let good = idx(2051, &[2, 1, 3], &[1, 2, 3, 4, 5, 6]);
        for cut in 0..good.len() {
            assert!(images(&good[..cut]).is_err());
        }
        let zipped = gzip(&good);
        for cut in 0..zipped.len() {
            assert!(images(&zipped[..cut]).is_err(), "{cut}");
        }
        assert!(images(&gzip(&good[..20])).unwrap_err().contains("promises 6 bytes"));
        let huge = idx(2051, &[u32::MAX; 3], &[0; 6]);
        assert!(images(&huge).unwrap_err().contains("more than any file"));
        let large = idx(2051, &[1 << 20, 1 << 10, 1 << 10], &[0; 6]);
        assert!(images(&large).unwrap_err().contains("cut short"));
        assert!(images(&gzip(&large)).unwrap_err().contains("room for at most"));
        assert!(images(&idx(2051, &[1, 1, 1], &[0; 6])).unwrap_err().contains("goes on"));
        assert!(images(&idx(2049, &[6], &[0; 6])).unwrap_err().contains("labels"));
        assert!(images(&idx(2051, &[0, 28, 28], &[])).unwrap_err().contains("no images"));
    }

    #[test]
    fn directories() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
        let error = mnist_dir(dir.path()).unwrap_err().to_string();
        assert!(error.contains("train-images-idx3-ubyte[.gz], train-labels"), "{error}");
        write("train-images.idx3-ubyte", &idx(2051, &[3, 1, 1], &[0, 128, 255]));
        write("train-labels-idx1-ubyte.gz", &gzip(&idx(2049, &[3], &[0, 1, 2])));
        write("t10k-images-idx3-ubyte", &idx(2051, &[1, 1, 1], &[9]));
        write("t10k-labels-idx1-ubyte", &idx(2049, &[1], &[2]));
        let mnist = mnist_dir(dir.path()).unwrap();
        assert_eq!(mnist.classes, 3);
        let (images, labels) = mnist.train;
        let (mean, std) = pixel_mean_std(&images);
        let set = image_dataset(images, &labels, 3, None).unwrap();
        match set.features {
            Features::U8 { scale, shift, .. } => {
                let value = 255.0 * scale + shift;
                assert!((value - (1.0 - mean) / std).abs() < 1e-6);
            }
            Features::F32 { .. } | Features::I32 { .. } => panic!("not bytes"),
        }
        write("t10k-labels-idx1-ubyte", &idx(2049, &[1], &[3]));
        assert!(mnist_dir(dir.path()).unwrap_err().to_string().contains("out of range"));
        write("t10k-labels-idx1-ubyte", &idx(2049, &[2], &[0, 1]));
        assert!(mnist_dir(dir.path()).unwrap_err().to_string().contains("2 labels"));
        write("t10k-labels-idx1-ubyte", &idx(2049, &[1], &[0]));
        write("train-labels-idx1-ubyte.gz", &idx(2049, &[3], &[0, 200, 1]));
        assert!(mnist_dir(dir.path()).unwrap_err().to_string().contains("label 2 is 200, yet no training label is 2"));
        for only in [0, 3, 200] {
            write("train-labels-idx1-ubyte.gz", &idx(2049, &[3], &[only; 3]));
            let error = mnist_dir(dir.path()).unwrap_err().to_string();
            assert!(error.contains(&format!("only one class, all labels are {only}")), "{error}");
        }
    }

    #[test]
    fn a_gzip_bomb_that_keeps_its_promise_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t10k-labels-idx1-ubyte.gz");
        let mut out = flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::fast());
        out.write_all(&idx(2049, &[300 << 20], &[])).unwrap();
        (0..300).for_each(|_| out.write_all(&[0; 1 << 20]).unwrap());
        out.finish().unwrap();
        let message = read_labels(&path).unwrap_err().to_string();
        assert!(message.contains("expands more than 200 times") && message.contains("gunzip"), "{message}");
    }
}
