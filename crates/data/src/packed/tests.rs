//! Round trips, and every way a file can be spoilt.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::layout::{BLOCK_ROWS, PAGE};
use super::*;
use crate::dataset::{Dataset, Features, Target};
use crate::loader::{Loader, LoaderOptions};
use crate::rng::SplitMix64;
use crate::schema::{Field, Kind};
use crate::slot::{FieldMut, FieldRef, Heap, Slot};
use crate::source::{InMemory, Rows, Source, Stored, Stream};

/// Rows, and beside them the bytes of each field of bytes, of each row.
type Values = (Slot, Vec<Vec<Vec<u8>>>);

fn random(schema: &Schema, rows: usize, bytes: usize, seed: u64) -> Values {
    let mut rng = SplitMix64::new(seed);
    let mut slot = Slot::new(schema, rows, &Heap).unwrap();
    for field in &mut slot.rows_mut(0..rows) {
        match field {
            FieldMut::F32(values) => values.fill_with(|| f32::from_bits(rng.next_u64() as u32)),
            other => other.bytes_mut().fill_with(|| rng.next_u64() as u8),
        }
    }
    let mut blob = || (0..rng.below(200)).map(|_| rng.next_u64() as u8).collect();
    let blobs = (0..bytes).map(|_| (0..rows).map(|_| blob()).collect()).collect();
    (slot, blobs)
}

fn write(
    path: &Path,
    schema: &Schema,
    (slot, blobs): &Values,
    chunk: usize,
    options: PackOptions,
) -> Result<Summary, DataError> {
    let mut writer = PackWriter::create(path, schema, options)?;
    for start in (0..slot.capacity()).step_by(chunk) {
        let rows = start..slot.capacity().min(start + chunk);
        let blobs: Vec<Vec<&[u8]>> =
            blobs.iter().map(|field| field[rows.clone()].iter().map(Vec::as_slice).collect()).collect();
        let blobs: Vec<&[&[u8]]> = blobs.iter().map(Vec::as_slice).collect();
        writer.push_with_bytes(&slot.rows(rows.clone()), &blobs, rows.len())?;
    }
    writer.finish()
}

/// All rows, read as a stream.
fn read(file: &PackedFile) -> Result<Slot, DataError> {
    let mut slot = Slot::new(file.schema(), file.rows() as usize, &Heap)?;
    for (block, cut) in file.blocks().windows(2).enumerate() {
        file.read(block, &mut slot.rows_mut(cut[0] as usize..cut[1] as usize))?;
    }
    Ok(slot)
}

fn same(a: &[FieldRef<'_>], b: &[FieldRef<'_>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.bytes() == b.bytes())
}

/// A file of 12 rows in 3 blocks, with a field of bytes.
fn small(dir: &Path) -> (PathBuf, Schema, Values) {
    let schema = Schema::new(vec![
        Field::new("x", Kind::F32, &[3]),
        Field::new("u", Kind::U8, &[5]),
        Field::classes("y", vec!["cat".into(), "dog".into()]),
    ])
    .unwrap();
    let rows = random(&schema, 12, 1, 5);
    let path = dir.join("small.citius");
    let options = PackOptions { bytes: vec!["jpeg".into()], block_bytes: 600, ..Default::default() };
    let summary = write(&path, &schema, &rows, 5, options).unwrap();
    assert!(summary.blocks >= 3, "{summary:?}");
    (path, schema, rows)
}

fn schemas() -> impl Strategy<Value = Schema> {
    let kind = prop::sample::select(vec![Kind::U8, Kind::I32, Kind::F32]);
    let field = (kind, prop::collection::vec(0usize..5, 0..3), 0usize..3);
    prop::collection::vec(field, 0..4).prop_map(|fields| {
        let field = |(i, (kind, shape, labels)): (usize, (Kind, Vec<usize>, usize))| {
            let labels = (0..labels).map(|l| format!("class \"{l}\"")).collect();
            Field { labels, ..Field::new(&format!("field {i}"), kind, &shape) }
        };
        Schema::new(fields.into_iter().enumerate().map(field).collect()).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]
    #[test]
    fn what_goes_in_comes_out(
        schema in schemas(),
        rows in 0usize..150,
        bytes in 0usize..3,
        chunk in 1usize..60,
        block_bytes in prop::sample::select(vec![0, 1, 100, 1000, 1 << 20]),
        seed in any::<u64>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.citius");
        let names: Vec<String> = (0..bytes).map(|i| format!("bytes {i}")).collect();
        let notes = BTreeMap::from([("scale".to_owned(), json!({"mean": 0.1307, "list": [1, null, "é"]}))]);
        let options = PackOptions { bytes: names.clone(), block_bytes, notes, source: "s".into(), overwrite: false };
        let values = random(&schema, rows, bytes, seed);
        let summary = write(&path, &schema, &values, chunk, options.clone()).unwrap();
        prop_assert_eq!(summary.rows as usize, rows);
        prop_assert_eq!(summary.bytes, fs::metadata(&path).unwrap().len());

        let file = PackedFile::open(&path).unwrap();
        prop_assert_eq!(&file.metadata().schema, &schema);
        prop_assert_eq!(&file.metadata().notes, &options.notes);
        prop_assert_eq!(&file.metadata().source, "s");
        prop_assert_eq!(file.metadata().statistics.len(), schema.fields.len());
        prop_assert!(same(&read(&file).unwrap().rows(0..rows), &values.0.rows(0..rows)));
        let past = PackedFile::open(&path).unwrap().past_the_cache();
        prop_assert!(same(&read(&past).unwrap().rows(0..rows), &values.0.rows(0..rows)));
        prop_assert!(same(&file.load(u64::MAX).unwrap().view(0..rows as u32), &values.0.rows(0..rows)));
        for (name, blobs) in names.iter().zip(&values.1) {
            for (row, blob) in blobs.iter().enumerate() {
                prop_assert_eq!(&file.bytes(name, row as u32).unwrap(), blob);
            }
            prop_assert!(file.bytes(name, rows as u32).is_err());
        }
        file.verify(&mut |_, _| {}).unwrap();

        // the same rows give the same file, however they were pushed
        let again = dir.path().join("b.citius");
        write(&again, &schema, &values, rows.max(1), options).unwrap();
        prop_assert_eq!(fs::read(&path).unwrap(), fs::read(&again).unwrap());
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200), proper in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        let (path, ..) = small(dir.path());
        let mut all = if proper { fs::read(&path).unwrap()[..16].to_vec() } else { Vec::new() };
        all.extend(bytes);
        fs::write(&path, &all).unwrap();
        prop_assert!(PackedFile::open(&path).is_err());
    }
}

fn put(path: &Path, at: usize, byte: u8) {
    let mut file = fs::File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at as u64)).and_then(|_| file.write_all(&[byte])).unwrap();
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _, values) = small(dir.path());
    let bytes = fs::read(&path).unwrap();
    let mut rng = SplitMix64::new(1);
    let mut in_padding = 0;
    for at in 0..bytes.len() {
        put(&path, at, bytes[at] ^ 1 << rng.below(8));
        if at > 0 {
            put(&path, at - 1, bytes[at - 1]);
        }
        let Ok(file) = PackedFile::open(&path) else { continue };
        let error = file.verify(&mut |_, _| {}).unwrap_err().to_string();
        assert!(error.contains("small.citius") && error.contains("block") && error.contains("rows"), "{error}");
        // what is read nevertheless is right
        let mut noticed = false;
        match read(&file) {
            Ok(slot) => assert!(same(&slot.rows(0..12), &values.0.rows(0..12)), "byte {at}"),
            Err(_) => noticed = true,
        }
        for (row, blob) in values.1[0].iter().enumerate() {
            match file.bytes("jpeg", row as u32) {
                Ok(got) => assert_eq!(got, *blob, "byte {at}"),
                Err(_) => noticed = true,
            }
        }
        in_padding += !noticed as usize;
    }
    assert!(in_padding > 0 && in_padding < bytes.len());
}

#[test]
fn no_cut_goes_unnoticed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ..) = small(dir.path());
    let bytes = fs::read(&path).unwrap();
    let handle = fs::File::options().write(true).open(&path).unwrap();
    for length in (0..bytes.len()).rev() {
        handle.set_len(length as u64).unwrap();
        let error = PackedFile::open(&path).err().unwrap().to_string();
        if length as u64 >= PAGE {
            let want = format!("{length} of {} bytes are there, {} are missing", bytes.len(), bytes.len() - length);
            assert!(error.contains(&want), "{error}");
        } else {
            assert!(error.contains("cut short") || length == 0, "{error}");
        }
    }
    fs::write(&path, [&bytes[..], b"!"].concat()).unwrap();
    assert!(PackedFile::open(&path).err().unwrap().to_string().contains("1 bytes follow its end"));
}

/// Puts the right checksum under a changed header.
fn seal(bytes: &mut [u8]) {
    let end = PAGE as usize - 4;
    let crc = crc32fast::hash(&bytes[..end]);
    bytes[end..end + 4].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn newer_and_contradictory_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ..) = small(dir.path());
    let bytes = fs::read(&path).unwrap();
    let open = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        seal(&mut bytes);
        fs::write(&path, &bytes).unwrap();
        PackedFile::open(&path).err().unwrap().to_string()
    };
    let error = open(&|bytes| bytes[8] = 3);
    assert!(error.contains("written by a newer citius, format 3; this one reads up to 1"), "{error}");
    assert!(open(&|bytes| bytes[8] = 0).contains("format 0"));
    // sizes that would take all memory, or wrap around
    for at in [24, 32, 40] {
        for number in [u64::MAX, 1 << 62, u64::MAX - 4096, 0] {
            let error = open(&|bytes| bytes[at..at + 8].copy_from_slice(&number.to_le_bytes()));
            assert!(error.contains("small.citius"), "{error}");
        }
    }
    // an index that leads astray, under right checksums
    for (entry, number) in [(0, u64::MAX - 4095), (0, 1 << 40), (0, 0), (8, 0), (8, u64::MAX)] {
        let error = open(&|bytes| {
            let length = bytes.len();
            let index = length - u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
            bytes[index + entry..index + entry + 8].copy_from_slice(&number.to_le_bytes());
            let footer = u64::from_le_bytes(bytes[24..32].try_into().unwrap()) as usize;
            let crc = crc32fast::hash(&bytes[footer..]);
            bytes[48..52].copy_from_slice(&crc.to_le_bytes());
        });
        assert!(error.contains("index"), "{error}");
    }
    fs::write(&path, b"\x1f\x8b\x08rest").unwrap();
    assert!(PackedFile::open(&path).err().unwrap().to_string().contains("gzip"));
    fs::write(&path, b"a,b,c\n1,2,3\n").unwrap();
    assert!(PackedFile::open(&path).err().unwrap().to_string().contains("does not begin as one"));
    assert!(PackedFile::open(dir.path()).err().unwrap().to_string().contains("a directory"));
    let error = PackedFile::open(dir.path().join("smal.citius")).err().unwrap().to_string();
    assert!(error.contains("did you mean \"small.citius\""), "{error}");
}

#[test]
fn a_file_that_changes_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (path, schema, _) = small(dir.path());
    let file = PackedFile::open(&path).unwrap();
    let rows = file.blocks()[1] as usize;
    let mut slot = Slot::new(&schema, rows, &Heap).unwrap();
    file.read(0, &mut slot.rows_mut(0..rows)).unwrap();
    let handle = fs::File::options().write(true).open(&path).unwrap();
    handle.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let error = file.read(0, &mut slot.rows_mut(0..rows)).unwrap_err().to_string();
    assert!(error.contains("changed since it was opened: it was written to"), "{error}");
    let file = PackedFile::open(&path).unwrap();
    handle.set_len(5000).unwrap();
    let error = file.bytes("jpeg", 0).unwrap_err().to_string();
    assert!(error.contains("changed since it was opened") && error.contains("has 5000"), "{error}");
    assert!(file.verify(&mut |_, _| {}).is_err() && file.load(u64::MAX).is_err());
}

#[test]
fn past_the_page_cache_all_is_as_usual() {
    let dir = tempfile::tempdir().unwrap();
    // a first field that goes straight to its place but for its end, and more behind it than goes through the buffer at a time
    let schema = Schema::new(vec![
        Field::new("x", Kind::U8, &[701]),
        Field::new("y", Kind::F32, &[300]),
        Field::new("z", Kind::I32, &[]),
    ]);
    let (schema, path) = (schema.unwrap(), dir.path().join("a.citius"));
    let rows = 4000;
    let values = random(&schema, rows, 0, 3);
    write(&path, &schema, &values, 999, PackOptions { block_bytes: 3 << 20, ..Default::default() }).unwrap();
    let open = || PackedFile::open(&path).unwrap().past_the_cache();
    // blocks in one slot begin anywhere, in slots of their own at a page
    assert!(same(&read(&open()).unwrap().rows(0..rows), &values.0.rows(0..rows)));
    let file = open();
    for (block, cut) in file.blocks().windows(2).enumerate() {
        let (first, end) = (cut[0] as usize, cut[1] as usize);
        let mut slot = Slot::new(&schema, end - first, &Heap).unwrap();
        file.read(block, &mut slot.rows_mut(0..end - first)).unwrap();
        assert!(same(&slot.rows(0..end - first), &values.0.rows(first..end)));
    }

    let batches = |file: PackedFile, workers| {
        let options = LoaderOptions { batch_size: 64, workers, window: Some(3000), ..Default::default() };
        let mut loader = Loader::stream(Arc::new(file), options).unwrap();
        let mut bytes = Vec::new();
        while let Some(batch) = loader.next_batch().unwrap() {
            batch.fields().iter().for_each(|field| bytes.extend_from_slice(field.bytes()));
        }
        bytes
    };
    let expected = batches(PackedFile::open(&path).unwrap(), Some(0));
    for workers in [Some(0), Some(1), Some(3), None] {
        assert!(batches(open(), workers) == expected, "{workers:?}");
    }

    let bytes = fs::read(&path).unwrap();
    put(&path, 5000, bytes[5000] ^ 4);
    let error = read(&open()).err().unwrap().to_string();
    assert!(error.contains("block 1 of") && error.contains("is damaged"), "{error}");
    put(&path, 5000, bytes[5000]);
    let file = open();
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
    let error = read(&file).err().unwrap().to_string();
    assert!(error.contains("changed since it was opened"), "{error}");
}

#[test]
fn nothing_is_left_of_what_was_not_finished() {
    let dir = tempfile::tempdir().unwrap();
    let left = || fs::read_dir(dir.path()).unwrap().count();
    let path = dir.path().join("a.citius");
    let schema = Schema::new(vec![Field::new("x", Kind::U8, &[2])]).unwrap();
    let create =
        |overwrite| PackWriter::create(&path, &schema, PackOptions { overwrite, block_bytes: 4, ..Default::default() });

    let mut writer = create(false).unwrap();
    writer.push(&[FieldRef::U8(&[1; 20])], 10).unwrap();
    assert_eq!(left(), 1);
    assert!(!path.exists());
    drop(writer);
    assert_eq!(left(), 0);

    let mut writer = create(false).unwrap();
    let error = writer.push(&[FieldRef::U8(&[1; 3])], 2).unwrap_err().to_string();
    assert!(error.contains("2 rows of x u8[2]"), "{error}");
    assert_eq!(left(), 0, "gone with the failure");
    assert!(writer.push(&[FieldRef::U8(&[1; 2])], 1).is_err() && writer.finish().is_err());
    assert_eq!(left(), 0);
    assert!(create(false).unwrap().push(&[FieldRef::I32(&[1; 2])], 1).is_err());
    assert!(create(false).unwrap().push_with_bytes(&[FieldRef::U8(&[1; 2])], &[&[b"a"]], 1).is_err());

    struct Failing(Schema);
    impl Source for Failing {
        fn name(&self) -> &str {
            "failing"
        }
        fn schema(&self) -> &Schema {
            &self.0
        }
        fn rows(&self) -> u32 {
            1 << 20
        }
        fn gather(&self, rows: &Rows<'_>, _: &mut [FieldMut<'_>]) -> Result<(), DataError> {
            match rows.numbers.contains(&77_777) {
                true => Err(DataError::Inconsistent("row 77777".into())),
                false => Ok(()),
            }
        }
    }
    let mut done = 0;
    let failed = pack_source(&Failing(schema.clone()), &path, PackOptions::default(), &mut |rows, _| done = rows);
    assert!(failed.unwrap_err().to_string().contains("row 77777"));
    assert_eq!((left(), done as usize), (0, BLOCK_ROWS));

    create(false).unwrap().finish().unwrap();
    let error = create(false).err().unwrap().to_string();
    assert!(error.contains("exists"), "{error}");
    let mut writer = create(true).unwrap();
    writer.push(&[FieldRef::U8(&[1; 2])], 1).unwrap();
    assert_eq!(PackedFile::open(&path).unwrap().rows(), 0, "the old file until the new one is finished");
    writer.finish().unwrap();
    assert_eq!((PackedFile::open(&path).unwrap().rows(), left()), (1, 1));

    let nowhere = PackWriter::create(dir.path().join("no/a.citius"), &schema, PackOptions::default());
    assert!(nowhere.err().unwrap().to_string().contains("no directory"));
    assert!(PackWriter::create(dir.path(), &schema, PackOptions::default()).is_err());
}

#[test]
fn notes_and_names_that_cannot_be_kept_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let schema = Schema::new(vec![Field::new("x", Kind::U8, &[2])]).unwrap();
    let refused = |options| PackWriter::create(dir.path().join("a"), &schema, options).is_err();
    assert!(refused(PackOptions { bytes: vec!["x".into()], ..Default::default() }));
    assert!(refused(PackOptions { bytes: vec!["b".into(), "b".into()], ..Default::default() }));
    let deep = (0..1000).fold(json!(1), |inner, _| json!([inner]));
    assert!(refused(PackOptions { notes: BTreeMap::from([("deep".into(), deep)]), ..Default::default() }));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn several_threads_read_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.citius");
    let data = Dataset::new(
        5000,
        Features::F32 { data: (0..5000 * 20).map(|v| v as f32).collect(), width: 20 },
        Target::Classes { data: (0..5000).map(|v| v % 10).collect(), classes: 10 },
    );
    let source = InMemory::new("d", Arc::new(data.unwrap())).unwrap();
    let options = PackOptions { block_bytes: 4000, ..Default::default() };
    let mut told = Vec::new();
    let summary = pack_source(&source, &path, options.clone(), &mut |done, all| told.push((done, all))).unwrap();
    assert_eq!((summary.rows, told.len(), told.last()), (5000, summary.blocks, Some(&(5000, 5000))));
    let file = PackedFile::open(&path).unwrap();
    let want = Stored::from_source(&source).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (file, want) = (&file, &want);
            scope.spawn(move || {
                for i in 0..3 * summary.blocks {
                    let block = (i * 7 + thread * 13) % summary.blocks;
                    let rows = file.blocks()[block]..file.blocks()[block + 1];
                    let mut slot = Slot::new(file.schema(), rows.len(), &Heap).unwrap();
                    file.read(block, &mut slot.rows_mut(0..rows.len())).unwrap();
                    assert!(same(&slot.rows(0..rows.len()), &want.view(rows)));
                }
            });
        }
    });
    let classes = file.statistics("y").unwrap();
    assert_eq!((classes.classes.clone(), classes.all.mean), (vec![500; 10], 4.5));
    let x = file.statistics("x").unwrap();
    assert_eq!((x.columns.len(), x.columns[3].min, x.all.max), (20, 3.0, 99_999.0));

    // a packed file is a stream that can be packed, even over itself
    let over = PackOptions { overwrite: true, source: "d".into(), ..options };
    let before = fs::read(&path).unwrap();
    pack_stream(&file, &path, over, &mut |_, _| {}).unwrap();
    assert!(before == fs::read(&path).unwrap());

    let error = file.load(1000).err().unwrap().to_string();
    assert!(error.contains("need 420000 bytes of memory, the limit is 1000"), "{error}");
    assert!(file.read(summary.blocks, &mut []).is_err());
}
