//! Inputs that are plain numbers of one column each, for those who encode without a table in between.

use super::feature::Encoding;
use super::logarithm::signed_log;
use super::scale::Scaling;
use super::used::FeatureColumn;
use super::{Preparation, columns};
use crate::dataset::Target;
use crate::error::DataError;
use crate::table::Table;

/// An input that is a number of one column, scaled; `NaN` is missing, which is 0 and marked in a second input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlainColumn {
    /// The column in the table.
    pub place: usize,
    scaling: Scaling,
    /// The logarithm is taken first.
    pub log: bool,
    /// There is a second input, 1 where missing.
    pub missing: bool,
}

impl PlainColumn {
    /// No scaled input goes beyond this.
    pub(crate) const LIMIT: f64 = Scaling::LIMIT;

    /// `(offset, unit)` of its scale.
    pub(crate) fn scale(&self) -> (f64, f64) {
        self.scaling.parts()
    }

    /// The input of a number, in the same steps as [`Encoding::write`].
    #[inline]
    pub(crate) fn input(&self, value: f64) -> f32 {
        self.scaling.apply(if self.log { signed_log(value) } else { value })
    }
}

impl Preparation {
    /// The columns of a table that make the inputs, in their order, and that of the target; `None` unless all inputs are plain numbers
    /// and nothing else is done to them.
    pub(crate) fn plain_columns(&self, table: &Table) -> Option<(Vec<PlainColumn>, usize)> {
        if self.projection.is_some() {
            return None;
        }
        let places = columns::find_features(self, table).ok()?;
        let plain = |(feature, place): (&FeatureColumn, usize)| match &feature.encoding {
            Encoding::Number { scaling, log, missing, fill }
                if *fill == 0.0 && !feature.refuse_missing && !feature.refuse_negative =>
            {
                Some(PlainColumn { place, scaling: scaling.clone(), log: *log, missing: *missing })
            }
            _ => None,
        };
        let inputs = self.features.iter().zip(places).map(plain).collect::<Option<_>>()?;
        Some((inputs, self.target_column(table).ok()?))
    }

    /// The target of all rows of a table that holds nothing else.
    pub(crate) fn encode_target(&self, table: &Table) -> Result<Target, DataError> {
        let rows: Vec<u32> = (0..table.rows as u32).collect();
        self.target.encode(table, 0, &rows)
    }
}
