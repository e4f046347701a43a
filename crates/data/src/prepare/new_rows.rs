//! New rows for a model: how their table is read part by part, encoded, and what is remarked about them.

use std::collections::HashSet;

use super::{Preparation, columns};
use crate::dataset::{Features, Target};
use crate::error::DataError;
use crate::loader::OnError;
use crate::suggest;
use crate::table::{PartOptions, ReadOptions, Table, TablePart};

/// Encoded rows take at most so many bytes at a time.
const PART_BYTES: usize = 16 << 20;
/// Rows that a network computes together.
const BATCH: usize = 1024;
const MOST_ROWS: usize = 16 * BATCH;
/// Labels that were not seen in training are counted up to here.
const MOST_LABELS: usize = 10_000;

/// Rows of a part as a network takes them.
#[derive(Debug)]
pub struct EncodedPart {
    /// Of the rows that can be used.
    pub features: Features,
    /// Where it was asked for.
    pub target: Option<Target>,
    /// Rows of the part that cannot be used, rising, and why.
    pub unreadable: Vec<(usize, String)>,
    /// Rows without a target, where one is needed.
    pub unlabelled: usize,
    /// How the rows differ from those of the training.
    pub remarks: RowRemarks,
}

/// How new rows differ from those of the training, and what is made of it.
#[derive(Debug, Default)]
pub struct RowRemarks {
    without_header: bool,
    /// Per feature: labels not seen in training, and what they are taken as.
    unseen: Vec<Option<Unseen>>,
    /// About labels of the target.
    stopped: Option<String>,
}

#[derive(Debug)]
struct Unseen {
    column: String,
    taken_as: &'static str,
    labels: Vec<String>,
    known: HashSet<String>,
}

impl Preparation {
    /// How to read new rows; `needs_target` where they are to be evaluated.
    pub fn part_options(&self, read: ReadOptions, needs_target: bool) -> PartOptions {
        let by_name = |index: usize| self.header || index < self.target.index();
        let numbers = self.features.iter().filter(|f| !f.is_text() && by_name(f.index)).map(|f| f.name.clone());
        let mut needed: Vec<String> = self.features.iter().map(|feature| feature.name.clone()).collect();
        needed.extend(needs_target.then(|| self.target.name().to_owned()));
        let rows = PART_BYTES / (4 * self.encoded_width().max(1));
        let whole_batches = (rows / BATCH * BATCH).min(MOST_ROWS);
        PartOptions {
            read,
            numbers: numbers.collect(),
            needed: if self.header { needed } else { Vec::new() },
            most_rows: if whole_batches > 0 { whole_batches } else { rows.max(16) },
            ..PartOptions::default()
        }
    }

    /// The rows of a part that can be used.
    pub fn encode_part(
        &self,
        part: &TablePart,
        on_error: OnError,
        needs_target: bool,
    ) -> Result<EncodedPart, DataError> {
        let table = &part.table;
        let mut unreadable = part.unreadable.clone();
        let refused: HashSet<usize> = unreadable.iter().map(|(row, _)| *row).collect();
        let mut rows: Vec<u32> = (0..table.rows as u32).filter(|row| !refused.contains(&(*row as usize))).collect();
        let readable = rows.len();
        if needs_target {
            rows = self.labelled_rows(table, &rows)?;
        }
        let unlabelled = readable - rows.len();
        let encode = |rows: &[u32]| -> Result<(Vec<f32>, Option<Target>), DataError> {
            let target = match needs_target {
                true => Some(self.target.encode(table, self.target_column(table)?, rows)?),
                false => None,
            };
            Ok((self.encode_rows(table, rows)?, target))
        };
        let (data, target) = match encode(&rows) {
            Err(DataError::Cell { .. }) if on_error == OnError::Skip => {
                rows.retain(|row| match encode(&[*row]) {
                    Ok(_) => true,
                    Err(error) => {
                        let error = crate::source::in_file(error, part.first_row as u32);
                        unreadable.push((*row as usize, error.to_string()));
                        false
                    }
                });
                unreadable.sort();
                encode(&rows)?
            }
            encoded => encoded?,
        };
        let remarks = RowRemarks::of(self, table)?;
        let features = Features::F32 { data, width: self.features() };
        Ok(EncodedPart { features, target, unreadable, unlabelled, remarks })
    }
}

impl RowRemarks {
    pub(super) fn of(preparation: &Preparation, table: &Table) -> Result<RowRemarks, DataError> {
        let places = columns::find_features(preparation, table)?;
        let unseen = preparation.features.iter().zip(places).map(|(feature, place)| {
            let column = feature.as_trained(&table.columns[place]);
            let (taken_as, labels) = feature.encoding.unseen(&column)?;
            let known = labels.iter().cloned().collect();
            Some(Unseen { column: feature.name.clone(), taken_as, labels, known })
        });
        let target = preparation.target_column(table).ok();
        Ok(RowRemarks {
            without_header: preparation.header && !table.header,
            unseen: unseen.collect(),
            stopped: target.and_then(|place| preparation.target.stop_note(&table.columns[place])),
        })
    }

    /// Takes those of further rows in.
    pub fn add(&mut self, more: RowRemarks) {
        self.without_header |= more.without_header;
        self.stopped = self.stopped.take().or(more.stopped);
        if self.unseen.is_empty() {
            self.unseen = more.unseen;
            return;
        }
        for (have, more) in self.unseen.iter_mut().zip(more.unseen) {
            match (have, more) {
                (Some(have), Some(more)) => {
                    for label in more.labels {
                        if have.labels.len() < MOST_LABELS && have.known.insert(label.clone()) {
                            have.labels.push(label);
                        }
                    }
                }
                (have @ None, more) => *have = more,
                (Some(_), None) => {}
            }
        }
    }

    /// One line each.
    pub fn lines(&self) -> Vec<String> {
        let header = self.without_header.then(|| "no header: columns are taken by position".to_owned());
        let unseen = self.unseen.iter().flatten().map(|unseen| {
            let labels = suggest::list(unseen.labels.iter().map(String::as_str), 10);
            format!("labels of {:?} not seen in training, {}: {labels}", unseen.column, unseen.taken_as)
        });
        header.into_iter().chain(unseen).chain(self.stopped.clone()).collect()
    }
}
