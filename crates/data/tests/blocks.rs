//! Files in blocks: the same rows as a whole file, encoded to the same bits, and trouble named.

mod made;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::*;
use citius_data::*;
use made::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

fn open(path: &Path) -> Box<dyn TableBlocks> {
    open_blocks(path, &ReadOptions::default()).unwrap()
}

/// All rows through blocks; the samples of more rows than there are.
fn whole(blocks: &dyn TableBlocks) -> Table {
    Encoded::sample(blocks, usize::MAX, 0).unwrap()
}

fn same(a: &Table, b: &Table) -> bool {
    let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    a.rows == b.rows
        && a.header == b.header
        && a.names().eq(b.names())
        && a.columns.iter().zip(&b.columns).all(|(a, b)| match (&a.values, &b.values) {
            (Values::Number(a), Values::Number(b)) => bits(a) == bits(b),
            (a, b) => a == b,
        })
}

/// `rows` rows of numbers, some missing, and of words.
fn mixed(rows: usize) -> RecordBatch {
    let number = |row: usize| (row as f64 * 0.37).sin() * 10.0;
    let word = |row: usize| ["red", "green", "blue"][row / 2 % 3];
    batch(vec![
        ("a", Arc::new(Float64Array::from_iter((0..rows).map(|row| (row % 7 != 3).then_some(number(row)))))),
        ("w", Arc::new(StringArray::from_iter_values((0..rows).map(word)))),
        ("n", Arc::new(Int32Array::from_iter_values((0..rows).map(|row| row as i32)))),
        ("y", Arc::new(Float32Array::from_iter_values((0..rows).map(|row| number(row + 9) as f32)))),
    ])
}

#[test]
fn blocks_hold_the_rows_of_the_file() {
    let folder = Folder::new();
    let batch = mixed(5000);
    for (name, bytes, count) in [
        ("a.parquet", parquet(&batch, 1500), 4),
        ("a.arrow", arrow_file(&batch, 700), 8),
        ("b.parquet", parquet(&batch, 9999), 1),
    ] {
        let path = folder.write(name, &bytes);
        let blocks = open(&path);
        assert_eq!(blocks.blocks().len(), count + 1, "{name}");
        assert_eq!(blocks.blocks().last(), Some(&5000));
        assert_eq!(blocks.columns(), ["a", "w", "n", "y"]);
        assert!(same(&whole(&*blocks), &Table::read(&path, &ReadOptions::default()).unwrap()), "{name}");
        assert!(blocks.read(count).is_err());
    }
}

#[test]
fn a_large_row_group_is_cut() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &parquet(&mixed(150_000), 1 << 20));
    let blocks = open(&path);
    assert_eq!(blocks.blocks(), [0, 50_000, 100_000, 150_000]);
    assert!(same(&whole(&*blocks), &Table::read(&path, &ReadOptions::default()).unwrap()));
    match &blocks.read(2).unwrap().columns[2].values {
        Values::Number(values) => assert_eq!(values[..2], [100_000.0, 100_001.0]),
        Values::Text { .. } => panic!(),
    }
}

#[test]
fn text_is_cut_at_records() {
    // Quoted line ends, CRLF, a blank line, a comment and a byte order mark; more than one block.
    let mut text = String::from("\u{feff}# made up\r\nid,note,x\r\n");
    for row in 0..120_000 {
        let note = ["plain", "\"two\r\nlines\"", "\"a \"\"quoted\"\" word\"", "5\" wide"][row % 4];
        text += &format!("{row},{note}, {}\r\n", if row % 5 == 0 { String::new() } else { format!("{}.25", row % 91) });
        text += if row % 1000 == 0 { "\r\n" } else { "" };
        text += if row % 3 == 0 { "7777777777,some longer text to fill the blocks of this file,1\r\n" } else { "" };
    }
    let folder = Folder::new();
    let path = folder.write("a.csv", text.as_bytes());
    let blocks = open(&path);
    assert!(blocks.blocks().len() > 2);
    let table = Table::read(&path, &ReadOptions::default()).unwrap();
    assert!(same(&whole(&*blocks), &table));
    let options = ReadOptions { columns: vec!["x".into()], ..Default::default() };
    let narrow = open_blocks(&path, &options).unwrap();
    assert_eq!(narrow.columns(), ["x"]);
    assert!(same(&whole(&*narrow), &Table::read(&path, &options).unwrap()));
}

#[test]
fn a_column_of_text_is_one_kind_in_all_blocks() {
    let folder = Folder::new();
    let filler = "a cell that fills the line so that blocks are several";
    // The first block looks numeric, the whole file does not.
    let mut text = String::from("a,b,f\n");
    (0..100_000).for_each(|row| text += &format!("{row},1,{filler}\n"));
    (0..100_000).for_each(|row| text += &format!("x{},1,{filler}\n", row % 9));
    let path = folder.write("a.csv", text.as_bytes());
    let blocks = open(&path);
    assert!(blocks.blocks().len() > 2);
    assert!(same(&whole(&*blocks), &Table::read(&path, &ReadOptions::default()).unwrap()));

    let broken = |cell: &str| {
        let mut text = String::from("a,b,f\n");
        (0..150_000).for_each(|row| text += &format!("{row},1,{filler}\n"));
        text += &format!("7,{cell},{filler}\n");
        let path = folder.write("a.csv", text.as_bytes());
        open_blocks(&path, &ReadOptions::default()).err().unwrap().to_string()
    };
    let got = broken("oops");
    assert!(got.contains(r#"a.csv: line 150002 (row 150001), column "b" (index 1): "oops" is not a number"#), "{got}");
    assert!(broken("inf").contains("line 150002 (row 150001)"));
    assert!(broken("1,2").contains("line 150002 has 4 cells, expected 3"));
    assert!(broken("\"1").contains("line 150002"), "{}", broken("\"1"));
}

#[test]
fn trouble_with_text() {
    let folder = Folder::new();
    let message =
        |bytes: &[u8]| open_blocks(&folder.write("a.csv", bytes), &ReadOptions::default()).err().unwrap().to_string();
    assert!(message(b"").contains("is empty"));
    assert!(message(b"x,y\n").contains("no rows"));
    assert!(message(b"x,y\n1,2\n\xe9,3\n").contains("line 3 is not UTF-8"));
    assert!(message(b"\xff\xfex\0").contains("its encoding cannot be read in blocks"));
    assert!(message(b"\x1f\x8b\x08\x00").contains("decompress it first"));
    assert!(message(&zstd(b"x\n1\n")).contains("decompress it first"));
    assert!(message(&npy("|u1", "(1,)", &[1])).contains("Parquet"));
    let mut late = b"x,y\n".to_vec();
    (0..2_000_000).for_each(|_| late.extend(b"1,2\n"));
    late.extend(b"\xe9,2\n");
    assert!(message(&late).contains("line 2000002 is not UTF-8"));
}

#[test]
fn a_file_that_changes_is_refused() {
    let folder = Folder::new();
    for (name, bytes) in [
        ("a.parquet", parquet(&mixed(5000), 1500)),
        ("a.arrow", arrow_file(&mixed(5000), 1500)),
        ("a.csv", b"x,y\n1,2\n3,4\n".to_vec()),
    ] {
        let path = folder.write(name, &bytes);
        let blocks = open(&path);
        blocks.read(0).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let got = blocks.read(0).unwrap_err().to_string();
        assert!(got.contains(name) && got.contains("shrank"), "{got}");
        fs::remove_file(&path).unwrap();
        let got = blocks.read(0).unwrap_err().to_string();
        assert!(got.contains(name) && got.contains("was removed"), "{got}");
    }
}

/// Reads all blocks.
fn encode(stream: &Encoded) -> Result<(Vec<f32>, Vec<f32>), DataError> {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for (block, rows) in stream.blocks().windows(2).enumerate() {
        // What was in a slot before does not matter.
        let rows = (rows[1] - rows[0]) as usize;
        let mut features = vec![f32::NAN; rows * stream.preparation().features()];
        let mut targets = vec![f32::NAN; rows];
        let mut classes = vec![-1; rows];
        let target = match stream.schema().fields[1].kind {
            Kind::I32 => FieldMut::I32(&mut classes),
            _ => FieldMut::F32(&mut targets),
        };
        stream.read(block, &mut [FieldMut::F32(&mut features), target])?;
        x.extend(features);
        match stream.schema().fields[1].kind {
            Kind::I32 => y.extend(classes.iter().map(|class| *class as f32)),
            _ => y.extend(targets),
        }
    }
    Ok((x, y))
}

/// The rows of a table that have a target, read whole and encoded.
fn encode_table(table: &Table, preparation: &Preparation) -> (Vec<f32>, Vec<f32>) {
    let rows: Vec<u32> = (0..table.rows as u32).collect();
    let labelled = preparation.labelled_rows(table, &rows).unwrap();
    let data = preparation.encode(table, &labelled).unwrap();
    let Features::F32 { data: x, .. } = data.features else { panic!() };
    let y = match data.target {
        Target::Values { data, .. } => data,
        Target::Classes { data, .. } | Target::Sequence { data, .. } => {
            data.into_iter().map(|class| class as f32).collect()
        }
    };
    (x, y)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn check_encoding(path: &Path, target: &str) {
    let table = Table::read(path, &ReadOptions::default()).unwrap();
    let train: Vec<u32> = (0..table.rows as u32 / 2).collect();
    let column = table.column(target).unwrap();
    let preparation = Preparation::fit(&table, column, &train, &PrepareOptions::default()).unwrap();
    let want = encode_table(&table, &preparation);
    let got = encode(&Encoded::new(open(path), preparation).unwrap()).unwrap();
    assert!(bits(&got.0) == bits(&want.0) && got.1 == want.1, "{}", path.display());
}

/// Plain columns of every kind that has a short cut, with values at every edge.
fn plain(rows: usize, nulls: bool) -> RecordBatch {
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 11
    };
    let mut float = |row: usize| match row % 97 {
        0 if row > rows / 2 => 1e30,
        1 => 1e-40,
        2 => -0.0,
        3 if nulls => f64::NAN,
        _ => random() as f64 / (1u64 << 52) as f64 - 1.0,
    };
    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r"] {
        columns.push((name, Arc::new(Float32Array::from_iter_values((0..rows).map(|row| float(row) as f32)))));
    }
    columns.push(("double", Arc::new(Float64Array::from_iter_values((0..rows).map(&mut float)))));
    columns.push(("y", Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64 * 0.7)))));
    let gap = |row: usize| nulls && row % 5 == 4;
    columns.push(("int", Arc::new(Int32Array::from_iter((0..rows).map(|r| (!gap(r)).then_some(r as i32 % 17))))));
    columns.push(("long", Arc::new(Int64Array::from_iter_values((0..rows).map(|r| (r * r) as i64 - 1_000_000)))));
    columns.push(("small", Arc::new(UInt8Array::from_iter_values((0..rows).map(|r| r as u8)))));
    columns.push(("skewed", Arc::new(Float32Array::from_iter_values((0..rows).map(|r| (r % 50 / 49 * r) as f32)))));
    batch(columns)
}

#[test]
fn the_short_cut_gives_the_same_bits() {
    let folder = Folder::new();
    for rows in [33, 64, 5000] {
        for nulls in [false, true] {
            check_encoding(&folder.write("a.parquet", &parquet(&plain(rows, nulls), 1500)), "y");
            check_encoding(&folder.write("a.arrow", &arrow_file(&plain(rows, nulls), 700)), "y");
        }
    }
    let path = folder.write("a.parquet", &parquet(&plain(70_000, false), 1 << 20));
    check_encoding(&path, "y");
    let columns: Vec<usize> = (0..24).collect();
    assert!(open(&path).visit_numbers(0, &columns, &mut |_, numbers| numbers.len() == 24).unwrap(), "it is taken");
}

#[test]
fn everything_else_goes_through_a_table() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &parquet(&mixed(5000), 1500));
    check_encoding(&path, "y");
    check_encoding(&path, "w");
    check_encoding(&folder.write("a.csv", b"x,y\n1,a\n2,b\n3,a\n4,b\n"), "y");
    check_encoding(&folder.write("b.csv", b"1,5\n2,6\n3,7\n1,5\n4,6\n9,7\n"), "1");
}

#[test]
fn schema_and_trouble() {
    let folder = Folder::new();
    let fit = |path: &Path, target: &str| {
        let table = Table::read(path, &ReadOptions::default()).unwrap();
        let rows: Vec<u32> = (0..table.rows as u32).collect();
        Preparation::fit(&table, table.column(target).unwrap(), &rows, &PrepareOptions::default()).unwrap()
    };
    let path = folder.write("a.parquet", &parquet(&mixed(3000), 1500));
    let classes = Encoded::new(open(&path), fit(&path, "w")).unwrap();
    assert_eq!(classes.schema().to_string(), "x f32[4], y i32 (3 classes)");
    assert_eq!(classes.schema().fields[1].labels, ["blue", "green", "red"]);
    let numbers = Encoded::new(open(&path), fit(&path, "y")).unwrap();
    assert_eq!(numbers.schema().to_string(), "x f32[6], y f32[1]");
    assert!(numbers.read(0, &mut [FieldMut::F32(&mut [0.0; 3]), FieldMut::F32(&mut [0.0; 3])]).is_err());
    assert!(numbers.read(9, &mut [FieldMut::F32(&mut []), FieldMut::F32(&mut [])]).is_err());

    let other = folder.write("b.csv", b"a,w,n,z\n1,red,2,3\n2,red,4,5\n");
    let got = Encoded::new(open(&other), fit(&path, "y")).err().unwrap().to_string();
    assert!(got.contains(r#"the model needs column "y""#), "{got}");

    // A row without a target, in the second block, is left out; by the short cut and by the table.
    for (column, target) in [("x", "y"), ("w", "y")] {
        let gap = |row: usize| (row != 1700).then_some(row as f64);
        let words: ArrayRef = match column {
            "w" => Arc::new(StringArray::from_iter_values((0..3000).map(|row| ["p", "q", "r"][row % 3]))),
            _ => Arc::new(Float32Array::from_iter_values((0..3000).map(|row| (row % 13) as f32))),
        };
        let rows = batch(vec![(column, words), ("y", Arc::new(Float64Array::from_iter((0..3000).map(gap))))]);
        let path = folder.write("c.parquet", &parquet(&rows, 1500));
        let stream = Encoded::new(open(&path), fit(&path, target)).unwrap();
        assert_eq!((stream.blocks(), stream.unlabelled()), (&[0, 1500, 2999][..], 1));
        let table = Table::read(&path, &ReadOptions::default()).unwrap();
        assert_eq!(encode(&stream).unwrap(), encode_table(&table, stream.preparation()));
    }
    // An infinite number likewise.
    let value = |row: usize| if row == 1700 { f32::INFINITY } else { row as f32 };
    let column =
        |value: &dyn Fn(usize) -> f32| -> ArrayRef { Arc::new(Float32Array::from_iter_values((0..3000).map(value))) };
    let fine = folder
        .write("f.parquet", &parquet(&batch(vec![("x", column(&|r| r as f32)), ("y", column(&|r| r as f32))]), 1500));
    let path =
        folder.write("d.parquet", &parquet(&batch(vec![("x", column(&value)), ("y", column(&|r| r as f32))]), 1500));
    let got = encode(&Encoded::new(open(&path), fit(&fine, "y")).unwrap()).unwrap_err().to_string();
    assert!(got.contains(r#"d.parquet: row 1701, column "x" (index 0): the value is infinite"#), "{got}");
}

#[test]
fn samples_are_even_and_repeatable() {
    let folder = Folder::new();
    let blocks = open(&folder.write("a.parquet", &parquet(&mixed(20_000), 1000)));
    let sample = Encoded::sample(&*blocks, 1000, 5).unwrap();
    assert_eq!(sample.rows, 1000);
    let Values::Number(rows) = &sample.columns[2].values else { panic!() };
    assert!(rows.is_sorted() && rows.windows(2).all(|pair| pair[0] < pair[1]));
    for block in 0..20 {
        let from = rows.iter().filter(|row| (**row as usize) / 1000 == block).count();
        assert_eq!(from, 50);
    }
    assert!(same(&sample, &Encoded::sample(&*blocks, 1000, 5).unwrap()));
    assert!(!same(&sample, &Encoded::sample(&*blocks, 1000, 6).unwrap()));
    assert_eq!(Encoded::sample(&*blocks, 7, 5).unwrap().rows, 7);
}
