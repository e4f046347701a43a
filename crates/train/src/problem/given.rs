//! Rows named in files, `--train-rows` and `--test-rows`, for every source whose rows have numbers.

use citius_data::{Dataset, Features, Images, SplitOptions, Splits, Target, pixel_mean_std, read_row_file};

use super::{Input, Problem, count};
use crate::config::TrackedWishes;
use crate::{Choice, Material, TrainError};

/// Training and test rows, as far as files name them.
type Named = (Option<Vec<u32>>, Option<Vec<u32>>);

/// Why rows were divided so where files name them.
const AS_GIVEN: &str = "as given; validation drawn from the training rows";

/// What the files name of `rows` rows; `None` where no file is given.
fn named(rows: usize, wishes: &TrackedWishes<'_>) -> Result<Option<Named>, TrainError> {
    if wishes.train_rows.is_none() && wishes.test_rows.is_none() {
        return Ok(None);
    }
    if wishes.test.is_some() {
        let problem = "--test draws test rows and cannot be used with --train-rows or --test-rows";
        return Err(TrainError::Setting(problem.to_owned()));
    }
    let read = |path: &Option<std::path::PathBuf>| match path {
        Some(path) => read_row_file(path, rows).map(Some),
        None => Ok(None),
    };
    Ok(Some((read(&wishes.train_rows)?, read(&wishes.test_rows)?)))
}

/// The rows of each set: those that files name, else drawn by `usual`; `classes[row]` is the class of a row.
pub(super) fn divide(
    rows: u32,
    classes: Option<&[u32]>,
    usual: SplitOptions,
    wishes: &TrackedWishes<'_>,
) -> Result<(Splits, Option<&'static str>), TrainError> {
    let options = SplitOptions {
        validation: wishes.validation.unwrap_or(usual.validation),
        test: wishes.test.unwrap_or(usual.test),
        seed: wishes.seed.unwrap_or(usual.seed),
    };
    if let Some((train, test)) = named(rows as usize, wishes)? {
        return Ok((Splits::given(rows, train, test, classes, options)?, Some(AS_GIVEN)));
    }
    let all: Vec<u32> = (0..rows).collect();
    let splits = match classes {
        Some(classes) => Splits::stratified(&all, classes, options)?,
        None => Splits::random(&all, options)?,
    };
    Ok((splits, None))
}

/// Refuses row files where rows have no numbers that they could name.
pub(super) fn refuse_row_files(wishes: &TrackedWishes<'_>, why: &str) -> Result<(), TrainError> {
    let flag = match (&*wishes.train_rows, &*wishes.test_rows) {
        (None, None) => return Ok(()),
        (Some(_), _) => "--train-rows",
        (None, Some(_)) => "--test-rows",
    };
    Err(TrainError::Setting(format!("{flag}: {why}")))
}

impl Problem {
    /// Pictures of two files in memory, divided anew where that is asked for: rows of the training files come first.
    pub(super) fn divided(mut self, wishes: &TrackedWishes<'_>) -> Result<Problem, TrainError> {
        let files = wishes.train_rows.is_some() || wishes.test_rows.is_some();
        if !files && wishes.validation.is_none() && wishes.test.is_none() {
            return Ok(self);
        }
        let Material::Resident(first) = &self.train else { return Ok(self) };
        let learned = first.rows as u32;
        let all = match &self.test {
            Some(second) => joined(first, second)?,
            None => first.clone(),
        };
        let Target::Classes { data: classes, .. } = &all.target else { return Ok(self) };
        let classes: Vec<u32> = classes.iter().map(|class| *class as u32).collect();
        let options = SplitOptions {
            validation: wishes.validation.unwrap_or(0.0),
            test: wishes.test.unwrap_or(0.0),
            seed: wishes.seed.unwrap_or(0),
        };
        let rows = all.rows as u32;
        let own_test = || learned..rows;
        let (splits, why) = match named(all.rows, wishes)? {
            // the test files go on to test what is not trained on
            Some((Some(train), None)) => {
                let trained: std::collections::HashSet<u32> = train.iter().copied().collect();
                let test = own_test().filter(|row| !trained.contains(row)).collect();
                let why = "training rows as given, test rows those of the test files";
                (Splits::given(rows, Some(train), Some(test), Some(&classes), options)?, why)
            }
            Some((train, test)) => (Splits::given(rows, train, test, Some(&classes), options)?, AS_GIVEN),
            None if wishes.test.is_some() => {
                let numbers: Vec<u32> = (0..rows).collect();
                let why = "drawn from training and test files together, each class in its share";
                (Splits::stratified(&numbers, &classes, options)?, why)
            }
            None => {
                let why = "validation drawn from the training files, test rows those of the test files";
                (Splits::given(rows, None, Some(own_test().collect()), Some(&classes), options)?, why)
            }
        };
        let (train, bytes) = standardised(all.select(&splits.train), None);
        let some = |rows: &[u32]| (!rows.is_empty()).then(|| standardised(all.select(rows), Some(bytes)).0);
        (self.validation, self.test) = (some(&splits.validation), some(&splits.test));
        self.train = Material::Resident(train);
        match &mut self.input {
            Input::Images { scale, shift, .. } => (*scale, *shift) = bytes,
            Input::Rows(rows) => rows.bytes = bytes,
            Input::Table { .. } => {}
        }
        // mean and deviation are those of the pictures that are trained on now
        let (mean, std) = (-bytes.1 / (255.0 * bytes.0), 1.0 / (255.0 * bytes.0));
        for choice in self.choices.iter_mut().filter(|choice| choice.what == "inputs") {
            choice.value = format!("{} pixels, as (pixel − {mean:.4}) / {std:.4}", count(self.input.width()));
            choice.why = "mean and deviation of the training rows".to_owned();
        }
        let counts = [splits.train.len(), splits.validation.len(), splits.test.len()].map(count);
        let sets = format!("{} train, {} validation, {} test", counts[0], counts[1], counts[2]);
        self.choices.push(Choice::new("rows", sets, why));
        Ok(self)
    }
}

/// The rows of one behind those of the other.
fn joined(first: &Dataset, second: &Dataset) -> Result<Dataset, TrainError> {
    let mut all = first.clone();
    let unlike = || TrainError::Setting("training and test files hold pictures of different kinds".to_owned());
    match (&mut all.features, &second.features) {
        (Features::U8 { data, .. }, Features::U8 { data: more, .. }) => data.extend_from_slice(more),
        _ => return Err(unlike()),
    }
    match (&mut all.target, &second.target) {
        (Target::Classes { data, .. }, Target::Classes { data: more, .. }) => data.extend_from_slice(more),
        _ => return Err(unlike()),
    }
    all.rows += second.rows;
    Ok(all)
}

/// Bytes that become numbers by `bytes`, by their own mean and deviation where it is open.
fn standardised(mut data: Dataset, bytes: Option<(f32, f32)>) -> (Dataset, (f32, f32)) {
    let mut used = (1.0, 0.0);
    if let Features::U8 { data: pixels, width, scale, shift } = &mut data.features {
        used = bytes.unwrap_or_else(|| {
            let images = Images { count: data.rows, height: 1, width: *width, pixels: std::mem::take(pixels) };
            let (mean, std) = pixel_mean_std(&images);
            *pixels = images.pixels;
            (1.0 / (255.0 * std), -mean / std)
        });
        (*scale, *shift) = used;
    }
    (data, used)
}
