//! Whole runs on small tables: the same bits whatever happens to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use citius_cpu::Options;
use citius_nn::{ByName, OptimizerConfig, ScheduleConfig};
use citius_train::{Ending, Event, Report, RunOptions, SavedModel, Silent, Training, Wishes};

/// 150 rows: y = 2a − b² + noise, c is a colour.
fn table(folder: &Path) -> PathBuf {
    let mut state = 7u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64 * 2.0 - 1.0
    };
    let mut text = String::from("a,b,c,y\n");
    for i in 0..150 {
        let (a, b, noise) = (random(), random(), random());
        text += &format!("{a:.4},{b:.4},{},{:.4}\n", ["red", "blue", "green"][i % 3], 2.0 * a - b * b + 0.05 * noise);
    }
    let path = folder.join("points.csv");
    fs::write(&path, text).unwrap();
    path
}

fn wishes(folder: &Path) -> Wishes {
    Wishes { source: Some(table(folder)), hidden: Some(vec![16, 16]), epochs: Some(8), ..Wishes::default() }
}

fn run(training: &Training, out: &Path, threads: usize) -> Report {
    let options = RunOptions {
        out: Some(out.to_owned()),
        cpu: Options { threads, ..Options::default() },
        ..RunOptions::default()
    };
    training.run(&options, &mut Silent, &AtomicBool::new(false)).unwrap()
}

fn weights(directory: &Path) -> Vec<u8> {
    fs::read(directory.join("model.safetensors")).unwrap()
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let training = Training::new(wishes(folder.path())).unwrap();
    let made: Vec<Vec<u8>> = [1, 2, 3]
        .map(|threads| {
            let out = folder.path().join(format!("{threads}"));
            let report = run(&training, &out, threads);
            assert_eq!((report.epochs, report.epoch_losses.len(), report.refit), (8, 8, true));
            weights(&out)
        })
        .to_vec();
    assert!(made[0] == made[1] && made[1] == made[2]);
}

/// Interrupted in mid-epoch, between epochs, in the search and in the refit: as if nothing had been.
#[test]
fn resumed_runs_end_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let plateau = ScheduleConfig::by_name("plateau").unwrap();
    let cases = [
        wishes(folder.path()),
        Wishes { average: Some(0.9), refit: Some(false), ..wishes(folder.path()) },
        Wishes { schedule: Some(plateau), accumulate: Some(3), dropout: Some(0.1), ..wishes(folder.path()) },
    ];
    for (case, wishes) in cases.into_iter().enumerate() {
        let training = Training::new(wishes).unwrap();
        let whole = folder.path().join(format!("whole{case}"));
        let expected = run(&training, &whole, 1);

        let out = folder.path().join(format!("pieces{case}"));
        let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
        let mut interruptions = 0;
        let mut part = training.run(&options, &mut Silent, &AtomicBool::new(true)).unwrap();
        assert_eq!((part.ending.clone(), part.steps), (Ending::Interrupted, 1));
        while part.ending == Ending::Interrupted {
            interruptions += 1;
            assert!(interruptions < 100, "case {case} gets nowhere");
            let resumed = Training::resume(&out, None).unwrap();
            let stop = AtomicBool::new(false);
            let mut epochs = 0;
            let in_mid_epoch = interruptions % 2 == 0;
            let mut listener = |event: &Event| {
                if let Event::EpochEnded { .. } = event {
                    epochs += 1;
                    // between two epochs, or after the first step of the next one
                    if epochs == 2 && !in_mid_epoch {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
                if matches!(event, Event::Resumed { .. }) && in_mid_epoch {
                    stop.store(true, Ordering::Relaxed);
                }
            };
            part = resumed.run(&RunOptions::default(), &mut listener, &stop).unwrap();
        }
        assert!(interruptions > 5, "case {case}: {interruptions}");
        assert!(weights(&out) == weights(&whole), "case {case}");
        assert_eq!(part.epoch_losses, expected.epoch_losses, "case {case}");
        assert_eq!((part.test, part.validation, part.steps), (expected.test, expected.validation, expected.steps));
    }
}

#[test]
fn a_finished_run_has_nothing_left_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let report = run(&Training::new(wishes(folder.path())).unwrap(), &out, 1);
    let again = Training::resume(&out, None).unwrap();
    let same = again.run(&RunOptions::default(), &mut Silent, &AtomicBool::new(false)).unwrap();
    assert_eq!((same.steps, same.test), (report.steps, report.test));
}

#[test]
fn changed_data_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let training = Training::new(wishes(folder.path())).unwrap();
    let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
    training.run(&options, &mut Silent, &AtomicBool::new(true)).unwrap();
    let source = folder.path().join("points.csv");
    let text = fs::read_to_string(&source).unwrap();
    fs::write(&source, text.replace("red", "rose")).unwrap();
    // another name of a colour changes nothing that is learned from
    Training::resume(&out, None).unwrap();
    fs::write(&source, text.lines().take(140).collect::<Vec<_>>().join("\n")).unwrap();
    assert!(Training::resume(&out, None).err().unwrap().to_string().contains("not what this run was started on"));
    fs::remove_file(&source).unwrap();
    let message = Training::resume(&out, None).err().unwrap().to_string();
    assert!(message.contains("citius train SOURCE --resume"), "{message}");
}

#[test]
fn divergence_is_named_and_good_weights_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let sgd = OptimizerConfig::by_name("sgd").unwrap();
    let wild = Wishes { optimizer: Some(sgd), lr: Some(1e6), dropout: Some(0.0), ..wishes(folder.path()) };
    let mut told = false;
    let mut listener = |event: &Event| told |= matches!(event, Event::Diverged(_));
    let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
    let report = Training::new(wild).unwrap().run(&options, &mut listener, &AtomicBool::new(false)).unwrap();
    let Ending::Diverged(divergence) = &report.ending else { panic!("{:?}", report.ending) };
    assert!(told && ["loss", "gradient"].iter().any(|w| divergence.what.contains(w)), "{divergence:?}");
    assert_eq!(divergence.kept, "the initial ones");
    let mut model = SavedModel::load(&out, Options::default()).unwrap();
    let (predictions, _) = model.predict(&folder.path().join("points.csv")).unwrap();
    assert!(predictions.values.iter().all(|v| v.is_finite()));
}

#[test]
fn early_stopping_keeps_the_best() {
    let folder = tempfile::tempdir().unwrap();
    let overfitting = Wishes {
        hidden: Some(vec![64, 64]),
        epochs: Some(400),
        patience: Some(5),
        dropout: Some(0.0),
        refit: Some(false),
        ..wishes(folder.path())
    };
    let (mut best, mut stopped) = ((0, f64::INFINITY), None);
    let mut listener = |event: &Event| match event {
        Event::Validated { epoch, metrics } if metrics.loss.unwrap() < best.1 => best = (*epoch, metrics.loss.unwrap()),
        Event::EarlyStopped { epoch, best_epoch } => stopped = Some((*epoch, *best_epoch)),
        _ => {}
    };
    let out = folder.path().join("run");
    let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
    let training = Training::new(overfitting).unwrap();
    let report = training.run(&options, &mut listener, &AtomicBool::new(false)).unwrap();
    assert_eq!(report.ending, Ending::EarlyStopped);
    let (epoch, best_epoch) = stopped.unwrap();
    assert_eq!((best_epoch, report.best_epoch), (best.0, Some(best.0)));
    assert_eq!(epoch, best_epoch + 5 * training.settings.validate_every);
    assert_eq!(report.validation.loss, Some(best.1));
}

#[test]
fn a_model_takes_raw_rows_and_gives_the_targets_units() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let longer = Wishes { epochs: Some(60), dropout: Some(0.0), ..wishes(folder.path()) };
    let report = run(&Training::new(longer).unwrap(), &out, 1);
    assert!(report.test.r2.unwrap() > 0.9, "{:?}", report.test);
    let mut model = SavedModel::load(&out, Options::default()).unwrap();
    let new = folder.path().join("new.csv");
    fs::write(&new, "c,b,a\nred,0,0.5\nviolet,0,0.5\n,0,\n").unwrap();
    let (predictions, notes) = model.predict(&new).unwrap();
    assert_eq!(predictions.values.len(), 3);
    assert!((predictions.values[0] - 1.0).abs() < 0.3, "{:?}", predictions.values);
    assert!(notes.iter().any(|note| note.contains("violet")), "{notes:?}");
    let (metrics, rows, _) = model.evaluate(&folder.path().join("points.csv")).unwrap();
    assert!(rows == 150 && metrics.rmse.unwrap() < 0.4, "{metrics:?}");
}

#[test]
fn damaged_models_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    run(&Training::new(wishes(folder.path())).unwrap(), &out, 1);
    let load = || SavedModel::load(&out, Options::default()).err().map(|e| e.to_string()).unwrap_or_default();
    assert_eq!(load(), "");
    let (card, tensors) = (out.join("model.json"), out.join("model.safetensors"));
    let (text, bytes) = (fs::read_to_string(&card).unwrap(), fs::read(&tensors).unwrap());

    fs::write(&card, &text[..text.len() / 2]).unwrap();
    assert!(load().contains("cut short or damaged"));
    fs::write(&card, text.replacen("\"version\": 1", "\"version\": 2", 1)).unwrap();
    assert!(load().contains("format version 2") && load().contains("newer citius"));
    fs::write(&card, text.replacen("citius-model", "cake-recipe", 1)).unwrap();
    assert!(load().contains("not the description of a citius model"));
    let wide = text.replacen("16,\n      16", "16000000,\n      16000000", 1);
    fs::write(&card, &wide).unwrap();
    assert!(load().contains("was changed after it was saved"), "{}", load());
    let unsealed = wide.split(",\n  \"seal\"").next().unwrap().to_owned() + "\n}\n";
    fs::write(&card, unsealed).unwrap();
    assert!(load().contains("weights, the network in model.json has"), "{}", load());
    fs::write(&card, &text).unwrap();

    fs::write(&tensors, &bytes[..bytes.len() - 3]).unwrap();
    assert!(load().contains("cut short or damaged"));
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    fs::write(&tensors, &flipped).unwrap();
    assert!(load().contains("is not the one that model.json describes"));
    fs::remove_file(&tensors).unwrap();
    assert!(load().contains("cannot read"));
    fs::remove_file(&card).unwrap();
    assert!(load().contains("holds a checkpoint but no finished model"), "{}", load());
}

#[test]
fn damaged_checkpoints_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    run(&Training::new(wishes(folder.path())).unwrap(), &out, 1);
    let resume = || Training::resume(&out, None).err().map(|e| e.to_string()).unwrap_or_default();
    let path = out.join("checkpoint.safetensors");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(resume().contains("cut short or damaged"));
    fs::copy(out.join("model.safetensors"), &path).unwrap();
    assert!(resume().contains("is not a citius checkpoint"));
    fs::remove_file(&path).unwrap();
    assert!(resume().contains("holds no checkpoint to resume"));
}

/// Bits all over the file: its length, its header, its numbers.
#[test]
fn a_flipped_bit_anywhere_in_a_checkpoint_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
    let training = Training::new(wishes(folder.path())).unwrap();
    training.run(&options, &mut Silent, &AtomicBool::new(true)).unwrap();
    let path = out.join("checkpoint.safetensors");
    let whole = fs::read(&path).unwrap();
    let places = (0..whole.len()).step_by(whole.len() / 150).chain([whole.len() - 1]);
    for at in places {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        let message = Training::resume(&out, None).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(["damaged", "not a citius checkpoint"].iter().any(|w| message.contains(w)), "byte {at}: {message:?}");
    }
    fs::write(&path, &whole).unwrap();
    Training::resume(&out, None).unwrap();
}

#[test]
fn a_run_is_not_replaced_unless_forced() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let training = Training::new(wishes(folder.path())).unwrap();
    let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
    training.run(&options, &mut Silent, &AtomicBool::new(true)).unwrap();
    let before = fs::read(out.join("checkpoint.safetensors")).unwrap();
    let again = |force: bool| {
        let options = RunOptions { force, ..options.clone() };
        training.run(&options, &mut Silent, &AtomicBool::new(false)).map_err(|e| e.to_string())
    };
    let message = again(false).unwrap_err();
    assert!(["unfinished", "epoch 0 of 8", "--resume", "--force"].iter().all(|w| message.contains(w)), "{message}");
    assert!(fs::read(out.join("checkpoint.safetensors")).unwrap() == before);
    again(true).unwrap();
    let message = again(false).unwrap_err();
    assert!(!message.contains("unfinished") && message.contains("--force"), "{message}");
}
