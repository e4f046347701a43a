//! The account of a run's time: it is told, it is kept, and it adds up.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use citius_train::{Event, Ledger, ProfileOptions, RunOptions, Training, Wishes};

fn training(folder: &Path, batch_size: usize) -> Training {
    let source = folder.join("points.csv");
    let rows = (0..600).map(|i| format!("{},{},{}\n", i % 7, i % 11, (i % 7) * 2 - i % 11));
    std::fs::write(&source, format!("a,b,y\n{}", rows.collect::<String>())).unwrap();
    Training::new(Wishes {
        source: Some(source),
        epochs: Some(12),
        batch_size: Some(batch_size),
        refit: Some(false),
        ..Wishes::default()
    })
    .unwrap()
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
    for (name, part) in citius_train::Parts::NAMES.iter().zip(parts.values()) {
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
