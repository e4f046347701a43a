//! `citius predict` and `citius eval` on pictures and series: answers that say what they are about.

mod common;

use std::fs;

use common::{Folder, pets, png};
use serde_json::Value;

const RED: [u8; 3] = [220, 10, 10];
const BLUE: [u8; 3] = [10, 10, 220];

/// A model of red and blue pictures in `m`.
fn colours() -> Folder {
    let folder = Folder::new();
    pets(&folder);
    folder.works("train pets --size 4 --epochs 20 --out m");
    folder
}

/// The first two cells of each line below the header, which is checked.
fn named(out: &str) -> Vec<(&str, &str)> {
    let mut lines = out.lines();
    assert_eq!(lines.next(), Some("path,prediction,probability of blue,probability of red"));
    let cells = lines.map(|line| line.split(',').collect::<Vec<_>>());
    cells.map(|cells| (cells[0], cells[1])).collect()
}

#[test]
fn pictures_of_unknown_class() {
    let folder = colours();
    folder.write("new/b.png", png(5, 5, BLUE, 1));
    folder.write("new/a.png", png(6, 5, RED, 2));
    folder.write("tree/whatever/deep/c.png", png(5, 5, BLUE, 3));
    folder.write("tree/d.png", png(5, 5, RED, 4));
    folder.write("tree/notes.txt", "no picture");
    folder.write("list.csv", "path\ntree/d.png\nnew/b.png\n");
    folder.write("labelled.csv", "file,label\nnew/b.png,cat\nnew/a.png,dog\n");
    let cases = [
        ("new/b.png", vec![("new/b.png", "blue")]),
        ("new/b.png tree/d.png", vec![("new/b.png", "blue"), ("tree/d.png", "red")]),
        ("new", vec![("a.png", "red"), ("b.png", "blue")]),
        ("new/*.png", vec![("new/a.png", "red"), ("new/b.png", "blue")]),
        ("tree", vec![("d.png", "red"), ("whatever/deep/c.png", "blue")]),
        ("new/b.png tree", vec![("new/b.png", "blue"), ("tree/d.png", "red"), ("tree/whatever/deep/c.png", "blue")]),
        ("list.csv", vec![("tree/d.png", "red"), ("new/b.png", "blue")]),
        ("labelled.csv", vec![("new/b.png", "blue"), ("new/a.png", "red")]),
    ];
    for (sources, expected) in cases {
        assert_eq!(named(&folder.works(&format!("predict m {sources}")).out), expected, "{sources}");
    }
    assert!(folder.works("predict m tree").err.contains("1 other files"));
    fs::create_dir(folder.path("empty")).unwrap();
    let mistakes = [
        (1, "predict m nowhere.png", "nowhere.png: no such file"),
        (1, "predict m empty", "no picture in it"),
        (2, "predict m new --every-window", "--every-window is for a model of a series"),
    ];
    for (code, words, said) in mistakes {
        let error = folder.fails(code, words);
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn damaged_pictures_keep_their_lines() {
    let folder = colours();
    for (name, colour) in [("new/1.png", RED), ("new/2.png", BLUE), ("new/3.png", RED)] {
        folder.write(name, png(5, 5, colour, 1));
    }
    folder.write("new/1b.png", "no picture");
    assert!(folder.fails(1, "predict m new").contains("new/1b.png: not a picture"));
    let told = folder.works("predict m new --on-error skip");
    assert_eq!(named(&told.out), [("1.png", "red"), ("1b.png", ""), ("2.png", "blue"), ("3.png", "red")]);
    assert!(told.out.contains("\n1b.png,,,\n") && told.err.contains("1 picture cannot be read"), "{}", told.err);
    assert!(folder.fails(1, "predict m new/1b.png --on-error skip").contains("none of its 1 pictures"));

    folder.write("pets/red/0b.png", "no picture");
    assert!(folder.fails(1, "eval m pets").contains("0b.png: not a picture"));
    let judged = folder.works("eval m pets --on-error skip --json");
    let judged: Value = serde_json::from_str(judged.out.trim()).unwrap();
    assert_eq!((judged["rows"].as_u64(), judged["metrics"]["accuracy"].as_f64()), (Some(60), Some(1.0)));
}

#[test]
fn classes_are_matched_by_name() {
    let folder = colours();
    folder.write("some/red/1.png", png(5, 5, RED, 1));
    folder.write("some/red/2.png", png(5, 5, RED, 2));
    folder.write("list.csv", "path,label\nsome/red/1.png,red\n");
    folder.works("data pack some some.citius --size 4");
    for source in ["some", "list.csv", "some.citius"] {
        let judged = folder.works(&format!("eval m {source} --json")).out;
        let judged: Value = serde_json::from_str(judged.trim()).unwrap();
        assert_eq!(judged["metrics"]["accuracy"].as_f64(), Some(1.0), "{source}: {judged}");
    }
    folder.write("some/green/3.png", png(5, 5, [10, 220, 10], 3));
    let error = folder.fails(2, "eval m some");
    assert!(error.contains("does not know the class \"green\", only blue, red"), "{error}");
    assert_eq!(named(&folder.works("predict m some").out).len(), 3);
}

#[test]
fn a_series_goes_on_behind_its_last_row() {
    let folder = Folder::new();
    let rows: Vec<String> = (0..300).map(|i| format!("{i},{:.4}\n", 20.0 + 5.0 * (i as f64 * 0.26).sin())).collect();
    let table = |rows: &[String]| format!("hour,load\n{}", rows.concat());
    folder.write("all.csv", table(&rows));
    folder.write("window.csv", table(&rows[100..110]));
    folder.write("few.csv", table(&rows[..9]));
    folder.works("train all.csv --target load --window 10 --horizon 3 --epochs 5 --out m");
    let ahead = folder.works("predict m window.csv").out;
    let lines: Vec<&str> = ahead.lines().collect();
    assert_eq!((lines[0], lines.len()), ("step,prediction", 4));
    assert!((1..4).all(|step| lines[step].starts_with(&format!("{step},"))), "{ahead}");

    let every = folder.works("predict m all.csv --every-window").out;
    let every: Vec<&str> = every.lines().collect();
    assert_eq!((every[0], every.len()), ("first_row,step,prediction", 1 + 291 * 3));
    let behind = |row: usize| 1 + (row - 10) * 3;
    for step in 0..3 {
        assert_eq!(every[behind(110) + step], format!("110,{}", lines[1 + step]));
    }
    let last = folder.works("predict m all.csv").out;
    let last: Vec<String> = last.lines().skip(1).map(|line| format!("300,{line}")).collect();
    assert_eq!(every[behind(300)..], last);

    let error = folder.fails(1, "predict m few.csv");
    assert!(error.contains("9 rows are too few") && error.contains("at least 10 rows"), "{error}");
    assert!(folder.fails(2, "predict m all.csv few.csv").contains("2 sources"));
    assert!(folder.works("predict --help").out.contains("first row is 0"));
    let judged: Value = serde_json::from_str(folder.works("eval m all.csv --json").out.trim()).unwrap();
    assert_eq!(judged["rows"], 288);
}
