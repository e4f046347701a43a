//! Bytes from disk, gzip and zstd undone, with errors that say what to try instead.

use std::fs::{self, File};
use std::io::{self, BufRead, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::bounded;
use crate::error::DataError;
use crate::escape::Escaped;
use crate::memory;
use crate::suggest;

/// A compressed file may grow to this many bytes whatever it holds …
pub(crate) const FREE_GROWTH: u64 = 256 << 20;
/// … and beyond that to this multiple of its own size: real tables stay far below.
pub(crate) const MAX_GROWTH: u64 = 200;
/// No deflate stream expands more than about 1032 times.
const DEFLATE_LIMIT: u64 = 1040;

/// The whole file, decompressed if it is gzip or zstd.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, DataError> {
    read_within(path, None)
}

/// As [`read`]; a compressed file may expand to at most so many bytes.
pub(crate) fn read_within(path: &Path, most: Option<u64>) -> Result<Vec<u8>, DataError> {
    let bytes = read_raw(path)?;
    Ok(decompress_within(&name(path), &bytes, most)?.unwrap_or(bytes))
}

/// A file that is not data, of a limited size, decompressed if it is gzip or zstd.
pub(crate) fn read_small(path: &Path, limit: u64) -> Result<Vec<u8>, DataError> {
    let bytes = bounded::read_small(path, limit).map_err(|error| open_error(path, error))?;
    Ok(decompress(&name(path), &bytes)?.unwrap_or(bytes))
}

/// What gzip or zstd bytes hold; `None` where they are neither.
pub(crate) fn decompress(file: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>, DataError> {
    decompress_within(file, bytes, None)
}

fn decompress_within(file: &str, bytes: &[u8], most: Option<u64>) -> Result<Option<Vec<u8>>, DataError> {
    let limit = Limit::of(bytes.len(), memory::available()).within(most);
    if is_gzip(bytes) {
        return expand(file, limit, MultiGzDecoder::new(bytes), "gzip", "gunzip").map(Some);
    }
    if is_zstd(bytes) {
        let decoder = zstd::Decoder::with_buffer(bytes).map_err(|error| damaged(file, "zstd", &error))?;
        return expand(file, limit, decoder, "zstd", "unzstd").map(Some);
    }
    Ok(None)
}

/// Reads to the end, but not beyond reason.
fn expand(file: &str, limit: Limit, source: impl Read, format: &str, tool: &str) -> Result<Vec<u8>, DataError> {
    let mut out = Vec::new();
    source.take(limit.bytes.saturating_add(1)).read_to_end(&mut out).map_err(|error| damaged(file, format, &error))?;
    if out.len() as u64 > limit.bytes {
        return Err(limit.exceeded(file, tool));
    }
    Ok(out)
}

/// What a compressed file may grow to.
struct Limit {
    bytes: u64,
    by: LimitedBy,
}

/// What sets a limit.
#[derive(PartialEq)]
enum LimitedBy {
    /// The compressed file's own size.
    Size,
    /// Memory that is free.
    FreeMemory,
    /// The memory that data may take.
    DataMemory,
}

impl Limit {
    /// For a file of this size where so much memory is free.
    fn of(size: usize, free: Option<u64>) -> Limit {
        let by_size = FREE_GROWTH.max((size as u64).saturating_mul(MAX_GROWTH));
        match free.map(|free| free / 2).filter(|half| *half < by_size) {
            Some(half) => Limit { bytes: half, by: LimitedBy::FreeMemory },
            None => Limit { bytes: by_size, by: LimitedBy::Size },
        }
    }

    /// At most so many bytes.
    fn within(self, most: Option<u64>) -> Limit {
        match most.filter(|most| *most < self.bytes) {
            Some(bytes) => Limit { bytes, by: LimitedBy::DataMemory },
            None => self,
        }
    }

    fn exceeded(&self, file: &str, tool: &str) -> DataError {
        let size = match self.bytes >> 20 {
            0 => format!("{} bytes", self.bytes),
            mebibytes => format!("{mebibytes} MiB"),
        };
        let problem = match self.by {
            LimitedBy::Size => format!(
                "expands more than {MAX_GROWTH} times, to more than {size}, and may fill the memory; \
                 if it is real data, decompress it with {tool} first"
            ),
            LimitedBy::FreeMemory => format!(
                "expands to more than {size}, half of the memory that is free; \
                 if it is real data, decompress it with {tool} first"
            ),
            LimitedBy::DataMemory => format!(
                "expands to more than {size}, half of the memory for data; \
                 decompress it with {tool} first, so that it is read in blocks, or give it more --memory"
            ),
        };
        DataError::Gzip { file: file.to_owned(), problem }
    }
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
    let limit = Limit::of(bytes.len(), memory::available());
    if gzip && body_bytes > limit.bytes {
        return Err(Promise::File(limit.exceeded(&name(path), "gunzip")));
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
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// A name without the ending that says it is compressed.
pub(crate) fn uncompressed_name(name: &str) -> &str {
    name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name)
}

/// Gzip or zstd, by the first bytes.
pub(crate) fn is_compressed(head: &[u8]) -> bool {
    is_gzip(head) || is_zstd(head)
}

/// What a gzip or zstd stream holds, as it comes.
pub(crate) fn decoded(file: &str, source: Box<dyn Read + Send>) -> Result<Box<dyn Read + Send>, DataError> {
    let mut source = io::BufReader::new(source);
    let gzip = is_gzip(source.fill_buf().map_err(|error| damaged(file, "gzip", &error))?);
    Ok(match gzip {
        true => Box::new(MultiGzDecoder::new(source)),
        false => Box::new(zstd::Decoder::with_buffer(source).map_err(|error| damaged(file, "zstd", &error))?),
    })
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
            path: path.escaped(),
            what: "a directory".into(),
            next: match first_table_in(path) {
                Some(file) => format!("name a file in it, such as {file:?}"),
                None => "name a file in it".into(),
            },
        });
    }
    if !meta.is_file() && !is_pipe(&meta) {
        return Err(DataError::NotAFile {
            path: path.escaped(),
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
    let shown = path.escaped();
    if source.kind() == io::ErrorKind::NotFound {
        DataError::NotFound { hint: missing_hint(path), path: shown }
    } else {
        DataError::Io { path: shown, source }
    }
}

/// Near names in the folder the file was looked for in.
fn missing_hint(path: &Path) -> String {
    if let Ok(target) = fs::read_link(path) {
        return format!(": it is a link to {}, which is not there; correct the link", target.escaped());
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !parent.is_dir() {
        return format!("; nor is there a directory {}", parent.escaped());
    }
    let names = names_in(parent);
    suggest::hint(&name(path), names.iter().map(String::as_str))
}

fn first_table_in(dir: &Path) -> Option<String> {
    let mut names = names_in(dir);
    names.sort();
    names.into_iter().find(|name| {
        let name = uncompressed_name(name);
        [".csv", ".tsv", ".txt", ".data", ".jsonl", ".npy", ".npz", ".parquet", ".arrow", ".feather"]
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

/// Smaller files need no thought: there is little to win.
const FAR_BYTES: u64 = 64 << 20;

/// Whether a file of this length is large and not in the page cache, so that its disk has to be waited for.
pub(crate) fn is_far(file: &File, length: u64) -> bool {
    length >= FAR_BYTES && !is_cached(file, length)
}

/// The same open file once more, with other flags; by its number, since another may have its name by now.
#[cfg(target_os = "linux")]
pub(crate) fn reopen(file: &File, flags: rustix::fs::OFlags) -> Option<File> {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::options().read(true).custom_flags(flags.bits() as i32).open(path).ok()
}

/// Pages that are looked for in the cache; if three quarters are there, so is the file.
#[cfg(target_os = "linux")]
const PROBES: u64 = 32;

/// Whether the page cache has most of the file; also where it does not say.
#[cfg(target_os = "linux")]
fn is_cached(file: &File, length: u64) -> bool {
    use rustix::fs::{Advice, OFlags, fadvise};
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    let Some(file) = reopen(file, OFlags::empty()) else { return true };
    // without this, the system would fetch much around each page that is looked for; so it fetches the page alone
    let _ = fadvise(&file, 0, None, Advice::Random);
    let mut here = 0;
    for probe in 0..PROBES {
        let at = length / PROBES * probe + anywhere(length / PROBES);
        match preadv2(&file, &mut [io::IoSliceMut::new(&mut [0])], at, ReadWriteFlags::NOWAIT) {
            Ok(_) => here += 1,
            Err(Errno::AGAIN) => {}
            Err(_) => return true,
        }
    }
    4 * here >= 3 * PROBES
}

/// A number below `end`, another one each time: what was looked for before is in the cache for that reason.
#[cfg(target_os = "linux")]
fn anywhere(end: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(end) % end.max(1)
}

#[cfg(not(target_os = "linux"))]
fn is_cached(_: &File, _: u64) -> bool {
    true
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_file_grows_to_a_stated_size() {
        let limit = |size, free| Limit::of(size, free).bytes;
        assert_eq!(Limit::of(10 << 20, None).within(Some(7)).bytes, 7);
        assert_eq!(Limit::of(1000, None).within(Some(u64::MAX)).bytes, FREE_GROWTH);
        assert_eq!(limit(1000, None), FREE_GROWTH);
        assert_eq!(limit(10 << 20, Some(64 << 30)), (10 << 20) * MAX_GROWTH);
        assert_eq!(limit(10 << 20, Some(1 << 30)), 512 << 20);
        let said = |free| Limit::of(10 << 20, free).exceeded("t.gz", "gunzip").to_string();
        assert!(said(None).contains("200 times, to more than 2000 MiB"), "{}", said(None));
        assert!(said(Some(1 << 30)).contains("more than 512 MiB, half of the memory"), "{}", said(Some(1 << 30)));
    }

    #[test]
    fn what_was_just_written_is_near() {
        let file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut &file, &vec![7; 1 << 20]).unwrap();
        assert!(is_cached(&file, 1 << 20));
        assert!(!is_far(&file, 1 << 20));
    }
}
