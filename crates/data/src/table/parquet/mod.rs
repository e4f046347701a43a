//! Parquet: row groups decoded on all cores for a table, or one piece of a row group at a time for blocks.
//!
//! ```text
//! mod.rs     row groups, pieces of them, tables and blocks
//! types.rs   what a column is
//! column.rs  a column of a row group, decoded some rows at a time
//! pages.rs   the bytes, the pages' claims held against reason
//! ```

mod column;
mod pages;
mod types;

use std::collections::HashSet;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::Length;
use parquet::file::serialized_reader::SerializedPageReader;

use self::column::Column;
use self::pages::{Input, Pages};
use self::types::Root;
use super::blocks::{MOST_BYTES, MOST_ROWS, Numbers, TableBlocks};
use super::cell::MissingTokens;
use super::columnar::{FieldKind, Fields, Part};
use super::read::{finish, guarded, keep, parallel, refuse_text_options, too_many_rows};
use super::{MISSING, ReadOptions, Table};
use crate::error::DataError;

/// The first and the last bytes of every Parquet file.
pub(super) const MAGIC: &[u8] = b"PAR1";

/// Numbers that are decoded before they are handed on: they stay in the cache, and batches are few.
const BATCH_VALUES: usize = 1 << 19;

/// Row groups that are decoded at a time from a disk, each in memory of its own.
const MOST_READERS: usize = 8;

/// A whole file.
pub(super) fn read(name: &str, input: Input, options: &ReadOptions) -> Result<Table, DataError> {
    refuse_text_options(name, "Parquet", options)?;
    let file = ParquetFile::open(name, input, options)?;
    let groups: Vec<Piece> = file.groups().collect();
    file.check_size(groups.iter().map(|piece| piece.rows).sum())?;
    let parts = parallel(groups.len(), |group| file.part(&groups[group], &file.fields.places))?;
    let part = Part::join(parts);
    let widths = part.widths();
    finish(part.table(name, &file.fields, &widths), options, 0)
}

/// A file in blocks: row groups, large ones cut into pieces.
pub(super) fn open_blocks(
    name: &str,
    input: Input,
    options: &ReadOptions,
    most_rows: usize,
) -> Result<ParquetBlocks, DataError> {
    refuse_text_options(name, "Parquet", options)?;
    let file = ParquetFile::open(name, input, options)?;
    let pieces: Vec<Piece> = file.groups().flat_map(|group| file.cut(group, most_rows)).collect();
    let widths = match file.fields.fixed_widths() {
        Some(widths) => widths,
        None => file.list_widths(&pieces)?,
    };
    let mut starts = vec![0u32];
    let ends = pieces.iter().scan(0, |end, piece| {
        *end += piece.rows as u32;
        Some(*end)
    });
    starts.extend(ends);
    let columns = file.fields.columns(&widths);
    Ok(ParquetBlocks { file, widths, columns, pieces, starts, options: options.clone() })
}

pub(super) struct ParquetBlocks {
    file: ParquetFile,
    /// How many columns each field has.
    widths: Vec<usize>,
    columns: Vec<String>,
    pieces: Vec<Piece>,
    starts: Vec<u32>,
    options: ReadOptions,
}

/// Some rows of a row group.
#[derive(Debug, Clone)]
struct Piece {
    group: usize,
    /// Counted in the row group.
    first: usize,
    rows: usize,
}

impl TableBlocks for ParquetBlocks {
    fn name(&self) -> &str {
        &self.file.name
    }

    fn columns(&self) -> Vec<String> {
        self.columns.clone()
    }

    fn blocks(&self) -> &[u32] {
        &self.starts
    }

    fn read(&self, block: usize) -> Result<Table, DataError> {
        let piece = self.piece(block)?;
        let part = self.file.part(piece, &self.file.fields.places)?;
        let table = part.table(&self.file.name, &self.file.fields, &self.widths);
        finish(table, &self.options, self.starts[block] as usize)
    }

    fn announce(&self, block: usize) {
        if let Some(piece) = self.pieces.get(block) {
            self.file.announce(piece.group);
        }
    }

    /// Decoding takes a core and the memory of a row group, so there are no more than cores.
    fn readers(&self) -> usize {
        match self.file.input.is_far() {
            true => available_parallelism().map_or(1, NonZero::get).min(MOST_READERS),
            false => 0,
        }
    }

    fn read_columns(&self, block: usize, columns: &[usize]) -> Result<Table, DataError> {
        let piece = self.piece(block)?;
        let Some(fields) = self.single_fields(columns) else { return Ok(keep(self.read(block)?, columns)) };
        let part = self.file.part(piece, &fields.places)?;
        let table = part.table(&self.file.name, &fields, &vec![1; columns.len()]);
        finish(table, &self.options, self.starts[block] as usize)
    }

    fn visit_numbers(
        &self,
        block: usize,
        columns: &[usize],
        visit: &mut dyn FnMut(usize, &[Numbers<'_>]) -> bool,
    ) -> Result<bool, DataError> {
        let piece = self.piece(block)?;
        let Some(places) = self.plain_places(columns) else { return Ok(false) };
        let mut going = true;
        self.file.each_batch(piece, &places, BATCH_VALUES / places.len().max(1), |first, _, columns| {
            let numbers: Vec<Numbers<'_>> = columns.iter().map(Column::numbers).collect();
            going = visit(first, &numbers);
            Ok(going)
        })?;
        Ok(going)
    }
}

impl ParquetBlocks {
    fn piece(&self, block: usize) -> Result<&Piece, DataError> {
        self.pieces.get(block).ok_or_else(|| DataError::Inconsistent(format!("{}: no block {block}", self.file.name)))
    }

    /// The fields of these columns, if each is a column of its own and kept as it is read.
    fn single_fields(&self, columns: &[usize]) -> Option<Fields> {
        let alike = self.options.text.is_empty() && self.widths.iter().all(|width| *width == 1) && columns.is_sorted();
        let fields = &self.file.fields;
        if !alike || columns.last().is_some_and(|last| *last >= fields.places.len()) {
            return None;
        }
        Some(Fields {
            names: columns.iter().map(|column| fields.names[*column].clone()).collect(),
            places: columns.iter().map(|column| fields.places[*column]).collect(),
            kinds: columns.iter().map(|column| fields.kinds[*column]).collect(),
        })
    }

    /// The places of these fields if all are read as the numbers they are.
    fn plain_places(&self, columns: &[usize]) -> Option<Vec<usize>> {
        let fields = self.single_fields(columns)?;
        let number = |(name, kind): (&String, &FieldKind)| {
            *kind == FieldKind::Number && !self.options.expect_text.contains(name)
        };
        let plain = !self.file.missing.has_numbers() && fields.names.iter().zip(&fields.kinds).all(number);
        plain.then_some(fields.places)
    }
}

/// An open file and what its footer says.
struct ParquetFile {
    name: String,
    input: Input,
    metadata: ParquetMetaData,
    fields: Fields,
    /// How each of the fields is read.
    roots: Vec<Root>,
    missing: MissingTokens,
}

impl ParquetFile {
    fn open(name: &str, input: Input, options: &ReadOptions) -> Result<ParquetFile, DataError> {
        let (metadata, roots) = guarded(name, "Parquet", || {
            let reader = ParquetMetaDataReader::new().with_offset_index_policy(PageIndexPolicy::Optional);
            let metadata = reader.parse_and_finish(&input).map_err(|error| broken(name, &input, error))?;
            let roots = types::roots(metadata.file_metadata());
            Ok((metadata, roots))
        })?;
        let names = metadata.file_metadata().schema().get_fields().iter().map(|field| field.name());
        let kind = |place: usize| match &roots[place] {
            Ok(root) => Ok(root.kind),
            Err(why) => Err(why.clone()),
        };
        let fields = Fields::choose(name, names, kind, options)?;
        let roots = fields.places.iter().filter_map(|place| roots[*place].as_ref().ok().cloned()).collect();
        let missing = MissingTokens::new(&options.missing);
        let file = ParquetFile { name: name.to_owned(), input, metadata, fields, roots, missing };
        let mut rows = 0u64;
        for group in file.metadata.row_groups() {
            let claim = u64::try_from(group.num_rows()).map_err(|_| file.broken("a row group has less than 0 rows"))?;
            rows = rows.saturating_add(claim);
            let start =
                |column: &ColumnChunkMetaData| column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            if group.columns().iter().any(|column| start(column) < 0 || column.compressed_size() < 0) {
                return Err(file.broken("a column begins before the file does; it is damaged"));
            }
        }
        if rows >= MISSING as u64 {
            return Err(too_many_rows(name));
        }
        if rows == 0 {
            return Err(DataError::Empty {
                file: name.to_owned(),
                what: "has no rows".to_owned(),
                next: "a table needs at least one row".to_owned(),
            });
        }
        Ok(file)
    }

    /// The row groups that have rows.
    fn groups(&self) -> impl Iterator<Item = Piece> {
        let groups = self.metadata.row_groups().iter().enumerate();
        groups
            .map(|(group, about)| Piece { group, first: 0, rows: about.num_rows() as usize })
            .filter(|piece| piece.rows > 0)
    }

    /// A row group in pieces that are not too large.
    fn cut(&self, group: Piece, most_rows: usize) -> Vec<Piece> {
        let about = self.metadata.row_group(group.group);
        let leaves = self.roots.iter().map(|root| root.leaf);
        let bytes: u64 = leaves.map(|leaf| about.columns().get(leaf).map_or(0, decoded_bytes)).sum();
        let by_rows = group.rows.div_ceil(most_rows.max(1));
        let pieces = by_rows.max(bytes.div_ceil(MOST_BYTES) as usize).clamp(1, group.rows);
        if pieces == 1 {
            return vec![group];
        }
        let rows = group.rows.div_ceil(pieces);
        let piece = |first| Piece { group: group.group, first, rows: rows.min(group.rows - first) };
        (0..group.rows).step_by(rows).map(piece).collect()
    }

    /// The rows are a claim until they are read.
    fn check_size(&self, rows: usize) -> Result<(), DataError> {
        let bytes = rows as u128 * self.fields.places.len() as u128 * 8;
        if bytes > (1 << 30).max(self.input.len() as u128 * 1000) {
            return Err(self.broken(&format!(
                "{rows} rows of {} columns are too many for {} bytes; it is damaged, or made to fill the memory",
                self.fields.places.len(),
                self.input.len()
            )));
        }
        Ok(())
    }

    /// The longest lists of all rows.
    fn list_widths(&self, pieces: &[Piece]) -> Result<Vec<usize>, DataError> {
        let is_list = |kind: &FieldKind| matches!(kind, FieldKind::List(_));
        let fields = || self.fields.places.iter().zip(&self.fields.kinds);
        let places: Vec<usize> = fields().filter(|(_, kind)| is_list(kind)).map(|(place, _)| *place).collect();
        let widths = parallel(pieces.len(), |piece| Ok(self.part(&pieces[piece], &places)?.widths()))?;
        let mut lists = (0..places.len()).map(|at| widths.iter().map(|piece| piece[at]).max().unwrap_or(1));
        Ok(fields().map(|(_, kind)| if is_list(kind) { lists.next().unwrap_or(1) } else { 1 }).collect())
    }

    /// A piece as columns.
    fn part(&self, piece: &Piece, places: &[usize]) -> Result<Part, DataError> {
        self.check_size(piece.rows)?;
        let mut parts = Vec::new();
        self.each_batch(piece, places, MOST_ROWS.min((1 << 22) / places.len().max(1)), |_, rows, columns| {
            let fields = columns.iter().map(|column| column.values(&self.missing)).collect::<Result<_, _>>()?;
            parts.push(Part::new(rows, fields));
            Ok(true)
        })?;
        Ok(Part::join(parts))
    }

    /// Calls `visit(row in the piece, rows, columns)` with some rows after the other until it says that it has enough.
    fn each_batch(
        &self,
        piece: &Piece,
        places: &[usize],
        rows: usize,
        mut visit: impl FnMut(usize, usize, &[Column]) -> Result<bool, String>,
    ) -> Result<(), DataError> {
        let damaged = |error| broken(&self.name, &self.input, error);
        let short = || self.broken("it has not the rows its footer promises; it is cut short or damaged");
        guarded(&self.name, "Parquet", || {
            let mut columns = self.columns(piece.group, places)?;
            for column in &mut columns {
                if piece.first > 0 && column.skip(piece.first).map_err(damaged)? != piece.first {
                    return Err(short());
                }
            }
            let mut row = 0;
            while row < piece.rows {
                let count = rows.max(64).min(piece.rows - row);
                for column in &mut columns {
                    if column.read(count).map_err(damaged)? != count {
                        return Err(short());
                    }
                }
                if !visit(row, count, &columns).map_err(|problem| self.broken(&problem))? {
                    return Ok(());
                }
                row += count;
            }
            Ok(())
        })
    }

    /// The columns of these fields in a row group.
    fn columns(&self, group: usize, places: &[usize]) -> Result<Vec<Column>, DataError> {
        self.input.check()?;
        let root = |place: &usize| self.fields.places.binary_search(place).ok().map(|at| &self.roots[at]);
        let roots: Vec<&Root> = places.iter().filter_map(root).collect();
        let about = self.metadata.row_group(group);
        if roots.iter().any(|root| root.leaf >= about.num_columns()) {
            return Err(self.broken("a row group has fewer columns than the file; it is damaged"));
        }
        let pages = Arc::new(self.pages(group, &roots));
        let index = self.metadata.page_index_for_row_group(group);
        let column = |root: &&Root| {
            let chunk = about.column(root.leaf);
            let pages = SerializedPageReader::new(
                pages.clone(),
                chunk,
                about.num_rows().max(0) as usize,
                index.page_locations(root.leaf).cloned(),
            );
            let pages = pages.map_err(|error| broken(&self.name, &self.input, error))?;
            Ok(Column::new((*root).clone(), chunk.column_descr_ptr(), Box::new(pages)))
        };
        roots.iter().map(column).collect()
    }

    /// Neighbouring columns are announced together.
    fn announce(&self, group: usize) {
        let about = self.metadata.row_group(group);
        let mut range = (0, 0);
        for root in &self.roots {
            let Some(column) = about.columns().get(root.leaf) else { return };
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset()).max(0) as u64;
            let end = start.saturating_add(column.compressed_size().max(0) as u64);
            if start != range.1 {
                self.input.announce(range.0, range.1 - range.0);
                range.0 = start;
            }
            range.1 = end;
        }
        self.input.announce(range.0, range.1 - range.0);
    }

    /// The bytes of a row group.
    fn pages(&self, group: usize, roots: &[&Root]) -> Pages {
        let index = self.metadata.page_index_for_row_group(group);
        let mut starts = HashSet::new();
        let mut size = 0u64;
        for root in roots {
            let about = self.metadata.row_group(group).column(root.leaf);
            size = size.saturating_add(about.compressed_size().max(0) as u64);
            if let Some(pages) = index.page_locations(root.leaf) {
                let pages = pages.iter().map(|page| page.offset);
                let dictionary = [about.dictionary_page_offset(), Some(about.data_page_offset())];
                let all = pages.chain(dictionary.into_iter().flatten());
                starts.extend(all.filter_map(|offset| u64::try_from(offset).ok()));
            }
        }
        Pages::new(self.input.clone(), starts, size)
    }

    fn broken(&self, problem: &str) -> DataError {
        DataError::Binary { file: self.name.clone(), format: "Parquet", problem: problem.to_owned() }
    }
}

/// What a column of a row group takes when decoded.
fn decoded_bytes(column: &ColumnChunkMetaData) -> u64 {
    use parquet::basic::Type;
    let values = column.num_values().max(0) as u64;
    match column.column_type() {
        Type::BOOLEAN => values,
        Type::INT32 | Type::FLOAT => values.saturating_mul(4),
        Type::INT64 | Type::DOUBLE | Type::INT96 => values.saturating_mul(8),
        Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY => (column.uncompressed_size().max(0) as u64).max(values),
    }
}

/// An error of the decoder; a file that changed under it is the better reason.
fn broken(name: &str, input: &Input, error: impl std::fmt::Display) -> DataError {
    match input.check() {
        Err(changed) => changed,
        Ok(()) => DataError::Binary {
            file: name.to_owned(),
            format: "Parquet",
            problem: format!("{error}; it may be cut short or damaged"),
        },
    }
}
