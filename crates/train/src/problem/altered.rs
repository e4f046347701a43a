//! Data made worse on purpose: labels that are wrong, rows that are slow to come, pixels scaled otherwise. A way to see what a
//! training bears, and what a mistake looks like.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use citius_data::{DataError, Dataset, Features, FieldMut, InMemory, Rows, Scale, Schema, Source, SplitMix64, Target};

use super::{Input, Problem, refuse_other_preparation};
use crate::config::TrackedWishes;
use crate::material::{Feed, Loaded};
use crate::{Choice, Material, TrainError};

/// Keeps what is drawn here apart from what else follows from the seed.
const LABELS: u64 = 0x001A_BE15;
const IN_BLOCKS: &str =
    "needs rows that can be had in any order, these are read in blocks; leave it out, or give more --memory";

impl Problem {
    /// Wrong labels and slow rows, where they were asked for.
    pub(super) fn alter(&mut self, wishes: &TrackedWishes<'_>) -> Result<(), TrainError> {
        let noise = wishes.label_noise.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&noise) {
            let problem = format!("label-noise is {noise}, it must be a share of the rows, from 0 to 1, such as 0.3");
            return Err(TrainError::Setting(problem));
        }
        let delay = wishes.delay.unwrap_or(0.0);
        if !(0.0..=1e6).contains(&delay) {
            let problem = format!("delay is {delay}, it must be microseconds a row, from 0 to 1000000, such as 50");
            return Err(TrainError::Setting(problem));
        }
        let shuffled = *wishes.shuffle_labels == Some(true);
        if shuffled || noise > 0.0 {
            let share = if shuffled { 1.0 } else { noise };
            let seed = wishes.seed.unwrap_or(0) ^ LABELS;
            if let Some(data) = &mut self.validation {
                relabel(data, share, seed + 1);
            }
            self.train.alter(
                if shuffled { "--shuffle-labels" } else { "--label-noise" },
                |material| match material {
                    Material::Resident(mut data) => {
                        relabel(&mut data, share, seed);
                        Ok(Some(Material::Resident(data)))
                    }
                    Material::Loaded(Loaded { feed: Feed::Source(source), form, options }) => {
                        let of = others(source.rows() as usize, share, seed);
                        let feed = Feed::Source(Arc::new(Relabelled { source, of }));
                        Ok(Some(Material::Loaded(Loaded { feed, form, options })))
                    }
                    Material::Loaded(_) => Ok(None),
                },
            )?;
            let value = match shuffled {
                true => "shuffled apart from the rows".to_owned(),
                false => format!("{}% of the rows have the label of another", share * 100.0),
            };
            self.choices.push(Choice::new("labels", value, "as told; test rows keep theirs"));
        }
        if delay > 0.0 {
            let options = super::loading(wishes);
            let name = self.name.clone();
            let bytes = self.bytes();
            self.train.alter("--delay", |material| match material {
                Material::Resident(data) => {
                    let source = Arc::new(InMemory::new(&name, Arc::new(data))?);
                    let feed = Feed::Source(Arc::new(Slow::new(source, delay)));
                    Ok(Some(Material::Loaded(Loaded::new(feed, bytes, options)?)))
                }
                Material::Loaded(Loaded { feed: Feed::Source(source), form, options }) => {
                    let feed = Feed::Source(Arc::new(Slow::new(source, delay)));
                    Ok(Some(Material::Loaded(Loaded { feed, form, options })))
                }
                Material::Loaded(_) => Ok(None),
            })?;
            self.choices.push(Choice::new("delay", format!("{delay} µs of work to prepare a row"), "as told"));
        }
        if *wishes.pinned == Some(false) {
            let value = match &self.train {
                Material::Loaded(_) => "batches on their way to a GPU are not",
                Material::Resident(_) => "changes nothing: rows are held in memory, and brought to a GPU once",
            };
            self.choices.push(Choice::new("pinned", value, "as told"));
        }
        Ok(())
    }

    /// How bytes become numbers.
    fn bytes(&self) -> (f32, f32) {
        match &self.input {
            Input::Images { scale, shift, .. } => (*scale, *shift),
            Input::Rows(rows) => rows.bytes,
            Input::Table { .. } => (1.0, 0.0),
        }
    }

    /// Pixels scaled otherwise than by their mean and deviation; tables and series have seen to their columns themselves.
    pub(super) fn rescale(&mut self, wishes: &TrackedWishes<'_>) -> Result<(), TrainError> {
        let of_bytes = match &self.input {
            Input::Images { .. } => true,
            Input::Rows(rows) => rows.bytes != (1.0, 0.0),
            Input::Table { .. } => false,
        };
        if !of_bytes {
            return Ok(());
        }
        let told = wishes.prepare.clone().unwrap_or_default();
        refuse_other_preparation(&told, &["scale", "scale-times"], "pictures")?;
        if told.scale.is_none() && told.scale_times.is_none() {
            return Ok(());
        }
        let (scale, shift) = match told.scale.unwrap_or(Scale::Standard) {
            Scale::Standard => self.bytes(),
            Scale::MinMax => (1.0 / 255.0, 0.0),
            Scale::None => (1.0, 0.0),
            Scale::Robust => {
                let problem = "prepare.scale is robust, which is for columns; pixels know standard, min-max and none";
                return Err(TrainError::Setting(problem.to_owned()));
            }
        };
        let times = told.scale_times.unwrap_or(1);
        if !(1..=4).contains(&times) {
            let problem = format!("pixels cannot be scaled {times} times; leave scale-times out, or use 1 to 4");
            return Err(TrainError::Setting(problem));
        }
        // (b·s + t)·s + t, and so on
        let bytes = (1..times).fold((scale, shift), |(a, b), _| (a * scale, b * scale + shift));
        match &mut self.input {
            Input::Images { scale, shift, .. } => (*scale, *shift) = bytes,
            Input::Rows(rows) => rows.bytes = bytes,
            Input::Table { .. } => {}
        }
        let rescaled = |data: &mut Dataset| {
            if let Features::U8 { scale, shift, .. } = &mut data.features {
                (*scale, *shift) = bytes;
            }
        };
        match &mut self.train {
            Material::Resident(data) => rescaled(data),
            Material::Loaded(loaded) => *loaded = Loaded::new(loaded.feed.clone(), bytes, loaded.options.clone())?,
        }
        [&mut self.validation, &mut self.test].into_iter().flatten().for_each(rescaled);
        let value = format!("pixels · {} {:+}", bytes.0, bytes.1);
        self.choices.push(Choice::new("scale", value, "as told"));
        Ok(())
    }
}

impl Material {
    /// Itself, made of something else; `None` where that cannot be.
    fn alter(
        &mut self,
        what: &str,
        f: impl FnOnce(Material) -> Result<Option<Material>, TrainError>,
    ) -> Result<(), TrainError> {
        match f(std::mem::replace(self, empty()))? {
            Some(material) => *self = material,
            None => return Err(TrainError::Setting(format!("{what} {IN_BLOCKS}"))),
        }
        Ok(())
    }
}

fn empty() -> Material {
    let features = Features::F32 { data: Vec::new(), width: 0 };
    Material::Resident(Dataset { rows: 0, features, target: Target::Values { data: Vec::new(), width: 1 } })
}

/// For each row, whose label it gets: its own, or for a share of them that of a random other row of the same share.
fn others(rows: usize, share: f64, seed: u64) -> Vec<u32> {
    let mut random = SplitMix64::new(seed);
    let mut order: Vec<u32> = (0..rows as u32).collect();
    random.shuffle(&mut order);
    let wrong = &order[..(rows as f64 * share).round() as usize];
    let mut of: Vec<u32> = (0..rows as u32).collect();
    // each of them gets the label of the next: nobody keeps its own
    for (i, row) in wrong.iter().enumerate() {
        of[*row as usize] = wrong[(i + 1) % wrong.len()];
    }
    of
}

fn relabel(data: &mut Dataset, share: f64, seed: u64) {
    let of = others(data.rows, share, seed);
    match &mut data.target {
        Target::Classes { data, .. } => *data = of.iter().map(|row| data[*row as usize]).collect(),
        Target::Sequence { data, length, .. } => {
            *data = of.iter().flat_map(|row| &data[*row as usize * *length..][..*length]).copied().collect();
        }
        Target::Values { data, width } => {
            *data = of.iter().flat_map(|row| &data[*row as usize * *width..][..*width]).copied().collect();
        }
    }
}

/// Rows with the labels of others.
struct Relabelled {
    source: Arc<dyn Source>,
    /// Whose label a row gets.
    of: Vec<u32>,
}

impl Source for Relabelled {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn schema(&self) -> &Schema {
        self.source.schema()
    }

    fn rows(&self) -> u32 {
        self.source.rows()
    }

    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        self.source.gather(rows, into)?;
        let others: Vec<u32> = rows.numbers.iter().map(|row| self.of[*row as usize]).collect();
        let rows = Rows { numbers: &others, ..*rows };
        // x is gathered a second time, into a place of its own
        match into {
            [FieldMut::F32(x), y] => self.source.gather(&rows, &mut [FieldMut::F32(&mut x.to_vec()), again(y)]),
            [FieldMut::U8(x), y] => self.source.gather(&rows, &mut [FieldMut::U8(&mut x.to_vec()), again(y)]),
            [FieldMut::I32(x), y] => self.source.gather(&rows, &mut [FieldMut::I32(&mut x.to_vec()), again(y)]),
            _ => Ok(()),
        }
    }

    fn is_heavy(&self) -> bool {
        self.source.is_heavy()
    }
}

fn again<'a>(field: &'a mut FieldMut<'_>) -> FieldMut<'a> {
    match field {
        FieldMut::F32(data) => FieldMut::F32(data),
        FieldMut::U8(data) => FieldMut::U8(data),
        FieldMut::I32(data) => FieldMut::I32(data),
    }
}

/// Rows that take work to prepare: it keeps a core busy, as decoding would.
struct Slow {
    source: Arc<dyn Source>,
    rounds: u64,
}

/// Rounds of work that are timed to know what a round takes.
const TIMED: u64 = 200_000;

impl Slow {
    fn new(source: Arc<dyn Source>, microseconds: f64) -> Slow {
        let timed = || {
            let start = Instant::now();
            black_box(work(TIMED));
            start.elapsed().as_secs_f64()
        };
        // the fastest of some: others were interrupted
        let fastest = (0..5).map(|_| timed()).fold(f64::INFINITY, f64::min).max(1e-9);
        Slow { source, rounds: (microseconds * 1e-6 / fastest * TIMED as f64) as u64 }
    }
}

fn work(rounds: u64) -> u64 {
    (0..rounds).fold(1, |x: u64, i| x.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(i) ^ (x >> 29))
}

impl Source for Slow {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn schema(&self) -> &Schema {
        self.source.schema()
    }

    fn rows(&self) -> u32 {
        self.source.rows()
    }

    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        black_box(work(self.rounds * rows.numbers.len() as u64));
        self.source.gather(rows, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_rows_gets_the_label_of_another() {
        for (share, wrong) in [(0.0, 0), (0.3, 30), (1.0, 100)] {
            let of = others(100, share, 7);
            assert_eq!(of.iter().enumerate().filter(|(row, of)| *row as u32 != **of).count(), wrong);
            let mut sorted = of.clone();
            sorted.sort();
            assert_eq!(sorted, (0..100).collect::<Vec<u32>>(), "every label is used once");
            assert_eq!(of, others(100, share, 7));
        }
    }
}
