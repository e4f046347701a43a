//! `citius data`: looking at data, packing it, and training on what was packed.

mod common;

use std::fs;

use common::{Folder, houses, pets, table};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn a_table_is_inspected() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    let told = folder.works("data inspect houses.csv --target price").out;
    assert!(told.contains("120 rows, 3 columns, target price"), "{told}");
    assert!(told.contains("goes with price"), "{told}");
    assert!(told.trim_end().ends_with("next: citius train houses.csv --target price"), "{told}");
    assert!(told.lines().all(|line| line.chars().count() <= 100), "{told}");

    let object = json(&folder.works("data inspect houses.csv --rows 50 --json").out);
    assert_eq!((object["kind"].as_str(), object["rows"].as_u64()), (Some("table"), Some(120)));
    assert_eq!((object["rows_read"].as_u64(), object["target"].as_str()), (Some(50), Some("price")));

    let sampled = folder.works("data inspect houses.csv --memory 1kB").out;
    assert!(sampled.contains("larger than the memory"), "{sampled}");
}

#[test]
fn a_packed_table_trains_a_model_of_raw_tables() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    let object = json(&folder.works("data pack houses.csv houses.citius --target price --json").out);
    assert_eq!((object["rows"].as_u64(), object["next"].as_str()), (Some(120), Some("citius train houses.citius")));
    assert_eq!(object["bytes"].as_u64(), Some(fs::metadata(folder.path("houses.citius")).unwrap().len()));

    let told = folder.works("data inspect houses.citius --verify").out;
    assert!(told.contains("fits its checksum") && told.contains("packed from houses.csv"), "{told}");
    assert!(told.contains("120 rows") && told.contains("goes with price"), "{told}");

    folder.works("train houses.citius --epochs 60 --lr 0.01 --out model");
    let raw = folder.works("predict model houses.csv").out;
    let predictions: Vec<f64> = raw.lines().skip(1).map(|line| line.parse().unwrap()).collect();
    let prices: Vec<f64> =
        houses().lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse().unwrap()).collect();
    let error = predictions.iter().zip(&prices).map(|(p, y)| (p - y).abs()).sum::<f64>() / prices.len() as f64;
    assert_eq!(predictions.len(), 120);
    assert!(error < 4.0, "in the units of the table, which range over 60: {error}");
}

#[test]
fn classes_keep_their_names_in_memory_and_in_blocks() {
    let folder = Folder::new();
    let text = table(400, |i, a, b| match (i % 7, a > 0.0, b > 0.0) {
        (_, true, true) => "oak".into(),
        (_, true, false) => "elm".into(),
        (_, false, _) => "ash".into(),
    });
    folder.write("trees.csv", text);
    folder.works("data pack trees.csv whole.citius");
    folder.works("data pack trees.csv parts.citius --memory 1kB");
    for packed in ["whole.citius", "parts.citius"] {
        let object = json(&folder.works(&format!("data inspect {packed} --json")).out);
        let classes = object["classes"].as_array().unwrap();
        assert_eq!(classes.len(), 3, "{object}");
        assert!(classes.iter().any(|class| class["label"] == "elm"), "{object}");
        let out = packed.trim_end_matches(".citius");
        folder.works(&format!("train {packed} --epochs 3 --out {out}"));
        let predictions = folder.works(&format!("predict {out} trees.csv")).out;
        assert!(predictions.lines().next().unwrap().contains("probability of elm"), "{predictions}");
        assert_eq!(predictions.lines().count(), 401);
    }
}

#[test]
fn a_file_is_replaced_only_when_told_so() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.write("out.citius", "mine");
    let error = folder.fails(2, "data pack houses.csv out.citius");
    assert!(error.contains("exists already") && error.contains("--force"), "{error}");
    assert_eq!(fs::read(folder.path("out.citius")).unwrap(), b"mine");
    let error = folder.fails(2, "data pack houses.csv houses.csv --force");
    assert!(error.contains("is the source itself"), "{error}");
    folder.works("data pack houses.csv out.citius --force");
    folder.works("data inspect out.citius --verify");
}

#[test]
fn a_failed_pack_leaves_nothing() {
    let folder = Folder::new();
    pets(&folder);
    folder.write("pets/red/broken.png", "no picture");
    let error = folder.fails(1, "data pack pets pets.citius");
    assert!(error.contains("broken.png"), "{error}");
    assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 1, "only the pictures");
    let told = folder.works("data pack pets pets.citius --on-error skip").out;
    assert!(told.contains("1 cannot be read") && told.contains("broken.png"), "{told}");
}

#[test]
fn pictures_are_shown_packed_and_learned() {
    let folder = Folder::new();
    pets(&folder);
    folder.write("pets/blue/broken.png", "no picture");
    let told = folder.works("data inspect pets --sheet sheet.png").out;
    assert!(told.contains("61 pictures, 2 classes") && told.contains("PNG 100%"), "{told}");
    assert!(told.contains("cannot be read: ") && told.contains("broken.png"), "{told}");
    assert!(fs::read(folder.path("sheet.png")).unwrap().starts_with(b"\x89PNG"));
    fs::remove_file(folder.path("pets/blue/broken.png")).unwrap();

    folder.works("data pack pets pets.citius --size 4");
    let object = json(&folder.works("data inspect pets.citius --sheet packed.png --json").out);
    assert_eq!((object["kind"].as_str(), object["rows"].as_u64()), (Some("packed file"), Some(60)));
    assert!(fs::read(folder.path("packed.png")).unwrap().starts_with(b"\x89PNG"));
    folder.works("train pets.citius --epochs 20 --out model");
    let judged = json(&folder.works("eval model pets --json").out);
    assert_eq!((judged["rows"].as_u64(), judged["metrics"]["accuracy"].as_f64()), (Some(60), Some(1.0)));
    folder.works("eval model pets.citius");
}

#[test]
fn windows_over_a_series() {
    let folder = Folder::new();
    let mut text = String::from("date,load,heat\n");
    for i in 0..300 {
        let (day, hour) = (i / 24 + 1, i % 24);
        let wave = (i as f64 * 0.26).sin();
        text += &format!("2020-01-{day:02} {hour:02}:00:00,{wave:.4},{:.4}\n", 20.0 + 5.0 * wave);
    }
    folder.write("hourly.csv", text);
    let told = folder.works("data inspect hourly.csv").out;
    assert!(told.contains("next: citius train hourly.csv --window"), "{told}");
    assert!(
        told.contains("as a series: a row every hour by \"date\", from 2020-01-01 00:00:00 to 2020-01-13 11:00:00"),
        "{told}"
    );
    let told = folder.works("data pack hourly.csv hourly.citius --window 24 --horizon 6 --target heat").out;
    assert!(told.contains("271 rows of x f32[24, 2], y f32[6, 1]"), "{told}");
    folder.works("train hourly.citius --epochs 2 --out model");
    assert_eq!(folder.works("eval model hourly.csv --json").code, 0);
    assert_eq!(folder.works("predict model hourly.csv").out.lines().count(), 1 + 6);
    assert!(folder.fails(2, "predict model hourly.citius").contains("give the table"));
    let packed = folder.works("predict model hourly.citius --every-window").out;
    let raw = folder.works("predict model hourly.csv --every-window").out;
    assert_eq!((packed.lines().count(), raw.lines().count()), (1 + 271 * 6, 1 + 277 * 6));
    // a packed file does not know the times of its windows
    let untimed: String = raw.lines().map(|line| line.split_once(',').unwrap().1.to_owned() + "\n").collect();
    assert!(untimed.starts_with(&packed), "the same windows, and those that nothing follows");
}

#[test]
fn a_text_is_told_and_not_packed() {
    let folder = Folder::new();
    folder.write("play.txt", "First Citizen:\nBefore we proceed, hear me speak.\n\nAll:\nSpeak, speak.\n".repeat(9));
    let told = folder.works("data inspect play.txt").out;
    assert!(told.contains("characters") && told.contains("First Citizen:"), "{told}");
    assert_eq!(json(&folder.works("data inspect play.txt --json").out)["kind"], "text");
    let error = folder.fails(2, "data pack play.txt play.citius");
    assert!(error.contains("citius train play.txt"), "{error}");
}

#[test]
fn mistakes_are_named() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    fs::create_dir(folder.path("empty")).unwrap();
    let cases = [
        (1, "data inspect nowhere.csv", "no such file"),
        (1, "data pack nowhere.csv a.citius", "no such file"),
        (1, "data inspect houses.csv --target prize", "did you mean \"price\""),
        (1, "data pack houses.csv a.citius --target prize", "did you mean \"price\""),
        (1, "data inspect houses.csv --kind pictures", "a column of paths"),
        (1, "data inspect empty", "nothing in it is known"),
        (1, "data pack houses.csv nowhere/a.citius", "no directory nowhere"),
        (2, "data inspect houses.csv --kind pigeons", "table, pictures, series or text"),
        (2, "data inspect houses.csv --sheet a.png", "--sheet shows pictures"),
        (2, "data inspect houses.csv --verify", "packed files alone"),
        (2, "data pack houses.csv a.citius --size 8", "--size is for a folder of pictures"),
        (2, "data pack houses.csv a.citius --horizon 8", "need --window"),
        (2, "data pack houses.csv a.citius --test", "--test is for MNIST"),
        (1, "data pack houses.csv a.citius --window 400", "too few for a window"),
    ];
    for (code, words, said) in cases {
        let error = folder.fails(code, words);
        assert!(error.contains(said), "citius {words}\n{error}");
        assert!(!folder.path("a.citius").exists(), "{words}");
    }
    folder.works("data pack houses.csv a.citius");
    let mut bytes = fs::read(folder.path("a.citius")).unwrap();
    bytes[5000] ^= 1;
    folder.write("a.citius", bytes);
    assert!(folder.fails(1, "data inspect a.citius --verify").contains("damaged"));
    assert!(folder.fails(2, "data pack a.citius b.citius").contains("packed already"));
}
