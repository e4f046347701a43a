//! Pictures varied inside the step: every one is a picture it could have become, and runs stay what they are in pieces.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use citius_cpu::{Driver, Executable, Flow, Inputs, Memory, Options, Outputs, Slots};
use citius_data::picture::Transform;
use citius_graph::{DType, Graph, Mode};
use citius_nn::{Network, Vary, vary};
use citius_plan::compile;
use citius_train::{Ending, Report, RunOptions, Silent, Training, Wishes};

const N: usize = 40;
const C: usize = 3;
const SIDE: usize = 8;

/// What the step of this number makes of pictures without equal pixels.
fn varied(how: &[Vary], threads: usize, step: u64) -> (Vec<u8>, Vec<f32>) {
    let pixels: Vec<u8> = (0..N * C * SIDE * SIDE).map(|i| (1 + i % (C * SIDE * SIDE)) as u8).collect();
    let g = Graph::with_mode(Mode::Train);
    let x = g.input_of("x", &[N, C, SIDE, SIDE], DType::U8).to_f32();
    g.output("y", &vary(&x, how, (1.0, 0.0)));
    let plan = compile(&g).unwrap();
    let mut memory = Memory::new(5);
    let options = Options { threads, ..Options::default() };
    let mut executable = Executable::new(plan, &mut memory, options).unwrap();
    let mut seen = Collect(Vec::new());
    executable.run(&mut memory, &Inputs::new().u8("x", &pixels), step, 1, &mut seen).unwrap();
    (pixels, seen.0)
}

struct Collect(Vec<f32>);

impl Driver for Collect {
    fn feed(&mut self, _: u64, _: &mut Slots) {}

    fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
        self.0.extend_from_slice(outputs.f32(0));
        Flow::Continue
    }
}

#[test]
fn moved_and_mirrored() {
    let how = [Vary::Shift { pixels: 2 }, Vary::MirrorX { probability: 0.5 }];
    let mut ways = BTreeSet::new();
    for step in 0..10 {
        let (pixels, seen) = varied(&how, 1, step);
        assert_eq!(seen, varied(&how, 2, step).1, "the same for any threads");
        let size = C * SIDE * SIDE;
        for (before, after) in pixels.chunks(size).zip(seen.chunks(size)) {
            let explains = |&(mirrored, down, right): &(bool, isize, isize)| {
                (0..size).all(|i| {
                    let (c, y, x) = (i / SIDE / SIDE, i / SIDE % SIDE, i % SIDE);
                    let x = if mirrored { SIDE - 1 - x } else { x };
                    let (y, x) = (y as isize + down, x as isize + right);
                    let inside = |at: isize| (0..SIDE as isize).contains(&at);
                    let expected = match inside(y) && inside(x) {
                        true => before[(c * SIDE + y as usize) * SIDE + x as usize] as f32,
                        false => 0.0,
                    };
                    after[i] == expected
                })
            };
            let all =
                [false, true].into_iter().flat_map(|m| (-2..=2).flat_map(move |d| (-2..=2).map(move |r| (m, d, r))));
            ways.insert(all.into_iter().find(explains).expect("one of the ways"));
        }
    }
    assert_eq!(ways.len(), 50, "all of them");
}

#[test]
fn a_rectangle_is_painted_over() {
    let erase = Vary::Erase { probability: 0.5, scale: [0.1, 0.3], ratio: [0.5, 2.0], value: -7.0 };
    let mut painted = 0;
    for step in 0..10 {
        let (pixels, seen) = varied(&[erase], 1, step);
        for (before, after) in pixels.chunks(SIDE * SIDE).zip(seen.chunks(SIDE * SIDE)) {
            let there: Vec<(usize, usize)> =
                (0..SIDE * SIDE).filter(|i| after[*i] == -7.0).map(|i| (i / SIDE, i % SIDE)).collect();
            assert!(before.iter().zip(after).all(|(b, a)| *a == -7.0 || *a == *b as f32));
            let Some(&(top, left)) = there.first() else { continue };
            let &(bottom, right) = there.last().unwrap();
            assert_eq!((bottom + 1 - top) * (right + 1 - left), there.len(), "one rectangle");
            assert!((4..=25).contains(&there.len()), "{}", there.len());
            painted += 1;
        }
    }
    assert!((450..750).contains(&painted), "{painted} of 1200 planes");
}

/// CIFAR's binary files, of pictures that are red or green.
fn cifar(folder: &Path) -> PathBuf {
    let mut state = 7u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    for (name, count) in [("data_batch_1.bin", 60usize), ("test_batch.bin", 30)] {
        let mut bytes = Vec::new();
        for i in 0..count {
            bytes.push((i % 2) as u8);
            for pixel in 0..3072 {
                let bright = pixel / 1024 == i % 2;
                bytes.push(random() / 2 + if bright { 127 } else { 0 });
            }
        }
        fs::write(folder.join(name), bytes).unwrap();
    }
    folder.to_owned()
}

fn wishes(source: PathBuf) -> Wishes {
    let model = Some(Network::Vgg { channels: vec![4, 6] });
    Wishes { source: Some(source), model, epochs: Some(20), batch_size: Some(15), ..Wishes::default() }
}

fn transforms(text: &str) -> Option<Vec<Transform>> {
    Some(serde_json::from_str(text).unwrap())
}

#[test]
fn cifar_is_varied_by_itself_and_goes_on_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let training = Training::new(wishes(cifar(folder.path()))).unwrap();
    let usual = vec![Vary::Shift { pixels: 4 }, Vary::MirrorX { probability: 0.5 }];
    assert_eq!(training.settings.augment, usual);
    let run = |training: &Training, name: &str, stop: bool| -> Report {
        let options = RunOptions { out: Some(folder.path().join(name)), force: true, ..RunOptions::default() };
        training.run(&options, &mut Silent, &AtomicBool::new(stop)).unwrap()
    };
    let whole = run(&training, "whole", false);
    assert!(whole.test.accuracy.unwrap() > 0.8, "{:?}", whole.test);
    let mut part = run(&training, "parts", true);
    let mut pieces = 1;
    while part.ending == Ending::Interrupted {
        let resumed = Training::resume(&folder.path().join("parts"), None).unwrap();
        part = resumed.run(&RunOptions::default(), &mut Silent, &AtomicBool::new(pieces < 3)).unwrap();
        pieces += 1;
    }
    assert_eq!((part.epoch_losses, part.test), (whole.epoch_losses, whole.test));
}

#[test]
fn what_the_step_cannot_do_a_loader_does() {
    let folder = tempfile::tempdir().unwrap();
    let source = cifar(folder.path());
    let asked = |text: &str| Wishes { augment: transforms(text), ..wishes(source.clone()) };
    let none = Training::new(asked("[]")).unwrap();
    assert!(none.settings.augment.is_empty() && none.problem.train.resident().is_some());
    let both = Training::new(asked(r#"[{"name": "random-crop", "padding": 2}, {"name": "random-erasing"}]"#)).unwrap();
    assert_eq!(both.settings.augment.len(), 2);
    let turned =
        r#"[{"name": "random-erasing"}, {"name": "rotation", "degrees": 5}, {"name": "random-crop", "size": 24}]"#;
    // in another order: what paints over comes last
    let loaded = Training::new(asked(turned)).unwrap();
    assert!(loaded.settings.augment.is_empty() && loaded.problem.train.resident().is_none());
    let options = RunOptions { out: Some(folder.path().join("o")), force: true, ..RunOptions::default() };
    let report = loaded.run(&options, &mut Silent, &AtomicBool::new(false)).unwrap();
    assert!(report.test.accuracy.is_some() && report.ending == Ending::Completed);
    let mix = serde_json::from_str(r#"{"name": "mixup", "alpha": 0.1}"#).unwrap();
    let mixed = Wishes { mix: Some(mix), epochs: Some(60), ..asked("[]") };
    let report = Training::new(mixed).unwrap().run(&options, &mut Silent, &AtomicBool::new(false)).unwrap();
    assert!(report.test.accuracy.unwrap() > 0.8, "{:?}", report.test);
    let wrong = asked(r#"[{"name": "horizontal-flip", "probability": 2.0}]"#);
    let message = Training::new(wrong).err().unwrap().to_string();
    assert!(message.contains("augment: horizontal-flip: probability 2"), "{message}");
}
