//! Which columns are left out, told by their raw values in the training rows.
//!
//! ```text
//! min-variance     numbers whose variance Σ(x−x̄)²/n is below it go
//! max-correlation  of two columns of numbers with |r| above it the later in the file goes
//! best             of what is left, as many as said stay: those that tell most about the target (`mutual.rs`)
//! ```

use serde::{Deserialize, Serialize};

use super::correlation::{Standardised, spread};
use super::moments::Moments;
use super::mutual;
use super::options::refused;
use crate::dataset::Target;
use crate::error::DataError;
use crate::suggest;
use crate::table::{Table, Values};

/// Rows from which correlations and information are taken.
const MOST_ROWS: usize = 20_000;

/// Which columns are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Select {
    /// Numeric columns with less variance go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_variance: Option<f64>,
    /// Of a pair of numeric columns with a larger |correlation| the later goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_correlation: Option<f64>,
    /// The number of columns that stay, by their mutual information with the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<usize>,
}

impl Select {
    pub(super) fn is_empty(&self) -> bool {
        *self == Select::default()
    }

    pub(super) fn check(&self, table: &Table) -> Result<(), DataError> {
        match *self {
            Select { min_variance: Some(least), .. } if !(least >= 0.0 && least.is_finite()) => {
                Err(refused(table, "select.min-variance", least.to_string(), "use a number that is not negative"))
            }
            Select { max_correlation: Some(most), .. } if !(most > 0.0 && most <= 1.0) => {
                Err(refused(table, "select.max-correlation", most.to_string(), "use a number above 0, at most 1"))
            }
            Select { best: Some(0), .. } => {
                Err(refused(table, "select.best", "no column would stay".to_owned(), "use 1 or more"))
            }
            _ => Ok(()),
        }
    }

    /// Those of `columns` that stay, in order; `target` is that of `rows`. What goes is noted.
    pub(super) fn apply(
        &self,
        table: &Table,
        mut columns: Vec<usize>,
        rows: &[u32],
        target: impl FnOnce(&[u32]) -> Result<Target, DataError>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<usize>, DataError> {
        let used: Vec<u32> = spread(rows.len(), MOST_ROWS).map(|at| rows[at]).collect();
        if let Some(least) = self.min_variance {
            columns = drop_flat(table, columns, rows, least, notes);
        }
        if let Some(most) = self.max_correlation {
            columns = drop_alike(table, columns, &used, most, notes);
        }
        if let Some(count) = self.best {
            columns = keep_best(table, columns, &used, &target(&used)?, count, notes)?;
        }
        if used.len() < rows.len() && (self.max_correlation.is_some() || self.best.is_some()) {
            notes.push(format!("columns selected by {} of {} training rows, evenly spread", used.len(), rows.len()));
        }
        Ok(columns)
    }
}

fn drop_flat(table: &Table, columns: Vec<usize>, rows: &[u32], least: f64, notes: &mut Vec<String>) -> Vec<usize> {
    let variance = |index: &usize| match &table.columns[*index].values {
        Values::Number(values) => Moments::of(rows.iter().map(|row| values[*row as usize])).std.powi(2),
        Values::Text { .. } => f64::INFINITY,
    };
    let (keep, drop): (Vec<usize>, Vec<usize>) = columns.into_iter().partition(|index| variance(index) >= least);
    if !drop.is_empty() {
        notes.push(format!("dropped, variance below {least}: {}", names(table, &drop)));
    }
    keep
}

fn drop_alike(table: &Table, columns: Vec<usize>, rows: &[u32], most: f64, notes: &mut Vec<String>) -> Vec<usize> {
    let mut keep: Vec<usize> = Vec::new();
    let mut kept: Vec<(usize, Standardised)> = Vec::new();
    let mut dropped: Vec<String> = Vec::new();
    for index in columns {
        let Values::Number(values) = &table.columns[index].values else {
            keep.push(index);
            continue;
        };
        let column = Standardised::of(rows.iter().map(|row| values[*row as usize]));
        let alike = |(_, earlier): &&(usize, Standardised)| column.with(earlier).is_some_and(|r| r.abs() > most);
        match kept.iter().find(alike) {
            Some((earlier, other)) => dropped.push(format!(
                "{} ({:.3} with {})",
                table.columns[index].name,
                column.with(other).unwrap_or(0.0),
                table.columns[*earlier].name
            )),
            None => {
                keep.push(index);
                kept.push((index, column));
            }
        }
    }
    if !dropped.is_empty() {
        let list = suggest::list(dropped.iter().map(String::as_str), 12);
        notes.push(format!("dropped, correlation above {most} with an earlier column: {list}"));
    }
    keep
}

fn keep_best(
    table: &Table,
    columns: Vec<usize>,
    rows: &[u32],
    target: &Target,
    count: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<usize>, DataError> {
    if count > columns.len() {
        let problem = format!("{count} of {} usable columns", columns.len());
        return Err(refused(table, "select.best", problem, &format!("use at most {}", columns.len())));
    }
    let target: Vec<u32> = match target {
        Target::Classes { data, .. } | Target::Sequence { data, .. } => {
            data.iter().map(|class| *class as u32).collect()
        }
        Target::Values { data, .. } => mutual::binned(&data.iter().map(|v| *v as f64).collect::<Vec<f64>>()),
    };
    let information = |index: usize| {
        let labels: Vec<u32> = match &table.columns[index].values {
            Values::Number(values) => {
                mutual::binned(&rows.iter().map(|row| values[*row as usize]).collect::<Vec<f64>>())
            }
            Values::Text { codes, .. } => rows.iter().map(|row| codes[*row as usize]).collect(),
        };
        mutual::information(&labels, &target)
    };
    let mut ranked: Vec<(usize, f64)> = columns.into_iter().map(|index| (index, information(index))).collect();
    // In doubt the earlier in the file.
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let (kept, dropped) = ranked.split_at(count);
    let told = |columns: &[(usize, f64)]| {
        let told: Vec<String> =
            columns.iter().map(|(index, nats)| format!("{} {nats:.3}", table.columns[*index].name)).collect();
        suggest::list(told.iter().map(String::as_str), 12)
    };
    notes.push(format!("kept, the {count} best by mutual information with the target (nats): {}", told(kept)));
    if !dropped.is_empty() {
        notes.push(format!("dropped, less mutual information with the target (nats): {}", told(dropped)));
    }
    let mut kept: Vec<usize> = kept.iter().map(|(index, _)| *index).collect();
    kept.sort_unstable();
    Ok(kept)
}

fn names(table: &Table, columns: &[usize]) -> String {
    suggest::list(columns.iter().map(|index| table.columns[*index].name.as_str()), 12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ReadOptions;

    fn sample() -> Table {
        let mut text = String::from("flat,a,twice,noise,group,y\n");
        for i in 0..200 {
            let noise = (i * 7919) % 101;
            let group = ["low", "high"][(i >= 100) as usize];
            text += &format!("{},{i},{},{noise},{group},{}\n", i % 2, -2 * i + 1, i / 50);
        }
        Table::from_bytes("t.csv", text.as_bytes(), &ReadOptions::default()).unwrap()
    }

    fn select(select: Select) -> Result<(Vec<usize>, Vec<String>), DataError> {
        let table = sample();
        select.check(&table)?;
        let rows: Vec<u32> = (0..200).collect();
        let target =
            |rows: &[u32]| Ok(Target::Classes { data: rows.iter().map(|row| *row as i32 / 50).collect(), classes: 4 });
        let mut notes = Vec::new();
        let kept = select.apply(&table, vec![0, 1, 2, 3, 4], &rows, target, &mut notes)?;
        Ok((kept, notes))
    }

    #[test]
    fn flat_columns_go() {
        let (kept, notes) = select(Select { min_variance: Some(0.3), ..Select::default() }).unwrap();
        assert_eq!((kept, notes), (vec![1, 2, 3, 4], vec!["dropped, variance below 0.3: flat".to_owned()]));
        assert_eq!(select(Select { min_variance: Some(0.25), ..Select::default() }).unwrap().0.len(), 5);
    }

    #[test]
    fn the_later_of_two_alike_goes() {
        let (kept, notes) = select(Select { max_correlation: Some(0.95), ..Select::default() }).unwrap();
        assert_eq!(kept, [0, 1, 3, 4]);
        assert_eq!(notes, ["dropped, correlation above 0.95 with an earlier column: twice (-1.000 with a)"]);
    }

    #[test]
    fn the_best_stay() {
        let (kept, notes) = select(Select { best: Some(3), ..Select::default() }).unwrap();
        assert_eq!(kept, [1, 2, 4]);
        // group tells which half: ln 2 of the ln 4 there are.
        assert!(notes[0].contains("group 0.693"), "{notes:?}");
        assert!(notes[1].contains("flat 0.000"), "{notes:?}");
    }

    #[test]
    fn impossible_wishes() {
        let message = |wish: Select| select(wish).unwrap_err().to_string();
        assert_eq!(
            message(Select { best: Some(6), ..Select::default() }),
            "t.csv: prepare.select.best: 6 of 5 usable columns; use at most 5"
        );
        assert!(message(Select { best: Some(0), ..Select::default() }).contains("1 or more"));
        assert!(message(Select { max_correlation: Some(0.0), ..Select::default() }).contains("above 0"));
        assert!(message(Select { min_variance: Some(f64::NAN), ..Select::default() }).contains("negative"));
    }
}
