//! Labels with learned vectors: `categorical = "embedding"` trains, is saved, read back, and streams.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use citius_cpu::Options;
use citius_train::{Report, RunOptions, SavedModel, Silent, Training, Wishes};

/// Sales are the level of one of 60 stores, in no order, and a little of `x`.
fn stores(folder: &Path, rows: usize) -> PathBuf {
    let mut state = 5u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    let levels: Vec<f64> = (0..60).map(|_| random() * 100.0).collect();
    let mut text = String::from("store,x,sales\n");
    for _ in 0..rows {
        let (store, x) = ((random() * 60.0) as usize, random());
        text += &format!("s{store},{x:.4},{:.3}\n", levels[store] + 5.0 * x);
    }
    let path = folder.join("stores.csv");
    fs::write(&path, text).unwrap();
    path
}

fn training(source: &Path, more: &str) -> Result<Training, String> {
    let text = format!("epochs = 60\nlr = 0.005\nhidden = [32]\nrefit = false\n{more}");
    let told = Wishes { source: Some(source.to_owned()), ..Wishes::parse(&text)? };
    Training::new(told).map_err(|error| error.to_string())
}

fn run(training: &Training, out: &Path) -> Report {
    let cpu = Options { threads: 1, ..Options::default() };
    let options = RunOptions { out: Some(out.to_owned()), cpu, ..RunOptions::default() };
    training.run(&options, &mut Silent, &AtomicBool::new(false)).unwrap()
}

const EMBEDDED: &str = "[prepare]\ncategorical = \"embedding\"";

#[test]
fn labels_in_no_order_are_learned_as_well_as_one_hot() {
    let folder = tempfile::tempdir().unwrap();
    let source = stores(folder.path(), 1500);
    for prepare in ["", EMBEDDED] {
        let out = folder.path().join(format!("run{}", prepare.len()));
        let report = run(&training(&source, prepare).unwrap(), &out);
        assert!(report.test.r2.unwrap() > 0.985, "{prepare:?} {:?}", report.test);
        let mut model = SavedModel::load(&out, Options::default()).unwrap();
        let (predictions, _) = model.predict(&source).unwrap();
        let cells = fs::read_to_string(&source).unwrap();
        let sales = cells.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse::<f64>().unwrap());
        let wrong = sales.zip(&predictions.values).map(|(y, p)| (y - p).abs()).sum::<f64>() / 1500.0;
        assert!(wrong < 4.0, "{prepare:?}: off by {wrong} on average, levels are 0 to 100");
    }
    let weights = fs::read(folder.path().join(format!("run{}", EMBEDDED.len())).join("model.safetensors")).unwrap();
    assert!(String::from_utf8_lossy(&weights[..1000]).contains("embeddings.0.weight"));
}

#[test]
fn a_streamed_table_has_the_same_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let source = stores(folder.path(), 60_000);
    let memory = Some("100kB".parse().unwrap());
    let wishes = training(&source, EMBEDDED).unwrap().wishes().clone();
    let streamed = Training::new(Wishes { memory, epochs: Some(6), refit: None, ..wishes }).unwrap();
    assert!(streamed.problem.train.resident().is_none());
    let report = run(&streamed, &folder.path().join("run"));
    assert!(report.test.r2.unwrap() > 0.985, "{:?}", report.test);
}

#[test]
fn layers_of_their_own_come_behind_the_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let source = stores(folder.path(), 300);
    let text = format!(
        "epochs = 2\nactivation = \"gelu\"\ndropout = 0.1\n\
        layers = [{{ units = 8, norm = \"layer\" }}, {{ units = 8, residual = true }}]\n{EMBEDDED}"
    );
    let told = Wishes { source: Some(source.clone()), ..Wishes::parse(&text).unwrap() };
    run(&Training::new(told).unwrap(), &folder.path().join("run"));
    SavedModel::load(&folder.path().join("run"), Options::default()).unwrap().predict(&source).unwrap();
}
