//! Where everything is in a packed file.

use super::{Metadata, broken};
use crate::error::DataError;
use crate::schema::Schema;

/// The format this version writes, and the newest it reads.
pub const FORMAT: u32 = 1;

/// Blocks begin at multiples of this.
pub(super) const PAGE: u64 = 4096;
/// Fields of a block begin at multiples of this.
const LINE: u64 = 64;
/// Most rows in a block.
pub(super) const BLOCK_ROWS: usize = 1 << 16;
/// Larger descriptions belong into a field; 1 GiB is the index of 40 TiB of rows.
pub(super) const LARGEST_FOOTER: u64 = 1 << 30;
/// Start, length and checksum of a row of bytes.
pub(super) const ENTRY: u64 = 16;

pub(super) const MAGIC: &[u8; 8] = b"\x89CITIUS\n";
const INDEX_ENTRY: usize = 24;

/// The first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Of the whole file.
    pub length: u64,
    /// Where the JSON begins; the index follows it and ends the file.
    pub footer: u64,
    pub json_bytes: u64,
    pub index_bytes: u64,
    /// Of JSON and index.
    pub crc: u32,
}

impl Header {
    pub fn encode(&self) -> [u8; PAGE as usize] {
        let mut page = [0; PAGE as usize];
        page[..8].copy_from_slice(MAGIC);
        page[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        for (i, number) in [self.length, self.footer, self.json_bytes, self.index_bytes].into_iter().enumerate() {
            page[16 + 8 * i..24 + 8 * i].copy_from_slice(&number.to_le_bytes());
        }
        page[48..52].copy_from_slice(&self.crc.to_le_bytes());
        let crc = crc32fast::hash(&page[..PAGE as usize - 4]);
        page[PAGE as usize - 4..].copy_from_slice(&crc.to_le_bytes());
        page
    }

    /// Reads the first bytes of a file of `length` bytes; fewer than a page where the file has fewer.
    pub fn decode(file: &str, page: &[u8], length: u64) -> Result<Header, DataError> {
        if !page.starts_with(MAGIC) {
            return Err(broken(
                file,
                match page {
                    [0x1f, 0x8b, ..] => "it is compressed with gzip; decompress it first",
                    _ if MAGIC.starts_with(page) => "it is cut short; copy it or pack it again",
                    _ if page.iter().take(8).all(|byte| *byte == 0) => {
                        "it begins with zeros: it was never finished or its disk failed; pack it again"
                    }
                    _ => "it does not begin as one; was it packed by citius?",
                },
            ));
        }
        let Some((fields, crc)) = page.split_last_chunk::<4>().filter(|_| page.len() as u64 == PAGE) else {
            return Err(broken(
                file,
                format!("it is cut short within its header, at {length} bytes; copy it or pack it again"),
            ));
        };
        if crc32fast::hash(fields) != u32::from_le_bytes(*crc) {
            return Err(broken(file, "its header is damaged: the checksum does not fit; copy it or pack it again"));
        }
        let format = u32_at(fields, 8);
        if format > FORMAT {
            return Err(broken(
                file,
                format!(
                    "written by a newer citius, format {format}; this one reads up to {FORMAT}: update it, \
                     or pack the rows again with this one"
                ),
            ));
        }
        if format == 0 {
            return Err(broken(file, "its header names format 0, which never was; pack it again"));
        }
        let [whole, footer, json_bytes, index_bytes] = [16, 24, 32, 40].map(|at| u64_at(fields, at));
        if length < whole {
            return Err(broken(
                file,
                format!(
                    "it is cut short: {length} of {whole} bytes are there, {} are missing; copy it or pack it again",
                    whole - length
                ),
            ));
        }
        if length > whole {
            return Err(broken(
                file,
                format!("{} bytes follow its end at {whole}; copy it or pack it again", length - whole),
            ));
        }
        let footer_bytes = json_bytes.checked_add(index_bytes);
        let agrees = footer_bytes.and_then(|bytes| bytes.checked_add(footer)) == Some(whole);
        if !agrees || footer_bytes.is_none_or(|bytes| bytes > LARGEST_FOOTER) || footer < PAGE {
            return Err(broken(file, "its header contradicts itself; pack it again"));
        }
        Ok(Header { length: whole, footer, json_bytes, index_bytes, crc: u32_at(fields, 48) })
    }
}

/// A block, as the index has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub offset: u64,
    /// To the next block, zeros included.
    pub bytes: u64,
    pub rows: u32,
    /// Of the fields of fixed width, with the zeros between and behind them.
    pub crc: u32,
    /// Of the rest.
    pub tail_crc: u32,
}

pub(super) fn encode_index(blocks: &[Block]) -> Vec<u8> {
    let mut index = Vec::with_capacity(blocks.len() * INDEX_ENTRY);
    for block in blocks {
        index.extend(block.bytes.to_le_bytes());
        for number in [block.rows, block.crc, block.tail_crc, 0] {
            index.extend(number.to_le_bytes());
        }
    }
    index
}

/// The blocks, checked against the schema and the room before the footer.
pub(super) fn decode_index(
    file: &str,
    index: &[u8],
    footer: u64,
    metadata: &Metadata,
) -> Result<Vec<Block>, DataError> {
    let wrong = || broken(file, "its index contradicts the file; pack it again");
    let (entries, rest) = index.as_chunks::<INDEX_ENTRY>();
    if !rest.is_empty() {
        return Err(wrong());
    }
    let (mut offset, mut rows) = (PAGE, 0u64);
    let mut blocks = Vec::with_capacity(entries.len());
    for entry in entries {
        let [block_rows, crc, tail_crc] = [8, 12, 16].map(|at| u32_at(entry, at));
        let block = Block { offset, bytes: u64_at(entry, 0), rows: block_rows, crc, tail_crc };
        let fits = (1..=BLOCK_ROWS as u32).contains(&block_rows)
            && block.bytes.is_multiple_of(PAGE)
            && block.bytes <= footer - offset
            && block.bytes >= bytes_begin(metadata, block_rows as usize);
        if !fits {
            return Err(wrong());
        }
        offset += block.bytes;
        rows += block_rows as u64;
        blocks.push(block);
    }
    if offset != footer || rows != metadata.rows as u64 {
        return Err(wrong());
    }
    Ok(blocks)
}

/// Bytes that the fields of fixed width take in a block, zeros included. At most 64 · 2⁵⁶: no overflow.
pub(super) fn fields_end(schema: &Schema, rows: usize) -> u64 {
    schema.fields.iter().map(|field| to_line(rows as u64 * field.bytes() as u64)).sum()
}

/// Where in a block the entry of a row of a field of bytes is.
pub(super) fn entry_at(metadata: &Metadata, rows: usize, field: usize, row: usize) -> u64 {
    fields_end(&metadata.schema, rows) + field as u64 * to_line(rows as u64 * ENTRY) + row as u64 * ENTRY
}

/// Where in a block the bytes of rows begin, behind all entries.
pub(super) fn bytes_begin(metadata: &Metadata, rows: usize) -> u64 {
    entry_at(metadata, rows, metadata.bytes.len(), 0)
}

/// The checksum of a row of bytes: its place counts, so that no other row passes for it.
pub(super) fn row_crc(row: u64, start: u64, bytes: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&row.to_le_bytes());
    crc.update(&start.to_le_bytes());
    crc.update(&(bytes.len() as u64).to_le_bytes());
    crc.update(bytes);
    crc.finalize()
}

pub(super) fn to_line(bytes: u64) -> u64 {
    bytes.next_multiple_of(LINE)
}

/// Zeros behind `bytes` bytes up to the next line.
pub(super) fn line_padding(bytes: u64) -> &'static [u8] {
    &[0; LINE as usize][..(to_line(bytes) - bytes) as usize]
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
