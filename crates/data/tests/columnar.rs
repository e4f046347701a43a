//! Parquet, Arrow and NPZ give the same tables as text.

mod made;

use std::fs;
use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, Int32Builder, ListBuilder, StringBuilder};
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Int8Type};
use arrow_array::*;
use arrow_buffer::i256;
use citius_data::{MISSING, ReadOptions, Table, Values};
use made::*;

fn read(name: &str, bytes: &[u8]) -> Table {
    Table::from_bytes(name, bytes, &ReadOptions::default()).unwrap()
}

fn numbers(table: &Table, column: &str) -> Vec<f64> {
    match &table.columns[table.column(column).unwrap()].values {
        Values::Number(values) => values.clone(),
        Values::Text { .. } => panic!("{column} is text"),
    }
}

fn labels(table: &Table, column: &str) -> (Vec<u32>, Vec<String>) {
    match &table.columns[table.column(column).unwrap()].values {
        Values::Number(_) => panic!("{column} holds numbers"),
        Values::Text { codes, labels } => (codes.clone(), labels.clone()),
    }
}

/// Every kind of column that is read.
fn all_kinds() -> RecordBatch {
    let mut fixed = FixedSizeListBuilder::new(Float32Builder::new(), 2);
    let mut ragged = ListBuilder::new(Int32Builder::new());
    for row in 0..3 {
        fixed.values().append_slice(&[row as f32, row as f32 + 0.5]);
        fixed.append(row != 1);
        (0..row).for_each(|item| ragged.values().append_value(item));
        ragged.append(true);
    }
    let words: DictionaryArray<Int8Type> = [Some("b"), None, Some("b")].into_iter().collect();
    batch(vec![
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("tiny", Arc::new(Int8Array::from(vec![-1, 0, 1]))),
        ("wide", Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(3)]))),
        ("half", Arc::new(Float32Array::from(vec![0.5, f32::NAN, 2.0]))),
        ("price", Arc::new(Decimal128Array::from(vec![12345, -1, 0]).with_precision_and_scale(9, 2).unwrap())),
        ("day", Arc::new(Date32Array::from(vec![0, 1, -1]))),
        ("time", Arc::new(TimestampMillisecondArray::from(vec![1500, 0, -500]))),
        ("word", Arc::new(StringArray::from(vec![Some(" x "), Some("NA"), None]))),
        ("again", Arc::new(words)),
        ("pair", Arc::new(fixed.finish())),
        ("list", Arc::new(ragged.finish())),
        ("none", Arc::new(NullArray::new(3))),
    ])
}

#[test]
fn every_kind_of_column() {
    let batch = all_kinds();
    for (name, bytes) in
        [("a.parquet", parquet(&batch, 2)), ("a.arrow", arrow_file(&batch, 2)), ("a.arrows", arrow_stream(&batch, 2))]
    {
        let table = read(name, &bytes);
        assert!(table.header && table.rows == 3, "{name}");
        let missing = |column: &str| numbers(&table, column).iter().map(|v| v.is_nan()).collect::<Vec<_>>();
        assert_eq!((numbers(&table, "flag")[0], missing("flag")), (1.0, vec![false, true, false]), "{name}");
        assert_eq!(numbers(&table, "tiny"), [-1.0, 0.0, 1.0]);
        assert_eq!((numbers(&table, "wide")[0], missing("wide")), (u64::MAX as f64, vec![false, true, false]));
        assert_eq!((numbers(&table, "half")[2], missing("half")), (2.0, vec![false, true, false]));
        assert_eq!(numbers(&table, "price"), [123.45, -0.01, 0.0]);
        let days = ["1970-01-01", "1970-01-02", "1969-12-31"].map(str::to_owned);
        assert_eq!(labels(&table, "day"), (vec![0, 1, 2], days.to_vec()));
        let times = ["1970-01-01 00:00:01.5", "1970-01-01 00:00:00", "1969-12-31 23:59:59.5"].map(str::to_owned);
        assert_eq!(labels(&table, "time"), (vec![0, 1, 2], times.to_vec()));
        assert_eq!(labels(&table, "word"), (vec![0, MISSING, MISSING], vec!["x".to_owned()]));
        assert_eq!(labels(&table, "again"), (vec![0, MISSING, 0], vec!["b".to_owned()]));
        assert_eq!((numbers(&table, "pair[1]")[2], missing("pair[0]")), (2.5, vec![false, true, false]));
        assert_eq!(numbers(&table, "list[0]")[1..], [0.0, 0.0]);
        assert_eq!(missing("list[1]"), [true, true, false]);
        assert_eq!(labels(&table, "none"), (vec![MISSING; 3], vec![]));
        assert_eq!(table.columns.len(), 14);
    }
}

/// Kinds of numbers that Parquet keeps under another type, with gaps; lists with gaps within, empty and missing ones.
fn numbers_in_disguise(rows: usize) -> RecordBatch {
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    fn gappy<T>(rows: usize, value: impl Fn(i64) -> T) -> impl Iterator<Item = Option<T>> {
        (0..rows as i64).map(move |row| (row % 5 != 3).then(|| value(row * 7919 - 4_000)))
    }
    let mut lists = ListBuilder::new(Float32Builder::new());
    let mut pairs = FixedSizeListBuilder::new(Int32Builder::new(), 2);
    for row in 0..rows {
        (0..row % 4).for_each(|item| lists.values().append_option((item != 1).then_some(item as f32 / 2.0)));
        lists.append(row % 7 != 2);
        (0..2).for_each(|item| pairs.values().append_option((row % 3 != item).then_some(row as i32)));
        pairs.append(row % 6 != 5);
    }
    let small = Decimal128Array::from_iter(gappy(rows, |v| v as i128)).with_precision_and_scale(7, 2).unwrap();
    let large = Decimal128Array::from_iter(gappy(rows, |v| v as i128 * 10i128.pow(30))).with_precision_and_scale(38, 9);
    let huge = Decimal256Array::from_iter(gappy(rows, |v| i256::from_i128(v as i128 * 10i128.pow(30))));
    batch(vec![
        ("u32", Arc::new(UInt32Array::from_iter(gappy(rows, |v| v as u32)))),
        ("u64", Arc::new(UInt64Array::from_iter(gappy(rows, |v| v as u64)))),
        ("f16", Arc::new(Float16Array::from_iter(gappy(rows, |v| Half::from_f32((v % 1000) as f32 / 64.0))))),
        ("f64", Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64 / 3.0)))),
        ("bool", Arc::new(BooleanArray::from_iter(gappy(rows, |v| v % 2 == 0)))),
        ("d32", Arc::new(Date32Array::from_iter(gappy(rows, |v| v as i32)))),
        ("d64", Arc::new(Date64Array::from_iter(gappy(rows, |v| v * 86_400_000)))),
        ("t32", Arc::new(Time32SecondArray::from_iter(gappy(rows, |v| v.rem_euclid(86_400) as i32)))),
        ("t64", Arc::new(Time64NanosecondArray::from_iter(gappy(rows, |v| v.unsigned_abs() as i64)))),
        ("ts", Arc::new(TimestampSecondArray::from_iter(gappy(rows, |v| v * 1000)))),
        ("tns", Arc::new(TimestampNanosecondArray::from_iter(gappy(rows, |v| v * 1_000_001)))),
        ("span", Arc::new(DurationMicrosecondArray::from_iter(gappy(rows, |v| v)))),
        ("small", Arc::new(small)),
        ("large", Arc::new(large.unwrap())),
        ("huge", Arc::new(huge.with_precision_and_scale(70, 11).unwrap())),
        ("text", Arc::new(LargeStringArray::from_iter(gappy(rows, |v| format!("w{}", v % 11))))),
        ("lists", Arc::new(lists.finish())),
        ("pairs", Arc::new(pairs.finish())),
    ])
}

#[test]
fn parquet_and_arrow_give_the_same_bits() {
    for rows in [1, 7, 5000] {
        let batch = numbers_in_disguise(rows);
        let (parquet, arrow) = (read("a", &parquet(&batch, 1700)), read("a", &arrow_file(&batch, 999)));
        assert!(parquet.names().eq(arrow.names()));
        for (a, b) in parquet.columns.iter().zip(&arrow.columns) {
            match (&a.values, &b.values) {
                (Values::Number(left), Values::Number(right)) => {
                    let differ = left.iter().zip(right).position(|(left, right)| left.to_bits() != right.to_bits());
                    assert_eq!((left.len(), differ), (right.len(), None), "{} of {rows} rows", a.name);
                }
                (left, right) => assert_eq!(left, right, "{}", a.name),
            }
        }
    }
}

#[test]
fn labels_of_several_row_groups_are_one_list() {
    let words = ["b", "a", "b", "c", "a", "d"];
    let batch = batch(vec![("w", Arc::new(StringArray::from(words.to_vec())))]);
    let text = format!("w\n{}\n", words.join("\n"));
    let options = ReadOptions { header: Some(true), ..Default::default() };
    let want = Table::from_bytes("t", text.as_bytes(), &options).unwrap();
    for bytes in [parquet(&batch, 2), arrow_file(&batch, 2), arrow_stream(&batch, 4)] {
        assert_eq!(read("t", &bytes).columns, want.columns);
    }
}

#[test]
fn columns_are_chosen() {
    let batch = all_kinds();
    let npz = npz(&[("a", npy("<i2", "(2,)", &[1, 0, 2, 0])), ("b", npy("|u1", "(2, 2)", &[3, 4, 5, 6]))], true);
    let chosen = |columns: &[&str], bytes: &[u8]| {
        let columns = columns.iter().map(|column| column.to_string()).collect();
        let table = Table::from_bytes("t", bytes, &ReadOptions { columns, ..Default::default() })?;
        Ok::<_, citius_data::DataError>(table.names().collect::<Vec<_>>().join(" "))
    };
    for bytes in [parquet(&batch, 2), arrow_file(&batch, 2)] {
        assert_eq!(chosen(&["word", "pair", "0", "word"], &bytes).unwrap(), "flag word pair[0] pair[1]");
        let got = chosen(&["prise"], &bytes).unwrap_err().to_string();
        assert!(got.contains(r#"no column "prise"; did you mean "price"?"#), "{got}");
    }
    assert_eq!(chosen(&["b_1", "a"], &npz).unwrap(), "a b_1");
    assert_eq!(chosen(&["-1"], b"x,y\n1,2\n").unwrap(), "y");
    assert_eq!(chosen(&["y"], b"x,y\noops,2\n1,3\n1,4\n").unwrap(), "y", "what is not read is not judged");
    assert_eq!(chosen(&["1"], &npy("|u1", "(1, 2)", &[3, 4])).unwrap(), "1");
    assert!(chosen(&["z"], b"x,y\n1,2\n").is_err());
}

#[test]
fn options_hold_for_typed_columns_too() {
    let batch = batch(vec![("a", Arc::new(Float64Array::from(vec![1.0, f64::INFINITY, -999.0])))]);
    let bytes = parquet(&batch, 9);
    let read = |missing: &[&str], text: &[&str]| {
        let [missing, text] = [missing, text].map(|words| words.iter().map(|word| word.to_string()).collect());
        Table::from_bytes("a.parquet", &bytes, &ReadOptions { missing, text, ..Default::default() })
    };
    let got = read(&[], &[]).unwrap_err().to_string();
    assert!(got.contains(r#"a.parquet: row 2, column "a" (index 0): the value is infinite"#), "{got}");
    let table = read(&["inf", "-999"], &[]).unwrap();
    assert!(numbers(&table, "a")[1].is_nan() && numbers(&table, "a")[2].is_nan());
    assert_eq!(labels(&read(&["inf"], &["a"]).unwrap(), "a").1, ["1", "-999"]);
}

#[test]
fn what_is_not_read_is_named() {
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let field = Arc::new(arrow_schema::Field::new("i", arrow_schema::DataType::Int32, false));
    let nested = StructArray::from(vec![(field, inner)]);
    let batch = batch(vec![
        ("n", Arc::new(Int32Array::from(vec![1]))),
        ("s", Arc::new(nested)),
        ("raw", Arc::new(BinaryArray::from_vec(vec![b"x"]))),
    ]);
    for bytes in [parquet(&batch, 2), arrow_file(&batch, 2), arrow_stream(&batch, 2)] {
        let got = Table::from_bytes("a", &bytes, &ReadOptions::default()).unwrap_err().to_string();
        assert!(got.contains(r#"column "s" is of type Struct"#) && got.contains("leave it out"), "{got}");
        let options = ReadOptions { columns: vec!["n".into()], ..Default::default() };
        assert_eq!(Table::from_bytes("a", &bytes, &options).unwrap().columns.len(), 1);
    }
    let mut words = ListBuilder::new(StringBuilder::new());
    words.values().append_value("x");
    words.append(true);
    let words: ArrayRef = Arc::new(words.finish());
    for bytes in [parquet(&made::batch(vec![("w", words.clone())]), 2), arrow_file(&made::batch(vec![("w", words)]), 2)]
    {
        let got = Table::from_bytes("a", &bytes, &ReadOptions::default()).unwrap_err().to_string();
        assert!(got.contains(r#"column "w" is of type List"#) && got.contains("only lists of numbers"), "{got}");
    }
    let mut long = ListBuilder::new(Int32Builder::new());
    (0..4097).for_each(|item| long.values().append_value(item));
    long.append(true);
    let bytes = parquet(&made::batch(vec![("l", Arc::new(long.finish()))]), 2);
    let got = Table::from_bytes("a", &bytes, &ReadOptions::default()).unwrap_err().to_string();
    assert!(got.contains("4097 items"), "{got}");
}

#[test]
fn npz_arrays() {
    let arrays = [("a", npy("<i2", "(2,)", &[1, 0, 2, 0])), ("b", npy("|u1", "(2, 2)", &[3, 4, 5, 6]))];
    for deflate in [false, true] {
        let table = read("a.npz", &npz(&arrays, deflate));
        assert_eq!(table.names().collect::<Vec<_>>(), ["a", "b_0", "b_1"]);
        assert_eq!(numbers(&table, "b_1"), [4.0, 6.0]);
    }
    let uneven = [("a", npy("|u1", "(2,)", &[1, 2])), ("b", npy("|u1", "(3,)", &[3, 4, 5]))];
    let got = Table::from_bytes("a.npz", &npz(&uneven, false), &ReadOptions::default()).unwrap_err().to_string();
    assert!(got.contains(r#"array "b" has 3 rows, array "a" has 2"#), "{got}");
    let got = Table::from_bytes("a.npz", &npz(&[("readme.txt", b"x".to_vec())], false), &ReadOptions::default());
    assert!(got.is_err());
}

#[test]
fn compressed_text_and_arrays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.csv.zst");
    fs::write(&path, zstd(b"x,y\n1,2\n3,4\n")).unwrap();
    assert_eq!(Table::read(&path, &ReadOptions::default()).unwrap().rows, 2);
    let path = dir.path().join("a.npy.zst");
    fs::write(&path, zstd(&npy("|u1", "(2,)", &[1, 2]))).unwrap();
    assert_eq!(Table::read(&path, &ReadOptions::default()).unwrap().rows, 2);
    // A name that lies does not matter.
    let path = dir.path().join("a.csv");
    fs::File::create(&path).unwrap().write_all(&parquet(&all_kinds(), 2)).unwrap();
    assert_eq!(Table::read(&path, &ReadOptions::default()).unwrap().columns.len(), 14);
}
