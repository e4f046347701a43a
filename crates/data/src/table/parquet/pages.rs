//! Parquet's bytes, from memory or from a file in parts.
//!
//! A page says in its header how large it will be once decompressed, and the decoder takes that much memory. Here
//! each header is looked at first: all pages of a reading together have to stay within reason.

use std::collections::HashSet;
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::error::DataError;
use crate::table::watched::Watched;

/// Decompressed pages may take this much whatever their size …
const FREE_GROWTH: u64 = 1 << 30;
/// … and beyond that this multiple of it; runs of one value are short indeed.
const MAX_GROWTH: u64 = 1000;
/// Room for the first three fields of a header.
const HEAD: usize = 32;

/// Where the bytes are.
#[derive(Debug, Clone)]
pub(in crate::table) enum Input {
    Memory(Bytes),
    File(Arc<Watched>),
}

impl From<Bytes> for Input {
    fn from(bytes: Bytes) -> Input {
        Input::Memory(bytes)
    }
}

impl From<Watched> for Input {
    fn from(file: Watched) -> Input {
        Input::File(Arc::new(file))
    }
}

impl Input {
    /// Still what was opened?
    pub(super) fn check(&self) -> std::result::Result<(), DataError> {
        match self {
            Input::Memory(_) => Ok(()),
            Input::File(file) => file.check(),
        }
    }

    /// These bytes will be read soon.
    pub(super) fn announce(&self, start: u64, length: u64) {
        if let Input::File(file) = self {
            file.announce(start, length);
        }
    }

    /// Whether a disk has to be waited for.
    pub(super) fn is_far(&self) -> bool {
        matches!(self, Input::File(file) if file.is_far())
    }

    fn bytes(&self, start: u64, length: usize) -> io::Result<Bytes> {
        match self {
            Input::Memory(bytes) => {
                let end = start.checked_add(length as u64).filter(|end| *end <= bytes.len() as u64);
                let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
                Ok(bytes.slice(start as usize..end as usize))
            }
            Input::File(file) => file.read_shared(start, length).map_err(io::Error::other),
        }
    }
}

impl Length for Input {
    fn len(&self) -> u64 {
        match self {
            Input::Memory(bytes) => bytes.len() as u64,
            Input::File(file) => file.len(),
        }
    }
}

/// For the footer.
impl ChunkReader for Input {
    type T = BufReader<Tail>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(tail(Tail { input: self.clone(), at: start, room: None }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.bytes(start, length).map_err(|error| ParquetError::External(Box::new(error)))
    }
}

/// For the pages of one reading.
pub(super) struct Pages {
    input: Input,
    /// Where pages begin, as far as an index says; others are met one after the other.
    starts: HashSet<u64>,
    room: Arc<AtomicU64>,
}

impl Pages {
    /// `size` bytes of pages.
    pub(super) fn new(input: Input, starts: HashSet<u64>, size: u64) -> Pages {
        let room = FREE_GROWTH.max(size.min(input.len()).saturating_mul(MAX_GROWTH));
        Pages { input, starts, room: Arc::new(AtomicU64::new(room)) }
    }
}

impl Length for Pages {
    fn len(&self) -> u64 {
        self.input.len()
    }
}

impl ChunkReader for Pages {
    type T = BufReader<Tail>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(tail(Tail { input: self.input.clone(), at: start, room: Some(self.room.clone()) }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let bytes = self.input.get_bytes(start, length)?;
        if self.starts.contains(&start) {
            take_room(&self.room, &bytes).map_err(|error| ParquetError::External(Box::new(error)))?;
        }
        Ok(bytes)
    }
}

/// Headers are short: little is read beyond them.
fn tail(tail: Tail) -> BufReader<Tail> {
    BufReader::with_capacity(1024, tail)
}

/// The bytes from somewhere on; with `room`, they begin with the header of a page.
pub(in crate::table) struct Tail {
    input: Input,
    at: u64,
    room: Option<Arc<AtomicU64>>,
}

impl Read for Tail {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.input.len().saturating_sub(self.at).min(into.len() as u64) as usize;
        let bytes = self.input.bytes(self.at.min(self.input.len()), length)?;
        if let Some(room) = self.room.take() {
            take_room(&room, &bytes)?;
        }
        into[..length].copy_from_slice(&bytes);
        self.at += length as u64;
        Ok(length)
    }
}

fn take_room(room: &AtomicU64, header: &[u8]) -> io::Result<()> {
    let claim = claimed_size(&header[..header.len().min(HEAD)]).unwrap_or(0);
    let taken = room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(claim));
    match taken {
        Ok(_) => Ok(()),
        Err(_) => Err(io::Error::other(
            "its pages claim to expand beyond reason, refused as they may fill the memory; \
             if it is real data, write it anew with smaller row groups",
        )),
    }
}

/// The second field of a page's header (Thrift's compact protocol): its size when decompressed.
///
/// ```text
/// 1: PageType type   2: i32 uncompressed_page_size   3: i32 compressed_page_size   …
/// ```
fn claimed_size(mut header: &[u8]) -> Option<u64> {
    const NEXT_I32: u8 = 0x15; // one field on, of type i32
    let mut field = || {
        let (tag, rest) = header.split_first()?;
        let (value, rest) = varint(rest)?;
        header = rest;
        // zigzag: even is positive
        (*tag == NEXT_I32 && value & 1 == 0).then_some(value >> 1)
    };
    field()?;
    field()
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().take(9).position(|byte| byte & 0x80 == 0)?;
    let value = bytes[..=end].iter().rev().fold(0, |value, byte| value << 7 | (byte & 0x7f) as u64);
    Some((value, &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_their_claim() {
        assert_eq!(claimed_size(&[0x15, 0, 0x15, 0x80, 0x80, 1, 0x15, 4]), Some(8192));
        assert_eq!(claimed_size(&[0x15, 0, 0x15, 3]), None, "negative");
        assert_eq!(claimed_size(&[0x15, 0, 0x15, 0x80]), None, "cut");
        assert_eq!(claimed_size(&[]), None);
    }

    #[test]
    fn claims_are_added_up() {
        // 2 MiB pages in a file of a few bytes: 512 of them, and no more.
        let page = [0x15, 0, 0x15, 0x80, 0x80, 0x80, 2, 0x15, 4, 0];
        let pages = Pages::new(Bytes::copy_from_slice(&page).into(), HashSet::new(), 10);
        let read = || pages.get_read(0).unwrap().read(&mut [0; 4]);
        for _ in 0..512 {
            assert_eq!(read().unwrap(), 4);
        }
        assert!(read().unwrap_err().to_string().contains("beyond reason"));
        let pages = Pages::new(Bytes::copy_from_slice(&page).into(), HashSet::from([0]), 10);
        assert!((0..513).any(|_| pages.get_bytes(0, 10).is_err()));
        assert!(pages.get_bytes(5, 6).is_err() && pages.get_bytes(u64::MAX, 2).is_err());
    }
}
