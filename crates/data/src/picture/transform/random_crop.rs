//! A part of fixed size at a random place.

use serde::{Deserialize, Serialize};

use super::{MOST_SIDE, Random, Shape, Size, Step};
use crate::picture::canvas::Canvas;

/// `padding` black pixels are added on every side first; `pad_if_needed` adds as many as a small picture lacks. Without a `size` it is
/// that of the picture: then padding is how far it may move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RandomCrop {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    #[serde(default)]
    pub padding: usize,
    #[serde(default)]
    pub pad_if_needed: bool,
}

impl Step for RandomCrop {
    fn check(&self) -> Result<(), String> {
        match self.padding <= MOST_SIDE {
            true => self.size.map_or(Ok(()), Size::check),
            false => Err(format!("padding {}, at most {MOST_SIDE} is possible", self.padding)),
        }
    }

    fn sets_size(&self) -> bool {
        self.size.is_some()
    }

    fn idle(&self) -> Option<&'static str> {
        (self.size.is_none() && self.padding == 0).then_some("padding (pixels that it may move) or size")
    }

    fn shape(&self, before: Shape) -> Shape {
        Shape { size: self.size.map(Size::pair).or(before.size), ..before }
    }

    fn apply(&self, canvas: &mut Canvas<'_>, random: &mut Random) -> Result<(), String> {
        let (have_width, have_height) = (canvas.width(), canvas.height());
        let (height, width) = self.size.map_or((have_height, have_width), Size::pair);
        let mut start = |have: usize, want: usize| {
            let needed = if self.pad_if_needed { want.saturating_sub(have + 2 * self.padding) } else { 0 };
            let edge = self.padding + needed;
            let places = (have + 2 * edge + 1).checked_sub(want).filter(|places| *places > 0);
            Some(random.below(places?) as isize - edge as isize)
        };
        let (Some(top), Some(left)) = (start(have_height, height), start(have_width, width)) else {
            return Err(format!(
                "a crop of {width}×{height} does not fit a picture of {have_width}×{have_height}; \
                 resize first, or set pad-if-needed"
            ));
        };
        canvas.crop_padded(left, top, width, height)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Transform;
    use super::super::tests::{pattern, run};
    use super::*;
    use std::collections::HashSet;

    fn crop(padding: usize, pad_if_needed: bool, size: usize) -> RandomCrop {
        RandomCrop { size: Some(Size::One(size)), padding, pad_if_needed }
    }

    #[test]
    fn every_place_is_reached_and_no_other() {
        let picture = pattern(4, 3, 1);
        let seen: HashSet<Vec<u8>> =
            (0..200).map(|key| run(Transform::RandomCrop(crop(0, false, 2)), &picture, key).2).collect();
        let at = |x: usize, y: usize| picture.pixels[y * 4 + x];
        let expected: HashSet<Vec<u8>> = (0..3)
            .flat_map(|x| (0..2).map(move |y| (x, y)))
            .map(|(x, y)| vec![at(x, y), at(x + 1, y), at(x, y + 1), at(x + 1, y + 1)])
            .collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn padding_is_black() {
        let white = crate::picture::Picture { width: 2, height: 2, channels: 1, pixels: vec![255; 4] };
        let counts: HashSet<usize> = (0..300)
            .map(|key| run(Transform::RandomCrop(crop(2, false, 2)), &white, key).2.iter().filter(|p| **p > 0).count())
            .collect();
        assert_eq!(counts, HashSet::from([0, 1, 2, 4]));
        let (width, height, _) = run(Transform::RandomCrop(crop(0, true, 5)), &white, 1);
        assert_eq!((width, height), (5, 5));
        let own = RandomCrop { size: None, padding: 1, pad_if_needed: false };
        let (width, height, _) = run(Transform::RandomCrop(own), &white, 1);
        assert_eq!((width, height), (2, 2));
    }

    #[test]
    fn too_small_a_picture_is_an_error() {
        let small = pattern(4, 3, 1);
        let mut scratch = Default::default();
        let mut canvas = Canvas::new(&small, &mut scratch).unwrap();
        let error = crop(0, false, 4).apply(&mut canvas, &mut Random::new(0, 0)).unwrap_err();
        assert!(error.contains("4×3") && error.contains("pad-if-needed"), "{error}");
    }
}
