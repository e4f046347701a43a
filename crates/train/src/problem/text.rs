//! Windows over a text: which character comes next, behind a window or behind each of its characters.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use citius_cuda::Device as Gpu;
use citius_data::source::{Predict, Text, TextWindows, Unit};
use citius_data::{Dataset, Source, Splits};
use citius_nn::Network;

use super::data_memory::{DataMemory, refuse_larger};
use super::given::refuse_row_files;
use super::rows::{Parts, RowsFrom, RowsInput, dataset_of};
use super::{Input, Problem, count, expect_classes, stem};
use crate::config::TrackedWishes;
use crate::material::{Feed, Loaded};
use crate::{Choice, Device, Material, TrainError};

/// Characters seen when nobody says otherwise: one-hot, and by a network that looks tokens up, on a GPU and on a processor.
const ONE_HOT: usize = 16;
const CONTEXT: usize = 256;
const SMALL_CONTEXT: usize = 64;
/// Windows in a batch.
pub(crate) const BATCH: usize = 64;

impl Problem {
    pub(super) fn text(path: &Path, wishes: &TrackedWishes<'_>) -> Result<Problem, TrainError> {
        let why = "a text has no rows; use --validation and --test, shares of its end";
        refuse_row_files(wishes, why)?;
        refuse_larger(path, "a text", wishes)?;
        let text = Arc::new(Text::open_encoded(path, Unit::Chars, *wishes.encoding)?);
        expect_classes(text.name(), "character", &text.vocabulary().labels(), "give a text of several")?;
        match &*wishes.model {
            Some(Network::Gpt { .. }) => Problem::tokens(path, text, wishes),
            None if wishes.hidden.is_none() && wishes.layers.is_none() => Problem::tokens(path, text, wishes),
            Some(_) | None => Problem::one_hot(path, text, wishes),
        }
    }

    /// Which character follows each character, judged on the end of the text.
    fn tokens(path: &Path, text: Arc<Text>, wishes: &TrackedWishes<'_>) -> Result<Problem, TrainError> {
        let test = after(wishes.test.unwrap_or(0.0), text.len());
        let validation = after(wishes.validation.unwrap_or(0.1), test);
        // a few windows to judge by, however short the text is
        let usual = if wishes.model.is_some() || has_gpu(wishes) { CONTEXT } else { SMALL_CONTEXT };
        let length = wishes.window.unwrap_or(usual.min((test - validation) / 4).max(1));
        let windows = |stride: usize, range: Range<usize>| {
            TextWindows::new(text.clone(), length, stride, Predict::Sequence)?.within(range)
        };
        let train = match *wishes.stride {
            Some(stride) => windows(stride, 0..validation)?,
            None => windows(length, 0..validation)?.drifting(wishes.batch_size.unwrap_or(BATCH))?,
        };
        let judged = |range: Range<usize>| -> Result<Option<Dataset>, TrainError> {
            if range.is_empty() {
                return Ok(None);
            }
            let windows = windows(length, range)?;
            let rows: Vec<u32> = (0..windows.rows()).collect();
            Ok(Some(dataset_of(&windows, &rows, (1.0, 0.0))?))
        };
        let (validation_set, test_set) = (judged(validation..test)?, judged(test..text.len())?);
        let vocabulary = text.vocabulary().clone();
        let characters = [validation, test - validation, text.len() - test].map(count);
        let sets = format!("{} train, {} validation, {} test", characters[0], characters[1], characters[2]);
        let how = match *wishes.stride {
            Some(_) => "as told",
            None => "training windows end to end, moved anew in every epoch",
        };
        let choices = vec![
            Choice::new("data", format!("{}: {} characters", text.name(), count(text.len())), ""),
            Choice::new("task", format!("the next of {} characters, at every place", vocabulary.size()), "classes"),
            Choice::new("inputs", format!("windows of {length} characters"), "see --window"),
            Choice::new("characters", sets, "in their order; the last are judged"),
            Choice::new("windows", count(train.rows() as usize), how),
        ];
        let input = RowsInput {
            from: RowsFrom::Tokens { length, vocabulary },
            schema: train.schema().clone(),
            bytes: (1.0, 0.0),
            target_scale: (0.0, 1.0),
        };
        let train = Loaded::new(Feed::Source(Arc::new(train)), (1.0, 0.0), super::loading(wishes))?;
        Ok(Problem {
            name: text.name().to_owned(),
            stem: stem(path),
            embedded: false,
            task: input.task(),
            input: Input::Rows(Box::new(input)),
            train: Material::Loaded(train),
            validation: validation_set,
            test: test_set,
            choices,
            settings_read: Vec::new(),
        })
    }

    /// Which character follows a window, whose characters are given one-hot.
    fn one_hot(path: &Path, text: Arc<Text>, wishes: &TrackedWishes<'_>) -> Result<Problem, TrainError> {
        let (length, stride) = (wishes.window.unwrap_or(ONE_HOT), wishes.stride.unwrap_or(1));
        let windows = TextWindows::new(text.clone(), length, stride, Predict::Next)?.one_hot()?;
        // by position: neighbouring windows share nearly all they show
        let rows = windows.rows();
        let test = after(wishes.test.unwrap_or(0.05), rows as usize) as u32;
        let validation = after(wishes.validation.unwrap_or(0.05), test as usize) as u32;
        let gap = (length / stride.max(1)) as u32 + 1;
        let splits = Splits {
            train: (0..validation.saturating_sub(gap)).collect(),
            validation: (validation..test.saturating_sub(gap).max(validation)).collect(),
            test: (test..rows).collect(),
        };
        let vocabulary = text.vocabulary().clone();
        let choices = vec![
            Choice::new("data", format!("{}: {} characters", text.name(), count(text.len())), ""),
            Choice::new("task", format!("the next of {} characters", vocabulary.size()), "classes"),
            Choice::new("inputs", format!("{length} characters, one-hot"), "see --window"),
        ];
        let input = RowsInput {
            from: RowsFrom::Text { length, vocabulary },
            schema: windows.schema().clone(),
            bytes: (1.0, 0.0),
            target_scale: (0.0, 1.0),
        };
        let (name, source): (String, Arc<dyn Source>) = (text.name().to_owned(), Arc::new(windows));
        let stem = stem(path);
        let parts = Parts {
            name,
            stem,
            input,
            train: source.clone(),
            judged: source,
            constant: true,
            mix: None,
            splits,
            why_rows: None,
            choices,
        };
        Problem::of_parts(parts, super::loading(wishes), DataMemory::of(wishes).bytes)
    }
}

/// Whether a GPU may do the work.
pub(crate) fn has_gpu(wishes: &TrackedWishes<'_>) -> bool {
    *wishes.device != Some(Device::Cpu) && Gpu::has_driver()
}

/// Where the last `share` of `end` begins.
fn after(share: f64, end: usize) -> usize {
    end - (end as f64 * share.clamp(0.0, 1.0)) as usize
}
