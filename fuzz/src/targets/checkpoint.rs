//! A checkpoint, its state or its numbers edited and sealed again: it is refused, or the run goes on for a step.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use citius_cpu::Options;
use citius_train::{RunOptions, Silent, Training};
use twox_hash::XxHash64;

use crate::{Draw, Run, edited};

pub fn run(input: &[u8]) {
    static RUN: OnceLock<Run> = OnceLock::new();
    let run = RUN.get_or_init(|| Run::of("epochs = 3\nhidden = [3]\naverage = 0.9\nbatch-size = 8\n", true));
    let mut draw = Draw::new(input);
    let (kind, sealed) = (draw.byte() % 3, draw.flag());
    let usual = run.bytes("checkpoint.safetensors");
    let mut bytes = match kind {
        0 => with_text(usual, draw),
        1 => edited(usual, draw),
        _ => draw.rest().to_vec(),
    };
    if sealed {
        seal(&mut bytes);
    }
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder");
    run.write(folder.path(), "checkpoint.safetensors", &bytes);
    let Ok(training) = Training::resume(folder.path(), None) else { return };
    let cpu = Options { threads: 1, ..Options::default() };
    let _ = training.run(&RunOptions { cpu, ..RunOptions::default() }, &mut Silent, &AtomicBool::new(true));
}

/// The header's text edited, with the length that it then has.
fn with_text(usual: &[u8], draw: Draw<'_>) -> Vec<u8> {
    let length = u64::from_le_bytes(usual[..8].try_into().expect("8 bytes")) as usize;
    let header = edited(&usual[8..8 + length], draw);
    [&(header.len() as u64).to_le_bytes(), &header[..], &usual[8 + length..]].concat()
}

/// Puts the checksum of the bytes where a checkpoint has it.
fn seal(bytes: &mut [u8]) {
    let start = 8 + br#"{"__metadata__":{"citius-checksum":""#.len();
    if bytes.len() < start + 16 {
        return;
    }
    bytes[start..start + 16].fill(b'0');
    let digits = format!("{:016x}", XxHash64::oneshot(0, bytes));
    bytes[start..start + 16].copy_from_slice(digits.as_bytes());
}
