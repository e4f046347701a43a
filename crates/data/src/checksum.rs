//! A checksum that notices what happens to files: XXH64, which takes eight bytes at a time and is as fast as memory.

use std::hash::Hasher;

use twox_hash::XxHash64;

/// Of bytes that come one after the other.
#[derive(Default)]
pub struct Checksum(XxHash64);

impl Checksum {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// Of numbers as they lie in memory.
    pub fn add_numbers<T: bytemuck::NoUninit>(&mut self, numbers: &[T]) {
        self.0.write(bytemuck::cast_slice(numbers));
    }

    pub fn value(&self) -> u64 {
        self.0.finish()
    }

    /// Sixteen digits.
    pub fn text(&self) -> String {
        format!("{:016x}", self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_however_the_bytes_come() {
        let bytes: Vec<u8> = (0..1000u32).flat_map(|i| i.to_le_bytes()).collect();
        let mut whole = Checksum::default();
        whole.add(&bytes);
        let mut parts = Checksum::default();
        bytes.chunks(7).for_each(|part| parts.add(part));
        assert_eq!(whole.value(), parts.value());
        // of the empty text, as everybody computes it
        assert_eq!(Checksum::default().text(), "ef46db3751d8e999");
    }
}
