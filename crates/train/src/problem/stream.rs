//! Data larger than the memory it may take: read block by block, some blocks kept for judging.

use std::path::PathBuf;
use std::sync::Arc;

use citius_data::source::{Encoded, open_files};
use citius_data::{Order, Preparation, PrepareOptions, Stream, Task};

use super::data_memory::{DataMemory, blocks_within, most_sampled};
use super::given::refuse_row_files;
use super::rows::{RowsInput, SomeBlocks};
use super::table::{prepare_options, without_target};
use super::{Input, Problem, count, plural, read_options, stem};
use crate::config::TrackedWishes;
use crate::material::{Feed, Loaded, LoadingOptions};
use crate::{Choice, Material, TrainError};

/// Rows that a preparation is fitted on.
const FITTED: usize = 100_000;
/// Rows that are enough to judge by.
const JUDGED: f64 = 20_000.0;
/// A share that is off by more than this part of itself is said.
const FAR: f64 = 0.5;

impl Problem {
    /// A table that is not read as a whole, and why.
    pub(super) fn table_stream(
        paths: &[PathBuf],
        why: String,
        wishes: &TrackedWishes<'_>,
    ) -> Result<Problem, TrainError> {
        let options = read_options(wishes)?;
        let blocks = open_files(paths, &options, usize::MAX)?;
        let all = blocks.blocks().last().copied().unwrap_or(0) as usize;
        let most = most_sampled(paths, blocks.as_ref(), wishes).min(FITTED);
        let sample = Encoded::sample(blocks.as_ref(), most, wishes.seed.unwrap_or(0))?;
        let target = sample.column(wishes.target.as_deref().unwrap_or("-1"))?;
        let wished = prepare_options(wishes);
        let task = match &*wishes.task {
            Some(task) => Some(task.parse::<Task>().map_err(TrainError::Setting)?),
            None => wished.task,
        };
        let prepare = PrepareOptions { task, missing: options.missing.clone(), ..wished };
        let has_target = |row: &u32| !sample.columns[target].is_missing(*row as usize);
        let rows: Vec<u32> = (0..sample.rows as u32).filter(has_target).collect();
        let preparation = Preparation::fit(&sample, target, &rows, &prepare)?;
        let blocks = blocks_within(blocks, &preparation, paths, &options, wishes)?;
        let size = format!("{}: {}, {}", blocks.name(), plural(all, "row"), plural(sample.columns.len(), "column"));
        let mut choices = vec![Choice::new("data", size, "")];
        choices.extend(preparation.notes().iter().map(Choice::from_note));
        choices.push(Choice::new("fitted", format!("on {} rows of blocks drawn at random", count(sample.rows)), ""));
        choices.push(Choice::new("memory", why, "read in blocks, anew in every epoch"));
        drop(sample);
        let input = Input::Table { preparation: Box::new(preparation.clone()) };
        let stream = Encoded::new(blocks, preparation)?;
        choices.extend(without_target(stream.unlabelled() as usize, all));
        Problem::of_stream(Arc::new(stream), input, (1.0, 0.0), stem(&paths[0]), choices, wishes)
    }

    pub(super) fn stream(
        stream: Arc<dyn Stream>,
        input: RowsInput,
        stem: String,
        choices: Vec<Choice>,
        wishes: &TrackedWishes<'_>,
    ) -> Result<Problem, TrainError> {
        let bytes = input.bytes;
        Problem::of_stream(stream, Input::Rows(Box::new(input)), bytes, stem, choices, wishes)
    }

    fn of_stream(
        stream: Arc<dyn Stream>,
        input: Input,
        bytes: (f32, f32),
        stem: String,
        mut choices: Vec<Choice>,
        wishes: &TrackedWishes<'_>,
    ) -> Result<Problem, TrainError> {
        let why = format!(
            "{} is larger than the memory for data and is read in whole blocks, out of which no single rows are taken; \
             give it more --memory, or use --validation and --test",
            stream.name()
        );
        refuse_row_files(wishes, &why)?;
        let count_of = stream.blocks().len().saturating_sub(1);
        let rows = stream.blocks().last().copied().unwrap_or(0);
        if count_of < 3 {
            let blocks = if count_of == 1 { "1 block" } else { &format!("{count_of} blocks") };
            return Err(TrainError::Setting(format!(
                "{}: is read in {blocks}, too few to keep some for validation and test; give it more --memory, so that it is \
                 read as a whole",
                stream.name()
            )));
        }
        // whole blocks are kept: a few of them, drawn at random
        let mut order = vec![0; count_of];
        Order::new(count_of as u32, wishes.seed.unwrap_or(0), u64::MAX).fill(0, &mut order);
        let memory = DataMemory::of(wishes);
        let row_bytes = stream.schema().row_bytes() as u64;
        let fitting = (memory.kept_rows(row_bytes) * count_of as u64 / u64::from(rows).max(1)).max(1) as usize;
        let wanted = |share: Option<f64>| share.unwrap_or((JUDGED / rows as f64).min(0.1)) * count_of as f64;
        let kept = |share: Option<f64>| {
            let blocks = wanted(share);
            let at_least = usize::from(blocks > 0.0);
            (blocks.round() as usize).max(at_least).min(count_of / 3).min(fitting)
        };
        let (test, validation) = (kept(*wishes.test), kept(*wishes.validation));
        for (what, share, kept) in [("test", *wishes.test, test), ("validation", *wishes.validation, validation)] {
            let wished = wanted(share);
            if wished == 0.0 || (kept as f64 / wished - 1.0).abs() <= FAR {
                continue;
            }
            let percent = |blocks: f64| 100.0 * blocks / count_of as f64;
            let (why, next) = match kept == fitting {
                true => ("as many as the memory for data has room for".to_owned(), "give it more --memory"),
                false => (
                    format!("the file is read in {count_of} blocks, which stay whole"),
                    "save it in smaller blocks, or give it more --memory",
                ),
            };
            let (kept, wished) = (percent(kept as f64), percent(wished));
            choices.push(Choice::new(
                "note",
                format!("{kept:.1}% of the rows are for {what}, not {wished:.1}%: {why}"),
                next,
            ));
        }
        let part = |from: usize, to: usize| {
            let mut blocks: Vec<usize> = order[from..to].iter().map(|block| *block as usize).collect();
            blocks.sort_unstable();
            SomeBlocks::new(stream.clone(), blocks)
        };
        let judged = |from: usize, to: usize| match from == to {
            true => Ok(None),
            false => part(from, to).dataset(bytes).map(Some),
        };
        let (test, validation, train) =
            (judged(0, test)?, judged(test, test + validation)?, part(test + validation, count_of));
        let options = LoadingOptions {
            on_error: wishes.on_error.unwrap_or_default(),
            memory_limit: wishes.memory.map(|_| memory.of_windows()),
            ..super::loading(wishes)
        };
        let train = Loaded::new(Feed::Stream(Arc::new(train)), bytes, options)?;
        let counted = |set: &Option<citius_data::Dataset>| count(set.as_ref().map_or(0, |set| set.rows));
        let sets =
            format!("{} train, {} validation, {} test", count(train.form.rows), counted(&validation), counted(&test));
        choices.push(Choice::new("rows", sets, "blocks drawn at random; training rows are read as they are needed"));
        Ok(Problem {
            name: stream.name().to_owned(),
            stem,
            embedded: false,
            task: input.task(),
            input,
            train: Material::Loaded(train),
            validation,
            test,
            choices,
            settings_read: Vec::new(),
        })
    }
}
