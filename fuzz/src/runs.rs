//! A model and an interrupted run, made once: what the targets for their files start from.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use citius_train::{RunOptions, Silent, Training, Wishes};

use crate::Draw;

/// The files of a run, by name.
pub struct Run {
    pub files: Vec<(String, Vec<u8>)>,
}

/// Rows of three columns, the last to be predicted.
pub const ROWS: &str = "a,b,y\n";

impl Run {
    /// A training on sixty rows, stopped after its first step or finished.
    pub fn of(settings: &str, stopped: bool) -> Run {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let wishes = Wishes::parse(settings).expect("settings");
        let wishes = Wishes { source: Some(table()), ..wishes };
        let out = folder.path().join("run");
        let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
        let training = Training::new(wishes).expect("a training");
        training.run(&options, &mut Silent, &AtomicBool::new(stopped)).expect("a run");
        let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(&out)
            .expect("its folder")
            .flatten()
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("a file")))
            .collect();
        files.sort();
        Run { files }
    }

    pub fn bytes(&self, name: &str) -> &[u8] {
        self.files.iter().find(|(own, _)| own == name).map(|(_, bytes)| &bytes[..]).expect("a file of a run")
    }

    /// Writes the files, one of them with other bytes.
    pub fn write(&self, folder: &Path, name: &str, bytes: &[u8]) {
        for (own, usual) in &self.files {
            fs::write(folder.join(own), if own == name { bytes } else { usual }).expect("a temporary file");
        }
    }
}

/// The rows that all runs learn from, kept until the process ends.
pub fn table() -> std::path::PathBuf {
    static TABLE: std::sync::OnceLock<tempfile::TempDir> = std::sync::OnceLock::new();
    let folder = TABLE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let row = |i: usize| format!("{},{},{}\n", i % 7, ["x", "y", "z"][i % 3], i % 7 + i % 3);
        fs::write(folder.path().join("t.csv"), ROWS.to_owned() + &(0..60).map(row).collect::<String>())
            .expect("a table");
        folder
    });
    folder.path().join("t.csv")
}

/// The bytes with some of them replaced: of each edit the first byte says whether it is a place, how many bytes go, how many
/// come, and these; or a number or a text among them, counted from the start, and what it becomes.
pub fn edited(bytes: &[u8], mut draw: Draw<'_>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    while !draw.is_empty() {
        if draw.flag() {
            let at = (draw.short() as usize | (draw.byte() as usize) << 16) % (bytes.len() + 1);
            let (gone, new) = (draw.byte() as usize, draw.byte() as usize);
            let end = (at + gone).min(bytes.len());
            bytes.splice(at..end, draw.take(new).iter().copied());
        } else {
            let values = values_in(&bytes);
            let (which, new) = (draw.short() as usize, draw.pick(VALUES));
            if !values.is_empty() {
                bytes.splice(values[which % values.len()].clone(), new.bytes());
            }
        }
    }
    bytes
}

/// What a value of JSON becomes.
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "0.5",
    "1e999",
    "-1e-320",
    "9223372036854775808",
    "18446744073709551615",
    "4294967296",
    "1000000000",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "\"x\"",
    "[0]",
    "\"\\u001b[31m\"",
    "1000000",
];

/// The numbers, words and quoted texts among bytes.
fn values_in(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._".contains(byte);
    let (mut values, mut at) = (Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let length = match byte {
            b'"' => 2 + bytes[at + 1..].iter().take_while(|byte| **byte != b'"').count(),
            byte if is_word(byte) => bytes[at..].iter().take_while(|byte| is_word(byte)).count(),
            _ => {
                at += 1;
                continue;
            }
        };
        let end = (at + length).min(bytes.len());
        values.push(at..end);
        at = end;
    }
    values
}
