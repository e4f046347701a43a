//! Arbitrary bytes into every reader: any answer will do, as long as there is one.

use citius_data::{
    Order, Preparation, PrepareOptions, ReadOptions, Table, mnist_dir, read_images, read_labels, read_row_file,
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

proptest! {
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
