//! A damaged packed file gives an error or the rows that were packed, never others.

use std::sync::OnceLock;

use citius_data::{
    Field, FieldMut, FieldRef, Heap, Kind, PackOptions, PackWriter, PackedFile, Rows, Schema, Slot, Source, Stream,
};

use crate::{Draw, with_file, with_files};

const ROWS: usize = 40;
const PAGE: usize = 4096;
const BLOBS: [&str; 2] = ["picture", "name"];

pub fn run(input: &[u8]) {
    static ORIGINAL: OnceLock<Vec<u8>> = OnceLock::new();
    let original = ORIGINAL.get_or_init(packed);
    let mut draw = Draw::new(input);
    let mut bytes = original.clone();
    damage(&mut draw, &mut bytes);
    with_file("a.citius", &bytes, |path| {
        let Ok(file) = PackedFile::open(path) else {
            assert!(bytes != *original, "the file itself is refused");
            return;
        };
        let verified = file.verify(&mut |_, _| {}).is_ok();
        check(&file, verified);
        assert!(verified || bytes != *original, "the file itself is refused");
    });
}

/// A few bytes set anywhere, which any checksum notices, or what disks and copies do: zeros, parts that change places,
/// a cut, a tail.
fn damage(draw: &mut Draw<'_>, bytes: &mut Vec<u8>) {
    let place = |draw: &mut Draw<'_>| draw.short() as usize % bytes.len();
    let pages = bytes.len() / PAGE;
    match draw.byte() % 6 {
        0 => {
            let edits = [0; 3].map(|_| (place(draw), draw.byte()));
            edits.into_iter().for_each(|(at, flips)| bytes[at] ^= flips);
        }
        1 => {
            let (start, length) = (place(draw), draw.short() as usize);
            bytes.iter_mut().skip(start).take(length).for_each(|byte| *byte = 0);
        }
        2 => {
            let (from, to) = (draw.byte() as usize % pages * PAGE, draw.byte() as usize % pages * PAGE);
            let (page, other) = (bytes[from..from + PAGE].to_vec(), bytes[to..to + PAGE].to_vec());
            bytes[to..to + PAGE].copy_from_slice(&page);
            bytes[from..from + PAGE].copy_from_slice(&other);
        }
        3 => {
            let (from, to, length) = (place(draw), place(draw), draw.byte() as usize);
            let length = length.min(bytes.len() - from.max(to));
            bytes.copy_within(from..from + length, to);
        }
        4 => bytes.truncate(place(draw)),
        _ => bytes.extend(draw.take(64)),
    }
}

/// All that can be read is what was packed; all of it can if the file was verified.
fn check(file: &PackedFile, verified: bool) {
    let (original, blobs) = values();
    let blocks = file.blocks().windows(2).enumerate();
    let mut whole = true;
    for (block, cut) in blocks {
        let rows = cut[0] as usize..cut[1] as usize;
        let mut slot = Slot::new(file.schema(), rows.len(), &Heap).expect("little memory");
        let read = file.read(block, &mut slot.rows_mut(0..rows.len()));
        whole &= read.is_ok();
        assert!(read.is_err() || slot.rows(0..rows.len()) == original.rows(rows), "other rows in block {block}");
    }
    for (field, values) in BLOBS.iter().zip(&blobs) {
        for (row, value) in values.iter().enumerate() {
            let read = file.bytes(field, row as u32);
            assert!(read.is_ok() || !verified, "{field} of row {row} is not read");
            assert!(read.is_err() || read.is_ok_and(|bytes| bytes == *value), "other bytes, {field} of row {row}");
        }
    }
    assert!(whole || !verified, "rows that were verified are not read");
    let stored = file.load(1 << 20);
    assert_eq!(stored.is_ok(), whole, "blocks, and all of them");
    if let Ok(stored) = stored {
        let numbers: Vec<u32> = (0..ROWS as u32).collect();
        let mut slot = Slot::new(file.schema(), ROWS, &Heap).expect("little memory");
        let rows = Rows { numbers: &numbers, seed: 0, epoch: 0 };
        stored.gather(&rows, &mut slot.rows_mut(0..ROWS)).expect("rows that are there");
        assert!(slot.rows(0..ROWS) == original.rows(0..ROWS), "other rows in memory");
    }
}

fn schema() -> Schema {
    let labels = ["cat", "dog"].map(String::from).to_vec();
    let fields = [Field::new("x", Kind::F32, &[3]), Field::classes("y", labels), Field::new("z", Kind::U8, &[5])];
    Schema::new(fields.to_vec()).expect("a schema")
}

/// The rows, and the bytes of each row of each field of bytes.
fn values() -> (Slot, [Vec<Vec<u8>>; 2]) {
    let mut slot = Slot::new(&schema(), ROWS, &Heap).expect("little memory");
    for (field, values) in slot.rows_mut(0..ROWS).iter_mut().enumerate() {
        match values {
            FieldMut::F32(x) => x.iter_mut().zip(1..).for_each(|(x, i)| *x = i as f32 * 0.37),
            FieldMut::I32(y) => y.iter_mut().zip(1..).for_each(|(y, i)| *y = i * i % 2),
            FieldMut::U8(z) => z.iter_mut().zip(1..).for_each(|(z, i)| *z = (i * 31 + field) as u8),
        }
    }
    let blob = |row: usize, step: usize| (0..row * step % 97).map(|at| (row + at * step) as u8).collect();
    (slot, [7, 13].map(|step| (0..ROWS).map(|row| blob(row, step)).collect()))
}

/// A file of several blocks.
fn packed() -> Vec<u8> {
    let (slot, blobs) = values();
    let blobs = blobs.each_ref().map(|field| field.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let blobs: Vec<&[&[u8]]> = blobs.iter().map(Vec::as_slice).collect();
    let options = PackOptions { bytes: BLOBS.map(String::from).to_vec(), block_bytes: 256, ..PackOptions::default() };
    with_files(&[], |dir| {
        let path = dir.join("a.citius");
        let mut writer = PackWriter::create(&path, &schema(), options).expect("a file");
        let fields: Vec<FieldRef<'_>> = slot.rows(0..ROWS).into_vec();
        writer.push_with_bytes(&fields, &blobs, ROWS).expect("rows");
        writer.finish().expect("a file");
        std::fs::read(path).expect("a file")
    })
}
