//! Rows named in files, and shares of rows, for every kind of source.

mod common;

use common::{Folder, houses, pets};
use serde_json::Value;

/// Two row files: the first numbers up to `train`, and those from there up to `all`.
fn row_files(folder: &Folder, train: usize, all: usize) {
    let lines = |rows: std::ops::Range<usize>| rows.map(|row| format!("{row}\n")).collect::<String>();
    folder.write("train.txt", lines(0..train));
    folder.write("test.txt", lines(train..all));
}

fn counts(folder: &Folder, words: &str) -> [u64; 3] {
    let report: Value = serde_json::from_str(folder.works(words).out.trim()).unwrap();
    ["train", "validation", "test"].map(|set| report["rows"][set].as_u64().unwrap_or(0))
}

fn idx(magic: u32, sizes: &[u32], body: &[u8]) -> Vec<u8> {
    let header = [magic].iter().chain(sizes).flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    [&header, body].concat()
}

/// Pictures of 4×4 of two classes, 40 to train on and 10 to test.
fn grey(folder: &Folder) {
    for (half, pictures) in [("train", 40u32), ("t10k", 10)] {
        let labels: Vec<u8> = (0..pictures).map(|i| (i % 2) as u8).collect();
        let pixels: Vec<u8> = labels.iter().flat_map(|label| [label * 200 + 20; 16]).collect();
        folder.write(&format!("grey/{half}-images-idx3-ubyte"), idx(2051, &[pictures, 4, 4], &pixels));
        folder.write(&format!("grey/{half}-labels-idx1-ubyte"), idx(2049, &[pictures], &labels));
    }
}

const FILES: &str = "--train-rows train.txt --test-rows test.txt --epochs 1 --json";

#[test]
fn a_folder_of_pictures_is_divided_as_row_files_say() {
    let folder = Folder::new();
    pets(&folder);
    row_files(&folder, 50, 60);
    assert_eq!(counts(&folder, &format!("train pets {FILES} --validation 0.2 --out a")), [40, 10, 10]);
    folder.write("test.txt", "49\n55\n");
    let said = folder.fails(1, &format!("train pets {FILES} --out b"));
    assert!(said.contains("row 49 is both in the training and in the test rows"), "{said}");
    folder.write("test.txt", "60\n");
    let said = folder.fails(1, &format!("train pets {FILES} --out b"));
    assert!(said.contains("line 1: row 60 does not exist: there are 60 rows"), "{said}");
    let said = folder.fails(2, &format!("train pets {FILES} --test 0.1 --out b"));
    assert!(said.contains("--test draws test rows"), "{said}");
}

#[test]
fn rows_of_mnist_files_are_numbered_training_files_first() {
    let folder = Folder::new();
    grey(&folder);
    row_files(&folder, 30, 45);
    assert_eq!(counts(&folder, &format!("train grey {FILES} --out a")), [30, 0, 15]);
    assert_eq!(counts(&folder, "train grey --validation 0.1 --epochs 1 --json --out b"), [36, 4, 10]);
    assert_eq!(counts(&folder, "train grey --test 0.2 --epochs 1 --json --out c"), [40, 0, 10]);
    assert_eq!(counts(&folder, "train grey --train-rows train.txt --epochs 1 --json --out d"), [30, 0, 10]);
    folder.write("test.txt", "50\n");
    let said = folder.fails(1, &format!("train grey {FILES} --out e"));
    assert!(said.contains("row 50 does not exist: there are 50 rows"), "{said}");
}

#[test]
fn a_packed_file_is_divided_as_row_files_say_and_keeps_its_target() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.works("data pack houses.csv h.citius --target price");
    row_files(&folder, 90, 120);
    assert_eq!(counts(&folder, &format!("train h.citius {FILES} --validation 0.1 --out a")), [81, 9, 30]);
    folder.works("train h.citius --target price --task regression --epochs 1 --out b");
    for (asked, said) in [
        ("--target nonsense", "--target nonsense: the packed file predicts \"price\""),
        ("--task classes", "--task classes: the packed file is one of regression"),
        ("--missing x", "--missing: the rows of a packed file are finished"),
        ("--text a", "--text: the rows of a packed file are finished"),
    ] {
        let got = folder.fails(2, &format!("train h.citius {asked} --epochs 1 --out c"));
        assert!(got.contains(said), "{asked}: {got}");
    }
}

#[test]
fn sources_without_numbered_rows_refuse_row_files_with_a_remedy() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.write("text.txt", "to be or not to be, that is the question. ".repeat(40));
    row_files(&folder, 90, 120);
    for (source, said) in [
        ("houses.csv --window 4", "--train-rows: the rows of a series are divided by their order in time"),
        ("text.txt --kind text", "--train-rows: a text has no rows"),
        ("houses.csv --memory 1kB", "larger than the memory for data"),
    ] {
        let got = folder.fails(2, &format!("train {source} {FILES} --out a"));
        assert!(got.contains(said), "{source}: {got}");
    }
}
