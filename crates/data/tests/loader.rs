//! The same bytes for any workers, any prefetch and any point of resumption; errors arrive; nothing hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use citius_data::{
    DataError, Field, FieldMut, Kind, Loader, LoaderOptions, OnError, Rows, Sampling, Schema, Shard, Source, Stream,
    Weights,
};
use proptest::prelude::*;

/// Rows that say who they are, with one random value each.
struct Numbers {
    schema: Schema,
    rows: u32,
    /// As if rows took long: they are loaded by workers from the first on.
    heavy: bool,
    /// Row that cannot be read.
    broken: Option<u32>,
}

fn schema() -> Schema {
    Schema::new(vec![Field::new("x", Kind::F32, &[2]), Field::new("y", Kind::U8, &[])]).unwrap()
}

impl Numbers {
    fn source(rows: u32) -> Arc<dyn Source> {
        Arc::new(Numbers { schema: schema(), rows, heavy: false, broken: None })
    }

    fn heavy(rows: u32) -> Arc<dyn Source> {
        Arc::new(Numbers { schema: schema(), rows, heavy: true, broken: None })
    }
}

impl Source for Numbers {
    fn name(&self) -> &str {
        "numbers"
    }
    fn schema(&self) -> &Schema {
        &self.schema
    }
    fn rows(&self) -> u32 {
        self.rows
    }
    fn is_plain(&self) -> bool {
        self.broken.is_none() && !self.heavy
    }
    fn is_heavy(&self) -> bool {
        self.heavy
    }
    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        let [FieldMut::F32(x), FieldMut::U8(y)] = into else { panic!("another schema") };
        assert!(x.len() == 2 * rows.numbers.len() && y.len() == rows.numbers.len());
        for (i, row) in rows.numbers.iter().enumerate() {
            match self.broken {
                Some(broken) if broken == *row && broken == 13 => panic!("thirteen"),
                Some(broken) if broken == *row => {
                    return Err(DataError::Inconsistent(format!("numbers.csv: row {row} is broken")));
                }
                _ => {}
            }
            x[2 * i] = *row as f32;
            x[2 * i + 1] = (rows.key(*row) >> 40) as f32;
            y[i] = *row as u8;
        }
        Ok(())
    }
}

/// The same numbers in blocks.
struct Blocks {
    schema: Schema,
    starts: Vec<u32>,
    broken: Option<usize>,
    /// As from a disk.
    waits: bool,
    /// How often each block was read.
    reads: Vec<AtomicU32>,
}

impl Blocks {
    fn stream(sizes: &[u32]) -> Arc<Blocks> {
        Blocks::with(sizes, None, false)
    }

    fn on_disk(sizes: &[u32]) -> Arc<Blocks> {
        Blocks::with(sizes, None, true)
    }

    fn with(sizes: &[u32], broken: Option<usize>, waits: bool) -> Arc<Blocks> {
        let mut starts = vec![0];
        sizes.iter().for_each(|size| starts.push(starts.last().unwrap() + size));
        let reads = sizes.iter().map(|_| AtomicU32::new(0)).collect();
        Arc::new(Blocks { schema: schema(), starts, broken, waits, reads })
    }
}

impl Stream for Blocks {
    fn name(&self) -> &str {
        "blocks"
    }
    fn schema(&self) -> &Schema {
        &self.schema
    }
    fn blocks(&self) -> &[u32] {
        &self.starts
    }
    fn read(&self, block: usize, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        if self.broken == Some(block) {
            return Err(DataError::Inconsistent(format!("blocks.bin: block {block} is broken")));
        }
        self.reads[block].fetch_add(1, Ordering::Relaxed);
        let [FieldMut::F32(x), FieldMut::U8(y)] = into else { panic!("another schema") };
        for (i, row) in (self.starts[block]..self.starts[block + 1]).enumerate() {
            (x[2 * i], x[2 * i + 1], y[i]) = (row as f32, -(row as f32), row as u8);
        }
        Ok(())
    }
    fn readers(&self) -> usize {
        if self.waits { 3 } else { 0 }
    }
}

/// Every byte of some epochs, batch by batch.
fn epochs(loader: &mut Loader, count: usize) -> Vec<Vec<u8>> {
    let mut batches = Vec::new();
    for _ in 0..count {
        while let Some(batch) = loader.next_batch().unwrap() {
            let bytes = batch.fields().iter().flat_map(|field| field.bytes().to_vec()).collect();
            batches.push(bytes);
        }
    }
    batches
}

/// The same, through buffers of the caller's; every so many batches are left to be written later, where they can be.
fn epochs_into(loader: &mut Loader, batch_size: usize, count: usize, leave_every: usize) -> Vec<Vec<u8>> {
    let (mut x, mut y) = (vec![0f32; 2 * batch_size], vec![0u8; batch_size]);
    let mut batches = Vec::new();
    for _ in 0..count {
        loop {
            let mut left = false;
            let leave = || {
                left = batches.len().is_multiple_of(leave_every);
                left
            };
            let mut into = [FieldMut::F32(&mut x), FieldMut::U8(&mut y)];
            let Some(rows) = loader.next_or_leave(&mut into, leave).unwrap() else { break };
            loader.show_next(|_, _, _| ());
            if left {
                loader.write_left(&mut into).unwrap();
            }
            let values = x[..2 * rows].iter().flat_map(|v| v.to_le_bytes());
            batches.push(values.chain(y[..rows].iter().copied()).collect());
        }
    }
    batches
}

fn rows_of(batches: &[Vec<u8>]) -> Vec<u32> {
    let first = |batch: &Vec<u8>| {
        let rows = batch.len() / 9;
        let value = |i: usize| f32::from_le_bytes(batch[8 * i..8 * i + 4].try_into().unwrap());
        (0..rows).map(|i| value(i) as u32).collect::<Vec<_>>()
    };
    batches.iter().flat_map(first).collect()
}

fn options(batch_size: usize) -> LoaderOptions {
    LoaderOptions { batch_size, workers: Some(0), seed: 5, ..LoaderOptions::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_source_gives_the_same_bytes_however_it_is_loaded(
        rows in 1u32..700, batch_size in 1usize..80, prefetch in 1usize..200, drop_last: bool,
        rank in 0u32..3, world in 1u32..4, resume in 0.0f64..1.0, kind in 0..3, leave_every in 1usize..4,
    ) {
        let sampling = match kind {
            0 => Sampling::Shuffled,
            1 => Sampling::InOrder,
            _ => Sampling::Weighted(Arc::new(Weights::new(&(0..rows).map(|r| r as f64 + 0.5).collect::<Vec<_>>()).unwrap())),
        };
        let shard = Shard { rank: rank % world, world };
        let base = LoaderOptions { drop_last, shard, sampling, ..options(batch_size) };
        let Ok(mut plain) = Loader::new(Numbers::source(rows), base.clone()) else {
            // nothing to deliver: fewer rows than a batch, or than shards
            prop_assert!(rows < world || drop_last && rows / world < batch_size as u32 );
            return Ok(());
        };
        let expected = epochs(&mut plain, 3);
        let per_epoch = plain.batches_per_epoch();
        prop_assert_eq!(expected.len() as u64, 3 * per_epoch);
        for workers in [Some(0), Some(1), Some(2), Some(5), None] {
            let options = LoaderOptions { workers, prefetch: Some(prefetch), ..base.clone() };
            for source in [Numbers::source(rows), Numbers::heavy(rows)] {
                let load = || Loader::new(source.clone(), options.clone()).unwrap();
                prop_assert_eq!(&epochs(&mut load(), 3), &expected);
                prop_assert_eq!(&epochs_into(&mut load(), batch_size, 3, leave_every), &expected);
                let at = (resume * (3 * per_epoch) as f64) as u64;
                let mut loader = load().seek(at / per_epoch, at % per_epoch).unwrap();
                prop_assert_eq!(&epochs(&mut loader, 3 - (at / per_epoch) as usize)[..], &expected[at as usize..]);
            }
        }
    }

    #[test]
    fn a_stream_gives_the_same_bytes_however_it_is_loaded(
        sizes in prop::collection::vec(0u32..60, 1..20), batch_size in 1usize..80, prefetch in 1usize..50,
        window in 1u32..200, rank in 0u32..3, world in 1u32..4, resume in 0.0f64..1.0, shuffle: bool,
    ) {
        let rows: u32 = sizes.iter().sum();
        let sampling = if shuffle { Sampling::Shuffled } else { Sampling::InOrder };
        let shard = Shard { rank: rank % world, world };
        let base = LoaderOptions { shard, sampling, window: Some(window), ..options(batch_size) };
        let Ok(mut plain) = Loader::stream(Blocks::stream(&sizes), base.clone()) else {
            prop_assert!(rows < world);
            return Ok(());
        };
        let expected = epochs(&mut plain, 3);
        let per_epoch = plain.batches_per_epoch();
        for workers in [Some(0), Some(1), Some(2), Some(5), None] {
            let options = LoaderOptions { workers, prefetch: Some(prefetch), ..base.clone() };
            for waits in [false, true] {
                let load = || Loader::stream(Blocks::with(&sizes, None, waits), options.clone()).unwrap();
                prop_assert_eq!(load().report().readers > 0, waits);
                prop_assert_eq!(&epochs(&mut load(), 3), &expected);
                prop_assert_eq!(&epochs_into(&mut load(), batch_size, 3, 1), &expected);
                let at = (resume * (3 * per_epoch) as f64) as u64;
                let mut loader = load().seek(at / per_epoch, at % per_epoch).unwrap();
                prop_assert_eq!(&epochs(&mut loader, 3 - (at / per_epoch) as usize)[..], &expected[at as usize..]);
            }
        }
    }
}

#[test]
fn every_row_comes_once_an_epoch_over_all_shards() {
    for world in [1, 3] {
        let mut seen = Vec::new();
        let mut streamed = Vec::new();
        for rank in 0..world {
            let options = LoaderOptions { shard: Shard { rank, world }, window: Some(40), ..options(7) };
            seen.extend(rows_of(&epochs(&mut Loader::new(Numbers::source(100), options.clone()).unwrap(), 1)));
            let stream = Blocks::stream(&[10, 25, 5, 30, 30]);
            streamed.extend(rows_of(&epochs(&mut Loader::stream(stream, options).unwrap(), 1)));
        }
        for mut rows in [seen, streamed] {
            assert_ne!(rows, (0..100).collect::<Vec<_>>(), "shuffled");
            rows.sort_unstable();
            assert_eq!(rows, (0..100).collect::<Vec<_>>());
        }
    }
}

/// Rests at every other batch, from the first on.
#[test]
fn a_loader_that_rests_now_and_then_brings_the_same_batches() {
    let stream = || Blocks::stream(&[40, 7, 100, 53, 1, 99]);
    for workers in [Some(0), Some(1), Some(5), None] {
        let options = || LoaderOptions { workers, prefetch: Some(4), window: Some(120), ..options(16) };
        let both = || [Loader::new(Numbers::source(300), options()), Loader::stream(stream(), options())];
        for (plain, resting) in both().into_iter().zip(both()) {
            let expected = epochs(&mut plain.unwrap(), 3);
            let (mut loader, mut batches, mut ended) = (resting.unwrap(), Vec::<Vec<u8>>::new(), 0);
            while ended < 3 {
                if batches.len().is_multiple_of(2) {
                    loader.rest();
                }
                match loader.next_batch().unwrap() {
                    Some(batch) => {
                        batches.push(batch.fields().iter().flat_map(|field| field.bytes().to_vec()).collect())
                    }
                    None => ended += 1,
                }
            }
            assert_eq!(batches, expected, "{workers:?}");
        }
    }
}

#[test]
fn blocks_are_read_once_an_epoch() {
    // a chunk of 160 rows of the third epoch is filled ahead, from two windows of 3 blocks, and reading the next window has begun;
    // from a disk, all of it may be there
    for (stream, most) in [(Blocks::stream(&[50; 20]), 7), (Blocks::on_disk(&[50; 20]), 9)] {
        let options = LoaderOptions { window: Some(150), workers: Some(2), prefetch: Some(4), ..options(10) };
        let mut loader = Loader::stream(stream.clone(), options).unwrap();
        epochs(&mut loader, 2);
        drop(loader);
        let reads: Vec<u32> = stream.reads.iter().map(|block| block.load(Ordering::Relaxed)).collect();
        assert!(reads.iter().all(|&times| times == 2 || times == 3), "{reads:?}");
        let ahead = reads.iter().filter(|&&times| times == 3).count();
        assert!(ahead <= most, "{ahead} blocks ahead: {reads:?}");
    }
}

#[test]
fn an_error_arrives_in_its_turn_and_the_loader_stops() {
    for workers in [Some(0), Some(2), None] {
        let source = Arc::new(Numbers { schema: schema(), rows: 1000, heavy: false, broken: Some(777) });
        let options = LoaderOptions { sampling: Sampling::InOrder, workers, ..options(10) };
        let mut loader = Loader::new(source, options).unwrap();
        let mut good = 0;
        let error = loop {
            match loader.next_batch() {
                Ok(batch) => good += batch.map_or(0, |batch| batch.rows()),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("numbers.csv: row 777"), "{error}");
        assert!((600..=770).contains(&good), "{good} rows before the chunk with the error");
        assert!(loader.next_batch().is_err());
    }
}

#[test]
fn a_panic_in_a_source_is_an_error() {
    let source = Arc::new(Numbers { schema: schema(), rows: 100, heavy: false, broken: Some(13) });
    let mut loader = Loader::new(source, LoaderOptions { workers: Some(2), ..options(10) }).unwrap();
    let error = std::iter::from_fn(|| loader.next_batch().err()).next();
    assert!(error.is_some_and(|e| e.to_string().contains("thirteen")));
}

#[test]
fn a_broken_block_stops_the_run_or_is_counted() {
    for (workers, waits) in [(0, false), (2, false), (0, true), (2, true)] {
        let sizes = [10, 20, 30, 40];
        let options = LoaderOptions { workers: Some(workers), window: Some(60), ..options(10) };
        let mut loader = Loader::stream(Blocks::with(&sizes, Some(2), waits), options.clone()).unwrap();
        let error = (0..20).find_map(|_| loader.next_batch().err());
        assert!(error.is_some_and(|e| e.to_string().contains("block 2 is broken")));
        let options = LoaderOptions { on_error: OnError::Skip, ..options };
        let mut loader = Loader::stream(Blocks::with(&sizes, Some(2), waits), options).unwrap();
        let rows = rows_of(&epochs(&mut loader, 1));
        assert_eq!(rows.len(), 100);
        assert!(rows.iter().all(|row| !(30..60).contains(row)));
        assert!(loader.report().skipped_rows >= 30);
    }
}

#[test]
fn dropping_a_loader_at_any_moment_ends_its_threads() {
    for taken in 0..30 {
        let options = LoaderOptions { workers: Some(3), window: Some(20), ..options(3) };
        let mut loader = Loader::new(Numbers::source(50), options.clone()).unwrap();
        let mut stream = Loader::stream(Blocks::stream(&[7; 10]), options.clone()).unwrap();
        let mut disk = Loader::stream(Blocks::on_disk(&[7; 10]), options).unwrap();
        for _ in 0..taken {
            loader.next_batch().unwrap();
            stream.next_batch().unwrap();
            disk.next_batch().unwrap();
        }
    }
}

#[test]
fn impossible_wishes_are_refused() {
    assert!(Loader::new(Numbers::source(0), options(4)).is_err());
    assert!(Loader::new(Numbers::source(9), options(0)).is_err());
    assert!(Loader::new(Numbers::source(9), LoaderOptions { drop_last: true, ..options(10) }).is_err());
    let shard = Shard { rank: 3, world: 3 };
    assert!(Loader::new(Numbers::source(9), LoaderOptions { shard, ..options(2) }).is_err());
    let weights = Arc::new(Weights::new(&[1.0; 8]).unwrap());
    let weighted = LoaderOptions { sampling: Sampling::Weighted(weights), ..options(2) };
    assert!(Loader::new(Numbers::source(9), weighted.clone()).err().unwrap().to_string().contains("8 weights"));
    assert!(Loader::stream(Blocks::stream(&[9]), weighted).is_err());
    let mut loader = Loader::new(Numbers::source(9), options(4)).unwrap();
    let mut small = [0f32; 6];
    assert!(loader.next_into(&mut [FieldMut::F32(&mut small), FieldMut::U8(&mut [0; 4])]).is_err());
}
