//! What is to be learned: a source read, split and encoded, with what must be known to encode later rows alike.

use std::path::Path;
use std::thread::available_parallelism;

use citius_data::{
    Dataset, Features, Images, Preparation, PrepareOptions, ReadOptions, SplitOptions, Splits, Table, Target, Task,
    digits, image_dataset, infer_task, mnist_dir, pixel_mean_std, read_row_file, strata,
};
use serde::{Deserialize, Serialize};

use crate::config::Wishes;
use crate::{Choice, Material, TrainError};

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
}

impl Input {
    pub fn width(&self) -> usize {
        match self {
            Input::Table { preparation } => preparation.features(),
            Input::Images { height, width, .. } => height.saturating_mul(*width),
        }
    }

    pub fn outputs(&self) -> usize {
        match self {
            Input::Table { preparation } => preparation.outputs(),
            Input::Images { labels, .. } => labels.len(),
        }
    }

    pub fn task(&self) -> Task {
        match self {
            Input::Table { preparation } => preparation.task(),
            Input::Images { .. } => Task::Classes,
        }
    }

    /// Classes in the order of their numbers.
    pub fn labels(&self) -> &[String] {
        match self {
            Input::Table { preparation } => preparation.class_labels(),
            Input::Images { labels, .. } => labels,
        }
    }

    /// Mean and deviation of a numeric target.
    pub fn target_scale(&self) -> (f64, f64) {
        match self {
            Input::Table { preparation } => preparation.target_scale(),
            Input::Images { .. } => (0.0, 1.0),
        }
    }
}

/// Seed of the embedded digits: always the same pictures.
pub const DIGITS_SEED: u64 = 1;
/// Fewer training rows than this are too few to spare some for validation, or of all rows for a test.
const MIN_TO_VALIDATE: usize = 50;
const MIN_TO_TEST: usize = 100;
/// More rows than this tell nothing more.
const ENOUGH_TO_JUDGE: f64 = 20_000.0;

impl Problem {
    /// Reads the source that was asked for, the embedded digits if none.
    pub fn read(wishes: &Wishes) -> Result<Problem, TrainError> {
        match &wishes.source {
            None => Problem::digits(60_000, 10_000),
            Some(path) if path.is_dir() && holds_mnist(path) => Problem::mnist(path),
            Some(path) => Problem::table(path, wishes),
        }
    }

    /// The pictures drawn by our own code.
    pub fn digits(train: usize, test: usize) -> Result<Problem, TrainError> {
        let threads = available_parallelism().map_or(1, |n| n.get());
        let drawn = digits::render(DIGITS_SEED, train, test, threads);
        let images = |pixels: Vec<u8>| Images {
            count: pixels.len() / digits::PIXELS,
            height: digits::SIDE,
            width: digits::SIDE,
            pixels,
        };
        let train = (images(drawn.train_pixels), drawn.train_labels);
        let test = (images(drawn.test_pixels), drawn.test_labels);
        let mut problem = Problem::images("the embedded digits", "digits", train, test, 10)?;
        problem.embedded = true;
        problem.choices[0].why = "drawn by citius itself".to_owned();
        Ok(problem)
    }

    /// The four files of an MNIST-like set.
    pub fn mnist(path: &Path) -> Result<Problem, TrainError> {
        let mnist = mnist_dir(path)?;
        let stem = stem(path);
        Problem::images(&stem, &stem, mnist.train, mnist.test, mnist.classes)
    }

    fn images(
        name: &str,
        stem: &str,
        train: (Images, Vec<u8>),
        test: (Images, Vec<u8>),
        classes: usize,
    ) -> Result<Problem, TrainError> {
        let (height, width) = (train.0.height, train.0.width);
        let (mean, std) = pixel_mean_std(&train.0);
        let train = image_dataset(train.0, &train.1, classes, Some((mean, std)))?;
        let test = image_dataset(test.0, &test.1, classes, Some((mean, std)))?;
        let (scale, shift) = match &train.features {
            Features::U8 { scale, shift, .. } => (*scale, *shift),
            Features::F32 { .. } => (1.0, 0.0),
        };
        let rows = format!("{} training and {} test images", count(train.rows), count(test.rows));
        let choices = vec![
            Choice::new("data", format!("{name}: {rows} of {height}×{width}"), ""),
            Choice::new("task", format!("{classes} classes"), ""),
            Choice::new(
                "inputs",
                format!("{} pixels, as (pixel − {mean:.4}) / {std:.4}", height * width),
                "their mean and deviation",
            ),
        ];
        let labels = (0..classes).map(|class| class.to_string()).collect();
        Ok(Problem {
            name: name.to_owned(),
            stem: stem.to_owned(),
            embedded: false,
            task: Task::Classes,
            input: Input::Images { height, width, scale, shift, labels },
            train: Material::Resident(train),
            validation: None,
            test: Some(test),
            choices,
        })
    }

    fn table(path: &Path, wishes: &Wishes) -> Result<Problem, TrainError> {
        let options = read_options(wishes)?;
        let table = Table::read(path, &options)?;
        let target = table.column(wishes.target.as_deref().unwrap_or("-1"))?;
        let task = match &wishes.task {
            Some(task) => Some(task.parse::<Task>().map_err(TrainError::Setting)?),
            None => None,
        };
        let (splits, told) = split(&table, target, task, wishes)?;
        let wished = wishes.prepare.clone().unwrap_or_default();
        let prepare = PrepareOptions { task: task.or(wished.task), missing: options.missing.clone(), ..wished };
        let preparation = Preparation::fit(&table, target, &splits.train, &prepare)?;
        let encode = |rows: &[u32]| -> Result<Option<Dataset>, TrainError> {
            let rows = preparation.labelled_rows(&table, rows)?;
            Ok(if rows.is_empty() { None } else { Some(preparation.encode(&table, &rows)?) })
        };
        let Some(train) = encode(&splits.train)? else {
            return Err(TrainError::Setting(format!("{}: no training row has a target", table.name)));
        };
        let (validation, test) = (encode(&splits.validation)?, encode(&splits.test)?);
        let size = format!("{}: {} rows, {} columns", table.name, count(table.rows), table.columns.len());
        let mut choices = vec![Choice::new("data", size, "")];
        choices.extend(preparation.notes().iter().map(|note| Choice::from_note(note)));
        let rows = |set: &Option<Dataset>| count(set.as_ref().map_or(0, |s| s.rows));
        let sets = format!("{} train, {} validation, {} test", count(train.rows), rows(&validation), rows(&test));
        choices.push(Choice::new("rows", sets, told));
        Ok(Problem {
            stem: stem(path),
            name: table.name.clone(),
            embedded: false,
            task: preparation.task(),
            input: Input::Table { preparation: Box::new(preparation) },
            train: Material::Resident(train),
            validation,
            test,
            choices,
        })
    }

    /// A number that is different for different data: guards a resumed run.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Fnv::default();
        let form = self.train.form();
        hash.add(format!("{form:?}").as_bytes());
        for set in [self.train.resident(), self.validation.as_ref(), self.test.as_ref()].into_iter().flatten() {
            hash.add(&(set.rows as u64).to_le_bytes());
            match &set.features {
                Features::F32 { data, .. } => data.iter().for_each(|v| hash.add(&v.to_le_bytes())),
                Features::U8 { data, .. } => hash.add(data),
            }
            match &set.target {
                Target::Values { data, .. } => data.iter().for_each(|v| hash.add(&v.to_le_bytes())),
                Target::Classes { data, .. } => data.iter().for_each(|v| hash.add(&v.to_le_bytes())),
            }
        }
        hash.0
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
            _ => return None,
        }
        match (&mut all.target, &more.target) {
            (Target::Values { data, .. }, Target::Values { data: more, .. }) => data.extend_from_slice(more),
            (Target::Classes { data, .. }, Target::Classes { data: more, .. }) => data.extend_from_slice(more),
            _ => return None,
        }
        Some(all)
    }
}

/// How to read a table, from the wishes.
pub fn read_options(wishes: &Wishes) -> Result<ReadOptions, TrainError> {
    let delimiter = wishes.delimiter.as_deref().map(str::parse).transpose().map_err(TrainError::Setting)?;
    Ok(ReadOptions {
        delimiter,
        header: wishes.header,
        missing: wishes.missing.clone().unwrap_or_default(),
        text: wishes.text.clone().unwrap_or_default(),
        ..ReadOptions::default()
    })
}

/// The rows of each set, and the reason.
fn split(table: &Table, target: usize, task: Option<Task>, wishes: &Wishes) -> Result<(Splits, String), TrainError> {
    let labelled: Vec<u32> =
        (0..table.rows as u32).filter(|row| !table.columns[target].is_missing(*row as usize)).collect();
    let seed = wishes.seed.unwrap_or(0);
    let task = match task {
        Some(task) => task,
        None => infer_task(table, target, &labelled)?,
    };
    let classes = if task == Task::Regression { None } else { Some(strata(table, target)?) };
    let read = |path: &Option<std::path::PathBuf>| match path {
        Some(path) => read_row_file(path, table.rows).map(Some),
        None => Ok(None),
    };
    let (train, test) = (read(&wishes.train_rows)?, read(&wishes.test_rows)?);
    let share = |enough: bool, rows: usize| if enough { f64::min(0.1, ENOUGH_TO_JUDGE / rows as f64) } else { 0.0 };
    if train.is_some() || test.is_some() {
        if wishes.test.is_some() {
            let problem = "--test draws test rows and cannot be used with --train-rows or --test-rows";
            return Err(TrainError::Setting(problem.to_owned()));
        }
        let learn = train.as_ref().map_or(labelled.len().saturating_sub(test.as_ref().map_or(0, Vec::len)), Vec::len);
        let validation = wishes.validation.unwrap_or_else(|| share(learn >= MIN_TO_VALIDATE, learn));
        let options = SplitOptions { validation, test: 0.0, seed };
        let splits = Splits::given(table.rows as u32, train, test, classes.as_deref(), options)?;
        return Ok((splits, "as given; validation drawn from the training rows".to_owned()));
    }
    let test = wishes.test.unwrap_or_else(|| share(labelled.len() >= MIN_TO_TEST, labelled.len()));
    let learn = labelled.len() as f64 * (1.0 - test);
    let validation = wishes.validation.unwrap_or_else(|| share(learn as usize >= MIN_TO_VALIDATE, learn as usize));
    let options = SplitOptions { validation, test, seed };
    let (splits, how) = match &classes {
        Some(classes) => {
            let classes: Vec<u32> = labelled.iter().map(|row| classes[*row as usize]).collect();
            (Splits::stratified(&labelled, &classes, options)?, "drawn at random, each class in its share")
        }
        None => (Splits::random(&labelled, options)?, "drawn at random"),
    };
    let few = if splits.validation.is_empty() && wishes.validation.is_none() { "; too few to spare any" } else { "" };
    Ok((splits, format!("{how}, seed {seed}{few}")))
}

fn holds_mnist(path: &Path) -> bool {
    let names = std::fs::read_dir(path).into_iter().flatten().flatten();
    names.take(10_000).any(|entry| entry.file_name().to_string_lossy().contains("-ubyte"))
}

/// The name of a file or directory without its extensions; the directory's when the file's says nothing.
fn stem(path: &Path) -> String {
    let full = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = |p: &Path| p.file_name().map_or("model".into(), |n| n.to_string_lossy().into_owned());
    let file = name(&full);
    let stem = file.split('.').find(|part| !part.is_empty()).unwrap_or("model").to_owned();
    let plain = if stem == "data" { full.parent().map_or(stem, name) } else { stem };
    plain.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '-' }).collect()
}

/// `60,000`
pub fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// FNV-1a, 64 bits.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xCBF2_9CE4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ *byte as u64).wrapping_mul(0x100_0000_01B3);
        }
    }
}
