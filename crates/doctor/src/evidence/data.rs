//! What the network is given, as it is given: columns after preparation, labels, and what is in both sets.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use citius_data::{Dataset, Features, Target};

use crate::score::{is_binary, spread};

/// Rows that are enough for moments and correlations; and for neighbours, each compared with each.
const ENOUGH: usize = 4096;
const NEIGHBOURS: usize = 1000;
/// Elements of rows that are compared with those kept for validation in a few milliseconds.
const QUICKLY_COMPARED: usize = 1 << 21;
/// Columns compared with each other.
const MOST_COLUMNS: usize = 128;
/// Columns that distances are made of.
const MOST_COMPARED: usize = 200;
/// Neighbours that vote.
const K: usize = 9;

/// Of training rows, and of validation rows beside them.
#[derive(Clone, Debug, Default)]
pub struct DataFacts {
    pub rows: usize,
    pub validation_rows: usize,
    /// Numbers without neighbours, by column; empty for pictures and tokens.
    pub columns: Vec<ColumnFact>,
    /// Over all inputs.
    pub mean: f64,
    pub std: f64,
    pub target: TargetFact,
    /// Pairs of columns that go together, strongest first.
    pub pairs: Vec<(usize, usize, f64)>,
    /// Columns that the preparation left out, as they have one value.
    pub dropped: Vec<String>,
    /// Share of validation rows that are training rows too.
    pub shared_rows: f64,
    /// What the nearest rows say of a row's target.
    pub neighbours: Option<Neighbours>,
}

/// One input.
#[derive(Clone, Debug, Default)]
pub struct ColumnFact {
    pub name: String,
    pub mean: f64,
    pub std: f64,
    pub min: f64,
    pub max: f64,
    /// Different values, 3 at most.
    pub values: usize,
    /// An earlier column with the same values.
    pub same_as: Option<usize>,
    /// Correlation with the target, or the correlation ratio where it is classes.
    pub with_target: f64,
    /// A hashed word of free text: seldom there, and not standardised.
    pub hashed_word: bool,
}

#[derive(Clone, Debug, Default)]
pub struct TargetFact {
    /// Of numbers.
    pub mean: f64,
    pub std: f64,
    pub min: f64,
    pub max: f64,
    /// Rows of each class; empty for numbers.
    pub classes: Vec<usize>,
    /// Whole numbers only, and how many different ones there are.
    pub whole: bool,
    pub distinct: usize,
}

/// A vote of the nearest rows, and the same vote with targets dealt out at random.
#[derive(Clone, Copy, Debug)]
pub struct Neighbours {
    /// Share of the target that they explain: 1 is all, 0 what a constant does.
    pub explained: f64,
    /// The largest of several times with targets dealt out at random.
    pub by_chance: f64,
}

impl DataFacts {
    /// `names`: of the inputs, where they have any.
    /// `thorough`: also what takes longer than a small training.
    pub fn of(
        train: &Dataset,
        validation: Option<&Dataset>,
        names: &[String],
        flat: bool,
        thorough: bool,
    ) -> DataFacts {
        let quick = thorough || train.rows * train.width() <= QUICKLY_COMPARED;
        let step = train.rows.div_ceil(ENOUGH).max(1);
        let rows: Vec<usize> = (0..train.rows).step_by(step).collect();
        let width = train.width().max(1);
        let table = numbers(train, &rows);
        let all = table.as_deref().map(spread).unwrap_or_default();
        let target = TargetFact::of(&train.target);
        let mut facts = DataFacts {
            rows: train.rows,
            validation_rows: validation.map_or(0, |v| v.rows),
            mean: all.mean,
            std: all.std,
            target,
            shared_rows: validation.filter(|_| quick).map_or(0.0, |v| shared(train, v)),
            ..DataFacts::default()
        };
        let Some(table) = table else { return facts };
        if flat {
            facts.columns = columns(&table, width, names, &train.target, &rows);
            facts.pairs = pairs(&table, width, &facts.columns);
            // what is rare may be missing from the sample
            for (c, fact) in facts.columns.iter_mut().enumerate().filter(|(_, fact)| fact.std == 0.0) {
                fact.std = deviation(train, c);
            }
        }
        if thorough {
            facts.neighbours = neighbours(&table, width, &train.target, &rows);
        }
        facts
    }

    /// The strongest relation of any column with the target.
    pub fn strongest(&self) -> Option<&ColumnFact> {
        self.columns.iter().max_by(|a, b| a.with_target.abs().total_cmp(&b.with_target.abs()))
    }
}

impl TargetFact {
    fn of(target: &Target) -> TargetFact {
        match target {
            Target::Classes { data, classes } => {
                let mut counts = vec![0; *classes];
                data.iter().for_each(|c| counts[*c as usize] += 1);
                TargetFact { classes: counts, whole: true, distinct: *classes, ..TargetFact::default() }
            }
            // tokens are as rare as their language has them
            Target::Sequence { classes, .. } => TargetFact { whole: true, distinct: *classes, ..TargetFact::default() },
            Target::Values { data, width } => {
                let all = spread(data);
                let distinct: HashSet<u32> = data.iter().map(|v| v.to_bits()).take(100_000).collect();
                let classes = match is_binary(data, *width) {
                    true => {
                        let ones = data.iter().filter(|v| **v == 1.0).count();
                        vec![data.len() - ones, ones]
                    }
                    false => Vec::new(),
                };
                TargetFact {
                    mean: all.mean,
                    std: all.std,
                    min: all.min,
                    max: all.max,
                    classes,
                    whole: data.iter().all(|v| v.fract() == 0.0),
                    distinct: distinct.len(),
                }
            }
        }
    }
}

/// Some rows as numbers; nothing for tokens.
fn numbers(data: &Dataset, rows: &[usize]) -> Option<Vec<f32>> {
    let width = data.width();
    match &data.features {
        Features::F32 { data, .. } => {
            Some(rows.iter().flat_map(|r| data[r * width..(r + 1) * width].iter().copied()).collect())
        }
        Features::U8 { data, scale, shift, .. } => Some(
            rows.iter()
                .flat_map(|r| data[r * width..(r + 1) * width].iter().map(|b| *b as f32 * scale + shift))
                .collect(),
        ),
        Features::I32 { .. } => None,
    }
}

fn columns(table: &[f32], width: usize, names: &[String], target: &Target, rows: &[usize]) -> Vec<ColumnFact> {
    let mut seen: HashMap<u64, usize> = HashMap::new();
    let column = |c: usize| table.iter().skip(c).step_by(width).copied().collect::<Vec<f32>>();
    (0..width)
        .map(|c| {
            let values = column(c);
            let all = spread(&values);
            let mut hasher = DefaultHasher::new();
            values.iter().for_each(|v| v.to_bits().hash(&mut hasher));
            let hash = hasher.finish();
            let same_as = (all.std > 0.0).then(|| seen.get(&hash).copied()).flatten();
            seen.entry(hash).or_insert(c);
            ColumnFact {
                name: names.get(c).cloned().unwrap_or_else(|| format!("column {}", c + 1)),
                mean: all.mean,
                std: all.std,
                min: all.min,
                max: all.max,
                values: different(&values),
                same_as,
                with_target: with_target(&values, target, rows),
                hashed_word: false,
            }
        })
        .collect()
}

/// Of a whole column.
fn deviation(data: &Dataset, column: usize) -> f64 {
    match &data.features {
        Features::F32 { data, width } => {
            spread(&data.iter().skip(column).step_by(*width).copied().collect::<Vec<_>>()).std
        }
        _ => 0.0,
    }
}

fn different(values: &[f32]) -> usize {
    let mut seen: Vec<f32> = Vec::new();
    for value in values {
        if !seen.contains(value) {
            seen.push(*value);
            if seen.len() == 3 {
                break;
            }
        }
    }
    seen.len()
}

fn with_target(values: &[f32], target: &Target, rows: &[usize]) -> f64 {
    match target {
        Target::Sequence { .. } => 0.0,
        Target::Values { data, width } => {
            let targets: Vec<f32> = rows.iter().map(|r| data[r * width]).collect();
            correlation(values, &targets)
        }
        Target::Classes { data, classes } => {
            // √(between / total)
            let mut sums = vec![(0.0, 0.0); *classes];
            for (value, row) in values.iter().zip(rows) {
                let of = &mut sums[data[*row] as usize];
                *of = (of.0 + 1.0, of.1 + *value as f64);
            }
            let all = spread(values);
            let between: f64 =
                sums.iter().filter(|s| s.0 > 0.0).map(|(n, sum)| n * (sum / n - all.mean).powi(2)).sum::<f64>();
            (between / (values.len().max(1) as f64 * all.std.powi(2)).max(1e-30)).min(1.0).sqrt()
        }
    }
}

fn correlation(a: &[f32], b: &[f32]) -> f64 {
    let (sa, sb) = (spread(a), spread(b));
    if sa.std <= 1e-12 * sa.mean.abs() || sb.std <= 1e-12 * sb.mean.abs() || sa.std == 0.0 || sb.std == 0.0 {
        return 0.0;
    }
    let n = a.len().max(1) as f64;
    let sum: f64 = a.iter().zip(b).map(|(x, y)| (*x as f64 - sa.mean) * (*y as f64 - sb.mean)).sum();
    sum / n / (sa.std * sb.std)
}

/// Those of at least 0.95.
fn pairs(table: &[f32], width: usize, facts: &[ColumnFact]) -> Vec<(usize, usize, f64)> {
    let most = width.min(MOST_COLUMNS);
    let rows = table.len() / width;
    let step = rows.div_ceil(1000).max(1);
    let column = |c: usize| (0..rows).step_by(step).map(|r| table[r * width + c]).collect::<Vec<f32>>();
    let columns: Vec<Vec<f32>> = (0..most).map(column).collect();
    let mut found = Vec::new();
    for b in 0..most {
        for a in 0..b {
            if facts[a].std > 0.0 && facts[b].std > 0.0 {
                let r = correlation(&columns[a], &columns[b]);
                if r.abs() >= 0.95 {
                    found.push((a, b, r));
                }
            }
        }
    }
    found.sort_by(|x, y| y.2.abs().total_cmp(&x.2.abs()));
    found
}

/// Share of validation rows whose inputs are those of a training row.
fn shared(train: &Dataset, validation: &Dataset) -> f64 {
    let known: HashSet<u64> = (0..train.rows).map(|r| row_hash(train, r)).collect();
    let both = (0..validation.rows).filter(|r| known.contains(&row_hash(validation, *r))).count();
    both as f64 / validation.rows.max(1) as f64
}

fn row_hash(data: &Dataset, row: usize) -> u64 {
    let width = data.width();
    let mut hasher = DefaultHasher::new();
    match &data.features {
        Features::F32 { data, .. } => {
            data[row * width..(row + 1) * width].iter().for_each(|v| v.to_bits().hash(&mut hasher))
        }
        Features::U8 { data, .. } => data[row * width..(row + 1) * width].hash(&mut hasher),
        Features::I32 { data, .. } => data[row * width..(row + 1) * width].hash(&mut hasher),
    }
    // rows of few labels are often alike by chance, and seldom with the same number to predict
    if let Target::Values { data: values, width } = &data.target {
        values[row * width..(row + 1) * width].iter().for_each(|v| v.to_bits().hash(&mut hasher));
    }
    hasher.finish()
}

/// Asks the nearest rows, in units of each column's spread, leaving the row itself out.
fn neighbours(table: &[f32], width: usize, target: &Target, rows: &[usize]) -> Option<Neighbours> {
    let count = rows.len().min(NEIGHBOURS);
    if count < 60 {
        return None;
    }
    let step = rows.len() / count;
    let picked: Vec<usize> = (0..count).map(|i| i * step).collect();
    // very wide rows: every so many columns is enough
    let stride = width.div_ceil(MOST_COMPARED).max(1);
    let used: Vec<usize> = (0..width).step_by(stride).collect();
    let scales: Vec<(f32, f32)> = used
        .iter()
        .map(|c| {
            let values: Vec<f32> = picked.iter().map(|r| table[r * width + c]).collect();
            let all = spread(&values);
            (all.mean as f32, if all.std > 0.0 { 1.0 / all.std as f32 } else { 0.0 })
        })
        .collect();
    let points: Vec<f32> = picked
        .iter()
        .flat_map(|r| used.iter().zip(&scales).map(move |(c, (mean, by))| (table[r * width + c] - mean) * by))
        .collect();
    let d = used.len();
    let nearest: Vec<Vec<usize>> = (0..count)
        .map(|i| {
            let a = &points[i * d..(i + 1) * d];
            let mut distances: Vec<(f32, usize)> = (0..count)
                .filter(|j| *j != i)
                .map(|j| (a.iter().zip(&points[j * d..(j + 1) * d]).map(|(x, y)| (x - y) * (x - y)).sum::<f32>(), j))
                .collect();
            distances.select_nth_unstable_by(K, |x, y| x.0.total_cmp(&y.0));
            distances[..K].iter().map(|(_, j)| *j).collect()
        })
        .collect();
    let of_row = |i: usize| rows[picked[i]];
    let (explained, by_chance) = match target {
        Target::Values { data, width } if !is_binary(data, *width) => {
            let values: Vec<f64> = (0..count).map(|i| data[of_row(i) * width] as f64).collect();
            let explained = explained_of_numbers(&values, &nearest);
            let chance = (0..5).map(|k| explained_of_numbers(&dealt(&values, k), &nearest)).fold(f64::MIN, f64::max);
            (explained, chance)
        }
        _ => {
            let classes: Vec<usize> = (0..count)
                .map(|i| match target {
                    Target::Classes { data, .. } => data[of_row(i)] as usize,
                    Target::Sequence { data, length, .. } => data[of_row(i) * length] as usize,
                    Target::Values { data, .. } => data[of_row(i)] as usize,
                })
                .collect();
            let explained = explained_of_classes(&classes, &nearest);
            let chance = (0..5).map(|k| explained_of_classes(&dealt(&classes, k), &nearest)).fold(f64::MIN, f64::max);
            (explained, chance)
        }
    };
    Some(Neighbours { explained, by_chance })
}

fn explained_of_numbers(values: &[f64], nearest: &[Vec<usize>]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    // the covariance with the neighbours' mean: 0 in expectation where nothing is related, while a squared error of K noisy values is above
    // the variance
    let guesses: Vec<f64> =
        nearest.iter().map(|near| near.iter().map(|j| values[*j]).sum::<f64>() / K as f64).collect();
    let middle = guesses.iter().sum::<f64>() / n;
    let covariance: f64 = values.iter().zip(&guesses).map(|(v, g)| (v - mean) * (g - middle)).sum();
    covariance / variance.max(1e-30)
}

/// How much more often a neighbour is of the same class than by chance.
fn explained_of_classes(classes: &[usize], nearest: &[Vec<usize>]) -> f64 {
    let n = classes.len() as f64;
    let same: f64 =
        nearest.iter().zip(classes).map(|(near, c)| near.iter().filter(|j| classes[**j] == *c).count() as f64).sum();
    let agreement = same / (n * K as f64);
    let mut counts: HashMap<usize, f64> = HashMap::new();
    classes.iter().for_each(|c| *counts.entry(*c).or_default() += 1.0);
    let chance: f64 = counts.values().map(|c| c / n * ((c - 1.0) / (n - 1.0))).sum();
    (agreement - chance) / (1.0 - chance).max(1e-9)
}

/// The same values in another order, the same order for the same `key`.
fn dealt<T: Clone>(values: &[T], key: u64) -> Vec<T> {
    let order = citius_data::Order::new(values.len() as u32, 0xD0C + key, key);
    let mut places = vec![0; values.len()];
    order.fill(0, &mut places);
    places.into_iter().map(|p| values[p as usize].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_same_with_their_targets() {
        let rows = |targets: [f32; 4]| {
            let features = Features::F32 { data: vec![1.0, 2.0, 1.0, 2.0], width: 1 };
            Dataset::new(4, features, Target::Values { data: targets.to_vec(), width: 1 }).unwrap()
        };
        let train = rows([0.1, 0.2, 0.3, 0.4]);
        assert_eq!(shared(&train, &rows([0.5, 0.6, 0.7, 0.8])), 0.0);
        assert_eq!(shared(&train, &rows([0.1, 0.2, 0.3, 0.8])), 0.75);
    }
}
