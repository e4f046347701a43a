//! Bad files on disk: each gives a message that names the place and the way out, none a panic.

mod made;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Float32Array, NullArray, RecordBatch, StringArray};
use citius_data::{ReadOptions, Table, open_blocks};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        let _ = fs::remove_file(&path); // a new file is written faster than an old one emptied
        fs::write(&path, bytes).unwrap();
        path
    }
}

fn message(path: &Path) -> String {
    match Table::read(path, &ReadOptions::default()) {
        Ok(table) => panic!("read {} rows", table.rows),
        Err(error) => error.to_string(),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

#[test]
fn missing_file_with_a_near_name() {
    let folder = Folder::new();
    folder.write("houses.csv", b"a\n1\n");
    let got = message(&folder.path().join("house.csv"));
    assert!(got.ends_with(r#"no such file; did you mean "houses.csv"?"#), "{got}");
    let got = message(&folder.path().join("no/house.csv"));
    assert!(got.contains("nor is there a directory"), "{got}");
}

#[test]
fn directory() {
    let folder = Folder::new();
    assert!(message(folder.path()).contains("a directory, not a file"));
    folder.write("houses.csv", b"a\n1\n");
    assert!(message(folder.path()).contains(r#"such as "houses.csv""#));
}

#[test]
fn empty_and_header_only() {
    let folder = Folder::new();
    assert!(message(&folder.write("a.csv", b"")).contains("a.csv: is empty"));
    assert!(message(&folder.write("a.csv", b"\n \r\n")).contains("is empty"));
    assert!(message(&folder.write("a.csv", b"\xef\xbb\xbf")).contains("is empty"));
    assert!(message(&folder.write("a.csv", b"x,y\n")).contains("no rows below"));
    assert!(message(&folder.write("a.npy", b"")).contains("is empty"));
}

#[test]
fn not_text() {
    let folder = Folder::new();
    let got = message(&folder.write("a.csv", b"x,y\n1,2\n\xe9,3\n"));
    assert!(got.contains("line 3 is not UTF-8"), "{got}");
    assert!(message(&folder.write("a.csv", b"\xff\xfex\0\n")).contains("is not UTF-16LE text"));
    assert!(message(&folder.write("a.xlsx", b"PK\x03\x04")).contains("XLSX"));
}

#[test]
fn ragged_and_stray_cells() {
    let folder = Folder::new();
    let got = message(&folder.write("a.csv", b"x,y\n1,2\n1,2,3\n4,5\n"));
    assert!(got.contains("line 3 has 3 cells, expected 2"), "{got}");
    let got = message(&folder.write("a.csv", b"x,y\n1,2\n3,oops\n4,5\n6,7\n"));
    assert!(got.contains(r#"line 3 (row 2), column "y" (index 1): "oops""#), "{got}");
    let got = message(&folder.write("a.csv", b"x,y\n1,2\n3,inf\n4,5\n6,7\n"));
    assert!(got.contains("line 3") && got.contains("infinite"), "{got}");
    let got = message(&folder.write("a.csv", b"x,y\n1,\"2\n3,4\n5,6\n"));
    assert!(got.contains("line 2 is never closed"), "{got}");
}

#[test]
fn damaged_gzip() {
    let folder = Folder::new();
    let zipped = gzip(b"x,y\n1,2\n3,4\n");
    let whole = Table::read(folder.write("a.csv.gz", &zipped), &ReadOptions::default()).unwrap();
    assert_eq!(whole.rows, 2);
    for cut in 3..zipped.len() {
        let got = message(&folder.write("a.csv.gz", &zipped[..cut]));
        assert!(got.contains("gzip") || got.contains("empty"), "{got}");
    }
}

#[test]
fn damaged_zstd_and_bombs() {
    let folder = Folder::new();
    let small = made::zstd(b"x,y\n1,2\n3,4\n");
    for cut in 5..small.len() {
        let got = message(&folder.write("a.csv.zst", &small[..cut]));
        assert!(got.contains("zstd"), "{got}");
    }
    let zeros = vec![b'0'; 300 << 20];
    let got = message(&folder.write("a.csv.zst", &made::zstd(&zeros)));
    assert!(got.contains("expands more than 200 times") && got.contains("unzstd"), "{got}");
    let got = message(&folder.write("a.csv.gz", &gzip(&zeros)));
    assert!(got.contains("expands more than 200 times") && got.contains("gunzip"), "{got}");
    let bomb = made::npz(&[("a", made::npy("|u1", "(314572800,)", &zeros))], true);
    let got = message(&folder.write("a.npz", &bomb));
    assert!(got.contains("expands more than 200 times"), "{got}");
}

fn rows() -> RecordBatch {
    made::batch(vec![
        ("a", Arc::new(Float32Array::from_iter((0..50).map(|row| (row % 9 > 0).then_some(row as f32))))),
        ("w", Arc::new(StringArray::from_iter_values((0..50).map(|row| ["x", "yy", "zzz"][row % 3])))),
        ("n", Arc::new(NullArray::new(50))),
    ])
}

/// A small file of each binary format.
fn binary_files() -> Vec<(&'static str, Vec<u8>)> {
    let arrays = [("a", made::npy("<i2", "(2,)", &[1, 0, 2, 0])), ("b", made::npy("|u1", "(2, 2)", &[3, 4, 5, 6]))];
    vec![
        ("a.parquet", made::parquet(&rows(), 20)),
        ("a.arrow", made::arrow_file(&rows(), 20)),
        ("b.arrow", made::compressed_arrow_file(&rows())),
        ("a.arrows", made::arrow_stream(&rows(), 20)),
        ("a.npz", made::npz(&arrays, true)),
        ("b.npz", made::npz(&arrays, false)),
    ]
}

/// Whole and in blocks; whatever comes of it.
fn try_all(path: &Path) -> bool {
    let whole = Table::read(path, &ReadOptions::default());
    if let Ok(blocks) = open_blocks(path, &ReadOptions::default()) {
        for block in 0..blocks.blocks().len() - 1 {
            let _ = blocks.read(block);
            let _ = blocks.visit_numbers(block, &[0], &mut |_, _| true);
        }
    }
    whole.is_ok()
}

#[test]
fn binary_files_cut_short() {
    let folder = Folder::new();
    for (name, bytes) in binary_files() {
        assert!(try_all(&folder.write(name, &bytes)), "{name}");
        for cut in (0..bytes.len()).step_by(1 + bytes.len() / 400) {
            let read = try_all(&folder.write(name, &bytes[..cut]));
            assert!(!read || name == "a.arrows", "{name} cut at {cut} of {}", bytes.len());
        }
    }
}

#[test]
fn binary_files_with_flipped_bits() {
    let folder = Folder::new();
    for (name, bytes) in binary_files() {
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            for flip in [1, 0x80, 0xff] {
                broken[at] = bytes[at] ^ flip;
                try_all(&folder.write(name, &broken));
            }
        }
    }
}

#[test]
fn headers_that_promise_too_much() {
    let folder = Folder::new();
    // Rows of a column without values take no bytes.
    let empty = made::batch(vec![("n", Arc::new(NullArray::new(4_000_000_000)))]);
    for (name, bytes) in
        [("a.arrow", made::arrow_file(&empty, usize::MAX)), ("a.arrows", made::arrow_stream(&empty, usize::MAX))]
    {
        let got = message(&folder.write(name, &bytes));
        assert!(got.contains("too many for"), "{got}");
    }
    let got = message(&folder.write("a.parquet", b"PAR1\xff\xff\xff\x7fPAR1"));
    assert!(got.contains("not a usable Parquet file"), "{got}");
    let got = message(&folder.write("a.arrow", b"ARROW1\0\0\xff\xff\xff\x7fARROW1"));
    assert!(got.contains("not a usable Arrow file"), "{got}");
    for magic in [&b"PAR1"[..], b"ARROW1", b"\xff\xff\xff\xff", b"PK\x03\x04"] {
        try_all(&folder.write("a.csv", magic));
        try_all(&folder.write("a.csv", &[magic, &[0xff; 64]].concat()));
    }
    assert!(message(&folder.write("a.feather", b"FEA1\0\0")).contains("Feather version 2"));
    assert!(message(&folder.write("a.parquet", b"PARE\0\0")).contains("encrypted"));
}

#[test]
fn options_that_name_no_column() {
    let options = ReadOptions { text: vec!["pride".into()], ..Default::default() };
    let got = Table::from_bytes("t.csv", b"price,y\n1,2\n", &options);
    assert!(got.unwrap_err().to_string().contains(r#"did you mean "price"?"#));
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_named_with_its_target() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("t.csv");
    std::os::unix::fs::symlink("gone.csv", &link).unwrap();
    let message = message(&link);
    assert!(message.contains("it is a link to gone.csv, which is not there"), "{message}");
    assert!(!message.contains("did you mean"), "{message}");
}

#[cfg(unix)]
#[test]
fn devices_are_not_read() {
    assert!(message(Path::new("/dev/zero")).contains("a device, not a file"));
}

#[test]
fn other_formats_are_named_with_the_way_out() {
    let files: [(&[u8], &str, &str); 8] = [
        (b"SQLite format 3\0\x10\0\x01\x01", "SQLite", "sqlite3"),
        (b"\xfd7zXZ\0\0\x04", "an xz file", "unxz"),
        (b"BZh91AY&SY", "bzip2", "bunzip2"),
        (b"\x80\x04\x95\x10\0\0", "pickle", "to_parquet"),
        (b"[{\"id\":892,\"sex\":\"male\"},\n{\"id\":893,\"sex\":\"female\"}]\n", "JSON", "lines=True"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "a JPEG picture", "a folder of pictures for each class"),
        (b"GIF89a\x01\0\x01\0", "a GIF picture", "PNG or JPEG"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "a WebP picture", "a folder of pictures for each class"),
    ];
    for (bytes, what, next) in files {
        let error = citius_data::Table::from_bytes("t", bytes, &citius_data::ReadOptions::default());
        let message = error.unwrap_err().to_string();
        assert!(message.contains(what) && message.contains(next), "{message}");
    }
}
