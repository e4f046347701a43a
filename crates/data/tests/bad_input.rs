//! Bad files on disk: each gives a message that names the place and the way out, none a panic.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use citius_data::{ReadOptions, Table};

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
    assert!(message(&folder.write("a.csv", b"\xff\xfex\0")).contains("UTF-16"));
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
fn options_that_name_no_column() {
    let options = ReadOptions { text: vec!["pride".into()], ..Default::default() };
    let got = Table::from_bytes("t.csv", b"price,y\n1,2\n", &options);
    assert!(got.unwrap_err().to_string().contains(r#"did you mean "price"?"#));
}

#[cfg(unix)]
#[test]
fn devices_are_not_read() {
    assert!(message(Path::new("/dev/zero")).contains("a device, not a file"));
}
