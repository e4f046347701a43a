//! Bytes from disk, gzip and zstd undone, with errors that say what to try instead.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::error::DataError;
use crate::suggest;

/// A compressed file may grow to this many bytes whatever it holds …
pub(crate) const FREE_GROWTH: u64 = 256 << 20;
/// … and beyond that to this multiple of its own size: real tables stay far below.
pub(crate) const MAX_GROWTH: u64 = 200;
/// No deflate stream expands more than about 1032 times.
const DEFLATE_LIMIT: u64 = 1040;

/// The whole file, decompressed if it is gzip or zstd.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, DataError> {
    let bytes = read_raw(path)?;
    Ok(decompress(&name(path), &bytes)?.unwrap_or(bytes))
}

/// What gzip or zstd bytes hold; `None` where they are neither.
pub(crate) fn decompress(file: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>, DataError> {
    if is_gzip(bytes) {
        return expand(file, bytes.len(), MultiGzDecoder::new(bytes), "gzip", "gunzip").map(Some);
    }
    if is_zstd(bytes) {
        let decoder = zstd::Decoder::with_buffer(bytes).map_err(|error| damaged(file, "zstd", &error))?;
        return expand(file, bytes.len(), decoder, "zstd", "unzstd").map(Some);
    }
    Ok(None)
}

/// Reads to the end, but not beyond reason.
fn expand(file: &str, size: usize, source: impl Read, format: &str, tool: &str) -> Result<Vec<u8>, DataError> {
    let limit = FREE_GROWTH.max((size as u64).saturating_mul(MAX_GROWTH));
    let mut out = Vec::new();
    source.take(limit + 1).read_to_end(&mut out).map_err(|error| damaged(file, format, &error))?;
    if out.len() as u64 > limit {
        return Err(DataError::Gzip {
            file: file.to_owned(),
            problem: format!(
                "expands more than {MAX_GROWTH} times, refused as it may fill the memory; \
                 if it is real data, decompress it with {tool} first"
            ),
        });
    }
    Ok(out)
}

/// The first `head` bytes, and then exactly the number of bytes that `promised` reads from them.
///
/// Nothing is allocated on the word of a header: the file's own size bounds the promise first.
pub(crate) fn read_promised(
    path: &Path,
    head: usize,
    promised: impl FnOnce(&[u8]) -> Result<u64, String>,
) -> Result<(Vec<u8>, Vec<u8>), Promise> {
    let bytes = read_raw(path).map_err(Promise::File)?;
    let gzip = is_gzip(&bytes);
    let mut source: Box<dyn Read + '_> =
        if gzip { Box::new(MultiGzDecoder::new(&bytes[..])) } else { Box::new(&bytes[..]) };
    let read_error = |error: io::Error| Promise::File(damaged(&name(path), "gzip", &error));

    let mut header = Vec::new();
    (&mut source).take(head as u64).read_to_end(&mut header).map_err(read_error)?;
    let body_bytes = promised(&header).map_err(Promise::Broken)?;
    let possible = match gzip {
        true => (bytes.len() as u64).saturating_mul(DEFLATE_LIMIT),
        false => (bytes.len() - header.len()) as u64,
    };
    if body_bytes > possible {
        return Err(Promise::Broken(format!(
            "its header promises {body_bytes} bytes of data, the file has {}{}; it is cut short or damaged",
            if gzip { "room for at most " } else { "" },
            possible,
        )));
    }
    let mut body = Vec::new();
    (&mut source).take(body_bytes).read_to_end(&mut body).map_err(read_error)?;
    if (body.len() as u64) < body_bytes {
        return Err(Promise::Broken(format!(
            "its header promises {body_bytes} bytes of data, the file has {}; it is cut short or damaged",
            body.len()
        )));
    }
    let mut more = [0];
    if source.read(&mut more).map_err(read_error)? > 0 {
        return Err(Promise::Broken(format!("it goes on after the {body_bytes} bytes of data its header promises")));
    }
    Ok((header, body))
}

/// Why [`read_promised`] failed.
pub(crate) enum Promise {
    /// The file itself.
    File(DataError),
    /// The header and the bytes do not agree.
    Broken(String),
}

/// The first bytes of a file, as they are.
pub(crate) fn head(path: &Path, most: u64) -> Result<Vec<u8>, DataError> {
    check_readable(path)?;
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|error| open_error(path, error))?;
    Ok(bytes)
}

/// The last part of a path, for messages.
pub(crate) fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned())
}

/// A name without the ending that says it is compressed.
pub(crate) fn uncompressed_name(name: &str) -> &str {
    name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name)
}

fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

fn is_zstd(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

fn read_raw(path: &Path) -> Result<Vec<u8>, DataError> {
    check_readable(path)?;
    let mut bytes = Vec::new();
    File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(|error| open_error(path, error))?;
    Ok(bytes)
}

/// A plain file or a pipe, not a directory or a device that never ends.
pub(crate) fn check_readable(path: &Path) -> Result<fs::Metadata, DataError> {
    let meta = fs::metadata(path).map_err(|error| open_error(path, error))?;
    if meta.is_dir() {
        return Err(DataError::NotAFile {
            path: path.display().to_string(),
            what: "a directory".into(),
            next: match first_table_in(path) {
                Some(file) => format!("name a file in it, such as {file:?}"),
                None => "name a file in it".into(),
            },
        });
    }
    if !meta.is_file() && !is_pipe(&meta) {
        return Err(DataError::NotAFile {
            path: path.display().to_string(),
            what: "a device".into(),
            next: "copy its data into a file first".into(),
        });
    }
    Ok(meta)
}

#[cfg(unix)]
fn is_pipe(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    meta.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_: &fs::Metadata) -> bool {
    false
}

pub(crate) fn open_error(path: &Path, source: io::Error) -> DataError {
    let shown = path.display().to_string();
    if source.kind() == io::ErrorKind::NotFound {
        DataError::NotFound { hint: missing_hint(path), path: shown }
    } else {
        DataError::Io { path: shown, source }
    }
}

/// Near names in the folder the file was looked for in.
fn missing_hint(path: &Path) -> String {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !parent.is_dir() {
        return format!("; nor is there a directory {}", parent.display());
    }
    let names = names_in(parent);
    suggest::hint(&name(path), names.iter().map(String::as_str))
}

fn first_table_in(dir: &Path) -> Option<String> {
    let mut names = names_in(dir);
    names.sort();
    names.into_iter().find(|name| {
        let name = uncompressed_name(name);
        [".csv", ".tsv", ".txt", ".data", ".npy", ".npz", ".parquet", ".arrow", ".feather"]
            .iter()
            .any(|ext| name.ends_with(ext))
    })
}

fn names_in(dir: &Path) -> Vec<String> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .take(10_000)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn damaged(file: &str, format: &str, error: &io::Error) -> DataError {
    let problem = match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("the {format} stream ends early"),
        _ => format!("the {format} stream is damaged ({error})"),
    };
    DataError::Gzip { file: file.to_owned(), problem: format!("{problem}; copy or download the file again") }
}

/// Tells the system that these bytes will be read soon, so that it fetches them meanwhile; an order that it cannot
/// foresee would let the disk wait between blocks.
pub(crate) fn announce(file: &File, start: u64, length: u64) {
    #[cfg(target_os = "linux")]
    if let Some(length) = std::num::NonZero::new(length) {
        // Advice: where it is not taken, nothing is lost.
        let _ = rustix::fs::fadvise(file, start, Some(length), rustix::fs::Advice::WillNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, start, length);
}
