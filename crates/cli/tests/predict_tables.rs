//! `citius predict` and `citius eval` on tables: any size, any source, rows that cannot be read, class by class.

mod common;

use std::io::Write;
use std::process::Stdio;

use common::{Folder, Ran, houses, ran, table};
use serde_json::Value;

/// A model of `houses()` in `m`.
fn model() -> Folder {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.works("train houses.csv --epochs 30 --out m");
    folder
}

fn piped(folder: &Folder, words: &str, input: &[u8]) -> Ran {
    let mut child =
        folder.command(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input).unwrap();
    drop(stdin);
    ran(child.wait_with_output().unwrap())
}

#[test]
fn flags_that_nothing_would_use_are_refused() {
    let folder = model();
    for (words, expected) in [
        ("--temperature 3", "--temperature is for models of texts"),
        ("--device cuda", "--device: predictions are computed on the processor"),
        ("--precision bf16", "--precision: predictions are computed on the processor"),
        ("--out m/model.json", "is a part of the model"),
    ] {
        let error = folder.fails(2, &format!("predict m houses.csv {words}"));
        assert!(error.contains(expected), "{error}");
    }
    assert!(folder.fails(2, "eval m houses.csv --device cuda:7").contains("--device"));
    let error = folder.fails(2, "predict m houses.csv --keep row --json");
    assert!(error.contains("--json has a key of that name"), "{error}");
}

/// More rows than a part has.
const MANY: usize = 40_000;

#[test]
fn parts_predict_what_the_whole_would() {
    let folder = model();
    let text = table(MANY, |_, _, _| "0".into());
    folder.write("many.csv", &text);
    let whole = folder.works("predict m many.csv").out;
    assert_eq!(whole.lines().count(), MANY + 1);
    // three files of a third each, by pattern and one by one
    let lines: Vec<&str> = text.lines().collect();
    for (at, rows) in lines[1..].chunks(MANY / 3 + 1).enumerate() {
        folder.write(&format!("part-{at}.csv"), format!("{}\n{}\n", lines[0], rows.join("\n")));
    }
    assert_eq!(folder.works("predict m part-*.csv").out, whole);
    assert_eq!(folder.works("predict m part-0.csv part-1.csv part-2.csv").out, whole);
    let from_pipe = piped(&folder, "predict m -", text.as_bytes());
    assert_eq!((from_pipe.code, from_pipe.out), (0, whole.clone()));
    // columns in another order, further ones, other line ends
    let other: String = lines
        .iter()
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            format!("{},note \"x\",{}\r\n", cells[1], cells[0])
        })
        .collect();
    folder.write("other.csv", other.replacen("note \"x\"", "remark", 1));
    assert_eq!(folder.works("predict m other.csv").out, whole);
    folder.works("predict m many.csv --out p.csv");
    assert_eq!(std::fs::read_to_string(folder.path("p.csv")).unwrap(), whole);
}

#[test]
fn kept_columns_stand_as_they_are_written() {
    let folder = model();
    folder.write("new.csv", "id,a,b\n007,0.5,0.25\n\"x, y\",\"-1\",0\n");
    let out = folder.works("predict m new.csv --keep id,a").out;
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "id,a,prediction");
    assert!(lines[1].starts_with("007,0.5,") && lines[2].starts_with("\"x, y\",-1,"), "{out}");
    assert!(folder.fails(1, "predict m new.csv --keep ide").contains("no column \"ide\"; did you mean \"id\"?"));
    let out = folder.works("predict m new.csv --keep id --json").out;
    let first: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!((&first["id"], &first["row"]), (&Value::from("007"), &Value::from(0)));
    assert!(first["prediction"].is_f64());
}

#[test]
fn rows_that_cannot_be_read_are_passed_over_and_counted() {
    let folder = model();
    folder.write("good.csv", "a,b\n0.1,0.2\n0.3,0.4\n0.5,0.6\n");
    folder.write("bad.csv", "a,b\n0.1,0.2\nabc,0.4\n0.3,0.4\n0.9\n1e999,0\n0.5,0.6\n");
    let error = folder.fails(1, "predict m bad.csv");
    assert!(error.contains("line 5 has 1 cells") && error.contains("--on-error skip"), "{error}");
    folder.write("stray.csv", "a,b\n0.1,0.2\nabc,0.4\n0.3,0.4\n");
    let error = folder.fails(1, "predict m stray.csv");
    assert!(error.contains("line 3 (row 2)") && error.contains("--on-error skip"), "{error}");
    assert!(error.contains("--missing \"abc\"") && !error.contains("--text"), "{error}");
    let good = folder.works("predict m good.csv").out;
    let expected: Vec<&str> = good.lines().collect();
    let ran = folder.works("predict m bad.csv --on-error skip");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines, [expected[0], expected[1], "", expected[2], "", "", expected[3]]);
    assert!(ran.err.contains("3 of 6 rows cannot be read"), "{}", ran.err);
    // what is advised is there
    folder.write("abc.csv", "a,b\n0.1,0.2\nabc,0.4\n");
    folder.works("predict m abc.csv --missing abc");
    // the row is counted in the file, also far behind its beginning
    let mut text = table(MANY, |_, _, _| "0".into());
    text += "0.5,oops,0\n";
    folder.write("late.csv", &text);
    let error = folder.fails(1, "predict m late.csv");
    assert!(error.contains(&format!("line {} (row {})", MANY + 2, MANY + 1)), "{error}");
    assert!(!folder.path("late-out.csv").exists());
    folder.fails(1, "predict m late.csv --out late-out.csv");
    assert!(!folder.path("late-out.csv").exists());
}

#[test]
fn no_rows_are_no_mistake() {
    let folder = model();
    folder.write("none.csv", "a,b\n");
    assert_eq!(folder.works("predict m none.csv").out, "prediction\n");
}

#[test]
fn what_does_not_apply_is_refused() {
    let folder = Folder::new();
    common::pets(&folder);
    folder.works("train pets --size 4 --epochs 2 --out m");
    for flag in ["--keep id", "--missing x", "--every-window"] {
        assert!(folder.fails(2, &format!("predict m pets {flag}")).contains("leave it out"), "{flag}");
    }
    assert!(folder.fails(2, "eval m pets --missing x").contains("--missing is for a model of a table"));
}

#[test]
fn each_class_is_evaluated_and_the_positive_one_is_named() {
    let folder = Folder::new();
    let rare = table(600, |i, a, _| if a > 0.7 && i % 3 > 0 { "fraud".into() } else { "ok".into() });
    folder.write("cards.csv", &rare);
    let trained = folder.works("train cards.csv --epochs 20 --out m");
    assert!(trained.out.contains("precision") && trained.out.contains("recall"), "{}", trained.out);
    let shown = folder.works("eval m cards.csv").out;
    let positive = |out: &str| out.lines().find(|line| line.contains("positive")).map(str::to_owned).unwrap();
    assert!(positive(&shown).trim_start().starts_with("ok"), "{shown}");
    let shown = folder.works("eval m cards.csv --positive fraud").out;
    assert!(positive(&shown).trim_start().starts_with("fraud"), "{shown}");
    let all: Value = serde_json::from_str(&folder.works("eval m cards.csv --positive fraud --json").out).unwrap();
    // the same from the predictions alone
    let predicted = folder.works("predict m cards.csv").out;
    let answers = predicted.lines().skip(1).map(|line| line.starts_with("fraud"));
    let truths = rare.lines().skip(1).map(|line| line.ends_with("fraud"));
    let (mut both, mut there, mut taken) = (0.0, 0.0, 0.0);
    for (answer, truth) in answers.zip(truths) {
        both += f64::from(u8::from(answer && truth));
        there += f64::from(u8::from(truth));
        taken += f64::from(u8::from(answer));
    }
    let f1: f64 = 2.0 * both / (there + taken);
    assert!((all["metrics"]["f1"].as_f64().unwrap() - f1).abs() < 1e-12);
    assert_eq!(all["classes"]["confusion"][0][0].as_f64(), Some(both));
    assert_eq!(all["classes"]["positive"], "fraud");
    let trained = folder.works("train cards.csv --epochs 3 --positive fraud --out named --json").out;
    let trained: Value = serde_json::from_str(&trained).unwrap();
    assert_eq!(trained["classes"]["positive"], "fraud");
    let later: Value = serde_json::from_str(&folder.works("eval named cards.csv --json").out).unwrap();
    assert_eq!(later["classes"]["positive"], "fraud", "the model keeps it");
    assert!(folder.fails(2, "train cards.csv --positive frad --out x").contains("\"fraud\" or \"ok\""));
    assert!(folder.fails(2, "eval m cards.csv --positive frad").contains("\"fraud\" or \"ok\""));
    let regression = model();
    assert!(regression.fails(2, "eval m houses.csv --positive x").contains("two classes"));
}

#[test]
fn a_label_that_is_not_known_can_be_left_out() {
    let folder = Folder::new();
    folder.write("t.csv", table(200, |_, a, _| if a > 0.0 { "yes".into() } else { "no".into() }));
    folder.works("train t.csv --epochs 5 --out m");
    folder.write("more.csv", "a,b,price\n0.5,0,yes\n0.1,0,maybe\n-0.5,0,no\n");
    assert!(folder.fails(1, "eval m more.csv").contains("maybe"));
    let ran = folder.works("eval m more.csv --on-error skip --json");
    let all: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(all["rows"], 2);
    assert!(ran.err.contains("1 of 3 rows cannot be read and are left out"), "{}", ran.err);
}

#[test]
fn packed_tables_are_predicted_and_evaluated() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.works("data pack houses.csv h.citius --target price");
    folder.works("train h.citius --epochs 30 --out m");
    let (packed, plain) = (folder.works("predict m h.citius").out, folder.works("predict m houses.csv").out);
    assert_eq!(packed, plain);
    assert_eq!(folder.works("eval m h.citius").out, folder.works("eval m houses.csv").out);
    // another table's scales are not the model's
    folder.write("other.csv", table(120, |_, a, b| format!("{:.4}", 7.0 + a - b)));
    folder.works("data pack other.csv o.citius --target price");
    assert!(folder.fails(2, "predict m o.citius").contains("give the table that it was packed from"));
}
