//! Folders and lists of pictures: decoded, brought to one size, and varied where that was asked for.

use std::path::Path;
use std::sync::Arc;

use citius_data::SplitOptions;
use citius_data::picture::transform::{Resize, Size};
use citius_data::picture::{Channels, Output, PictureSource, Pipeline, Transform};

use super::data_memory::DataMemory;
use super::given::divide;
use super::rows::{Parts, RowsFrom, RowsInput, open_pictures};
use super::variation::{in_order, refuse_idle};
use super::{Problem, expect_classes, plural, stem};
use crate::config::TrackedWishes;
use crate::material::LoadingOptions;
use crate::{Choice, TrainError};

/// Sides of the square that pictures become when nobody says otherwise.
const SIDE: usize = 32;
/// Pictures whose mean and deviation stand for all.
const MEASURED: usize = 200;

impl Problem {
    /// A folder per class, or a list of paths with labels.
    pub(super) fn pictures(path: &Path, wishes: &TrackedWishes<'_>) -> Result<Problem, TrainError> {
        let pictures = open_pictures(path)?;
        let (name, labels, notes) = (pictures.name().to_owned(), pictures.labels().to_vec(), pictures.notes());
        expect_classes(&name, "class", &labels, "add pictures of another class, a folder for each")?;
        let classes: Vec<u32> = (0..pictures.len()).map(|i| pictures.label(i) as u32).collect();
        let usual = SplitOptions { validation: 0.1, test: 0.1, seed: 0 };
        let (splits, why_rows) = divide(classes.len() as u32, Some(&classes), usual, wishes)?;

        let side = wishes.size.unwrap_or(SIDE);
        let resize = || Transform::Resize(Resize { size: Size::Both([side, side]) });
        let channels = Channels::Rgb;
        let plain = Pipeline { channels, transforms: vec![resize()], output: Output::U8 };
        let on_error = wishes.on_error.unwrap_or_default();
        let measured = PictureSource::new(pictures, plain.clone(), on_error)?;
        let (mean, std) = mean_and_deviation(&measured, &splits.train)?;
        let bytes = (1.0 / (255.0 * std), -mean / std);

        let mut choices = vec![
            Choice::new(
                "data",
                format!("{name}: {} of {}", plural(classes.len(), "picture"), plural(labels.len(), "class")),
                "",
            ),
            Choice::new("task", format!("{} classes", labels.len()), ""),
            Choice::new(
                "inputs",
                format!("3×{side}×{side} pixels, as (pixel − {mean:.4}) / {std:.4}"),
                if wishes.size.is_some() { "as told" } else { "small, for a network of plain layers; see --size" },
            ),
        ];
        choices.extend(notes.into_iter().map(|note| Choice::new("note", note, "")));
        let judged: Arc<PictureSource> = Arc::new(measured);
        let asked = wishes.augment.clone().unwrap_or_default();
        let (train, constant) = match (&asked[..], *wishes.mix) {
            ([], None) => (judged.clone(), true),
            (transforms, mix) => {
                refuse_idle(transforms)?;
                let transforms = in_order(transforms, [side, side]);
                // a share of a byte is no byte
                let output = match mix {
                    None => Output::U8,
                    Some(_) => Output::F32 { mean: vec![mean], std: vec![std] },
                };
                let pipeline = Pipeline { channels, transforms, output };
                let names: Vec<String> = asked.iter().map(Transform::name).chain(mix.map(|m| m.name())).collect();
                choices.push(Choice::new("augment", names.join(", "), "anew in every epoch"));
                (Arc::new(PictureSource::new(open_pictures(path)?, pipeline, on_error)?), false)
            }
        };
        let input = RowsInput {
            from: RowsFrom::Pictures { pipeline: plain },
            schema: citius_data::Source::schema(judged.as_ref()).clone(),
            bytes,
            target_scale: (0.0, 1.0),
        };
        let parts = Parts {
            name,
            stem: stem(path),
            input,
            train,
            judged: judged.clone(),
            constant,
            mix: *wishes.mix,
            splits,
            why_rows,
            choices,
        };
        let loading = LoadingOptions { on_error, ..super::loading(wishes) };
        let mut problem = Problem::of_parts(parts, loading, DataMemory::of(wishes).bytes)?;
        let skipped = judged.skipped();
        if let Some((path, why)) = skipped.first() {
            let told = format!("{} pictures cannot be read, such as {path}: {why}", skipped.len());
            problem.choices.push(Choice::new("skipped", told, "--on-error skip"));
        }
        Ok(problem)
    }
}

/// Of `byte / 255` over some of the training pictures.
fn mean_and_deviation(source: &PictureSource, rows: &[u32]) -> Result<(f32, f32), TrainError> {
    let every = rows.len().div_ceil(MEASURED).max(1);
    let some: Vec<u32> = rows.iter().copied().step_by(every).collect();
    let data = super::rows::dataset_of(source, &some, (1.0, 0.0))?;
    let citius_data::Features::U8 { data, width, .. } = data.features else { return Ok((0.0, 1.0)) };
    let images = citius_data::Images { count: some.len(), height: 1, width, pixels: data };
    Ok(citius_data::pixel_mean_std(&images))
}
