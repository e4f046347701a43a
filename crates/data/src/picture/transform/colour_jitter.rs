//! Brightness, contrast, saturation and hue, a little off, in a random order.

use serde::{Deserialize, Serialize};

use super::{Random, Step};
use crate::picture::canvas::Canvas;
use crate::picture::decode::luma;

/// Factors in `1 - v .. 1 + v` (not below 0) for the first three; a shift in `-hue..hue` of the circle of colours.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ColourJitter {
    pub brightness: f32,
    pub contrast: f32,
    pub saturation: f32,
    pub hue: f32,
}

impl Step for ColourJitter {
    fn check(&self) -> Result<(), String> {
        let factors = [("brightness", self.brightness), ("contrast", self.contrast), ("saturation", self.saturation)];
        if let Some((what, value)) = factors.iter().find(|(_, value)| !(0.0..=100.0).contains(value)) {
            return Err(format!("{what} {value} is not in 0..100"));
        }
        match (0.0..=0.5).contains(&self.hue) {
            true => Ok(()),
            false => Err(format!("hue {} is not in 0..0.5", self.hue)),
        }
    }

    fn idle(&self) -> Option<&'static str> {
        (*self == ColourJitter::default()).then_some("brightness, contrast, saturation or hue")
    }

    fn apply(&self, canvas: &mut Canvas<'_>, random: &mut Random) -> Result<(), String> {
        let mut factor = |by: f32| random.between([(1.0 - by).max(0.0), 1.0 + by]) as f32;
        let mut changes = [
            (self.brightness, Change::Brightness(factor(self.brightness))),
            (self.contrast, Change::Contrast(factor(self.contrast))),
            (self.saturation, Change::Saturation(factor(self.saturation))),
            (self.hue, Change::Hue(random.between([-self.hue, self.hue]) as f32)),
        ];
        random.shuffle(&mut changes);
        let channels = canvas.channels();
        let pixels = canvas.pixels_mut()?;
        for (_, change) in changes.iter().filter(|(by, _)| *by > 0.0) {
            change.apply(pixels, channels);
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Brightness(f32),
    Contrast(f32),
    Saturation(f32),
    Hue(f32),
}

impl Change {
    fn apply(self, pixels: &mut [u8], channels: usize) {
        let colours = channels.min(3);
        let each = |pixels: &mut [u8], change: &dyn Fn(&mut [u8])| {
            pixels.chunks_exact_mut(channels).for_each(|pixel| change(&mut pixel[..colours]));
        };
        match self {
            Change::Brightness(factor) => {
                let table = table(0, factor);
                each(pixels, &|pixel| pixel.iter_mut().for_each(|v| *v = table[*v as usize]));
            }
            Change::Contrast(factor) => {
                let table = table(mean_grey(pixels, channels), factor);
                each(pixels, &|pixel| pixel.iter_mut().for_each(|v| *v = table[*v as usize]));
            }
            Change::Saturation(factor) if channels > 1 => each(pixels, &|pixel| {
                let grey = luma(pixel[0], pixel[1], pixel[2]);
                pixel.iter_mut().for_each(|v| *v = blend(grey, *v, factor));
            }),
            Change::Hue(shift) if channels > 1 => each(pixels, &|pixel| {
                let turned = turn_hue([pixel[0], pixel[1], pixel[2]], shift);
                pixel.copy_from_slice(&turned);
            }),
            Change::Saturation(_) | Change::Hue(_) => {}
        }
    }
}

/// PIL's `Image.blend`: `from` at factor 0, `to` at 1, cut to a byte.
#[inline(always)]
fn blend(from: u8, to: u8, factor: f32) -> u8 {
    (from as f32 + factor * (to as f32 - from as f32)).clamp(0.0, 255.0) as u8
}

fn table(from: u8, factor: f32) -> [u8; 256] {
    std::array::from_fn(|value| blend(from, value as u8, factor))
}

fn mean_grey(pixels: &[u8], channels: usize) -> u8 {
    let grey = |pixel: &[u8]| if channels == 1 { pixel[0] } else { luma(pixel[0], pixel[1], pixel[2]) };
    let sum: u64 = pixels.chunks_exact(channels).map(|pixel| grey(pixel) as u64).sum();
    let count = (pixels.len() / channels).max(1);
    (sum as f64 / count as f64 + 0.5) as u8
}

/// RGB → HSV, hue + shift, → RGB, as torchvision does it on tensors.
fn turn_hue([r, g, b]: [u8; 3], shift: f32) -> [u8; 3] {
    let most = r.max(g).max(b);
    let spread = most - r.min(g).min(b);
    if spread == 0 {
        return [r, g, b];
    }
    let [r, g, b, v, c] = [r, g, b, most, spread].map(f32::from);
    let hue = if v == r {
        (g - b) / c
    } else if v == g {
        2.0 + (b - r) / c
    } else {
        4.0 + (r - g) / c
    };
    let hue = (hue / 6.0 + shift).rem_euclid(1.0) * 6.0;
    let (sector, f) = (hue.floor(), hue.fract());
    let (p, q, t) = (v - c, v - c * f, v - c * (1.0 - f));
    let colour = match sector as u32 % 6 {
        0 => [v, t, p],
        1 => [q, v, p],
        2 => [p, v, t],
        3 => [p, q, v],
        4 => [t, p, v],
        _ => [v, p, q],
    };
    // torchvision's way from [0, 1] to bytes: every byte has a share of 1/256
    colour.map(|v| (v / 255.0 * (256.0 - 1e-3)) as u8)
}

#[cfg(test)]
mod tests {
    use super::super::Transform;
    use super::super::tests::{pattern, run};
    use super::*;

    fn changed(change: Change, channels: usize) -> Vec<u8> {
        let mut picture = pattern(3, 2, channels);
        change.apply(&mut picture.pixels, channels);
        picture.pixels.chunks(channels).flat_map(|pixel| pixel[..channels.min(3)].to_vec()).collect()
    }

    /// `adjust_brightness` and so on of torchvision on PIL pictures, hue on tensors.
    #[test]
    fn as_torchvision() {
        let cases: [(Change, [u8; 18]); 7] = [
            (
                Change::Brightness(1.3),
                [0, 65, 130, 48, 113, 178, 96, 161, 226, 118, 183, 248, 175, 240, 255, 232, 255, 29],
            ),
            (
                Change::Contrast(0.6),
                [48, 78, 108, 71, 101, 131, 93, 123, 153, 103, 133, 163, 129, 159, 189, 156, 186, 62],
            ),
            (Change::Contrast(1.5), [0, 14, 89, 0, 69, 144, 50, 125, 200, 75, 150, 225, 141, 216, 255, 207, 255, 0]),
            (
                Change::Saturation(0.4),
                [24, 44, 64, 61, 81, 101, 98, 118, 138, 115, 135, 155, 159, 179, 199, 186, 206, 123],
            ),
            (Change::Saturation(1.7), [0, 56, 141, 8, 93, 178, 45, 130, 215, 62, 147, 232, 106, 191, 255, 170, 255, 0]),
            (Change::Hue(0.2), [70, 0, 100, 107, 37, 137, 144, 74, 174, 161, 91, 191, 205, 135, 235, 23, 229, 114]),
            (Change::Hue(-0.3), [30, 100, 0, 67, 137, 37, 104, 174, 74, 121, 191, 91, 165, 235, 135, 229, 23, 138]),
        ];
        for (change, expected) in cases {
            for channels in [3, 4] {
                let got = changed(change, channels);
                assert!(got.iter().zip(expected).all(|(a, b)| a.abs_diff(b) <= 1), "{change:?}: {got:?} {expected:?}");
            }
        }
    }

    #[test]
    fn grey_pictures_have_no_colours_to_change() {
        assert_eq!(changed(Change::Hue(0.3), 1), pattern(3, 2, 1).pixels);
        assert_ne!(changed(Change::Brightness(0.5), 1), pattern(3, 2, 1).pixels);
    }

    #[test]
    fn nothing_asked_nothing_done() {
        let picture = pattern(3, 2, 3);
        assert_eq!(run(Transform::ColourJitter(ColourJitter::default()), &picture, 4).2, picture.pixels);
        let jitter = ColourJitter { brightness: 0.4, contrast: 0.4, saturation: 0.4, hue: 0.1 };
        let once = run(Transform::ColourJitter(jitter.clone()), &picture, 4).2;
        assert_ne!(once, picture.pixels);
        assert_eq!(once, run(Transform::ColourJitter(jitter), &picture, 4).2);
    }
}
