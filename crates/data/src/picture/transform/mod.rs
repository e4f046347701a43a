//! What can be done to a picture, one file each. Formulas, random choices and defaults are torchvision's.
//!
//! In a file: `{ name = "random-resized-crop", size = 224 }`. A transform is a line in the registry below and a struct
//! with `impl Step`.

mod affine;
mod centre_crop;
mod colour_jitter;
mod grey;
mod horizontal_flip;
mod random_crop;
mod random_erasing;
mod random_resized_crop;
mod resize;
mod rotation;
mod vertical_flip;
mod warp;

use serde::{Deserialize, Serialize};

use super::canvas::{Canvas, Rect};
use crate::rng::{SplitMix64, mix};

/// The registry: the enum, the names and the dispatch all derive from it.
macro_rules! registry {
    ($($(#[$attribute:meta])* $module:ident::$transform:ident,)*) => {
        $(pub use $module::$transform;)*

        /// One step from the decoded picture to the values of a slot.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "name", rename_all = "kebab-case")]
        pub enum Transform {
            $($(#[$attribute])* $transform($transform),)*
        }

        impl Transform {
            /// As in a settings file.
            pub fn name(&self) -> String {
                match self {
                    $(Transform::$transform(_) => stringify!($module).replace('_', "-"),)*
                }
            }

            fn step(&self) -> &dyn Step {
                match self {
                    $(Transform::$transform(step) => step,)*
                }
            }
        }
    };
}

registry! {
    resize::Resize,
    #[serde(alias = "center-crop")]
    centre_crop::CentreCrop,
    random_crop::RandomCrop,
    random_resized_crop::RandomResizedCrop,
    horizontal_flip::HorizontalFlip,
    vertical_flip::VerticalFlip,
    rotation::Rotation,
    affine::Affine,
    #[serde(alias = "color-jitter")]
    colour_jitter::ColourJitter,
    random_erasing::RandomErasing,
    #[serde(alias = "gray")]
    grey::Grey,
}

pub use warp::Interpolation;

/// What is known about a picture before it is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Height and width, where all pictures share them.
    pub size: Option<(usize, usize)>,
    /// 1 or 3.
    pub channels: usize,
}

/// What each transform does.
pub(crate) trait Step {
    /// Settings that make sense, or why not.
    fn check(&self) -> Result<(), String>;

    /// Where the settings change nothing: which of them would.
    fn idle(&self) -> Option<&'static str> {
        None
    }

    /// Whether the settings say how large the result is.
    fn sets_size(&self) -> bool {
        false
    }

    /// What comes out of such a picture.
    fn shape(&self, before: Shape) -> Shape {
        before
    }

    fn apply(&self, canvas: &mut Canvas<'_>, random: &mut Random) -> Result<(), String>;
}

impl Transform {
    pub(crate) fn check(&self) -> Result<(), String> {
        self.step().check()
    }

    /// Where the settings change nothing: which of them would.
    pub fn idle(&self) -> Option<&'static str> {
        self.step().idle()
    }

    /// Whether the settings say how large the result is.
    pub fn sets_size(&self) -> bool {
        self.step().sets_size()
    }

    pub(crate) fn shape(&self, before: Shape) -> Shape {
        self.step().shape(before)
    }

    pub(crate) fn apply(&self, canvas: &mut Canvas<'_>, random: &mut Random) -> Result<(), String> {
        self.step().apply(canvas, random)
    }
}

/// The choices of one transform for one row of one epoch: a counter hashed, so that no transform disturbs another's.
pub(crate) struct Random(SplitMix64);

impl Random {
    /// `key` is that of the row, `step` the transform's place.
    pub fn new(key: u64, step: usize) -> Random {
        Random(SplitMix64::new(mix(key ^ mix(0x7069_6374 + step as u64))))
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// In [low, high).
    pub fn between(&mut self, [low, high]: [f32; 2]) -> f64 {
        low as f64 + (high as f64 - low as f64) * self.unit()
    }

    /// In `0..bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u32) as usize
    }

    pub fn chance(&mut self, probability: f32) -> bool {
        self.unit() < probability as f64
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        self.0.shuffle(items);
    }
}

/// `224`, or `[height, width]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Size {
    One(usize),
    Both([usize; 2]),
}

impl Size {
    /// As height and width; one number is a square.
    pub fn pair(self) -> (usize, usize) {
        match self {
            Size::One(side) => (side, side),
            Size::Both([height, width]) => (height, width),
        }
    }

    fn check(self) -> Result<(), String> {
        let (height, width) = self.pair();
        match (1..=MOST_SIDE).contains(&height) && (1..=MOST_SIDE).contains(&width) {
            true => Ok(()),
            false => Err(format!("a size of {height}×{width}; sides go from 1 to {MOST_SIDE}")),
        }
    }
}

const MOST_SIDE: usize = 16_384;

/// What several transforms ask of their settings.
fn check_probability(probability: f32) -> Result<(), String> {
    match (0.0..=1.0).contains(&probability) {
        true => Ok(()),
        false => Err(format!("probability {probability} is not in 0..1")),
    }
}

fn check_range(what: &str, [low, high]: [f32; 2], least: f32, most: f32) -> Result<(), String> {
    match least <= low && low <= high && high <= most {
        true => Ok(()),
        false => Err(format!("{what} [{low}, {high}]: it rises, from {least} at least to {most} at most")),
    }
}

/// torchvision's ten tries at a part with an area and a proportion in the given ranges, as (width, height).
fn ten_tries(
    random: &mut Random,
    area: f64,
    scale: [f32; 2],
    ratio: [f32; 2],
    fits: impl Fn(usize, usize) -> bool,
) -> Option<(usize, usize)> {
    let logarithms = ratio.map(f32::ln);
    (0..10).find_map(|_| {
        let area = area * random.between(scale);
        let proportion = random.between(logarithms).exp();
        let width = (area * proportion).sqrt().round_ties_even() as usize;
        let height = (area / proportion).sqrt().round_ties_even() as usize;
        fits(width, height).then_some((width, height))
    })
}

/// A part of this size at a random place.
fn random_place(random: &mut Random, canvas: &Canvas<'_>, width: usize, height: usize) -> Rect {
    let y = random.below(canvas.height() - height + 1);
    let x = random.below(canvas.width() - width + 1);
    Rect { x, y, width, height }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::canvas::Scratch;
    use super::super::decode::Picture;
    use super::*;

    /// `(37x + 91y + 50k + 7xy) mod 256`: what the PIL values in these tests were made of.
    pub fn pattern(width: usize, height: usize, channels: usize) -> Picture {
        let mut pixels = Vec::new();
        for y in 0..height {
            for x in 0..width {
                pixels.extend((0..channels).map(|k| (x * 37 + y * 91 + k * 50 + x * y * 7) as u8));
            }
        }
        Picture { width, height, channels, pixels }
    }

    /// The picture a transform makes, interleaved, and its width and height.
    pub fn run(transform: Transform, picture: &Picture, key: u64) -> (usize, usize, Vec<u8>) {
        transform.check().unwrap();
        let mut scratch = Scratch::default();
        let mut canvas = Canvas::new(picture, &mut scratch).unwrap();
        transform.apply(&mut canvas, &mut Random::new(key, 0)).unwrap();
        seen(&canvas)
    }

    pub fn seen(canvas: &Canvas<'_>) -> (usize, usize, Vec<u8>) {
        let (width, height) = (canvas.width(), canvas.height());
        let planes = if canvas.channels() == 1 { 1 } else { 3 };
        let mut out = vec![0; planes * width * height];
        canvas.write_u8(&mut out);
        let interleaved = (0..width * height).flat_map(|i| (0..planes).map(move |c| (i, c)));
        (width, height, interleaved.map(|(i, c)| out[c * width * height + i]).collect())
    }

    #[test]
    fn names_read_well_and_slips_are_refused() {
        #[derive(Deserialize, Serialize, Debug)]
        struct File {
            transforms: Vec<Transform>,
        }
        let read = |text: &str| serde_json::from_str::<File>(text).map_err(|error| error.to_string());
        let file = read(
            r#"{"transforms": [{"name": "resize", "size": 256}, {"name": "center-crop", "size": [224, 200]},
                {"name": "horizontal-flip"}, {"name": "rotation", "degrees": 10}]}"#,
        )
        .unwrap();
        assert_eq!(file.transforms[1], Transform::CentreCrop(CentreCrop { size: Size::Both([224, 200]) }));
        let again = read(&serde_json::to_string(&file).unwrap()).unwrap();
        assert_eq!(again.transforms, file.transforms);
        assert!(read(r#"{"transforms": [{"name": "resize", "sise": 256}]}"#).is_err());
        assert!(read(r#"{"transforms": [{"name": "sharpen"}]}"#).unwrap_err().contains("random-resized-crop"));
    }

    #[test]
    fn choices_depend_on_key_and_place_alone() {
        let draw = |key, step| Random::new(key, step).unit();
        assert_eq!(draw(5, 1), draw(5, 1));
        assert_ne!(draw(5, 1), draw(5, 2));
        assert_ne!(draw(5, 1), draw(6, 1));
    }
}
