//! The account of a run's time: it is told, it is kept, and it adds up.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use citius_train::{Event, Ledger, Parts, ProfileOptions, RunOptions, Training, Wishes};

fn wishes(folder: &Path, batch_size: usize) -> Wishes {
    let source = folder.join("points.csv");
    let rows = (0..600).map(|i| format!("{},{},{}\n", i % 7, i % 11, (i % 7) * 2 - i % 11));
    std::fs::write(&source, format!("a,b,y\n{}", rows.collect::<String>())).unwrap();
    Wishes {
        source: Some(source),
        epochs: Some(12),
        batch_size: Some(batch_size),
        refit: Some(false),
        ..Wishes::default()
    }
}

fn training(folder: &Path, batch_size: usize) -> Training {
    Training::new(wishes(folder, batch_size)).unwrap()
}

/// Whoever hears of an event takes a nap: it is in the part of what the event is of. Nothing is counted twice, which would leave less than
/// nothing for `other`, and the whole is between what two clocks around and within the run say.
#[test]
fn time_is_in_the_part_it_was_spent_in() {
    let nap = Duration::from_millis(4);
    let resident = |wishes: Wishes| wishes;
    let refitted = |wishes: Wishes| Wishes { refit: Some(true), ..wishes };
    let loaded = |wishes: Wishes| Wishes { delay: Some(2.0), prefetch: Some(2), ..wishes };
    for change in [resident, refitted, loaded] {
        let folder = tempfile::tempdir().unwrap();
        let out = Some(folder.path().join("run"));
        let options = RunOptions { out, checkpoint_every: Some(3), ..RunOptions::default() };
        let read = Instant::now();
        let training = Training::new(change(wishes(folder.path(), 50))).unwrap();
        let reading = read.elapsed().as_secs_f64();
        let (mut naps, mut started, mut within) = (BTreeMap::new(), None, 0.0);
        let mut hear = |event: &Event| {
            let part = match event {
                Event::RunStarted { .. } | Event::Refitting { .. } => "preparing",
                Event::EpochEnded { .. } | Event::Validated { .. } | Event::Units { .. } => "metrics",
                Event::CheckpointSaved { .. } => "checkpoint",
                _ => return,
            };
            let started = *started.get_or_insert_with(Instant::now);
            std::thread::sleep(nap);
            within = started.elapsed().as_secs_f64();
            *naps.entry(part).or_insert(0.0) += nap.as_secs_f64();
        };
        let began = Instant::now();
        let report = training.run(&options, &mut hear, &AtomicBool::new(false)).unwrap();
        let wall = began.elapsed().as_secs_f64();
        let Ledger { seconds, parts, .. } = report.ledger;
        for (part, slept) in &naps {
            let at = Parts::NAMES.iter().position(|name| name == part).unwrap();
            assert!(parts.values()[at] >= *slept, "{part}: {slept} s were slept, {parts:?}");
        }
        assert!(naps.len() == 3 && parts.other > -1e-9, "{naps:?}, {parts:?}");
        assert!(0.0 < parts.reading && parts.reading <= reading, "{parts:?} of {reading}");
        assert!((parts.sum() - seconds).abs() < 1e-9, "{parts:?}");
        let run = seconds - parts.reading;
        assert!(within <= run && run <= wall, "{within} ≤ {run} ≤ {wall}");
    }
}

#[test]
fn a_run_tells_where_its_time_went() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let options = RunOptions { out: Some(out.clone()), checkpoint_every: Some(3), ..RunOptions::default() };
    let mut told: Vec<Ledger> = Vec::new();
    let mut hear = |event: &Event| {
        if let Event::Ledger(ledger) = event {
            told.push((**ledger).clone());
        }
    };
    let report = training(folder.path(), 4).run(&options, &mut hear, &AtomicBool::new(false)).unwrap();
    let ledger = &report.ledger;
    assert_eq!(told.last(), Some(ledger));
    assert_eq!(ledger.steps, report.steps);
    assert!(ledger.timed_steps > 0 && ledger.timed_steps <= ledger.steps);
    assert!((ledger.parts.sum() - ledger.seconds).abs() < 1e-9, "{ledger:?}");
    let parts = ledger.parts;
    for (name, part) in Parts::NAMES.iter().zip(parts.values()) {
        assert!(part >= 0.0 || *name == "other", "{name} {part}");
    }
    let all = [parts.copy, parts.forward, parts.backward, parts.update, parts.checkpoint];
    assert!(all.iter().all(|part| *part > 0.0), "{parts:?}");
    let phases: Vec<&str> = ledger.kernels.iter().map(|k| k.phase.as_str()).collect();
    for phase in ["forward", "backward", "update"] {
        assert!(phases.contains(&phase), "{phases:?}");
    }
    assert!(ledger.summary().contains("% steps"), "{}", ledger.summary());
    // the log has it, and it can be read again
    let log = std::fs::read_to_string(out.join("events.jsonl")).unwrap();
    let mut lines = log.lines().filter(|line| line.contains("\"event\":\"ledger\""));
    let last: Ledger = serde_json::from_str(lines.next_back().unwrap()).unwrap();
    assert_eq!(&last, ledger);
}

#[test]
fn a_profile_tells_of_kernels_memory_and_what_would_be() {
    let folder = tempfile::tempdir().unwrap();
    let asked = ProfileOptions { steps: 30, otherwise: Some(Duration::from_millis(100)) };
    let profile = training(folder.path(), 16).profile(&RunOptions::default(), asked).unwrap();
    assert_eq!((profile.batch, profile.ledger.steps, profile.ledger.timed_steps), (16, 30, 30));
    assert!(
        profile.ledger.kernels.iter().all(|k| k.calls == 30 && k.roofline.is_none_or(|r| (0.0..=1.0).contains(&r)))
    );
    assert!((profile.ledger.parts.sum() - profile.ledger.seconds).abs() < 1e-9);
    let memory = &profile.memory;
    assert!(memory.peak.parameters > 0 && memory.peak.optimiser > 0 && memory.peak.data > 0, "{memory:?}");
    assert!(memory.timeline.iter().all(|kinds| kinds.sum() <= memory.peak.sum()));
    assert!(memory.timeline.iter().any(|kinds| kinds.gradients > 0 || kinds.activations > 0));
    assert!(profile.trace.iter().any(|t| t.part == "backward") && profile.trace.iter().all(|t| t.start <= t.end));
    assert!(!profile.otherwise.unwrap().says.is_empty());
}
