//! A table read, split and encoded in memory.

use std::path::PathBuf;

use citius_data::source::tables;
use citius_data::{
    Dataset, Preparation, PrepareOptions, ReadOptions, SplitOptions, Splits, Table, Task, byte_size, infer_task,
    read_row_file, strata,
};

use super::data_memory::{DataMemory, encoded_bytes, has_blocks, larger_than_memory, larger_when_encoded, needed};
use super::{Input, Problem, count, plural, stem};
use crate::config::TrackedWishes;
use crate::{Choice, Material, TrainError};

/// Fewer training rows than this are too few to spare some for validation, or of all rows for a test.
const MIN_TO_VALIDATE: usize = 50;
const MIN_TO_TEST: usize = 100;
/// More rows than this tell nothing more.
const ENOUGH_TO_JUDGE: f64 = 20_000.0;

impl Problem {
    /// One table, or several of the same columns; read block by block when too large for memory.
    pub(super) fn tables(paths: &[PathBuf], wishes: &TrackedWishes<'_>) -> Result<Problem, TrainError> {
        let options = read_options(wishes)?;
        if wishes.only.as_ref().is_some_and(Vec::is_empty) {
            return Err(TrainError::Setting("only names no column; name some, or leave it out".to_owned()));
        }
        let memory = DataMemory::of(wishes);
        if larger_than_memory(paths, wishes) {
            let why = format!("the table is larger than the {} for data", byte_size(memory.bytes));
            return Problem::table_stream(paths, why, wishes);
        }
        let table = match paths {
            [path] => Table::read(path, &options)?,
            _ => tables(paths, &options)?,
        };
        let path = &paths[0];
        let target = table.column(wishes.target.as_deref().unwrap_or("-1"))?;
        let task = match &*wishes.task {
            Some(task) => Some(task.parse::<Task>().map_err(TrainError::Setting)?),
            None => None,
        };
        let (splits, told) = split(&table, target, task, wishes)?;
        let wished = prepare_options(wishes);
        let prepare = PrepareOptions { task: task.or(wished.task), missing: options.missing.clone(), ..wished };
        let has_target = |row: &u32| !table.columns[target].is_missing(*row as usize);
        let learned: Vec<u32> = splits.train.iter().copied().filter(has_target).collect();
        let preparation = Preparation::fit(&table, target, &learned, &prepare)?;
        if larger_when_encoded(&preparation, &table, wishes) {
            if !paths.iter().all(|path| has_blocks(path)) {
                return Err(no_blocks(&table, &preparation, memory));
            }
            let encoded = encoded_bytes(&preparation, &table);
            let why = format!(
                "{} as inputs, and as much again while they are copied: more than the {} for data",
                byte_size(encoded),
                byte_size(memory.bytes)
            );
            drop(table);
            return Problem::table_stream(paths, why, wishes);
        }
        let encode = |rows: &[u32]| -> Result<Option<Dataset>, TrainError> {
            let rows = preparation.labelled_rows(&table, rows)?;
            Ok(if rows.is_empty() { None } else { Some(preparation.encode(&table, &rows)?) })
        };
        let Some(train) = encode(&splits.train)? else {
            return Err(TrainError::Setting(format!("{}: no training row has a target", table.name)));
        };
        let (validation, test) = (encode(&splits.validation)?, encode(&splits.test)?);
        let size = format!("{}: {}, {}", table.name, plural(table.rows, "row"), plural(table.columns.len(), "column"));
        let mut choices = vec![Choice::new("data", size, "")];
        choices.extend(preparation.notes().iter().map(Choice::from_note));
        let labelled = (0..table.rows as u32).filter(has_target).count();
        choices.extend(without_target(table.rows - labelled, table.rows));
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
            settings_read: Vec::new(),
        })
    }
}

fn no_blocks(table: &Table, preparation: &Preparation, memory: DataMemory) -> TrainError {
    let fewer = match preparation.text_inputs() {
        0 => "",
        _ => ", fewer inputs of free text (prepare.text-features = { hash = 512 })",
    };
    TrainError::Setting(format!(
        "{}: {} rows of {} inputs take {}, more than the {} for data, and a compressed file is not read in blocks; give it more \
         --memory{fewer}, or a file that is not compressed",
        table.name,
        count(table.rows),
        count(preparation.features()),
        byte_size(needed(preparation, table)),
        byte_size(memory.bytes)
    ))
}

/// Says that rows were left out, if any were.
pub(super) fn without_target(rows: usize, of: usize) -> Option<Choice> {
    let (have, are) = if rows == 1 { ("has", "is") } else { ("have", "are") };
    let told = || format!("{} of {} {have} no target and {are} left out", count(rows), plural(of, "row"));
    (rows > 0).then(|| Choice::new("note", told(), ""))
}

/// How columns become inputs, from the settings.
pub(super) fn prepare_options(wishes: &TrackedWishes<'_>) -> PrepareOptions {
    PrepareOptions {
        drop: wishes.drop.clone().unwrap_or_default(),
        only: wishes.only.clone().unwrap_or_default(),
        ..wishes.prepare.clone().unwrap_or_default()
    }
}

/// How to read a table, from the wishes.
pub fn read_options(wishes: &TrackedWishes<'_>) -> Result<ReadOptions, TrainError> {
    let delimiter = wishes.delimiter.as_deref().map(str::parse).transpose().map_err(TrainError::Setting)?;
    Ok(ReadOptions {
        delimiter,
        encoding: *wishes.encoding,
        header: *wishes.header,
        missing: wishes.missing.clone().unwrap_or_default(),
        text: wishes.text.clone().unwrap_or_default(),
        most_bytes: Some(DataMemory::of(wishes).of_text()),
        ..ReadOptions::default()
    })
}

/// The rows of each set, and the reason.
fn split(
    table: &Table,
    target: usize,
    task: Option<Task>,
    wishes: &TrackedWishes<'_>,
) -> Result<(Splits, String), TrainError> {
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
