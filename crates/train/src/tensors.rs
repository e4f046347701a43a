//! Named tensors of f32 in a safetensors file.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Display;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use citius_cpu::TensorView;
use citius_data::{Checksum, WholeFile, bounded};
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde_json::{Value, json};

use crate::TrainError;

/// Tensors read back from a file.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Tensors {
    /// Shape and values.
    pub by_name: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    /// One entry only, so that equal tensors make equal files.
    pub note: Option<(String, String)>,
    /// Whether the file has a checksum of itself, and it is right.
    pub sealed: bool,
}

/// Tensors to be written, each from where its values are.
pub(crate) struct TensorFile<'a> {
    views: BTreeMap<String, TensorView<'a>>,
    note: Option<(String, String)>,
    /// Whether the file gets a checksum of itself.
    sealed: bool,
}

/// Bytes that a header has at most, as the library reads it.
const LARGEST_HEADER: u64 = 100_000_000;
/// What the header of a sealed file begins with; sixteen digits follow, of the whole file with zeros in their place.
const SEAL: &str = r#"{"__metadata__":{"citius-checksum":""#;
const UNSEALED: &str = "0000000000000000";
/// Where the digits are: behind the header's length.
const DIGITS: std::ops::Range<usize> = 8 + SEAL.len()..8 + SEAL.len() + UNSEALED.len();

impl<'a> TensorFile<'a> {
    /// Without tensors yet, and without a checksum of itself.
    pub fn with_note(key: &str, text: impl Into<String>) -> TensorFile<'a> {
        TensorFile { views: BTreeMap::new(), note: Some((key.to_owned(), text.into())), sealed: false }
    }

    /// The same, with a checksum of itself.
    pub fn sealed(self) -> TensorFile<'a> {
        TensorFile { sealed: true, ..self }
    }

    pub fn add(&mut self, name: impl Into<String>, view: TensorView<'a>) {
        self.views.insert(name.into(), view);
    }

    /// Writes each value once, without a copy of any tensor.
    pub fn save(&self, path: &Path) -> Result<(), TrainError> {
        let header = self.header();
        let write = || {
            let mut file = BufWriter::with_capacity(1 << 18, WholeFile::create(path)?);
            file.write_all(&header)?;
            let mut checksum = Checksum::default();
            checksum.add(&header);
            for view in self.views.values() {
                view.chunks(|values| {
                    let bytes = little_endian(values);
                    if self.sealed {
                        checksum.add(&bytes);
                    }
                    file.write_all(&bytes)
                })?;
            }
            if self.sealed {
                file.seek(SeekFrom::Start(DIGITS.start as u64))?;
                file.write_all(checksum.text().as_bytes())?;
            }
            file.into_inner().map_err(|error| error.into_error())?.finish()
        };
        write().map_err(|error| TrainError::file("write", path, &error))
    }

    /// Over names, shapes and bits: ties a description to its weights.
    pub fn checksum(&self) -> String {
        let mut checksum = Checksum::default();
        for (name, view) in &self.views {
            checksum.add(format!("{name}{:?}", view.shape()).as_bytes());
            let _: Result<(), Infallible> = view.chunks(|values| {
                checksum.add(&little_endian(values));
                Ok(())
            });
        }
        checksum_text(&checksum)
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
        for (name, view) in &self.views {
            let end = at + 4 * view.elements();
            let comma = if text.len() > 1 { "," } else { "" };
            let shape = json!(view.shape());
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
}

impl Tensors {
    /// `next` says what to do about a damaged file.
    pub fn load(path: &Path, next: &str) -> Result<Tensors, TrainError> {
        let damaged = |problem: String| TrainError::saved(path, problem, next);
        let cut = |what: &dyn Display| damaged(format!("cut short or damaged ({what})"));
        let io = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => cut(&"it ends too early"),
            _ => TrainError::file("read", path, &error),
        };
        let mut file = bounded::open_plain(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        let mut header = vec![0; 8];
        file.read_exact(&mut header).map_err(io)?;
        let length = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| header[i]));
        if length > LARGEST_HEADER.min(size - 8) {
            return Err(cut(&format!("a header of {length} bytes in a file of {size}")));
        }
        header.resize(8 + length as usize, 0);
        file.read_exact(&mut header[8..]).map_err(io)?;
        let metadata: Metadata = serde_json::from_slice(&header[8..]).map_err(|e| cut(&e))?;
        let mut notes = metadata.metadata().clone().unwrap_or_default();
        let mut checksum = match notes.remove("citius-checksum") {
            Some(_) => Some(unsealed(&mut header).ok_or_else(|| damaged("damaged: its checksum is misplaced".into()))?),
            None => None,
        };
        let mut tensors = Tensors { note: notes.into_iter().next(), sealed: checksum.is_some(), ..Tensors::default() };
        let mut at = 0;
        for name in metadata.offset_keys() {
            let Some(info) = metadata.info(&name) else { continue };
            if info.dtype != Dtype::F32 {
                return Err(damaged(format!("tensor {name:?} holds {:?}, not F32", info.dtype)));
            }
            let elements = info.shape.iter().try_fold(1usize, |all, size| all.checked_mul(*size));
            let end = elements.and_then(|elements| elements.checked_mul(4)).and_then(|bytes| bytes.checked_add(at));
            match end.filter(|end| info.data_offsets == (at, *end) && *end as u64 <= size - 8 - length) {
                Some(end) => at = end,
                None => return Err(cut(&format!("tensor {name:?} is not where it should be"))),
            }
            let mut values: Vec<f32> = Vec::new();
            let elements = elements.unwrap_or(0);
            values.try_reserve_exact(elements).map_err(|_| io(io::ErrorKind::OutOfMemory.into()))?;
            values.resize(elements, 0.0);
            file.read_exact(bytemuck::cast_slice_mut(&mut values)).map_err(io)?;
            if let Some((checksum, _)) = &mut checksum {
                checksum.add(bytemuck::cast_slice(&values));
            }
            if cfg!(target_endian = "big") {
                values.iter_mut().for_each(|value| *value = f32::from_bits(value.to_bits().swap_bytes()));
            }
            tensors.by_name.insert(name, (info.shape.clone(), values));
        }
        if at as u64 != size - 8 - length {
            return Err(cut(&"bytes that belong to no tensor"));
        }
        match checksum {
            Some((checksum, digits)) if checksum.text().as_bytes() != digits => {
                Err(damaged("damaged: its checksum is not that of its bytes".into()))
            }
            _ => Ok(tensors),
        }
    }

    /// The tensors, to be written.
    pub fn file(&self) -> TensorFile<'_> {
        let mut file = TensorFile { views: BTreeMap::new(), note: self.note.clone(), sealed: self.sealed };
        for (name, (shape, values)) in &self.by_name {
            if let Some(view) = TensorView::contiguous(shape, values) {
                file.add(name, view);
            }
        }
        file
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

    /// Whether this is the checksum of these tensors, also as older versions wrote it.
    pub fn matches(&self, checksum: &str) -> bool {
        match checksum.starts_with("xxh64-") {
            true => self.file().checksum() == checksum,
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

fn checksum_text(checksum: &Checksum) -> String {
    format!("xxh64-{}", checksum.text())
}

/// The digits of a sealed file, and the checksum of its header, in which they are zeros.
fn unsealed(header: &mut [u8]) -> Option<(Checksum, Vec<u8>)> {
    if header.get(8..DIGITS.start) != Some(SEAL.as_bytes()) || header.len() < DIGITS.end {
        return None;
    }
    let digits = header[DIGITS].to_vec();
    header[DIGITS].copy_from_slice(UNSEALED.as_bytes());
    let mut checksum = Checksum::default();
    checksum.add(header);
    Some((checksum, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(tensors: &mut Tensors, name: &str, shape: Vec<usize>, values: Vec<f32>) {
        tensors.by_name.insert(name.to_owned(), (shape, values));
    }

    #[test]
    fn round_trip_and_every_cut_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.safetensors");
        let mut tensors = Tensors { note: Some(("format".into(), "pt".into())), ..Tensors::default() };
        insert(&mut tensors, "0.weight", vec![2, 2], vec![1.0, -0.0, f32::MIN_POSITIVE, 3.5]);
        insert(&mut tensors, "0.bias", vec![2], vec![0.1, 0.2]);
        tensors.file().save(&path).unwrap();
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
        insert(&mut tensors, "b\"ö", vec![2, 3], (0..6).map(|i| i as f32).collect());
        insert(&mut tensors, "a", vec![], vec![1.5]);
        insert(&mut tensors, "c", vec![0], vec![]);
        tensors
    }

    #[test]
    fn the_file_is_as_the_safetensors_library_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let (path, tensors) = (folder.path().join("t"), some());
        tensors.file().save(&path).unwrap();
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
        tensors.file().save(&path).unwrap();
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
