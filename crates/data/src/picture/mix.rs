//! MixUp and CutMix: each row with a share of another, and labels shared alike.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

use super::transform::Random;
use crate::error::DataError;
use crate::schema::{Field, INPUT, Kind, Schema, TARGET};
use crate::slot::FieldMut;
use crate::source::{Rows, Source};

/// How two rows become one; the share λ of the first is drawn from Beta(alpha, alpha).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
pub enum Mix {
    /// `λ x + (1 - λ) x'`
    MixUp { alpha: f32 },
    /// A rectangle of `x'` in `x`; λ is the area left.
    CutMix { alpha: f32 },
}

impl Mix {
    pub fn name(self) -> String {
        match self {
            Mix::MixUp { alpha } => format!("mixup {alpha}"),
            Mix::CutMix { alpha } => format!("cutmix {alpha}"),
        }
    }
}

/// A source whose rows are mixed with partners; partner and λ depend on (seed, epoch, row) alone.
///
/// `y` becomes f32\[classes\]: λ at the row's class, 1 - λ at the partner's. Every row costs two of the source below.
pub struct Mixed {
    source: Box<dyn Source>,
    mix: Mix,
    schema: Schema,
    /// Planes, height and width of `x`.
    shape: [usize; 3],
    classes: usize,
}

impl Mixed {
    /// The source gives `x` as f32 (`[channels, height, width]` for CutMix) and `y` as classes.
    pub fn new(source: Box<dyn Source>, mix: Mix) -> Result<Mixed, DataError> {
        let problem = |problem: String| DataError::Pipeline { name: source.name().to_owned(), problem };
        let (Mix::MixUp { alpha } | Mix::CutMix { alpha }) = mix;
        if !(0.01..=1000.0).contains(&alpha) {
            return Err(problem(format!("alpha {alpha} is not in 0.01..1000")));
        }
        let [x, y] = &source.schema().fields[..] else {
            return Err(problem(format!("rows of two fields are mixed, these have {}", source.schema())));
        };
        if x.kind != Kind::F32 || y.kind != Kind::I32 || y.labels.is_empty() || !y.shape.is_empty() {
            return Err(problem(format!("f32 values with a class are mixed, these are {}", source.schema())));
        }
        let shape = match (&x.shape[..], mix) {
            ([c, h, w], _) => [*c, *h, *w],
            (_, Mix::MixUp { .. }) => [1, 1, x.width()],
            (_, Mix::CutMix { .. }) => {
                return Err(problem(format!("CutMix needs [channels, height, width], not {:?}", x.shape)));
            }
        };
        let classes = y.labels.len();
        let mut target = Field::new(TARGET, Kind::F32, &[classes]);
        target.labels = y.labels.clone();
        let schema = Schema::new(vec![Field::new(INPUT, Kind::F32, &x.shape), target])?;
        Ok(Mixed { source, mix, schema, shape, classes })
    }

    /// Mixes `other` into `x`; the answer is the share of `x` that is left.
    fn mix_into(&self, x: &mut [f32], other: &[f32], random: &mut Random) -> f32 {
        match self.mix {
            Mix::MixUp { alpha } => {
                let share = beta(random, alpha);
                for (x, other) in x.iter_mut().zip(other) {
                    *x = share * *x + (1.0 - share) * *other;
                }
                share
            }
            Mix::CutMix { alpha } => {
                let [_, height, width] = self.shape;
                let half = 0.5 * (1.0 - beta(random, alpha)).sqrt();
                let mut span = |size: usize| {
                    let (centre, half) = (random.below(size.max(1)), (half * size as f32) as usize);
                    (centre.saturating_sub(half), (centre + half).min(size))
                };
                let ((x0, x1), (y0, y1)) = (span(width), span(height));
                let plane = (height * width).max(1);
                for (x, other) in x.chunks_exact_mut(plane).zip(other.chunks_exact(plane)) {
                    for y in y0..y1 {
                        x[y * width + x0..y * width + x1].copy_from_slice(&other[y * width + x0..y * width + x1]);
                    }
                }
                1.0 - ((x1 - x0) * (y1 - y0)) as f32 / plane as f32
            }
        }
    }
}

thread_local! {
    /// The partner's values, and the classes of the rows.
    static MEMORY: RefCell<(Vec<f32>, Vec<i32>)> = RefCell::default();
}

/// No transform stands at this place.
const MIX_STEP: usize = usize::MAX >> 1;

impl Source for Mixed {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u32 {
        self.source.rows()
    }

    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        let misfit = || DataError::Inconsistent(format!("{}: buffers of another schema", self.name()));
        let [FieldMut::F32(x), FieldMut::F32(y)] = into else { return Err(misfit()) };
        let width: usize = self.shape.iter().product();
        let numbers = rows.numbers;
        if x.len() != numbers.len() * width || y.len() != numbers.len() * self.classes {
            return Err(misfit());
        }
        MEMORY.with_borrow_mut(|(other, classes)| {
            other.resize(width, 0.0);
            classes.resize(numbers.len(), 0);
            self.source.gather(rows, &mut [FieldMut::F32(x), FieldMut::I32(classes)])?;
            y.fill(0.0);
            for (at, row) in numbers.iter().enumerate() {
                let mut random = Random::new(rows.key(*row), MIX_STEP);
                let partner = random.below(self.rows() as usize) as u32;
                let mut class = [0];
                let one = Rows { numbers: &[partner], ..*rows };
                self.source.gather(&one, &mut [FieldMut::F32(other), FieldMut::I32(&mut class)])?;
                let share = self.mix_into(&mut x[at * width..(at + 1) * width], other, &mut random);
                let y = &mut y[at * self.classes..(at + 1) * self.classes];
                for (class, share) in [(classes[at], share), (class[0], 1.0 - share)] {
                    *y.get_mut(class as usize).ok_or_else(misfit)? += share;
                }
            }
            Ok(())
        })
    }
}

/// A share from Beta(a, a): of two Gamma(a) numbers, the first's part of their sum.
fn beta(random: &mut Random, alpha: f32) -> f32 {
    let (first, second) = (gamma(random, alpha as f64), gamma(random, alpha as f64));
    match first + second > 0.0 {
        true => (first / (first + second)) as f32,
        false => 0.5,
    }
}

/// Marsaglia and Tsang's method; below 1 through `Gamma(a) = Gamma(a + 1) · u^(1/a)`.
fn gamma(random: &mut Random, alpha: f64) -> f64 {
    if alpha < 1.0 {
        let boost = (1.0 - random.unit()).powf(1.0 / alpha);
        return gamma(random, alpha + 1.0) * boost;
    }
    let d = alpha - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let normal = (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos();
        let v = (1.0 + c * normal).powi(3);
        if v > 0.0 && (1.0 - random.unit()).ln() < 0.5 * normal * normal + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Grid, Layout, PictureSource, Pipeline};
    use super::*;
    use crate::loader::OnError;
    use crate::slot::{Heap, Slot};

    /// Four pictures of one grey each, 0, 51, 102, 153, with classes 0, 1, 2, 0.
    fn source() -> Box<dyn Source> {
        let pixels = [0, 51, 102, 153].iter().flat_map(|grey| [*grey; 64]).collect();
        let labels = ["a", "b", "c"].map(String::from).to_vec();
        let grid = Grid::new("g", [8, 8, 1], Layout::Hwc, pixels, vec![0, 1, 2, 0], labels).unwrap();
        let pipeline = Pipeline { channels: super::super::Channels::AsIs, ..Pipeline::default() };
        Box::new(PictureSource::new(Box::new(grid), pipeline, OnError::Fail).unwrap())
    }

    fn gather(mixed: &Mixed, numbers: &[u32], epoch: u64) -> (Vec<f32>, Vec<f32>) {
        let mut slot = Slot::new(mixed.schema(), numbers.len(), &Heap).unwrap();
        mixed.gather(&Rows { numbers, seed: 1, epoch }, &mut slot.rows_mut(0..numbers.len())).unwrap();
        let fields = slot.rows(0..numbers.len());
        (fields[0].f32().unwrap().to_vec(), fields[1].f32().unwrap().to_vec())
    }

    #[test]
    fn shares_of_values_are_shares_of_labels() {
        // the mean share of a row's own label: one partner in four is the row itself, and a rectangle is cut at the
        // edges (0.826 by simulation)
        for (mix, expected) in [(Mix::MixUp { alpha: 0.4 }, 0.625), (Mix::CutMix { alpha: 1.0 }, 0.826)] {
            let mixed = Mixed::new(source(), mix).unwrap();
            assert_eq!(mixed.schema().to_string(), "x f32[1, 8, 8], y f32[3] (3 classes)");
            let mut mean_share = 0.0;
            for epoch in 0..300 {
                let (x, y) = gather(&mixed, &[1], epoch);
                assert!((y.iter().sum::<f32>() - 1.0).abs() < 1e-6);
                // the mean over the picture is the mean of two greys, by their shares
                let mean = x.iter().sum::<f32>() / 64.0;
                let with = |other: f32| (mean - (y[1] * 0.2 + (1.0 - y[1]) * other)).abs() < 1e-4;
                assert!(with(0.0) || with(0.4) || with(0.6) || (y[1] == 1.0 && with(0.2)), "{mean} {y:?}");
                mean_share += y[1] / 300.0;
            }
            assert!((mean_share - expected).abs() < 0.06, "{mix:?}: {mean_share}");
        }
    }

    #[test]
    fn a_row_is_mixed_alike_in_any_batch() {
        let mixed = Mixed::new(source(), Mix::MixUp { alpha: 0.2 }).unwrap();
        let (x, y) = gather(&mixed, &[3, 2, 1, 0], 5);
        let (alone, label) = gather(&mixed, &[2], 5);
        assert_eq!((&x[64..128], &y[3..6]), (&alone[..], &label[..]));
        assert_ne!(gather(&mixed, &[2], 6).0, alone);
    }

    #[test]
    fn beta_has_its_moments() {
        for (alpha, variance) in [(0.2f32, 1.0 / (4.0 * 1.4)), (1.0, 1.0 / 12.0), (4.0, 1.0 / 36.0)] {
            let draws: Vec<f64> = (0..20_000).map(|key| beta(&mut Random::new(key, 0), alpha) as f64).collect();
            let mean = draws.iter().sum::<f64>() / 20_000.0;
            let spread = draws.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 20_000.0;
            assert!((mean - 0.5).abs() < 0.01, "{alpha}: mean {mean}");
            assert!((spread / variance - 1.0).abs() < 0.05, "{alpha}: variance {spread}, not {variance}");
        }
    }

    #[test]
    fn what_cannot_be_mixed_is_refused() {
        assert!(Mixed::new(source(), Mix::MixUp { alpha: 0.0 }).is_err());
        let twice = Mixed::new(source(), Mix::MixUp { alpha: 1.0 }).unwrap();
        assert!(Mixed::new(Box::new(twice), Mix::CutMix { alpha: 1.0 }).is_err());
    }
}
