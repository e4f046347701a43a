//! Classes of the target, and rows that repeat.

use super::column::{ColumnSummary, Label, combined, number_bits, share, text_bits};
use crate::table::{Column, MISSING, Table, Values};

/// Different whole numbers up to which a target is taken as classes.
const MOST_NUMBERS: usize = 20;
/// Classes told of a target of text.
const MOST_CLASSES: usize = 1000;
/// Rows hashed together.
const BLOCK: usize = 8192;

/// The rows of each class; none where the target is a quantity.
pub(super) fn classes(column: &Column, summary: &ColumnSummary) -> Vec<Label> {
    let distinct = summary.distinct.unwrap_or(0);
    let few = match &column.values {
        Values::Number(_) => summary.kind == "whole number" && distinct <= MOST_NUMBERS,
        Values::Text { .. } => distinct <= MOST_CLASSES,
    };
    if !few || distinct == 0 {
        return Vec::new();
    }
    let (codes, labels) = column.labels();
    let mut counts = vec![0usize; labels.len()];
    codes.iter().filter(|code| **code != MISSING).for_each(|code| counts[*code as usize] += 1);
    let present = counts.iter().sum();
    let mut classes: Vec<Label> = labels
        .iter()
        .zip(counts)
        .filter(|(_, rows)| *rows > 0)
        .map(|(label, rows)| Label { label: label.clone(), rows, share: share(rows, present) })
        .collect();
    let number = |class: &Label| class.label.parse::<f64>().unwrap_or(f64::INFINITY);
    classes.sort_by(|a, b| number(a).total_cmp(&number(b)).then_with(|| a.label.cmp(&b.label)));
    classes
}

/// Rows equal to an earlier one, by a hash of 64 bits.
pub(super) fn repeated(table: &Table) -> usize {
    if table.columns.is_empty() {
        return 0;
    }
    let labels: Vec<Vec<u64>> = table.columns.iter().map(label_bits).collect();
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let part = table.rows.div_ceil(threads).max(BLOCK);
    let mut hashes = vec![0u64; table.rows];
    std::thread::scope(|scope| {
        for (index, hashes) in hashes.chunks_mut(part).enumerate() {
            let labels = &labels;
            scope.spawn(move || {
                for (block, hashes) in hashes.chunks_mut(BLOCK).enumerate() {
                    hash_block(table, labels, index * part + block * BLOCK, hashes);
                }
            });
        }
    });
    hashes.sort_unstable();
    hashes.windows(2).filter(|pair| pair[0] == pair[1]).count()
}

fn label_bits(column: &Column) -> Vec<u64> {
    match &column.values {
        Values::Number(_) => Vec::new(),
        Values::Text { labels, .. } => labels.iter().map(|label| text_bits(label)).collect(),
    }
}

fn hash_block(table: &Table, labels: &[Vec<u64>], first: usize, hashes: &mut [u64]) {
    for (column, labels) in table.columns.iter().zip(labels) {
        match &column.values {
            Values::Number(values) => {
                for (hash, value) in hashes.iter_mut().zip(&values[first..]) {
                    *hash = combined(*hash, number_bits(*value));
                }
            }
            Values::Text { codes, .. } => {
                for (hash, code) in hashes.iter_mut().zip(&codes[first..]) {
                    *hash = combined(*hash, labels.get(*code as usize).copied().unwrap_or(0));
                }
            }
        }
    }
}
