//! A text read token by token: windows, losses at every place, a saved model that goes on with a text.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use citius_cpu::Options;
use citius_nn::Network;
use citius_train::{Ending, Report, RunOptions, Sampling, SavedModel, Silent, SourceKind, Training, Wishes};

/// Words that follow one another in a fixed order.
fn text(folder: &Path) -> PathBuf {
    let path = folder.join("poem.txt");
    fs::write(&path, "red roses, blue seas.\n".repeat(120)).unwrap();
    path
}

fn wishes(folder: &Path) -> Wishes {
    Wishes {
        source: Some(text(folder)),
        model: Some(Network::Gpt { width: 16, heads: 2, layers: 1 }),
        window: Some(24),
        batch_size: Some(8),
        epochs: Some(50),
        lr: Some(1e-2),
        dropout: Some(0.0),
        ..Wishes::default()
    }
}

fn run(training: &Training, out: &Path, threads: usize) -> Report {
    let cpu = Options { threads, ..Options::default() };
    let options = RunOptions { out: Some(out.to_owned()), cpu, ..RunOptions::default() };
    training.run(&options, &mut Silent, &AtomicBool::new(false)).unwrap()
}

#[test]
fn a_text_is_learned_and_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let training = Training::new(wishes(folder.path())).unwrap();
    assert_eq!(training.problem.train.rows() % 8, 0, "no smaller batch at the end");
    let validation = training.problem.validation.as_ref().unwrap();
    assert_eq!((validation.rows, validation.width()), (263 / 24, 24), "the last tenth, end to end");
    let out = folder.path().join("one");
    let report = run(&training, &out, 1);
    // the first letters of a window may be any; the others follow
    assert!(report.validation.loss.unwrap() < 0.3, "{:?}", report.validation);
    assert_eq!(report.validation.loss, report.validation.log_loss);

    let mut model = SavedModel::load(&out, Options::default()).unwrap();
    let vocabulary = model.vocabulary().unwrap().clone();
    let mut goes_on = |prompt: &str, temperature: f64, length: usize| -> String {
        let mut writer = model.writer(prompt, Sampling { temperature, seed: 3 }).unwrap();
        let tokens: Vec<i32> = (0..length).map(|_| writer.next_token().unwrap()).collect();
        vocabulary.decode(&tokens)
    };
    // beyond the window, too
    assert_eq!(goes_on("red ro", 0.0, 40), "ses, blue seas.\nred roses, blue seas.\nre");
    assert_eq!(goes_on("red ro", 0.5, 30), goes_on("red ro", 0.5, 30));
    for (prompt, temperature, why) in
        [("", 1.0, "nothing to go on"), ("rad!", 1.0, "never seen"), ("r", -1.0, "temperature")]
    {
        let error = model.writer(prompt, Sampling { temperature, seed: 0 }).err().unwrap().to_string();
        assert!(error.contains(why), "{error}");
    }
    let (metrics, rows, _) = model.evaluate(&folder.path().join("poem.txt")).unwrap();
    assert_eq!(rows, (22 * 120 - 1) / 24);
    assert!(metrics.loss.unwrap() < 0.3);
}

#[test]
fn the_same_bits_for_any_threads_and_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let training = Training::new(Wishes { epochs: Some(4), dropout: Some(0.1), ..wishes(folder.path()) }).unwrap();
    let weights = |out: &Path| fs::read(out.join("model.safetensors")).unwrap();
    let [one, two] = [1, 2].map(|threads| {
        let out = folder.path().join(format!("{threads}"));
        run(&training, &out, threads);
        weights(&out)
    });
    assert!(one == two);
    let out = folder.path().join("pieces");
    let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
    let mut report = training.run(&options, &mut Silent, &AtomicBool::new(true)).unwrap();
    let mut pieces = 1;
    while report.ending == Ending::Interrupted {
        let resumed = Training::resume(&out, None).unwrap();
        report = resumed.run(&RunOptions::default(), &mut Silent, &AtomicBool::new(pieces < 3)).unwrap();
        pieces += 1;
    }
    assert!(pieces > 2 && weights(&out) == one);
}

#[test]
fn networks_and_windows_that_do_not_fit_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let message = |wishes: Wishes| Training::new(wishes).err().unwrap().to_string();
    let odd = Network::Gpt { width: 10, heads: 3, layers: 1 };
    assert!(message(Wishes { model: Some(odd), ..wishes(folder.path()) }).contains("3 heads do not divide"));
    assert!(message(Wishes { window: Some(5000), ..wishes(folder.path()) }).contains("too few for a window of 5000"));
    let huber = citius_nn::Loss::Huber { delta: 1.0 };
    assert!(message(Wishes { loss: Some(huber), ..wishes(folder.path()) }).contains("use cross-entropy"));
    let digits = Wishes { source: None, window: None, ..wishes(folder.path()) };
    assert!(message(digits).contains("gpt is for the tokens of a text"));
    // other networks see the same text one-hot
    let gru = Network::Gru { hidden: 8, layers: 1 };
    let training = Training::new(Wishes {
        model: Some(gru),
        kind: Some(SourceKind::Text),
        window: Some(6),
        ..wishes(folder.path())
    })
    .unwrap();
    assert_eq!(training.problem.train.width() % 6, 0);
}
