//! Arrow IPC, also called Feather version 2: files, whole or by record batches, and streams.
//!
//! Both hold messages, each a header (a flatbuffer) and a body. A stream has them one after the other, a file lists
//! them in its footer. A message's claims about sizes are held against the bytes that are there before it is decoded.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, Message, MessageHeader, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, Schema};

use super::blocks::{Numbers, TableBlocks, batch_numbers};
use super::cell::MissingTokens;
use super::columnar::{FieldKind, Fields, Part};
use super::read::{finish, guarded, parallel, refuse_text_options, too_many_rows};
use super::watched::Watched;
use super::{MISSING, ReadOptions, Table};
use crate::error::DataError;
use crate::file::{FREE_GROWTH, MAX_GROWTH};

/// The first and the last bytes of an Arrow file.
pub(super) const MAGIC: &[u8] = b"ARROW1";
/// The first bytes of a stream: the mark before each of its messages.
pub(super) const STREAM_MAGIC: &[u8] = &[0xff; 4];

/// A whole file or stream.
pub(super) fn read(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<Table, DataError> {
    refuse_text_options(name, "Arrow", options)?;
    let source = Source { name, bytes: Bytes::Memory(bytes) };
    let (part, fields) = guarded(name, "Arrow", || {
        let layout = match bytes.starts_with(MAGIC) {
            true => source.footer()?,
            false => source.walk()?,
        };
        let fields = Fields::of_schema(name, &layout.schema, options)?;
        let missing = MissingTokens::new(&options.missing);
        let mut decoder = layout.decoder(&fields.places);
        let mut parts = Vec::new();
        let mut rows = 0;
        for block in &layout.messages {
            match source.decode(&mut decoder, block)? {
                None => {}
                Some(batch) => {
                    rows += batch.num_rows();
                    source.check_rows(rows, fields.places.len())?;
                    parts.push(Part::of(&batch, &fields.kinds, &missing).map_err(|problem| source.broken(problem))?);
                }
            }
        }
        Ok((Part::join(parts), fields))
    })?;
    if part.rows() == 0 {
        return Err(no_rows(name));
    }
    let widths = part.widths();
    finish(part.table(name, &fields, &widths), options, 0)
}

/// A file in blocks, its record batches.
pub(super) fn open_blocks(name: &str, file: Watched, options: &ReadOptions) -> Result<ArrowBlocks, DataError> {
    refuse_text_options(name, "Arrow", options)?;
    let source = Source { name, bytes: Bytes::File(&file) };
    let (decoder, fields, batches, starts) = guarded(name, "Arrow", || {
        let layout = source.footer()?;
        let fields = Fields::of_schema(name, &layout.schema, options)?;
        let mut decoder = layout.decoder(&fields.places);
        let (mut batches, mut starts) = (Vec::new(), vec![0u32]);
        let mut rows = 0u64;
        for block in &layout.messages {
            match source.batch_rows(block)? {
                // one without rows is no block, yet as damaged as any other
                None | Some(0) => drop(source.decode(&mut decoder, block)?),
                Some(count) => {
                    rows = rows.saturating_add(count);
                    starts.push(u32::try_from(rows).map_err(|_| too_many_rows(name))?);
                    batches.push(*block);
                }
            }
        }
        Ok((decoder, fields, batches, starts))
    })?;
    if batches.is_empty() {
        return Err(no_rows(name));
    }
    if starts.last() == Some(&MISSING) {
        return Err(too_many_rows(name));
    }
    let missing = MissingTokens::new(&options.missing);
    let mut blocks = ArrowBlocks {
        name: name.to_owned(),
        file,
        decoder,
        fields,
        widths: Vec::new(),
        columns: Vec::new(),
        batches,
        starts,
        missing,
        options: options.clone(),
    };
    blocks.widths = match blocks.fields.fixed_widths() {
        Some(widths) => widths,
        None => blocks.list_widths()?,
    };
    blocks.columns = blocks.fields.columns(&blocks.widths);
    Ok(blocks)
}

pub(super) struct ArrowBlocks {
    name: String,
    file: Watched,
    /// Knows the dictionaries.
    decoder: FileDecoder,
    fields: Fields,
    widths: Vec<usize>,
    columns: Vec<String>,
    batches: Vec<Block>,
    starts: Vec<u32>,
    missing: MissingTokens,
    options: ReadOptions,
}

impl TableBlocks for ArrowBlocks {
    fn name(&self) -> &str {
        &self.name
    }

    fn columns(&self) -> Vec<String> {
        self.columns.clone()
    }

    fn blocks(&self) -> &[u32] {
        &self.starts
    }

    fn read(&self, block: usize) -> Result<Table, DataError> {
        let table = self.part(block)?.table(&self.name, &self.fields, &self.widths);
        finish(table, &self.options, self.starts[block] as usize)
    }

    fn visit_numbers(
        &self,
        block: usize,
        columns: &[usize],
        visit: &mut dyn FnMut(usize, &[Numbers<'_>]) -> bool,
    ) -> Result<bool, DataError> {
        let text = |column: &usize| {
            self.fields.kinds.get(*column) != Some(&FieldKind::Number)
                || self.options.expect_text.contains(&self.columns[*column])
        };
        let changed = self.missing.has_numbers() || !self.options.text.is_empty();
        if changed || self.widths.iter().any(|width| *width != 1) || columns.iter().any(text) {
            return Ok(false);
        }
        let batch = self.batch(block)?;
        let Ok(batch) = batch.project(columns) else { return Ok(false) };
        Ok(batch_numbers(&batch).is_some_and(|numbers| visit(0, &numbers)))
    }
}

impl ArrowBlocks {
    fn batch(&self, block: usize) -> Result<RecordBatch, DataError> {
        let source = Source { name: &self.name, bytes: Bytes::File(&self.file) };
        let place = self
            .batches
            .get(block)
            .ok_or_else(|| DataError::Inconsistent(format!("{}: no block {block}", self.name)))?;
        let batch = guarded(&self.name, "Arrow", || {
            let message = source.message(place)?;
            source.check_rows(message.rows.unwrap_or(0) as usize, self.fields.places.len())?;
            self.decoder.read_record_batch(place, &message.bytes).map_err(|error| source.damaged(error))
        })?;
        let rows = (self.starts[block + 1] - self.starts[block]) as usize;
        match batch {
            Some(batch) if batch.num_rows() == rows => Ok(batch),
            _ => Err(source.broken(format!("a record batch has not the {rows} rows its header promises"))),
        }
    }

    fn part(&self, block: usize) -> Result<Part, DataError> {
        let batch = self.batch(block)?;
        Part::of(&batch, &self.fields.kinds, &self.missing).map_err(|problem| DataError::Binary {
            file: self.name.clone(),
            format: "Arrow",
            problem,
        })
    }

    /// The longest lists of all rows.
    fn list_widths(&self) -> Result<Vec<usize>, DataError> {
        let widths = parallel(self.batches.len(), |block| Ok(self.part(block)?.widths()))?;
        let longest = |at: usize| widths.iter().map(|block| block[at]).max().unwrap_or(1);
        Ok((0..self.fields.kinds.len()).map(longest).collect())
    }
}

/// What the footer, or a stream's first message, says.
struct Layout {
    schema: Arc<Schema>,
    version: MetadataVersion,
    /// Dictionaries and record batches in the order in which they are to be decoded.
    messages: Vec<Block>,
}

impl Layout {
    fn decoder(&self, places: &[usize]) -> FileDecoder {
        FileDecoder::new(self.schema.clone(), self.version).with_projection(places.to_vec())
    }
}

/// The bytes of a message, header and body, and the rows of a record batch.
struct Checked {
    bytes: Buffer,
    rows: Option<i64>,
}

/// Named bytes.
struct Source<'a> {
    name: &'a str,
    bytes: Bytes<'a>,
}

enum Bytes<'a> {
    Memory(&'a [u8]),
    File(&'a Watched),
}

impl Source<'_> {
    fn len(&self) -> u64 {
        match self.bytes {
            Bytes::Memory(bytes) => bytes.len() as u64,
            Bytes::File(file) => file.len(),
        }
    }

    fn part(&self, start: u64, length: u64) -> Result<Vec<u8>, DataError> {
        if start.checked_add(length).is_none_or(|end| end > self.len()) {
            return Err(self.broken(format!(
                "{length} bytes are promised from byte {start} on, the file has {}; it is cut short or damaged",
                self.len()
            )));
        }
        match self.bytes {
            Bytes::Memory(bytes) => Ok(bytes[start as usize..(start + length) as usize].to_vec()),
            Bytes::File(file) => file.read(start, length as usize),
        }
    }

    /// A file's list of messages, at its end.
    fn footer(&self) -> Result<Layout, DataError> {
        let cut = || self.broken("its footer is missing; it is cut short");
        let end = self.len().checked_sub(10).ok_or_else(cut)?;
        let tail: [u8; 10] = self.part(end, 10)?.try_into().map_err(|_| cut())?;
        let length = read_footer_length(tail).map_err(|_| cut())? as u64;
        let start = end.checked_sub(length).ok_or_else(cut)?;
        let bytes = self.part(start, length)?;
        let footer = root_as_footer(&bytes).map_err(|error| self.damaged(error))?;
        let schema = footer.schema().ok_or_else(|| self.broken("its footer has no schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(self.broken("it was written by a machine of another byte order; save it anew on this one"));
        }
        let dictionaries = footer.dictionaries().into_iter().flatten();
        let batches = footer.recordBatches().into_iter().flatten();
        Ok(Layout {
            schema: Arc::new(try_fb_to_schema(schema).map_err(|error| self.damaged(error))?),
            version: footer.version(),
            messages: dictionaries.chain(batches).copied().collect(),
        })
    }

    /// A stream's messages, one after the other.
    fn walk(&self) -> Result<Layout, DataError> {
        let mut layout = None;
        let mut messages = Vec::new();
        let mut at = 0u64;
        while at + 8 <= self.len() {
            let prefix = self.part(at, 8)?;
            let length = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
            if prefix[..4] != *STREAM_MAGIC {
                return Err(self.broken(format!("no message where one should be, at byte {at}")));
            }
            if length == 0 {
                break;
            }
            let header = self.part(at + 8, length as u64)?;
            let message = root_as_message(&header).map_err(|error| self.damaged(error))?;
            let body = message.bodyLength();
            let next = u64::try_from(body).ok().and_then(|body| (at + 8 + length as u64).checked_add(body));
            let next = next.filter(|next| *next <= self.len()).ok_or_else(|| self.broken("it is cut short"))?;
            if let Some(schema) = message.header_as_schema() {
                if !schema.endianness().equals_to_target_endianness() {
                    return Err(self.broken("it was written by a machine of another byte order; save it anew here"));
                }
                let schema = try_fb_to_schema(schema).map_err(|error| self.damaged(error))?;
                layout.get_or_insert((Arc::new(schema), message.version()));
            } else {
                let header = i32::try_from(length + 8).map_err(|_| self.broken("a header is too long"))?;
                messages.push(Block::new(at as i64, header, body));
            }
            at = next;
        }
        let (schema, version) = layout.ok_or_else(|| self.broken("it has no schema"))?;
        Ok(Layout { schema, version, messages })
    }

    /// Decodes a record batch, or takes note of a dictionary.
    fn decode(&self, decoder: &mut FileDecoder, block: &Block) -> Result<Option<RecordBatch>, DataError> {
        let message = self.message(block)?;
        match message.rows {
            None => decoder.read_dictionary(block, &message.bytes).map(|()| None),
            Some(_) => decoder.read_record_batch(block, &message.bytes),
        }
        .map_err(|error: ArrowError| self.damaged(error))
    }

    /// The rows a record batch promises; `None` for a dictionary. Its body is not read.
    fn batch_rows(&self, block: &Block) -> Result<Option<u64>, DataError> {
        let header = self.part(block.offset() as u64, block.metaDataLength().max(0) as u64)?;
        match self.header(&header)?.header_as_record_batch() {
            None => Ok(None),
            Some(batch) => u64::try_from(batch.length()).map(Some).map_err(|_| self.broken("less than 0 rows")),
        }
    }

    /// A message whose claims are possible.
    fn message(&self, block: &Block) -> Result<Checked, DataError> {
        let (header, body) = (block.metaDataLength().max(0) as u64, block.bodyLength().max(0) as u64);
        let bytes = self.part(block.offset() as u64, header.saturating_add(body))?;
        let message = self.header(&bytes[..header as usize])?;
        let rows = match message.header_type() {
            MessageHeader::RecordBatch => message.header_as_record_batch(),
            MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|batch| batch.data()),
            _ => None,
        };
        let batch = rows.ok_or_else(|| self.broken("a message is neither rows nor a dictionary"))?;
        let compressed = batch.compression().is_some();
        let mut room = FREE_GROWTH.max(body.saturating_mul(MAX_GROWTH));
        for buffer in batch.buffers().into_iter().flatten() {
            let place = u64::try_from(buffer.offset()).ok().zip(u64::try_from(buffer.length()).ok());
            let (at, length) = place
                .filter(|(at, length)| at.checked_add(*length).is_some_and(|end| end <= body))
                .ok_or_else(|| self.broken("a column lies outside of its message; it is damaged"))?;
            // A compressed buffer begins with its size when decompressed; -1 if it is not.
            let claim = bytes[(header + at) as usize..(header + at + length) as usize].first_chunk::<8>();
            let claim = claim.map_or(0, |claim| i64::from_le_bytes(*claim).max(0) as u64);
            room = room.checked_sub(claim * compressed as u64).ok_or_else(|| {
                self.broken(format!(
                    "it expands more than {MAX_GROWTH} times, refused as it may fill the memory; \
                     if it is real data, save it without compression"
                ))
            })?;
        }
        let is_batch = message.header_type() == MessageHeader::RecordBatch;
        let rows = is_batch.then(|| batch.length());
        Ok(Checked { bytes: Buffer::from_vec(bytes), rows })
    }

    /// The flatbuffer behind the mark and the length of a message; old files have no mark.
    fn header<'b>(&self, bytes: &'b [u8]) -> Result<Message<'b>, DataError> {
        let skip = if bytes.starts_with(STREAM_MAGIC) { 8 } else { 4 };
        let header = bytes.get(skip..).ok_or_else(|| self.broken("a message is cut short"))?;
        root_as_message(header).map_err(|error| self.damaged(error))
    }

    /// Rows are a claim: columns without values take no bytes.
    fn check_rows(&self, rows: usize, columns: usize) -> Result<(), DataError> {
        if rows >= MISSING as usize {
            return Err(too_many_rows(self.name));
        }
        if rows as u128 * columns as u128 * 8 > (1 << 30).max(self.len() as u128 * 1000) {
            return Err(self.broken(format!(
                "{rows} rows of {columns} columns are too many for {} bytes; it is damaged, or made to fill the memory",
                self.len()
            )));
        }
        Ok(())
    }

    fn damaged(&self, error: impl std::fmt::Display) -> DataError {
        self.broken(format!("{error}; it may be cut short or damaged"))
    }

    fn broken(&self, problem: impl Into<String>) -> DataError {
        DataError::Binary { file: self.name.to_owned(), format: "Arrow", problem: problem.into() }
    }
}

fn no_rows(name: &str) -> DataError {
    DataError::Empty {
        file: name.to_owned(),
        what: "has no rows".to_owned(),
        next: "a table needs at least one row".to_owned(),
    }
}
