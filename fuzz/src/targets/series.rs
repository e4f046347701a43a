//! Windows over the rows of a table.

use citius_data::source::{GapFill, SeriesOptions, SeriesWindows, TimedRows};
use citius_data::{Heap, Rows, Slot, Source, Table};

use crate::Draw;

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let size = |byte: u8| if byte == 255 { usize::MAX } else { byte as usize };
    let sizes = [(); 3].map(|()| size(draw.byte()));
    let names = [vec![], vec!["0".to_owned()], vec!["-1".to_owned(), "0".to_owned()], vec!["a".to_owned(); 2]];
    let options = SeriesOptions {
        columns: draw.pick(&names),
        targets: draw.pick(&names),
        length: sizes[0],
        stride: sizes[1],
        horizon: sizes[2],
        fit_rows: draw.flag().then(|| size(draw.byte())..size(draw.byte())),
        scale: None,
        fill: draw.pick(&[GapFill::Previous, GapFill::Linear, GapFill::Refuse]),
        longest_fill: size(draw.byte()),
    };
    let (cuts, reach_back) = ([(); 4].map(|()| size(draw.byte())), draw.flag());
    let time = draw.pick(&[None, Some("0"), Some("none")]);
    let Ok(table) = Table::from_bytes("s.csv", draw.rest(), &Default::default()) else { return };
    let Ok(table) = TimedRows::new(table, time, options.longest_fill.min(100)) else { return };
    assert!(table.times.is_sorted() && (table.index.is_none() || table.times.len() == table.table.rows));
    (0..table.times.len() + 3).for_each(|row| drop(table.written(row)));
    let Ok(windows) = SeriesWindows::new(&table, &options) else { return };
    let all = gathered(&windows);
    assert!(all.iter().flatten().all(|value| value.is_finite()), "a value that is not finite");

    let again = SeriesOptions { scale: Some(windows.scale().clone()), ..options };
    let again = SeriesWindows::new(&table, &again).expect("the scale of this table");
    assert!(gathered(&again) == all, "another table with the same scale");

    let [a, b, c, d] = cuts;
    if let Ok(splits) = windows.split(a..b, b..c, c..d, reach_back) {
        for part in [splits.train, splits.validation, splits.test] {
            assert!(part.iter().all(|window| *window < windows.rows()), "a window that is not there");
        }
    }
}

/// Input and target of the last windows.
fn gathered(windows: &SeriesWindows) -> [Vec<f32>; 2] {
    let most = (1 << 24) / windows.schema().row_bytes().max(1);
    let numbers: Vec<u32> = (0..windows.rows()).rev().take(most).collect();
    let mut slot = Slot::new(windows.schema(), numbers.len(), &Heap).expect("little memory");
    let rows = Rows { numbers: &numbers, seed: 0, epoch: 0 };
    windows.gather(&rows, &mut slot.rows_mut(0..numbers.len())).expect("rows that are there");
    let fields = slot.rows(0..numbers.len());
    [0, 1].map(|field| fields[field].f32().expect("numbers").to_vec())
}
