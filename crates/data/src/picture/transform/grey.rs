//! Without colours, always or now and then.

use serde::{Deserialize, Serialize};

use super::{Random, Shape, Step, check_probability};
use crate::picture::canvas::Canvas;

/// `channels = 1` leaves one plane; 3 keeps three alike ones, and then `probability` may be less than 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grey {
    pub channels: usize,
    pub probability: f32,
}

impl Default for Grey {
    fn default() -> Self {
        Grey { channels: 1, probability: 1.0 }
    }
}

impl Step for Grey {
    fn check(&self) -> Result<(), String> {
        check_probability(self.probability)?;
        match (self.channels, self.probability) {
            (1, 1.0) | (3, _) => Ok(()),
            (1, _) => Err("grey with a probability keeps 3 channels; set channels = 3".into()),
            (channels, _) => Err(format!("grey pictures have 1 or 3 channels, not {channels}")),
        }
    }

    fn idle(&self) -> Option<&'static str> {
        (self.probability == 0.0).then_some("probability")
    }

    fn shape(&self, before: Shape) -> Shape {
        Shape { channels: before.channels.min(self.channels), ..before }
    }

    fn apply(&self, canvas: &mut Canvas<'_>, random: &mut Random) -> Result<(), String> {
        match random.chance(self.probability) {
            true => canvas.grey(self.channels == 1),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Transform;
    use super::super::tests::{pattern, run, seen};
    use super::*;
    use crate::picture::canvas::Rect;

    /// `to_grayscale` of torchvision.
    #[test]
    fn one_plane_or_three() {
        let grey = |channels, planes| {
            run(Transform::Grey(Grey { channels: planes, probability: 1.0 }), &pattern(3, 2, channels), 0).2
        };
        let expected = [41, 78, 115, 132, 176, 191];
        assert_eq!(grey(3, 1), expected);
        assert_eq!(grey(4, 1), expected);
        assert_eq!(grey(4, 3), expected.map(|v| [v; 3]).concat());
        assert_eq!(grey(1, 1), pattern(3, 2, 1).pixels);
    }

    #[test]
    fn after_a_crop() {
        let picture = pattern(3, 2, 4);
        let mut scratch = Default::default();
        let mut canvas = Canvas::new(&picture, &mut scratch).unwrap();
        canvas.flip_x();
        canvas.crop(Rect { x: 0, y: 1, width: 2, height: 1 });
        Grey::default().apply(&mut canvas, &mut Random::new(0, 0)).unwrap();
        assert_eq!(seen(&canvas).2, [191, 176]);
        canvas.resize(1, 1).unwrap();
        assert!(seen(&canvas).2[0].abs_diff(183) <= 1);
    }
}
