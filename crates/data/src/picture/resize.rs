//! Bilinear with antialiasing, as PIL does it: a new pixel is the mean of the old ones, weighted by a triangle that is centred on it
//! and as wide as it. Rows first: each is made of old rows, then its pixels of their neighbours.

/// Bytes of pixels to read: a view of a larger picture.
pub(super) struct From<'a> {
    pub pixels: &'a [u8],
    /// Bytes from one row to the next.
    pub stride: usize,
    pub width: usize,
    pub height: usize,
    pub channels: usize,
}

/// Memory that is used again for every picture.
#[derive(Default)]
pub(super) struct Resizer {
    down: Taps,
    across: Taps,
    /// A new row of old width, and one pixel more, so that four channels can be read where there are three.
    row: Vec<f32>,
}

/// The old pixels of each new one along a side.
#[derive(Default)]
struct Taps {
    /// Old and new length of the side.
    sides: (usize, usize),
    starts: Vec<usize>,
    /// `count` for each new pixel; they sum to 1.
    weights: Vec<f32>,
    count: usize,
}

impl Resizer {
    /// Fills `to`, whose rows have `width` pixels.
    pub fn resize(&mut self, from: &From<'_>, width: usize, to: &mut [u8]) {
        let bytes = from.width * from.channels;
        self.down.set(from.height, to.len() / (width * from.channels));
        self.across.set(from.width, width);
        self.row.resize(bytes + 4, 0.0);
        let Resizer { down, across, row } = self;
        pulp::Arch::new().dispatch(Resize { down, across, row, from, width, to });
    }
}

struct Resize<'a> {
    down: &'a Taps,
    across: &'a Taps,
    row: &'a mut [f32],
    from: &'a From<'a>,
    width: usize,
    to: &'a mut [u8],
}

impl pulp::NullaryFnOnce for Resize<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Resize { down, across, row, from, width, to } = self;
        let bytes = from.width * from.channels;
        for (at, to) in to.chunks_exact_mut(width * from.channels).enumerate() {
            let (first, weights) = down.of(at);
            let old = |tap: usize| &from.pixels[(first + tap) * from.stride..][..bytes];
            blend(weights, old, &mut row[..bytes]);
            match from.channels {
                1 => across.mix::<1, 1>(row, to),
                3 => across.mix::<3, 4>(row, to),
                _ => across.mix::<4, 4>(row, to),
            }
        }
    }
}

/// `row = Σ weight · old`
#[inline(always)]
fn blend<'a>(weights: &[f32], old: impl Fn(usize) -> &'a [u8], row: &mut [f32]) {
    let Some((first, rest)) = weights.split_first() else { return };
    let (single, pairs) = rest.as_rchunks::<2>();
    let second = single.first().copied().unwrap_or(0.0);
    // the first alone, or with the second of an even number: enlarging has two
    for ((to, a), b) in row.iter_mut().zip(old(0)).zip(old(single.len())) {
        *to = first * *a as f32 + second * *b as f32;
    }
    for (pair, tap) in pairs.iter().zip((1 + single.len()..).step_by(2)) {
        for ((to, a), b) in row.iter_mut().zip(old(tap)).zip(old(tap + 1)) {
            *to += pair[0] * *a as f32 + pair[1] * *b as f32;
        }
    }
}

impl Taps {
    fn set(&mut self, from: usize, to: usize) {
        if self.sides == (from, to) {
            return;
        }
        self.sides = (from, to);
        let scale = from as f64 / to as f64;
        let radius = scale.max(1.0);
        self.count = ((2.0 * radius).ceil() as usize).min(from);
        self.starts.clear();
        self.weights.clear();
        for at in 0..to {
            let centre = (at as f64 + 0.5) * scale;
            let start = ((centre - radius - 0.5).floor() + 1.0).clamp(0.0, (from - self.count) as f64) as usize;
            let weight = |pixel: usize| (1.0 - (pixel as f64 + 0.5 - centre).abs() / radius).max(0.0);
            let sum: f64 = (start..start + self.count).map(weight).sum();
            self.starts.push(start);
            self.weights.extend((start..start + self.count).map(|pixel| (weight(pixel) / sum) as f32));
        }
    }

    fn of(&self, at: usize) -> (usize, &[f32]) {
        (self.starts[at], &self.weights[at * self.count..][..self.count])
    }

    /// A row of pixels of `C` channels, read in `LANES`.
    #[inline(always)]
    fn mix<const C: usize, const LANES: usize>(&self, row: &[f32], to: &mut [u8]) {
        match self.count {
            2 => self.mix_counted::<C, LANES>(2, row, to),
            3 => self.mix_counted::<C, LANES>(3, row, to),
            count => self.mix_counted::<C, LANES>(count, row, to),
        }
    }

    /// Inlined with the count, so that small ones are no loops.
    #[inline(always)]
    fn mix_counted<const C: usize, const LANES: usize>(&self, count: usize, row: &[f32], to: &mut [u8]) {
        let pixels = to.as_chunks_mut::<C>().0.iter_mut();
        for ((to, start), weights) in pixels.zip(&self.starts).zip(self.weights.chunks_exact(count)) {
            let from = &row[start * C..][..(count - 1) * C + LANES];
            let mut sum = [0f32; LANES];
            for (tap, weight) in weights.iter().enumerate() {
                for (sum, from) in sum.iter_mut().zip(&from[tap * C..tap * C + LANES]) {
                    *sum += weight * from;
                }
            }
            *to = std::array::from_fn(|c| rounded(sum[c]));
        }
    }
}

/// Of 0 to 255. So large a number has no room for fractions: its last bits are the integer.
#[inline(always)]
fn rounded(value: f32) -> u8 {
    (value + 8_388_608.0).to_bits() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One triangle after the other in f64; whole pictures larger, smaller and both.
    #[test]
    fn as_the_formula_says() {
        let value = |at: usize| (at * at * 31 + at * 7) as u8;
        for channels in [1, 3, 4] {
            for (width, height, new_width, new_height) in
                [(7, 5, 7, 9), (7, 5, 20, 3), (40, 33, 9, 11), (1, 1, 3, 2), (3, 2, 1, 1), (64, 3, 5, 3)]
            {
                let pixels: Vec<u8> = (0..width * height * channels).map(value).collect();
                let from = From { pixels: &pixels, stride: width * channels, width, height, channels };
                let mut got = vec![0; new_width * new_height * channels];
                Resizer::default().resize(&from, new_width, &mut got);
                for (at, got) in got.iter().enumerate() {
                    let (x, y, c) = (at / channels % new_width, at / channels / new_width, at % channels);
                    let want = mean(width, new_width, x, |x| {
                        mean(height, new_height, y, |y| pixels[(y * width + x) * channels + c] as f64)
                    });
                    assert!((*got as f64 - want).abs() < 0.51, "{got} {want} at {x},{y} of {new_width}×{new_height}");
                }
            }
        }
    }

    fn mean(from: usize, to: usize, at: usize, value: impl Fn(usize) -> f64) -> f64 {
        let scale = from as f64 / to as f64;
        let weight = |x: usize| {
            let distance = (x as f64 + 0.5 - (at as f64 + 0.5) * scale).abs();
            (1.0 - distance / scale.max(1.0)).max(0.0)
        };
        (0..from).map(|x| weight(x) * value(x)).sum::<f64>() / (0..from).map(weight).sum::<f64>()
    }
}
