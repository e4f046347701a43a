//! Writing packed files: one pass, into a temporary file beside the target that takes its name when all is well.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::layout::{BLOCK_ROWS, Block, ENTRY, Header, LARGEST_FOOTER, PAGE};
use super::layout::{bytes_begin, encode_index, line_padding, row_crc, to_line};
use super::stats::Gatherer;
use super::target::Target;
use super::{Metadata, check_endianness};
use crate::error::DataError;
use crate::escape::Escaped;
use crate::schema::{Kind, MOST_FIELDS, Schema};
use crate::slot::{FieldRef, Heap, Slot};
use crate::{file, suggest};

/// How to pack.
#[derive(Debug, Clone, PartialEq)]
pub struct PackOptions {
    /// What is packed, for people.
    pub source: String,
    /// Whatever else belongs to the rows.
    pub notes: BTreeMap<String, Value>,
    /// Names of further fields, whose rows are bytes of any length.
    pub bytes: Vec<String>,
    /// Replace a file that is already there.
    pub overwrite: bool,
    /// About so many bytes in a block: what is read, checked and shuffled together.
    pub block_bytes: usize,
}

impl Default for PackOptions {
    fn default() -> PackOptions {
        PackOptions {
            source: String::new(),
            notes: BTreeMap::new(),
            bytes: Vec::new(),
            overwrite: false,
            block_bytes: 1 << 20,
        }
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub path: PathBuf,
    pub rows: u32,
    pub blocks: usize,
    /// Of the file.
    pub bytes: u64,
}

/// Writes a packed file row by row or batch by batch. Dropped before [`PackWriter::finish`], it leaves nothing behind.
pub struct PackWriter {
    path: PathBuf,
    block_bytes: u64,
    /// Most rows in a block.
    pub(super) block_rows: usize,
    /// What the footer will say; `statistics` come last.
    metadata: Metadata,
    statistics: Gatherer,
    /// None after a failure.
    target: Option<Target>,
    position: u64,
    blocks: Vec<Block>,
    /// The rows of the block that is being filled.
    slot: Slot,
    filled: usize,
    blobs: Vec<Blobs>,
}

/// A field of bytes in the block that is being filled.
#[derive(Default)]
struct Blobs {
    lengths: Vec<u32>,
    bytes: Vec<u8>,
}

impl PackWriter {
    pub fn create(path: impl AsRef<Path>, schema: &Schema, options: PackOptions) -> Result<PackWriter, DataError> {
        let path = path.as_ref();
        check_endianness(&file::name(path))?;
        let schema = Schema::new(schema.fields.clone())?;
        check_names(&schema, &options.bytes)?;
        check_notes(path, &options.notes)?;
        let block_rows = (options.block_bytes / schema.row_bytes().max(1)).clamp(1, BLOCK_ROWS);
        let slot = Slot::new(&schema, block_rows, &Heap)?;
        let mut target = Target::create(path, options.overwrite)?;
        target.write(&[0; PAGE as usize])?;
        Ok(PackWriter {
            path: path.to_owned(),
            block_bytes: options.block_bytes as u64,
            block_rows,
            statistics: Gatherer::new(&schema),
            blobs: options.bytes.iter().map(|_| Blobs::default()).collect(),
            metadata: Metadata {
                schema,
                bytes: options.bytes,
                rows: 0,
                statistics: Vec::new(),
                source: options.source,
                notes: options.notes,
            },
            target: Some(target),
            position: PAGE,
            blocks: Vec::new(),
            slot,
            filled: 0,
        })
    }

    /// Adds rows: the values of each field, row-major.
    pub fn push(&mut self, fields: &[FieldRef<'_>], rows: usize) -> Result<(), DataError> {
        self.push_with_bytes(fields, &[], rows)
    }

    /// Adds rows of a file with fields of bytes: `bytes[f][row]`. After an error the file cannot be finished.
    pub fn push_with_bytes(
        &mut self,
        fields: &[FieldRef<'_>],
        bytes: &[&[&[u8]]],
        rows: usize,
    ) -> Result<(), DataError> {
        let pushed = self.check_push(fields, bytes, rows).and_then(|()| self.take(fields, bytes, rows));
        if pushed.is_err() {
            self.target = None;
        }
        pushed
    }

    /// Completes the file and gives it its name.
    pub fn finish(mut self) -> Result<Summary, DataError> {
        self.flush()?;
        self.metadata.statistics = std::mem::replace(&mut self.statistics, Gatherer::new(&Schema::default())).finish();
        let json = serde_json::to_vec(&self.metadata).map_err(|error| self.failed(&error.to_string()))?;
        let index = encode_index(&self.blocks);
        let footer_bytes = (json.len() + index.len()) as u64;
        if footer_bytes > LARGEST_FOOTER {
            return Err(self.failed(&format!(
                "its description takes {footer_bytes} bytes, at most {LARGEST_FOOTER} are possible; \
                 use larger blocks, or shorten the notes and the names of classes"
            )));
        }
        let mut crc = crc32fast::Hasher::new();
        crc.update(&json);
        crc.update(&index);
        let header = Header {
            length: self.position + footer_bytes,
            footer: self.position,
            json_bytes: json.len() as u64,
            index_bytes: index.len() as u64,
            crc: crc.finalize(),
        };
        let path = &self.path;
        let mut target = self.target.take().ok_or_else(|| failed_before(path))?;
        target.write(&json)?;
        target.write(&index)?;
        target.finish(&header.encode())?;
        Ok(Summary { path: self.path, rows: self.metadata.rows, blocks: self.blocks.len(), bytes: header.length })
    }

    fn check_push(&self, fields: &[FieldRef<'_>], bytes: &[&[&[u8]]], rows: usize) -> Result<(), DataError> {
        let wrong = |what: String| Err(DataError::Inconsistent(format!("{}: {what}", file::name(&self.path))));
        if self.target.is_none() {
            return Err(failed_before(&self.path));
        }
        let schema = &self.metadata.schema;
        let fits = fields.len() == schema.fields.len()
            && schema.fields.iter().zip(fields).all(|(field, values)| {
                field.kind == kind(values) && rows.checked_mul(field.bytes()) == Some(values.bytes().len())
            });
        if !fits {
            return wrong(format!("values that do not fit {rows} rows of {schema}"));
        }
        if bytes.len() != self.blobs.len() || bytes.iter().any(|field| field.len() != rows) {
            return wrong(format!("{rows} rows need bytes for {}", suggest::list(self.names_of_bytes(), 8)));
        }
        if let Some(blob) = bytes.iter().flat_map(|field| field.iter()).find(|blob| blob.len() > u32::MAX as usize) {
            return wrong(format!("{} bytes in one row, at most {} are possible", blob.len(), u32::MAX));
        }
        if rows > u32::MAX as usize - self.metadata.rows as usize - self.filled {
            return wrong(format!("more than {} rows", u32::MAX));
        }
        Ok(())
    }

    fn names_of_bytes(&self) -> impl Iterator<Item = &str> {
        self.metadata.bytes.iter().map(String::as_str)
    }

    fn take(&mut self, fields: &[FieldRef<'_>], bytes: &[&[&[u8]]], rows: usize) -> Result<(), DataError> {
        let mut at = 0;
        while at < rows {
            // rows of bytes are taken one by one: only then is it known whether the block is full
            let most = if self.blobs.is_empty() { self.block_rows - self.filled } else { 1 };
            let count = most.min(rows - at);
            let mut into = self.slot.rows_mut(self.filled..self.filled + count);
            for ((into, from), field) in into.iter_mut().zip(fields).zip(&self.metadata.schema.fields) {
                into.bytes_mut().copy_from_slice(&from.bytes()[at * field.bytes()..][..count * field.bytes()]);
            }
            drop(into);
            for (blobs, field) in self.blobs.iter_mut().zip(bytes) {
                blobs.lengths.push(field[at].len() as u32);
                blobs.bytes.extend_from_slice(field[at]);
            }
            (at, self.filled) = (at + count, self.filled + count);
            let size = bytes_begin(&self.metadata, self.filled) + self.blobs.iter().map(Blobs::size).sum::<u64>();
            if self.filled == self.block_rows || (!self.blobs.is_empty() && size >= self.block_bytes) {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes the block that has been filled.
    fn flush(&mut self) -> Result<(), DataError> {
        if self.filled == 0 {
            return Ok(());
        }
        let rows = self.filled;
        let fields = self.slot.rows(0..rows);
        self.statistics.add(&fields);
        let path = &self.path;
        let target = self.target.as_mut().ok_or_else(|| failed_before(path))?;
        let mut to = Checked { target, crc: crc32fast::Hasher::new(), written: 0 };
        for field in &fields {
            to.write(field.bytes())?;
            to.write(line_padding(field.bytes().len() as u64))?;
        }
        let crc = std::mem::take(&mut to.crc).finalize();
        let mut start = bytes_begin(&self.metadata, rows);
        for blobs in &self.blobs {
            let entries = blobs.entries(self.metadata.rows as u64, start);
            to.write(&entries)?;
            to.write(line_padding(entries.len() as u64))?;
            start += to_line(blobs.size());
        }
        for blobs in &self.blobs {
            to.write(&blobs.bytes)?;
            to.write(line_padding(blobs.size()))?;
        }
        let bytes = to.written.next_multiple_of(PAGE);
        to.write(&[0; PAGE as usize][..(bytes - to.written) as usize])?;
        let tail_crc = to.crc.finalize();
        self.blocks.push(Block { offset: self.position, bytes, rows: rows as u32, crc, tail_crc });
        self.position += bytes;
        self.metadata.rows += rows as u32;
        self.filled = 0;
        for blobs in &mut self.blobs {
            blobs.lengths.clear();
            blobs.bytes.clear();
        }
        Ok(())
    }

    fn failed(&self, problem: &str) -> DataError {
        DataError::Write { path: self.path.escaped(), problem: problem.to_owned() }
    }
}

impl Blobs {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Start, length and checksum of each row; the bytes begin at `start` of the block, whose first row is `first`.
    fn entries(&self, first: u64, mut start: u64) -> Vec<u8> {
        let mut entries = Vec::with_capacity(self.lengths.len() * ENTRY as usize);
        let mut rest = &self.bytes[..];
        for (row, length) in self.lengths.iter().enumerate() {
            let (bytes, after) = rest.split_at(*length as usize);
            entries.extend(start.to_le_bytes());
            entries.extend(length.to_le_bytes());
            entries.extend(row_crc(first + row as u64, start, bytes).to_le_bytes());
            (rest, start) = (after, start + *length as u64);
        }
        entries
    }
}

/// Counts and checksums what it writes.
struct Checked<'a> {
    target: &'a mut Target,
    crc: crc32fast::Hasher,
    written: u64,
}

impl Checked<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.crc.update(bytes);
        self.written += bytes.len() as u64;
        self.target.write(bytes)
    }
}

fn check_names(schema: &Schema, bytes: &[String]) -> Result<(), DataError> {
    if bytes.len() > MOST_FIELDS {
        return Err(DataError::Inconsistent(format!("{} fields of bytes, at most {MOST_FIELDS}", bytes.len())));
    }
    for (i, name) in bytes.iter().enumerate() {
        if schema.field(name).is_some() || bytes[..i].contains(name) {
            return Err(DataError::Inconsistent(format!("two fields {name:?}")));
        }
    }
    Ok(())
}

/// Notes that could be written but not read again, such as lists in lists in lists …, are refused before the work.
fn check_notes(path: &Path, notes: &BTreeMap<String, Value>) -> Result<(), DataError> {
    let again = serde_json::to_vec(notes).and_then(|json| serde_json::from_slice(&json));
    match again {
        Ok(again) if *notes == again => Ok(()),
        _ => Err(DataError::Inconsistent(format!("{}: notes that JSON cannot hold", file::name(path)))),
    }
}

fn failed_before(path: &Path) -> DataError {
    DataError::Inconsistent(format!("{}: an earlier write failed", file::name(path)))
}

fn kind(values: &FieldRef<'_>) -> Kind {
    match values {
        FieldRef::U8(_) => Kind::U8,
        FieldRef::I32(_) => Kind::I32,
        FieldRef::F32(_) => Kind::F32,
    }
}
