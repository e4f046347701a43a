//! What one run has learned, taken over by another: weights, a new head, parts that stay, rates by name.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use citius_nn::Network;
use citius_train::{Ending, Pretrained, Report, RunOptions, Silent, Training, Wishes};

const SIDE: usize = 12;

/// Pictures with one of `classes` strips brighter than the others.
fn pictures(folder: &Path, classes: usize) -> PathBuf {
    let folder = folder.join(format!("of-{classes}"));
    fs::create_dir_all(&folder).unwrap();
    let mut state = classes as u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    for (name, count) in [("train", 90usize), ("t10k", 30)] {
        let mut images = [&[0, 0, 8, 3][..], &(count as u32).to_be_bytes()].concat();
        images.extend([(SIDE as u32).to_be_bytes(), (SIDE as u32).to_be_bytes()].concat());
        let mut labels = [&[0, 0, 8, 1][..], &(count as u32).to_be_bytes()].concat();
        for i in 0..count {
            labels.push((i % classes) as u8);
            for pixel in 0..SIDE * SIDE {
                let bright = pixel % SIDE * classes / SIDE == i % classes;
                images.push(random() / 2 + if bright { 127 } else { 0 });
            }
        }
        fs::write(folder.join(format!("{name}-images-idx3-ubyte")), images).unwrap();
        fs::write(folder.join(format!("{name}-labels-idx1-ubyte")), labels).unwrap();
    }
    folder
}

fn wishes(source: PathBuf) -> Wishes {
    Wishes {
        source: Some(source),
        model: Some(Network::Vgg { channels: vec![4, 6] }),
        epochs: Some(3),
        batch_size: Some(15),
        lr: Some(3e-3),
        patience: Some(0),
        ..Wishes::default()
    }
}

fn run(training: &Training, out: &Path, stop: bool) -> Report {
    let options = RunOptions { out: Some(out.to_owned()), force: true, ..RunOptions::default() };
    training.run(&options, &mut Silent, &AtomicBool::new(stop)).unwrap()
}

fn said(training: &Training, what: &str) -> String {
    training.choices.iter().filter(|c| c.what == what).map(|c| format!("{} ({})", c.value, c.why)).collect()
}

/// A run on two classes, whose directory it returns.
fn trained(folder: &Path) -> PathBuf {
    let out = folder.join("first");
    run(&Training::new(wishes(pictures(folder, 2))).unwrap(), &out, false);
    out
}

#[test]
fn another_number_of_classes_gets_a_new_head_and_what_is_frozen_keeps_its_bits() {
    let folder = tempfile::tempdir().unwrap();
    let first = trained(folder.path());
    let training = Training::new(Wishes {
        weights: Some(first.clone()),
        freeze: Some(vec!["body".into()]),
        lr: Some(0.05),
        epochs: Some(12),
        ..wishes(pictures(folder.path(), 3))
    })
    .unwrap();
    let line = said(&training, "weights");
    assert!(line.contains("fc.bias, fc.weight made anew (for 3 outputs, the file has 2)"), "{line}");
    assert!(said(&training, "frozen").contains("numbers stay as they are"), "{}", said(&training, "frozen"));
    let second = folder.path().join("second");
    let report = run(&training, &second, false);

    let (before, after) = (Pretrained::read(&first).unwrap(), Pretrained::read(&second).unwrap());
    let bits = |file: &Pretrained, name: &str| {
        let (_, values) = file.tensor(name).unwrap().unwrap();
        values.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
    };
    let mut moments = 0;
    for name in before.shapes().keys().filter(|name| !name.starts_with("fc")) {
        assert!(bits(&before, name) == bits(&after, name), "{name} has moved");
        moments += usize::from(name.contains("running"));
    }
    assert!(moments >= 4, "batch norm's moments are part of it");
    assert_eq!(after.shapes()["fc.weight"][0], 3);
    assert!(report.epoch_losses[11] < 0.7 * report.epoch_losses[0], "the head learns: {:?}", report.epoch_losses);
}

#[test]
fn a_run_begins_where_the_other_ended() {
    let folder = tempfile::tempdir().unwrap();
    let first = trained(folder.path());
    let rate = |text: &str| Some(vec![text.parse().unwrap()]);
    let with = |more: Wishes| {
        let training =
            Training::new(more.or(Wishes { weights: Some(first.clone()), ..wishes(pictures(folder.path(), 2)) }));
        training.unwrap()
    };
    // everything at a rate of 0: only batch norm's moments move
    let training = with(Wishes { rates: rate("*=0"), ..Wishes::default() });
    assert!(said(&training, "rates").contains("* × 0"), "{:?}", training.choices);
    let out = folder.path().join("still");
    run(&training, &out, false);
    let (before, after) = (Pretrained::read(&first).unwrap(), Pretrained::read(&out).unwrap());
    for name in before.shapes().keys().filter(|name| !name.contains("running")) {
        assert_eq!(before.tensor(name).unwrap(), after.tensor(name).unwrap(), "{name}");
    }
    // a new head although it fits
    let anew = with(Wishes { new_head: Some(true), freeze: Some(vec!["body".into()]), ..Wishes::default() });
    assert!(said(&anew, "weights").contains("made anew (as told)"), "{}", said(&anew, "weights"));
    let out = folder.path().join("anew");
    run(&anew, &out, false);
    let after = Pretrained::read(&out).unwrap();
    assert_ne!(before.tensor("fc.weight").unwrap(), after.tensor("fc.weight").unwrap());
}

#[test]
fn rates_by_name_reach_the_step() {
    let folder = tempfile::tempdir().unwrap();
    let first = trained(folder.path());
    let moved = |rates: &[&str], name: &str| {
        let training = Training::new(Wishes {
            weights: Some(first.clone()),
            epochs: Some(1),
            optimizer: Some(citius_nn::OptimizerConfig::Sgd(citius_nn::Sgd::default())),
            schedule: Some(citius_nn::ScheduleConfig::Constant),
            batch_size: Some(90),
            rates: Some(rates.iter().map(|rate| rate.parse().unwrap()).collect()),
            ..wishes(pictures(folder.path(), 2))
        })
        .unwrap();
        let out = folder.path().join("moved");
        run(&training, &out, false);
        let files = [&first, &out].map(|path| Pretrained::read(path).unwrap().tensor(name).unwrap().unwrap().1);
        files[0].iter().zip(&files[1]).map(|(a, b)| (a - b).abs() as f64).sum::<f64>()
    };
    let whole = moved(&[], "fc.weight");
    let tenth = moved(&["fc.*=0.1"], "fc.weight");
    assert!((tenth / whole - 0.1).abs() < 0.01, "{tenth} of {whole}");
    // the first pattern that covers a name counts
    let first = moved(&["fc.weight=0.5", "fc.*=0.1"], "fc.weight");
    assert!((first / whole - 0.5).abs() < 0.01, "{first} of {whole}");
}

#[test]
fn interrupted_runs_go_on_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let first = trained(folder.path());
    let copy = folder.path().join("copy.safetensors");
    fs::copy(first.join("model.safetensors"), &copy).unwrap();
    let training = Training::new(Wishes {
        weights: Some(copy.clone()),
        freeze: Some(vec!["stages.0.*".into()]),
        rates: Some(vec!["fc.*=2".parse().unwrap()]),
        ..wishes(pictures(folder.path(), 3))
    });
    let training = match training {
        Ok(training) => training,
        Err(error) => panic!("{error}"),
    };
    let [whole, pieces] = ["whole", "pieces"].map(|name| folder.path().join(name));
    run(&training, &whole, false);
    assert_eq!(run(&training, &pieces, true).ending, Ending::Interrupted);
    // the checkpoint holds what was taken over
    fs::remove_file(&copy).unwrap();
    let report =
        Training::resume(&pieces, None).unwrap().run(&RunOptions::default(), &mut Silent, &AtomicBool::new(false));
    assert_eq!(report.unwrap().ending, Ending::Completed);
    let bytes = |out: &Path| fs::read(out.join("model.safetensors")).unwrap();
    assert!(bytes(&whole) == bytes(&pieces));
}

#[test]
fn mistakes_say_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let source = pictures(folder.path(), 2);
    let refused = |more: Wishes| Training::new(more.or(wishes(source.clone()))).err().unwrap().to_string();
    let names = |text: &str| Some(vec![text.to_owned()]);
    let message = refused(Wishes { freeze: names("layer9.*"), ..Wishes::default() });
    assert!(message.contains("no tensor of the network is called \"layer9.*\"; there are"), "{message}");
    let message = refused(Wishes { freeze: names("*"), ..Wishes::default() });
    assert!(message.contains("everything is frozen"), "{message}");
    let message = refused(Wishes { new_head: Some(true), ..Wishes::default() });
    assert!(message.contains("give --weights too"), "{message}");
    let message = refused(Wishes { weights: Some("none.safetensors".into()), ..Wishes::default() });
    assert!(message.contains("none.safetensors") && message.contains("no such file"), "{message}");
    // of another network
    let other = trained(folder.path());
    let network = Some(Network::Vgg { channels: vec![5, 6] });
    let message = refused(Wishes { weights: Some(other), model: network, ..Wishes::default() });
    assert!(message.contains("there and") && message.contains("does not fit the network"), "{message}");
}
