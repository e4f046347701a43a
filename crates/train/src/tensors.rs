//! Named tensors of f32 in a safetensors file.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::{TrainError, files};

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Tensors {
    /// Shape and values.
    pub by_name: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    /// One entry only, so that equal tensors make equal files.
    pub note: Option<(String, String)>,
}

impl Tensors {
    pub fn add(&mut self, name: impl Into<String>, shape: Vec<usize>, values: Vec<f32>) {
        self.by_name.insert(name.into(), (shape, values));
    }

    pub fn save(&self, path: &Path) -> Result<(), TrainError> {
        let internal = |error| TrainError::saved(path, format!("cannot be written: {error}"), "please report this");
        let bytes: Vec<(&String, &Vec<usize>, Vec<u8>)> = self
            .by_name
            .iter()
            .map(|(name, (shape, values))| (name, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()))
            .collect();
        let mut views = Vec::new();
        for (name, shape, bytes) in &bytes {
            views.push((name.as_str(), TensorView::new(Dtype::F32, (*shape).clone(), bytes).map_err(internal)?));
        }
        let note: Option<HashMap<String, String>> = self.note.clone().map(|(key, value)| [(key, value)].into());
        files::write_whole(path, &safetensors::serialize(views, note).map_err(internal)?)
    }

    /// `next` says what to do about a damaged file.
    pub fn load(path: &Path, next: &str) -> Result<Tensors, TrainError> {
        let bytes = files::read_tensors(path)?;
        let damaged = |problem: String| TrainError::saved(path, problem, next);
        let (_, header) =
            SafeTensors::read_metadata(&bytes).map_err(|e| damaged(format!("cut short or damaged ({e})")))?;
        let file = SafeTensors::deserialize(&bytes).map_err(|e| damaged(format!("cut short or damaged ({e})")))?;
        let mut tensors = Tensors::default();
        for (name, view) in file.iter() {
            if view.dtype() != Dtype::F32 {
                return Err(damaged(format!("tensor {name:?} holds {:?}, not F32", view.dtype())));
            }
            let values = view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            tensors.add(name, view.shape().to_vec(), values);
        }
        tensors.note = header.metadata().clone().and_then(|m| m.into_iter().next());
        Ok(tensors)
    }

    /// FNV-1a over names and bits: ties a description to its weights.
    pub fn checksum(&self) -> String {
        let mut hash = 0xCBF2_9CE4_8422_2325u64;
        let mut add = |byte: u8| hash = (hash ^ byte as u64).wrapping_mul(0x100_0000_01B3);
        for (name, (_, values)) in &self.by_name {
            name.bytes().for_each(&mut add);
            values.iter().flat_map(|v| v.to_le_bytes()).for_each(&mut add);
        }
        format!("{hash:016x}")
    }
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
}
