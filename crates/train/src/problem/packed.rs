//! Packed files, in memory where they fit, else read block by block.

use std::path::Path;
use std::sync::Arc;

use citius_data::packed::Metadata;
use citius_data::{
    DataError, Escaped, Field, Kind, PackedFile, Preparation, Source, SplitOptions, Splits, Stream, Task, schema,
};
use citius_nn::RowShape;
use serde::de::DeserializeOwned;

use super::data_memory::DataMemory;
use super::given::{divide, refuse_row_files};
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
        expect_packed(&file, preparation.as_ref(), &from, wishes)?;
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
        // the file's rows, and the rows of each set
        let size = (meta.rows as u64 * meta.schema.row_bytes() as u64).saturating_mul(2);
        let data = format!("{}: {} rows of {}", meta.source, count(meta.rows as usize), meta.schema);
        let mut choices = vec![Choice::new("data", data, "")];
        if let Some(preparation) = &preparation {
            choices.extend(preparation.notes().iter().map(Choice::from_note));
        }
        let mut problem = match size > DataMemory::of(wishes).bytes {
            true => Problem::stream(Arc::new(file), input, stem(path), choices, wishes)?,
            false => {
                let source: Arc<dyn Source> = Arc::new(file.load(u64::MAX)?);
                let (splits, why_rows) = split(source.rows(), &input.from, wishes)?;
                let (name, stem) = (file.name().to_owned(), stem(path));
                let (train, judged) = (source.clone(), source);
                let (constant, mix) = (true, None);
                let parts = Parts { name, stem, input, train, judged, constant, mix, splits, why_rows, choices };
                Problem::of_parts(parts, super::loading(wishes), DataMemory::of(wishes).bytes)?
            }
        };
        if let Some(preparation) = preparation {
            problem.task = preparation.task();
            problem.input = Input::Table { preparation: Box::new(preparation) };
        }
        if !matches!(problem.input.row_shape(), RowShape::Picture { .. }) {
            let asked = [("augment", wishes.augment.is_given()), ("mix", wishes.mix.is_given())];
            if let Some((setting, _)) = asked.iter().find(|(_, given)| *given) {
                let problem = format!("{setting} is for pictures, and {} holds none; leave it out", path.escaped());
                return Err(TrainError::Setting(problem));
            }
        }
        problem.varied(wishes)
    }
}

/// What was decided when the file was packed stays: target and task may be named, not changed.
fn expect_packed(
    file: &PackedFile,
    preparation: Option<&Preparation>,
    from: &RowsFrom,
    wishes: &TrackedWishes<'_>,
) -> Result<(), TrainError> {
    let refuse = |what: String| {
        let name = file.name();
        Err(TrainError::Setting(format!("{what}; pack the source of {name} again with what you want, or leave it out")))
    };
    let targets: Vec<&str> = match (preparation, from) {
        (Some(preparation), _) => vec![preparation.target_name()],
        (None, RowsFrom::Series { scale, .. }) => scale.targets.iter().map(|target| target.name.as_str()).collect(),
        (None, _) => vec![schema::TARGET],
    };
    if let Some(asked) = &*wishes.target
        && targets != [asked.as_str()]
    {
        return refuse(format!("--target {asked}: the packed file predicts {:?}", targets.join(", ")));
    }
    if let Some(asked) = &*wishes.task {
        let asked = asked.parse::<Task>().map_err(TrainError::Setting)?;
        let classes = file.metadata().schema.field(schema::TARGET).is_some_and(|y| !y.labels.is_empty());
        let packed = match preparation {
            Some(preparation) => preparation.task(),
            None if classes => Task::Classes,
            None => Task::Regression,
        };
        if asked != packed {
            return refuse(format!("--task {}: the packed file is one of {}", name_of(asked), name_of(packed)));
        }
    }
    let decided = [
        ("--missing", wishes.missing.is_some()),
        ("--text", wishes.text.is_some()),
        ("--header", wishes.header.is_some()),
        ("--delimiter", wishes.delimiter.is_some()),
        ("--encoding", wishes.encoding.is_some()),
        ("--window", wishes.window.is_some()),
        ("--horizon", wishes.horizon.is_some()),
        ("--stride", wishes.stride.is_some()),
        ("--size", wishes.size.is_some()),
        ("prepare", wishes.prepare.is_some()),
    ];
    match decided.iter().find(|(_, given)| *given) {
        Some((flag, _)) => refuse(format!("{flag}: the rows of a packed file are finished")),
        None => Ok(()),
    }
}

fn name_of(task: Task) -> &'static str {
    match task {
        Task::Regression => "regression",
        Task::Binary => "binary",
        Task::Classes => "classes",
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
fn split(rows: u32, from: &RowsFrom, wishes: &TrackedWishes<'_>) -> Result<(Splits, Option<&'static str>), TrainError> {
    if matches!(from, RowsFrom::Series { .. } | RowsFrom::Text { .. } | RowsFrom::Tokens { .. }) {
        let why = "the rows of this packed file are windows that overlap; use --validation and --test";
        refuse_row_files(wishes, why)?;
    }
    let RowsFrom::Series { length, stride, horizon, .. } = from else {
        return divide(rows, None, SplitOptions { validation: 0.1, test: 0.1, seed: 0 }, wishes);
    };
    let after = |share: f64, end: u32| end - (end as f64 * share.clamp(0.0, 1.0)) as u32;
    let test = after(wishes.test.unwrap_or(0.2), rows);
    let validation = after(wishes.validation.unwrap_or(0.2), test);
    // windows that share a row with those behind the border belong to neither side
    let shared = length.saturating_add(*horizon).saturating_sub(1) / (*stride).max(1);
    let gap = u32::try_from(shared).unwrap_or(u32::MAX);
    let before = |start: u32, end: u32| start..end.saturating_sub(gap).max(start);
    let kept = |start: u32, end: u32| if end < rows { before(start, end) } else { start..end };
    let splits = Splits {
        train: kept(0, validation).collect(),
        validation: kept(validation, test).collect(),
        test: (test..rows).collect(),
    };
    Ok((splits, None))
}
