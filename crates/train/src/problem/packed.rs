//! Packed files, in memory where they fit, else read block by block.

use std::path::Path;
use std::sync::Arc;

use citius_data::{PackedFile, Source, SplitOptions, Splits, Stream};

use super::rows::{Parts, RowsFrom, RowsInput};
use super::{Problem, count, stem};
use crate::{Choice, TrainError, Wishes};

/// Under these names a packed file keeps how its bytes become numbers, `[scale, shift]`, and how a table became its rows.
pub const BYTES_NOTE: &str = "bytes";
pub const PREPARATION_NOTE: &str = "preparation";

impl Problem {
    pub(super) fn packed(path: &Path, wishes: &Wishes) -> Result<Problem, TrainError> {
        let file = PackedFile::open(path)?;
        let meta = file.metadata();
        let bytes = meta.notes.get(BYTES_NOTE).and_then(|note| serde_json::from_value(note.clone()).ok());
        let input = RowsInput {
            from: RowsFrom::Packed,
            schema: meta.schema.clone(),
            bytes: bytes.unwrap_or((1.0 / 255.0, 0.0)),
            target_scale: (0.0, 1.0),
        };
        let size = meta.rows as u64 * meta.schema.row_bytes() as u64;
        let data = format!("{}: {} rows of {}", meta.source, count(meta.rows as usize), meta.schema);
        let choices = vec![Choice::new("data", data, "")];
        if size > super::room(wishes) {
            return Problem::stream(Arc::new(file), input, stem(path), choices, wishes);
        }
        let source: Arc<dyn Source> = Arc::new(file.load(u64::MAX)?);
        let rows: Vec<u32> = (0..source.rows()).collect();
        let share = SplitOptions {
            validation: wishes.validation.unwrap_or(0.1),
            test: wishes.test.unwrap_or(0.1),
            seed: wishes.seed.unwrap_or(0),
        };
        let splits = Splits::random(&rows, share)?;
        let (name, stem) = (file.name().to_owned(), stem(path));
        let parts = Parts { name, stem, input, train: source.clone(), judged: source, constant: true, splits, choices };
        Problem::of_parts(parts, super::loading(wishes), super::room(wishes))
    }
}
