//! Reading past the page cache.
//!
//! Through the page cache each byte is copied once more and each page has to be found a place: four to six times the work of
//! a core, and cores are what a fast disk leaves too little of. So a file that is not in the cache is read past it, except where
//! the cache is worth filling: the file fits into memory, and the disk is so slow that the cores wait for it anyhow. Then the
//! next epoch comes from memory.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::layout::{PAGE, to_line};
use crate::slot::FieldMut;
use crate::{file, memory};

/// The disk is judged by the first part of the file that is read, of so many bytes at most.
const TRIAL: u64 = 256 << 20;
/// Below so many bytes a second, reads through the cache keep up with the disk.
const SLOW: f64 = 1.5e9;
/// What does not begin at a page in the file goes through a buffer of this size.
const PIECE: usize = 1 << 20;

pub(super) struct Direct {
    file: File,
    /// How fast the disk is, while that is still to be found out.
    trial: Option<Mutex<Trial>>,
    /// Blocks are to be read through the cache after all.
    refused: AtomicBool,
}

impl Direct {
    /// `None` where the file is small or in the cache already, or where the system has no such reads.
    pub fn of(file: &File, length: u64) -> Option<Direct> {
        if !file::is_far(file, length) {
            return None;
        }
        let fits = memory::available().is_some_and(|bytes| length <= bytes / 2);
        let trial = fits.then(|| Mutex::new(Trial::of(TRIAL.min(length / 16))));
        Direct::open(file).map(|direct| Direct { trial, ..direct })
    }

    /// Past the cache in any case.
    pub fn open(file: &File) -> Option<Direct> {
        let direct = Direct { file: open_again(file)?, trial: None, refused: AtomicBool::new(false) };
        // some systems open it and then refuse to read
        with_pages(PAGE as usize, |page| read_at(&direct.file, &mut [IoSliceMut::new(page)], 0)).ok().map(|_| direct)
    }

    /// Fills the fields of a block that begins at byte `at`. `false` where they have to be read as usual, which also tells why.
    pub fn read(&self, at: u64, into: &mut [FieldMut<'_>]) -> bool {
        if self.refused.load(Ordering::Relaxed) {
            return false;
        }
        self.begin();
        let read = read_block(&self.file, at, into);
        self.end(*read.as_ref().unwrap_or(&0));
        if read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput) {
            self.refused.store(true, Ordering::Relaxed);
        }
        read.is_ok()
    }

    fn begin(&self) {
        if let Some(trial) = &self.trial {
            trial.lock().unwrap_or_else(PoisonError::into_inner).begin(Instant::now());
        }
    }

    fn end(&self, bytes: u64) {
        if let Some(trial) = &self.trial
            && trial.lock().unwrap_or_else(PoisonError::into_inner).end(bytes, Instant::now())
        {
            self.refused.store(true, Ordering::Relaxed);
        }
    }
}

/// How many bytes came, and how long at least one read was on its way.
struct Trial {
    wanted: u64,
    bytes: u64,
    busy: Duration,
    reads: u32,
    since: Option<Instant>,
}

impl Trial {
    fn of(wanted: u64) -> Trial {
        Trial { wanted, bytes: 0, busy: Duration::ZERO, reads: 0, since: None }
    }

    fn begin(&mut self, now: Instant) {
        self.reads += 1;
        self.since.get_or_insert(now);
    }

    /// Whether the disk has turned out slow.
    fn end(&mut self, bytes: u64, now: Instant) -> bool {
        self.reads -= 1;
        let before = self.bytes;
        self.bytes += bytes;
        self.busy += self.since.map_or(Duration::ZERO, |since| now - since);
        self.since = (self.reads > 0).then_some(now);
        // judged once
        before < self.wanted && self.bytes >= self.wanted && (self.bytes as f64) < SLOW * self.busy.as_secs_f64()
    }
}

/// The pages of the first field come to their place, the rest through a buffer. Number of bytes.
fn read_block(file: &File, at: u64, into: &mut [FieldMut<'_>]) -> io::Result<u64> {
    let end = into.iter().map(|field| to_line(field.bytes().len() as u64)).sum::<u64>().next_multiple_of(PAGE) as usize;
    let straight = match into.first() {
        Some(field) if is_page(field.bytes()) => field.bytes().len() / PAGE as usize * PAGE as usize,
        _ => 0,
    };
    let mut done = 0;
    while done < end {
        let head = if done == 0 { straight } else { 0 };
        let count = (end - done - head).min(PIECE);
        with_pages(count, |pages| {
            let first = into.first_mut().map_or(&mut [][..], |field| field.bytes_mut());
            let parts = &mut [IoSliceMut::new(&mut first[..head]), IoSliceMut::new(pages)];
            if read_at(file, parts, at + done as u64)? < head + count {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            spread(pages, done + head, into);
            Ok(())
        })?;
        done += head + count;
    }
    Ok(end as u64)
}

/// Copies what lies at `begin` of a block to its fields.
fn spread(bytes: &[u8], begin: usize, into: &mut [FieldMut<'_>]) {
    let end = begin + bytes.len();
    let mut start = 0;
    for field in into {
        let field = field.bytes_mut();
        let (from, to) = (begin.max(start), end.min(start + field.len()));
        if from < to {
            field[from - start..to - start].copy_from_slice(&bytes[from - begin..to - begin]);
        }
        start += to_line(field.len() as u64) as usize;
    }
}

fn is_page(bytes: &[u8]) -> bool {
    (bytes.as_ptr() as usize).is_multiple_of(PAGE as usize)
}

/// Calls with memory of whole pages, which the thread keeps.
fn with_pages<R>(count: usize, call: impl FnOnce(&mut [u8]) -> io::Result<R>) -> io::Result<R> {
    thread_local!(static PAGES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
    PAGES.with_borrow_mut(|memory| {
        if memory.len() < count + PAGE as usize {
            memory.resize(count + PAGE as usize, 0);
        }
        let start = memory.as_ptr().align_offset(PAGE as usize);
        let pages = memory.get_mut(start..start.saturating_add(count));
        call(pages.ok_or(io::ErrorKind::Unsupported)?)
    })
}

#[cfg(target_os = "linux")]
fn read_at(file: &File, parts: &mut [IoSliceMut<'_>], at: u64) -> io::Result<usize> {
    Ok(rustix::io::preadv(file, parts, at)?)
}

/// The same file, past the cache; by its number, since another may have its name by now.
#[cfg(target_os = "linux")]
fn open_again(file: &File) -> Option<File> {
    file::reopen(file, rustix::fs::OFlags::DIRECT)
}

#[cfg(not(target_os = "linux"))]
fn read_at(_: &File, _: &mut [IoSliceMut<'_>], _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn open_again(_: &File) -> Option<File> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_judged_once_by_the_time_it_had_something_to_do() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let judge = |trial: &mut Trial, from: u64, to: u64, bytes: u64| {
            trial.begin(at(from));
            trial.end(bytes, at(to))
        };
        // 100 MB in 50 ms, and nothing asked of it for a second
        let mut fast = Trial::of(100_000_000);
        assert!(!judge(&mut fast, 0, 25, 50_000_000));
        assert!(!judge(&mut fast, 1025, 1050, 50_000_000));
        assert!(!judge(&mut fast, 1050, 9000, 1));
        let mut slow = Trial::of(100_000_000);
        assert!(!judge(&mut slow, 0, 100, 99_999_999));
        assert!(judge(&mut slow, 100, 101, 1));
        assert!(!judge(&mut slow, 101, 102, 1));
        // two reads at a time count once: 2 GB/s
        let mut both = Trial::of(100_000_000);
        both.begin(at(0));
        both.begin(at(1));
        assert!(!both.end(50_000_000, at(49)));
        assert!(!both.end(50_000_000, at(50)));
    }

    #[test]
    fn files_that_are_small_or_in_the_cache_are_read_as_usual() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 21).unwrap();
        assert!(Direct::of(&file, 1 << 21).is_none());
        std::io::Write::write_all(&mut &file, &vec![7; 1 << 20]).unwrap();
        // where such reads are refused, as by some systems in memory, there are none
        if let Some(direct) = Direct::open(&file) {
            let mut bytes = [0u8; 5000];
            assert!(direct.read(0, &mut [FieldMut::U8(&mut bytes)]));
            assert_eq!(bytes, [7; 5000]);
            // beyond the end the usual way has to say what is wrong
            assert!(!direct.read(1 << 21, &mut [FieldMut::U8(&mut bytes)]));
        }
    }
}
