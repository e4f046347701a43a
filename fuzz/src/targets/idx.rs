//! IDX files, plain and gzipped: both give the same, and as many bytes as they say.

use citius_data::{image_dataset, mnist_dir, read_images, read_labels};

use crate::{Draw, gzip, with_file, with_files};

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    match draw.byte() % 3 {
        0 => one(draw.rest()),
        1 => whole(draw),
        _ => {
            let _ = with_file("x.gz", draw.rest(), |path| (read_images(path).is_ok(), read_labels(path).is_ok()));
        }
    }
}

fn one(bytes: &[u8]) {
    let read = |bytes: &[u8]| with_file("x", bytes, |path| (read_images(path).ok(), read_labels(path).ok()));
    let (images, labels) = read(bytes);
    assert!(images.is_none() || labels.is_none(), "both images and labels");
    assert_eq!(read(&gzip(bytes)), (images.clone(), labels), "gzipped");
    if let Some(images) = images {
        assert_eq!(images.pixels.len(), images.count * images.height * images.width);
        let labels = vec![0; images.count];
        image_dataset(images, &labels, 1, None).expect("pictures as they are");
    }
}

/// A directory of four files.
fn whole(mut draw: Draw<'_>) {
    let lengths = [0; 3].map(|_| draw.byte() as usize);
    let [train_images, train_labels, test_images] = lengths.map(|length| draw.take(length));
    let files = [
        ("train-images-idx3-ubyte", train_images),
        ("train-labels-idx1-ubyte", train_labels),
        ("t10k-images.idx3-ubyte", test_images),
        ("t10k-labels-idx1-ubyte", draw.rest()),
    ];
    if let Ok(mnist) = with_files(&files, |dir| mnist_dir(dir)) {
        for (images, labels) in [mnist.train, mnist.test] {
            image_dataset(images, &labels, mnist.classes, None).expect("pictures as they are");
        }
    }
}
