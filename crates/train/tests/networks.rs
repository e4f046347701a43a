//! Networks by name, from files of pictures to a saved model and back.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use citius_cpu::Options;
use citius_nn::{ByName, Network};
use citius_train::{Ending, Report, RunOptions, SavedModel, Silent, Training, Wishes};

const SIDE: usize = 16;

/// Pictures that are brighter on the left, or on the right.
fn pictures(folder: &Path) -> PathBuf {
    let mut state = 7u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    for (name, count) in [("train", 120usize), ("t10k", 60)] {
        let mut images = [&[0, 0, 8, 3][..], &(count as u32).to_be_bytes()].concat();
        images.extend((SIDE as u32).to_be_bytes());
        images.extend((SIDE as u32).to_be_bytes());
        let mut labels = [&[0, 0, 8, 1][..], &(count as u32).to_be_bytes()].concat();
        for i in 0..count {
            let right = i % 2;
            labels.push(right as u8);
            for pixel in 0..SIDE * SIDE {
                let bright = (pixel % SIDE >= SIDE / 2) == (right == 1);
                images.push(random() / 2 + if bright { 127 } else { 0 });
            }
        }
        fs::write(folder.join(format!("{name}-images-idx3-ubyte")), images).unwrap();
        fs::write(folder.join(format!("{name}-labels-idx1-ubyte")), labels).unwrap();
    }
    folder.to_owned()
}

fn wishes(folder: &Path, network: Network) -> Wishes {
    Wishes {
        source: Some(pictures(folder)),
        model: Some(network),
        epochs: Some(8),
        batch_size: Some(15),
        lr: Some(3e-3),
        ..Wishes::default()
    }
}

fn run(training: &Training, out: &Path, threads: usize) -> Report {
    let cpu = Options { threads, ..Options::default() };
    let options = RunOptions { out: Some(out.to_owned()), cpu, ..RunOptions::default() };
    training.run(&options, &mut Silent, &AtomicBool::new(false)).unwrap()
}

#[test]
fn networks_learn_and_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let networks = [
        Network::Lenet { channels: [4, 6], hidden: 8 },
        Network::Vgg { channels: vec![4, 6] },
        Network::Resnet18 { width: 4 },
        Network::Vit { patch: 4, width: 16, heads: 2, layers: 1 },
    ];
    for network in networks {
        let name = network.name();
        let training = Training::new(wishes(folder.path(), network)).unwrap();
        let out = folder.path().join(name);
        let report = run(&training, &out, 1);
        assert!(report.test.accuracy.unwrap() > 0.9, "{name}: {:?}", report.test);
        let mut model = SavedModel::load(&out, Options::default()).unwrap();
        let (metrics, rows, _) = model.evaluate(folder.path()).unwrap();
        assert_eq!((rows, metrics.accuracy), (60, report.test.accuracy), "{name}");
        assert!((metrics.loss.unwrap() - report.test.loss.unwrap()).abs() < 1e-6, "{name}");
    }
}

/// Running means and variances are part of what is kept.
#[test]
fn the_same_bits_for_any_threads_and_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let training = Training::new(wishes(folder.path(), Network::Vgg { channels: vec![4, 6] })).unwrap();
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
        let stop = AtomicBool::new(pieces < 3);
        report = resumed.run(&RunOptions::default(), &mut Silent, &stop).unwrap();
        pieces += 1;
    }
    assert!(pieces > 2 && weights(&out) == one);
}

#[test]
fn a_network_that_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.csv");
    fs::write(&table, "a,b,y\n".to_owned() + &"1,2,3\n2,3,4\n4,1,2\n".repeat(20)).unwrap();
    let model = Network::by_name("lenet").unwrap();
    let wishes = Wishes { source: Some(table), target: Some("y".into()), model: Some(model), ..Wishes::default() };
    let message = Training::new(wishes).err().unwrap().to_string();
    assert!(message.contains("lenet is for pictures"), "{message}");
}
