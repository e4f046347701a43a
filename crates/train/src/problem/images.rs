//! Pictures of one size kept as bytes: the embedded digits, MNIST and its like, CIFAR.

use std::path::Path;
use std::thread::available_parallelism;

use citius_data::{
    Escaped, Features, Field, Images, Kind, Schema, Task, digits, image_dataset, mnist_dir, pixel_mean_std, read_cifar,
    schema,
};

use super::rows::{RowsFrom, RowsInput};
use super::{Input, Problem, count, stem};
use crate::{Choice, Material, TrainError};

/// Seed of the embedded digits: always the same pictures.
const DIGITS_SEED: u64 = 1;
impl Problem {
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

    /// CIFAR's files; a half that is not there is left out.
    pub(super) fn cifar(path: &Path) -> Result<Problem, TrainError> {
        let cifar = read_cifar(path)?;
        let labels = cifar.labels.clone();
        let (train, test) = cifar.datasets()?;
        if train.rows == 0 {
            let problem = format!("{}: there are no training pictures, data_batch_*.bin or train.bin", path.escaped());
            return Err(TrainError::Setting(problem));
        }
        let bytes = match &train.features {
            Features::U8 { scale, shift, .. } => (*scale, *shift),
            Features::F32 { .. } | Features::I32 { .. } => (1.0, 0.0),
        };
        let stem = stem(path);
        let rows = format!("{} training and {} test pictures of 3×32×32", count(train.rows), count(test.rows));
        let choices = vec![
            Choice::new("data", format!("{stem}: {rows}"), ""),
            Choice::new("task", format!("{} classes", labels.len()), ""),
            Choice::new("inputs", "3,072 pixels, standardised", "their mean and deviation"),
        ];
        let schema = Schema::new(vec![
            Field::new(schema::INPUT, Kind::U8, &[3, 32, 32]),
            Field::classes(schema::TARGET, labels),
        ])?;
        let input = RowsInput { from: RowsFrom::Cifar, schema, bytes, target_scale: (0.0, 1.0) };
        Ok(Problem {
            name: stem.clone(),
            stem,
            embedded: false,
            task: Task::Classes,
            input: Input::Rows(Box::new(input)),
            train: Material::Resident(train),
            validation: None,
            test: Some(test).filter(|test| test.rows > 0),
            choices,
            settings_read: Vec::new(),
        })
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
            Features::F32 { .. } | Features::I32 { .. } => (1.0, 0.0),
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
            settings_read: Vec::new(),
        })
    }
}
