//! A random turn, shift, scale and shear in one.

use serde::{Deserialize, Serialize};

use super::warp::{Motion, warp};
use super::{Interpolation, Random, Step, check_range};
use crate::picture::canvas::Canvas;

/// Angles in `-degrees..degrees`; shifts of at most `translate` of the width and height; factors in `scale`; shears
/// along x in `-shear..shear` degrees. What comes in at the edges is black.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Affine {
    pub degrees: f32,
    pub translate: [f32; 2],
    pub scale: [f32; 2],
    pub shear: f32,
    pub interpolation: Interpolation,
}

impl Default for Affine {
    fn default() -> Self {
        Affine { degrees: 0.0, translate: [0.0; 2], scale: [1.0; 2], shear: 0.0, interpolation: Interpolation::Nearest }
    }
}

impl Affine {
    fn choose(&self, random: &mut Random, width: usize, height: usize) -> Motion {
        let mut around = |most: f32| random.between([-most, most]);
        let angle = around(self.degrees);
        let shift = [
            around(self.translate[0] * width as f32).round_ties_even(),
            around(self.translate[1] * height as f32).round_ties_even(),
        ];
        let shear = [around(self.shear), 0.0];
        Motion { angle, shift, scale: random.between(self.scale), shear }
    }

    fn move_by(&self, canvas: &mut Canvas<'_>, motion: Motion) -> Result<(), String> {
        canvas.repaint(|from, width, height, channels, to| {
            warp(from, (width, height, channels), motion.inverse(width, height), self.interpolation, to)
        })
    }
}

impl Step for Affine {
    fn check(&self) -> Result<(), String> {
        check_range("degrees", [0.0, self.degrees], 0.0, 360.0)?;
        check_range("translate", [0.0, self.translate[0]], 0.0, 1.0)?;
        check_range("translate", [0.0, self.translate[1]], 0.0, 1.0)?;
        check_range("scale", self.scale, 1e-2, 1e2)?;
        check_range("shear", [0.0, self.shear], 0.0, 89.0)
    }

    fn idle(&self) -> Option<&'static str> {
        (Affine { interpolation: Interpolation::Nearest, ..self.clone() } == Affine::default())
            .then_some("degrees, translate, scale or shear")
    }

    fn apply(&self, canvas: &mut Canvas<'_>, random: &mut Random) -> Result<(), String> {
        let motion = self.choose(random, canvas.width(), canvas.height());
        self.move_by(canvas, motion)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pattern, seen};
    use super::*;

    /// `affine(pattern, 20, [1, -1], 1.2, [10, 5])` of torchvision on PIL pictures.
    #[test]
    fn as_torchvision() {
        let motion = Motion { angle: 20.0, shift: [1.0, -1.0], scale: 1.2, shear: [10.0, 5.0] };
        let matrix = motion.inverse(5, 4);
        let expected = [0.7449012624, 0.4274912650, -0.5346456835, -0.2165064098, 0.8080129217, 1.9497595128];
        assert!(matrix.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{matrix:?}");

        let moved = |interpolation| {
            let picture = pattern(5, 4, 1);
            let mut scratch = Default::default();
            let mut canvas = Canvas::new(&picture, &mut scratch).unwrap();
            Affine { interpolation, ..Affine::default() }.move_by(&mut canvas, motion).unwrap();
            seen(&canvas).2
        };
        let nearest = [182, 182, 135, 179, 223, 17, 233, 233, 28, 79, 17, 75, 133, 191, 79, 0, 0, 0, 0, 249];
        assert_eq!(moved(Interpolation::Nearest), nearest);
        let bilinear = [158, 153, 164, 160, 189, 90, 165, 132, 53, 121, 40, 83, 121, 138, 155, 0, 0, 0, 0, 238];
        let got = moved(Interpolation::Bilinear);
        assert!(got.iter().zip(bilinear).all(|(a, b): (&u8, u8)| a.abs_diff(b) <= 1), "{got:?}");
    }

    #[test]
    fn choices_stay_in_their_ranges() {
        let affine =
            Affine { degrees: 10.0, translate: [0.1, 0.2], scale: [0.5, 2.0], shear: 5.0, ..Affine::default() };
        for key in 0..500 {
            let motion = affine.choose(&mut Random::new(key, 0), 100, 50);
            assert!(motion.angle.abs() <= 10.0 && motion.shear[0].abs() <= 5.0 && motion.shear[1] == 0.0);
            assert!(motion.shift[0].abs() <= 10.0 && motion.shift[1].abs() <= 10.0 && motion.shift[0].fract() == 0.0);
            assert!((0.5..2.0).contains(&motion.scale));
        }
    }
}
