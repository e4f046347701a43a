//! Prediction intervals: `quantiles = [0.1, 0.5, 0.9]` trains in memory, streamed and for series, is saved, read back, and
//! covers what it should.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use citius_cpu::Options;
use citius_data::OnError;
use citius_train::{PredictOptions, Report, RunOptions, SavedModel, Silent, Training, Wishes};

/// `y` is 10 x plus noise of a width that grows with x: its 0.1- and 0.9-quantiles are 10 x ± 4 x.
fn fans(folder: &Path, rows: usize) -> PathBuf {
    let mut state = 7u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    let mut text = String::from("x,z,y\n");
    for _ in 0..rows {
        let (x, z) = (random(), random());
        text += &format!("{x:.5},{z:.5},{:.5}\n", 10.0 * x + 5.0 * x * (2.0 * random() - 1.0));
    }
    let path = folder.join("fans.csv");
    fs::write(&path, text).unwrap();
    path
}

fn training(source: &Path, more: &str) -> Result<Training, String> {
    let text = format!("hidden = [32]\nlr = 0.01\nepochs = 40\nrefit = false\n{more}");
    let wishes = Wishes { source: Some(source.to_owned()), ..Wishes::parse(&text)? };
    Training::new(wishes).map_err(|error| error.to_string())
}

fn run(training: &Training, out: &Path) -> Report {
    let cpu = Options { threads: 1, ..Options::default() };
    let options = RunOptions { out: Some(out.to_owned()), cpu, ..RunOptions::default() };
    training.run(&options, &mut Silent, &AtomicBool::new(false)).unwrap()
}

/// Test rows are covered as they should be, by an interval that is no wider than it must be.
fn covers(report: &Report) {
    let m = &report.test;
    assert_eq!(m.nominal_coverage, Some(0.8));
    let (coverage, width) = (m.coverage.unwrap(), m.mean_width.unwrap());
    assert!((0.72..0.88).contains(&coverage), "coverage {coverage}");
    // 8 x on average, x between 0 and 1
    assert!((3.0..5.2).contains(&width), "width {width}");
    assert!(m.pinball_loss.unwrap() < m.mae.unwrap() && m.r2.unwrap() > 0.6, "{m:?}");
}

#[test]
fn intervals_cover_their_share_of_the_test_rows_and_grow_with_the_noise() {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (fans(folder.path(), 3000), folder.path().join("run"));
    let report = run(&training(&source, "quantiles = [0.1, 0.5, 0.9]").unwrap(), &out);
    covers(&report);

    let mut model = SavedModel::load(&out, Options::default()).unwrap();
    assert_eq!(model.quantile_names(), ["y_q0.1", "y_q0.5", "y_q0.9"]);
    let new = folder.path().join("new.csv");
    fs::write(&new, "x,z\n0.2,0.5\n0.9,0.5\n").unwrap();
    let (predictions, _) = model.predict(&new).unwrap();
    let [narrow, wide] = &predictions.quantiles[..] else { panic!("{predictions:?}") };
    assert_eq!(predictions.values, [narrow[1], wide[1]]);
    assert!(predictions.quantiles.iter().all(|row| row.is_sorted()));
    assert!(wide[2] - wide[0] > 2.0 * (narrow[2] - narrow[0]), "{predictions:?}");
    assert!((wide[1] - 9.0).abs() < 1.0 && (wide[2] - wide[0] - 7.2).abs() < 2.5, "{wide:?}");

    let (metrics, rows, _) = model.evaluate(&source).unwrap();
    assert!(rows == 3000 && (metrics.coverage.unwrap() - 0.8).abs() < 0.06, "{metrics:?}");
}

#[test]
fn a_row_that_cannot_be_read_has_no_quantiles() {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (fans(folder.path(), 300), folder.path().join("run"));
    run(&training(&source, "quantiles = [0.1, 0.9]").unwrap(), &out);
    let new = folder.path().join("new.csv");
    fs::write(&new, "x,z\n0.2,0.5\nabc,0.5\n0.9,0.5\n").unwrap();
    let mut model = SavedModel::load(&out, Options::default()).unwrap();
    let options = PredictOptions { on_error: OnError::Skip, ..PredictOptions::default() };
    let (predictions, _) = model.predict_with(&[new], &options).unwrap();
    assert!(predictions.values[1].is_nan() && predictions.quantiles[1].is_empty(), "{predictions:?}");
    assert_eq!(predictions.quantiles.iter().map(Vec::len).collect::<Vec<_>>(), [2, 0, 2]);
}

#[test]
fn streamed_tables_have_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let source = fans(folder.path(), 9000);
    let streamed = training(&source, "quantiles = [0.1, 0.5, 0.9]\nmemory = \"90KB\"").unwrap();
    assert!(streamed.problem.train.resident().is_none());
    covers(&run(&streamed, &folder.path().join("streamed")));
}

#[test]
fn a_series_has_an_interval_for_each_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("waves.csv");
    let rows = (0..900).map(|i| format!("{:.4}\n", (i as f64 * 0.3).sin() * 10.0 + (i * 7919 % 101) as f64 * 0.02));
    fs::write(&path, format!("load\n{}", rows.collect::<String>())).unwrap();
    let out = folder.path().join("run");
    let text = "window = 24\nhorizon = 3\nepochs = 6\nquantiles = [0.1, 0.9]";
    let wishes = Wishes { source: Some(path.clone()), ..Wishes::parse(text).unwrap() };
    let report = run(&Training::new(wishes).unwrap(), &out);
    assert!(report.test.coverage.is_some() && report.test.r2.unwrap() > 0.8, "{:?}", report.test);
    let mut model = SavedModel::load(&out, Options::default()).unwrap();
    assert_eq!(model.quantile_names(), ["load_q0.1", "load_q0.9"]);
    let (ahead, _) = model.predict(&path).unwrap();
    assert_eq!((ahead.values.len(), ahead.quantiles.len()), (3, 3));
    let inside = |(value, row): (&f64, &Vec<f64>)| row[0] <= *value && *value <= row[1];
    assert!(ahead.values.iter().zip(&ahead.quantiles).all(inside), "{ahead:?}");
}

#[test]
fn what_quantiles_cannot_be_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let source = fans(folder.path(), 200);
    let classes = folder.path().join("classes.csv");
    fs::write(&classes, (0..200).fold("a,y\n".to_owned(), |t, i| t + &format!("{i},{}\n", ["u", "v", "w"][i % 3])))
        .unwrap();
    let message = |source: &Path, more: &str| training(source, more).err().unwrap_or_default();
    for (source, more, expected) in [
        (&classes, "quantiles = [0.1, 0.9]", "quantiles are of a number to predict, and the task is classes"),
        (&source, "quantiles = [0.1, 0.9]\nloss = \"mae\"", "leave --loss out"),
        (&source, "quantiles = [0.9, 0.1]", "write them rising"),
        (&source, "quantiles = [0.0, 0.5]", "above 0 and below 1"),
        (&source, "quantiles = []", "there are no quantiles"),
        (&source, "quantiles = [0.1, 0.9]\nhead = \"softmax\"", "leave the head out"),
        (&source, "quantiles = [0.1, 0.9]\nbroadcast = true", "broadcast is for one prediction"),
    ] {
        let message = message(source, more);
        assert!(message.contains(expected), "{more}: {message}");
    }
}

#[test]
fn the_loss_by_name_is_the_same_as_its_quantiles() {
    let folder = tempfile::tempdir().unwrap();
    let source = fans(folder.path(), 200);
    let settings = |more: &str| training(&source, more).unwrap().settings;
    let given = settings("quantiles = [0.1, 0.5, 0.9]");
    assert_eq!(settings("loss = \"quantile\""), given);
    assert_eq!(settings("loss = { name = \"quantile\", quantiles = [0.1, 0.5, 0.9] }"), given);
}
