//! `memory` bounds what is read, encoded and kept, not the file alone.
#![cfg(target_os = "linux")]

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use citius_train::{Bytes, RunOptions, Silent, Training, Wishes};

const ROWS: usize = 40_000;
const COLUMNS: usize = 20;

/// Columns of 64 labels each: 4 MB of text, 205 MB as inputs.
fn categories(rows: std::ops::Range<usize>) -> String {
    let names: Vec<String> = (0..COLUMNS).map(|column| format!("c{column}")).collect();
    let mut text = names.join(",") + ",y\n";
    for row in rows {
        (0..COLUMNS).for_each(|column| write!(text, "v{},", (row * (column + 7) + row / 64) % 64).unwrap());
        writeln!(text, "{}", row % 64).unwrap();
    }
    text
}

/// The most memory that this process has had, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Trains and gives the lines about memory and rows.
fn trained(source: &Path, memory: u64, out: &Path) -> Vec<String> {
    let wishes = Wishes {
        source: Some(source.to_owned()),
        memory: Some(Bytes(memory)),
        epochs: Some(1),
        hidden: Some(vec![8]),
        ..Wishes::default()
    };
    let training = Training::new(wishes).unwrap();
    let options = RunOptions { out: Some(out.to_owned()), ..RunOptions::default() };
    training.run(&options, &mut Silent, &AtomicBool::new(false)).unwrap();
    let about = training.choices.iter().filter(|choice| ["memory", "note", "data"].contains(&&*choice.what));
    about.map(|choice| choice.value.clone()).collect()
}

/// The only test of this process: others would add to its peak.
#[test]
fn a_table_of_categories_stays_within_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("whole.csv"), categories(0..ROWS)).unwrap();
    let said = trained(&at("whole.csv"), 20_000_000, &at("run"));
    let in_one = peak();
    assert!(in_one < 100_000_000, "{in_one} bytes under a limit of 20 MB; on the way 205 MB would be encoded");
    assert!(
        said.contains(
            &"205 MB as inputs, and as much again while they are copied: more than the 20 MB for data".to_owned()
        ),
        "{said:?}"
    );
    assert!(said.iter().any(|note| note.contains("as many as the memory for data has room for")), "{said:?}");

    // of several files, too
    fs::write(at("part-1.csv"), categories(0..ROWS / 2)).unwrap();
    fs::write(at("part-2.csv"), categories(ROWS / 2..ROWS)).unwrap();
    let said = trained(&at("part-*.csv"), 4_000_000, &at("parts"));
    assert!(peak() < in_one.max(60_000_000), "{} bytes under a limit of 4 MB", peak());
    assert!(said.contains(&"part-1.csv and 1 more: 40,000 rows, 21 columns".to_owned()), "{said:?}");
    assert!(said.contains(&"the table is larger than the 4 MB for data".to_owned()), "{said:?}");
}
