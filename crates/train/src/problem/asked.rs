//! Rows that a model is to answer for, or to be judged by.

use std::path::{Path, PathBuf};

use citius_data::picture::{PictureFiles, PictureSource, Pipeline};
use citius_data::source::{GapFill, SeriesInputs, SeriesScale, TimeIndex, TimedRows};
use citius_data::{
    DataError, Dataset, Escaped, Features, FieldMut, Found, Kind, OnError, Rows, Source, Table, Target, schema,
};

use super::plural;
use super::rows::{RowsFrom, RowsInput, open_pictures};
use crate::TrainError;
use crate::predictions::{About, KeptColumn, PredictOptions};

/// Inputs alone, and what each answer will be about.
pub(crate) struct Asked {
    pub features: Features,
    pub about: About,
    /// Places of answers that there are no inputs for, rising.
    pub missing: Vec<usize>,
    pub notes: Vec<String>,
}

impl RowsInput {
    /// Whatever the sources hold, to be answered for.
    pub(crate) fn asked(&self, sources: &[PathBuf], options: &PredictOptions) -> Result<Asked, TrainError> {
        if let (RowsFrom::Pictures { pipeline }, false) = (&self.from, sources.iter().any(|path| is_packed(path))) {
            return self.pictures(sources, pipeline, options.on_error);
        }
        let path = only(sources)?;
        match &self.from {
            RowsFrom::Series { length, stride, horizon, scale, time, fill } => {
                let windows = Windows {
                    length: *length,
                    stride: (*stride).max(1),
                    horizon: *horizon,
                    width: self.width(),
                    scale,
                    time: time.as_ref(),
                    fill: *fill,
                };
                match (is_packed(path), options.every_window) {
                    (false, false) => windows.last(path),
                    (false, true) => windows.all(path),
                    (true, true) => {
                        let asked = self.rows(path)?;
                        Ok(Asked { about: windows.packed(asked.features.rows()), ..asked })
                    }
                    (true, false) => Err(TrainError::Setting(format!(
                        "{}: a packed file holds windows and what follows them, not the latest rows; give the table it \
                         was packed from, or add --every-window",
                        path.escaped()
                    ))),
                }
            }
            _ => self.rows(path),
        }
    }

    /// All rows of a file with their answers, and remarks. Classes are those of the model, whatever the file's numbers.
    pub(crate) fn labelled(&self, path: &Path, on_error: OnError) -> Result<(Dataset, Vec<String>), TrainError> {
        let pictures = match &self.from {
            RowsFrom::Pictures { pipeline } if !is_packed(path) => Some(pipeline),
            _ => None,
        };
        let Some(pipeline) = pictures else {
            let source = self.open(path)?;
            let all: Vec<u32> = (0..source.rows()).collect();
            let mut data = self.dataset(source.as_ref(), &all)?;
            if let Target::Classes { data, classes } = &mut data.target {
                let found = source.schema().field(schema::TARGET).map_or(&[][..], |y| &y.labels);
                let known = self.numbers_of(found, path)?;
                data.iter_mut().for_each(|class| *class = known[*class as usize]);
                *classes = self.labels().len();
            }
            return Ok((data, Vec::new()));
        };
        let source = PictureSource::new(open_pictures(path)?, pipeline.clone(), OnError::Fail)?;
        self.check_fits(&source, path)?;
        let known = self.numbers_of(source.pictures().labels(), path)?;
        let read = Read::pictures(&source, self.bytes, on_error)?;
        let classes = read.classes.iter().map(|class| known[*class as usize]).collect();
        let target = Target::Classes { data: classes, classes: self.labels().len() };
        let notes = read.notes("left out");
        Ok((Dataset::new(read.features.rows(), read.features, target)?, notes))
    }

    /// The model's numbers of classes that a file has, by name.
    fn numbers_of(&self, classes: &[String], path: &Path) -> Result<Vec<i32>, TrainError> {
        let known = self.labels();
        let number = |label: &String| match known.iter().position(|known| known == label) {
            Some(number) => Ok(number as i32),
            None => {
                let listed = known[..known.len().min(LISTED)].join(", ");
                let more = if known.len() > LISTED { " …" } else { "" };
                let problem = format!("the model does not know the class {label:?}, only {listed}{more}");
                let next = "leave its rows out, or train a model with them";
                Err(TrainError::Setting(format!("{}: {problem}; {next}", path.escaped())))
            }
        };
        classes.iter().map(number).collect()
    }

    fn pictures(&self, sources: &[PathBuf], pipeline: &Pipeline, on_error: OnError) -> Result<Asked, TrainError> {
        let files = PictureFiles::open(sources)?;
        let (shown, others) = (files.shown().to_vec(), files.skipped());
        let source = PictureSource::new(Box::new(files), pipeline.clone(), OnError::Fail)?;
        self.check_fits(&source, &sources[0])?;
        let read = Read::pictures(&source, self.bytes, on_error)?;
        let mut notes = read.notes("without an answer");
        if others > 0 {
            notes.push(format!("{others} other files are hidden or no pictures by their names, and are left out"));
        }
        let missing = read.unread.iter().map(|(at, _)| *at).collect();
        Ok(Asked { features: read.features, about: About::Pictures(shown), missing, notes })
    }

    fn rows(&self, path: &Path) -> Result<Asked, TrainError> {
        let source = self.open(path)?;
        let all: Vec<u32> = (0..source.rows()).collect();
        Ok(Asked::new(self.dataset(source.as_ref(), &all)?.features, About::Rows))
    }
}

impl Asked {
    pub fn new(features: Features, about: About) -> Asked {
        Asked { features, about, missing: Vec::new(), notes: Vec::new() }
    }
}

/// Classes that a message lists.
const LISTED: usize = 20;

/// The source, where there is only one.
fn only(sources: &[PathBuf]) -> Result<&Path, TrainError> {
    match sources {
        [path] => Ok(path),
        _ => Err(TrainError::Setting(format!(
            "{} sources; several at once are for a model of pictures, and none of them packed: give one",
            sources.len()
        ))),
    }
}

pub(crate) fn is_packed(path: &Path) -> bool {
    matches!(Found::at(path), Ok(Found::Packed(_)))
}

/// Windows over a table, whatever follows them.
struct Windows<'a> {
    length: usize,
    stride: usize,
    horizon: usize,
    /// Values of one.
    width: usize,
    scale: &'a SeriesScale,
    time: Option<&'a TimeIndex>,
    fill: GapFill,
}

impl Windows<'_> {
    /// The last one, which ends with the table.
    fn last(&self, path: &Path) -> Result<Asked, TrainError> {
        let (series, inputs) = self.read(path)?;
        let rows = series.table.rows;
        let known = inputs.unbroken.last().copied().unwrap_or(0);
        if known < self.length {
            let problem = format!(
                "{}: only {} at the end follow each other without a gap of more than {} or a value that nothing precedes, and \
                 the model predicts from a window of {}",
                path.escaped(),
                plural(known, "row"),
                self.length,
                self.length
            );
            return Err(TrainError::Setting(problem));
        }
        let data = inputs.values[(rows - self.length) * self.scale.columns.len()..].to_vec();
        let about = About::Ahead { time: self.times(&series, &[rows]) };
        Ok(Asked { notes: notes(&series, &inputs), ..Asked::new(Features::F32 { data, width: self.width }, about) })
    }

    fn all(&self, path: &Path) -> Result<Asked, TrainError> {
        let (series, inputs) = self.read(path)?;
        let (mut data, mut first, mut broken) = (Vec::new(), Vec::new(), 0);
        for start in (0..=series.table.rows - self.length).step_by(self.stride) {
            if inputs.unbroken[start + self.length - 1] < self.length {
                broken += 1;
                continue;
            }
            data.extend_from_slice(&inputs.values[start * self.scale.columns.len()..][..self.width]);
            first.push(start + self.length);
        }
        let mut notes = notes(&series, &inputs);
        if broken > 0 {
            notes.push(format!("{} with a long gap are left out", plural(broken, "window")));
        }
        let time = self.times(&series, &first);
        let about = About::Windows { first, horizon: self.horizon, time };
        Ok(Asked { notes, ..Asked::new(Features::F32 { data, width: self.width }, about) })
    }

    /// What windows of a packed file are about, which does not know their times.
    fn packed(&self, windows: usize) -> About {
        let behind = |window: usize| window.saturating_mul(self.stride).saturating_add(self.length);
        About::Windows { first: (0..windows).map(behind).collect(), horizon: self.horizon, time: None }
    }

    /// The times of the rows that are predicted from each of these on.
    fn times(&self, series: &TimedRows, first: &[usize]) -> Option<KeptColumn> {
        let name = series.index.as_ref()?.column.clone();
        let rows = first.iter().flat_map(|first| *first..first + self.horizon);
        Some(KeptColumn { name, cells: rows.map(|row| series.written(row)).collect::<Option<_>>()? })
    }

    /// A table with rows for a window at least.
    fn read(&self, path: &Path) -> Result<(TimedRows, SeriesInputs), TrainError> {
        let length = self.length;
        if self.scale.columns.len().checked_mul(length) != Some(self.width) {
            let problem = "the windows in model.json do not fit the network; train the model again, or copy it again";
            return Err(TrainError::Setting(problem.to_owned()));
        }
        // an answer is asked for: gaps are filled as long as a part of the window is known
        let longest = length.saturating_sub(1);
        let series = TimedRows::like(Table::read(path, &Default::default())?, self.time, longest)?;
        if series.table.rows < length {
            return Err(TrainError::Data(DataError::Empty {
                file: series.table.name,
                what: format!("{} rows are too few: the model predicts from a window of {length}", series.table.rows),
                next: format!("give it at least {length} rows, the latest last"),
            }));
        }
        let inputs = self.scale.inputs(&series, self.fill, longest)?;
        Ok((series, inputs))
    }
}

/// What was done to the rows before they were taken.
fn notes(series: &TimedRows, inputs: &SeriesInputs) -> Vec<String> {
    match series.index {
        Some(_) => series.remarks.iter().chain(&inputs.notes).cloned().collect(),
        None => inputs.notes.clone(),
    }
}

/// Pictures that could be read, and what is wrong with the others.
struct Read {
    features: Features,
    classes: Vec<i32>,
    /// By number.
    unread: Vec<(usize, String)>,
}

impl Read {
    fn pictures(source: &PictureSource, bytes: (f32, f32), on_error: OnError) -> Result<Read, TrainError> {
        let x = &source.schema().fields[0];
        let width = x.width();
        let mut features = match x.kind {
            Kind::U8 => Features::U8 { data: Vec::new(), width, scale: bytes.0, shift: bytes.1 },
            Kind::F32 | Kind::I32 => Features::F32 { data: Vec::new(), width },
        };
        let (mut classes, mut unread) = (Vec::new(), Vec::new());
        for row in 0..source.rows() {
            // the next one takes the place of one that cannot be read
            let start = classes.len() * width;
            features.resize(classes.len() + 1);
            let into = match &mut features {
                Features::U8 { data, .. } => FieldMut::U8(&mut data[start..]),
                Features::F32 { data, .. } => FieldMut::F32(&mut data[start..]),
                Features::I32 { data, .. } => FieldMut::I32(&mut data[start..]),
            };
            let mut class = [0];
            let rows = Rows { numbers: &[row], seed: 0, epoch: 0 };
            match (source.gather(&rows, &mut [into, FieldMut::I32(&mut class)]), on_error) {
                (Ok(()), _) => classes.push(class[0]),
                (Err(error), OnError::Fail) => return Err(error.into()),
                (Err(error), OnError::Skip) => unread.push((row as usize, error.to_string())),
            }
        }
        features.resize(classes.len());
        match (classes.is_empty(), unread.pop()) {
            (true, Some((last, why))) => Err(TrainError::Data(DataError::Pipeline {
                name: source.name().to_owned(),
                problem: format!("none of its {} pictures can be read; the last: {why}", last + 1),
            })),
            (_, last) => {
                unread.extend(last);
                Ok(Read { features, classes, unread })
            }
        }
    }

    fn notes(&self, then: &str) -> Vec<String> {
        let told = |(_, first): &(usize, String)| match self.unread.len() {
            1 => format!("1 picture cannot be read and is {then}: {first}"),
            many => format!("{many} pictures cannot be read and are {then}, such as {first}"),
        };
        self.unread.first().map(told).into_iter().collect()
    }
}
