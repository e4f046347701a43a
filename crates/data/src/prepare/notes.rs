//! What was chosen and why: one note for each choice.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::category::Categorical;
use super::feature::Encoding;
use super::fit::{CONSTANT, Fit};
use super::options::PrepareOptions;
use super::pca;
use super::scale::Scale;
use super::task::Task;
use crate::suggest;
use crate::table::Table;

/// One choice of a [`Preparation`](super::Preparation), with its reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PreparationNote {
    Task {
        task: Task,
        target: String,
        why: String,
    },
    Inputs {
        inputs: usize,
        why: String,
    },
    /// Columns that are left out, as all training rows hold the same value.
    Constant {
        constant: Vec<String>,
    },
    Remark(String),
}

impl fmt::Display for PreparationNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PreparationNote::Task { task, target, why } => write!(f, "task: {task} of {target:?} ({why})"),
            PreparationNote::Inputs { inputs, why } => write!(f, "inputs: {inputs} ({why})"),
            PreparationNote::Constant { constant } => {
                write!(f, "{CONSTANT}: {}", suggest::list(constant.iter().map(String::as_str), MOST_NAMES))
            }
            PreparationNote::Remark(remark) => f.write_str(remark),
        }
    }
}

/// Columns named in one note.
const MOST_NAMES: usize = 12;

/// What the encoded columns are: `14 (numeric columns, standardised: 6; text columns, one-hot: 8)`, in two parts.
pub(super) fn of_inputs(fits: &[(usize, Fit)], options: &PrepareOptions) -> (usize, String) {
    let scaled = match (options.scale.unwrap_or(Scale::Standard), options.scale_times.unwrap_or(1)) {
        (scale, 1) => scale.to_string(),
        (scale, times) => format!("{scale} {times} times over"),
    };
    let encoded = options.categorical.unwrap_or(Categorical::OneHot);
    let mut kinds = [
        (format!("numeric columns, {scaled}"), 0),
        (format!("text columns, {encoded}"), 0),
        ("columns of free text".to_owned(), 0),
        ("columns of dates".to_owned(), 0),
    ];
    let mut inputs = 0;
    for encoding in fits.iter().filter_map(|(_, fit)| fit.encoding.as_ref()) {
        inputs += encoding.width();
        let kind = match encoding {
            Encoding::Calendar(_) => 3,
            Encoding::Text(_) => 2,
            other => other.is_text() as usize,
        };
        kinds[kind].1 += 1;
    }
    let there = kinds.iter().filter(|(_, columns)| *columns > 0);
    (inputs, there.map(|(kind, columns)| format!("{kind}: {columns}")).collect::<Vec<_>>().join("; "))
}

/// The note on the inputs of the network; `share` is the variance principal components hold of the encoded columns.
pub(super) fn with_components(
    (encoded, columns): (usize, String),
    inputs: usize,
    share: Option<f64>,
    rows: usize,
) -> PreparationNote {
    let Some(share) = share else { return PreparationNote::Inputs { inputs, why: columns } };
    let sampled = match rows > pca::MOST_ROWS {
        true => format!(", by {} of {rows} rows, evenly spread", pca::MOST_ROWS),
        false => String::new(),
    };
    let percent = 100.0 * share;
    let why = format!("principal components, {percent:.1}% of the variance of {encoded}{sampled}; {columns}");
    PreparationNote::Inputs { inputs, why }
}

/// What was made of the columns, grouped by what is said, in order of first appearance.
pub(super) fn of_columns(table: &Table, fits: &[(usize, Fit)]) -> Vec<PreparationNote> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (index, fit) in fits {
        let name = table.columns[*index].name.as_str();
        for remark in &fit.remarks {
            match groups.iter_mut().find(|(said, _)| said == remark) {
                Some((_, names)) => names.push(name),
                None => groups.push((remark, vec![name])),
            }
        }
    }
    let note = |(said, names): (&str, Vec<&str>)| match said {
        CONSTANT => PreparationNote::Constant { constant: names.into_iter().map(str::to_owned).collect() },
        said => PreparationNote::Remark(format!("{said}: {}", suggest::list(names, MOST_NAMES))),
    };
    groups.into_iter().map(note).collect()
}
