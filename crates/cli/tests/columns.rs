//! Columns of a table: dates become calendar features, identifiers are left out, `--drop` and `--only` choose.

mod common;

use common::Folder;
use serde_json::Value;

/// A shop's days: revenue has a season, a weekend and a little of `visitors`; `order_id` counts, `note` is always another.
fn shop(days: usize) -> String {
    let mut text = String::from("order_id,date,visitors,note,revenue\n");
    for day in 0..days {
        let (month, dom) = ((day % 360) / 30 + 1, day % 30 + 1);
        // every month has 30 days here, but February's last two are March's
        let date = match (month, dom) {
            (2, 29..) => format!("{}-03-31", 2022 + day / 360),
            _ => format!("{}-{month:02}-{dom:02}", 2022 + day / 360),
        };
        let visitors = (day * 7919) % 101;
        let season = 50.0 * (std::f64::consts::TAU * (day % 360) as f64 / 360.0).sin();
        let scattered = (day * 7919) % 10_007;
        text += &format!(
            "{},{date},{visitors},n{day}x,{:.2}\n",
            10_000 + scattered,
            200.0 + season + 0.1 * visitors as f64
        );
    }
    text
}

fn r2(folder: &Folder, words: &str) -> f64 {
    let report: Value = serde_json::from_str(folder.works(words).out.trim()).unwrap();
    report["test"]["r2"].as_f64().unwrap()
}

#[test]
fn dates_become_calendar_features() {
    let folder = Folder::new();
    folder.write("shop.csv", shop(1080));
    let said = folder.works("train shop.csv --epochs 40 --seed 1 --out run").out;
    assert!(said.contains("dates, taken as the time elapsed and the place in year, month, week: date"), "{said}");
    assert!(said.contains("an identifier of the rows by its name and values"), "{said}");
    assert!(said.contains("dates: 1"), "{said}");
    let with = r2(&folder, "train shop.csv --epochs 40 --seed 1 --json --out with");
    let without = r2(&folder, "train shop.csv --epochs 40 --seed 1 --json --out without --drop date");
    assert!(with > 0.97, "{with}");
    assert!(without < 0.3, "{without}");

    // new rows: other dates, a missing one, and one that is none
    folder.write("new.csv", "date,visitors\n2025-01-15,50\n,50\n2025-07-15,50\n");
    let answers = folder.works("predict run new.csv").out;
    let values: Vec<f64> = answers.lines().skip(1).map(|line| line.parse().unwrap()).collect();
    assert!(values.len() == 3 && values[0] > values[2] && values.iter().all(|value| value.is_finite()), "{answers}");
    folder.write("bad.csv", "date,visitors\n2025-01-15,50\n15 o'clock,50\n");
    let said = folder.fails(1, "predict run bad.csv");
    assert!(said.contains("row 2") && said.contains("\"15 o'clock\" is not a date"), "{said}");
    let ran = folder.works("predict run bad.csv --on-error skip");
    assert_eq!((ran.out.lines().count(), ran.out.lines().nth(2)), (3, Some("")), "{}", ran.out);
}

#[test]
fn dates_may_stay_labels() {
    let folder = Folder::new();
    folder.write("shop.csv", shop(90));
    folder.write("run.toml", "source = \"shop.csv\"\nepochs = 1\n[prepare]\ndates = \"labels\"\n");
    let said = folder.works("train --config run.toml --out run").out;
    assert!(!said.contains("dates, taken"), "{said}");
}

#[test]
fn columns_are_left_out_and_chosen() {
    let folder = Folder::new();
    folder.write("shop.csv", shop(200));
    let said = folder.works("train shop.csv --drop note,date --epochs 1 --out a").out;
    assert!(said.contains("left out, as given: date, note"), "{said}");
    // what is named is kept, an identifier too
    let said = folder.works("train shop.csv --only order_id,visitors --epochs 1 --out b").out;
    assert!(said.contains("inputs     2  (numeric columns, standardised: 2)"), "{said}");
    folder.write("new.csv", "visitors,order_id\n50,7\n");
    folder.works("predict b new.csv");
    for (words, problem) in [
        ("--drop nothing", "no column \"nothing\""),
        ("--drop revenue", "column \"revenue\" is the target"),
        ("--drop note --only date", "give one of them"),
    ] {
        let said = folder.fails(1, &format!("train shop.csv {words} --epochs 1 --out c"));
        assert!(said.contains(problem), "{words}: {said}");
    }
    // packed, and in blocks
    folder.works("data pack shop.csv shop.citius --only visitors,date");
    folder.works("train shop.citius --epochs 1 --out d");
    folder.write("days.csv", "date,visitors\n2023-01-05,50\n");
    assert_eq!(folder.works("predict d days.csv").out.lines().count(), 2);
}

#[test]
fn a_streamed_table_has_the_same_columns() {
    let folder = Folder::new();
    folder.write("shop.csv", shop(20_000));
    let words = "train shop.csv --memory 300KB --epochs 1 --drop note";
    let said = folder.works(&format!("{words} --out run")).out;
    assert!(said.contains("dates, taken as the time elapsed") && said.contains("left out, as given: note"), "{said}");
    assert!(said.contains("training rows are read as they are needed"), "{said}");
}
