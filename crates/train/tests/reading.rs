//! What is made of rows and classes that are not as they should be, and that it is told.

use std::fs;

use citius_train::{Bytes, Problem, SourceKind, Wishes};

fn problem(text: &str, wishes: Wishes) -> Result<Problem, String> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("t.csv");
    fs::write(&source, text).unwrap();
    Problem::read(&Wishes { source: Some(source), ..wishes }).map_err(|error| error.to_string())
}

fn notes(problem: &Problem) -> Vec<&str> {
    problem.choices.iter().filter(|choice| choice.what == "note").map(|choice| choice.value.as_str()).collect()
}

fn rows_of(problem: &Problem) -> [usize; 3] {
    let rows = |set: &Option<citius_data::Dataset>| set.as_ref().map_or(0, |set| set.rows);
    [problem.train.rows(), rows(&problem.validation), rows(&problem.test)]
}

/// Rows of two numbers; every hundredth has no target.
fn gaps(rows: usize) -> String {
    (0..rows).fold("x,y\n".to_owned(), |text, i| match i % 100 {
        40 => text + &format!("{},\n", i * 13 % 977),
        _ => text + &format!("{},{}.5\n", i * 13 % 977, (i * 7) % 31),
    })
}

#[test]
fn rows_without_a_target_are_left_out_in_memory_and_in_blocks() {
    let whole = problem(&gaps(40_000), Wishes::default()).unwrap();
    let blocks = problem(&gaps(40_000), Wishes { memory: Some(Bytes(1 << 19)), ..Wishes::default() }).unwrap();
    for problem in [&whole, &blocks] {
        assert_eq!(notes(problem), ["400 of 40,000 rows have no target and are left out"]);
        assert_eq!(rows_of(problem).iter().sum::<usize>(), 39_600);
    }
}

#[test]
fn a_table_read_in_blocks_is_shared_out_as_one_in_memory() {
    // many digits: the rows that are kept take much less than the file
    let text = (0..60_000).fold("x,y\n".to_owned(), |text, i| {
        text + &format!("{:.15},{:.15}\n", (i * 13 % 977) as f64 / 977.0, (i * 7 % 31) as f64 / 31.0)
    });
    let share = |wishes: Wishes| {
        let problem = problem(&text, Wishes { memory: Some(Bytes(3 << 20)), ..wishes }).unwrap();
        assert!(problem.train.resident().is_none());
        assert!(notes(&problem).is_empty(), "{:?}", notes(&problem));
        let rows = rows_of(&problem);
        assert_eq!(rows.iter().sum::<usize>(), 60_000);
        rows.map(|rows| (rows as f64 / 600.0).round() as i64)
    };
    for (got, wanted) in share(Wishes::default()).into_iter().zip([80, 10, 10]) {
        assert!((got - wanted).abs() <= 3, "{got}% of {wanted}%");
    }
    let [train, validation, test] = share(Wishes { test: Some(0.3), validation: Some(0.2), ..Wishes::default() });
    assert!((train - 50).abs() <= 4 && (validation - 20).abs() <= 3 && (test - 30).abs() <= 3);
}

#[test]
fn one_class_is_nothing_to_learn() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |source: std::path::PathBuf, kind: SourceKind| {
        let wishes = Wishes { source: Some(source), kind: Some(kind), ..Wishes::default() };
        Problem::read(&wishes).err().unwrap().to_string()
    };
    let text = folder.path().join("aaa.txt");
    fs::write(&text, "a".repeat(5000)).unwrap();
    let told = refused(text, SourceKind::Text);
    assert!(told.contains("aaa.txt: the only character is \"a\", so there is nothing to learn"), "{told}");

    let cats = folder.path().join("pictures").join("cats");
    fs::create_dir_all(&cats).unwrap();
    (0..5).for_each(|i| fs::write(cats.join(format!("{i}.png")), b"\x89PNG").unwrap());
    let told = refused(folder.path().join("pictures"), SourceKind::Pictures);
    assert!(told.contains("the only class is \"cats\", so there is nothing to learn"), "{told}");
}
