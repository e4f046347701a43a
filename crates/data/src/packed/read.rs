//! Reading packed files: in blocks, as a stream; rows of bytes, one by one; or all of it into memory.

use std::path::Path;

use super::disk::Disk;
use super::layout::{Block, ENTRY, Header, PAGE, bytes_begin, decode_index, entry_at, fields_end};
use super::layout::{line_padding, row_crc, u32_at, u64_at};
use super::{FieldStats, Metadata, broken, check_endianness};
use crate::error::DataError;
use crate::schema::Schema;
use crate::slot::FieldMut;
use crate::source::stored::check_room;
use crate::source::{Stored, Stream};
use crate::{file, suggest};

/// Read and checksummed in turn, while it is in the cache of the core.
const PIECE: usize = 1 << 17;
/// Enough for a disk to have two or three blocks of a megabyte to fetch while another is checked.
const READERS: usize = 4;

/// An open packed file. Every block is checked when it is read; a file that changes meanwhile is an error.
pub struct PackedFile {
    name: String,
    disk: Disk,
    metadata: Metadata,
    blocks: Vec<Block>,
    /// The first row of each block, and the number of rows.
    starts: Vec<u32>,
}

impl PackedFile {
    /// Checks the header, the description and the length; the rows are checked when they are read.
    pub fn open(path: impl AsRef<Path>) -> Result<PackedFile, DataError> {
        let path = path.as_ref();
        let name = file::name(path);
        check_endianness(&name)?;
        let disk = Disk::open(path)?;
        if disk.length() == 0 {
            return Err(DataError::Empty { file: name, what: "is empty".into(), next: "pack the rows again".into() });
        }
        let mut page = vec![0; disk.length().min(PAGE) as usize];
        disk.read(0, &mut page)?;
        let header = Header::decode(&name, &page, disk.length())?;
        // the header was checked against the length of the file, and the footer against a limit
        let mut footer = vec![0; (header.json_bytes + header.index_bytes) as usize];
        disk.read(header.footer, &mut footer)?;
        if crc32fast::hash(&footer) != header.crc {
            return Err(broken(
                &name,
                "its description is damaged: the checksum does not fit; copy it or pack it again",
            ));
        }
        let (json, index) = footer.split_at(header.json_bytes as usize);
        let metadata = description(json).map_err(|problem| broken(&name, problem))?;
        let blocks = decode_index(&name, index, header.footer, &metadata)?;
        let mut starts = vec![0];
        starts.extend(blocks.iter().scan(0, |row, block| {
            *row += block.rows;
            Some(*row)
        }));
        Ok(PackedFile { name, disk, metadata, blocks, starts })
    }

    /// The same, its blocks read past the page cache although they are in it.
    #[cfg(test)]
    pub(super) fn past_the_cache(mut self) -> PackedFile {
        self.disk.force_direct();
        self
    }

    pub fn rows(&self) -> u32 {
        self.metadata.rows
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub fn statistics(&self, field: &str) -> Option<&FieldStats> {
        self.metadata.statistics.iter().find(|stats| stats.field == field)
    }

    /// A row of a field of bytes; rows count from 0. Reads and checks these bytes only.
    pub fn bytes(&self, field: &str, row: u32) -> Result<Vec<u8>, DataError> {
        let names = &self.metadata.bytes;
        let Some(at) = names.iter().position(|name| name == field) else {
            let names = names.iter().map(String::as_str);
            return Err(DataError::Inconsistent(format!(
                "{}: no field of bytes {field:?}{}; there are: {}",
                self.name,
                suggest::hint(field, names.clone()),
                suggest::list(names, 8),
            )));
        };
        if row >= self.rows() {
            return Err(DataError::Inconsistent(format!("{}: row {row} of {}", self.name, self.rows())));
        }
        self.disk.check_unchanged()?;
        let number = self.starts.partition_point(|start| *start <= row) - 1;
        let (block, within) = (&self.blocks[number], (row - self.starts[number]) as usize);
        let mut entry = [0; ENTRY as usize];
        self.disk.read(block.offset + entry_at(&self.metadata, block.rows as usize, at, within), &mut entry)?;
        let (start, length, crc) = (u64_at(&entry, 0), u32_at(&entry, 8), u32_at(&entry, 12));
        let begin = bytes_begin(&self.metadata, block.rows as usize);
        if start < begin || start.checked_add(length as u64).is_none_or(|end| end > block.bytes) {
            return Err(self.damaged(number));
        }
        let mut bytes = vec![0; length as usize];
        self.disk.read(block.offset + start, &mut bytes)?;
        match row_crc(row as u64, start, &bytes) == crc {
            true => Ok(bytes),
            false => Err(self.damaged(number)),
        }
    }

    /// All rows of the fields of fixed width in memory, read on all cores, if they take at most `limit` bytes.
    pub fn load(&self, limit: u64) -> Result<Stored, DataError> {
        let bytes = self.rows() as u64 * self.metadata.schema.row_bytes() as u64;
        if bytes > limit {
            return Err(DataError::Unsupported {
                file: self.name.clone(),
                what: format!("its rows need {bytes} bytes of memory, the limit is {limit}"),
                next: "read it as a stream, or raise the limit".into(),
            });
        }
        Stored::from_stream(self)
    }

    /// Reads every byte and checks it; calls `progress(blocks done, of all)`.
    pub fn verify(&self, progress: &mut dyn FnMut(usize, usize)) -> Result<(), DataError> {
        let largest = self.blocks.iter().map(|block| block.bytes).max().unwrap_or(0);
        let mut piece = vec![0; largest.min(PIECE as u64) as usize];
        for (number, block) in self.blocks.iter().enumerate() {
            self.disk.check_unchanged()?;
            let end = fields_end(&self.metadata.schema, block.rows as usize);
            for (range, want) in [(0..end, block.crc), (end..block.bytes, block.tail_crc)] {
                let mut crc = crc32fast::Hasher::new();
                let mut at = range.start;
                while at < range.end {
                    let count = (range.end - at).min(PIECE as u64);
                    self.disk.read(block.offset + at, &mut piece[..count as usize])?;
                    crc.update(&piece[..count as usize]);
                    at += count;
                }
                if crc.finalize() != want {
                    return Err(self.damaged(number));
                }
            }
            progress(number + 1, self.blocks.len());
        }
        Ok(())
    }

    fn damaged(&self, block: usize) -> DataError {
        broken(
            &self.name,
            format!(
                "block {} of {} (rows {} to {}) is damaged: its checksum does not fit; copy the file or pack it again",
                block + 1,
                self.blocks.len(),
                self.starts[block] as u64 + 1,
                self.starts[block + 1],
            ),
        )
    }
}

impl Stream for PackedFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> &Schema {
        &self.metadata.schema
    }

    fn blocks(&self) -> &[u32] {
        &self.starts
    }

    /// Straight into the buffers; from the page cache in pieces that are checksummed while they are in the cache of the core.
    fn read(&self, number: usize, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        let Some(block) = self.blocks.get(number) else {
            return Err(DataError::Inconsistent(format!("{}: block {number} of {}", self.name, self.blocks.len())));
        };
        check_room(&self.name, &self.metadata.schema, block.rows as usize, into)?;
        self.disk.check_unchanged()?;
        let length = fields_end(&self.metadata.schema, block.rows as usize);
        let here = self.disk.read_direct(block.offset, length, into);
        let mut crc = crc32fast::Hasher::new();
        let mut at = block.offset;
        for field in into {
            let bytes = field.bytes_mut();
            for piece in bytes.chunks_mut(PIECE) {
                if !here {
                    self.disk.read(at, piece)?;
                }
                crc.update(piece);
                at += piece.len() as u64;
            }
            // zeros that carry nothing are not read
            let zeros = line_padding(bytes.len() as u64);
            crc.update(zeros);
            at += zeros.len() as u64;
        }
        match crc.finalize() == block.crc {
            true => Ok(()),
            false => Err(self.damaged(number)),
        }
    }

    fn readers(&self) -> usize {
        if self.disk.waits() { READERS } else { 0 }
    }

    fn announce(&self, number: usize) {
        if let Some(block) = self.blocks.get(number) {
            self.disk.announce(block.offset, fields_end(&self.metadata.schema, block.rows as usize));
        }
    }
}

/// The description, with a schema whose sizes can be counted.
fn description(json: &[u8]) -> Result<Metadata, String> {
    let metadata: Metadata =
        serde_json::from_slice(json).map_err(|error| format!("its description makes no sense: {error}"))?;
    let schema = Schema::new(metadata.schema.fields).map_err(|error| error.to_string())?;
    if metadata.bytes.len() > crate::schema::MOST_FIELDS {
        return Err(format!("{} fields of bytes", metadata.bytes.len()));
    }
    Ok(Metadata { schema, ..metadata })
}
