//! A turn about the middle by a random angle.

use serde::{Deserialize, Serialize};

use super::warp::{Motion, warp};
use super::{Interpolation, Random, Step};
use crate::picture::canvas::Canvas;

/// An angle in `-degrees..degrees`; the corners that come in are black.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    pub degrees: f32,
    #[serde(default)]
    pub interpolation: Interpolation,
}

impl Rotation {
    /// Counter-clockwise.
    fn turn(&self, canvas: &mut Canvas<'_>, degrees: f64) -> Result<(), String> {
        canvas.repaint(|from, width, height, channels, to| {
            let motion = Motion { angle: -degrees, shift: [0.0; 2], scale: 1.0, shear: [0.0; 2] };
            warp(from, (width, height, channels), motion.inverse(width, height), self.interpolation, to)
        })
    }
}

impl Step for Rotation {
    fn check(&self) -> Result<(), String> {
        match (0.0..=360.0).contains(&self.degrees) {
            true => Ok(()),
            false => Err(format!("degrees {} is not in 0..360", self.degrees)),
        }
    }

    fn idle(&self) -> Option<&'static str> {
        (self.degrees == 0.0).then_some("degrees")
    }

    fn apply(&self, canvas: &mut Canvas<'_>, random: &mut Random) -> Result<(), String> {
        let degrees = random.between([-self.degrees, self.degrees]);
        self.turn(canvas, degrees)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pattern, seen};
    use super::*;

    fn turned(width: usize, height: usize, degrees: f64, interpolation: Interpolation) -> Vec<u8> {
        let picture = pattern(width, height, 1);
        let mut scratch = Default::default();
        let mut canvas = Canvas::new(&picture, &mut scratch).unwrap();
        Rotation { degrees: 0.0, interpolation }.turn(&mut canvas, degrees).unwrap();
        seen(&canvas).2
    }

    /// `rotate(pattern, angle)` of torchvision on PIL pictures.
    #[test]
    fn as_torchvision() {
        let quarter = [111, 223, 79, 191, 74, 179, 28, 133, 37, 135, 233, 75, 0, 91, 182, 17];
        assert_eq!(turned(4, 4, 90.0, Interpolation::Nearest), quarter);
        let nearest = [0, 74, 111, 11, 11, 37, 135, 179, 79, 130, 91, 135, 28, 79, 191, 182, 182, 75, 133, 0];
        assert_eq!(turned(5, 4, 30.0, Interpolation::Nearest), nearest);
        let bilinear = [0, 69, 123, 104, 34, 25, 108, 180, 134, 137, 85, 171, 85, 106, 211, 163, 153, 108, 139, 0];
        let got = turned(5, 4, 30.0, Interpolation::Bilinear);
        assert!(got.iter().zip(bilinear).all(|(a, b): (&u8, u8)| a.abs_diff(b) <= 1), "{got:?}");
    }
}
