//! Whole runs on either device: the same body for both, and runs that change between them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use citius_data::{Dataset, Features, InMemory, Target};
use citius_nn::{ByName, OptimizerConfig, ScheduleConfig};
use citius_train::{
    Device, Ending, Event, Feed, Input, Loaded, LoadingOptions, Material, Precision, Problem, Report, RunOptions,
    Training, Wishes,
};

const GPU: Device = Device::Cuda(0);

#[test]
fn on_the_processor() {
    all_of_it(Device::Cpu);
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn on_a_gpu() {
    all_of_it(GPU);
}

#[test]
fn from_the_processor_to_itself() {
    moves(Device::Cpu, Device::Cpu);
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn from_a_gpu_to_the_processor_and_back() {
    moves(GPU, Device::Cpu);
    moves(Device::Cpu, GPU);
}

#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn both_learn_alike() {
    let folder = tempfile::tempdir().unwrap();
    let losses = [Device::Cpu, GPU].map(|device| {
        run(&training(resident(), Wishes::default()), &folder.path().join(device.to_string()), device).epoch_losses
    });
    near(&losses[0], &losses[1]);
}

/// Wide enough for the library's products; gradients of 16 bits come with a scaled loss.
#[test]
#[ignore = "needs a GPU: cargo xtask gpu"]
fn halves_learn_like_whole_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let losses = [Precision::Fp32, Precision::Bf16, Precision::Fp16].map(|precision| {
        let wishes = Wishes {
            hidden: Some(vec![1024, 1024]),
            batch_size: Some(500),
            precision: Some(precision),
            ..Wishes::default()
        };
        let training = training(resident(), wishes);
        run(&training, &folder.path().join(precision.to_string()), GPU).epoch_losses
    });
    let near = |a: &[f64], b: &[f64], by: f64| a.iter().zip(b).all(|(a, b)| (a - b).abs() < by * a);
    assert!(near(&losses[0], &losses[1], 0.1), "bf16: {losses:?}");
    assert!(near(&losses[0], &losses[2], 0.02), "fp16: {losses:?}");
}

/// Two classes told apart by a line through 32 features, kept as bytes.
fn rows() -> Dataset {
    let byte = |i: usize| ((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8;
    let data: Vec<u8> = (0..2000 * 32).map(byte).collect();
    let classes = data.chunks(32).map(|row| (row[0] as i32 + row[1] as i32 > row[2] as i32 * 2) as i32).collect();
    let features = Features::U8 { data, width: 32, scale: 1.0 / 128.0, shift: -1.0 };
    Dataset::new(2000, features, Target::Classes { data: classes, classes: 2 }).unwrap()
}

fn resident() -> Material {
    Material::Resident(rows())
}

fn loaded() -> Material {
    let source = Feed::Source(Arc::new(InMemory::new("rows", Arc::new(rows())).unwrap()));
    Material::Loaded(Loaded::new(source, (1.0 / 128.0, -1.0), LoadingOptions::default()).unwrap())
}

/// 118 steps an epoch, the last a smaller one, and a layer that processors keep in strips.
fn training(train: Material, wishes: Wishes) -> Training {
    let mut problem = Problem::digits(10, 10).unwrap();
    let labels = vec!["below".into(), "above".into()];
    problem.input = Input::Images { height: 4, width: 8, scale: 1.0 / 128.0, shift: -1.0, labels };
    (problem.train, problem.validation, problem.test) = (train, Some(rows()), None);
    let own = Wishes {
        hidden: Some(vec![128, 64]),
        dropout: Some(0.0),
        epochs: Some(5),
        batch_size: Some(17),
        patience: Some(0),
        refit: Some(false),
        ..Wishes::default()
    };
    Training::on(problem, wishes.or(own)).unwrap()
}

fn run(training: &Training, out: &Path, device: Device) -> Report {
    run_until(training, out, Some(device), false, None)
}

/// Stops after the epoch, or at once.
fn run_until(training: &Training, out: &Path, device: Option<Device>, at_once: bool, epoch: Option<usize>) -> Report {
    let options = RunOptions { out: Some(out.to_owned()), force: true, device, ..RunOptions::default() };
    let stop = AtomicBool::new(at_once);
    let mut listener = |event: &Event| {
        if let Event::EpochEnded { epoch: ended, .. } = event {
            stop.fetch_or(epoch.is_some_and(|epoch| *ended >= epoch), Ordering::Relaxed);
        }
    };
    training.run(&options, &mut listener, &stop).unwrap()
}

fn weights(out: &Path) -> Vec<u8> {
    fs::read(out.join("model.safetensors")).unwrap()
}

#[track_caller]
fn near(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-2 * a.abs() + 1e-4), "{a:?}\n{b:?}");
}

/// The same bits again, from a loader, and in pieces; and a divergence is told.
fn all_of_it(device: Device) {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name);
    let plateau = ScheduleConfig::by_name("plateau").unwrap();
    let kinds = [
        Wishes::default(),
        Wishes { average: Some(0.9), accumulate: Some(3), schedule: Some(plateau), ..Wishes::default() },
    ];
    for (kind, wishes) in kinds.into_iter().enumerate() {
        let whole = training(resident(), wishes.clone());
        let report = run(&whole, &out("whole"), device);
        assert_eq!((report.device.as_str(), report.epochs), (device.to_string().as_str(), 5));
        assert!(report.validation.accuracy.unwrap() > 0.9, "{:?}", report.validation);
        run(&whole, &out("again"), device);
        assert!(weights(&out("again")) == weights(&out("whole")), "{kind}: not the same bits again");
        // on a GPU another plan may be cut otherwise, and round otherwise
        let loaded = run(&training(loaded(), wishes), &out("loaded"), device);
        near(&loaded.epoch_losses, &report.epoch_losses);
        let same = weights(&out("loaded")) == weights(&out("whole"));
        assert!(same || device != Device::Cpu, "{kind}: not the same bits from a loader");

        // in the middle of an epoch, then between two
        let mut part = run_until(&whole, &out("pieces"), Some(device), true, None);
        assert!(part.ending == Ending::Interrupted && part.steps > 0);
        for (at_once, epoch) in [(true, None), (false, Some(2)), (true, None), (false, None)] {
            let resumed = training(resident(), Wishes::default()).going_on(&out("pieces")).unwrap();
            part = run_until(&resumed, &out("pieces"), None, at_once, epoch);
            assert_eq!(part.device, device.to_string(), "goes on where it began");
        }
        assert_eq!((part.ending, part.steps), (Ending::Completed, report.steps));
        assert_eq!(part.epoch_losses, report.epoch_losses, "{kind}");
        assert!(weights(&out("pieces")) == weights(&out("whole")), "{kind}: not the same bits in pieces");
    }
    let sgd = OptimizerConfig::by_name("sgd").unwrap();
    let wild = Wishes { optimizer: Some(sgd), lr: Some(1e30), ..Wishes::default() };
    let Ending::Diverged(told) = run(&training(resident(), wild), &out("wild"), device).ending else {
        panic!("it does not diverge")
    };
    assert!(told.step < 10, "the first trouble, not the last: {told:?}");
}

/// Begun on one device, finished on another.
fn moves(from: Device, to: Device) {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name);
    let began = training(resident(), Wishes::default());
    let whole = run(&began, &out("whole"), from);
    let part = run_until(&began, &out("moved"), Some(from), false, Some(2));
    assert_eq!((part.ending, part.device), (Ending::Interrupted, from.to_string()));
    let resumed = training(resident(), Wishes::default()).going_on(&out("moved")).unwrap();
    let moved = run(&resumed, &out("moved"), to);
    assert_eq!((moved.ending, moved.device), (Ending::Completed, to.to_string()));
    assert_eq!(moved.epoch_losses[..2], whole.epoch_losses[..2]);
    near(&moved.epoch_losses, &whole.epoch_losses);
}
