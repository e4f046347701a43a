//! Packed files: as they come, or put together here so that the checksums of header, footer and blocks hold.

use citius_data::{Heap, PackedFile, Rows, Slot, Source, Stream};

use crate::{Draw, with_file};

const PAGE: usize = 4096;
const LIMIT: u64 = 64 << 20;

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let bytes = if draw.flag() { draw.rest().to_vec() } else { assembled(draw) };
    with_file("a.citius", &bytes, |path| {
        if let Ok(file) = PackedFile::open(path) {
            check(&file);
        }
    });
}

fn check(file: &PackedFile) {
    let (fields, blocks) = (file.metadata().bytes.clone(), file.blocks());
    assert_eq!((blocks[0], *blocks.last().expect("an end")), (0, file.rows()));
    for field in &fields {
        for row in (0..file.rows()).take(64).chain(file.rows().checked_sub(1)) {
            let _ = file.bytes(field, row);
        }
    }
    let largest = blocks.windows(2).map(|cut| cut[1] - cut[0]).max().unwrap_or(0) as usize;
    // a claim of the description that no block keeps yet: a loader would ask for this memory
    let room = largest as u64 * file.schema().row_bytes() as u64;
    if room <= LIMIT {
        let mut slot = Slot::new(file.schema(), largest, &Heap).expect("little memory");
        let read =
            |(block, cut): (usize, &[u32])| file.read(block, &mut slot.rows_mut(0..(cut[1] - cut[0]) as usize)).is_ok();
        let whole = blocks.windows(2).enumerate().take(64).all(read);
        assert_eq!(
            file.load(LIMIT).is_ok() || blocks.len() > 64,
            whole || blocks.len() > 64,
            "blocks, and all of them"
        );
    }
    if let Ok(stored) = file.load(LIMIT) {
        let numbers: Vec<u32> = (0..stored.rows()).rev().take(256).collect();
        let mut slot = Slot::new(file.schema(), numbers.len(), &Heap).expect("little memory");
        let rows = Rows { numbers: &numbers, seed: 0, epoch: 0 };
        stored.gather(&rows, &mut slot.rows_mut(0..numbers.len())).expect("rows that are there");
    }
    let _ = file.verify(&mut |_, _| {});
}

/// Lengths of a description and an index, both, and the bytes of each block; where `fields` is not 0, that many of a
/// block are under its checksum.
fn assembled(mut draw: Draw<'_>) -> Vec<u8> {
    let (json, entries, fields) = (draw.short() as usize, draw.byte() as usize, draw.short() as usize);
    let header_edit = (draw.byte() as usize, draw.byte());
    let json = draw.take(json);
    let mut index = draw.take(24 * entries).to_vec();
    let mut pages = Vec::new();
    while !draw.is_empty() {
        let length = draw.short() as usize;
        pages.extend(draw.take(length));
        pages.resize(pages.len().next_multiple_of(PAGE), 0);
    }
    let mut at = 0;
    for entry in index.chunks_exact_mut(24).filter(|_| fields > 0) {
        let length = u64::from_le_bytes(entry[..8].try_into().expect("8 bytes")) as usize;
        let Some(block) = pages.get(at..).and_then(|rest| rest.get(..length)) else { break };
        let (head, tail) = block.split_at(fields.min(length));
        entry[12..16].copy_from_slice(&crc32fast::hash(head).to_le_bytes());
        entry[16..20].copy_from_slice(&crc32fast::hash(tail).to_le_bytes());
        at += length;
    }
    let footer = [json, &index].concat();
    let mut header = vec![0; PAGE];
    header[..8].copy_from_slice(b"\x89CITIUS\n");
    header[8] = 1;
    let starts = PAGE + pages.len();
    for (at, number) in [starts + footer.len(), starts, json.len(), index.len()].into_iter().enumerate() {
        header[16 + 8 * at..24 + 8 * at].copy_from_slice(&(number as u64).to_le_bytes());
    }
    header[48..52].copy_from_slice(&crc32fast::hash(&footer).to_le_bytes());
    header[header_edit.0 % 52] ^= header_edit.1;
    let crc = crc32fast::hash(&header[..PAGE - 4]);
    header[PAGE - 4..].copy_from_slice(&crc.to_le_bytes());
    [header, pages, footer].concat()
}
