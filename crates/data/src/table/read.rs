//! Picks the reader by the first bytes of a file, and holds what all readers share.

use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

use super::cell::MissingTokens;
use super::watched::Watched;
use super::{Column, MISSING, ReadOptions, Reading, Table, Values, find_column};
use super::{arrow, delimited, npy, npz, parquet, rows};
use crate::encoding::{self, TextEncoding, has_zeros};
use crate::error::{DataError, Place};
use crate::file;

impl Table {
    /// Reads delimited text (`.csv`, `.tsv`, `.txt`, `.data` …), Parquet, Arrow IPC (Feather), NPY or NPZ, each also
    /// as `.gz` or `.zst`. The first bytes tell what it is, not the name.
    pub fn read(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Table, DataError> {
        let path = path.as_ref();
        // Parquet is read in parts, so that a projection spares the reading too. A pipe has no parts.
        if file::check_readable(path)?.is_file() {
            let watched = Watched::open(path)?;
            let head = watched.read(0, watched.len().min(4) as usize)?;
            if head == parquet::MAGIC {
                return parquet::read(&watched.name(), watched.into(), options);
            }
        }
        let bytes = file::read_within(path, options.most_bytes)?;
        Table::from_bytes(&file::name(path), &bytes, options)
    }

    /// As [`Table::read`], from bytes already in memory; `name` is used in messages.
    pub fn from_bytes(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<Table, DataError> {
        let plain = file::uncompressed_name(name);
        if bytes.starts_with(npy::MAGIC) || (plain.ends_with(".npy") && !bytes.is_empty()) {
            refuse_text_options(name, "NPY", options)?;
            return finish(keep_columns(npy::parse(name, bytes)?, options)?, options, 0);
        }
        if bytes.starts_with(npz::MAGIC) {
            refuse_text_options(name, "NPZ", options)?;
            return finish(keep_columns(npz::parse(name, bytes)?, options)?, options, 0);
        }
        if bytes.starts_with(parquet::MAGIC) {
            return parquet::read(name, bytes::Bytes::copy_from_slice(bytes).into(), options);
        }
        if bytes.starts_with(arrow::MAGIC) || bytes.starts_with(arrow::STREAM_MAGIC) {
            return arrow::read(name, bytes, options);
        }
        refuse_other_formats(name, bytes)?;
        delimited::parse(name, &text_of(name, bytes, options.encoding)?, options)
    }
}

/// What says how text is cut into cells is of no use for formats that say it themselves.
pub(super) fn refuse_text_options(file: &str, format: &str, options: &ReadOptions) -> Result<(), DataError> {
    let given = [
        ("--delimiter", options.delimiter.is_some()),
        ("--header", options.header.is_some()),
        ("--encoding", options.encoding.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(DataError::Unsupported {
            file: file.to_owned(),
            what: format!("{flag} says how a text is read, and this is {format}"),
            next: format!("leave {flag} out"),
        }),
    }
}

/// The columns that are asked for.
fn keep_columns(table: Table, options: &ReadOptions) -> Result<Table, DataError> {
    let names: Vec<String> = table.names().map(str::to_owned).collect();
    let chosen = select_columns(&table.name, &names, &options.columns)?;
    Ok(keep(table, &chosen))
}

/// Some of the columns; `chosen` is rising.
pub(super) fn keep(mut table: Table, chosen: &[usize]) -> Table {
    let mut index = 0;
    table.columns.retain(|_| {
        index += 1;
        chosen.binary_search(&(index - 1)).is_ok()
    });
    table
}

/// What the options say about a table of typed columns; rows are counted from `first_row` in messages.
pub(super) fn finish(mut table: Table, options: &ReadOptions, first_row: usize) -> Result<Table, DataError> {
    check_numbers(&mut table, &MissingTokens::new(&options.missing), first_row)?;
    for index in text_columns(&table, options)? {
        let column = &mut table.columns[index];
        if let Values::Number(_) = column.values {
            let (codes, labels) = column.labels();
            column.values = Values::Text { codes: codes.into_owned(), labels: labels.into_owned() };
        }
    }
    Ok(table)
}

/// The columns that are to be text.
fn text_columns(table: &Table, options: &ReadOptions) -> Result<Vec<usize>, DataError> {
    let mut columns = options.text.iter().map(|spec| table.column(spec)).collect::<Result<Vec<_>, _>>()?;
    let expected = |(index, name): (usize, &str)| options.expect_text.iter().any(|text| text == name).then_some(index);
    columns.extend(table.names().enumerate().filter_map(expected));
    Ok(columns)
}

/// Numbers that stand for missing become so; infinite ones are an error, as in text.
fn check_numbers(table: &mut Table, missing: &MissingTokens, first_row: usize) -> Result<(), DataError> {
    for (index, column) in table.columns.iter_mut().enumerate() {
        let Values::Number(values) = &mut column.values else { continue };
        if missing.has_numbers() {
            values.iter_mut().filter(|value| missing.is_number(**value)).for_each(|value| *value = f64::NAN);
        }
        if let Some(row) = values.iter().position(|value| value.is_infinite()) {
            return Err(DataError::Cell {
                place: Box::new(Place {
                    file: table.name.clone(),
                    line: None,
                    row: first_row + row + 1,
                    column: column.name.clone(),
                    index,
                }),
                problem: "the value is infinite".to_owned(),
                next: format!(
                    "correct it, set it to NaN, or mark it as missing with --missing {}",
                    if values[row] > 0.0 { "inf" } else { "-inf" }
                ),
            });
        }
    }
    Ok(())
}

/// The indices of the columns that are asked for, rising; all if none is.
pub(super) fn select_columns(file: &str, names: &[String], wanted: &[String]) -> Result<Vec<usize>, DataError> {
    if wanted.is_empty() {
        return Ok((0..names.len()).collect());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut chosen = wanted.iter().map(|spec| find_column(file, &names, spec)).collect::<Result<Vec<_>, _>>()?;
    chosen.sort();
    chosen.dedup();
    Ok(chosen)
}

/// Empty names become the index; a name that was there before gets a number.
pub(super) fn unique_names(names: &mut [String]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, name) in names.iter_mut().enumerate() {
        if name.is_empty() {
            *name = index.to_string();
        }
        let base = name.clone();
        let mut copy = seen.get(&base).copied().unwrap_or(0);
        while seen.contains_key(name.as_str()) {
            copy += 1;
            *name = format!("{base}.{copy}");
        }
        seen.insert(base, copy);
        seen.entry(name.clone()).or_insert(0);
    }
}

/// Tables of the same columns, one below the other.
pub(crate) fn concat(tables: Vec<Table>) -> Result<Table, DataError> {
    let Some(first) = tables.first() else {
        return Err(DataError::Inconsistent("no tables to put together".into()));
    };
    let (name, header) = (first.name.clone(), first.header);
    let mut reading = Reading::default();
    let names: Vec<String> = first.names().map(str::to_owned).collect();
    let rows: usize = tables.iter().map(|table| table.rows).sum();
    if let Some(other) = tables.iter().find(|table| !table.names().eq(names.iter().map(String::as_str))) {
        return Err(DataError::Inconsistent(format!("{}: columns other than those of {name}", other.name)));
    }
    if rows >= MISSING as usize {
        return Err(too_many_rows(&name));
    }
    let mut columns: Vec<Vec<Values>> = names.iter().map(|_| Vec::new()).collect();
    for table in tables {
        columns.iter_mut().zip(table.columns).for_each(|(parts, column)| parts.push(column.values));
        reading.add(table.reading);
    }
    let columns = names.into_iter().zip(columns);
    let columns = columns.map(|(name, parts)| Column { name, values: join_values(parts) }).collect();
    Ok(Table { name, columns, rows, header, reading })
}

/// The parts of a column below each other; numbers become labels where a part is text.
pub(super) fn join_values(mut parts: Vec<Values>) -> Values {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    if parts.iter().all(|part| matches!(part, Values::Number(_))) {
        let mut all = Vec::new();
        for part in parts {
            if let Values::Number(values) = part {
                all.extend(values);
            }
        }
        return Values::Number(all);
    }
    let mut known: HashMap<String, u32> = HashMap::new();
    let mut all: Vec<u32> = Vec::new();
    let mut labels: Vec<String> = Vec::new();
    for values in parts {
        let part = Column { name: String::new(), values };
        let (codes, words) = part.labels();
        let renamed: Vec<u32> = words
            .iter()
            .map(|word| {
                *known.entry(word.clone()).or_insert_with(|| {
                    labels.push(word.clone());
                    labels.len() as u32 - 1
                })
            })
            .collect();
        all.extend(codes.iter().map(|code| renamed.get(*code as usize).copied().unwrap_or(MISSING)));
    }
    Values::Text { codes: all, labels }
}

pub(super) fn too_many_rows(file: &str) -> DataError {
    DataError::Unsupported {
        file: file.to_owned(),
        what: format!("more than {} rows", MISSING - 1),
        next: "split the file".to_owned(),
    }
}

const PICTURES: &str = "pictures come as a folder that holds a folder of pictures for each class: name that folder";
const JSON: &str = "write one object per line (.jsonl), as pandas' to_json(FILE, orient=\"records\", lines=True) does";
const PICKLE: &str = "save the table as CSV or Parquet, with pandas' to_csv or to_parquet";

/// Kinds of files people have, told by their first bytes.
pub(super) fn refuse_other_formats(name: &str, bytes: &[u8]) -> Result<(), DataError> {
    let known: [(&[u8], &str, &str); 18] = [
        (b"\xff\xd8\xff", "a JPEG picture", PICTURES),
        (b"\x89PNG", "a PNG picture", PICTURES),
        (b"GIF87a", "a GIF picture", "convert it to PNG or JPEG"),
        (b"GIF89a", "a GIF picture", "convert it to PNG or JPEG"),
        (b"II*\0", "a TIFF picture", "convert it to PNG or JPEG"),
        (b"MM\0*", "a TIFF picture", "convert it to PNG or JPEG"),
        (b"%PDF", "a PDF document", "save the table as CSV"),
        (b"FEA1", "a file of the first version of Feather", "save it as Parquet, or as Feather version 2"),
        (b"PARE", "an encrypted Parquet file", "save it without encryption"),
        (b"\xd0\xcf\x11\xe0", "an old Excel file", "save the table as CSV"),
        (b"\x89HDF", "an HDF5 file", "save the table as CSV or NPY"),
        (b"SQLite format 3\0", "an SQLite database", "save the table as CSV: sqlite3 FILE -csv -header 'select …'"),
        (b"\xfd7zXZ\0", "an xz file", "decompress it with unxz, or save it as .gz or .zst"),
        (b"BZh", "a bzip2 file", "decompress it with bunzip2, or save it as .gz or .zst"),
        (b"\x80\x02", "a Python pickle", PICKLE),
        (b"\x80\x03", "a Python pickle", PICKLE),
        (b"\x80\x04", "a Python pickle", PICKLE),
        (b"\x80\x05", "a Python pickle", PICKLE),
    ];
    let webp = (&b"RIFF"[..], "a WebP picture", PICTURES);
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    let array = (&b"["[..], "a JSON array", JSON);
    let is_array = is_json_array(bytes);
    let found = known.iter().find(|(magic, ..)| bytes.starts_with(magic));
    match found.or(is_webp.then_some(&webp)).or(is_array.then_some(&array)) {
        None => Ok(()),
        Some((_, what, next)) => {
            Err(DataError::Unsupported { file: name.to_owned(), what: (*what).to_owned(), next: (*next).to_owned() })
        }
    }
}

/// An array of objects or of arrays. A lone bracket may begin a table, too.
fn is_json_array(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let inside = bytes.trim_ascii_start().strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    inside.is_some_and(|inside| inside.starts_with(b"{") || inside.starts_with(b"["))
}

/// The bytes as text without a byte order mark.
pub(super) fn text_of<'a>(
    name: &str,
    bytes: &'a [u8],
    encoding: Option<TextEncoding>,
) -> Result<Cow<'a, str>, DataError> {
    if !has_zeros(bytes, encoding) {
        refuse_binary(name, bytes, || 0)?;
    }
    encoding::text_of(name, bytes, encoding, rows::line_at)
}

/// Text holds no byte of zeros; `lines_before` counts the lines in front of these bytes.
pub(super) fn refuse_binary(name: &str, bytes: &[u8], lines_before: impl Fn() -> usize) -> Result<(), DataError> {
    let Some(zero) = bytes.iter().position(|byte| *byte == 0) else { return Ok(()) };
    let line = lines_before() + rows::line_at(&bytes[..zero]);
    Err(DataError::Unsupported {
        file: name.to_owned(),
        what: format!("binary data, not a table of text: a byte of zeros in line {line}"),
        next: "remove it; tables are read from delimited text (.csv, .tsv, .txt), JSON lines, Parquet, Arrow, .npy and .npz"
            .to_owned(),
    })
}

/// Runs a decoder of another crate. Those of `parquet` and `arrow-ipc` panic on some damaged files, which the tests have:
/// that becomes an error. The hook of panics is left alone, so the panic may still be printed.
pub(super) fn guarded<T>(
    file: &str,
    format: &'static str,
    decode: impl FnOnce() -> Result<T, DataError>,
) -> Result<T, DataError> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| {
        Err(DataError::Binary {
            file: file.to_owned(),
            format,
            problem: "its bytes make no sense to the decoder; it is damaged, copy or download it again".to_owned(),
        })
    })
}

/// `make` of 0, 1, … on all cores; the first error in that order.
pub(crate) fn parallel<T: Send>(
    count: usize,
    make: impl Fn(usize) -> Result<T, DataError> + Sync,
) -> Result<Vec<T>, DataError> {
    let threads = available_parallelism().map_or(1, NonZero::get).min(count);
    if threads <= 1 {
        return (0..count).map(make).collect();
    }
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let made: Mutex<Vec<Option<Result<T, DataError>>>> = Mutex::new((0..count).map(|_| None).collect());
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            let result = make(index);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            if let Ok(mut made) = made.lock() {
                made[index] = Some(result);
            }
        }
    };
    thread::scope(|scope| {
        // where no thread can be had, this one does the work
        (1..threads).for_each(|_| drop(thread::Builder::new().spawn_scoped(scope, work)));
        work();
    });
    // Those after a failure may be absent; the failure comes first.
    let made = made.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    made.into_iter().flatten().collect()
}
