//! Series that know time: rows sorted, the step detected, gaps said and filled, the times of predictions.

mod common;

use common::Folder;
use serde_json::Value;

/// 600 hours of a wave of a day, from 2024-03-01.
fn hours() -> Vec<String> {
    let line = |i: usize| {
        let load = 20.0 + 5.0 * (i as f64 * std::f64::consts::TAU / 24.0).sin() + (i % 7) as f64 * 0.1;
        format!("2024-{:02}-{:02} {:02}:00,{load:.3}", 3 + i / 744, i / 24 % 31 + 1, i % 24)
    };
    (0..600).map(line).collect()
}

fn csv(rows: &[String]) -> String {
    format!("when,load\n{}\n", rows.join("\n"))
}

fn test_rmse(folder: &Folder, words: &str) -> f64 {
    let report: Value = serde_json::from_str(folder.works(words).out.trim()).unwrap();
    report["test"]["rmse"].as_f64().unwrap()
}

const TRAIN: &str = "--window 48 --horizon 6 --epochs 20";

#[test]
fn a_shuffled_series_is_trained_in_the_order_of_time() {
    let folder = Folder::new();
    let rows = hours();
    // 7 and 600 share no factor
    let shuffled: Vec<String> = (0..600).map(|i| rows[i * 7 % 600].clone()).collect();
    folder.write("sorted.csv", csv(&rows));
    folder.write("shuffled.csv", csv(&shuffled));
    folder.works(&format!("train sorted.csv {TRAIN} --out a"));
    let said = folder.works(&format!("train shuffled.csv {TRAIN} --out b")).out;
    assert!(said.contains("a row every hour by \"when\", from 2024-03-01 00:00 to 2024-03-25 23:00"), "{said}");
    assert!(said.contains("sorted: ") && said.contains(" rows stood behind a later one"), "{said}");
    assert!(said.contains("if the last 24 values of a window came again"), "{said}");
    let bytes = |run: &str| std::fs::read(folder.path(run).join("model.safetensors")).unwrap();
    assert!(bytes("a") == bytes("b"), "the same weights");
    // as they stand, if that is asked for
    let said = folder.works(&format!("train shuffled.csv {TRAIN} --time none --out c")).out;
    assert!(said.contains("the order of the file") && !said.contains("sorted"), "{said}");
    assert!(bytes("a") != bytes("c"));
}

#[test]
fn predictions_have_the_times_of_their_rows() {
    let folder = Folder::new();
    let rows = hours();
    folder.write("all.csv", csv(&rows));
    folder.works(&format!("train all.csv {TRAIN} --out m"));
    let mut latest = rows[400..].to_vec();
    latest.reverse();
    folder.write("latest.csv", csv(&latest));
    let ahead = folder.works("predict m latest.csv").out;
    let lines: Vec<&str> = ahead.lines().collect();
    assert_eq!((lines[0], lines.len()), ("when,step,prediction", 7));
    assert!(lines[1].starts_with("2024-03-26 00:00,1,") && lines[6].starts_with("2024-03-26 05:00,6,"), "{ahead}");
    let every = folder.works("predict m latest.csv --every-window").out;
    let lines: Vec<&str> = every.lines().collect();
    assert_eq!((lines[0], lines.len()), ("when,first_row,step,prediction", 1 + 153 * 6));
    assert!(lines[1].starts_with("2024-03-19 16:00,48,1,"), "{}", lines[1]);
    let json: Value =
        serde_json::from_str(folder.works("predict m latest.csv --json").out.lines().next().unwrap()).unwrap();
    assert_eq!((json["when"].as_str(), json["step"].as_u64()), (Some("2024-03-26 00:00"), Some(1)));
    // a packed series keeps its time
    folder.works("data pack all.csv all.citius --window 48 --horizon 6");
    folder.works("train all.citius --epochs 2 --out p");
    assert!(folder.works("predict p latest.csv").out.starts_with("when,step,prediction\n2024-03-26 00:00,1,"));
    // rows without their time, and rows a day apart
    folder.write("untimed.csv", csv(&rows).replace("when", "then"));
    assert!(folder.fails(1, "predict m untimed.csv").contains("the column \"when\", which says when each row was"));
    let days: Vec<String> = (1..=31).map(|day| format!("2024-03-{day:02},{day}")).collect();
    folder.write("days.csv", csv(&days));
    assert!(
        folder.fails(1, "predict m days.csv").contains("a row every day, the model was trained on rows every hour")
    );
}

#[test]
fn gaps_are_said_filled_or_left_out() {
    let folder = Folder::new();
    let rows = hours();
    folder.write("whole.csv", csv(&rows));
    // two hours are missing, later 40, and some cells
    let gaps: Vec<String> = rows[..100].iter().chain(&rows[102..200]).chain(&rows[240..]).cloned().collect();
    let cells: Vec<String> =
        rows.iter().enumerate().map(|(i, row)| if i % 50 == 7 { row[..17].to_owned() } else { row.clone() }).collect();
    folder.write("cells.csv", csv(&cells));
    folder.write("gaps.csv", csv(&gaps));
    let said = folder.works(&format!("train gaps.csv {TRAIN} --out g")).out;
    assert!(said.contains("2 gaps between rows, 2 rows filled in, 1 too long to fill: no window crosses it"), "{said}");
    assert!(said.contains("the longest of 40 steps behind 2024-03-09 07:00"), "{said}");
    let said = folder.works(&format!("train cells.csv {TRAIN} --fill linear --out l")).out;
    assert!(
        said.contains("12 missing values of \"load\" filled with a straight line between their neighbours"),
        "{said}"
    );
    let error = folder.fails(1, &format!("train cells.csv {TRAIN} --fill refuse --out r"));
    assert!(error.contains("row 8, column \"load\"") && error.contains("--fill previous or linear"), "{error}");
    let (gaps, whole) = (
        test_rmse(&folder, &format!("train gaps.csv {TRAIN} --json --out x")),
        test_rmse(&folder, &format!("train whole.csv {TRAIN} --json --out y")),
    );
    assert!(gaps < 1.3 * whole, "{gaps} with gaps, {whole} without");
    // a window that must be filled is, and it is said
    let ran = folder.works("predict g cells.csv");
    assert!(ran.err.contains("missing values of \"load\" filled with the value before them"), "{}", ran.err);
}

#[test]
fn what_is_no_single_series_is_refused() {
    let folder = Folder::new();
    let rows = hours();
    let stores: Vec<String> =
        ["", "1"].iter().flat_map(|store| rows.iter().map(move |row| format!("{row}{store}"))).collect();
    folder.write("stores.csv", csv(&stores));
    let error = folder.fails(1, &format!("train stores.csv {TRAIN}"));
    assert!(error.contains("row 601, column \"when\"") && error.contains("several series"), "{error}");
    // sorted by time, with a column that says which series a row is of
    let stores: Vec<String> = rows.iter().flat_map(|row| ["A", "B"].map(|store| format!("{row},{store}"))).collect();
    folder.write("sorted.csv", format!("when,load,store\n{}\n", stores.join("\n")));
    let error = folder.fails(1, &format!("train sorted.csv --target load {TRAIN}"));
    assert!(error.contains("row 2, column \"when\"") && error.contains("several series"), "{error}");
    // a date and an hour in columns of their own are one series, in the order of the file
    let split: Vec<String> = rows.iter().map(|row| row.replacen(' ', ",", 1)).collect();
    folder.write("split.csv", format!("day,hour,load\n{}\n", split.join("\n")));
    let said = folder.works(&format!("train split.csv {TRAIN} --out split")).out;
    assert!(said.contains("many rows share a value of \"day\": rows are taken in the order of the file"), "{said}");
    let mut torn = rows.clone();
    torn[30] = "yesterday,20".to_owned();
    folder.write("torn.csv", csv(&torn));
    let error = folder.fails(1, &format!("train torn.csv {TRAIN}"));
    assert!(error.contains("row 31, column \"when\"") && error.contains("\"yesterday\" is not a time"), "{error}");
    assert!(folder.fails(2, &format!("train torn.csv {TRAIN} --fill none")).contains("previous, linear or refuse"));
}
