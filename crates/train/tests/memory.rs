//! Steps that there is no room for, and averages of weights.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use citius_cpu::Options;
use citius_nn::{Network, OptimizerConfig, ScheduleConfig, Sgd};
use citius_train::{
    Arrival, Bytes, Device, Event, Pretrained, Report, RunOptions, Settings, Training, Wishes, plan_step,
};

const SIDE: usize = 16;

/// Pictures that are brighter on the left, or on the right.
fn pictures(folder: &Path) -> PathBuf {
    let mut state = 7u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    for (name, count) in [("train", 60usize), ("t10k", 20)] {
        let mut images = [&[0, 0, 8, 3][..], &(count as u32).to_be_bytes()].concat();
        images.extend([(SIDE as u32).to_be_bytes(), (SIDE as u32).to_be_bytes()].concat());
        let mut labels = [&[0, 0, 8, 1][..], &(count as u32).to_be_bytes()].concat();
        for i in 0..count {
            labels.push((i % 2) as u8);
            images.extend((0..SIDE * SIDE).map(|pixel| {
                let bright = (pixel % SIDE >= SIDE / 2) == (i % 2 == 1);
                random() / 2 + if bright { 127 } else { 0 }
            }));
        }
        fs::write(folder.join(format!("{name}-images-idx3-ubyte")), images).unwrap();
        fs::write(folder.join(format!("{name}-labels-idx1-ubyte")), labels).unwrap();
    }
    folder.to_owned()
}

fn wishes(folder: &Path) -> Wishes {
    Wishes {
        source: Some(pictures(folder)),
        model: Some(Network::Vgg { channels: vec![4, 6] }),
        epochs: Some(2),
        batch_size: Some(12),
        lr: Some(3e-3),
        patience: Some(0),
        ..Wishes::default()
    }
}

/// The report, and what was said about memory.
fn run(wishes: Wishes, out: &Path, threads: usize) -> Result<(Report, String), String> {
    let options = RunOptions {
        out: Some(out.to_owned()),
        force: true,
        cpu: Options { threads, ..Options::default() },
        ..RunOptions::default()
    };
    let mut said = String::new();
    let mut listen = |event: &Event| {
        if let Event::RunStarted { choices, .. } = event {
            let lines = choices.iter().filter(|c| c.what == "memory").map(|c| format!("{} ({})", c.value, c.why));
            said = lines.collect::<Vec<_>>().join("\n");
        }
    };
    let training = Training::new(wishes).map_err(|e| e.to_string())?;
    let report = training.run(&options, &mut listen, &AtomicBool::new(false)).map_err(|e| e.to_string())?;
    Ok((report, said))
}

#[test]
fn blocks_computed_again_give_the_same_losses_and_the_same_bits_for_any_threads() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name);
    let again = || Wishes { recompute: Some(true), ..wishes(folder.path()) };
    let (plain, silent) = run(wishes(folder.path()), &out("plain"), 1).unwrap();
    let (one, said) = run(again(), &out("one"), 1).unwrap();
    let (two, _) = run(again(), &out("two"), 2).unwrap();
    assert!(silent.is_empty() && said.contains("computed again"), "{said}");
    for (a, b) in plain.epoch_losses.iter().zip(&one.epoch_losses) {
        assert!((a - b).abs() < 1e-4 * a.abs(), "{a} and {b}");
    }
    assert_eq!(one.epoch_losses, two.epoch_losses);
    let weights = |name: &str| fs::read(out(name).join("model.safetensors")).unwrap();
    assert!(weights("one") == weights("two"));
}

#[test]
fn a_step_is_brought_to_the_memory_it_may_take() {
    let folder = tempfile::tempdir().unwrap();
    let with = |bytes: u64, recompute: Option<bool>| {
        let step_memory = Some(Bytes(bytes));
        run(Wishes { step_memory, recompute, ..wishes(folder.path()) }, &folder.path().join("out"), 1)
    };
    let Training { problem, settings, .. } = Training::new(wishes(folder.path())).unwrap();
    let form = problem.train.form();
    let model = settings.model_for(Device::Cpu, form.width, form.outputs()).unwrap();
    let [whole, less] = [false, true].map(|recompute| {
        let settings = Settings { recompute, ..settings.clone() };
        plan_step(&*model, &settings, &form, Arrival::of(&problem.train), 12, 1).unwrap().scratch_bytes as u64
    });
    assert!(less < whole, "{less} of {whole}");

    let (_, enough) = with(whole, None).unwrap();
    assert!(enough.is_empty(), "{enough}");
    let (_, again) = with(whole - 1, None).unwrap();
    assert!(again.contains("blocks are computed again") && !again.contains("micro"), "{again}");
    let (_, both) = with(less - 1, None).unwrap();
    assert!(both.contains("blocks are computed again") && both.contains("12 as 2 micro-batches of 6"), "{both}");
    let (_, pieces) = with(whole - 1, Some(false)).unwrap();
    assert!(!pieces.contains("again") && pieces.contains("micro-batches"), "{pieces}");
    let message = with(100, None).unwrap_err();
    assert!(message.contains("even one row at a time needs"), "{message}");
}

/// Weights and running moments are the plain mean of those after the last two of four updates.
#[test]
fn swa_is_the_mean_of_the_last_weights() {
    let folder = tempfile::tempdir().unwrap();
    let after = |epochs: usize, swa: Option<f64>| {
        let out = folder.path().join(format!("{epochs}-{swa:?}"));
        let wishes = Wishes {
            epochs: Some(epochs),
            batch_size: Some(60),
            lr: Some(0.05),
            optimizer: Some(OptimizerConfig::Sgd(Sgd::default())),
            schedule: Some(ScheduleConfig::Constant),
            swa,
            ..wishes(folder.path())
        };
        run(wishes, &out, 1).unwrap();
        Pretrained::read(&out).unwrap()
    };
    let (three, four, mean) = (after(3, None), after(4, None), after(4, Some(0.5)));
    let mut moments = 0;
    for name in mean.shapes().keys() {
        let of = |file: &Pretrained| file.tensor(name).unwrap().unwrap().1;
        for ((a, b), m) in of(&three).iter().zip(of(&four)).zip(of(&mean)) {
            assert!(((a + b) / 2.0 - m).abs() <= 1e-6 * m.abs().max(1.0), "{name}: {a}, {b}, {m}");
        }
        moments += usize::from(name.contains("running") && of(&three) != of(&four));
    }
    assert_eq!(moments, 8);
}

#[test]
fn mistakes_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |more: Wishes| Training::new(more.or(wishes(folder.path()))).err().unwrap().to_string();
    assert!(refused(Wishes { swa: Some(1.5), ..Wishes::default() }).contains("such as 0.75"));
    let both = Wishes { swa: Some(0.5), average: Some(0.99), ..Wishes::default() };
    assert!(refused(both).contains("give one of them"));
}
