//! What changes pictures of one size that are kept as bytes: inside the step where it can, else on the way through a loader.

use std::sync::Arc;

use citius_data::picture::transform::{Resize, Size};
use citius_data::picture::{Channels, Grid, Layout, Mixed, Output, PictureSource, Pipeline, Transform};
use citius_data::{Features, Source, Target};
use citius_nn::{RowShape, Vary};

use super::Problem;
use crate::config::TrackedWishes;
use crate::material::{Feed, Loaded};
use crate::{Choice, Material, TrainError};

/// The same as the step does it to pictures of this size; `None` where it cannot.
pub(crate) fn in_step(transforms: &[Transform], row: RowShape) -> Option<Vec<Vary>> {
    let RowShape::Picture { height, width, .. } = row else { return transforms.is_empty().then(Vec::new) };
    let pair = |[low, high]: [f32; 2]| [low as f64, high as f64];
    let one = |transform: &Transform| match transform {
        Transform::RandomCrop(crop) => match crop.size.is_none_or(|size| size.pair() == (height, width)) {
            true => Some(Vary::Shift { pixels: crop.padding }),
            false => None,
        },
        Transform::HorizontalFlip(flip) => Some(Vary::MirrorX { probability: flip.probability as f64 }),
        Transform::VerticalFlip(flip) => Some(Vary::MirrorY { probability: flip.probability as f64 }),
        Transform::RandomErasing(erase) => Some(Vary::Erase {
            probability: erase.probability as f64,
            scale: pair(erase.scale),
            ratio: pair(erase.ratio),
            value: erase.value as f64,
        }),
        Transform::Resize(_)
        | Transform::CentreCrop(_)
        | Transform::RandomResizedCrop(_)
        | Transform::Rotation(_)
        | Transform::Affine(_)
        | Transform::ColourJitter(_)
        | Transform::Grey(_) => None,
    };
    transforms.iter().map(one).collect()
}

/// Transforms in the order in which they act. Those that say how large their result is see the picture as it was decoded; the others see
/// it at the size of the network's input, and a random erasing comes last.
pub(super) fn in_order(asked: &[Transform], [height, width]: [usize; 2]) -> Vec<Transform> {
    let resize = Transform::Resize(Resize { size: Size::Both([height, width]) });
    let erases = |transform: &Transform| matches!(transform, Transform::RandomErasing(_));
    let (last, others): (Vec<_>, Vec<_>) = asked.iter().cloned().partition(erases);
    let (decoded, input) = others.split_at(others.iter().rposition(Transform::sets_size).map_or(0, |at| at + 1));
    [decoded, &[resize], input, &last].concat()
}

/// Refuses a transform whose settings change nothing.
pub(super) fn refuse_idle(asked: &[Transform]) -> Result<(), TrainError> {
    let Some((transform, wants)) = asked.iter().find_map(|transform| Some((transform, transform.idle()?))) else {
        return Ok(());
    };
    let name = transform.name();
    Err(TrainError::Setting(format!(
        "augment: {name} changes nothing unless it is given {wants}; in a settings file: augment = [{{ name = \"{name}\", … }}]"
    )))
}

impl Problem {
    /// Training pictures in memory, brought by a loader where the step cannot vary them as wished.
    pub(super) fn varied(mut self, wishes: &TrackedWishes<'_>) -> Result<Problem, TrainError> {
        let asked = wishes.augment.clone().unwrap_or_default();
        let row = self.input.row_shape();
        let RowShape::Picture { channels, height, width } = row else { return Ok(self) };
        refuse_idle(&asked)?;
        let pipeline = Pipeline {
            channels: if channels == 1 { Channels::Grey } else { Channels::Rgb },
            transforms: in_order(&asked, [height, width]),
            output: Output::U8,
        };
        let shape = pipeline.shape(Some((height, width, channels)));
        if let Some(problem) = shape.map_or_else(Some, |shape| {
            (shape != [channels, height, width]).then(|| format!("pictures lose channels: {shape:?}"))
        }) {
            return Err(TrainError::Setting(format!("augment: {problem}")));
        }
        if wishes.mix.is_none() && in_step(&asked, row).is_some() {
            return Ok(self);
        }
        let labels = self.input.labels().to_vec();
        let size = [height, width, channels];
        let names: Vec<String> = asked.iter().map(Transform::name).chain(wishes.mix.map(|m| m.name())).collect();
        let Material::Resident(data) = &mut self.train else {
            return Err(TrainError::Setting(format!(
                "augment: {} wants the pictures in memory, and {} is larger than the memory for data; give it more --memory, or \
                 use flips, random-crop and random-erasing alone",
                names.join(", "),
                self.name
            )));
        };
        let (Features::U8 { data: pixels, scale, shift, .. }, Target::Classes { data: classes, .. }) =
            (&mut data.features, &mut data.target)
        else {
            return Ok(self);
        };
        let bytes = (*scale, *shift);
        let (pixels, classes) = (std::mem::take(pixels), std::mem::take(classes));
        let grid = Grid::new(&self.name, size, Layout::Chw, pixels, classes, labels)?;
        let std = 1.0 / (255.0 * bytes.0);
        let output = match *wishes.mix {
            None => Output::U8,
            // a share of a byte is no byte
            Some(_) => Output::F32 { mean: vec![-bytes.1 * std], std: vec![std] },
        };
        let on_error = wishes.on_error.unwrap_or_default();
        let source = PictureSource::new(Box::new(grid), Pipeline { output, ..pipeline }, on_error)?;
        let source: Arc<dyn Source> = match *wishes.mix {
            None => Arc::new(source),
            Some(mix) => Arc::new(Mixed::new(Box::new(source), mix)?),
        };
        self.train = Material::Loaded(Loaded::new(Feed::Source(source), bytes, super::loading(wishes))?);
        self.choices.push(Choice::new("augment", names.join(", "), "anew in every epoch, by a loader"));
        Ok(self)
    }
}
