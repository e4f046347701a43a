//! Named tensors of f32 in a safetensors file.

use std::collections::BTreeMap;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use citius_data::{Checksum, WholeFile, bounded};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};

use crate::{TrainError, files};

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Tensors {
    /// Shape and values.
    pub by_name: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    /// One entry only, so that equal tensors make equal files.
    pub note: Option<(String, String)>,
    /// Whether the file has a checksum of itself, and it is right.
    pub sealed: bool,
}

/// Bytes that a header has at most, as the library reads it.
const LARGEST_HEADER: u64 = 100_000_000;
/// What the header of a sealed file begins with; sixteen digits follow, of the whole file with zeros in their place.
const SEAL: &str = r#"{"__metadata__":{"citius-checksum":""#;
const UNSEALED: &str = "0000000000000000";
/// Where the digits are: behind the header's length.
const DIGITS: std::ops::Range<usize> = 8 + SEAL.len()..8 + SEAL.len() + UNSEALED.len();

impl Tensors {
    pub fn add(&mut self, name: impl Into<String>, shape: Vec<usize>, values: Vec<f32>) {
        self.by_name.insert(name.into(), (shape, values));
    }

    /// Each tensor goes into the file from where it lies.
    pub fn save(&self, path: &Path) -> Result<(), TrainError> {
        let mut header = self.header();
        if self.sealed {
            let mut checksum = Checksum::default();
            checksum.add(&header);
            self.by_name.values().for_each(|(_, values)| checksum.add(&little_endian(values)));
            header[DIGITS].copy_from_slice(checksum.text().as_bytes());
        }
        let write = || {
            let mut file = BufWriter::with_capacity(1 << 18, WholeFile::create(path)?);
            file.write_all(&header)?;
            for (_, values) in self.by_name.values() {
                file.write_all(&little_endian(values))?;
            }
            file.into_inner().map_err(|error| error.into_error())?.finish()
        };
        write().map_err(|error| TrainError::file("write", path, &error))
    }

    /// Its length, names with shapes and places, blanks up to a multiple of 8: as the safetensors library writes it.
    fn header(&self) -> Vec<u8> {
        let mut text = String::from("{");
        let mut notes: Vec<String> = Vec::new();
        if self.sealed {
            notes.push(format!("\"citius-checksum\":\"{UNSEALED}\""));
        }
        notes.extend(self.note.iter().map(|(key, value)| format!("{}:{}", json!(key), json!(value))));
        if !notes.is_empty() {
            text += &format!("\"__metadata__\":{{{}}}", notes.join(","));
        }
        let mut at = 0;
        for (name, (shape, values)) in &self.by_name {
            let end = at + 4 * values.len();
            let comma = if text.len() > 1 { "," } else { "" };
            let shape = json!(shape);
            text += &format!(
                "{comma}{}:{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":[{at},{end}]}}",
                json!(name)
            );
            at = end;
        }
        text.push('}');
        let length = text.len().next_multiple_of(8);
        let mut header = (length as u64).to_le_bytes().to_vec();
        header.extend(text.into_bytes());
        header.resize(8 + length, b' ');
        header
    }

    /// `next` says what to do about a damaged file.
    pub fn load(path: &Path, next: &str) -> Result<Tensors, TrainError> {
        let mut bytes = files::read_tensors(path)?;
        let damaged = |problem: String| TrainError::saved(path, problem, next);
        let (_, header) =
            SafeTensors::read_metadata(&bytes).map_err(|e| damaged(format!("cut short or damaged ({e})")))?;
        let mut notes = header.metadata().clone().unwrap_or_default();
        let sealed = notes.remove("citius-checksum").is_some();
        if sealed && !seal_holds(&mut bytes) {
            return Err(damaged("damaged: its checksum is not that of its bytes".into()));
        }
        let file = SafeTensors::deserialize(&bytes).map_err(|e| damaged(format!("cut short or damaged ({e})")))?;
        let mut tensors = Tensors { note: notes.into_iter().next(), sealed, ..Tensors::default() };
        for (name, view) in file.iter() {
            if view.dtype() != Dtype::F32 {
                return Err(damaged(format!("tensor {name:?} holds {:?}, not F32", view.dtype())));
            }
            let data = view.data().as_chunks::<4>().0;
            let mut values = Vec::new();
            values
                .try_reserve_exact(data.len())
                .map_err(|_| TrainError::file("read", path, &std::io::ErrorKind::OutOfMemory.into()))?;
            values.extend(data.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            tensors.add(name, view.shape().to_vec(), values);
        }
        Ok(tensors)
    }

    /// A note of a file's header; the values stay where they are.
    pub fn read_note(path: &Path, key: &str) -> Option<String> {
        let mut file = bounded::open_plain(path).ok()?;
        let mut length = [0; 8];
        file.read_exact(&mut length).ok()?;
        let mut header = Vec::new();
        file.take(u64::from_le_bytes(length).min(LARGEST_HEADER)).read_to_end(&mut header).ok()?;
        let header: Value = serde_json::from_slice(&header).ok()?;
        Some(header.get("__metadata__")?.get(key)?.as_str()?.to_owned())
    }

    /// Over names, shapes and bits: ties a description to its weights.
    pub fn checksum(&self) -> String {
        let mut checksum = Checksum::default();
        for (name, (shape, values)) in &self.by_name {
            checksum.add(format!("{name}{shape:?}").as_bytes());
            checksum.add(&little_endian(values));
        }
        format!("xxh64-{}", checksum.text())
    }

    /// Whether this is the checksum of these tensors, also as older versions wrote it.
    pub fn matches(&self, checksum: &str) -> bool {
        match checksum.starts_with("xxh64-") {
            true => self.checksum() == checksum,
            false => self.older_checksum() == checksum,
        }
    }

    /// FNV-1a over names and bits.
    fn older_checksum(&self) -> String {
        let mut hash = 0xCBF2_9CE4_8422_2325u64;
        let mut add = |byte: u8| hash = (hash ^ byte as u64).wrapping_mul(0x100_0000_01B3);
        for (name, (_, values)) in &self.by_name {
            name.bytes().for_each(&mut add);
            values.iter().flat_map(|v| v.to_le_bytes()).for_each(&mut add);
        }
        format!("{hash:016x}")
    }

    /// The first number that is none, and its tensor.
    pub fn not_finite(&self) -> Option<(&str, usize)> {
        let place = |values: &[f32]| values.iter().position(|v| !v.is_finite());
        self.by_name.iter().find_map(|(name, (_, values))| Some((name.as_str(), place(values)?)))
    }
}

/// As files have them.
fn little_endian(values: &[f32]) -> std::borrow::Cow<'_, [u8]> {
    match cfg!(target_endian = "little") {
        true => bytemuck::cast_slice(values).into(),
        false => values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>().into(),
    }
}

/// Whether the digits of a sealed file are those of its bytes; they are zeros afterwards.
fn seal_holds(bytes: &mut [u8]) -> bool {
    if bytes.get(8..DIGITS.start) != Some(SEAL.as_bytes()) || bytes.len() < DIGITS.end {
        return false;
    }
    let said = bytes[DIGITS].to_vec();
    bytes[DIGITS].copy_from_slice(UNSEALED.as_bytes());
    let mut checksum = Checksum::default();
    checksum.add(bytes);
    checksum.text().as_bytes() == said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_every_cut_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.safetensors");
        let mut tensors = Tensors { note: Some(("format".into(), "pt".into())), ..Tensors::default() };
        tensors.add("0.weight", vec![2, 2], vec![1.0, -0.0, f32::MIN_POSITIVE, 3.5]);
        tensors.add("0.bias", vec![2], vec![0.1, 0.2]);
        tensors.save(&path).unwrap();
        assert_eq!(Tensors::load(&path, "").unwrap(), tensors);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let message = Tensors::load(&path, "train it again").unwrap_err().to_string();
            assert!(message.contains("cut short") && message.ends_with("train it again"), "{cut}: {message}");
        }
    }

    fn some() -> Tensors {
        let mut tensors = Tensors { note: Some(("format".into(), "pt \"ö\"".into())), ..Tensors::default() };
        tensors.add("b\"ö", vec![2, 3], (0..6).map(|i| i as f32).collect());
        tensors.add("a", vec![], vec![1.5]);
        tensors.add("c", vec![0], vec![]);
        tensors
    }

    #[test]
    fn the_file_is_as_the_safetensors_library_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let (path, tensors) = (folder.path().join("t"), some());
        tensors.save(&path).unwrap();
        let bytes: Vec<Vec<u8>> = tensors.by_name.values().map(|(_, v)| little_endian(v).into_owned()).collect();
        let views = tensors.by_name.iter().zip(&bytes).map(|((name, (shape, _)), bytes)| {
            (name, safetensors::tensor::TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
        });
        let note = tensors.note.clone().map(|note| [note].into());
        assert_eq!(std::fs::read(&path).unwrap(), safetensors::serialize(views, note).unwrap());
    }

    #[test]
    fn a_sealed_file_notices_every_flipped_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let tensors = Tensors { sealed: true, ..some() };
        tensors.save(&path).unwrap();
        assert_eq!(Tensors::load(&path, "").unwrap(), tensors);
        let whole = std::fs::read(&path).unwrap();
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bytes).unwrap();
            // one whose seal is gone is no sealed file
            assert!(!Tensors::load(&path, "").is_ok_and(|read| read.sealed), "bit {bit}");
        }
    }
}
