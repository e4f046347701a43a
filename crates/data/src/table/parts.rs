//! A table read once from its beginning to its end, part by part, in bounded memory: rows for a model to predict.
//!
//! What each column holds is known from the model, so a text needs no first pass. That makes pipes readable too.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use super::blocks::{TableBlocks, open_blocks};
use super::delimited::{Beside, Kind, Plan, Source};
use super::read::{parallel, refuse_binary, refuse_other_formats, text_of};
use super::rows::{LONGEST_RECORD, Records, line_at, line_of_row, long_line};
use super::{MISSING, ReadOptions, Table, arrow, find_column, npy, npz, parquet};
use crate::encoding::TextEncoding;
use crate::error::DataError;
use crate::file;
use crate::loader::OnError;
use crate::source::{in_file, pick};

/// Text of a part, at most.
const PART_BYTES: usize = 4 << 20;
/// So much is looked at to see what a text is like.
const HEAD_BYTES: usize = 4 << 20;
/// This path is standard input.
const STANDARD_INPUT: &str = "-";

/// How to read the parts of a table.
#[derive(Debug, Clone, Default)]
pub struct PartOptions {
    pub read: ReadOptions,
    /// Columns that are numbers, whatever the first rows suggest.
    pub numbers: Vec<String>,
    /// Where the table has names, and all of these, no others are read.
    pub needed: Vec<String>,
    /// Columns by name or index whose cells are handed through as they are written.
    pub keep: Vec<String>,
    /// Whether rows that cannot be read fail the table, or are passed over and counted.
    pub on_error: OnError,
    /// Rows of a part.
    pub most_rows: usize,
}

/// Some neighbouring rows.
#[derive(Debug)]
pub struct TablePart {
    pub table: Table,
    /// The number of its first row in the whole table, from 0.
    pub first_row: usize,
    /// Rows of the part that cannot be read, rising, and why; their cells are missing.
    pub unreadable: Vec<(usize, String)>,
    /// Cells of the columns to keep, as they are written.
    pub kept: Vec<Vec<String>>,
}

/// A table that is read part by part.
pub struct TableParts {
    from: PartsFrom,
    options: PartOptions,
    /// Names of the columns to keep.
    kept: Vec<String>,
    rows: usize,
}

enum PartsFrom {
    Text(Box<TextParts>),
    Blocks { blocks: Box<dyn TableBlocks>, next: usize },
    Whole(Option<Table>),
}

impl TableParts {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path, options: PartOptions) -> Result<TableParts, DataError> {
        let standard_input = path == Path::new(STANDARD_INPUT);
        let name = if standard_input { "standard input".to_owned() } else { file::name(path) };
        let mut reader: Box<dyn Read + Send> = match standard_input {
            true => Box::new(io::stdin()),
            false => {
                file::check_readable(path)?;
                Box::new(File::open(path).map_err(|error| file::open_error(path, error))?)
            }
        };
        let mut head = Vec::new();
        read_up_to(&name, reader.as_mut(), &mut head, HEAD_BYTES)?;
        let compressed = file::is_compressed(&head);
        if compressed {
            reader = file::decoded(&name, Box::new(Cursor::new(head).chain(reader)))?;
            head = Vec::new();
            read_up_to(&name, reader.as_mut(), &mut head, HEAD_BYTES)?;
        }
        let binary = [parquet::MAGIC, arrow::MAGIC, arrow::STREAM_MAGIC, npy::MAGIC, npz::MAGIC];
        if let Some(encoding) = TextEncoding::of_file(&head, options.read.encoding)
            && !binary.iter().any(|magic| head.starts_with(magic))
        {
            refuse_other_formats(&name, &head)?;
            reader = Box::new(encoding.reader(Box::new(Cursor::new(head).chain(reader))));
            head = Vec::new();
            read_up_to(&name, reader.as_mut(), &mut head, HEAD_BYTES)?;
        }
        let whole = |head: Vec<u8>, mut reader: Box<dyn Read + Send>| {
            let mut bytes = head;
            reader.read_to_end(&mut bytes).map_err(|source| DataError::Io { path: name.clone(), source })?;
            Table::from_bytes(&name, &bytes, &options.read).map(|table| PartsFrom::Whole(Some(table)))
        };
        let in_blocks = [parquet::MAGIC, arrow::MAGIC].iter().any(|magic| head.starts_with(magic));
        let from = match () {
            () if in_blocks && !compressed && path.is_file() => {
                PartsFrom::Blocks { blocks: open_blocks(path, &options.read)?, next: 0 }
            }
            () if binary.iter().any(|magic| head.starts_with(magic)) => match path.is_file() {
                true => PartsFrom::Whole(Some(Table::read(path, &options.read)?)),
                false => whole(head, reader)?,
            },
            () => {
                refuse_other_formats(&name, &head)?;
                PartsFrom::Text(Box::new(TextParts::new(&name, head, reader, &options)?))
            }
        };
        let mut parts = TableParts { from, options, kept: Vec::new(), rows: 0 };
        parts.kept = parts.find_kept()?;
        Ok(parts)
    }

    /// Names of the columns that are kept, as the table has them.
    pub fn kept(&self) -> &[String] {
        &self.kept
    }

    /// The next parts, as many as there are cores, each with what `work` makes of it; none at the end.
    pub fn next<T: Send>(
        &mut self,
        work: impl Fn(&TablePart) -> Result<T, DataError> + Sync,
    ) -> Result<Vec<(TablePart, T)>, DataError> {
        let count = std::thread::available_parallelism().map_or(1, |cores| cores.get()).min(8);
        let parts = match &mut self.from {
            PartsFrom::Text(text) => {
                let mut chunks = Vec::new();
                while chunks.len() < count
                    && let Some(chunk) = text.chunk(self.options.most_rows)?
                {
                    chunks.push(chunk);
                }
                let text = &text.format;
                let read = parallel(chunks.len(), |i| {
                    Ok(text.read(&chunks[i], 0, &self.options).and_then(|part| Ok((work(&part)?, part))))
                })?;
                let mut parts = Vec::new();
                for (chunk, read) in chunks.iter().zip(read) {
                    match read {
                        Ok((made, mut part)) => {
                            part.first_row = self.rows;
                            self.rows += part.table.rows;
                            parts.push((part, made));
                        }
                        // again, now that the number of its first row is known
                        Err(_) => {
                            let part = text.read(chunk, self.rows, &self.options)?;
                            let made = work(&part).map_err(|error| in_file(error, self.rows as u32))?;
                            parts.push((part, made));
                        }
                    }
                }
                return Ok(parts);
            }
            PartsFrom::Blocks { blocks, next } => {
                if *next + 1 >= blocks.blocks().len() {
                    return Ok(Vec::new());
                }
                let columns = needed_columns(&blocks.columns(), &self.options.needed, &self.kept);
                let table = match columns {
                    Some(columns) if blocks.header() => blocks.read_columns(*next, &columns)?,
                    _ => blocks.read(*next)?,
                };
                *next += 1;
                self.cut(table)
            }
            PartsFrom::Whole(table) => match table.take() {
                Some(table) => self.cut(table),
                None => return Ok(Vec::new()),
            },
        };
        let starts: Vec<usize> = parts.iter().map(|part| part.first_row).collect();
        let made = parallel(parts.len(), |i| work(&parts[i]).map_err(|error| in_file(error, starts[i] as u32)))?;
        Ok(parts.into_iter().zip(made).collect())
    }

    fn find_kept(&self) -> Result<Vec<String>, DataError> {
        let (file, names) = match &self.from {
            PartsFrom::Text(text) => {
                return Ok(text.format.kept.iter().map(|at| text.format.plan.names[*at].clone()).collect());
            }
            PartsFrom::Blocks { blocks, .. } => (blocks.name().to_owned(), blocks.columns()),
            PartsFrom::Whole(table) => match table {
                Some(table) => (table.name.clone(), table.names().map(str::to_owned).collect()),
                None => return Ok(Vec::new()),
            },
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = self.options.keep.iter().map(|spec| find_column(&file, &names, spec));
        found.map(|at| at.map(|at| names[at].to_owned())).collect()
    }

    /// A table in parts of as many rows as are wanted.
    fn cut(&mut self, table: Table) -> Vec<TablePart> {
        let most = self.options.most_rows.max(1);
        let kept: Vec<Vec<String>> = self.kept.iter().map(|name| cells(&table, name)).collect();
        let mut parts = Vec::new();
        for start in (0..table.rows).step_by(most) {
            let end = (start + most).min(table.rows);
            let rows: Vec<u32> = (start as u32..end as u32).collect();
            parts.push(TablePart {
                table: if end - start == table.rows { table.clone() } else { pick(&table, &rows) },
                first_row: self.rows + start,
                unreadable: Vec::new(),
                kept: kept.iter().map(|cells| cells[start..end].to_vec()).collect(),
            });
        }
        self.rows += table.rows;
        parts
    }
}

/// The columns that a model needs or that are kept, where all are there.
fn needed_columns(names: &[String], needed: &[String], kept: &[String]) -> Option<Vec<usize>> {
    let all_there = !needed.is_empty() && needed.iter().all(|name| names.contains(name));
    let wanted = |at: &usize| needed.contains(&names[*at]) || kept.contains(&names[*at]);
    all_there.then(|| (0..names.len()).filter(wanted).collect())
}

/// A column's cells as text; numbers are written the shortest way.
fn cells(table: &Table, name: &str) -> Vec<String> {
    let Some(column) = table.columns.iter().find(|column| column.name == name) else { return Vec::new() };
    let (codes, labels) = column.labels();
    let cell = |code: &u32| if *code == MISSING { String::new() } else { labels[*code as usize].clone() };
    codes.iter().map(cell).collect()
}

/// Reads until `bytes` has so many, or the end is there.
fn read_up_to(name: &str, reader: &mut dyn Read, bytes: &mut Vec<u8>, most: usize) -> Result<bool, DataError> {
    let missing = most.saturating_sub(bytes.len()) as u64;
    let read = reader.take(missing).read_to_end(bytes);
    let read = read.map_err(|source| DataError::Io { path: name.to_owned(), source })?;
    Ok((read as u64) < missing)
}

/// Delimited text as it comes.
struct TextParts {
    format: TextFormat,
    reader: Box<dyn Read + Send>,
    /// What was read and not yet handed out; it begins with a record.
    buffer: Vec<u8>,
    /// Bytes of the buffer that `records` has seen, and where the records begin of which the end is known.
    scanned: usize,
    records: Records,
    starts: Vec<usize>,
    ended: bool,
    /// Lines before the buffer.
    lines: usize,
}

/// How records become rows.
struct TextFormat {
    name: String,
    plan: Plan,
    /// Columns to keep, by index.
    kept: Vec<usize>,
}

/// The bytes of some records.
struct Chunk {
    bytes: Vec<u8>,
    lines_before: usize,
}

impl TextParts {
    fn new(
        name: &str,
        head: Vec<u8>,
        reader: Box<dyn Read + Send>,
        options: &PartOptions,
    ) -> Result<TextParts, DataError> {
        let ended = head.len() < HEAD_BYTES;
        let end = head.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).filter(|_| !ended);
        let text = &*text_of(name, &head[..end.map_or(head.len(), |end| end + 1)], None)?;
        let mut plan = Plan::new(name, text, &options.read)?;
        let names: Vec<&str> = plan.names.iter().map(String::as_str).collect();
        let kept: Vec<usize> =
            options.keep.iter().map(|spec| find_column(name, &names, spec)).collect::<Result<_, _>>()?;
        let all_there = options.needed.iter().all(|needed| names.contains(&needed.as_str()));
        let has_names = plan.has_names();
        for (kind, column) in plan.kinds.iter_mut().zip(&plan.names) {
            if *kind == Kind::Text && options.numbers.contains(column) {
                *kind = Kind::Number;
            }
            if has_names && all_there && !options.needed.is_empty() && !options.needed.contains(column) {
                *kind = Kind::Skipped;
            }
        }
        let mark = head.len() - head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head).len();
        let start = mark + plan.rows_begin(text);
        let lines = line_at(&head[..start]) - 1;
        let records = Records::new(&plan.layout.format);
        let buffer = head[start..].to_vec();
        let format = TextFormat { name: name.to_owned(), plan, kept };
        Ok(TextParts { format, reader, buffer, scanned: 0, records, starts: Vec::new(), ended, lines })
    }

    /// Whole records, at most so many of them.
    fn chunk(&mut self, most_rows: usize) -> Result<Option<Chunk>, DataError> {
        let most_rows = most_rows.max(1);
        loop {
            self.scan();
            let full = self.starts.len() >= most_rows || self.starts.last().is_some_and(|last| *last >= PART_BYTES);
            if full {
                let within = |start: &usize| *start <= PART_BYTES;
                let records = self.starts.iter().take_while(|start| within(start)).count().clamp(1, most_rows);
                return Ok(Some(self.take(self.starts[records - 1], records)));
            }
            if self.ended {
                return Ok(match self.buffer.is_empty() {
                    true => None,
                    false => Some(self.take(self.buffer.len(), self.starts.len())),
                });
            }
            let last = self.starts.last().copied().unwrap_or(0);
            if self.buffer.len() - last > LONGEST_RECORD {
                let (file, line) = (self.format.name.clone(), self.lines + line_at(&self.buffer[..last]));
                return Err(match self.records.is_quoted() {
                    true => DataError::OpenQuote { file, line },
                    false => long_line(&file, line),
                });
            }
            let more = self.buffer.len() + PART_BYTES;
            self.ended = read_up_to(&self.format.name, self.reader.as_mut(), &mut self.buffer, more)?;
        }
    }

    /// Where the records of the buffer begin, but for the first.
    fn scan(&mut self) {
        for at in self.scanned..self.buffer.len() {
            let after_end = self.records.ended();
            let byte = self.buffer[at];
            self.records.step(byte);
            // `\r\n` ends one record, not two
            if after_end && byte != b'\n' {
                self.starts.push(at);
            }
        }
        self.scanned = self.buffer.len();
    }

    fn take(&mut self, bytes: usize, records: usize) -> Chunk {
        let rest = self.buffer.split_off(bytes);
        let bytes = std::mem::replace(&mut self.buffer, rest);
        self.starts.drain(..records);
        self.starts.iter_mut().for_each(|start| *start -= bytes.len());
        self.scanned -= bytes.len();
        let chunk = Chunk { lines_before: self.lines, bytes };
        self.lines += line_at(&chunk.bytes) - 1;
        chunk
    }
}

impl TextFormat {
    fn read(&self, chunk: &Chunk, first_row: usize, options: &PartOptions) -> Result<TablePart, DataError> {
        let lines_before = || chunk.lines_before;
        refuse_binary(&self.name, &chunk.bytes, lines_before)?;
        let text = std::str::from_utf8(&chunk.bytes).map_err(|error| DataError::NotUtf8 {
            file: self.name.clone(),
            line: chunk.lines_before + line_at(&chunk.bytes[..error.valid_up_to()]),
        })?;
        let source = Source {
            name: &self.name,
            body: text,
            plan: &self.plan,
            header: false,
            first_row,
            line: &|offset| chunk.lines_before + line_of_row(text, offset),
        };
        let mut beside = Beside {
            skip: options.on_error == OnError::Skip,
            kept: self.kept.iter().map(|at| (*at, Vec::new())).collect(),
            unreadable: Vec::new(),
        };
        let columns = source.pass_beside(&self.plan.kinds, &mut beside)?;
        let table = match beside.skip {
            true => source.table_with_unreadable(columns, &mut beside)?,
            false => source.table(columns)?,
        };
        let kept = beside.kept.into_iter().map(|(_, cells)| cells).collect();
        Ok(TablePart { table, first_row, unreadable: beside.unreadable, kept })
    }
}
