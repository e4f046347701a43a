//! Settings files: read, and used to choose all that a training needs.

use citius_train::{Training, Wishes};

use crate::table;

pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(wishes) = Wishes::parse(text) else { return };
    let written = wishes.to_toml().expect("settings that were read can be written");
    assert_eq!(Wishes::parse(&written).as_ref(), Ok(&wishes), "read, written and read again");
    // of paths that a file may name only the rows are ours
    let own = |wishes: &Wishes| wishes.train_rows.is_none() && wishes.test_rows.is_none() && wishes.weights.is_none();
    if own(&wishes) {
        let _ = Training::new(Wishes { source: Some(table()), ..wishes });
    }
}
