//! Pictures through a pipeline, as a [`Source`]: `x` the values, `y` the class.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Mutex;

use super::decode::Picture;
use super::folder::Pictures;
use super::pipeline::Pipeline;
use crate::error::DataError;
use crate::loader::OnError;
use crate::schema::{Field, INPUT, Schema, TARGET};
use crate::slot::FieldMut;
use crate::source::{Rows, Source};

/// Decodes and transforms anew whenever asked; nothing is kept but the pictures' names.
pub struct PictureSource {
    pictures: Box<dyn Pictures>,
    pipeline: Pipeline,
    on_error: OnError,
    schema: Schema,
    /// By number: the path and what was wrong.
    skipped: Mutex<BTreeMap<usize, (String, String)>>,
}

impl PictureSource {
    /// Checks the settings; no picture is read yet.
    pub fn new(pictures: Box<dyn Pictures>, pipeline: Pipeline, on_error: OnError) -> Result<PictureSource, DataError> {
        let problem = |problem: String| DataError::Pipeline { name: pictures.name().to_owned(), problem };
        let shape = pipeline.shape(pictures.uniform()).map_err(problem)?;
        if pictures.is_empty() || u32::try_from(pictures.len()).is_err() {
            return Err(problem(format!("{} pictures; from 1 to {} are possible", pictures.len(), u32::MAX)));
        }
        let schema = Schema::new(vec![
            Field::new(INPUT, pipeline.output.kind(), &shape),
            Field::classes(TARGET, pictures.labels().to_vec()),
        ])?;
        Ok(PictureSource { pictures, pipeline, on_error, schema, skipped: Mutex::default() })
    }

    /// Paths that could not be read so far, and why, in the order of the pictures.
    pub fn skipped(&self) -> Vec<(String, String)> {
        let skipped = self.skipped.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        skipped.values().cloned().collect()
    }

    pub fn pictures(&self) -> &dyn Pictures {
        &*self.pictures
    }

    /// Writes a picture and gives its class.
    fn write(&self, i: usize, key: u64, memory: &mut Memory, x: FieldMut<'_>) -> Result<i32, DataError> {
        let Memory { file, picture } = memory;
        self.pictures.load_into(i, self.pipeline.wants(), file, picture)?;
        let problem = |problem| DataError::Picture { path: self.pictures.path(i), problem };
        self.pipeline.apply(picture, key, x).map_err(problem)?;
        Ok(self.pictures.label(i))
    }

    /// Writes the first picture from `i` on that can be read.
    fn write_readable(&self, i: usize, key: u64, memory: &mut Memory, x: &mut FieldMut<'_>) -> Result<i32, DataError> {
        let count = self.pictures.len();
        let mut last = None;
        for i in (i..count).chain(0..i) {
            let whole = 0..x.bytes().len() / x.kind().bytes();
            match self.write(i, key, memory, x.part(whole)) {
                Ok(class) => return Ok(class),
                Err(error) if self.on_error == OnError::Fail => return Err(error),
                Err(error) => last = Some(self.note(i, error)),
            }
        }
        Err(DataError::Pipeline {
            name: self.pictures.name().to_owned(),
            problem: format!("none of its {count} pictures can be read; the last: {}", last.unwrap_or_default()),
        })
    }

    /// Keeps in mind what was wrong with a picture; the answer is the message.
    fn note(&self, i: usize, error: DataError) -> String {
        let (path, message) = (self.pictures.path(i), error.to_string());
        let problem = message.strip_prefix(&format!("{path}: ")).unwrap_or(&message).to_owned();
        let mut skipped = self.skipped.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        skipped.insert(i, (path, problem));
        message
    }
}

/// What a thread uses again for every picture.
#[derive(Default)]
struct Memory {
    file: Vec<u8>,
    picture: Picture,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

impl Source for PictureSource {
    fn is_heavy(&self) -> bool {
        true
    }

    fn name(&self) -> &str {
        self.pictures.name()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u32 {
        self.pictures.len() as u32
    }

    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        let misfit = || DataError::Inconsistent(format!("{}: buffers of another schema", self.pictures.name()));
        let [x, FieldMut::I32(y)] = into else { return Err(misfit()) };
        let width = self.schema.fields[0].width();
        let values = x.bytes().len() / x.kind().bytes();
        let numbers = rows.numbers;
        if y.len() != numbers.len() || values != numbers.len() * width || numbers.iter().any(|row| *row >= self.rows())
        {
            return Err(misfit());
        }
        MEMORY.with_borrow_mut(|memory| {
            for (at, row) in numbers.iter().enumerate() {
                let mut x = x.part(at * width..(at + 1) * width);
                y[at] = self.write_readable(*row as usize, rows.key(*row), memory, &mut x)?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::transform::{RandomResizedCrop, Size, Transform};
    use super::super::{Grid, Layout, Output, PictureFolder};
    use super::*;
    use crate::picture::tests::png;
    use crate::slot::{Heap, Slot};

    fn gather(source: &dyn Source, numbers: &[u32], epoch: u64) -> Result<(Vec<u8>, Vec<i32>), DataError> {
        let mut slot = Slot::new(source.schema(), numbers.len(), &Heap).unwrap();
        let rows = Rows { numbers, seed: 3, epoch };
        source.gather(&rows, &mut slot.rows_mut(0..numbers.len()))?;
        let fields = slot.rows(0..numbers.len());
        Ok((fields[0].bytes().to_vec(), fields[1].i32().unwrap().to_vec()))
    }

    fn random_pipeline() -> Pipeline {
        let transforms = vec![
            Transform::RandomResizedCrop(RandomResizedCrop::new(Size::One(6))),
            Transform::HorizontalFlip(Default::default()),
        ];
        Pipeline { transforms, output: Output::imagenet(), ..Pipeline::default() }
    }

    #[test]
    fn the_same_values_whatever_the_batch_or_thread() {
        let pixels = (0..5 * 12 * 10 * 3).map(|i| (i * 31 % 251) as u8).collect();
        let labels = vec!["a".into(), "b".into()];
        let grid = Grid::new("g", [12, 10, 3], Layout::Chw, pixels, vec![0, 1, 0, 1, 1], labels).unwrap();
        let source = PictureSource::new(Box::new(grid), random_pipeline(), OnError::Fail).unwrap();
        assert_eq!(source.schema().to_string(), "x f32[3, 6, 6], y i32 (2 classes)");
        let (all, classes) = gather(&source, &[0, 1, 2, 3, 4], 1).unwrap();
        assert_eq!(classes, [0, 1, 0, 1, 1]);
        let one = all.len() / 5;
        for i in [3, 0] {
            let alone = std::thread::scope(|scope| scope.spawn(|| gather(&source, &[i], 1).unwrap()).join().unwrap());
            assert_eq!(alone.0, all[i as usize * one..][..one]);
        }
        assert_ne!(gather(&source, &[0, 1, 2, 3, 4], 2).unwrap().0, all);
        assert!(gather(&source, &[5], 1).is_err());
    }

    #[test]
    fn unreadable_pictures_end_the_run_or_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        for (name, grey) in [("a/1.png", 10), ("a/2.png", 20), ("b/3.png", 30), ("b/4.png", 40)] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, png(6, 6, 1, &[grey; 36])).unwrap();
        }
        for name in ["a/2.png", "b/4.png"] {
            std::fs::write(dir.path().join(name), b"no picture at all").unwrap();
        }
        let folder = || Box::new(PictureFolder::open(dir.path()).unwrap());
        let pipeline = Pipeline {
            channels: super::super::Channels::Grey,
            transforms: random_pipeline().transforms,
            output: Output::U8,
        };
        let fail = PictureSource::new(folder(), pipeline.clone(), OnError::Fail).unwrap();
        let error = gather(&fail, &[0, 1], 0).unwrap_err().to_string();
        assert!(error.contains("a/2.png: not a picture"), "{error}");

        let skip = PictureSource::new(folder(), pipeline.clone(), OnError::Skip).unwrap();
        let (bytes, classes) = gather(&skip, &[1, 3, 2, 1], 0).unwrap();
        assert_eq!((bytes[0], bytes[36], bytes[72], bytes[108]), (30, 10, 30, 30));
        assert_eq!(classes, [1, 0, 1, 1]);
        let skipped = skip.skipped();
        assert_eq!(skipped.len(), 2);
        assert!(skipped[0].0.ends_with("a/2.png") && skipped[0].1.starts_with("not a picture"), "{skipped:?}");

        for name in ["a/1.png", "b/3.png"] {
            std::fs::remove_file(dir.path().join(name)).unwrap();
        }
        let error = gather(&skip, &[0], 0).unwrap_err().to_string();
        assert!(error.contains("none of its 4 pictures can be read"), "{error}");
    }
}
