//! Which rows train, which choose when to stop, which judge: disjoint lists of row numbers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use crate::error::DataError;
use crate::file;
use crate::rng::SplitMix64;
use crate::table::{MISSING, Table, Values};

/// Disjoint rows, each list ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Splits {
    /// Rows to learn from.
    pub train: Vec<u32>,
    /// Rows that decide when to stop; always taken from training rows.
    pub validation: Vec<u32>,
    /// Rows kept for the final judgement.
    pub test: Vec<u32>,
}

/// Shares and seed of a split.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SplitOptions {
    /// Share of the training rows, test rows already set aside, that validates.
    pub validation: f64,
    /// Share of all rows that tests.
    pub test: f64,
    /// The same seed gives the same split.
    pub seed: u64,
}

impl Splits {
    /// Random test rows, then random validation rows from the rest.
    pub fn random(rows: &[u32], options: SplitOptions) -> Result<Splits, DataError> {
        Splits::stratified(rows, &vec![0; rows.len()], options)
    }

    /// As [`Splits::random`], each class in its share; `classes[i]` is the class of `rows[i]`.
    /// Every class keeps a row in training.
    pub fn stratified(rows: &[u32], classes: &[u32], options: SplitOptions) -> Result<Splits, DataError> {
        check_lengths(rows, classes)?;
        let mut rng = SplitMix64::new(options.seed);
        let (rest, test) = draw(rows, classes, options.test, "test", &mut rng)?;
        hold_out(rest, test, options.validation, &mut rng)
    }

    /// Rows given by someone, `total` in the table. Without training rows, all that do not test
    /// train. `classes[row]`, if there, is the class of each row of the table.
    pub fn given(
        total: u32,
        train: Option<Vec<u32>>,
        test: Option<Vec<u32>>,
        classes: Option<&[u32]>,
        options: SplitOptions,
    ) -> Result<Splits, DataError> {
        let test = test.unwrap_or_default();
        let tested: HashSet<u32> = test.iter().copied().collect();
        let train = match train {
            None => (0..total).filter(|row| !tested.contains(row)).collect(),
            Some(train) => train,
        };
        if let Some(row) = train.iter().find(|row| tested.contains(row)) {
            let both = train.iter().filter(|row| tested.contains(row)).count();
            return Err(DataError::Split(format!(
                "row {row}{} is both in the training and in the test rows; a model judged on rows it \
                 learned from looks better than it is, remove them from one list",
                if both > 1 { format!(" (and {} more)", both - 1) } else { String::new() },
            )));
        }
        if let Some(row) = train.iter().chain(&test).find(|row| **row >= total) {
            return Err(DataError::Split(format!("row {row} does not exist: there are {total} rows, the first is 0")));
        }
        let class_of = |row: u32| match classes {
            Some(classes) => classes.get(row as usize).copied().unwrap_or(MISSING),
            None => 0,
        };
        let rest = train.into_iter().map(|row| (row, class_of(row))).collect();
        let mut rng = SplitMix64::new(options.seed);
        hold_out(rest, test, options.validation, &mut rng)
    }
}

/// The class of each row of the table, for [`Splits::stratified`]: equal values, equal numbers.
pub fn strata(table: &Table, column: usize) -> Result<Vec<u32>, DataError> {
    match table.columns.get(column).map(|column| &column.values) {
        None => Err(DataError::Inconsistent(format!("no column {column}"))),
        Some(Values::Text { codes, .. }) => Ok(codes.clone()),
        Some(Values::Number(values)) => {
            let mut known: HashMap<u64, u32> = HashMap::new();
            Ok(values
                .iter()
                .map(|value| {
                    let next = known.len() as u32;
                    match value.is_nan() {
                        true => MISSING,
                        false => *known.entry((value + 0.0).to_bits()).or_insert(next),
                    }
                })
                .collect())
        }
    }
}

/// Row numbers from a file: from 0, one per line, also written `12.0` or `1.200e+01`; `rows` is the
/// number of rows of the table.
pub fn read_row_file(path: impl AsRef<Path>, rows: usize) -> Result<Vec<u32>, DataError> {
    let path = path.as_ref();
    let name = file::name(path);
    // room for a comment beside every number
    let limit = (rows as u64).saturating_mul(64).saturating_add(16 << 20);
    let bytes = file::read_small(path, limit)?;
    let mut first_line: HashMap<u32, usize> = HashMap::new();
    let mut found = Vec::new();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let problem = |problem| DataError::RowFile { file: name.clone(), line: at + 1, problem };
        let line = std::str::from_utf8(line).map_err(|_| problem("not text".into()))?;
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let row = parse_row(line, rows).map_err(problem)?;
        if let Some(first) = first_line.insert(row, at + 1) {
            return Err(problem(format!("row {row} was already in line {first}")));
        }
        found.push(row);
    }
    if found.is_empty() {
        return Err(DataError::Empty {
            file: name,
            what: "holds no row numbers".into(),
            next: "write one 0-based row number per line".into(),
        });
    }
    Ok(found)
}

fn parse_row(text: &str, rows: usize) -> Result<u32, String> {
    let shown = crate::suggest::short(text);
    let value: f64 =
        text.parse().map_err(|_| format!("{shown:?} is not a row number; write one 0-based number per line"))?;
    if value.fract() != 0.0 {
        return Err(format!("{shown:?} is not a whole row number"));
    }
    if !(0.0..rows.min(u32::MAX as usize) as f64).contains(&value) {
        return Err(format!(
            "row {shown} does not exist: there are {rows} rows, the first is 0, the last {}",
            rows.saturating_sub(1)
        ));
    }
    Ok(value as u32)
}

type Classed = Vec<(u32, u32)>;

fn check_lengths(rows: &[u32], classes: &[u32]) -> Result<(), DataError> {
    match rows.len() == classes.len() {
        true => Ok(()),
        false => Err(DataError::Inconsistent(format!("{} rows with {} classes", rows.len(), classes.len()))),
    }
}

/// Validation rows out of the training rows.
fn hold_out(rest: Classed, mut test: Vec<u32>, share: f64, rng: &mut SplitMix64) -> Result<Splits, DataError> {
    let (rows, classes): (Vec<u32>, Vec<u32>) = rest.into_iter().unzip();
    let (rest, mut validation) = draw(&rows, &classes, share, "validation", rng)?;
    let mut train: Vec<u32> = rest.into_iter().map(|(row, _)| row).collect();
    if train.is_empty() {
        return Err(DataError::Split("no rows are left to train on".into()));
    }
    for rows in [&mut train, &mut validation, &mut test] {
        rows.sort_unstable();
    }
    Ok(Splits { train, validation, test })
}

/// Draws a share of each class, carrying fractions of rows from one class to the next; never the
/// last row of a class.
fn draw(
    rows: &[u32],
    classes: &[u32],
    share: f64,
    what: &str,
    rng: &mut SplitMix64,
) -> Result<(Classed, Vec<u32>), DataError> {
    if !(0.0..1.0).contains(&share) {
        return Err(DataError::Split(format!(
            "the {what} share {share} is not between 0 and 1; 0.1 keeps a tenth of the rows"
        )));
    }
    let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (row, class) in rows.iter().zip(classes) {
        groups.entry(*class).or_default().push(*row);
    }
    let (mut rest, mut drawn) = (Vec::new(), Vec::new());
    // Starting at half a row rounds; a positive share of a single class draws at least one row.
    let mut due = 0.5;
    for (class, mut group) in groups {
        rng.shuffle(&mut group);
        due += group.len() as f64 * share;
        let mut take = (due as usize).min(group.len() - 1);
        if share > 0.0 && take == 0 && drawn.is_empty() && group.len() > 1 {
            take = 1;
        }
        due -= take as f64;
        drawn.extend(group.drain(..take));
        rest.extend(group.into_iter().map(|row| (row, class)));
    }
    Ok((rest, drawn))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: SplitOptions = SplitOptions { validation: 0.2, test: 0.1, seed: 1 };

    fn all(splits: &Splits) -> Vec<u32> {
        let mut rows = [&splits.train[..], &splits.validation, &splits.test].concat();
        rows.sort();
        rows
    }

    #[test]
    fn random_parts_are_disjoint_and_sized() {
        let rows: Vec<u32> = (0..1000).collect();
        let splits = Splits::random(&rows, OPTIONS).unwrap();
        assert_eq!(all(&splits), rows);
        assert_eq!(splits.test.len(), 100);
        assert_eq!(splits.validation.len(), 180);
        assert_eq!(splits, Splits::random(&rows, OPTIONS).unwrap());
        let other = SplitOptions { seed: 2, ..OPTIONS };
        assert_ne!(splits, Splits::random(&rows, other).unwrap());
    }

    #[test]
    fn classes_keep_their_share_and_a_training_row() {
        let rows: Vec<u32> = (0..1000).collect();
        let classes: Vec<u32> = rows
            .iter()
            .map(|r| match r {
                0 => 7,
                1..=3 => 8,
                r => r % 2,
            })
            .collect();
        let splits = Splits::stratified(&rows, &classes, OPTIONS).unwrap();
        assert_eq!(all(&splits), rows);
        for class in [7, 8, 0, 1] {
            assert!(splits.train.iter().any(|r| classes[*r as usize] == class));
        }
        let odd = splits.test.iter().filter(|r| classes[**r as usize] == 1).count();
        assert!((49..=51).contains(&odd), "{odd}");
    }

    #[test]
    fn few_rows_still_train() {
        for n in 1..6u32 {
            let rows: Vec<u32> = (0..n).collect();
            let splits = Splits::random(&rows, OPTIONS).unwrap();
            assert!(!splits.train.is_empty());
            assert_eq!(all(&splits), rows);
        }
        assert!(Splits::random(&[], OPTIONS).is_err());
        let bad = SplitOptions { test: 1.0, ..OPTIONS };
        assert!(Splits::random(&[1, 2], bad).is_err());
        let bad = SplitOptions { test: f64::NAN, ..OPTIONS };
        assert!(Splits::random(&[1, 2], bad).is_err());
    }

    #[test]
    fn given_rows() {
        let splits = Splits::given(10, None, Some(vec![9, 0]), None, OPTIONS).unwrap();
        assert_eq!(splits.test, [0, 9]);
        assert_eq!(all(&splits), (0..10).collect::<Vec<_>>());
        let overlap = Splits::given(10, Some(vec![1, 2, 3]), Some(vec![3, 2]), None, OPTIONS);
        assert!(overlap.unwrap_err().to_string().contains("row 2 (and 1 more)"));
        assert!(Splits::given(10, Some(vec![10]), None, None, OPTIONS).is_err());
    }

    #[test]
    fn row_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.txt");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_row_file(&path, 20).map_err(|e| e.to_string())
        };
        assert_eq!(read("# rows\n0\n12.0\r\n1.900e+01\n\n").unwrap(), [0, 12, 19]);
        assert_eq!(read("1\n1\n").unwrap_err(), "rows.txt: line 2: row 1 was already in line 1");
        assert!(read("1\n20\n").unwrap_err().contains("line 2: row 20 does not exist"));
        assert!(read("-1\n").unwrap_err().contains("does not exist"));
        assert!(read("1.5\n").unwrap_err().contains("whole"));
        assert!(read("a\n").unwrap_err().contains("not a row number"));
        assert!(read("nan\n").is_err() && read("inf\n").is_err() && read("").is_err());
    }
}
