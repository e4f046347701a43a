//! Whole inspections of small and odd tables and sources.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::dataset::{Dataset, Features, Target};
use crate::schema::{Field, Kind, Schema};
use crate::slot::FieldMut;
use crate::source::{InMemory, Rows, Source};
use crate::table::{ReadOptions, Values};

fn read(text: &str) -> Table {
    Table::from_bytes("t.csv", text.as_bytes(), &ReadOptions::default()).unwrap()
}

fn inspect(text: &str, target: Option<&str>) -> Inspection {
    let read = read(text);
    let target = target.map(|name| read.column(name).unwrap());
    table(&read, target).unwrap()
}

fn warned(inspection: &Inspection, words: &str) {
    let found = inspection.warnings.iter().any(|warning| warning.contains(words));
    assert!(found, "{words:?} not in {:#?}", inspection.warnings);
}

fn of_numbers(columns: Vec<Vec<f64>>) -> Table {
    let rows = columns.first().map_or(0, Vec::len);
    let column =
        |(index, values): (usize, Vec<f64>)| Column { name: index.to_string(), values: Values::Number(values) };
    Table {
        name: "n".into(),
        rows,
        columns: columns.into_iter().enumerate().map(column).collect(),
        header: false,
        reading: Default::default(),
    }
}

/// No line is too wide, and the page can be stored.
fn page(inspection: &Inspection) -> String {
    let text = inspection.to_string();
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{} characters: {line}", line.chars().count());
    }
    serde_json::to_string(inspection).unwrap();
    text
}

#[test]
fn a_page() {
    let mut text = String::from("id,when,size,twin,place,kind,gone,same,level,y\n");
    for i in 0..200 {
        let size = if i % 20 == 0 { -999 } else { i * i % 97 };
        let gone = if i % 2 == 0 { String::new() } else { (i % 7).to_string() };
        let place = ["north", "south", "west"][i as usize % 3];
        let kind = if i < 5 { "rare" } else { "usual" };
        text += &format!(
            "{i},2020-01-{:02} {:02}:00,{size},{size},{place},{kind},{gone},7,{},{}\n",
            i / 24 + 1,
            i % 24,
            3 * i,
            2 * i
        );
    }
    let seen = inspect(&text, Some("y"));
    let page = page(&seen);
    assert!(page.starts_with("t.csv: 200 rows, 10 columns, target y\n"), "{page}");
    assert!(page.contains("north 34%, south 34%, west 33%"), "{page}");
    warned(
        &seen,
        "nearly the target itself; leave it out (--drop) unless it is known beforehand: id (1.0000), level (1.0000)",
    );
    warned(&seen, "one value only, nothing to learn from: same");
    warned(&seen, "more than 30% missing: gone (50%)");
    warned(&seen, "same values as an earlier column: twin (as size)");
    warned(&seen, "perhaps a code for missing (--missing) or a limit: size (-999 in 10 rows)");
    warned(&seen, "identifiers of the rows, or free text: nearly every value is different: id");
    warned(&seen, "in order of time: split them by time, not at random: when");
    assert_eq!(seen.columns[1].kind, "date");
    assert_eq!(seen.repeated_rows, 0);

    let seen = inspect(&text, Some("kind"));
    warned(&seen, "classes of fewer than 10 rows, hardly learnable: rare (5)");
    warned(&seen, "classes differ 39 : 1");
    assert_eq!(seen.classes.iter().map(|class| class.rows).collect::<Vec<_>>(), [5, 195]);
    assert!(self::page(&seen).contains("classes of kind"));
}

#[test]
fn repeated_rows_and_missing_targets() {
    let seen = inspect("a,b,y\n1,x,1\n1,x,1\n2,x,\n1,y,1\n1,x,1\n3,,4\n3,,4\n", Some("y"));
    assert_eq!(seen.repeated_rows, 3);
    warned(&seen, "3 rows (43%) that repeat an earlier one");
    warned(&seen, "the target is missing in 1 row (14%)");
}

#[test]
fn relations_of_every_kind() {
    let mut text = String::from("group,half,x,other,y\n");
    for i in 0..300 {
        let group = ["a", "b", "c"][i % 3];
        let half = if i % 3 == 2 { "yes" } else { "no" };
        let x = (i % 3 * 10 + i * 7 % 5) as f64;
        text += &format!("{group},{half},{x},{},{}\n", i * 7919 % 101, i % 3 * 100 + i * 31 % 40);
    }
    let seen = inspect(&text, Some("y"));
    let found = |name: &str| seen.with_target.iter().find(|r| r.a == name).map(|r| (r.measure, r.value.abs()));
    assert!(matches!(found("group"), Some((Measure::CorrelationRatio, value)) if value > 0.95));
    assert!(matches!(found("x"), Some((Measure::Correlation, value)) if value > 0.95));
    assert!(matches!(found("half"), Some((Measure::Correlation, value)) if value > 0.8));
    assert!(matches!(found("other"), Some((_, value)) if value < 0.2));
    assert_eq!((seen.between[0].a.as_str(), seen.between[0].b.as_str()), ("half", "x"));
    let seen = inspect(&text, Some("group"));
    assert!(seen.with_target.iter().any(|r| r.a == "y" && r.measure == Measure::CorrelationRatio));
    page(&seen);
}

#[test]
fn odd_tables() {
    let nan = f64::NAN;
    for columns in [
        vec![],
        vec![vec![]],
        vec![vec![1.0]],
        vec![vec![nan]],
        vec![vec![nan; 5], vec![nan; 5]],
        vec![vec![f64::MIN, f64::MAX, nan], vec![f64::MAX, f64::MIN, 0.0]],
        vec![vec![1.0, 2.0, 3.0]; 2000],
    ] {
        let odd = of_numbers(columns);
        for target in std::iter::once(None).chain((0..odd.columns.len().min(2)).map(Some)) {
            let seen = table(&odd, target).unwrap();
            assert!(page(&seen).lines().count() < 150);
        }
    }
    let seen = table(&of_numbers(vec![vec![1.0, 2.0, 3.0]; 2000]), Some(0)).unwrap();
    assert!(seen.to_string().contains("… and 1,960 more columns of numbers, not shown here"));
    assert!(seen.relations_note.unwrap().contains("the first 64 of 2,000 columns"));
    assert!(table(&of_numbers(vec![]), Some(0)).is_err());
    let mut broken = of_numbers(vec![vec![1.0]]);
    broken.rows = 2;
    assert!(table(&broken, None).is_err());
}

#[test]
fn long_names_and_labels_stay_on_the_page() {
    let long = "x".repeat(300);
    let text = format!("{long},b{long}\n1,{long}a\n2,{long}b\n3,{long}c\n3,{long}c\n");
    page(&inspect(&text, Some("1")));
    page(&inspect(&text, Some("0")));
}

#[test]
fn a_large_table_is_sampled_and_says_so() {
    let rows = 50_000;
    let seen = table(&of_numbers(vec![(0..rows).map(|i| (i % 977) as f64).collect(); 2]), None).unwrap();
    assert_eq!(seen.relations_note.as_deref(), Some("from 20,000 of 50,000 rows, evenly spread"));
    assert_eq!(seen.between[0].value, 1.0);
    assert_eq!(seen.repeated_rows, rows - 977);
}

/// Two channels of 2 × 2: the row number, and 100; one value in row 3 is not a number.
struct Pictures(Schema);

impl Source for Pictures {
    fn name(&self) -> &str {
        "pictures"
    }
    fn schema(&self) -> &Schema {
        &self.0
    }
    fn rows(&self) -> u32 {
        40
    }
    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        let [FieldMut::F32(x), FieldMut::I32(y)] = into else { panic!() };
        for (place, row) in rows.numbers.iter().enumerate() {
            x[place * 8..][..4].fill(*row as f32);
            x[place * 8 + 4..][..4].fill(100.0);
            if *row == 3 {
                x[place * 8] = f32::NAN;
            }
            y[place] = (*row == 0) as i32;
        }
        Ok(())
    }
}

#[test]
fn channels_and_classes_of_a_source() {
    let fields = vec![
        Field::new("x", Kind::F32, &[2, 2, 2]),
        Field::classes("y", vec!["usual".into(), "rare".into(), "never".into()]),
    ];
    let pictures = Pictures(Schema::new(fields).unwrap());
    let seen = source(&pictures, 1000).unwrap();
    let channel = |index: usize| seen.columns[index].numbers.clone().unwrap();
    assert_eq!(seen.columns[1].name, "x f32[2, 2, 2] channel 1");
    assert_eq!((channel(0).min, channel(0).max, channel(1).mean, channel(1).deviation), (0.0, 39.0, 100.0, 0.0));
    // (4 · Σ 0..39 − 3) / 159
    assert!((channel(0).mean - 3117.0 / 159.0).abs() < 1e-9);
    assert_eq!(seen.columns[0].missing, 1);
    assert_eq!(seen.classes.iter().map(|class| class.rows).collect::<Vec<_>>(), [39, 1, 0]);
    warned(&seen, "1 values are not a number");
    warned(&seen, "x: 4 of 8 places never vary");
    warned(&seen, "never (0)");
    assert!(page(&seen).contains("classes of y"));
    let some = source(&pictures, 10).unwrap();
    assert_eq!((some.rows, some.rows_read), (40, 10));
    assert!(page(&some).starts_with("pictures: 40 rows (10 read, evenly spread), x f32[2, 2, 2], y i32 (3 classes)"));
    page(&source(&pictures, 0).unwrap());
}

#[test]
fn bytes_and_repeats_of_a_source() {
    let features = Features::U8 { data: vec![0, 10, 0, 30, 0, 10], width: 2, scale: 1.0, shift: 0.0 };
    let data = Dataset::new(3, features, Target::Values { data: vec![1.0, 2.0, 1.0], width: 1 }).unwrap();
    let seen = source(&InMemory::new("d", Arc::new(data)).unwrap(), 100).unwrap();
    assert_eq!((seen.repeated_rows, seen.columns[0].distinct), (1, Some(3)));
    warned(&seen, "x: 1 of 2 places never vary");
    page(&seen);
}

proptest! {
    #[test]
    fn any_table_has_a_page(
        text in r#"([0-9.]{0,3}|[a-cé]|-999|NA|-1e308|1e308|2020-01-0[1-9]|,|\n){0,120}"#,
        target in 0..4usize,
    ) {
        if let Ok(read) = Table::from_bytes("t.csv", text.as_bytes(), &ReadOptions::default()) {
            page(&table(&read, (target < read.columns.len()).then_some(target)).unwrap());
        }
    }
}
