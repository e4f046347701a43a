//! Another size, bilinear with antialiasing.

use serde::{Deserialize, Serialize};

use super::{Random, Shape, Size, Step};
use crate::picture::canvas::Canvas;

/// `size = 256`: the shorter side becomes 256, the proportion stays. `size = [256, 320]`: this height and width.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    pub size: Size,
}

impl Resize {
    fn target(&self, height: usize, width: usize) -> (usize, usize) {
        let long = |short: usize, long: usize, side: usize| (side as u128 * long as u128 / short as u128) as usize;
        match self.size {
            Size::Both([height, width]) => (height, width),
            Size::One(side) if height <= width => (side, long(height, width, side)),
            Size::One(side) => (long(width, height, side), side),
        }
    }
}

impl Step for Resize {
    fn check(&self) -> Result<(), String> {
        self.size.check()
    }

    fn sets_size(&self) -> bool {
        true
    }

    fn shape(&self, before: Shape) -> Shape {
        let size = match self.size {
            Size::Both([height, width]) => Some((height, width)),
            Size::One(_) => before.size.map(|(height, width)| self.target(height, width)),
        };
        Shape { size, ..before }
    }

    fn apply(&self, canvas: &mut Canvas<'_>, _: &mut Random) -> Result<(), String> {
        let (height, width) = self.target(canvas.height(), canvas.width());
        canvas.resize(width, height)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Transform;
    use super::super::tests::{pattern, run};
    use super::*;

    fn resized(channels: usize, (from_width, from_height): (usize, usize), size: [usize; 2]) -> Vec<u8> {
        let transform = Transform::Resize(Resize { size: Size::Both(size) });
        run(transform, &pattern(from_width, from_height, channels), 0).2
    }

    fn assert_near(got: &[u8], expected: &[u8]) {
        assert_eq!(got.len(), expected.len());
        assert!(got.iter().zip(expected).all(|(a, b)| a.abs_diff(*b) <= 1), "{got:?}\n{expected:?}");
    }

    /// `Image.fromarray(pattern).resize((width, height), Image.BILINEAR)` of PIL.
    #[test]
    fn as_pil() {
        assert_near(&resized(1, (8, 6), [3, 4]), &[89, 125, 122, 120, 125, 132, 141, 132, 119, 137, 143, 143]);
        assert_near(
            &resized(1, (8, 6), [4, 5]),
            &[50, 110, 125, 139, 105, 154, 124, 121, 134, 119, 90, 144, 158, 138, 135, 128, 121, 149, 131, 150],
        );
        let larger = resized(1, (8, 6), [9, 11]);
        assert_near(&larger[..11], &[0, 22, 49, 76, 103, 130, 156, 183, 210, 132, 3]);
        assert_near(&larger[88..], &[199, 90, 38, 90, 143, 195, 189, 55, 96, 148, 191]);
        let rgb = [
            67, 117, 152, 126, 134, 143, 117, 151, 138, 141, 130, 111, 121, 125, 132, 129, 146, 127, 113, 142, 129,
            151, 133, 123, 142, 145, 116,
        ];
        assert_near(&resized(3, (6, 5), [3, 3]), &rgb);
        assert_near(&resized(4, (6, 5), [3, 3]), &rgb);
    }

    #[test]
    fn the_shorter_side_rules() {
        let resize = Resize { size: Size::One(4) };
        assert_eq!(resize.target(10, 7), (5, 4));
        assert_eq!(Resize { size: Size::One(3) }.target(6, 8), (3, 4));
        assert_eq!(resize.shape(Shape { size: None, channels: 3 }).size, None);
        let (width, height, _) = run(Transform::Resize(resize), &pattern(7, 10, 1), 0);
        assert_eq!((width, height), (4, 5));
    }

    #[test]
    fn a_thread_of_a_picture_is_refused_not_blown_up() {
        let line = pattern(100_000, 1, 1);
        let mut scratch = Default::default();
        let mut canvas = Canvas::new(&line, &mut scratch).unwrap();
        let error = Resize { size: Size::One(4096) }.apply(&mut canvas, &mut Random::new(0, 0)).unwrap_err();
        assert!(error.contains("409600000×4096"), "{error}");
    }
}
