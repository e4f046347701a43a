//! What to look at before training, in plain words; one line for each kind of thing.

use std::collections::HashMap;

use super::column::{ColumnSummary, Facts};
use super::figures::{count, cut, number, percent, plural};
use super::{Inspection, Label};
use crate::prepare::identifier::{RowNumber, labels_identify};
use crate::suggest;

/// Columns named in one line.
const MOST_NAMED: usize = 8;
/// A share of missing cells above which a column says little.
const MUCH_MISSING: f64 = 0.3;
/// Numbers people write for "missing".
const CODES: [f64; 10] = [-99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0, 9999999.0];
/// Rows below which a class can hardly be learned.
const FEW_ROWS: usize = 10;
/// Rows of the largest class for one of the smallest.
const IMBALANCE: usize = 10;
/// Above this the target is nearly given away.
const LEAK: f64 = 0.99;

pub(super) fn of_table(inspection: &Inspection, facts: &[Facts], target: Option<usize>) -> Vec<String> {
    let rows = inspection.rows;
    let columns: Vec<(&ColumnSummary, &Facts)> = inspection.columns.iter().zip(facts).collect();
    let named = |what: &str, names: Vec<String>| {
        let list = suggest::list(names.iter().map(String::as_str), MOST_NAMED);
        (!names.is_empty()).then(|| format!("{what}: {list}"))
    };
    let those = |holds: &dyn Fn(&ColumnSummary, &Facts) -> Option<String>| -> Vec<String> {
        columns.iter().filter_map(|(column, facts)| holds(column, facts)).collect()
    };
    let name = |column: &ColumnSummary| cut(&column.name, 30);
    let distinct = |column: &ColumnSummary| column.distinct.unwrap_or(0);
    let constant = |column: &ColumnSummary| distinct(column) == 1;

    let mut warnings = Vec::new();
    if rows < 2 {
        warnings.push(format!("{} cannot be learned from", if rows == 0 { "no rows" } else { "a single row" }));
    }
    if let Some(target) = target.map(|target| &inspection.columns[target])
        && target.missing > 0
    {
        let share = percent(target.missing_share);
        warnings.push(format!("the target is missing in {} ({share})", plural(target.missing, "row")));
    }
    let leaks = inspection.with_target.iter().filter(|relation| relation.value.abs() > LEAK);
    let leaks = leaks.map(|relation| format!("{} ({:.4})", cut(&relation.a, 30), relation.value)).collect();
    warnings.extend(named("nearly the target itself; leave it out (--drop) unless it is known beforehand", leaks));
    warnings.extend(of_classes(&inspection.classes));
    if inspection.repeated_rows > 0 {
        let share = inspection.repeated_rows as f64 / rows.max(1) as f64;
        let repeated = plural(inspection.repeated_rows, "row");
        warnings.push(format!(
            "{repeated} ({}) that repeat an earlier one; a split may put the same row on both sides",
            percent(share)
        ));
    }
    warnings.extend(named("no value in any row", those(&|c, _| (rows > 0 && c.missing == rows).then(|| name(c)))));
    if rows > 1 {
        warnings.extend(named("one value only, nothing to learn from", those(&|c, _| constant(c).then(|| name(c)))));
    }
    let gaps = those(&|c, _| {
        let much = c.missing_share > MUCH_MISSING && c.missing < rows;
        much.then(|| format!("{} ({})", name(c), percent(c.missing_share)))
    });
    warnings.extend(named("more than 30% missing", gaps));
    warnings.extend(named("same values as an earlier column", twins(&columns)));
    let codes = those(&|c, f| missing_code(c, f, rows));
    warnings.extend(named("far from the rest, perhaps a code for missing (--missing) or a limit", codes));
    let capped = those(&|c, f| capped(c, f, rows).filter(|_| missing_code(c, f, rows).is_none()));
    warnings.extend(named("many rows at the very end of the range, perhaps cut off there", capped));
    let ids = those(&|c, f| (c.kind != "date" && is_identifier(c, f, rows)).then(|| name(c)));
    warnings.extend(named("identifiers of the rows, or free text: nearly every value is different", ids));
    let counters = those(&|c, f| (f.row_number == Some(RowNumber::Counter)).then(|| name(c)));
    warnings.extend(named("counts the rows; leave it out (--drop) if it is an identifier", counters));
    let times = those(&|c, f| (c.kind == "date" && f.rising).then(|| name(c)));
    warnings.extend(named("rows are in order of time: split them by time, not at random", times));
    let texts = those(&|c, f| (f.mostly_numbers && distinct(c) > 2).then(|| name(c)));
    warnings.extend(named("read as text though most values are numbers; name what stands for missing", texts));
    warnings
}

/// Few rows, or far fewer than others.
pub(super) fn of_classes(classes: &[Label]) -> Vec<String> {
    let mut warnings = Vec::new();
    let few: Vec<String> = classes
        .iter()
        .filter(|class| class.rows < FEW_ROWS)
        .map(|class| format!("{} ({})", cut(&class.label, 30), class.rows))
        .collect();
    if !few.is_empty() {
        let list = suggest::list(few.iter().map(String::as_str), MOST_NAMED);
        warnings.push(format!("classes of fewer than {FEW_ROWS} rows, hardly learnable: {list}"));
    }
    let smallest = classes.iter().map(|class| class.rows).filter(|rows| *rows > 0).min().unwrap_or(1);
    let largest = classes.iter().map(|class| class.rows).max().unwrap_or(0);
    if largest > IMBALANCE * smallest {
        warnings.push(format!(
            "classes differ {} : 1 in rows; accuracy will flatter, look at each class",
            count(largest / smallest)
        ));
    }
    warnings
}

/// Later columns equal to an earlier one, unless all are constant anyway.
fn twins(columns: &[(&ColumnSummary, &Facts)]) -> Vec<String> {
    let mut first: HashMap<u64, &str> = HashMap::new();
    let mut twins = Vec::new();
    for (column, facts) in columns.iter().filter(|(column, _)| column.distinct.unwrap_or(0) > 1) {
        match first.get(&facts.hash) {
            Some(earlier) => twins.push(format!("{} (as {})", cut(&column.name, 30), cut(earlier, 30))),
            None => {
                first.insert(facts.hash, &column.name);
            }
        }
    }
    twins
}

/// The smallest or largest number, if it is of the kind people write for "missing", repeated, and away from the rest.
fn missing_code(column: &ColumnSummary, facts: &Facts, rows: usize) -> Option<String> {
    let end = facts.ends.iter().find(|end| {
        let often = end.rows >= 2 && end.rows * 1000 >= rows;
        let away = end.gap > end.rest * 0.5 && end.rest > 0.0;
        CODES.contains(&end.value) && often && away
    })?;
    Some(format!("{} ({} in {})", cut(&column.name, 30), number(end.value), plural(end.rows, "row")))
}

/// The smallest or largest of many numbers, if it stands for far more rows than others do.
fn capped(column: &ColumnSummary, facts: &Facts, rows: usize) -> Option<String> {
    let distinct = column.distinct.unwrap_or(0);
    let numbers = column.numbers.as_ref()?;
    let end = facts.ends.iter().find(|end| {
        let usual = rows / distinct.max(1);
        // Zero is where many quantities begin.
        distinct > 20 && end.value != 0.0 && end.rows * 100 > rows && end.rows > 10 * usual.max(1)
    })?;
    let side = if end.value == numbers.max { "largest" } else { "smallest" };
    let share = percent(end.rows as f64 / rows.max(1) as f64);
    Some(format!("{} ({side}, {}, in {share})", cut(&column.name, 30), number(end.value)))
}

/// Text that differs in nearly every row and is no free text, or numbers that name the rows; training leaves them out.
fn is_identifier(column: &ColumnSummary, facts: &Facts, rows: usize) -> bool {
    let present = rows - column.missing.min(rows);
    let text = column.numbers.is_none() && labels_identify(column.distinct.unwrap_or(0), present);
    (text && !facts.free_text) || facts.row_number == Some(RowNumber::Identifier)
}
