//! CIFAR's records, and the names of the classes beside them.

use citius_data::read_cifar;

use crate::{Draw, gzip, with_files};

const FILES: [&str; 6] =
    ["test_batch.bin", "train.bin", "data_batch_1.bin", "other.bin", "test.bin.gz", "data_batch_99999999999.bin.gz"];
const NAMES: [&str; 4] = ["batches.meta.txt", "fine_label_names.txt", "coarse.meta.txt", "fine.meta.txt"];

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let (file, names, whole) = (draw.pick(&FILES), draw.pick(&NAMES), draw.flag());
    let count = draw.byte() as usize;
    let classes = draw.take(count);
    let mut bytes = match draw.byte() % 3 {
        0 => draw.rest().to_vec(),
        // a byte of the input for each record
        kind => draw.take(64).iter().flat_map(|label| record(*label, kind as usize)).collect(),
    };
    if file.ends_with(".gz") && classes.first().is_none_or(|byte| *byte != 0) {
        bytes = gzip(&bytes);
    }
    let path = |dir: &std::path::Path| if whole { dir.to_owned() } else { dir.join(file) };
    let Ok(cifar) = with_files(&[(file, &bytes), (names, classes)], |dir| read_cifar(path(dir))) else { return };
    for part in cifar.train.iter().chain(&cifar.test) {
        assert_eq!(part.pixels.len(), 3072 * part.classes.len());
        assert!(part.classes.iter().all(|class| (*class as usize) < cifar.labels.len()));
        assert!(part.coarse.iter().all(|class| (*class as usize) < cifar.coarse_labels.len()));
    }
    cifar.clone().grids("cifar").expect("pictures as they are");
    cifar.datasets().expect("pictures as they are");
}

/// One or two bytes of labels, and pixels.
fn record(label: u8, labels: usize) -> Vec<u8> {
    let mut record = vec![label; 3072 + labels];
    record[0] = if labels == 2 { label / 8 } else { label };
    record
}
