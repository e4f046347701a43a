//! The data set that needs no download: handwritten-looking digits, drawn by this module.
//!
//! Grey images of 28×28, light strokes on black, sized and centred as MNIST's are. Image `i` is a function of
//! `(seed, i)` alone, in arithmetic that is exactly rounded, so the bytes are the same for any number of threads
//! and on any machine.

mod pen;
mod strokes;

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::rng::mix;

/// Pixels along one side of an image.
pub const SIDE: usize = 28;
/// Bytes of one image, row-major.
pub const PIXELS: usize = SIDE * SIDE;
/// Index of the first test image: the test set is the same whatever the size of the training set.
pub const TEST_START: u64 = 1 << 40;

/// A rendered data set: image after image, one byte a pixel; one label from 0 to 9 an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digits {
    pub train_pixels: Vec<u8>,
    pub train_labels: Vec<u8>,
    pub test_pixels: Vec<u8>,
    pub test_labels: Vec<u8>,
}

/// Draws `train` and `test` images on up to `threads` threads, the caller's among them.
pub fn render(seed: u64, train: usize, test: usize, threads: usize) -> Digits {
    let mut digits = Digits {
        train_pixels: vec![0; train * PIXELS],
        train_labels: vec![0; train],
        test_pixels: vec![0; test * PIXELS],
        test_labels: vec![0; test],
    };
    let threads = threads.min(1 + (train + test) / SHEET);
    let train = sheets(0, &mut digits.train_pixels, &mut digits.train_labels);
    let test = sheets(TEST_START, &mut digits.test_pixels, &mut digits.test_labels);
    draw(seed, train.chain(test), threads);
    digits
}

/// One image and its label. Training images start at 0, test images at [`TEST_START`].
pub fn image(seed: u64, index: u64) -> ([u8; PIXELS], u8) {
    let label = label(seed, index);
    let mut pixels = [0; PIXELS];
    pen::write(label, &mut Rng::new(seed, index), &mut pixels);
    (pixels, label)
}

/// Each run of ten indices holds each digit once, in an order of its own.
fn label(seed: u64, index: u64) -> u8 {
    let mut order = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    let mut rng = Rng::new(!seed, index / 10);
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last + 1));
    }
    order[(index % 10) as usize]
}

/// Draws all sheets; each thread takes the next one that is left.
fn draw<'a>(seed: u64, sheets: impl Iterator<Item = Sheet<'a>> + Send, threads: usize) {
    let todo = Mutex::new(sheets);
    let work = || {
        while let Some(sheet) = next(&todo) {
            sheet.draw(seed);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // A helper that cannot be started is not missed: those that run take its sheets.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

fn next<'a>(todo: &Mutex<impl Iterator<Item = Sheet<'a>>>) -> Option<Sheet<'a>> {
    todo.lock().unwrap_or_else(PoisonError::into_inner).next()
}

/// Consecutive images drawn by one thread at a time.
struct Sheet<'a> {
    first: u64,
    pixels: &'a mut [u8],
    labels: &'a mut [u8],
}

const SHEET: usize = 256;

fn sheets<'a>(start: u64, pixels: &'a mut [u8], labels: &'a mut [u8]) -> impl Iterator<Item = Sheet<'a>> {
    let parts = pixels.chunks_mut(SHEET * PIXELS).zip(labels.chunks_mut(SHEET));
    (start..).step_by(SHEET).zip(parts).map(|(first, (pixels, labels))| Sheet { first, pixels, labels })
}

impl Sheet<'_> {
    fn draw(self, seed: u64) {
        let images = self.pixels.chunks_exact_mut(PIXELS).zip(self.labels);
        for (index, (pixels, label)) in (self.first..).zip(images) {
            let drawn = image(seed, index);
            pixels.copy_from_slice(&drawn.0);
            *label = drawn.1;
        }
    }
}

/// SplitMix64: a counter through a hash, so any `(seed, stream)` starts at once.
struct Rng(u64);

impl Rng {
    fn new(seed: u64, stream: u64) -> Self {
        Rng(mix(mix(seed) ^ stream))
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Uniform in `0..n`.
    fn below(&mut self, n: usize) -> usize {
        (((self.bits() >> 32) * n as u64) >> 32) as usize
    }

    /// Uniform in `low..high`.
    fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * (self.bits() >> 40) as f32 / (1 << 24) as f32
    }

    /// Nearly normal, never beyond 3.5 deviations: four 16-bit uniforms, whose sum has variance 1/3.
    fn normal(&mut self, deviation: f32) -> f32 {
        let bits = self.bits();
        let sum: u64 = (0..4).map(|i| (bits >> (16 * i)) & 0xffff).sum();
        deviation * 1.732_050_8 * (sum as f32 / 65535.0 - 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_do_not_depend_on_threads() {
        let one = render(7, 1000, 300, 1);
        assert_eq!(one, render(7, 1000, 300, 3));
        assert_eq!(one, render(7, 1000, 300, 0));
        assert_ne!(one, render(8, 1000, 300, 1));
    }

    #[test]
    fn an_image_is_what_render_gives() {
        let digits = render(3, 600, 20, 2);
        for i in [0, 1, 255, 256, 599] {
            let (pixels, label) = image(3, i as u64);
            assert_eq!(pixels, digits.train_pixels[i * PIXELS..][..PIXELS]);
            assert_eq!(label, digits.train_labels[i]);
        }
        let (pixels, label) = image(3, TEST_START + 19);
        assert_eq!(pixels, digits.test_pixels[19 * PIXELS..]);
        assert_eq!(label, digits.test_labels[19]);
        // The test set stays as it is when the training set grows.
        assert_eq!(render(3, 10, 20, 1).test_pixels, digits.test_pixels);
    }

    #[test]
    fn sizes_follow_the_request() {
        let empty = render(0, 0, 0, 2);
        assert!(empty.train_pixels.is_empty() && empty.test_labels.is_empty());
        let one = render(0, 1, 0, 2);
        assert_eq!((one.train_pixels.len(), one.train_labels.len(), one.test_pixels.len()), (PIXELS, 1, 0));
    }

    #[test]
    fn labels_are_balanced_and_shuffled() {
        let labels = render(1, 2000, 0, 2).train_labels;
        for digit in 0..10 {
            assert_eq!(labels.iter().filter(|&&l| l == digit).count(), 200);
        }
        assert_ne!(labels[..10], labels[10..20]);
    }

    #[test]
    fn images_look_like_ink_on_black() {
        let digits = render(5, 2000, 0, 2);
        let mean = digits.train_pixels.iter().map(|&p| f64::from(p)).sum::<f64>() / (2000 * PIXELS) as f64;
        assert!((20.0..50.0).contains(&mean), "mean {mean}, MNIST has 33");
        for pixels in digits.train_pixels.chunks(PIXELS) {
            let inked = pixels.iter().filter(|&&p| p > 127).count();
            assert!((15..350).contains(&inked), "{inked} pixels with ink");
            assert!(pixels.iter().any(|&p| p > 180), "no dark stroke");
            let edge = (0..SIDE).flat_map(|i| [i, (SIDE - 1) * SIDE + i, i * SIDE, i * SIDE + SIDE - 1]);
            assert!(edge.filter(|&i| pixels[i] > 127).count() < 4, "cut off at the edge");
        }
    }
}
