//! Rows of any source: pictures, windows over a series or a text, a packed file, a user's own.

use std::path::Path;
use std::sync::Arc;

use citius_data::picture::{Mix, Mixed, PictureFolder, PictureList, PictureSource, Pictures, Pipeline};
use citius_data::source::{
    ColumnScale, GapFill, Predict, SeriesOptions, SeriesScale, SeriesWindows, Stored, Text, TextWindows, TimeIndex,
    TimedRows, Vocabulary, longest_fill,
};
use citius_data::{
    DataError, Dataset, Escaped, Features, Field, FieldMut, Found, InMemory, Kind, OnError, PackedFile, Rows, Sampling,
    Schema, Source, Splits, Stream, Table, Target, Task, read_cifar, schema,
};
use citius_nn::RowShape;
use serde::{Deserialize, Serialize};

use super::{Input, Problem, count};
use crate::material::{Feed, Loaded, LoadingOptions};
use crate::{Choice, Material, TrainError};

/// Rows of a source: what they are, and how to have more of them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RowsInput {
    /// How a file becomes rows.
    pub from: RowsFrom,
    /// The fields `x` and `y`.
    pub schema: Schema,
    /// Of inputs that are bytes: value = byte · scale + shift.
    pub bytes: (f32, f32),
    /// Mean and deviation of a numeric target.
    pub target_scale: (f64, f64),
}

/// How a file becomes rows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum RowsFrom {
    /// A folder per class, or a list of paths.
    Pictures { pipeline: Pipeline },
    /// Windows over the rows of a table.
    Series {
        length: usize,
        stride: usize,
        horizon: usize,
        scale: SeriesScale,
        /// The time of rows, where a column says it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<TimeIndex>,
        #[serde(default)]
        fill: GapFill,
    },
    /// Windows over a text, one-hot, and the token behind each.
    Text { length: usize, vocabulary: Vocabulary },
    /// Windows over a text, as numbers of tokens, and the token behind each.
    Tokens { length: usize, vocabulary: Vocabulary },
    /// CIFAR's binary files: the test half, or the training half where there is no other.
    Cifar,
    /// A packed file.
    Packed,
    /// Code of the user's, which no file leads to.
    Own,
}

impl RowsInput {
    /// The rows of another file, prepared alike.
    pub fn open(&self, path: &Path) -> Result<Box<dyn Source>, TrainError> {
        let source: Box<dyn Source> = match &self.from {
            _ if matches!(Found::at(path), Ok(Found::Packed(_))) => Box::new(PackedFile::open(path)?.load(u64::MAX)?),
            RowsFrom::Pictures { pipeline } => {
                Box::new(PictureSource::new(open_pictures(path)?, pipeline.clone(), OnError::Fail)?)
            }
            RowsFrom::Series { length, stride, horizon, scale, time, fill } => {
                let names = |columns: &[ColumnScale]| columns.iter().map(|c| c.name.clone()).collect();
                let options = SeriesOptions {
                    columns: names(&scale.columns),
                    targets: names(&scale.targets),
                    length: *length,
                    stride: *stride,
                    horizon: *horizon,
                    scale: Some(scale.clone()),
                    fill: *fill,
                    longest_fill: longest_fill(*length),
                    ..SeriesOptions::default()
                };
                let table = Table::read(path, &Default::default())?;
                Box::new(SeriesWindows::new(&TimedRows::like(table, time.as_ref(), options.longest_fill)?, &options)?)
            }
            RowsFrom::Text { length, vocabulary } => {
                let text = Arc::new(Text::open_with(path, vocabulary, None)?);
                Box::new(TextWindows::new(text, *length, 1, Predict::Next)?.one_hot()?)
            }
            RowsFrom::Tokens { length, vocabulary } => {
                let text = Arc::new(Text::open_with(path, vocabulary, None)?);
                Box::new(TextWindows::new(text, *length, *length, Predict::Sequence)?)
            }
            RowsFrom::Cifar => {
                let cifar = read_cifar(path)?;
                let labels = cifar.labels.clone();
                let (train, test) = cifar.datasets()?;
                let half = if test.rows > 0 { test } else { train };
                Box::new(InMemory::new(&path.escaped(), Arc::new(half))?.with_labels(labels)?)
            }
            RowsFrom::Packed => Box::new(PackedFile::open(path)?.load(u64::MAX)?),
            RowsFrom::Own => {
                let problem = "this model was trained on rows that a program made; predict with its library";
                return Err(TrainError::Setting(problem.to_owned()));
            }
        };
        self.check_fits(source.as_ref(), path)?;
        Ok(source)
    }

    /// Inputs, and targets that are numbers, are of the kind and size that the model takes.
    pub(super) fn check_fits(&self, source: &dyn Source, path: &Path) -> Result<(), TrainError> {
        let (found, known) = (source.schema(), &self.schema);
        let alike = |name: &str| match (found.field(name), known.field(name)) {
            // rows without a shape of their own are pixels one after the other
            (Some(a), Some(b)) if a.shape.len() == b.shape.len() => a.kind == b.kind && a.shape == b.shape,
            (Some(a), Some(b)) => a.kind == b.kind && a.width() == b.width(),
            (None, None) => true,
            _ => false,
        };
        let numbers = |schema: &Schema| schema.field(schema::TARGET).is_some_and(|y| y.kind == Kind::F32);
        let targets_fit = !numbers(known) || alike(schema::TARGET);
        match alike(schema::INPUT) && targets_fit {
            true => Ok(()),
            false => Err(TrainError::Setting(format!(
                "{}: its rows are {found}, the model was trained on {known}",
                path.escaped()
            ))),
        }
    }

    pub fn width(&self) -> usize {
        self.schema.field(schema::INPUT).map_or(0, Field::width)
    }

    pub fn row_shape(&self) -> RowShape {
        let field = self.schema.field(schema::INPUT);
        match (&self.from, field.map_or(&[][..], |x| &x.shape)) {
            (RowsFrom::Tokens { .. }, &[length]) => RowShape::Tokens { length },
            (RowsFrom::Text { length, .. }, _) if *length > 0 => {
                RowShape::Series { length: *length, features: self.width() / length }
            }
            (RowsFrom::Series { .. }, &[length, features]) => RowShape::Series { length, features },
            (_, &[channels, height, width]) => RowShape::Picture { channels, height, width },
            _ => RowShape::Flat { width: self.width() },
        }
    }

    pub fn outputs(&self) -> usize {
        self.schema.field(schema::TARGET).map_or(0, |y| if y.labels.is_empty() { y.width() } else { y.labels.len() })
    }

    pub fn task(&self) -> Task {
        if self.labels().is_empty() { Task::Regression } else { Task::Classes }
    }

    pub fn labels(&self) -> &[String] {
        self.schema.field(schema::TARGET).map_or(&[], |y| &y.labels)
    }

    /// The numbers of rows as a data set.
    pub fn dataset(&self, source: &dyn Source, rows: &[u32]) -> Result<Dataset, TrainError> {
        Ok(dataset_of(source, rows, self.bytes)?)
    }
}

/// Pictures in a folder per class, or in a list of paths.
pub fn open_pictures(path: &Path) -> Result<Box<dyn Pictures>, TrainError> {
    Ok(match path.is_dir() {
        true => Box::new(PictureFolder::open(path)?),
        false => Box::new(PictureList::open(path)?),
    })
}

/// What a problem is made of.
pub(super) struct Parts {
    pub name: String,
    pub stem: String,
    pub input: RowsInput,
    /// Training rows, as they are to be delivered.
    pub train: Arc<dyn Source>,
    /// The same rows without anything random; they are judged.
    pub judged: Arc<dyn Source>,
    /// Whether training rows are the same in every epoch.
    pub constant: bool,
    /// How training rows are mixed with each other.
    pub mix: Option<Mix>,
    pub splits: Splits,
    /// Why rows were divided so, where files name them.
    pub why_rows: Option<&'static str>,
    pub choices: Vec<Choice>,
}

impl Problem {
    /// Rows that the caller's own code delivers; `splits` says which to train on, to stop by and to judge by.
    pub fn on_source(source: Arc<dyn Source>, splits: Splits, loading: LoadingOptions) -> Result<Problem, TrainError> {
        let input = RowsInput {
            from: RowsFrom::Own,
            schema: source.schema().clone(),
            bytes: (1.0 / 255.0, 0.0),
            target_scale: (0.0, 1.0),
        };
        let name = source.name().to_owned();
        let choices = vec![Choice::new(
            "data",
            format!("{name}: {} rows of {}", count(source.rows() as usize), input.schema),
            "",
        )];
        let parts = Parts {
            stem: super::plain(&name),
            name,
            input,
            train: source.clone(),
            judged: source,
            constant: false,
            mix: None,
            splits,
            why_rows: None,
            choices,
        };
        Problem::of_parts(parts, loading, 0)
    }

    /// Training rows in memory where they are the same in every epoch and take at most `room` bytes; else loaded.
    pub(super) fn of_parts(parts: Parts, loading: LoadingOptions, room: u64) -> Result<Problem, TrainError> {
        let Parts { name, stem, input, train, judged, constant, mix, splits, why_rows, mut choices } = parts;
        let some = |rows: &[u32]| match rows.is_empty() {
            true => Ok(None),
            false => input.dataset(judged.as_ref(), rows).map(Some),
        };
        let (validation, test) = (some(&splits.validation)?, some(&splits.test)?);
        let bytes = splits.train.len() as u64 * train.schema().row_bytes() as u64;
        let weighted = matches!(loading.sampling, Sampling::Weighted(_));
        let resident = constant && bytes <= room && !weighted;
        let material = match resident {
            true => Material::Resident(input.dataset(train.as_ref(), &splits.train)?),
            false => {
                let subset = Subset { source: train, rows: splits.train.clone() };
                // partners are training rows too
                let feed = Feed::Source(match mix {
                    None => Arc::new(subset),
                    Some(mix) => Arc::new(Mixed::new(Box::new(subset), mix)?),
                });
                Material::Loaded(Loaded::new(feed, input.bytes, loading)?)
            }
        };
        let counts = [splits.train.len(), splits.validation.len(), splits.test.len()].map(count);
        let how = if resident { "in memory" } else { "loaded as they are needed" };
        let sets = format!("{} train, {} validation, {} test", counts[0], counts[1], counts[2]);
        let why = why_rows.map_or_else(|| how.to_owned(), |why| format!("{why}; {how}"));
        choices.push(Choice::new("rows", sets, why));
        Ok(Problem {
            name,
            stem,
            embedded: false,
            task: input.task(),
            input: Input::Rows(Box::new(input)),
            train: material,
            validation,
            test,
            choices,
            settings_read: Vec::new(),
        })
    }
}

/// Rows of a source as a data set.
pub(super) fn dataset_of(source: &dyn Source, rows: &[u32], (scale, shift): (f32, f32)) -> Result<Dataset, DataError> {
    let fields = source.schema();
    let wrong = || DataError::Inconsistent(format!("{}: x and y are needed, its rows are {fields}", source.name()));
    let [x, y] = &fields.fields[..] else { return Err(wrong()) };
    let (width, count) = (x.width(), rows.len());
    let mut features = match x.kind {
        Kind::F32 => Features::F32 { data: vec![0.0; count * width], width },
        Kind::U8 => Features::U8 { data: vec![0; count * width], width, scale, shift },
        Kind::I32 => Features::I32 { data: vec![0; count * width], width },
    };
    let mut target = match y.kind {
        Kind::F32 => Target::Values { data: vec![0.0; count * y.width()], width: y.width() },
        Kind::I32 if y.shape.is_empty() => Target::Classes { data: vec![0; count], classes: y.labels.len() },
        Kind::I32 => Target::Sequence { data: vec![0; count * y.width()], length: y.width(), classes: y.labels.len() },
        Kind::U8 => return Err(wrong()),
    };
    let into_x = match &mut features {
        Features::F32 { data, .. } => FieldMut::F32(data),
        Features::U8 { data, .. } => FieldMut::U8(data),
        Features::I32 { data, .. } => FieldMut::I32(data),
    };
    let into_y = match &mut target {
        Target::Values { data, .. } => FieldMut::F32(data),
        Target::Classes { data, .. } | Target::Sequence { data, .. } => FieldMut::I32(data),
    };
    source.gather(&Rows { numbers: rows, seed: 0, epoch: 0 }, &mut [into_x, into_y])?;
    Dataset::new(count, features, target)
}

/// Some rows of a source, by number.
struct Subset {
    source: Arc<dyn Source>,
    rows: Vec<u32>,
}

impl Source for Subset {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn schema(&self) -> &Schema {
        self.source.schema()
    }

    fn rows(&self) -> u32 {
        self.rows.len() as u32
    }

    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        let numbers: Vec<u32> = rows.numbers.iter().map(|row| self.rows[*row as usize]).collect();
        self.source.gather(&Rows { numbers: &numbers, ..*rows }, into)
    }
}

/// Some blocks of a stream, by number.
pub(super) struct SomeBlocks {
    stream: Arc<dyn Stream>,
    blocks: Vec<usize>,
    starts: Vec<u32>,
}

impl SomeBlocks {
    pub fn new(stream: Arc<dyn Stream>, blocks: Vec<usize>) -> SomeBlocks {
        let mut starts = vec![0];
        for block in &blocks {
            let size = stream.blocks()[block + 1] - stream.blocks()[*block];
            starts.push(starts[starts.len() - 1] + size);
        }
        SomeBlocks { stream, blocks, starts }
    }

    /// All of them as a data set.
    pub fn dataset(&self, bytes: (f32, f32)) -> Result<Dataset, DataError> {
        let slots = Stored::from_stream(self)?;
        let rows: Vec<u32> = (0..slots.rows()).collect();
        dataset_of(&slots, &rows, bytes)
    }
}

impl Stream for SomeBlocks {
    fn name(&self) -> &str {
        self.stream.name()
    }

    fn schema(&self) -> &Schema {
        self.stream.schema()
    }

    fn blocks(&self) -> &[u32] {
        &self.starts
    }

    fn read(&self, block: usize, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        self.stream.read(self.blocks[block], into)
    }

    fn announce(&self, block: usize) {
        self.stream.announce(self.blocks[block]);
    }

    fn readers(&self) -> usize {
        self.stream.readers()
    }
}
