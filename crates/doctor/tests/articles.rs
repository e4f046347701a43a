//! The articles' programs: each is told by its cause, and what is mended is not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use citius_doctor::{Options, examine};
use citius_train::Wishes;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/articles")
}

/// Causes told as something to mend, the likeliest first.
fn told(name: &str) -> Vec<&'static str> {
    let mut wishes = Wishes::read(&folder().join(format!("{name}.toml"))).unwrap();
    wishes.source = wishes.source.map(|path| folder().join("data").join(path.file_name().unwrap()));
    let cpu = citius_cpu::Options { threads: 1, ..citius_cpu::Options::default() };
    let options =
        Options { look: Duration::from_millis(1500), ask: Duration::from_secs(15), cpu, ..Options::default() };
    let found = examine(&wishes, &options);
    let told = found.serious().map(|finding| finding.cause).collect();
    println!("{name}: {told:?}, {:.1} s", found.seconds);
    told
}

fn broken_and_mended(name: &str, causes: &[&str]) {
    let broken = told(name);
    assert!(broken.iter().any(|cause| causes.contains(cause)), "{name}: {broken:?}, expected one of {causes:?}");
    let mended = told(&format!("{name}-mended"));
    assert!(!mended.iter().any(|cause| causes.contains(cause)), "{name}, mended: {mended:?}");
}

#[test]
fn article_2_unscaled() {
    broken_and_mended("2-unscaled", &["unscaled-features", "unscaled-target"]);
}

#[test]
fn article_2_features() {
    broken_and_mended("2-features", &["unscaled-features"]);
}

#[test]
fn article_2_relation() {
    broken_and_mended("2-relation", &["unscaled-features", "unscaled-target"]);
}

#[test]
fn article_2_shallow() {
    broken_and_mended("2-shallow", &["too-small"]);
}

#[test]
fn article_2_slow_sgd() {
    broken_and_mended("2-slow-sgd", &["no-momentum", "learning-rate-too-low"]);
}

#[test]
fn article_3_starved_loader() {
    let broken = told("3-starved-loader");
    assert_eq!(broken.first(), Some(&"starved-loader"), "{broken:?}");
}

#[test]
fn article_4_starved_loader() {
    broken_and_mended("4-starved-loader", &["starved-loader"]);
}

#[test]
fn article_5_wrong_device() {
    broken_and_mended("5-wrong-device", &["starved-loader"]);
}

#[test]
fn article_5_cut_gradient() {
    broken_and_mended("5-cut-gradient", &["cut-gradient"]);
}

#[test]
fn article_5_exploding_transformer() {
    broken_and_mended("5-exploding-transformer", &["init-too-large", "exploding-gradients", "non-finite"]);
}

/// All of them can be told to `train`.
#[test]
fn every_configuration_reads() {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let configurations: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    assert_eq!(configurations.len(), 20);
    for path in configurations {
        Wishes::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
