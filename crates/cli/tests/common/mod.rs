//! Runs the command in a folder of its own.

#![allow(dead_code)] // each test file uses its part

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

pub struct Folder(tempfile::TempDir);

pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The command, its words separated by blanks.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_citius"));
        command.args(words.split_whitespace()).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    pub fn run(&self, words: &str) -> Ran {
        ran(self.command(words).output().unwrap())
    }

    /// Must fail with this code; what it said.
    pub fn fails(&self, code: i32, words: &str) -> String {
        let ran = self.run(words);
        assert_eq!(ran.code, code, "citius {words}\n{}{}", ran.out, ran.err);
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran.err
    }

    /// Must succeed; what it said.
    pub fn works(&self, words: &str) -> Ran {
        let ran = self.run(words);
        assert_eq!(ran.code, 0, "citius {words}\n{}{}", ran.out, ran.err);
        ran
    }
}

pub fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Rows `a,b,y` with y made by `target` from the row's number, a and b.
pub fn table(rows: usize, target: impl Fn(usize, f64, f64) -> String) -> String {
    let mut text = String::from("a,b,price\n");
    for i in 0..rows {
        let (a, b) = ((i as f64 * 0.618).fract() * 2.0 - 1.0, (i as f64 * 0.414).fract() * 2.0 - 1.0);
        text += &format!("{a:.4},{b:.4},{}\n", target(i, a, b));
    }
    text
}

pub fn houses() -> String {
    table(120, |_, a, b| format!("{:.4}", 100.0 + 20.0 * a - 10.0 * b))
}

/// A picture of one colour, its corner another.
pub fn png(width: u32, height: u32, colour: [u8; 3], corner: u8) -> Vec<u8> {
    let mut pixels = colour.repeat((width * height) as usize);
    pixels[0] = corner;
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    bytes
}

/// Two classes that colours tell apart.
pub fn pets(folder: &Folder) {
    for i in 0..30 {
        folder.write(&format!("pets/red/{i}.png"), png(8 + i % 3, 6, [220, 10, 10], i as u8));
        folder.write(&format!("pets/blue/{i}.png"), png(7, 9, [10, 10, 220], i as u8));
    }
}
