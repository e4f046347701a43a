//! How the columns of a series are scaled, kept with a model so that its predictions can be scaled back.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::table::{Table, Values};

/// How columns were scaled: value = number · deviation + mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesScale {
    pub columns: Vec<ColumnScale>,
    pub targets: Vec<ColumnScale>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnScale {
    pub name: String,
    pub mean: f64,
    /// 1 where all values are alike.
    pub deviation: f64,
}

impl SeriesScale {
    /// Mean and deviation of each column over some rows, all if `None`; missing values do not count.
    pub(super) fn fit(
        table: &Table,
        columns: &[usize],
        targets: &[usize],
        rows: Option<Range<usize>>,
    ) -> Result<SeriesScale, DataError> {
        let rows = rows.unwrap_or(0..table.rows);
        if rows.is_empty() || rows.end > table.rows {
            return Err(DataError::Split(format!(
                "{}: rows {} to {} to take the scale from are not within its {} rows",
                table.name, rows.start, rows.end, table.rows
            )));
        }
        let fit = |column: &usize| ColumnScale::fit(table, *column, rows.clone());
        Ok(SeriesScale { columns: columns.iter().map(fit).collect(), targets: targets.iter().map(fit).collect() })
    }

    /// Itself, if it is about these columns.
    pub(super) fn of(self, table: &Table, columns: &[usize], targets: &[usize]) -> Result<SeriesScale, DataError> {
        for (columns, scales) in [(columns, &self.columns), (targets, &self.targets)] {
            let names = || columns.iter().map(|column| table.columns[*column].name.as_str());
            let wanted: Vec<&str> = scales.iter().map(|scale| scale.name.as_str()).collect();
            if !names().eq(wanted.iter().copied()) {
                return Err(DataError::MissingColumns {
                    file: table.name.clone(),
                    missing: format!("the columns {}, in this order", wanted.join(", ")),
                    columns: names().collect::<Vec<_>>().join(", "),
                });
            }
        }
        Ok(self)
    }

    /// Predictions, `[…, targets]`, in the units of the table.
    pub fn restore(&self, predicted: &mut [f32]) {
        for row in predicted.chunks_mut(self.targets.len().max(1)) {
            for (value, scale) in row.iter_mut().zip(&self.targets) {
                *value = (*value as f64 * scale.deviation + scale.mean) as f32;
            }
        }
    }
}

impl ColumnScale {
    fn fit(table: &Table, column: usize, rows: Range<usize>) -> ColumnScale {
        let column = &table.columns[column];
        let values = match &column.values {
            Values::Number(values) => &values[rows],
            Values::Text { .. } => &[],
        };
        let known = values.iter().copied().filter(|value| value.is_finite());
        // in units of the largest value squares neither overflow nor vanish
        let largest = known.clone().fold(0.0, |most: f64, value| most.max(value.abs()));
        let unit = if largest > 0.0 { largest } else { 1.0 };
        let count = known.clone().count().max(1) as f64;
        let mean = known.clone().map(|value| value / unit).sum::<f64>() / count;
        let variance = known.map(|value| (value / unit - mean).powi(2)).sum::<f64>() / count;
        let deviation = variance.sqrt() * unit;
        // what is left of equal values is the rounding of their mean
        let alike = variance.sqrt() <= 1e-12 || deviation < f64::MIN_POSITIVE;
        ColumnScale { name: column.name.clone(), mean: mean * unit, deviation: if alike { 1.0 } else { deviation } }
    }
}
