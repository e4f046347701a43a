//! A table larger than memory, encoded block by block as its preparation says.
//!
//! Columns of plain numbers go from the file's own arrays straight into rows of f32; everything else takes the way
//! through a [`Table`]. Both give the same bits.

use super::Stream;
use super::plain::Plain;
use crate::dataset::{Features, Target};
use crate::error::DataError;
use crate::prepare::{Preparation, Task};
use crate::rng::SplitMix64;
use crate::schema::{Field, INPUT, Kind, Schema, TARGET};
use crate::slot::FieldMut;
use crate::table::{Column, Reading, Table, TableBlocks, Values, concat, parallel};

/// Blocks that a sample is drawn from: enough to see a file that changes along its way.
const SAMPLE_BLOCKS: usize = 64;

/// Blocks of a table as rows of inputs and targets.
pub struct Encoded {
    blocks: Box<dyn TableBlocks>,
    preparation: Preparation,
    schema: Schema,
    plain: Option<Plain>,
    /// The blocks in which some row has a target.
    kept: Vec<usize>,
    /// Where each of them begins when rows without a target are left out, and the end.
    starts: Vec<u32>,
}

impl Encoded {
    /// Fails where the blocks lack a column that the preparation needs.
    pub fn new(blocks: Box<dyn TableBlocks>, preparation: Preparation) -> Result<Encoded, DataError> {
        let target = match preparation.task() {
            Task::Regression | Task::Binary => Field::new(TARGET, Kind::F32, &[preparation.outputs()]),
            Task::Classes => Field::classes(TARGET, preparation.class_labels().to_vec()),
        };
        let schema = Schema::new(vec![Field::new(INPUT, Kind::F32, &[preparation.features()]), target])?;
        let empty = Table {
            name: blocks.name().to_owned(),
            columns: blocks
                .columns()
                .into_iter()
                .map(|name| Column { name, values: Values::Number(Vec::new()) })
                .collect(),
            rows: 0,
            header: blocks.header(),
            reading: Reading::default(),
        };
        preparation.encode(&empty, &[])?;
        let plain = preparation.plain_columns(&empty).map(|(inputs, target)| Plain::new(inputs, target));
        let (kept, starts) = labelled_blocks(blocks.as_ref(), &preparation, &empty)?;
        Ok(Encoded { blocks, preparation, schema, plain, kept, starts })
    }

    /// Rows that are left out because they have no target.
    pub fn unlabelled(&self) -> u32 {
        let rows = |starts: &[u32]| starts.last().copied().unwrap_or(0);
        rows(self.blocks.blocks()) - rows(&self.starts)
    }

    /// About `most_rows` rows of evenly drawn blocks, for fitting a [`Preparation`]; all rows if there are no more.
    pub fn sample(blocks: &dyn TableBlocks, most_rows: usize, seed: u64) -> Result<Table, DataError> {
        let count = blocks.blocks().len().saturating_sub(1);
        let total = blocks.blocks().last().copied().unwrap_or(0) as usize;
        if total <= most_rows {
            return concat((0..count).map(|block| blocks.read(block)).collect::<Result<_, _>>()?);
        }
        let mut rng = SplitMix64::new(seed);
        let drawn = count.min(SAMPLE_BLOCKS).min(most_rows.max(1));
        let mut tables = Vec::new();
        let mut wanted = most_rows.max(1);
        for draw in 0..drawn {
            // One block of each of as many neighbourhoods.
            let (from, to) = (draw * count / drawn, (draw + 1) * count / drawn);
            let block = from + rng.below((to - from) as u32) as usize;
            let table = blocks.read(block)?;
            let share = wanted.div_ceil(drawn - draw).min(table.rows);
            wanted -= share;
            let mut rows: Vec<u32> = (0..table.rows as u32).collect();
            rng.shuffle(&mut rows);
            rows.truncate(share);
            rows.sort();
            tables.push(pick(&table, &rows));
        }
        concat(tables)
    }

    /// How rows are encoded.
    pub fn preparation(&self) -> &Preparation {
        &self.preparation
    }
}

impl Stream for Encoded {
    fn name(&self) -> &str {
        self.blocks.name()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn blocks(&self) -> &[u32] {
        &self.starts
    }

    fn read(&self, block: usize, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        let misfit = || DataError::Inconsistent(format!("{}: buffers of another schema or block", self.name()));
        let [FieldMut::F32(x), y] = into else { return Err(misfit()) };
        let Some(rows) = rows_of(&self.starts, block) else { return Err(misfit()) };
        let block = self.kept[block];
        let start = self.blocks.row_in_file(block);
        if Some(x.len()) != rows.checked_mul(self.preparation.features()) {
            return Err(misfit());
        }
        if let Some(plain) = &self.plain
            && rows_of(self.blocks.blocks(), block) == Some(rows)
            && let Some(target) = self.read_plain(plain, block, x)?
        {
            return copy_target(target, y).ok_or_else(misfit);
        }
        let table = self.blocks.read(block)?;
        let all: Vec<u32> = (0..table.rows as u32).collect();
        let labelled = self.preparation.labelled_rows(&table, &all)?;
        let data = self.preparation.encode(&table, &labelled).map_err(|error| in_file(error, start))?;
        let Features::F32 { data: inputs, .. } = &data.features else { return Err(misfit()) };
        if inputs.len() != x.len() {
            return Err(misfit());
        }
        x.copy_from_slice(inputs);
        copy_target(data.target, y).ok_or_else(misfit)
    }

    fn announce(&self, block: usize) {
        if let Some(block) = self.kept.get(block) {
            self.blocks.announce(*block);
        }
    }

    fn readers(&self) -> usize {
        self.blocks.readers()
    }
}

impl Encoded {
    /// Writes the inputs from the file's own arrays and gives the target; `None` where the way through a table is
    /// needed, be it only for its message.
    fn read_plain(&self, plain: &Plain, block: usize, x: &mut [f32]) -> Result<Option<Target>, DataError> {
        let mut done = 0;
        let taken = self.blocks.visit_numbers(block, &plain.places, &mut |first, numbers| {
            let rows = plain.write(first, numbers, x);
            done += rows.unwrap_or(0);
            rows.is_some()
        })?;
        if !taken || Some(x.len()) != done.checked_mul(self.preparation.features()) {
            return Ok(None);
        }
        let target = self.blocks.read_columns(block, &[plain.target])?;
        Ok(self.preparation.encode_target(&target).ok())
    }
}

/// The blocks in which some row has a target, and where each begins once the other rows are gone.
fn labelled_blocks(
    blocks: &dyn TableBlocks,
    preparation: &Preparation,
    empty: &Table,
) -> Result<(Vec<usize>, Vec<u32>), DataError> {
    let target = preparation.target_column(empty)?;
    let count = blocks.blocks().len().saturating_sub(1);
    let missing = parallel(count, |block| blocks.missing(block, target))?;
    let (mut kept, mut starts, mut end) = (Vec::new(), vec![0], 0);
    for (block, missing) in missing.into_iter().enumerate() {
        let labelled = rows_of(blocks.blocks(), block).unwrap_or(0).saturating_sub(missing);
        if labelled > 0 {
            end += labelled as u32;
            kept.push(block);
            starts.push(end);
        }
    }
    Ok((kept, starts))
}

/// How many rows a block has, if it is there.
fn rows_of(starts: &[u32], block: usize) -> Option<usize> {
    match starts.get(block..block.checked_add(2)?)? {
        [start, end] => Some((end - start) as usize),
        _ => None,
    }
}

fn copy_target(target: Target, y: &mut FieldMut<'_>) -> Option<()> {
    match (target, y) {
        (Target::Values { data, .. }, FieldMut::F32(y)) if data.len() == y.len() => y.copy_from_slice(&data),
        (Target::Classes { data, .. } | Target::Sequence { data, .. }, FieldMut::I32(y)) if data.len() == y.len() => {
            y.copy_from_slice(&data)
        }
        _ => return None,
    }
    Some(())
}

/// The rows of a block's messages, counted in the file.
pub(crate) fn in_file(mut error: DataError, start: u32) -> DataError {
    if let DataError::Cell { place, .. } = &mut error {
        place.row += start as usize;
    }
    error
}

/// Some rows of a table.
pub(crate) fn pick(table: &Table, rows: &[u32]) -> Table {
    let values = |values: &Values| match values {
        Values::Number(values) => Values::Number(rows.iter().map(|row| values[*row as usize]).collect()),
        Values::Text { codes, labels } => {
            // Only the labels of these rows, in order of first appearance.
            let mut renamed = vec![u32::MAX; labels.len()];
            let mut kept: Vec<String> = Vec::new();
            let codes = rows.iter().map(|row| match codes[*row as usize] {
                crate::table::MISSING => crate::table::MISSING,
                code => {
                    let new = &mut renamed[code as usize];
                    if *new == u32::MAX {
                        *new = kept.len() as u32;
                        kept.push(labels[code as usize].clone());
                    }
                    *new
                }
            });
            Values::Text { codes: codes.collect(), labels: kept }
        }
    };
    let column = |column: &Column| Column { name: column.name.clone(), values: values(&column.values) };
    Table {
        name: table.name.clone(),
        columns: table.columns.iter().map(column).collect(),
        rows: rows.len(),
        header: table.header,
        reading: table.reading.clone(),
    }
}
