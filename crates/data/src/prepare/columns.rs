//! The columns a preparation needs, found in a new table: by name where both have headers, else by
//! position, where the target may be left out.

use super::Preparation;
use crate::error::DataError;
use crate::suggest;
use crate::table::Table;

/// The place of each feature column.
pub(super) fn find_features(preparation: &Preparation, table: &Table) -> Result<Vec<usize>, DataError> {
    let target = preparation.target.index();
    if !(preparation.header && table.header) {
        let shifted = position_shift(preparation, table)?;
        let place = |index: usize| match shifted && index > target {
            true => index - 1,
            false => index,
        };
        let places = preparation.features.iter().map(|f| place(f.index));
        return places.map(|at| checked(table, at)).collect();
    }
    let mut places = Vec::new();
    let mut missing = Vec::new();
    for feature in &preparation.features {
        match table.names().position(|name| name == feature.name) {
            Some(place) => places.push(place),
            None => missing.push(feature.name.as_str()),
        }
    }
    match missing.is_empty() {
        true => Ok(places),
        false => Err(missing_columns(table, &missing)),
    }
}

/// The place of the target column.
pub(super) fn find_target(preparation: &Preparation, table: &Table) -> Result<usize, DataError> {
    let name = preparation.target.name();
    if preparation.header && table.header {
        return table.names().position(|column| column == name).ok_or_else(|| missing_columns(table, &[name]));
    }
    match position_shift(preparation, table)? {
        false => checked(table, preparation.target.index()),
        true => Err(DataError::MissingColumns {
            file: table.name.clone(),
            missing: format!("a target, column {}", preparation.target.index()),
            columns: format!("{} columns, one less than in training", table.columns.len()),
        }),
    }
}

/// Whether columns after the target are one place earlier, the target being left out.
fn position_shift(preparation: &Preparation, table: &Table) -> Result<bool, DataError> {
    let trained = preparation.table_columns;
    match table.columns.len() {
        count if count == trained => Ok(false),
        count if count + 1 == trained => Ok(true),
        count => Err(DataError::MissingColumns {
            file: table.name.clone(),
            missing: format!("its {trained} columns, the target may be left out"),
            columns: format!("{count}, and without a header they are told by position"),
        }),
    }
}

/// The place, if the table has it: a preparation read from a damaged model may ask for any.
fn checked(table: &Table, place: usize) -> Result<usize, DataError> {
    match place < table.columns.len() {
        true => Ok(place),
        false => Err(missing_columns(table, &[&place.to_string()])),
    }
}

fn missing_columns(table: &Table, missing: &[&str]) -> DataError {
    let described: Vec<String> = missing
        .iter()
        .take(10)
        .map(|name| match suggest::nearest(name, table.names()) {
            Some(near) => format!("column {name:?} (is it {near:?}?)"),
            None => format!("column {name:?}"),
        })
        .collect();
    let more = match missing.len().saturating_sub(10) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    DataError::MissingColumns {
        file: table.name.clone(),
        missing: format!("{}{more}", described.join(", ")),
        columns: suggest::list(table.names(), 30),
    }
}
