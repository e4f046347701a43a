//! What is to be learned: a source read, split and encoded, with what must be known to encode later rows alike.

mod altered;
mod asked;
mod data_memory;
mod given;
mod images;
mod packed;
mod packed_rows;
mod pictures;
mod rows;
mod series;
mod stream;
mod table;
mod text;
mod variation;

use std::path::Path;

use citius_data::{
    Checksum, Dataset, Escaped, Features, Found, OnError, Preparation, PrepareOptions, Sampling, Target, Task, schema,
};
pub use citius_data::{count, plural};
use citius_nn::{Network, RowShape};
use serde::{Deserialize, Serialize};

pub(crate) use asked::{Asked, is_packed};
pub use data_memory::{blocks_within, larger_than_memory, larger_when_encoded, most_sampled};
pub use packed::{BYTES_NOTE, FROM_NOTE, PREPARATION_NOTE};
pub(crate) use packed_rows::PackedRows;
pub use rows::{RowsFrom, RowsInput, open_pictures};
pub use table::read_options;
pub(crate) use text::{BATCH as TEXT_BATCH, has_gpu};
pub(crate) use variation::in_step;

use crate::config::{SourceKind, TrackedWishes, Wishes};
use crate::{Choice, LoadingOptions, Material, TrainError};

/// Data sets ready to train on.
pub struct Problem {
    /// For people.
    pub name: String,
    /// For the name of the run's directory.
    pub stem: String,
    /// Our own digits.
    pub embedded: bool,
    pub task: Task,
    pub input: Input,
    pub train: Material,
    pub validation: Option<Dataset>,
    pub test: Option<Dataset>,
    /// What was found and decided.
    pub choices: Vec<Choice>,
    /// Settings that were read for it.
    pub(crate) settings_read: Vec<&'static str>,
}

/// How raw rows become inputs, and outputs answers; saved with the model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Input {
    Table {
        preparation: Box<Preparation>,
    },
    /// Grey pictures: input = byte · scale + shift.
    Images {
        height: usize,
        width: usize,
        scale: f32,
        shift: f32,
        labels: Vec<String>,
    },
    /// Rows of any source.
    Rows(Box<RowsInput>),
}

impl Input {
    pub fn width(&self) -> usize {
        match self {
            Input::Table { preparation } => preparation.features(),
            Input::Images { height, width, .. } => height.saturating_mul(*width),
            Input::Rows(rows) => rows.width(),
        }
    }

    /// What a row is to a network.
    pub fn row_shape(&self) -> RowShape {
        match self {
            Input::Table { preparation } => RowShape::Flat { width: preparation.features() },
            Input::Images { height, width, .. } => RowShape::Picture { channels: 1, height: *height, width: *width },
            Input::Rows(rows) => rows.row_shape(),
        }
    }

    pub fn outputs(&self) -> usize {
        match self {
            Input::Table { preparation } => preparation.outputs(),
            Input::Images { labels, .. } => labels.len(),
            Input::Rows(rows) => rows.outputs(),
        }
    }

    pub fn task(&self) -> Task {
        match self {
            Input::Table { preparation } => preparation.task(),
            Input::Images { .. } => Task::Classes,
            Input::Rows(rows) => rows.task(),
        }
    }

    /// Classes in the order of their numbers.
    pub fn labels(&self) -> &[String] {
        match self {
            Input::Table { preparation } => preparation.class_labels(),
            Input::Images { labels, .. } => labels,
            Input::Rows(rows) => rows.labels(),
        }
    }

    /// The name of the target's column; `y` where it has none.
    pub fn target_name(&self) -> &str {
        match self {
            Input::Table { preparation } => preparation.target_name(),
            Input::Images { .. } => schema::TARGET,
            Input::Rows(rows) => match &rows.from {
                RowsFrom::Series { scale, .. } => scale.targets.first().map_or(schema::TARGET, |target| &target.name),
                _ => schema::TARGET,
            },
        }
    }

    /// Mean and deviation of a numeric target.
    pub fn target_scale(&self) -> (f64, f64) {
        match self {
            Input::Table { preparation } => preparation.target_scale(),
            Input::Images { .. } => (0.0, 1.0),
            Input::Rows(rows) => rows.target_scale,
        }
    }
}

/// What changes training pictures is refused where there are none that it would change.
fn expect_pictures(wishes: &TrackedWishes<'_>) -> Result<(), TrainError> {
    let asked = match (&*wishes.augment, *wishes.mix) {
        (None, None) => return Ok(()),
        (Some(_), _) => "augment",
        (None, Some(_)) => "mix",
    };
    let pictures = match (&*wishes.source, *wishes.kind) {
        (Some(_), Some(kind)) => kind == SourceKind::Pictures,
        // a packed file says itself what it holds
        (Some(path), None) => {
            matches!(Found::at(path)?, Found::Pictures(_) | Found::Mnist(_) | Found::Cifar(_) | Found::Packed(_))
        }
        (None, _) => true,
    };
    let message = format!("{asked} is for pictures, and the source is none of them; leave it out");
    if pictures { Ok(()) } else { Err(TrainError::Setting(message)) }
}

/// A kind that the path cannot be is refused.
fn refuse_kind(path: &Path, wishes: &TrackedWishes<'_>) -> Result<(), TrainError> {
    let Some(kind) = *wishes.kind else { return Ok(()) };
    let what = match Found::at(path) {
        Ok(Found::Packed(_)) => "a packed file, which says itself what it holds",
        Ok(Found::Mnist(_) | Found::Cifar(_) | Found::Pictures(_)) if kind != SourceKind::Pictures => "pictures",
        _ => return Ok(()),
    };
    let problem = format!("--kind {}: {} is {what}; leave it out", kind.name(), path.escaped());
    Err(TrainError::Setting(problem))
}

/// Refuses settings of `prepare` that are not for this kind of source.
fn refuse_other_preparation(prepare: &PrepareOptions, known: &[&str], what: &str) -> Result<(), TrainError> {
    let given = serde_json::to_value(prepare).unwrap_or_default();
    let given: Vec<&String> = given.as_object().into_iter().flat_map(|settings| settings.keys()).collect();
    match given.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let known = known.join(", ");
            Err(TrainError::Setting(format!("prepare.{name} is for tables; {what} know {known}; leave it out")))
        }
    }
}

/// Refuses what has but one class, as a table's target of one value is refused.
fn expect_classes(name: &str, what: &str, labels: &[String], next: &str) -> Result<(), TrainError> {
    match labels {
        [only] => {
            let problem = format!("{name}: the only {what} is {only:?}, so there is nothing to learn; {next}");
            Err(TrainError::Setting(problem))
        }
        _ => Ok(()),
    }
}

impl Problem {
    /// Reads the source that was asked for, the embedded digits if none.
    pub fn read(wishes: &Wishes) -> Result<Problem, TrainError> {
        let tracked = TrackedWishes::new(wishes);
        let mut problem = Problem::as_found(&tracked)?;
        problem.rescale(&tracked)?;
        problem.alter(&tracked)?;
        problem.note_idle_loading(&tracked);
        problem.settings_read = tracked.read();
        Ok(problem)
    }

    /// What only a loader uses is said to be idle where rows are held in memory: the same command may meet a larger file.
    fn note_idle_loading(&mut self, wishes: &TrackedWishes<'_>) {
        if self.train.resident().is_none() {
            return;
        }
        let given = [("--workers", wishes.workers.is_some()), ("--prefetch", wishes.prefetch.is_some())];
        for (flag, _) in given.iter().filter(|(_, given)| *given) {
            let value = format!("{flag} is not used: the rows are held in memory, nothing is loaded");
            self.choices.push(Choice::new("note", value, ""));
        }
    }

    /// What the data is, for messages.
    pub(crate) fn described(&self) -> &'static str {
        match &self.input {
            _ if self.embedded => "the embedded digits",
            Input::Table { .. } => match self.train.resident() {
                Some(_) => "a table",
                None => "a table that is read in blocks",
            },
            Input::Images { .. } => "a directory of MNIST's files",
            Input::Rows(rows) => match rows.from {
                RowsFrom::Pictures { .. } => "a folder of pictures",
                RowsFrom::Series { .. } => "a series",
                RowsFrom::Text { .. } | RowsFrom::Tokens { .. } => "a text",
                RowsFrom::Cifar => "a directory of CIFAR's files",
                RowsFrom::Packed => "a packed file",
                RowsFrom::Own => "rows that a program makes",
            },
        }
    }

    fn as_found(wishes: &TrackedWishes<'_>) -> Result<Problem, TrainError> {
        expect_pictures(wishes)?;
        let Some(path) = &*wishes.source else {
            return Problem::digits(60_000, 10_000)?.divided(wishes)?.varied(wishes);
        };
        refuse_kind(path, wishes)?;
        match *wishes.kind {
            Some(SourceKind::Pictures) if !matches!(Found::at(path)?, Found::Mnist(_) | Found::Cifar(_)) => {
                return Problem::pictures(path, wishes);
            }
            Some(SourceKind::Text) => return Problem::text(path, wishes),
            Some(SourceKind::Series) => return Problem::series(path, wishes),
            Some(SourceKind::Table) => return Problem::tables(std::slice::from_ref(path), wishes),
            Some(SourceKind::Pictures) | None => {}
        }
        // whether the source has windows is not known yet: where they are used, they are read
        let series = wishes.window.is_given() || wishes.horizon.is_given();
        let reads = matches!(*wishes.model, Some(Network::Gpt { .. }));
        match (Found::at(path)?, series) {
            // characters are characters, whatever else they may mean
            (Found::Tables(paths), _) if reads && paths.len() == 1 => Problem::text(&paths[0], wishes),
            (Found::Mnist(path), _) => Problem::mnist(&path)?.divided(wishes)?.varied(wishes),
            (Found::Cifar(path), _) => Problem::cifar(&path)?.divided(wishes)?.varied(wishes),
            (Found::Pictures(path), _) => Problem::pictures(&path, wishes),
            (Found::Packed(path), _) => Problem::packed(&path, wishes),
            (Found::Text(path), _) => Problem::text(&path, wishes),
            (Found::Tables(paths), true) => match &paths[..] {
                [path] => Problem::series(path, wishes),
                _ => Err(TrainError::Setting("--window and --horizon need one table, in the order of time".into())),
            },
            (Found::Tables(paths), false) => Problem::tables(&paths, wishes),
        }
    }

    /// A number that is different for different data: guards a resumed run.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Checksum::default();
        let form = self.train.form();
        hash.add(format!("{form:?}").as_bytes());
        for set in [self.train.resident(), self.validation.as_ref(), self.test.as_ref()].into_iter().flatten() {
            hash.add(&(set.rows as u64).to_le_bytes());
            match &set.features {
                Features::F32 { data, .. } => hash.add_numbers(data),
                Features::U8 { data, .. } => hash.add(data),
                Features::I32 { data, .. } => hash.add_numbers(data),
            }
            match &set.target {
                Target::Values { data, .. } => hash.add_numbers(data),
                Target::Classes { data, .. } | Target::Sequence { data, .. } => hash.add_numbers(data),
            }
        }
        hash.value()
    }

    /// Training and validation rows together, where they are in memory.
    pub fn all_rows(&self) -> Option<Dataset> {
        let train = self.train.resident()?;
        let mut all = train.clone();
        let Some(more) = &self.validation else { return Some(all) };
        all.rows += more.rows;
        match (&mut all.features, &more.features) {
            (Features::F32 { data, .. }, Features::F32 { data: more, .. }) => data.extend_from_slice(more),
            (Features::U8 { data, .. }, Features::U8 { data: more, .. }) => data.extend_from_slice(more),
            (Features::I32 { data, .. }, Features::I32 { data: more, .. }) => data.extend_from_slice(more),
            _ => return None,
        }
        match (&mut all.target, &more.target) {
            (Target::Values { data, .. }, Target::Values { data: more, .. }) => data.extend_from_slice(more),
            (Target::Classes { data, .. }, Target::Classes { data: more, .. })
            | (Target::Sequence { data, .. }, Target::Sequence { data: more, .. }) => data.extend_from_slice(more),
            _ => return None,
        }
        Some(all)
    }
}

/// How rows are loaded; what to do about those that cannot be read is for sources that can have such rows.
fn loading(wishes: &TrackedWishes<'_>) -> LoadingOptions {
    LoadingOptions {
        workers: wishes.workers.and_then(|workers| workers.0),
        prefetch: *wishes.prefetch,
        memory_limit: wishes.memory.map(|size| usize::try_from(size.0).unwrap_or(usize::MAX)),
        on_error: OnError::Fail,
        sampling: Sampling::Shuffled,
        unpinned: *wishes.pinned == Some(false),
    }
}

/// The name of a file or directory without its extensions; the directory's when the file's says nothing.
fn stem(path: &Path) -> String {
    let full = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = |p: &Path| p.file_name().map_or("model".into(), |n| n.to_string_lossy().into_owned());
    let file = name(&full);
    let stem = file.split('.').find(|part| !part.is_empty()).unwrap_or("model").to_owned();
    plain(&if stem == "data" { full.parent().map_or(stem, name) } else { stem })
}

/// A name that can be that of a directory.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '-' }).collect()
}
