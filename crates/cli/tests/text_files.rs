//! Tables as JSON lines and in other encodings than UTF-8: trained on, evaluated, predicted, inspected and packed like any other.

mod common;

use std::fs;
use std::io::Write;

use common::{Folder, houses};
use serde_json::Value;

/// The rows of `houses()` as JSON lines, the numbers as they are written there.
fn houses_in_json() -> String {
    let text = houses();
    let rows = text.lines().skip(1).map(|row| {
        let cells: Vec<&str> = row.split(',').collect();
        format!("{{\"a\": {}, \"b\": {}, \"price\": {}}}\n", cells[0], cells[1], cells[2])
    });
    rows.collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap()
}

#[test]
fn json_lines_train_and_predict_as_the_same_rows_do_as_csv() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.write("houses.jsonl", houses_in_json());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(houses_in_json().as_bytes()).unwrap();
    folder.write("houses.ndjson.gz", gzip.finish().unwrap());
    for (source, out) in [("houses.csv", "c"), ("houses.jsonl", "j"), ("houses.ndjson.gz", "z")] {
        let report = json(&folder.works(&format!("train {source} --epochs 20 --json --out {out}")).out);
        assert_eq!(report["task"], "regression", "{source}");
    }
    let weights = |out: &str| fs::read(folder.path(&format!("{out}/model.safetensors"))).unwrap();
    assert_eq!(weights("c"), weights("j"));
    assert_eq!(weights("c"), weights("z"));
    let want = folder.works("predict c houses.csv").out;
    for (model, file) in [("j", "houses.jsonl"), ("j", "houses.csv"), ("c", "houses.jsonl"), ("c", "houses.ndjson.gz")]
    {
        assert_eq!(folder.works(&format!("predict {model} {file}")).out, want, "{model} {file}");
    }
    assert_eq!(folder.works("eval c houses.jsonl").out, folder.works("eval c houses.csv").out);
    let inspected = json(&folder.works("data inspect houses.jsonl --json").out);
    assert_eq!(inspected["rows"], 120);
    folder.works("data pack houses.jsonl houses.citius");
    folder.works("train houses.citius --epochs 2 --out p");
}

#[test]
fn json_lines_are_read_in_blocks() {
    let folder = Folder::new();
    folder.write("large.jsonl", houses_in_json().repeat(80));
    let report = json(&folder.works("train large.jsonl --memory 100KB --epochs 1 --json --out m").out);
    assert_eq!(report["task"], "regression");
}

#[test]
fn keys_that_a_model_does_not_know_are_passed_over() {
    let folder = Folder::new();
    folder.write("houses.jsonl", houses_in_json());
    folder.works("train houses.jsonl --epochs 2 --out m");
    folder.write(
        "new.jsonl",
        "{\"id\": \"x1\", \"b\": 0.5, \"a\": 1}\n{\"a\": null, \"b\": 1, \"id\": \"x2\", \"more\": [1]}\n",
    );
    let out = folder.works("predict m new.jsonl --keep id").out;
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("id,") && lines[2].starts_with("x2,"), "{out}");
    folder.write("bad.jsonl", "{\"a\": 1, \"b\": 0.5}\n{\"a\": 1, \"b\"}\n{\"a\": 1, \"b\": 2}\n");
    let error = folder.fails(1, "predict m bad.jsonl");
    assert!(error.contains("bad.jsonl: line 2 is not a JSON object") && error.contains("--on-error skip"), "{error}");
    let ran = folder.works("predict m bad.jsonl --on-error skip");
    assert_eq!(ran.out.lines().count(), 4, "{}", ran.out);
    assert!(ran.err.contains("1 of 3 rows cannot be read"), "{}", ran.err);
    let error = folder.fails(1, "train bad.jsonl");
    assert!(error.contains("line 2 is not a JSON object"), "{error}");
}

#[test]
fn other_encodings_are_read_where_they_are_named() {
    let folder = Folder::new();
    let text = format!("stra\u{df}e,{}", houses().replace('\n', "\nM\u{fc}nchen,"));
    let text = text.trim_end_matches("M\u{fc}nchen,");
    folder.write("utf8.csv", text);
    folder.write("latin.csv", text.chars().map(|c| c as u8).collect::<Vec<u8>>());
    let wide: Vec<u8> = format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    folder.write("wide.csv", wide);
    let error = folder.fails(1, "train latin.csv");
    assert!(error.contains("is not UTF-8") && error.contains("--encoding"), "{error}");
    folder.works("train utf8.csv --epochs 5 --out u");
    folder.works("train latin.csv --encoding latin-1 --epochs 5 --out l");
    folder.works("train wide.csv --epochs 5 --out w");
    let weights = |out: &str| fs::read(folder.path(&format!("{out}/model.safetensors"))).unwrap();
    assert_eq!(weights("u"), weights("l"));
    assert_eq!(weights("u"), weights("w"));
    let want = folder.works("predict u utf8.csv").out;
    assert_eq!(folder.works("predict u latin.csv --encoding windows-1252").out, want);
    assert_eq!(folder.works("predict u wide.csv").out, want);
    assert_eq!(folder.works("eval u latin.csv --encoding latin1").out, folder.works("eval u utf8.csv").out);
    assert!(folder.fails(1, "predict u latin.csv").contains("--encoding"));
    assert!(folder.fails(2, "train latin.csv --encoding klingon").contains("is not the name of an encoding"));
    folder.works("data inspect latin.csv --encoding latin-1");
}
