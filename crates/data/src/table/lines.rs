//! Delimited text in blocks. Opening it reads it once: where records end, how many there are, and what each column
//! holds over the whole file, so that a column is of one kind in every block.

use std::borrow::Cow;
use std::ops::Range;

use super::blocks::TableBlocks;
use super::delimited::{Kind, Plan, Source, no_rows};
use super::read::{parallel, refuse_binary, text_of, too_many_rows};
use super::rows::{LONGEST_RECORD, Records, RowFormat, line_at, line_of_row, long_line};
use super::sniff::Tally;
use super::watched::Watched;
use super::{MISSING, ReadOptions, Table};
use crate::encoding::TextEncoding;
use crate::error::DataError;

/// A block goes to the end of the record in which it reaches this size, or less in a small file: some of many blocks
/// can be kept for judging, of a few blocks any share is far from what was wished.
const MOST_BYTES: u64 = 4 << 20;
const LEAST_BYTES: u64 = 16 << 10;
const BLOCKS: u64 = 100;

/// How large the blocks of a file are.
pub(super) fn block_bytes(file: u64) -> u64 {
    (file / BLOCKS).clamp(LEAST_BYTES, MOST_BYTES)
}

/// So much is looked at to find out what a text is like.
const HEAD_BYTES: u64 = 4 << 20;
/// How much is read at a time while records are looked for.
const STEP: u64 = 1 << 20;

/// Opens a text for reading in blocks.
pub(super) fn open_blocks(
    name: &str,
    file: Watched,
    options: &ReadOptions,
    block_bytes: u64,
) -> Result<LineBlocks, DataError> {
    let head = file.read(0, file.len().min(HEAD_BYTES) as usize)?;
    let whole = head.len() as u64 == file.len();
    let end = head.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).filter(|_| !whole);
    let encoding = TextEncoding::of_file(&head, options.encoding);
    if encoding.is_some_and(|encoding| !encoding.has_lines()) {
        return Err(DataError::Unsupported {
            file: name.to_owned(),
            what: "its encoding cannot be read in blocks".to_owned(),
            next: "save it as UTF-8, or give it more --memory".to_owned(),
        });
    }
    let looked_at = &head[..end.map_or(head.len(), |end| end + 1)];
    let text = &*text_of(name, looked_at, encoding)?;
    let plan = Plan::new(name, text, options)?;
    let begin = plan.rows_begin(text);
    let start = match encoding {
        None => begin + if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 },
        // a header that no line break ends
        Some(_) if begin == text.len() => looked_at.len(),
        Some(_) => behind_lines(&head, text[..begin].bytes().filter(ends_line).count()),
    } as u64;

    let ranges = find_blocks(name, &file, start, &plan.layout.format, block_bytes)?;
    let mut blocks =
        LineBlocks { name: name.to_owned(), file, encoding, plan, ranges, starts: Vec::new(), missing: Vec::new() };
    let counts = parallel(blocks.ranges.len(), |block| blocks.count(block))?;
    blocks.settle(counts)?;
    Ok(blocks)
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

pub(super) struct LineBlocks {
    name: String,
    file: Watched,
    encoding: Option<TextEncoding>,
    plan: Plan,
    /// The bytes of each block; the header is in none.
    ranges: Vec<Range<u64>>,
    starts: Vec<u32>,
    /// Of each block, the missing cells of every column that is read.
    missing: Vec<Vec<usize>>,
}

/// What a block holds.
struct Count {
    rows: usize,
    tallies: Vec<Tally>,
    /// Some number is infinite.
    infinite: bool,
}

impl TableBlocks for LineBlocks {
    fn name(&self) -> &str {
        &self.name
    }

    fn columns(&self) -> Vec<String> {
        self.plan.columns()
    }

    fn header(&self) -> bool {
        self.plan.has_names()
    }

    fn is_text(&self) -> bool {
        true
    }

    fn blocks(&self) -> &[u32] {
        &self.starts
    }

    fn read(&self, block: usize) -> Result<Table, DataError> {
        if block + 1 >= self.starts.len() {
            return Err(DataError::Inconsistent(format!("{}: no block {block}", self.name)));
        }
        self.with_source(block, self.starts[block] as usize, |source| source.table(source.pass(&self.plan.kinds)?))
    }

    fn missing(&self, block: usize, column: usize) -> Result<usize, DataError> {
        let known = self.missing.get(block).and_then(|columns| columns.get(column)).copied();
        known.ok_or_else(|| DataError::Inconsistent(format!("{}: no column {column} in block {block}", self.name)))
    }
}

impl LineBlocks {
    /// The text of a block; its first row is the `first_row`-th of the file.
    fn with_source<T>(
        &self,
        block: usize,
        first_row: usize,
        read: impl FnOnce(&Source<'_>) -> Result<T, DataError>,
    ) -> Result<T, DataError> {
        let range = &self.ranges[block];
        let bytes = self.file.read(range.start, (range.end - range.start) as usize)?;
        let lines_before = || lines_before(&self.file, range.start);
        refuse_binary(&self.name, &bytes, lines_before)?;
        let text = &*match self.encoding {
            Some(encoding) => encoding.decode(&self.name, &bytes)?,
            None => std::str::from_utf8(&bytes).map(Cow::Borrowed).map_err(|error| DataError::NotUtf8 {
                file: self.name.clone(),
                line: lines_before() + line_at(&bytes[..error.valid_up_to()]),
            })?,
        };
        read(&Source {
            name: &self.name,
            body: text,
            plan: &self.plan,
            header: false,
            first_row,
            line: &|offset| lines_before() + line_of_row(text, offset),
        })
    }

    fn count(&self, block: usize) -> Result<Count, DataError> {
        self.with_source(block, 0, |source| {
            let columns = source.pass(&self.plan.kinds)?;
            Ok(Count {
                rows: columns.first().map_or(0, |column| column.rows),
                tallies: columns.iter().map(|column| column.tally).collect(),
                infinite: columns.iter().any(|column| column.is_infinite()),
            })
        })
    }

    fn missing_of(&self, count: &Count) -> Vec<usize> {
        let read = count.tallies.iter().zip(&self.plan.kinds).filter(|(_, kind)| **kind != Kind::Skipped);
        read.map(|(tally, _)| count.rows - tally.numbers - tally.others).collect()
    }

    /// Row numbers and the kinds of columns, from what all blocks hold.
    fn settle(&mut self, counts: Vec<Count>) -> Result<(), DataError> {
        let mut total: Vec<Tally> = vec![Tally::default(); self.plan.kinds.len()];
        for count in &counts {
            total.iter_mut().zip(&count.tallies).for_each(|(total, tally)| total.add(*tally));
        }
        let mut kinds = self.plan.kinds.clone();
        self.plan.settle(&mut kinds, &total);
        self.plan.kinds = kinds;
        let mut full = counts.iter().map(|count| count.rows > 0);
        self.ranges.retain(|_| full.next().unwrap_or(false));
        let counts: Vec<Count> = counts.into_iter().filter(|count| count.rows > 0).collect();
        let mut rows = 0;
        self.starts = vec![0];
        for count in &counts {
            rows += count.rows;
            if rows >= MISSING as usize {
                return Err(too_many_rows(&self.name));
            }
            self.starts.push(rows as u32);
        }
        if rows == 0 {
            return Err(no_rows(&self.name));
        }
        self.missing = counts.iter().map(|count| self.missing_of(count)).collect();
        // Reading the block says which cell is wrong, and where.
        for (block, count) in counts.iter().enumerate() {
            let stray = |(kind, tally): (&Kind, &Tally)| match kind {
                Kind::Number => tally.others > 0,
                Kind::Written(writing) => tally.others > tally.ways.read_by(*writing),
                Kind::Text | Kind::ForcedText | Kind::Skipped => false,
            };
            if count.infinite || self.plan.kinds.iter().zip(&count.tallies).any(stray) {
                self.read(block)?;
            }
        }
        Ok(())
    }
}

fn ends_line(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Where the bytes behind so many line ends begin.
fn behind_lines(bytes: &[u8], ends: usize) -> usize {
    let mut ended = bytes.iter().enumerate().filter(|(_, byte)| ends_line(byte)).map(|(at, _)| at + 1);
    ends.checked_sub(1).map_or(0, |before| ended.nth(before).unwrap_or(bytes.len()))
}

/// The bytes of blocks of at least `size`, each ending with a record.
fn find_blocks(
    name: &str,
    file: &Watched,
    start: u64,
    format: &RowFormat,
    size: u64,
) -> Result<Vec<Range<u64>>, DataError> {
    let mut records = Records::new(format);
    let mut blocks = Vec::new();
    let (mut block, mut record) = (start, start);
    let mut at = start;
    while at < file.len() {
        let bytes = file.read(at, (file.len() - at).min(STEP) as usize)?;
        for (byte, offset) in bytes.iter().zip(at..) {
            let after_end = records.ended();
            records.step(*byte);
            // `\r\n` ends one record, not two.
            if after_end && *byte != b'\n' {
                record = offset;
                if record - block >= size {
                    blocks.push(block..record);
                    block = record;
                }
            }
        }
        at += bytes.len() as u64;
        if at - record > LONGEST_RECORD as u64 {
            let line = lines_before(file, record) + 1;
            return Err(match records.is_quoted() {
                true => DataError::OpenQuote { file: name.to_owned(), line },
                false => long_line(name, line),
            });
        }
    }
    if block < file.len() {
        blocks.push(block..file.len());
    }
    Ok(blocks)
}

/// The number of line ends before a byte; for messages, so an error of reading does not matter.
fn lines_before(file: &Watched, end: u64) -> usize {
    let (mut lines, mut at, mut carriage) = (0, 0, false);
    while at < end {
        let Ok(bytes) = file.read(at, (end - at).min(STEP) as usize) else { break };
        for byte in &bytes {
            lines += (*byte == b'\r' || (*byte == b'\n' && !carriage)) as usize;
            carriage = *byte == b'\r';
        }
        at += bytes.len() as u64;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::open_blocks_of;
    use super::*;

    /// Cells of every block, in blocks of `bytes`, and where they begin.
    fn read(text: &str, bytes: u64) -> (Vec<u32>, Table) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        let blocks = open_blocks_of(&path, &ReadOptions::default(), bytes).unwrap();
        let starts = blocks.blocks().to_vec();
        let tables = (0..starts.len() - 1).map(|block| blocks.read(block).unwrap()).collect();
        (starts, super::super::concat(tables).unwrap())
    }

    /// Where a block ends changes nothing.
    #[test]
    fn odd_quotes_and_stray_marks() {
        for text in ["a,b\n1,\"x\n2\"3\"\n2,y\n", "1,2\n\u{feff}x,3\ny,4\n", "\u{feff}\u{feff}a,b\n\u{feff}1,2\n3,4\n"]
        {
            let whole = Table::from_bytes("t.csv", text.as_bytes(), &ReadOptions::default()).unwrap();
            for bytes in 0..20 {
                assert_eq!(read(text, bytes).1, whole, "{text:?} in blocks of {bytes}");
            }
        }
    }

    #[test]
    fn numbers_are_written_alike_in_every_block() {
        let text = "a;b\n950;1,288\n7;2,000\n12;0,5\n1,5;7,899\n";
        let whole = Table::from_bytes("t.csv", text.as_bytes(), &ReadOptions::default()).unwrap();
        assert_eq!(whole.reading.written.len(), 2);
        for bytes in 0..20 {
            assert_eq!(read(text, bytes).1, whole, "in blocks of {bytes}");
        }
    }

    #[test]
    fn encodings_are_decoded_block_by_block() {
        let rows: String = (0..50).map(|i| format!("stra\u{df}e {i};{i},5\r\n")).collect();
        let bytes: Vec<u8> = format!("# na\u{ef}f\nort;gr\u{f6}\u{df}e\r\n{rows}").chars().map(|c| c as u8).collect();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        std::fs::write(&path, &bytes).unwrap();
        let options = ReadOptions { encoding: Some("latin-1".parse().unwrap()), ..Default::default() };
        let whole = Table::from_bytes("t.csv", &bytes, &options).unwrap();
        assert_eq!(whole.names().collect::<Vec<_>>(), ["ort", "gr\u{f6}\u{df}e"]);
        for size in [0, 9, 100] {
            let blocks = open_blocks_of(&path, &options, size).unwrap();
            let tables = (0..blocks.blocks().len() - 1).map(|block| blocks.read(block).unwrap()).collect();
            assert_eq!(super::super::concat(tables).unwrap(), whole, "in blocks of {size}");
        }
        let error = open_blocks_of(&path, &ReadOptions::default(), 9).err().unwrap().to_string();
        assert!(error.contains("line 1 is not UTF-8") && error.contains("--encoding"), "{error}");
        std::fs::write(&path, b"\xca\xca").unwrap();
        let chinese = ReadOptions { encoding: Some("gb18030".parse().unwrap()), ..Default::default() };
        let message = open_blocks_of(&path, &chinese, 9).err().unwrap().to_string();
        assert_eq!(message, Table::read(&path, &chinese).unwrap_err().to_string(), "a header alone");
        let wide: Vec<u8> = "\u{feff}a,b\n1,2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        std::fs::write(&path, &wide).unwrap();
        assert!(open_blocks_of(&path, &ReadOptions::default(), 9).err().unwrap().to_string().contains("in blocks"));
        assert_eq!(Table::read(&path, &ReadOptions::default()).unwrap().names().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn an_open_quote_is_told_in_whole_and_in_blocks() {
        let options = ReadOptions { header: Some(false), ..Default::default() };
        for (text, line) in [("1\n\"", 2), ("1,2\n3,\"x\"\n4,\"y\n5,6\n", 3), ("1,\"a\nb\"\n2,\"\"\"\n", 3)] {
            let want = format!("a quote that opens in line {line} is never closed");
            let whole = Table::from_bytes("t.csv", text.as_bytes(), &options).unwrap_err().to_string();
            assert!(whole.contains(&want), "{text:?}: {whole}");
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("t.csv");
            std::fs::write(&path, text).unwrap();
            for bytes in 0..20 {
                let error = open_blocks_of(&path, &options, bytes).err().unwrap().to_string();
                assert!(error.contains(&want), "{text:?} in blocks of {bytes}: {error}");
            }
        }
    }

    #[test]
    fn a_header_may_fill_a_block_alone() {
        for text in ["aaaa,b\n1,2\n3,4\n5,6\n", "\n \naaaa,b\r\n1,2\n3,4\n\n5,6", "# title\naaaa,b\r1,2\r3,4\r5,6\r"] {
            let whole = Table::from_bytes("t.csv", text.as_bytes(), &ReadOptions::default()).unwrap();
            for bytes in 0..30 {
                assert_eq!(read(text, bytes).1, whole, "{text:?} in blocks of {bytes}");
            }
        }
        assert_eq!(read("aaaa,b\n1,2\n3,4\n5,6\n", 1).0, [0, 1, 2, 3]);
    }
}
