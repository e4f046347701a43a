//! Training from a loader is training on the resident rows: the same numbers, interrupted or not.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use citius_data::{DataError, Dataset, Features, FieldMut, InMemory, Rows, Schema, Source, Stream, Target};
use citius_train::{
    Event, Feed, Listener, Loaded, LoadingOptions, Material, Problem, Report, RunOptions, Silent, Training, Wishes,
};

/// Two classes told apart by the sign of the first of three features, kept as bytes.
fn dataset(rows: usize) -> Dataset {
    let byte = |i: usize| (i as u32).wrapping_mul(2_654_435_761) as u8 ^ ((i * 37) >> 3) as u8;
    let data: Vec<u8> = (0..rows * 3).map(byte).collect();
    let classes = data.chunks(3).map(|row| (row[0] > 127) as i32).collect();
    let features = Features::U8 { data, width: 3, scale: 1.0 / 128.0, shift: -1.0 };
    Dataset::new(rows, features, Target::Classes { data: classes, classes: 2 }).unwrap()
}

/// A block of 17 rows at a time.
struct Blocks(InMemory, Vec<u32>);

impl Stream for Blocks {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn schema(&self) -> &Schema {
        self.0.schema()
    }
    fn blocks(&self) -> &[u32] {
        &self.1
    }
    fn read(&self, block: usize, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        let numbers: Vec<u32> = (self.1[block]..self.1[block + 1]).collect();
        if numbers.contains(&4000) {
            return Err(DataError::Inconsistent("blocks.bin: row 4000 is broken".into()));
        }
        self.0.gather(&Rows { numbers: &numbers, seed: 0, epoch: 0 }, into)
    }
}

fn stream(rows: usize) -> Feed {
    let source = InMemory::new("blocks", Arc::new(dataset(rows))).unwrap();
    let starts = (0..rows as u32).step_by(17).chain([rows as u32]).collect();
    Feed::Stream(Arc::new(Blocks(source, starts)))
}

fn source(rows: usize) -> Feed {
    Feed::Source(Arc::new(InMemory::new("rows", Arc::new(dataset(rows))).unwrap()))
}

fn loaded(feed: Feed, workers: Option<usize>) -> Material {
    // windows of some 200 rows of 7 bytes
    let options = LoadingOptions { workers, memory_limit: Some(3000), ..LoadingOptions::default() };
    Material::Loaded(Loaded::new(feed, (1.0 / 128.0, -1.0), options).unwrap())
}

fn training(train: Material) -> Training {
    let mut problem = Problem::digits(10, 10).unwrap();
    problem.input = citius_train::Input::Images {
        height: 1,
        width: 3,
        scale: 1.0 / 128.0,
        shift: -1.0,
        labels: vec!["low".into(), "high".into()],
    };
    (problem.train, problem.validation, problem.test) = (train, Some(dataset(50)), None);
    let wishes = Wishes { hidden: Some(vec![8]), epochs: Some(4), batch_size: Some(32), ..Wishes::default() };
    Training::on(problem, wishes).unwrap()
}

fn run(training: &Training, out: &Path, listener: &mut dyn Listener, stop: &AtomicBool) -> Report {
    let options = RunOptions { out: Some(out.to_owned()), force: true, ..RunOptions::default() };
    training.run(&options, listener, stop).unwrap()
}

#[test]
fn a_loader_brings_the_rows_that_are_gathered_otherwise() {
    let out = tempfile::tempdir().unwrap();
    let never = AtomicBool::new(false);
    let resident = run(&training(Material::Resident(dataset(500))), out.path(), &mut Silent, &never);
    assert!(resident.validation.accuracy.unwrap() > 0.8, "{:?}", resident.validation);
    for workers in [Some(0), Some(2), None] {
        let report = run(&training(loaded(source(500), workers)), out.path(), &mut Silent, &never);
        assert_eq!(report.epoch_losses, resident.epoch_losses);
        assert_eq!(report.validation, resident.validation);
    }
    let one = run(&training(loaded(stream(500), Some(0))), out.path(), &mut Silent, &never);
    let two = run(&training(loaded(stream(500), Some(2))), out.path(), &mut Silent, &never);
    assert_eq!(one.epoch_losses, two.epoch_losses);
    assert!(one.validation.accuracy.unwrap() > 0.8);
}

#[test]
fn a_run_from_a_stream_goes_on_exactly_where_it_was_interrupted() {
    struct StopAt<'a>(u64, &'a AtomicBool);
    impl Listener for StopAt<'_> {
        fn on(&mut self, event: &Event) {
            if let Event::EpochEnded { epoch, .. } = event {
                self.1.store(*epoch as u64 >= self.0, Ordering::Relaxed);
            }
        }
    }
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let never = AtomicBool::new(false);
    let expected = run(&training(loaded(stream(500), None)), whole.path(), &mut Silent, &never);
    let stop = AtomicBool::new(false);
    let first = run(&training(loaded(stream(500), None)), parts.path(), &mut StopAt(2, &stop), &stop);
    assert_eq!(first.epochs, 2);
    let resumed = training(loaded(stream(500), Some(1))).going_on(parts.path()).unwrap();
    let second = run(&resumed, parts.path(), &mut Silent, &never);
    assert_eq!(second.epoch_losses, expected.epoch_losses);
    assert_eq!(second.validation, expected.validation);
}

#[test]
fn an_error_while_loading_ends_the_run_with_its_reason() {
    let out = tempfile::tempdir().unwrap();
    let options = RunOptions { out: Some(out.path().to_owned()), force: true, ..RunOptions::default() };
    let training = training(loaded(stream(5000), None));
    let error = training.run(&options, &mut Silent, &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("row 4000 is broken"), "{error}");
    assert!(out.path().join("checkpoint.safetensors").is_file(), "the steps before it are not lost");
}
