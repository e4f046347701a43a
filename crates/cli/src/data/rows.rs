//! Rows on their way into a packed file: named as they will be, in the order they will have, until somebody says stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use citius_data::{DataError, FieldMut, Rows, Schema, Source, Stream};

/// A source or a stream that ends with an error once `stop` is set.
pub struct Stoppable<'a, S: ?Sized> {
    pub rows: &'a S,
    pub schema: Schema,
    /// Which row comes when; as they are where empty.
    pub order: Vec<u32>,
    pub stop: Arc<AtomicBool>,
}

impl<S: ?Sized> Stoppable<'_, S> {
    fn go_on(&self) -> Result<(), DataError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(DataError::Inconsistent("interrupted".into())),
            false => Ok(()),
        }
    }
}

impl<S: Source + ?Sized> Source for Stoppable<'_, S> {
    fn name(&self) -> &str {
        self.rows.name()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u32 {
        self.rows.rows()
    }

    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        self.go_on()?;
        if self.order.is_empty() {
            return self.rows.gather(rows, into);
        }
        let numbers: Vec<u32> = rows.numbers.iter().map(|row| self.order[*row as usize]).collect();
        self.rows.gather(&Rows { numbers: &numbers, ..*rows }, into)
    }
}

impl<S: Stream + ?Sized> Stream for Stoppable<'_, S> {
    fn name(&self) -> &str {
        self.rows.name()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn blocks(&self) -> &[u32] {
        self.rows.blocks()
    }

    fn read(&self, block: usize, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        self.go_on()?;
        self.rows.read(block, into)
    }
}
