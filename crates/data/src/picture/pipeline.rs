//! A picture through its transforms into the values of a slot.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

use super::canvas::{Canvas, Scratch};
use super::decode::{Channels, Picture};
use super::transform::{Random, Shape, Transform};
use crate::schema::Kind;
use crate::slot::FieldMut;

/// Of `byte / 255` over ImageNet's training pictures.
pub const IMAGENET_MEAN: [f32; 3] = [0.485, 0.456, 0.406];
pub const IMAGENET_STD: [f32; 3] = [0.229, 0.224, 0.225];

/// What is done to every picture.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pipeline {
    pub channels: Channels,
    pub transforms: Vec<Transform>,
    pub output: Output,
}

/// The values written, always `[channels, height, width]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Output {
    /// Bytes as they are.
    U8,
    /// `(byte / 255 - mean) / std`, per channel or one for all; nothing given is 0 and 1.
    F32 {
        #[serde(default)]
        mean: Vec<f32>,
        #[serde(default)]
        std: Vec<f32>,
    },
}

impl Default for Output {
    fn default() -> Self {
        Output::F32 { mean: Vec::new(), std: Vec::new() }
    }
}

impl Output {
    /// Normalised as models trained on ImageNet expect it.
    pub fn imagenet() -> Output {
        Output::F32 { mean: IMAGENET_MEAN.to_vec(), std: IMAGENET_STD.to_vec() }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Output::U8 => Kind::U8,
            Output::F32 { .. } => Kind::F32,
        }
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Pipeline {
    /// `[channels, height, width]` of what it makes of pictures; `uniform` is the height, width and channels that all
    /// of them share, where they do. An error says what is wrong with the settings.
    pub fn shape(&self, uniform: Option<(usize, usize, usize)>) -> Result<[usize; 3], String> {
        let channels = match (self.channels, uniform) {
            (Channels::Grey, _) => 1,
            (Channels::Rgb | Channels::Rgbx, _) => 3,
            (Channels::AsIs, Some((_, _, channels))) => channels,
            (Channels::AsIs, None) => {
                return Err("some pictures may be grey and some not: ask for channels grey or rgb".into());
            }
        };
        let mut shape = Shape { size: uniform.map(|(height, width, _)| (height, width)), channels };
        let mut erasing = false;
        for transform in &self.transforms {
            transform.check().map_err(|problem| format!("{}: {problem}", transform.name()))?;
            let erases = matches!(transform, Transform::RandomErasing(_));
            if erasing && !erases {
                return Err(format!("{}: nothing comes after random-erasing; put it last", transform.name()));
            }
            erasing |= erases;
            shape = transform.shape(shape);
        }
        let Some((height, width)) = shape.size else {
            return Err(
                "pictures of different sizes make no batch: end with a resize to [height, width] or a crop".into()
            );
        };
        self.check_output(shape.channels)?;
        Ok([shape.channels, height, width])
    }

    fn check_output(&self, channels: usize) -> Result<(), String> {
        let Output::F32 { mean, std } = &self.output else { return Ok(()) };
        for (what, values) in [("mean", mean), ("std", std)] {
            if ![0, 1, channels].contains(&values.len()) {
                return Err(format!("{} values of {what} for {channels} channels", values.len()));
            }
        }
        match mean.iter().all(|v| v.is_finite()) && std.iter().all(|v| v.is_finite() && *v > 0.0) {
            true => Ok(()),
            false => Err(format!("pixels cannot be scaled with mean {mean:?} and std {std:?}")),
        }
    }

    /// What to decode for it.
    pub fn wants(&self) -> Channels {
        match self.channels {
            Channels::Rgb => Channels::Rgbx,
            other => other,
        }
    }

    /// Transforms a picture and writes it. All that is random depends on `key` alone.
    pub fn apply(&self, picture: &Picture, key: u64, into: FieldMut<'_>) -> Result<(), String> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut canvas = Canvas::new(picture, scratch)?;
            for (i, transform) in self.transforms.iter().enumerate() {
                transform.apply(&mut canvas, &mut Random::new(key, i))?;
            }
            self.write(&canvas, into)
        })
    }

    fn write(&self, canvas: &Canvas<'_>, into: FieldMut<'_>) -> Result<(), String> {
        let channels = canvas.channels().min(3);
        let values = channels * canvas.width() * canvas.height();
        let room = into.bytes().len() / into.kind().bytes();
        if room != values {
            return Err(format!(
                "it became {channels}×{}×{}, which does not fit {room} values",
                canvas.height(),
                canvas.width()
            ));
        }
        match (&self.output, into) {
            (Output::U8, FieldMut::U8(out)) => canvas.write_u8(out),
            (Output::F32 { mean, std }, FieldMut::F32(out)) => {
                let value = |of: &[f32], c: usize, usual: f32| match of.len() {
                    0 => usual,
                    n => of[c % n],
                };
                let std: [f32; 3] = std::array::from_fn(|c| value(std, c, 1.0));
                let shift: [f32; 3] = std::array::from_fn(|c| -value(mean, c, 0.0) / std[c]);
                canvas.write_f32(&std.map(|std| 1.0 / (255.0 * std)), &shift, out);
            }
            _ => return Err("a buffer of another kind".into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::transform::tests::pattern;
    use super::super::transform::{
        CentreCrop, ColourJitter, Grey, HorizontalFlip, RandomCrop, RandomErasing, Resize, Rotation, Size,
    };
    use super::*;

    fn flip() -> Transform {
        Transform::HorizontalFlip(HorizontalFlip { probability: 1.0 })
    }

    #[test]
    fn flipped_and_normalised_in_the_last_write() {
        for channels in [3, 4] {
            let picture = pattern(3, 2, channels);
            let output = Output::F32 { mean: vec![0.5, 0.25, 0.0], std: vec![0.5, 1.0, 2.0] };
            let pipeline = Pipeline { transforms: vec![flip()], output, ..Pipeline::default() };
            assert_eq!(pipeline.shape(Some((2, 3, 3))).unwrap(), [3, 2, 3]);
            let mut out = [0f32; 18];
            pipeline.apply(&picture, 1, FieldMut::F32(&mut out)).unwrap();
            let (mean, std) = ([0.5, 0.25, 0.0], [0.5, 1.0, 2.0]);
            for c in 0..3 {
                for y in 0..2 {
                    for x in 0..3 {
                        let byte = picture.pixels[(y * 3 + 2 - x) * channels + c] as f32;
                        let expected = (byte / 255.0 - mean[c]) / std[c];
                        assert!((out[c * 6 + y * 3 + x] - expected).abs() < 1e-6);
                    }
                }
            }
        }
    }

    #[test]
    fn erased_values_are_those_of_the_output() {
        let erase = RandomErasing { probability: 1.0, value: -9.0, ..RandomErasing::default() };
        let pipeline = Pipeline { transforms: vec![flip(), Transform::RandomErasing(erase)], ..Pipeline::default() };
        let mut out = vec![0f32; 3 * 400];
        pipeline.apply(&pattern(20, 20, 3), 1, FieldMut::F32(&mut out)).unwrap();
        let erased = out.iter().filter(|v| **v == -9.0).count();
        assert!(erased > 0 && erased % 3 == 0, "{erased}");
    }

    /// Steps that note, steps that write, and flips between them, against the same done by hand.
    #[test]
    fn waiting_crops_and_flips_meet_steps_that_write() {
        let picture = pattern(6, 4, 3);
        let transforms = vec![
            flip(),
            Transform::CentreCrop(CentreCrop { size: Size::Both([2, 4]) }),
            Transform::ColourJitter(ColourJitter { brightness: 0.3, ..ColourJitter::default() }),
            flip(),
            Transform::Rotation(Rotation { degrees: 0.0, interpolation: Default::default() }),
            Transform::RandomCrop(RandomCrop { size: Some(Size::Both([2, 4])), padding: 0, pad_if_needed: false }),
            Transform::Grey(Grey { channels: 1, probability: 1.0 }),
        ];
        let jitter_only = vec![Transform::Grey(Grey { channels: 3, probability: 0.0 }); 2];
        let jitter_only = [jitter_only, vec![transforms[2].clone(), Transform::Grey(Grey::default())]].concat();
        let run = |transforms: Vec<Transform>, picture: &Picture| {
            let pipeline = Pipeline { transforms, output: Output::U8, ..Pipeline::default() };
            let [c, h, w] = pipeline.shape(Some((picture.height, picture.width, 3))).unwrap();
            let mut out = vec![0; c * h * w];
            pipeline.apply(picture, 7, FieldMut::U8(&mut out)).unwrap();
            out
        };
        // flipped twice: the middle of the picture, brightened by the third step's choice, grey
        let middle: Vec<u8> = (1..3).flat_map(|y| picture.pixels[(y * 6 + 1) * 3..(y * 6 + 5) * 3].to_vec()).collect();
        let middle = Picture { width: 4, height: 2, channels: 3, pixels: middle };
        assert_eq!(run(transforms, &picture), run(jitter_only, &middle));
    }

    #[test]
    fn impossible_settings_are_explained() {
        let shape = |transforms: Vec<Transform>| Pipeline { transforms, ..Pipeline::default() }.shape(None);
        assert!(shape(vec![]).unwrap_err().contains("different sizes"));
        let shorter = Transform::Resize(Resize { size: Size::One(9) });
        assert!(shape(vec![shorter.clone()]).is_err());
        let crop = Transform::CentreCrop(CentreCrop { size: Size::One(8) });
        assert_eq!(shape(vec![shorter, crop.clone()]).unwrap(), [3, 8, 8]);
        let erase = Transform::RandomErasing(RandomErasing::default());
        assert!(shape(vec![erase, crop.clone()]).unwrap_err().contains("last"));
        let nothing = Transform::CentreCrop(CentreCrop { size: Size::One(0) });
        assert!(shape(vec![nothing]).unwrap_err().contains("centre-crop: "));
        for output in [
            Output::F32 { mean: vec![0.0; 2], std: vec![] },
            Output::F32 { mean: vec![], std: vec![0.0] },
            Output::F32 { mean: vec![f32::NAN], std: vec![] },
        ] {
            assert!(Pipeline { transforms: vec![crop.clone()], output, ..Pipeline::default() }.shape(None).is_err());
        }
        let as_is = Pipeline { channels: Channels::AsIs, transforms: vec![crop], ..Pipeline::default() };
        assert!(as_is.shape(None).is_err());
        assert_eq!(as_is.shape(Some((9, 9, 1))).unwrap(), [1, 8, 8]);
    }
}
