//! Arbitrary bytes into every reader: any answer will do, as long as there is one.

mod made;

use std::sync::Arc;

use arrow_array::{Float32Array, StringArray};
use citius_data::{
    Order, Preparation, PrepareOptions, ReadOptions, Table, mnist_dir, open_blocks, read_images, read_labels,
    read_row_file,
};
use proptest::prelude::*;

/// Reads a table and, if it is one, prepares every column of it as a target.
fn table(name: &str, bytes: &[u8]) {
    let Ok(table) = Table::from_bytes(name, bytes, &ReadOptions::default()) else {
        return;
    };
    let rows: Vec<u32> = (0..table.rows as u32).collect();
    for target in 0..table.columns.len().min(4) {
        let train = &rows[..rows.len().div_ceil(2)];
        if let Ok(preparation) = Preparation::fit(&table, target, train, &PrepareOptions::default()) {
            let (data, _) = preparation.encode_features(&table).unwrap_or_default();
            assert!(data.iter().all(|value| value.is_finite()));
            let labelled = preparation.labelled_rows(&table, &rows).unwrap();
            let _ = preparation.encode(&table, &labelled);
            preparation.notes_for(&table).unwrap();
        }
    }
}

fn npy(header: String, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// Opens bytes as blocks and reads them all.
fn blocks(bytes: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    std::fs::write(&path, bytes).unwrap();
    if let Ok(blocks) = open_blocks(&path, &ReadOptions::default()) {
        (0..blocks.blocks().len() - 1).for_each(|block| drop(blocks.read(block)));
    }
}

fn binary_file(kind: usize) -> Vec<u8> {
    let batch = made::batch(vec![
        ("a", Arc::new(Float32Array::from_iter((0..40).map(|row| (row % 9 > 0).then_some(row as f32))))),
        ("w", Arc::new(StringArray::from_iter_values((0..40).map(|row| ["x", "yy", "zzz"][row % 3])))),
    ]);
    match kind {
        0 => made::parquet(&batch, 25),
        1 => made::arrow_file(&batch, 25),
        2 => made::compressed_arrow_file(&batch),
        3 => made::arrow_stream(&batch, 25),
        _ => made::npz(&[("a", made::npy("|u1", "(2, 2)", &[3, 4, 5, 6]))], true),
    }
}

proptest! {
    #[test]
    fn damaged_binary_files(
        kind in 0usize..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        keep in any::<bool>(),
    ) {
        let mut bytes = binary_file(kind);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(if keep { bytes.len() } else { cut.index(bytes.len()) });
        table("a", &bytes);
        blocks(&bytes);
    }

    #[test]
    fn bytes_behind_a_magic(
        magic in prop::sample::select(vec![&b"PAR1"[..], b"ARROW1\0\0", b"\xff\xff\xff\xff", b"PK\x03\x04"]),
        body in prop::collection::vec(any::<u8>(), 0..200),
        tail in prop::sample::select(vec![&b"PAR1"[..], b"ARROW1", b""]),
    ) {
        let bytes = [magic, &body, tail].concat();
        table("a", &bytes);
        blocks(&bytes);
    }

    #[test]
    fn text_as_blocks(text in r#"([0-9.]{0,3}|[a-cé]|"|NA|inf|-1e308|[,;\t |#]|\n|\r\n|\r){0,80}"#) {
        blocks(text.as_bytes());
    }

    #[test]
    fn bytes_as_tables(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        table("a.csv", &bytes);
        table("a.npy", &bytes);
    }

    #[test]
    fn text_as_tables(text in r#"([0-9.]{0,3}|[a-cé]|"|NA|inf|-1e308|[,;\t |#]|\n|\r\n){0,80}"#) {
        table("a.csv", text.as_bytes());
    }

    #[test]
    fn near_tables(
        cells in prop::collection::vec(
            prop_oneof!["[0-9]{1,3}", "-?[0-9]e[0-9]{1,3}", "[a-c]", Just(String::new())],
            0..60,
        ),
        width in 1usize..6,
        delimiter in prop::sample::select(vec![",", ";", "\t", " ", ", "]),
    ) {
        let lines: Vec<String> = cells.chunks(width).map(|row| row.join(delimiter)).collect();
        table("a.csv", lines.join("\n").as_bytes());
    }

    #[test]
    fn npy_headers(
        descr in prop::sample::select(vec!["'<f8'", "'<f4'", "'|u1'", "'<i2'", "'|b1'", "'>f8'", "[('a','<f8')]"]),
        fortran in any::<bool>(),
        shape in prop::collection::vec(prop_oneof![0u64..5, any::<u64>()], 0..4),
        data in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
        let order = if fortran { "True" } else { "False" };
        let header = format!(
            "{{'descr': {descr}, 'fortran_order': {order}, 'shape': ({},), }}", sizes.join(", ")
        );
        table("a.npy", &npy(header, &data));
    }

    #[test]
    fn bytes_as_npy_header(header in ".{0,80}", data in prop::collection::vec(any::<u8>(), 0..40)) {
        table("a.npy", &npy(header, &data));
    }

    #[test]
    fn bytes_as_idx(
        magic in prop::sample::select(vec![0u32, 2049, 2051, u32::MAX]),
        sizes in prop::collection::vec(prop_oneof![0u32..5, any::<u32>()], 0..4),
        body in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut bytes = magic.to_be_bytes().to_vec();
        sizes.iter().for_each(|size| bytes.extend(size.to_be_bytes()));
        bytes.extend(body);
        let dir = tempfile::tempdir().unwrap();
        for name in ["train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                     "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"] {
            std::fs::write(dir.path().join(name), &bytes).unwrap();
        }
        let path = dir.path().join("train-images-idx3-ubyte");
        let _ = (read_images(&path), read_labels(&path), mnist_dir(dir.path()));
        let _ = read_row_file(&path, 10);
    }

    #[test]
    fn orders_are_permutations(n in 0u32..3000, seed in any::<u64>(), epoch in any::<u64>()) {
        let mut rows = vec![0; n as usize];
        Order::new(n, seed, epoch).fill(0, &mut rows);
        rows.sort();
        prop_assert!(rows.into_iter().eq(0..n));
    }
}
