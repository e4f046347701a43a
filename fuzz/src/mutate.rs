//! A short round without libFuzzer: all seeds of a target, and as many mutations of each, the same in every run.

use std::fs;
use std::path::Path;

use citius_data::SplitMix64;

use crate::TARGETS;

/// Feeds a target with its seeds and with mutations of them. An input that makes it panic is kept in a file.
pub fn short_round(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of this name");
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "fuzz/seeds/{name} holds no seeds: write them with fuzz/seeds.py");
    seeds.iter().for_each(|seed| feed(target.run, name, seed));
    let mut random = SplitMix64::new(0);
    for seed in &seeds {
        for _ in 0..target.mutations {
            feed(target.run, name, &mutated(seed, &seeds, &mut random));
        }
    }
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a seed")).collect()
}

/// Keeps the input that a panic is about.
fn feed(run: fn(&[u8]), name: &str, input: &[u8]) {
    let result = std::panic::catch_unwind(|| run(input));
    if let Err(panic) = result {
        let path = std::env::temp_dir().join(format!("citius-fuzz-{name}"));
        let kept = fs::write(&path, input).is_ok();
        eprintln!("{name}: the input is {}", if kept { path.display().to_string() } else { format!("{input:?}") });
        std::panic::resume_unwind(panic);
    }
}

/// One to four changes.
fn mutated(seed: &[u8], seeds: &[Vec<u8>], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..1 + below(random, 4) {
        change(&mut bytes, seeds, random);
    }
    bytes
}

const NUMBERS: [u64; 8] = [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0xffff_ffff, 1 << 63, u64::MAX];

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut SplitMix64) {
    let length = bytes.len();
    let at = below(random, length + 1);
    let end = (at + 1 + below(random, 16)).min(length);
    match below(random, 8) {
        0 if at < length => bytes[at] ^= 1 << below(random, 8),
        1 if at < length => bytes[at] = random.next_u64() as u8,
        // a number of 1, 2, 4 or 8 bytes
        2 => {
            let number = NUMBERS[below(random, NUMBERS.len())].to_le_bytes();
            let end = (at + (1 << below(random, 4))).min(length);
            bytes[at..end].copy_from_slice(&number[..end - at]);
        }
        3 => drop(bytes.drain(at..end)),
        4 => bytes.truncate(at),
        5 => {
            let new: Vec<u8> = (0..1 + below(random, 8)).map(|_| random.next_u64() as u8).collect();
            drop(bytes.splice(at..at, new));
        }
        // again, elsewhere
        6 => {
            let part = bytes[at..end].to_vec();
            let to = below(random, length + 1);
            drop(bytes.splice(to..to, part));
        }
        // as another seed goes on
        _ => {
            let other = &seeds[below(random, seeds.len())];
            let from = below(random, other.len() + 1);
            bytes.truncate(at);
            bytes.extend(&other[from..]);
        }
    }
}

fn below(random: &mut SplitMix64, end: usize) -> usize {
    random.below(end as u32) as usize
}
