//! Every kind of bad input: a clear message, the right exit code, never a panic.

mod common;

use std::fs;
use std::io::Write;

use common::{Folder, houses, table};

/// Training on this table fails, saying all of `words`.
#[track_caller]
fn refuses(content: &str, flags: &str, words: &[&str]) {
    let folder = Folder::new();
    folder.write("t.csv", content);
    let said = folder.fails(1, &format!("train t.csv --epochs 2 --out m {flags}"));
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    assert!(said.starts_with("error: "), "{said}");
}

/// Training on this table goes on, saying all of `words`.
#[track_caller]
fn remarks(content: &str, words: &[&str]) {
    let folder = Folder::new();
    folder.write("t.csv", content);
    let said = folder.works("train t.csv --epochs 2 --out m").out;
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

fn number(x: f64) -> String {
    format!("{x:.4}")
}

#[test]
fn files_that_are_not_there_or_empty() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    assert!(folder.fails(1, "train house.csv").contains("did you mean \"houses.csv\"?"));
    refuses("", "", &["is empty"]);
    refuses("a,b,price\n", "", &["no rows"]);
}

#[test]
fn changes_of_pictures_where_there_are_none() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.write("mix.toml", "mix = { name = \"mixup\", alpha = 0.2 }");
    let said = folder.fails(2, "train houses.csv --config mix.toml --out m");
    assert!(said.starts_with("error: mix is for pictures"), "{said}");
    let said = folder.fails(2, "train houses.csv --augment horizontal-flip --out m");
    assert!(said.starts_with("error: augment is for pictures"), "{said}");
    let mistakes = [
        ("sharpen", "unknown variant"),
        ("random-crop", "needs a number, such as random-crop=4"),
        ("random-crop=2.5", "random-crop: invalid type"),
        ("horizontal-flip=x", "is no number"),
        ("colour-jitter=3", "write its settings in a file"),
        ("horizontal-flip=7", "probability 7 is not in 0..1"),
    ];
    for (augment, why) in mistakes {
        let said = folder.fails(2, &format!("train --augment {augment} --out m"));
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn columns_and_cells() {
    refuses(&houses(), "--target prise", &["did you mean \"price\"?"]);
    refuses(&houses(), "--target 7", &["0 to 2"]);
    refuses(&houses().replacen("\n0.2360", "\noops", 1), "", &["line 3", "column \"a\"", "oops", "--missing"]);
    refuses(&(houses() + "1,2,3,4\n"), "", &["line 122 has 4 cells, expected 3"]);
    refuses(&houses().replacen("\n0.2360", "\ninf", 1), "", &["line 3", "infinite"]);
    let gaps = |(i, line): (usize, &str)| match (i % 5, line.split_once(',')) {
        (4, Some((_, rest))) => format!("NaN,{rest}\n"),
        _ => format!("{line}\n"),
    };
    remarks(&houses().lines().enumerate().map(gaps).collect::<String>(), &["missing values filled"]);
}

#[test]
fn columns_that_say_nothing() {
    let with = |cell: &str| {
        let text = table(120, |_, a, b| number(a - b));
        let rows = text.lines().skip(1).map(|line| format!("{cell},{line}\n"));
        format!("k,a,b,price\n{}", rows.collect::<String>())
    };
    remarks(&with("5"), &["the same value in all training rows: k"]);
    remarks(&with(""), &["no value in the training rows: k"]);
    refuses(&table(120, |_, _, _| "3".into()), "", &["same value", "nothing to learn"]);
    refuses("price\n1\n2\n3\n", "", &["the target is the only column"]);
}

#[test]
fn few_rows_and_rare_classes() {
    let rare = |i: usize, a: f64, _: f64| {
        if i == 3 {
            "rare"
        } else if a > 0.0 {
            "x"
        } else {
            "y"
        }
        .to_owned()
    };
    remarks(&table(120, rare), &["seen in one training row only", "rare"]);
    let names: Vec<String> = (0..40).map(|i| format!("c{i}")).collect();
    let rows =
        (0..20).map(|r| (0..40).map(|c| format!("{}", (r * 7 + c * 13) % 29)).collect::<Vec<_>>().join(",") + "\n");
    remarks(
        &format!("{}\n{}", names.join(","), rows.collect::<String>()),
        &["more inputs (39) than training rows (20)"],
    );
}

#[test]
fn row_files() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.write("far.txt", "0\n1\n500\n");
    folder.write("some.txt", "0\n1\n2\n");
    assert!(folder.fails(1, "train houses.csv --train-rows far.txt").contains("line 3: row 500 does not exist"));
    assert!(folder.fails(1, "train houses.csv --train-rows some.txt --test-rows some.txt").contains("both"));
    assert!(folder.fails(1, "train houses.csv --test-rows none.txt").contains("no such file"));
    assert!(folder.fails(2, "train houses.csv --test-rows some.txt --test 0.2").contains("--test draws"));
}

#[test]
fn binary_files_cut_short_or_absurd() {
    let folder = Folder::new();
    let mut absurd = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 9), }";
    absurd.extend(format!("{header:<117}\n").bytes());
    folder.write("a.npy", &absurd);
    assert!(folder.fails(1, "train a.npy").contains("header promises"));
    folder.write("b.npy", &absurd[..40]);
    folder.fails(1, "train b.npy");

    let images = [&[0, 0, 8, 3, 0, 0, 0, 100, 0, 0, 0, 28, 0, 0, 0, 28][..], &[7; 500]].concat();
    let labels = [&[0, 0, 8, 1, 0, 0, 0, 100][..], &[1; 100]].concat();
    for (name, bytes) in [("images-idx3", &images), ("labels-idx1", &labels)] {
        folder.write(&format!("mnist/train-{name}-ubyte"), bytes);
        folder.write(&format!("mnist/t10k-{name}-ubyte"), bytes);
    }
    assert!(folder.fails(1, "train mnist").contains("cut short"));
    fs::remove_file(folder.path("mnist/t10k-labels-idx1-ubyte")).unwrap();
    assert!(folder.fails(1, "train mnist").contains("lacks t10k-labels"));

    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    zipped.write_all(houses().as_bytes()).unwrap();
    let zipped = zipped.finish().unwrap();
    folder.write("c.csv.gz", &zipped);
    folder.works("train c.csv.gz --epochs 2 --out m");
    folder.write("c.csv.gz", &zipped[..zipped.len() / 2]);
    assert!(folder.fails(1, "train c.csv.gz").contains("gzip stream ends early"));
}

#[test]
fn a_rate_that_diverges() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    let ran = folder.run("train houses.csv --optimizer sgd --lr 1000 --epochs 5 --out m --json");
    assert_eq!(ran.code, 1, "{}", ran.err);
    for said in ["diverged", "kept", "--lr 0.001"] {
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
    assert!(ran.out.contains("\"diverged\""), "{}", ran.out);
    folder.works("predict m houses.csv");
}

#[test]
fn models_that_are_not() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.works("train houses.csv --epochs 2 --out m");
    assert!(folder.fails(1, "predict nowhere houses.csv").contains("no such model"));
    assert!(folder.fails(1, "predict . houses.csv").contains("no model.json"));
    folder.write("other.csv", "x,y\n1,2\n");
    assert!(folder.fails(1, "predict m other.csv").contains("the model needs"));
    folder.write("new.csv", "a,b\n1,2\nx,3\n");
    assert!(folder.fails(1, "predict m new.csv").contains("\"x\" is not a number"));
    let path = folder.path("m/model.safetensors");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..100]).unwrap();
    assert!(folder.fails(1, "eval m houses.csv").contains("cut short or damaged"));
}

#[test]
fn settings_no_run_can_mean() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.write("bad.toml", "epoch = 3\n");
    let usage = [
        ("--lr -1", "learning rate is -1"),
        ("--batch-size 0", "batch size is 0"),
        ("--hidden 8,x", "separated by commas"),
        ("--hidden 99999999,99999999", "parameters needs about"),
        ("--loss bce", "use mse, mae, huber or quantile"),
        ("--optimizer adan", "adamw"),
        ("--activation swish", "silu"),
        ("--schedule cosin", "cosine"),
        ("--config bad.toml", "did you mean `epochs`?"),
        ("--config none.toml", "no such file"),
        ("--task guess", "not a task"),
    ];
    for (flags, said) in usage {
        let ran = folder.run(&format!("train houses.csv {flags} --out m"));
        assert!([1, 2].contains(&ran.code) && ran.err.contains(said), "{flags}: {} {}", ran.code, ran.err);
        assert_eq!(ran.code == 1, flags.contains("none.toml"), "{flags}");
    }
    assert!(folder.fails(1, "train houses.csv --out houses.csv").contains("a file of that name"));
}
