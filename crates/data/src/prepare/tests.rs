//! The preparation as a whole, on small tables.

use super::*;
use crate::dataset::Target;

fn table(text: &str) -> Table {
    Table::from_bytes("t.csv", text.as_bytes(), &ReadOptions::default()).unwrap()
}

fn all(table: &Table) -> Vec<u32> {
    (0..table.rows as u32).collect()
}

fn fit(text: &str, target: &str) -> Result<Preparation, DataError> {
    fit_task(text, target, None)
}

fn fit_task(text: &str, target: &str, task: Option<Task>) -> Result<Preparation, DataError> {
    let table = table(text);
    let options = PrepareOptions { task, ..Default::default() };
    Preparation::fit(&table, table.column(target)?, &all(&table), &options)
}

fn inputs(preparation: &Preparation, text: &str) -> Vec<Vec<f32>> {
    let (data, rows) = preparation.encode_features(&table(text)).unwrap();
    assert_eq!(data.len(), rows * preparation.features());
    let width = preparation.features();
    data.chunks(width).map(<[f32]>::to_vec).collect()
}

fn message<T>(result: Result<T, DataError>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

fn noted(preparation: &Preparation, words: &str) -> bool {
    preparation.notes().iter().any(|note| note.to_string().contains(words))
}

const HOMES: &str = "rooms,place,garden,price\n\
    1,north,yes,10\n\
    3,south,no,20\n\
    ,west,yes,30\n\
    2,north,,40\n";

#[test]
fn mixed_columns() {
    let p = fit(HOMES, "price").unwrap();
    assert_eq!(p.task(), Task::Regression);
    assert_eq!(
        p.feature_names(),
        ["rooms", "rooms=(missing)", "place=north", "place=south", "place=west", "garden=yes", "garden=(missing)"]
    );
    let rows = inputs(&p, HOMES);
    let s = 1.5f32.sqrt();
    assert!((rows[0][0] + s).abs() < 1e-6 && (rows[1][0] - s).abs() < 1e-6);
    assert_eq!(rows[0][1..], [0., 1., 0., 0., 1., 0.]);
    assert_eq!(rows[2], [0., 1., 0., 0., 1., 1., 0.]);
    assert_eq!(rows[3][5..], [2.0 / 3.0, 1.0]);
    assert_eq!(p.target_scale(), (25.0, 125f64.sqrt()));
    let set = p.encode(&table(HOMES), &[3, 0]).unwrap();
    match set.target {
        Target::Values { data, width: 1 } => {
            assert!((data[0] - 15.0 / 125f32.sqrt()).abs() < 1e-6 && data[0] == -data[1])
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_training_rows_count() {
    let t = table(HOMES);
    let p = Preparation::fit(&t, 3, &[0, 1], &PrepareOptions::default());
    assert_eq!(p.unwrap().feature_names(), ["rooms", "place=south", "garden=yes"]);
    assert!(Preparation::fit(&t, 3, &[99], &PrepareOptions::default()).is_err());
    assert!(Preparation::fit(&t, 9, &[0], &PrepareOptions::default()).is_err());
}

#[test]
fn later_files() {
    let p = fit(HOMES, "price").unwrap();
    let new = inputs(&p, "garden,extra,place,rooms\nno,9,east,\n,8,south,1e99\n");
    assert_eq!(new[0], [0., 1., 0., 0., 0., 0., 0.]);
    assert_eq!(new[1], [1e6, 0., 0., 1., 0., 2.0 / 3.0, 1.0]);
    let bare = inputs(&p, "2,north,yes\n2,south,no\n");
    assert_eq!(bare[0], [0., 0., 1., 0., 0., 1., 0.]);
    let notes = p.notes_for(&table("garden,place,rooms\nno,east,1\nno,west,2\n")).unwrap();
    assert!(notes.iter().any(|n| n.contains("east")), "{notes:?}");

    let got = message(p.encode_features(&table("garden,plaice,rooms\nno,east,1\n")));
    assert!(got.contains(r#"column "place" (is it "plaice"?)"#), "{got}");
    let got = message(p.encode_features(&table("garden,place,rooms\nno,east,two\n")));
    assert!(got.contains("row 1") && got.contains(r#""two" is not a number"#), "{got}");
    let got = message(p.encode_features(&table("1,north\n2,south\n")));
    assert!(got.contains("by position"), "{got}");
    let got = message(p.encode(&table("garden,place,rooms\nno,east,1\n"), &[0]));
    assert!(got.contains(r#"column "price""#), "{got}");
}

#[test]
fn all_missing_in_a_later_file() {
    let p = fit(HOMES, "price").unwrap();
    let new = inputs(&p, "garden,place,rooms\n,,\n,north,\n");
    assert_eq!(new[0], [0., 1., 0., 0., 0., 2.0 / 3.0, 1.]);
}

#[test]
fn read_options_keep_text_as_text() {
    let p = fit("code,y\n01,1\na,2\nb,3\n01,4\n", "y").unwrap();
    let options = p.read_options();
    let new = Table::from_bytes("n.csv", b"code\n01\n01\n", &options).unwrap();
    assert_eq!(p.encode_features(&new).unwrap().0, [1., 0., 0., 1., 0., 0.]);
}

#[test]
fn a_column_of_dates_is_refused_for_the_cell_that_is_none() {
    let text = |odd: &str| {
        let rows =
            (0..60).map(|i| if i == 40 { format!("{odd},1\n") } else { format!("2024-01-{:02},{i}\n", i % 28 + 1) });
        format!("when,y\n{}", rows.collect::<String>())
    };
    let error = message(fit(&text("unknown"), "y"));
    assert!(error.contains("row 41") && error.contains("\"unknown\" is not a date, and 59 of 60 cells"), "{error}");
    assert!(error.contains("--missing \"unknown\"") && error.contains("prepare.dates = \"labels\""), "{error}");
    assert!(message(fit(&text("2023-02-30"), "y")).contains("is not a date"));
    // what stands for missing in pandas and in spreadsheets
    for missing in ["", "NaT", "<NA>", "#N/A"] {
        assert!(noted(&fit(&text(missing), "y").unwrap(), "dates"), "{missing}");
    }
    let labels = PrepareOptions { dates: Some(Dates::Labels), ..Default::default() };
    let table = table(&text("unknown"));
    Preparation::fit(&table, 1, &all(&table), &labels).unwrap();
}

#[test]
fn the_index_that_pandas_writes_is_left_out() {
    let text = |name: &str| {
        let rows = (0..60).map(|i| format!("{i},{},{}\n", i * 7 % 13, i % 5));
        format!("{name},x,y\n{}", rows.collect::<String>())
    };
    let fitted = fit(&text(""), "y").unwrap();
    assert_eq!((fitted.features(), fitted.feature_names()), (1, vec!["x".to_owned()]));
    assert_eq!(fit(&text("place"), "y").unwrap().features(), 2, "a counter may be a quantity");
}

#[test]
fn tasks() {
    let with = |target: &[&str], task| {
        let mut text = String::from("x,y\n");
        for (i, y) in target.iter().enumerate() {
            text += &format!("{i},{y}\n");
        }
        fit_task(&text, "y", task)
    };
    assert_eq!(with(&["0", "1", "0"], None).unwrap().task(), Task::Binary);
    let p = with(&["b", "a", "b"], None).unwrap();
    assert_eq!((p.task(), p.outputs()), (Task::Binary, 1));
    assert_eq!(p.class_labels(), ["a", "b"]);
    let p = with(&["b", "a", "c", "a", "b"], None).unwrap();
    assert_eq!((p.task(), p.outputs()), (Task::Classes, 3));
    assert!(noted(&p, "one training row only, hardly learnable: c"));
    let p = with(&["3", "5", "10", "3"], None).unwrap();
    assert_eq!(p.task(), Task::Regression);
    assert!(noted(&p, "--task classes"));
    let p = with(&["3", "5", "10", "3"], Some(Task::Classes)).unwrap();
    assert_eq!(p.class_labels(), ["3", "5", "10"]);
    assert!(message(with(&["3", "5", "10"], Some(Task::Binary))).contains("binary task has 2"));
    assert!(message(with(&["a", "b", "c"], Some(Task::Regression))).contains("row 1 holds no number"));
    assert!(message(with(&["7", "7"], None)).contains("same value"));
    assert!(message(with(&["", "?"], None)).contains("no training row has a value"));
    let names: Vec<String> = (0..60).map(|i| format!("n{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(message(with(&names, None)).contains("looks like an identifier"));
    let p = with(&["1", "", "2", "3"], None).unwrap();
    assert!(noted(&p, "1 of 4 training rows have no target"));
}

#[test]
fn unlabelled_rows() {
    let text = "x,y\n1,1\n2,\n3,3\n4,5\n";
    let p = fit(text, "y").unwrap();
    let t = table(text);
    assert_eq!(p.labelled_rows(&t, &all(&t)).unwrap(), [0, 2, 3]);
    assert!(message(p.encode(&t, &[1])).contains("row 2"));
}

#[test]
fn labels_with_a_full_stop() {
    let p = fit("x,y\n1,<=50K\n2,>50K\n3,<=50K\n", "y").unwrap();
    let test = table("x,y\n1,>50K.\n2,<=50K.\n");
    let set = p.encode(&test, &[0, 1]).unwrap();
    let want = Target::Values { data: vec![1.0, 0.0], width: 1 };
    assert_eq!(set.target, want);
    assert!(p.notes_for(&test).unwrap()[0].contains("full stop"));
    let got = message(p.encode(&table("x,y\n1,>50K\n2,none\n3,<=50K\n"), &[0, 1]));
    assert!(got.contains(r#"class "none""#) && got.contains("row 2"), "{got}");
}

#[test]
fn useless_columns_are_dropped_and_named() {
    let mut text = String::from("id,same,gone,half,x,y\n");
    for i in 0..60 {
        let half = if i % 2 == 0 { "1" } else { "" };
        text += &format!("u{i},5,,{half},{i},{}\n", i * i);
    }
    let p = fit(&text, "y").unwrap();
    assert_eq!(p.feature_names(), ["half=(present)", "x"]);
    assert!(noted(&p, "identifier or free text): id"));
    assert!(noted(&p, "same value in all training rows: same"));
    assert!(noted(&p, "no value in the training rows: gone"));
    assert!(message(fit("a,y\n5,1\n5,2\n", "y")).contains("no usable feature"));
    assert!(message(fit("y\n1\n2\n", "y")).contains("only column"));
    assert!(noted(&fit("a,b,c,y\n1,2,3,4\n2,1,9,3\n", "y").unwrap(), "more inputs"));
}

#[test]
fn skewed_columns_and_many_labels() {
    let mut text = String::from("gain,label,y\n");
    for i in 0..500 {
        let gain = if i % 50 == 0 { 10_000 + i } else { 0 };
        text += &format!("{gain},c{},{}\n", i % 100, i * 7 % 13);
    }
    let p = fit(&text, "y").unwrap();
    assert_eq!(p.features(), 1 + 64 + 1);
    assert_eq!(p.feature_names()[65], "label=(other)");
    assert!(noted(&p, "strongly skewed): gain"));
    let new = inputs(&p, "gain,label\n-5,zzz\n1,c1\n");
    assert_eq!(new[0][65], 1.0);
    assert!(new.iter().flatten().all(|v| v.is_finite()));
}

#[test]
fn numbers_read_as_text_are_noted() {
    let mut text = String::from("a,x,y\n");
    for i in 0..40 {
        let a = if i % 4 == 0 { "unknown".to_owned() } else { (i % 7).to_string() };
        text += &format!("{a},{},{i}\n", i * i);
    }
    assert!(noted(&fit(&text, "y").unwrap(), "--missing TOKEN, to have numbers): a"));
}

#[test]
fn stored_as_json() {
    let p = fit(HOMES, "price").unwrap();
    let json = serde_json::to_string(&p).unwrap();
    let back: Preparation = serde_json::from_str(&json).unwrap();
    assert_eq!(inputs(&back, HOMES), inputs(&p, HOMES));
    assert_eq!(back.notes(), p.notes());
}
