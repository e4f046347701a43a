//! A saved model predicts, or is evaluated. Tables and packed files are read part by part, in bounded memory.

use std::path::{Path, PathBuf};

use citius_data::prepare::RowRemarks;
use citius_data::table::{PartOptions, TableParts};
use citius_data::{
    Dataset, Escaped, Features, Found, Preparation, ReadOptions, Target, Task, TextEncoding, image_dataset, mnist_dir,
    read_images,
};

use crate::evaluation::{EvalOptions, Evaluation};
use crate::metrics::{likeliest, sigmoid, softmax};
use crate::model::SavedModel;
use crate::predictions::{About, KeptColumn, PredictOptions, Predictions};
use crate::problem::{Asked, Input, PackedRows, RowsFrom, count, is_packed, plural};
use crate::quantiles::Quantiles;
use crate::{Metrics, TrainError};

/// What [`SavedModel::predict_each`] hands every part of its answers to.
pub type EachPart<'a> = &'a mut dyn FnMut(&Predictions) -> Result<(), TrainError>;

impl SavedModel {
    /// Answers for what a source holds, and remarks about how it differs from the training data.
    pub fn predict(&mut self, source: &Path) -> Result<(Predictions, Vec<String>), TrainError> {
        self.predict_with(&[source.to_owned()], &PredictOptions::default())
    }

    /// As [`SavedModel::predict`], with options.
    pub fn predict_with(
        &mut self,
        sources: &[PathBuf],
        options: &PredictOptions,
    ) -> Result<(Predictions, Vec<String>), TrainError> {
        let mut all: Option<Predictions> = None;
        let notes = self.predict_each(sources, options, &mut |part| {
            match &mut all {
                None => all = Some(part.clone()),
                Some(all) => all.append(part),
            }
            Ok(())
        })?;
        Ok((all.unwrap_or_default(), notes))
    }

    /// The same, part by part: as many rows at a time as a bounded memory holds.
    pub fn predict_each(
        &mut self,
        sources: &[PathBuf],
        options: &PredictOptions,
        each: EachPart<'_>,
    ) -> Result<Vec<String>, TrainError> {
        self.refuse_unused(options)?;
        let input = self.card.input.clone();
        match &input {
            Input::Table { preparation } => self.predict_tables(sources, preparation, options, each),
            Input::Images { .. } if sources.len() == 1 && is_packed(&sources[0]) => {
                self.predict_packed(&sources[0], &input, each)?;
                Ok(Vec::new())
            }
            Input::Images { height, width, scale, shift, .. } => {
                let file = one_of_images(sources)?;
                let images = read_images(file)?;
                check_size(file, (images.height, images.width), (*height, *width))?;
                let features =
                    Features::U8 { data: images.pixels, width: height * width, scale: *scale, shift: *shift };
                self.predict_all(Asked::new(features, About::Rows), each)
            }
            Input::Rows(rows) => {
                let asked = rows.asked(sources, options)?;
                self.predict_all(asked, each)
            }
        }
    }

    /// Options that do not apply to this kind of model are refused.
    fn refuse_unused(&self, options: &PredictOptions) -> Result<(), TrainError> {
        let wrong = |problem: &str| Err(TrainError::Setting(format!("{problem}; leave it out")));
        let table = matches!(self.card.input, Input::Table { .. });
        if options.every_window && !self.is_of_series() {
            return wrong("--every-window is for a model of a series");
        }
        if !table && !options.keep.is_empty() {
            return wrong("--keep is for a model of a table");
        }
        if !table && !options.missing.is_empty() {
            return wrong("--missing is for a model of a table");
        }
        if !table && options.encoding.is_some() {
            return wrong("--encoding is for a model of a table");
        }
        Ok(())
    }

    fn predict_all(&mut self, asked: Asked, each: EachPart<'_>) -> Result<Vec<String>, TrainError> {
        let outputs = self.predictor.outputs(&asked.features)?;
        let mut predictions = self.answers(&outputs, asked.about);
        predictions.leave_empty(&asked.missing);
        each(&predictions)?;
        Ok(asked.notes)
    }

    fn predict_packed(&mut self, path: &Path, input: &Input, each: EachPart<'_>) -> Result<(), TrainError> {
        let packed = PackedRows::open(path, input)?;
        for block in 0..packed.blocks() {
            let outputs = self.predictor.outputs(&packed.read(block)?.features)?;
            each(&self.answers(&outputs, About::Rows))?;
        }
        Ok(())
    }

    fn predict_tables(
        &mut self,
        sources: &[PathBuf],
        preparation: &Preparation,
        options: &PredictOptions,
        each: EachPart<'_>,
    ) -> Result<Vec<String>, TrainError> {
        let mut remarks = RowRemarks::default();
        let mut unreadable = Unreadable::default();
        for path in &files_of(sources)? {
            if is_packed(path) {
                if !options.keep.is_empty() {
                    let problem = "a packed file holds no columns to --keep; give the table that it was packed from";
                    return Err(TrainError::Setting(format!("{}: {problem}", path.escaped())));
                }
                self.predict_packed(path, &self.card.input.clone(), each)?;
                continue;
            }
            let mut parts = TableParts::open(
                path,
                PartOptions {
                    keep: options.keep.clone(),
                    on_error: options.on_error,
                    ..part_options(preparation, &options.missing, options.encoding, false)
                },
            )?;
            let names = parts.kept().to_vec();
            loop {
                let encoded = parts.next(|part| preparation.encode_part(part, options.on_error, false))?;
                if encoded.is_empty() {
                    break;
                }
                for (part, encoded) in encoded {
                    let outputs = self.predictor.outputs(&encoded.features)?;
                    let mut predictions = self.answers(&outputs, About::Rows);
                    let missing: Vec<usize> = encoded.unreadable.iter().map(|(row, _)| *row).collect();
                    predictions.leave_empty(&missing);
                    let kept = names.iter().zip(part.kept);
                    predictions.kept = kept.map(|(name, cells)| KeptColumn { name: name.clone(), cells }).collect();
                    remarks.add(encoded.remarks);
                    unreadable.add(part.table.rows, encoded.unreadable);
                    each(&predictions)?;
                }
            }
        }
        Ok(remarks.lines().into_iter().chain(unreadable.note("left without a prediction")).collect())
    }

    fn is_of_series(&self) -> bool {
        matches!(&self.card.input, Input::Rows(rows) if matches!(rows.from, RowsFrom::Series { .. }))
    }

    /// Metrics on the labelled rows of a file (or the test files of an MNIST directory), their number, and remarks.
    pub fn evaluate(&mut self, file: &Path) -> Result<(Metrics, usize, Vec<String>), TrainError> {
        let evaluation = self.evaluate_with(file, &EvalOptions::default())?;
        Ok((evaluation.metrics, evaluation.rows, evaluation.notes))
    }

    /// As [`SavedModel::evaluate`], with options, and class by class.
    pub fn evaluate_with(&mut self, file: &Path, options: &EvalOptions) -> Result<Evaluation, TrainError> {
        if !options.missing.is_empty() && !matches!(self.card.input, Input::Table { .. }) {
            return Err(TrainError::Setting("--missing is for a model of a table; leave it out".to_owned()));
        }
        if options.encoding.is_some() && !matches!(self.card.input, Input::Table { .. }) {
            return Err(TrainError::Setting("--encoding is for a model of a table; leave it out".to_owned()));
        }
        let input = self.card.input.clone();
        let (outputs, target, notes) = match &input {
            Input::Table { .. } | Input::Images { .. } if is_packed(file) => self.packed_outputs(file, &input)?,
            Input::Table { preparation } => self.table_outputs(file, preparation, options)?,
            Input::Images { height, width, scale, shift, labels } => {
                let (images, answers) = mnist_dir(file)?.test;
                check_size(file, (images.height, images.width), (*height, *width))?;
                if let Some(at) = answers.iter().position(|a| *a as usize >= labels.len()) {
                    let problem =
                        format!("test image {} has class {}, the model knows {}", at + 1, answers[at], labels.len());
                    return Err(TrainError::Setting(format!("{}: {problem}", file.escaped())));
                }
                let data = pictures(images, &answers, labels.len(), (*scale, *shift))?;
                (self.predictor.outputs(&data.features)?, data.target, Vec::new())
            }
            Input::Rows(rows) => {
                let (data, notes) = rows.labelled(file, options.on_error)?;
                (self.predictor.outputs(&data.features)?, data.target, notes)
            }
        };
        let settings = &self.card.settings;
        let mut metrics = settings.measure(&outputs, &target, input.target_scale());
        let mut classes = settings.class_report(&outputs, &target, input.labels());
        match (options.positive.as_ref().or(settings.details.positive.as_ref()), &mut classes) {
            (None, _) => {}
            (Some(label), Some(classes)) => {
                classes.set_positive(label, &mut metrics).map_err(TrainError::Setting)?;
            }
            (Some(_), None) => {
                let problem = "--positive is for a model of two classes; leave it out";
                return Err(TrainError::Setting(problem.to_owned()));
            }
        }
        Ok(Evaluation { metrics, rows: rows_of(&target), classes, notes })
    }

    /// Outputs and targets of a table; of its cells no more than a part is in memory.
    fn table_outputs(
        &mut self,
        file: &Path,
        preparation: &Preparation,
        options: &EvalOptions,
    ) -> Result<Evaluated, TrainError> {
        let mut remarks = RowRemarks::default();
        let mut unreadable = Unreadable::default();
        let (mut outputs, mut target, mut unlabelled) = (Vec::new(), None::<Target>, 0);
        for path in &files_of(&[file.to_owned()])? {
            let part_options = PartOptions {
                on_error: options.on_error,
                ..part_options(preparation, &options.missing, options.encoding, true)
            };
            let mut parts = TableParts::open(path, part_options)?;
            loop {
                let encoded = parts.next(|part| preparation.encode_part(part, options.on_error, true))?;
                if encoded.is_empty() {
                    break;
                }
                for (part, encoded) in encoded {
                    outputs.extend(self.predictor.outputs(&encoded.features)?);
                    target = Target::joined(target, encoded.target);
                    remarks.add(encoded.remarks);
                    unlabelled += encoded.unlabelled;
                    unreadable.add(part.table.rows, encoded.unreadable);
                }
            }
        }
        let Some(target) = target.filter(|target| rows_of(target) > 0) else {
            let name = preparation.target_name();
            let problem = format!("{}: no row has a value of the target {name:?}", file.escaped());
            return Err(TrainError::Setting(problem));
        };
        let mut notes = remarks.lines();
        if unlabelled > 0 {
            let (have, are) = if unlabelled == 1 { ("has", "is") } else { ("have", "are") };
            notes.push(format!("{} {have} no target and {are} left out", plural(unlabelled, "row")));
        }
        notes.extend(unreadable.note("left out"));
        Ok((outputs, target, notes))
    }

    fn packed_outputs(&mut self, path: &Path, input: &Input) -> Result<Evaluated, TrainError> {
        let packed = PackedRows::open(path, input)?;
        let (mut outputs, mut target) = (Vec::new(), None);
        for block in 0..packed.blocks() {
            let data = packed.read(block)?;
            outputs.extend(self.predictor.outputs(&data.features)?);
            target = Target::joined(target, Some(data.target));
        }
        match target {
            Some(target) => Ok((outputs, target, Vec::new())),
            None => Err(TrainError::Setting(format!("{}: holds no rows", path.escaped()))),
        }
    }

    fn answers(&self, outputs: &[f32], about: About) -> Predictions {
        let (mean, std) = self.card.input.target_scale();
        let raw = |x: f32| x as f64 * std + mean;
        if let levels @ [_, ..] = self.card.settings.loss.quantiles() {
            let quantiles = Quantiles::of(outputs, levels, self.card.input.outputs());
            return Predictions {
                values: quantiles.points().into_iter().map(raw).collect(),
                quantiles: quantiles.rows().map(|row| row.iter().map(|x| raw(*x)).collect()).collect(),
                about,
                ..Predictions::default()
            };
        }
        let outputs = &self.card.settings.scores(outputs, self.task() != Task::Regression)[..];
        let width = self.card.input.outputs().max(1);
        let (values, probabilities) = match self.task() {
            Task::Regression => (outputs.iter().map(|x| raw(*x)).collect(), Vec::new()),
            Task::Binary => (
                outputs.iter().map(|&x| f64::from(x > 0.0)).collect(),
                outputs.iter().map(|&x| vec![sigmoid(-x), sigmoid(x)]).collect(),
            ),
            Task::Classes => (
                outputs.chunks_exact(width).map(|row| likeliest(row) as f64).collect(),
                outputs.chunks_exact(width).map(softmax).collect(),
            ),
        };
        Predictions { values, probabilities, about, ..Predictions::default() }
    }
}

/// Outputs, targets, remarks.
type Evaluated = (Vec<f32>, Target, Vec<String>);

/// Rows that could not be read: how many of how many, and why the first.
#[derive(Default)]
struct Unreadable {
    rows: usize,
    of: usize,
    first: Option<String>,
}

impl Unreadable {
    fn add(&mut self, rows: usize, unreadable: Vec<(usize, String)>) {
        self.of += rows;
        self.rows += unreadable.len();
        self.first = self.first.take().or(unreadable.into_iter().next().map(|(_, why)| why));
    }

    fn note(&self, then: &str) -> Option<String> {
        let first = self.first.as_ref()?;
        let (rows, of) = (count(self.rows), count(self.of));
        Some(format!("{rows} of {of} rows cannot be read and are {then}; the first: {first}"))
    }
}

/// The tables that paths, patterns and folders name; `-` is standard input.
fn files_of(sources: &[PathBuf]) -> Result<Vec<PathBuf>, TrainError> {
    let mut files = Vec::new();
    for source in sources {
        if source == Path::new("-") {
            files.push(source.clone());
            continue;
        }
        match Found::at(source)? {
            Found::Tables(tables) => files.extend(tables),
            Found::Packed(path) | Found::Text(path) => files.push(path),
            Found::Mnist(path) | Found::Cifar(path) | Found::Pictures(path) => {
                let problem = "the model was trained on a table; give a table";
                return Err(TrainError::Setting(format!("{}: {problem}", path.escaped())));
            }
        }
    }
    Ok(files)
}

fn part_options(
    preparation: &Preparation,
    missing: &[String],
    encoding: Option<TextEncoding>,
    needs_target: bool,
) -> PartOptions {
    let mut read = ReadOptions { encoding, ..preparation.read_options() };
    read.missing.extend_from_slice(missing);
    preparation.part_options(read, needs_target)
}

fn rows_of(target: &Target) -> usize {
    match target {
        Target::Values { data, width } => data.len() / (*width).max(1),
        Target::Classes { data, .. } => data.len(),
        Target::Sequence { data, length, .. } => data.len() / (*length).max(1),
    }
}

/// The one file of grey pictures; single pictures and folders are for models that were trained on a folder of them.
fn one_of_images(sources: &[PathBuf]) -> Result<&Path, TrainError> {
    let is_picture = |path: &Path| {
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        path.is_dir() || ["png", "jpg", "jpeg", "webp", "gif", "bmp", "tif", "tiff"].contains(&ending.as_str())
    };
    match sources {
        [file] if !is_picture(file) => Ok(file),
        _ => Err(TrainError::Setting(
            "this model was trained on MNIST's files, and takes one file of such pictures (t10k-images-idx3-ubyte) or a packed \
             file; train on a folder of pictures for a model that takes single ones"
                .to_owned(),
        )),
    }
}

fn pictures(
    images: citius_data::Images,
    answers: &[u8],
    classes: usize,
    (scale, shift): (f32, f32),
) -> Result<Dataset, TrainError> {
    let mut data = image_dataset(images, answers, classes, Some((0.0, 1.0)))?;
    if let Features::U8 { scale: s, shift: t, .. } = &mut data.features {
        (*s, *t) = (scale, shift);
    }
    Ok(data)
}

fn check_size(file: &Path, found: (usize, usize), expected: (usize, usize)) -> Result<(), TrainError> {
    if found == expected {
        return Ok(());
    }
    let problem = format!(
        "{}: images of {}×{} pixels, the model was trained on {}×{}",
        file.escaped(),
        found.0,
        found.1,
        expected.0,
        expected.1
    );
    Err(TrainError::Setting(problem))
}
