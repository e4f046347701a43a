//! A random part, brought to one size: how ImageNet is trained.

use serde::{Deserialize, Serialize};

use super::{Random, Shape, Size, Step, check_range, random_place, ten_tries};
use crate::picture::canvas::{Canvas, Rect};

/// A part with `scale` of the area and a width of `ratio` times the height; after ten misses the middle. One pass over
/// the source picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomResizedCrop {
    pub size: Size,
    #[serde(default = "usual_scale")]
    pub scale: [f32; 2],
    #[serde(default = "usual_ratio")]
    pub ratio: [f32; 2],
}

fn usual_scale() -> [f32; 2] {
    [0.08, 1.0]
}

fn usual_ratio() -> [f32; 2] {
    [3.0 / 4.0, 4.0 / 3.0]
}

impl RandomResizedCrop {
    /// torchvision's scale and ratio.
    pub fn new(size: Size) -> RandomResizedCrop {
        RandomResizedCrop { size, scale: usual_scale(), ratio: usual_ratio() }
    }

    fn part(&self, canvas: &Canvas<'_>, random: &mut Random) -> Rect {
        let (have_width, have_height) = (canvas.width(), canvas.height());
        let fits = |width, height| (1..=have_width).contains(&width) && (1..=have_height).contains(&height);
        let area = have_width as f64 * have_height as f64;
        if let Some((width, height)) = ten_tries(random, area, self.scale, self.ratio, fits) {
            return random_place(random, canvas, width, height);
        }
        let [narrow, wide] = self.ratio.map(f64::from);
        let proportion = have_width as f64 / have_height as f64;
        let (width, height) = if proportion < narrow {
            (have_width, (have_width as f64 / narrow).round_ties_even() as usize)
        } else if proportion > wide {
            ((have_height as f64 * wide).round_ties_even() as usize, have_height)
        } else {
            (have_width, have_height)
        };
        let (width, height) = (width.clamp(1, have_width), height.clamp(1, have_height));
        Rect { x: (have_width - width) / 2, y: (have_height - height) / 2, width, height }
    }
}

impl Step for RandomResizedCrop {
    fn check(&self) -> Result<(), String> {
        self.size.check()?;
        check_range("scale", self.scale, 0.0, 1.0)?;
        check_range("ratio", self.ratio, 1e-3, 1e3)
    }

    fn sets_size(&self) -> bool {
        true
    }

    fn shape(&self, before: Shape) -> Shape {
        Shape { size: Some(self.size.pair()), ..before }
    }

    fn apply(&self, canvas: &mut Canvas<'_>, random: &mut Random) -> Result<(), String> {
        let part = self.part(canvas, random);
        canvas.crop(part);
        let (height, width) = self.size.pair();
        canvas.resize(width, height)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pattern, seen};
    use super::*;
    use crate::picture::canvas::Scratch;

    fn parts(picture: &crate::picture::Picture, crop: &RandomResizedCrop, tries: u64) -> Vec<Rect> {
        let mut scratch = Scratch::default();
        let canvas = Canvas::new(picture, &mut scratch).unwrap();
        (0..tries).map(|key| crop.part(&canvas, &mut Random::new(key, 0))).collect()
    }

    #[test]
    fn areas_and_proportions_are_as_asked() {
        let picture = pattern(200, 160, 1);
        let parts = parts(&picture, &RandomResizedCrop::new(Size::One(8)), 2000);
        let mut mean = 0.0;
        for part in &parts {
            assert!(part.x + part.width <= 200 && part.y + part.height <= 160);
            let area = (part.width * part.height) as f64 / (200.0 * 160.0);
            let ratio = part.width as f64 / part.height as f64;
            assert!((0.075..=1.0).contains(&area) && (0.72..1.38).contains(&ratio), "{part:?}");
            mean += area / parts.len() as f64;
        }
        // torchvision's mean over 20,000 draws for this size: 0.4565
        assert!((0.44..0.475).contains(&mean), "{mean}");
    }

    #[test]
    fn a_thin_picture_gives_its_middle() {
        let crop = RandomResizedCrop { scale: [1.0, 1.0], ..RandomResizedCrop::new(Size::One(4)) };
        let tall = parts(&pattern(10, 100, 1), &crop, 3);
        assert!(tall.iter().all(|part| *part == Rect { x: 0, y: 43, width: 10, height: 13 }), "{tall:?}");
        let wide = parts(&pattern(100, 9, 1), &crop, 3);
        assert!(wide.iter().all(|part| *part == Rect { x: 44, y: 0, width: 12, height: 9 }), "{wide:?}");
    }

    /// `crop((1, 1, 7, 5)).resize((4, 4), BILINEAR)` of PIL: nothing outside the part has a say.
    #[test]
    fn one_pass_is_crop_then_resize() {
        let picture = pattern(8, 6, 1);
        let mut scratch = Scratch::default();
        let mut canvas = Canvas::new(&picture, &mut scratch).unwrap();
        canvas.crop(Rect { x: 1, y: 1, width: 6, height: 4 });
        canvas.resize(4, 4).unwrap();
        let expected = [152, 185, 49, 83, 156, 68, 141, 213, 97, 178, 177, 87, 197, 118, 126, 218];
        let (_, _, got) = seen(&canvas);
        assert!(got.iter().zip(expected).all(|(a, b): (&u8, u8)| a.abs_diff(b) <= 1), "{got:?}");
    }
}
