//! The inspection as a page of text, 100 characters wide.

use std::fmt;

use super::Inspection;
use super::column::{ColumnSummary, Label};
use super::figures::{bar, count, cut, histogram, number, percent, plural};
use super::relations::{Measure, Relation};
use crate::escape::Escaped;

const WIDTH: usize = 100;
/// Columns and classes shown; the rest is counted.
const MOST_COLUMNS: usize = 40;
const MOST_CLASSES: usize = 20;

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.target.as_ref().map_or(String::new(), |name| format!(", target {}", cut(name, 40)));
        let part = match self.rows_read < self.rows {
            true => format!(" ({} read, evenly spread)", count(self.rows_read)),
            false => String::new(),
        };
        let columns = self.schema.as_ref().map_or_else(|| plural(self.columns.len(), "column"), |s| cut(s, 200));
        let rows = plural(self.rows, self.unit);
        write_wrapped(f, "", &format!("{}: {rows}{part}, {columns}{target}", cut(&self.name, 60)))?;
        let (numbers, labels): (Vec<_>, Vec<_>) = self.columns.iter().partition(|column| column.numbers.is_some());
        write_numbers(f, &numbers)?;
        write_labels(f, &labels)?;
        write_classes(f, self)?;
        let note = self.relations_note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
        if !self.with_target.is_empty() {
            let heading = format!("goes with {}{note}", cut(self.target.as_deref().unwrap_or("the target"), 40));
            write_relations(f, &heading, &self.with_target, false)?;
        }
        if !self.between.is_empty() {
            write_relations(f, &format!("columns that go together{note}"), &self.between, true)?;
        }
        if !self.warnings.is_empty() {
            writeln!(f, "\nworth a look")?;
            self.warnings.iter().try_for_each(|warning| write_wrapped(f, "  - ", warning))?;
        }
        Ok(())
    }
}

fn write_numbers(f: &mut fmt::Formatter<'_>, columns: &[&ColumnSummary]) -> fmt::Result {
    if columns.is_empty() {
        return Ok(());
    }
    let heads = ["numbers", "missing", "min", "median", "mean", "max", "deviation", "distinct", "min … max"];
    let mut lines = vec![heads.map(str::to_owned)];
    for column in columns.iter().take(MOST_COLUMNS) {
        let Some(n) = &column.numbers else { continue };
        lines.push([
            column.name.escaped(),
            missing(column),
            number(n.min),
            number(n.median),
            number(n.mean),
            number(n.max),
            number(n.deviation),
            column.distinct.map_or_else(|| "–".to_owned(), count),
            histogram(&n.histogram),
        ]);
    }
    write_grid(f, &lines)?;
    write_rest(f, columns.len(), MOST_COLUMNS, "columns of numbers")
}

fn write_labels(f: &mut fmt::Formatter<'_>, columns: &[&ColumnSummary]) -> fmt::Result {
    if columns.is_empty() {
        return Ok(());
    }
    let mut lines = vec![["text", "missing", "distinct", "most frequent"].map(str::to_owned)];
    for column in columns.iter().take(MOST_COLUMNS) {
        let kind = if column.kind == "text" { String::new() } else { format!(" ({})", column.kind) };
        let name = format!("{}{kind}", column.name.escaped());
        let distinct = column.distinct.map_or_else(|| "–".to_owned(), count);
        lines.push([name, missing(column), distinct, String::new()]);
    }
    let used: usize = (1..3).map(|cell| width(&lines, cell)).sum();
    let name_width = width(&lines, 0).min(30);
    for (line, column) in lines[1..].iter_mut().zip(columns) {
        line[3] = top_labels(column, WIDTH.saturating_sub(name_width + used + 6));
    }
    write_grid(f, &lines)?;
    write_rest(f, columns.len(), MOST_COLUMNS, "columns of text")
}

/// As many of the most frequent labels as there is room for.
fn top_labels(column: &ColumnSummary, room: usize) -> String {
    let distinct = column.distinct.unwrap_or(0);
    // Names of rows have no frequent ones: an example says more.
    if column.labels.first().is_some_and(|label| label.rows == 1) {
        return cut(&format!("each in one row, such as {}", column.labels[0].label), room);
    }
    let mut text = String::new();
    for (shown, label) in column.labels.iter().enumerate() {
        let next = format!("{}{} {}", if shown > 0 { ", " } else { "" }, cut(&label.label, 24), percent(label.share));
        let more = distinct - shown - 1;
        let reserve = if more > 0 { format!(" and {} more", count(more)).chars().count() } else { 0 };
        if text.chars().count() + next.chars().count() + reserve > room && shown > 0 {
            return format!("{text} and {} more", count(distinct - shown));
        }
        text += &next;
    }
    match distinct.saturating_sub(column.labels.len()) {
        0 => text,
        more => format!("{text} and {} more", count(more)),
    }
}

fn write_classes(f: &mut fmt::Formatter<'_>, inspection: &Inspection) -> fmt::Result {
    let classes = &inspection.classes;
    if classes.is_empty() {
        return Ok(());
    }
    match &inspection.target {
        Some(name) => writeln!(f, "\nclasses of {}", cut(name, 40))?,
        None => writeln!(f, "\nclasses")?,
    }
    let largest = classes.iter().map(|class| class.rows).max().unwrap_or(1).max(1);
    let longest = |text: fn(&Label) -> String| {
        classes.iter().take(MOST_CLASSES).map(|class| text(class).chars().count()).max().unwrap_or(0)
    };
    let (names, rows) = (longest(|class| cut(&class.label, 30)), longest(|class| count(class.rows)));
    for class in classes.iter().take(MOST_CLASSES) {
        let drawn = bar(class.rows as f64 / largest as f64, 40);
        let (label, share) = (cut(&class.label, 30), percent(class.share));
        writeln!(f, "  {label:names$}  {:>rows$}  {share:>5}  {drawn}", count(class.rows))?;
    }
    write_rest(f, classes.len(), MOST_CLASSES, "classes")
}

fn write_relations(f: &mut fmt::Formatter<'_>, heading: &str, relations: &[Relation], pairs: bool) -> fmt::Result {
    writeln!(f, "\n{heading}")?;
    let name = |relation: &Relation| match pairs {
        true => format!("{} – {}", cut(&relation.a, 30), cut(&relation.b, 30)),
        false => cut(&relation.a, 40),
    };
    let names = relations.iter().map(|relation| name(relation).chars().count()).max().unwrap_or(0);
    for relation in relations {
        let drawn = bar(relation.value.abs(), 20);
        let why = match relation.measure {
            Measure::Correlation => "",
            Measure::CorrelationRatio => "(correlation ratio)",
            Measure::CramersV => "(Cramér's V)",
        };
        let line = format!("  {:names$}  {:>6.3}  {drawn:20}  {why}", name(relation), relation.value);
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

/// `207 (1.0%)`, or nothing much.
fn missing(column: &ColumnSummary) -> String {
    match column.missing {
        0 => "0".to_owned(),
        missing => format!("{} ({})", count(missing), percent(column.missing_share)),
    }
}

/// Cells under their heads: the first and the last to the left, the others to the right; the first gives way.
fn write_grid<const N: usize>(f: &mut fmt::Formatter<'_>, lines: &[[String; N]]) -> fmt::Result {
    let mut widths: [usize; N] = std::array::from_fn(|cell| width(lines, cell));
    let rest: usize = widths[1..].iter().sum::<usize>() + 2 * (N - 1);
    widths[0] = widths[0].min(30).min(WIDTH.saturating_sub(rest).max(12));
    writeln!(f)?;
    for line in lines {
        let mut text = format!("{:1$}", cut(&line[0], widths[0]), widths[0]);
        for cell in 1..N {
            match cell == N - 1 {
                true => text += &format!("  {}", line[cell]),
                false => text += &format!("  {:>1$}", line[cell], widths[cell]),
            }
        }
        writeln!(f, "{}", text.trim_end())?;
    }
    Ok(())
}

fn width<const N: usize>(lines: &[[String; N]], cell: usize) -> usize {
    lines.iter().map(|line| line[cell].chars().count()).max().unwrap_or(0)
}

fn write_rest(f: &mut fmt::Formatter<'_>, all: usize, shown: usize, what: &str) -> fmt::Result {
    match all.saturating_sub(shown) {
        0 => Ok(()),
        more => writeln!(f, "… and {} more {what}, not shown here", count(more)),
    }
}

/// A line broken between words, the later ones as far in as the mark of the first.
fn write_wrapped(f: &mut fmt::Formatter<'_>, mark: &str, text: &str) -> fmt::Result {
    let mut line = mark.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(f, "{line}")?;
            line = " ".repeat(mark.len());
            empty = true;
        }
        line += if empty { "" } else { " " };
        line += word;
        empty = false;
    }
    writeln!(f, "{line}")
}
