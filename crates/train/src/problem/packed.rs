//! Packed files, in memory where they fit, else read block by block.

use std::path::Path;
use std::sync::Arc;

use citius_data::packed::Metadata;
use citius_data::{
    DataError, Field, Kind, PackedFile, Preparation, Source, SplitOptions, Splits, Stream, Task, schema,
};
use serde::de::DeserializeOwned;

use super::rows::{Parts, RowsFrom, RowsInput};
use super::{Input, Problem, count, stem};
use crate::config::TrackedWishes;
use crate::{Choice, TrainError};

/// Under these names a packed file keeps how its bytes become numbers, `[scale, shift]`, how a table became its rows (a
/// [`Preparation`]), and what else its rows were made from (a [`RowsFrom`]).
pub const BYTES_NOTE: &str = "bytes";
pub const PREPARATION_NOTE: &str = "preparation";
pub const FROM_NOTE: &str = "from";

impl Problem {
    pub(super) fn packed(path: &Path, wishes: &TrackedWishes<'_>) -> Result<Problem, TrainError> {
        let file = PackedFile::open(path)?;
        let meta = file.metadata();
        let preparation = preparation(&file)?;
        let from: RowsFrom = note(&file, FROM_NOTE)?.unwrap_or(RowsFrom::Packed);
        let target_scale = match &from {
            RowsFrom::Series { scale, .. } if scale.targets.len() == 1 => {
                (scale.targets[0].mean, scale.targets[0].deviation)
            }
            _ => (0.0, 1.0),
        };
        let input = RowsInput {
            from,
            schema: meta.schema.clone(),
            bytes: note(&file, BYTES_NOTE)?.unwrap_or((1.0 / 255.0, 0.0)),
            target_scale,
        };
        let size = meta.rows as u64 * meta.schema.row_bytes() as u64;
        let data = format!("{}: {} rows of {}", meta.source, count(meta.rows as usize), meta.schema);
        let mut choices = vec![Choice::new("data", data, "")];
        if let Some(preparation) = &preparation {
            choices.extend(preparation.notes().iter().map(|note| Choice::from_note(note)));
        }
        let mut problem = match size > super::room(wishes) {
            true => Problem::stream(Arc::new(file), input, stem(path), choices, wishes)?,
            false => {
                let source: Arc<dyn Source> = Arc::new(file.load(u64::MAX)?);
                let splits = split(source.rows(), &input.from, wishes)?;
                let (name, stem) = (file.name().to_owned(), stem(path));
                let (train, judged) = (source.clone(), source);
                let parts = Parts { name, stem, input, train, judged, constant: true, mix: None, splits, choices };
                Problem::of_parts(parts, super::loading(wishes), super::room(wishes))?
            }
        };
        if let Some(preparation) = preparation {
            problem.task = preparation.task();
            problem.input = Input::Table { preparation: Box::new(preparation) };
        }
        Ok(problem)
    }
}

/// How the table became these rows, if they are a table's.
pub(super) fn preparation(file: &PackedFile) -> Result<Option<Preparation>, TrainError> {
    let Some(preparation) = note::<Preparation>(file, PREPARATION_NOTE)? else { return Ok(None) };
    match fits(file.metadata(), &preparation) {
        true => Ok(Some(preparation)),
        false => Err(broken(file, "its preparation is that of other rows; pack it again")),
    }
}

fn fits(meta: &Metadata, preparation: &Preparation) -> bool {
    let (Some(x), Some(y)) = (meta.schema.field(schema::INPUT), meta.schema.field(schema::TARGET)) else {
        return false;
    };
    let target = |y: &Field| match preparation.task() {
        Task::Regression | Task::Binary => y.kind == Kind::F32 && y.width() == preparation.outputs(),
        Task::Classes => y.kind == Kind::I32 && y.labels == preparation.class_labels(),
    };
    x.kind == Kind::F32 && x.width() == preparation.features() && target(y)
}

fn note<T: DeserializeOwned>(file: &PackedFile, name: &str) -> Result<Option<T>, TrainError> {
    let Some(note) = file.metadata().notes.get(name) else { return Ok(None) };
    let read = serde_json::from_value(note.clone());
    read.map(Some).map_err(|error| broken(file, &format!("its note {name:?} makes no sense: {error}; pack it again")))
}

fn broken(file: &PackedFile, problem: &str) -> TrainError {
    DataError::Binary { file: file.name().to_owned(), format: "packed", problem: problem.to_owned() }.into()
}

/// At random; windows over a series in their order, as neighbours share nearly all they show.
fn split(rows: u32, from: &RowsFrom, wishes: &TrackedWishes<'_>) -> Result<Splits, TrainError> {
    let RowsFrom::Series { length, stride, horizon, .. } = from else {
        let share = SplitOptions {
            validation: wishes.validation.unwrap_or(0.1),
            test: wishes.test.unwrap_or(0.1),
            seed: wishes.seed.unwrap_or(0),
        };
        return Ok(Splits::random(&(0..rows).collect::<Vec<u32>>(), share)?);
    };
    let after = |share: f64, end: u32| end - (end as f64 * share.clamp(0.0, 1.0)) as u32;
    let test = after(wishes.test.unwrap_or(0.2), rows);
    let validation = after(wishes.validation.unwrap_or(0.2), test);
    // windows that share a row with those behind the border belong to neither side
    let shared = length.saturating_add(*horizon).saturating_sub(1) / (*stride).max(1);
    let gap = u32::try_from(shared).unwrap_or(u32::MAX);
    let before = |start: u32, end: u32| start..end.saturating_sub(gap).max(start);
    let kept = |start: u32, end: u32| if end < rows { before(start, end) } else { start..end };
    Ok(Splits {
        train: kept(0, validation).collect(),
        validation: kept(validation, test).collect(),
        test: (test..rows).collect(),
    })
}
