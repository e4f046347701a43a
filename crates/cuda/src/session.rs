//! Parameters and states of a model on the GPU, shared by all its executables.

use std::collections::HashMap;
use std::sync::Arc;

use citius_cpu::Memory;
use citius_plan::Plan;

use crate::device::{Bytes, Device};
use crate::error::CudaError;
use crate::layout::LeafPlaces;

/// A model's values on a GPU. [`Session::upload`] brings them there, [`Session::download`] home.
pub struct Session {
    pub(crate) device: Arc<Device>,
    pub(crate) places: LeafPlaces,
    bytes: Bytes,
    /// Data of the caller's that is on the GPU: by input name, where it came from and how much.
    resident: HashMap<String, Resident>,
}

struct Resident {
    /// Only compared.
    host: usize,
    bytes: Bytes,
    len: usize,
}

impl Session {
    /// Makes room for the leaves of these plans; their values come with the first [`Session::upload`].
    pub fn new<'a>(device: Arc<Device>, plans: impl IntoIterator<Item = &'a Plan>) -> Result<Session, CudaError> {
        device.enter()?;
        let mut places = LeafPlaces::default();
        plans.into_iter().for_each(|plan| places.admit(plan));
        let bytes = Bytes::new(&device, "the model", places.bytes)?;
        Ok(Session { device, places, bytes, resident: HashMap::new() })
    }

    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// All values of the model from the host to the GPU.
    pub fn upload(&mut self, memory: &Memory) -> Result<(), CudaError> {
        self.device.enter()?;
        for (name, (offset, elements)) in &self.places.offsets {
            let values = memory.get(name).filter(|v| v.len() == *elements);
            let values = values.ok_or_else(|| CudaError::Missing(name.clone()))?;
            self.bytes().write(*offset, as_bytes(values))?;
        }
        Ok(())
    }

    /// All values of the model from the GPU to the host.
    pub fn download(&self, memory: &mut Memory) -> Result<(), CudaError> {
        self.device.enter()?;
        for (name, (offset, elements)) in &self.places.offsets {
            let values = memory.get_mut(name).filter(|v| v.len() == *elements);
            let values = values.ok_or_else(|| CudaError::Missing(name.clone()))?;
            self.bytes().read(*offset, as_bytes_mut(values))?;
        }
        Ok(())
    }

    /// Brings data of the caller's to the GPU, once, and says where it is.
    ///
    /// SAFETY: `host` leads to `len` bytes.
    pub(crate) unsafe fn resident(&mut self, name: &str, host: *const u8, len: usize) -> Result<u64, CudaError> {
        if let Some(there) = self.resident.get(name).filter(|r| r.host == host as usize && r.len == len) {
            return Ok(there.bytes.pointer);
        }
        self.resident.remove(name);
        let bytes = Bytes::new(&self.device, "the data set", len)?;
        bytes.write(0, std::slice::from_raw_parts(host, len))?;
        let pointer = bytes.pointer;
        self.resident.insert(name.to_owned(), Resident { host: host as usize, bytes, len });
        Ok(pointer)
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

pub(crate) fn as_bytes(values: &[f32]) -> &[u8] {
    // SAFETY: f32 has no padding, any byte pattern is a u8.
    unsafe { std::slice::from_raw_parts(values.as_ptr() as *const u8, values.len() * 4) }
}

fn as_bytes_mut(values: &mut [f32]) -> &mut [u8] {
    // SAFETY: as above, and every byte pattern is an f32.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr() as *mut u8, values.len() * 4) }
}
