//! What TensorBoard reads: scalars in an event file (`TFRecord`s of protocol buffers), and the trace under the name that its profiler
//! plugin looks for.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use citius_data::Escaped;
use citius_train::{Parts, Profile};

use super::trace;
use crate::error::Failure;

pub fn write(folder: &Path, profile: &Profile) -> Result<(), Failure> {
    let failed = |what: &Path, e: std::io::Error| {
        Failure::Failed(format!("cannot write {}: {e}; choose another place with --tensorboard", what.escaped()))
    };
    fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let events = folder.join(format!("events.out.tfevents.{}.citius", now.as_secs()));
    citius_data::write_whole(&events, &event_file(profile, now.as_secs_f64())).map_err(|e| failed(&events, e))?;
    if !profile.trace.is_empty() {
        let file = folder.join(format!("citius.{}.pt.trace.json", now.as_millis()));
        trace::write(&file, profile)?;
    }
    Ok(())
}

/// Milliseconds of each step, shares and microseconds of the parts, bytes by kind at each wave.
fn event_file(profile: &Profile, wall: f64) -> Vec<u8> {
    let mut file = record(&event(wall, 0, Content::Version));
    let mut scalar = |step: u64, tag: &str, value: f64| {
        file.extend(record(&event(wall, step, Content::Scalar(tag, value as f32))));
    };
    let ledger = &profile.ledger;
    let own: Vec<_> = profile.trace.iter().filter(|t| t.thread == 0).collect();
    for (n, step) in own.chunk_by(|a, b| a.step == b.step).enumerate() {
        scalar(n as u64, "step/ms", (step[step.len() - 1].end - step[0].start) * 1e3);
    }
    let steps = ledger.steps.max(1) as f64;
    for (name, seconds) in Parts::NAMES.iter().zip(ledger.parts.values()) {
        scalar(0, &format!("time/{name}_us"), seconds / steps * 1e6);
        scalar(0, &format!("share/{name}"), seconds / ledger.seconds.max(1e-12));
    }
    for (wave, kinds) in profile.memory.timeline.iter().enumerate() {
        for (name, bytes) in kinds.named() {
            scalar(wave as u64, &format!("memory/{name}_bytes"), bytes as f64);
        }
    }
    file
}

enum Content<'a> {
    Version,
    Scalar(&'a str, f32),
}

/// `Event { wall_time = 1, step = 2, file_version = 3, summary = 5 { value = 1 { tag = 1, simple_value = 2 } } }`
fn event(wall: f64, step: u64, content: Content) -> Vec<u8> {
    let mut event = vec![1 << 3 | 1];
    event.extend(wall.to_le_bytes());
    event.push(2 << 3);
    event.extend(varint(step));
    match content {
        Content::Version => event.extend(bytes(3, b"brain.Event:2")),
        Content::Scalar(tag, value) => {
            let mut scalar = bytes(1, tag.as_bytes());
            scalar.push(2 << 3 | 5);
            scalar.extend(value.to_le_bytes());
            event.extend(bytes(5, &bytes(1, &scalar)));
        }
    }
    event
}

/// A field of bytes.
fn bytes(field: u8, content: &[u8]) -> Vec<u8> {
    let mut all = vec![field << 3 | 2];
    all.extend(varint(content.len() as u64));
    all.extend(content);
    all
}

fn varint(mut n: u64) -> Vec<u8> {
    let mut all = Vec::new();
    while n >= 0x80 {
        all.push(n as u8 | 0x80);
        n >>= 7;
    }
    all.push(n as u8);
    all
}

/// Length, its checksum, the bytes, their checksum.
fn record(content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u64).to_le_bytes();
    let mut all = length.to_vec();
    all.extend(masked(crc32c(&length)).to_le_bytes());
    all.extend(content);
    all.extend(masked(crc32c(content)).to_le_bytes());
    all
}

fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Castagnoli's polynomial.
fn crc32c(bytes: &[u8]) -> u32 {
    let shift = |crc: u32, _: usize| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0u32, |crc, byte| (0..8).fold(crc ^ *byte as u32, shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_castagnolis_masked() {
        // RFC 3720, B.4
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(masked(0), 0xa282_ead8);
    }

    /// The first record of every event file that TensorFlow writes, but for its time.
    #[test]
    fn the_first_record_tells_the_version() {
        let event = event(0.0, 0, Content::Version);
        assert_eq!(&event[..9], [9, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&event[11..], b"\x1a\x0dbrain.Event:2");
        let record = record(&event);
        assert_eq!(record.len(), 8 + 4 + event.len() + 4);
        assert_eq!(record[..8], (event.len() as u64).to_le_bytes());
        assert_eq!(varint(300), [0xac, 2]);
    }
}
