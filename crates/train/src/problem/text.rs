//! Windows over a text: which character comes next.

use std::path::Path;
use std::sync::Arc;

use citius_data::source::{Predict, Text, TextWindows, Unit};
use citius_data::{Source, Splits};

use super::rows::{Parts, RowsFrom, RowsInput};
use super::{Problem, count, stem};
use crate::{Choice, TrainError, Wishes};

/// Characters seen when nobody says otherwise.
const LENGTH: usize = 16;

impl Problem {
    pub(super) fn text(path: &Path, wishes: &Wishes) -> Result<Problem, TrainError> {
        let text = Arc::new(Text::open(path, Unit::Chars)?);
        let (length, stride) = (wishes.window.unwrap_or(LENGTH), wishes.stride.unwrap_or(1));
        let windows = TextWindows::new(text.clone(), length, stride, Predict::Next)?.one_hot()?;
        // by position: neighbouring windows share nearly all they show
        let rows = windows.rows();
        let after = |share: f64, end: u32| end - (end as f64 * share.clamp(0.0, 1.0)) as u32;
        let test = after(wishes.test.unwrap_or(0.05), rows);
        let validation = after(wishes.validation.unwrap_or(0.05), test);
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
            choices,
        };
        Problem::of_parts(parts, super::loading(wishes), super::room(wishes))
    }
}
