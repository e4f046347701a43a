//! Windows over a text, by bytes and by characters.

use std::sync::Arc;

use citius_data::source::{Predict, Text, TextWindows, Unit};
use citius_data::{Heap, Rows, Slot, Source};

use crate::{Draw, gzip, with_file};

/// One-hot rows are wide.
const MOST_BYTES: usize = 1 << 24;

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let unit = draw.pick(&[Unit::Chars, Unit::Bytes]);
    let predict = draw.pick(&[Predict::Next, Predict::Sequence]);
    let (length, stride) = (draw.byte() as usize, draw.byte() as usize);
    let (one_hot, share, file) = (draw.flag(), draw.byte() as f64 / 128.0, draw.byte());
    let bytes = draw.rest();
    let text = match file {
        200.. => with_file("t.txt", bytes, |path| Text::open(path, unit)),
        190.. => with_file("t.txt.gz", &gzip(bytes), |path| Text::open(path, unit)),
        _ => Text::from_bytes("t.txt", bytes.to_vec(), unit),
    };
    let Ok(text) = text.map(Arc::new) else { return };
    check_vocabulary(&text, bytes, unit);
    let Ok(windows) = TextWindows::new(text, length, stride, predict) else { return };
    let halves = windows.split(share);
    let windows = if one_hot { windows.one_hot().expect("few tokens") } else { windows };
    check_rows(&windows);
    if let Ok((first, last)) = halves {
        check_rows(&first);
        check_rows(&last);
        // windows that cross the border are in neither
        assert!(stride > 1 || first.rows() as u64 + last.rows() as u64 <= windows.rows() as u64);
    }
}

fn check_vocabulary(text: &Text, bytes: &[u8], unit: Unit) {
    let vocabulary = text.vocabulary();
    assert_eq!(vocabulary.labels().len(), vocabulary.size());
    if let (Unit::Chars, Ok(plain)) = (unit, std::str::from_utf8(bytes)) {
        let plain = plain.strip_prefix('\u{feff}').unwrap_or(plain);
        // a compressed text has other characters
        if let Ok(numbers) = vocabulary.encode(plain) {
            assert_eq!(numbers.len(), text.len());
            assert_eq!(vocabulary.decode(&numbers), plain);
        }
    }
}

fn check_rows(windows: &TextWindows) {
    let most = (MOST_BYTES / windows.schema().row_bytes().max(1)) as u32;
    let numbers: Vec<u32> = (0..windows.rows()).rev().take(most as usize).collect();
    let mut slot = Slot::new(windows.schema(), numbers.len(), &Heap).expect("little memory");
    let rows = Rows { numbers: &numbers, seed: 0, epoch: 0 };
    windows.gather(&rows, &mut slot.rows_mut(0..numbers.len())).expect("rows that are there");
    let size = windows.text().vocabulary().size();
    let fields = slot.rows(0..numbers.len());
    for field in &fields {
        let known = field.i32().is_none_or(|tokens| tokens.iter().all(|token| (0..size as i32).contains(token)));
        assert!(known, "a token that is not in the vocabulary");
    }
    if let Some(x) = fields[0].f32() {
        let ones = x.chunks_exact(size).all(|token| token.iter().sum::<f32>() == 1.0);
        assert!(ones, "a token that is not one-hot");
    }
}
