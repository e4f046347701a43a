//! Memory that holds machine code: written once, then executable and no longer writable.

use memmap2::{Mmap, MmapMut};

pub struct Code(Mmap);

impl Code {
    /// `None` where the system forbids executable memory; the caller then uses compiled kernels.
    pub fn new(bytes: &[u8]) -> Option<Code> {
        let mut map = MmapMut::map_anon(bytes.len().max(1)).ok()?;
        map[..bytes.len()].copy_from_slice(bytes);
        map.make_exec().ok().map(Code)
    }

    pub fn entry(&self, offset: usize) -> *const u8 {
        self.0[offset..].as_ptr()
    }
}
