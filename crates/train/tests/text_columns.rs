//! Free text as an input: a table of reviews and labels trains, in memory and streamed, is saved, read back, and predicts.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use citius_cpu::Options;
use citius_train::{Report, RunOptions, SavedModel, Silent, Training, Wishes};

/// Reviews whose sentiment is in single words or, half of the time, in a pair: "not good".
fn reviews(folder: &Path, rows: usize) -> PathBuf {
    let mut state = 11u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let plain =
        ["the", "film", "was", "seen", "in", "a", "small", "room", "with", "my", "family", "on", "monday", "it", "we"];
    let good = ["good", "great", "lovely", "brilliant"];
    let bad = ["bad", "awful", "dull", "terrible"];
    let mut text = String::from("review,label\n");
    for row in 0..rows {
        let positive = random(2) == 0;
        let negated = random(2) == 0;
        let words = if positive != negated { good } else { bad };
        let mut cell: Vec<String> = (0..6 + random(8)).map(|_| plain[random(plain.len())].to_owned()).collect();
        let at = random(cell.len());
        let said = words[random(4)];
        cell[at] = if negated { format!("not {said}") } else { format!("Very {said}") };
        text += &format!("\"{} {}.\",{}\n", cell.join(" "), row % 977, if positive { "pos" } else { "neg" });
    }
    let path = folder.join("reviews.csv");
    fs::write(&path, text).unwrap();
    path
}

fn training(source: &Path, more: &str) -> Result<Training, String> {
    let text = match more.contains("hidden") {
        true => format!("epochs = 8\nrefit = false\nseed = 1\n{more}"),
        false => format!("hidden = [16]\nepochs = 8\nrefit = false\nseed = 1\n{more}"),
    };
    let wishes = Wishes { source: Some(source.to_owned()), ..Wishes::parse(&text)? };
    Training::new(wishes).map_err(|error| error.to_string())
}

fn run(training: &Training, out: &Path) -> Report {
    let cpu = Options { threads: 1, ..Options::default() };
    let options = RunOptions { out: Some(out.to_owned()), cpu, ..RunOptions::default() };
    training.run(&options, &mut Silent, &AtomicBool::new(false)).unwrap()
}

#[test]
fn a_table_of_texts_and_labels_trains_and_predicts() {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (reviews(folder.path(), 2000), folder.path().join("run"));
    let training = training(&source, "").unwrap();
    assert_eq!(training.problem.input.width(), 2048);
    let said = |words: &str| training.choices.iter().any(|choice| choice.value.contains(words));
    assert!(said("words and pairs of words hashed to 2048 inputs"), "{:?}", training.choices);
    let report = run(&training, &out);
    assert!(report.test.accuracy.unwrap() > 0.95, "{:?}", report.test);

    let mut model = SavedModel::load(&out, Options::default()).unwrap();
    let new = folder.path().join("new.csv");
    fs::write(&new, "review\nIt was very GOOD on Monday\nit was not good on monday\nnever seen words\n").unwrap();
    let (predictions, _) = model.predict(&new).unwrap();
    assert_eq!(predictions.values[..2], [1.0, 0.0], "{predictions:?}");
    assert!(model.evaluate(&source).unwrap().0.accuracy.unwrap() > 0.95);
}

#[test]
fn inputs_and_words_in_a_row_can_be_given() {
    let folder = tempfile::tempdir().unwrap();
    let source = reviews(folder.path(), 2000);
    let accuracy = |more: &str, inputs: usize| {
        let training = training(&source, more).unwrap();
        assert_eq!(training.problem.input.width(), inputs);
        run(&training, &folder.path().join(inputs.to_string())).test.accuracy.unwrap()
    };
    let pairs = accuracy("[prepare]\ntext-features = { hash = 1024 }", 1024);
    // a "not" turns half of the words round: a linear model of single words cannot know
    let words = accuracy("hidden = \"none\"\n[prepare]\ntext-features = { hash = 512, ngrams = 1 }", 512);
    assert!(pairs > 0.93 && words < 0.75, "{pairs} {words}");
}

#[test]
fn what_cannot_be_meant_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let source = reviews(folder.path(), 200);
    let numbers = folder.path().join("numbers.csv");
    fs::write(&numbers, (0..200).fold("a,b,y\n".to_owned(), |t, i| t + &format!("{i},u{i},{}\n", i % 2))).unwrap();
    let message = |source: &Path, more: &str| training(source, more).err().unwrap_or_default();
    for (source, more, expected) in [
        (&source, "[prepare]\ntext-features = { hash = 0 }", "text-features: 0 buckets; use 1 to 65536"),
        (&source, "[prepare]\ntext-features = { ngrams = 9 }", "terms of 9 words; use 1 to 4"),
        (&source, "[prepare]\ntext-features = { hsh = 9 }", "hsh"),
        (&numbers, "[prepare]\ntext-features = {}", "no column looks like free text"),
        (&numbers, "[prepare.columns.a]\ntext-features = {}", "the column holds numbers"),
        (&numbers, "[prepare.columns.b]\ntext-features = {}\ncategorical = \"ordinal\"", "keep one of them"),
    ] {
        let message = message(source, more);
        assert!(message.contains(expected), "{more}: {message}");
    }
    let given = training(&numbers, "[prepare.columns.b]\ntext-features = { hash = 64 }").unwrap();
    assert_eq!(given.problem.input.width(), 1 + 64);
}

#[test]
fn texts_are_streamed() {
    let folder = tempfile::tempdir().unwrap();
    let source = reviews(folder.path(), 3000);
    let streamed = training(&source, "memory = \"30KB\"").unwrap();
    assert!(streamed.problem.train.resident().is_none());
    let report = run(&streamed, &folder.path().join("run"));
    assert!(report.test.accuracy.unwrap() > 0.93, "{:?}", report.test);
}

/// The cells fit into memory, their words do not: the file is read in blocks, and that is no other preparation.
#[test]
fn texts_whose_words_are_larger_than_the_memory_are_streamed() {
    let folder = tempfile::tempdir().unwrap();
    let source = reviews(folder.path(), 3000);
    let streamed = training(&source, "memory = \"2MB\"").unwrap();
    assert!(streamed.problem.train.resident().is_none());
    assert!(training(&source, "memory = \"200MB\"").unwrap().problem.train.resident().is_some());
}
