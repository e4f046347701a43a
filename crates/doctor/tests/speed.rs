//! What is slow, by what steps would cost otherwise.

use citius_doctor::evidence::Speed;
use citius_doctor::{Evidence, Finding, Options, Severity, look};
use citius_train::{Counterfactual, Counterfactuals, Ledger, Parts, Verdict, What};

/// A step of 100 µs in a run of 10 s, and what it would take otherwise: the share, give or take.
fn speed(others: &[(What, f64)], noise: f64) -> Speed {
    let other = |(what, ratio): &(What, f64)| Counterfactual {
        what: *what,
        name: what.name(),
        ratio: *ratio,
        low: ratio - noise,
        high: ratio + noise,
        step_us: ratio * 100.0,
        saves: (1.0 - ratio) * 10.0,
        saves_low: (1.0 - ratio - noise) * 10.0,
        saves_high: (1.0 - ratio + noise) * 10.0,
    };
    let otherwise = Counterfactuals {
        step_us: 100.0,
        batch: 32,
        noise,
        others: others.iter().map(other).collect(),
        roofline: Some(0.5),
        verdict: Verdict::ComputeBound,
        says: String::new(),
    };
    Speed { otherwise, loaded: true, workers: None, bytes: 1e12, on_gpu: false, cores: 2, run: None }
}

fn found(speed: Speed) -> Vec<Finding> {
    look(&Evidence { speed: Some(speed), ..Evidence::default() }, &Options::default())
}

fn serious(findings: &[Finding]) -> Vec<&str> {
    findings.iter().filter(|f| f.severity > Severity::Note).map(|f| f.cause).collect()
}

#[test]
fn a_starved_loader_is_named_and_priced() {
    let findings = found(speed(&[(What::CachedBatch, 0.4), (What::Workers(2), 0.6)], 0.02));
    assert_eq!(serious(&findings), ["starved-loader"]);
    let price = findings[0].price.unwrap();
    assert!((price.seconds - 6.0).abs() < 1e-9 && (price.low - 5.8).abs() < 1e-9 && (price.high - 6.2).abs() < 1e-9);
    assert_eq!(findings[0].fix.as_ref().unwrap().to_string(), "workers = 2");
}

#[test]
fn what_is_not_certain_or_hardly_costs_is_not_told() {
    assert!(serious(&found(speed(&[(What::CachedBatch, 0.8)], 0.15))).is_empty(), "a busy machine");
    assert!(serious(&found(speed(&[(What::CachedBatch, 0.97)], 0.01))).is_empty(), "next to nothing");
    let resident = Speed { loaded: false, ..speed(&[(What::CachedBatch, 0.5)], 0.01) };
    assert!(serious(&found(resident)).is_empty(), "gathered by the step itself");
}

#[test]
fn too_many_threads_are_another_matter() {
    let crowded = Speed { workers: Some(16), ..speed(&[(What::CachedBatch, 0.4), (What::Workers(1), 0.7)], 0.02) };
    let findings = found(crowded);
    assert_eq!(serious(&findings), ["oversubscribed-loader"]);
    assert!((findings[0].price.unwrap().seconds - 3.0).abs() < 1e-9);
}

#[test]
fn of_a_gpu() {
    let on_gpu = |others: &[(What, f64)]| Speed { on_gpu: true, loaded: false, ..speed(others, 0.02) };
    assert_eq!(serious(&found(on_gpu(&[(What::Batch(128), 0.3)]))), ["device-underused"]);
    assert_eq!(serious(&found(on_gpu(&[(What::Batch(128), 0.3), (What::Processor, 0.5)]))), ["gpu-too-large"]);
    let unpinned = found(on_gpu(&[(What::Pinned, 0.6)]));
    assert_eq!(serious(&unpinned), ["unpinned-copy"]);
    assert!((unpinned[0].price.unwrap().seconds - 4.0).abs() < 1e-9);
    assert_eq!(unpinned[0].fix.as_ref().unwrap().to_string(), "pinned = true");
    let on_processor = found(speed(&[(What::Batch(128), 0.3)], 0.02));
    assert!(serious(&on_processor).is_empty() && on_processor[0].cause == "device-underused", "a note");
}

/// Of a run that took 20 s in all.
#[test]
fn a_run_that_went_to_checkpoints() {
    let run = |checkpoint: f64, metrics: f64, forward: f64| Ledger {
        seconds: 20.0,
        parts: Parts { checkpoint, metrics, forward, ..Parts::default() },
        ..Ledger::default()
    };
    let of = |ledger: Ledger| found(Speed { run: Some(ledger), loaded: false, ..speed(&[], 0.02) });
    assert_eq!(serious(&of(run(6.0, 0.0, 14.0))), ["too-much-logging"]);
    assert_eq!(serious(&of(run(0.0, 12.0, 8.0))), ["too-much-logging"]);
    assert!(serious(&of(run(1.0, 4.0, 15.0))).is_empty());
    let short = Ledger { seconds: 2.0, ..run(1.0, 0.5, 0.5) };
    assert!(serious(&of(short)).is_empty(), "nobody minds");
}
