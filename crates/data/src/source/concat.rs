//! Many sources or streams as one: row numbers go on from one part to the next. The parts have equal schemas.

use std::sync::Arc;

use smallvec::SmallVec;

use super::stored::check;
use super::{Rows, Source, Stream};
use crate::error::DataError;
use crate::rng::mix;
use crate::schema::Schema;
use crate::slot::{FieldMut, FieldsMut};

/// Several sources as one.
pub struct Concat {
    name: String,
    parts: Vec<Arc<dyn Source>>,
    /// The first row of each part, and the number of rows.
    starts: Vec<u32>,
}

impl Concat {
    pub fn new(parts: Vec<Arc<dyn Source>>) -> Result<Concat, DataError> {
        let name = common_name(parts.iter().map(|part| part.name()))?;
        check_schemas(parts.iter().map(|part| (part.name(), part.schema())))?;
        let starts = running_sum(&name, parts.iter().map(|part| part.rows()))?;
        Ok(Concat { name, parts, starts })
    }
}

impl Source for Concat {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> &Schema {
        self.parts[0].schema()
    }

    fn rows(&self) -> u32 {
        self.starts[self.parts.len()]
    }

    /// Neighbours of the same part are gathered at once.
    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        check(self, rows, into)?;
        let fields = &self.schema().fields;
        let mut local: SmallVec<[u32; 64]> = SmallVec::new();
        let mut at = 0;
        while at < rows.numbers.len() {
            let part = self.starts.partition_point(|start| *start <= rows.numbers[at]) - 1;
            let own = self.starts[part]..self.starts[part + 1];
            local.clear();
            local.extend(rows.numbers[at..].iter().take_while(|row| own.contains(row)).map(|row| row - own.start));
            let mut room: FieldsMut<'_> = into
                .iter_mut()
                .zip(fields)
                .map(|(into, field)| into.part(at * field.width()..(at + local.len()) * field.width()))
                .collect();
            // row 5 of one file is not row 5 of another
            let seed = if own.start == 0 { rows.seed } else { mix(rows.seed ^ mix(own.start as u64)) };
            self.parts[part].gather(&Rows { numbers: &local, seed, epoch: rows.epoch }, &mut room)?;
            at += local.len();
        }
        Ok(())
    }
}

/// Several streams as one.
pub struct ConcatStream {
    name: String,
    parts: Vec<Arc<dyn Stream>>,
    /// Part, and block of it, of each block.
    places: Vec<(u32, u32)>,
    blocks: Vec<u32>,
}

impl ConcatStream {
    pub fn new(parts: Vec<Arc<dyn Stream>>) -> Result<ConcatStream, DataError> {
        let name = common_name(parts.iter().map(|part| part.name()))?;
        check_schemas(parts.iter().map(|part| (part.name(), part.schema())))?;
        let sizes = |part: &Arc<dyn Stream>| part.blocks().windows(2).map(|cut| cut[1] - cut[0]).collect::<Vec<_>>();
        let blocks = running_sum(&name, parts.iter().flat_map(sizes))?;
        let count = |part: &Arc<dyn Stream>| part.blocks().len().saturating_sub(1) as u32;
        let places =
            parts.iter().enumerate().flat_map(|(i, part)| (0..count(part)).map(move |block| (i as u32, block)));
        Ok(ConcatStream { name, places: places.collect(), parts, blocks })
    }
}

impl Stream for ConcatStream {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> &Schema {
        self.parts[0].schema()
    }

    fn blocks(&self) -> &[u32] {
        &self.blocks
    }

    fn read(&self, block: usize, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        match self.places.get(block) {
            Some((part, block)) => self.parts[*part as usize].read(*block as usize, into),
            None => Err(DataError::Inconsistent(format!("{}: block {block} of {}", self.name, self.places.len()))),
        }
    }

    fn announce(&self, block: usize) {
        if let Some((part, block)) = self.places.get(block) {
            self.parts[*part as usize].announce(*block as usize);
        }
    }

    fn readers(&self) -> usize {
        self.parts.iter().map(|part| part.readers()).max().unwrap_or(0)
    }
}

/// `a.csv and 3 more`
pub(super) fn common_name<'a>(mut names: impl ExactSizeIterator<Item = &'a str>) -> Result<String, DataError> {
    let count = names.len();
    match (names.next(), count) {
        (None, _) => Err(DataError::Inconsistent("no files to put together".into())),
        (Some(first), 1) => Ok(first.to_owned()),
        (Some(first), _) => Ok(format!("{first} and {} more", count - 1)),
    }
}

/// Every schema is that of the first; the error names the file and the field.
fn check_schemas<'a>(mut parts: impl Iterator<Item = (&'a str, &'a Schema)>) -> Result<(), DataError> {
    let Some((first, schema)) = parts.next() else { return Ok(()) };
    for (name, other) in parts {
        if other == schema {
            continue;
        }
        let pair = schema.fields.iter().zip(&other.fields).find(|(a, b)| a != b);
        let difference = match pair {
            Some((a, b)) if a.to_string() != b.to_string() => format!("field {b}, where {first} has {a}"),
            Some((a, b)) => {
                let (was, is) = a.labels.iter().zip(&b.labels).find(|(a, b)| a != b).unwrap_or((&a.name, &b.name));
                format!("class {is:?} of field {:?}, where {first} has {was:?}", b.name)
            }
            None => format!("{} fields, where {first} has {}", other.fields.len(), schema.fields.len()),
        };
        return Err(DataError::Unsupported {
            file: name.to_owned(),
            what: format!("it has {difference}"),
            next: "files that are read as one need equal fields".into(),
        });
    }
    Ok(())
}

/// 0, a, a + b, …
fn running_sum(name: &str, counts: impl Iterator<Item = u32>) -> Result<Vec<u32>, DataError> {
    let mut sums = vec![0u32];
    for count in counts {
        let sum = sums.last().and_then(|sum| sum.checked_add(count));
        sums.push(sum.ok_or_else(|| DataError::Inconsistent(format!("{name}: more than {} rows", u32::MAX)))?);
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{Dataset, Features, Target};
    use crate::packed::{PackOptions, PackedFile, pack_source};
    use crate::schema::{Field, Kind};
    use crate::source::{InMemory, Stored};

    fn part(name: &str, from: usize, rows: usize, classes: usize) -> Arc<InMemory> {
        let data = Dataset::new(
            rows,
            Features::F32 { data: (from * 2..(from + rows) * 2).map(|v| v as f32).collect(), width: 2 },
            Target::Classes { data: vec![0; rows], classes },
        );
        Arc::new(InMemory::new(name, Arc::new(data.unwrap())).unwrap())
    }

    #[test]
    fn rows_go_on_from_part_to_part() {
        let all = Concat::new(vec![part("a", 0, 5, 2), part("b", 5, 0, 2), part("c", 5, 8, 2)]).unwrap();
        assert_eq!((all.rows(), all.name()), (13, "a and 2 more"));
        let numbers = [12, 0, 1, 5, 4, 4, 11];
        let (mut x, mut y) = ([0f32; 14], [9; 7]);
        let rows = Rows { numbers: &numbers, seed: 1, epoch: 0 };
        all.gather(&rows, &mut [FieldMut::F32(&mut x), FieldMut::I32(&mut y)]).unwrap();
        let want: Vec<f32> = numbers.iter().flat_map(|n| [*n as f32 * 2.0, *n as f32 * 2.0 + 1.0]).collect();
        assert_eq!((x.to_vec(), y), (want, [0; 7]));
        let rows = Rows { numbers: &[13], ..rows };
        assert!(all.gather(&rows, &mut [FieldMut::F32(&mut x[..2]), FieldMut::I32(&mut y[..1])]).is_err());
    }

    #[test]
    fn blocks_go_on_from_file_to_file() {
        let dir = tempfile::tempdir().unwrap();
        let pack = |name: &str, source: &dyn Source| -> Arc<dyn Stream> {
            let options = PackOptions { block_bytes: 48, ..Default::default() };
            pack_source(source, dir.path().join(name), options, &mut |_, _| {}).unwrap();
            Arc::new(PackedFile::open(dir.path().join(name)).unwrap())
        };
        let parts = vec![pack("a", &*part("a", 0, 5, 2)), pack("b", &*part("b", 5, 6, 2))];
        let all = ConcatStream::new(parts).unwrap();
        assert_eq!(all.blocks(), [0, 4, 5, 9, 11]);
        let (mut x, mut y) = ([0f32; 4], [9; 2]);
        all.read(3, &mut [FieldMut::F32(&mut x), FieldMut::I32(&mut y)]).unwrap();
        assert_eq!((x, y), ([18.0, 19.0, 20.0, 21.0], [0, 0]));
        assert!(all.read(4, &mut []).is_err());
    }

    #[test]
    fn a_differing_schema_is_named() {
        let ask = |parts: Vec<Arc<dyn Source>>| Concat::new(parts).err().unwrap().to_string();
        let error = ask(vec![part("a", 0, 1, 2), part("b", 0, 1, 3)]);
        assert!(error.starts_with("b: it has field y i32 (3 classes), where a has y i32 (2 classes)"), "{error}");
        assert!(ask(Vec::new()).contains("no files"));
        let named = |labels: [&str; 2]| -> Arc<dyn Source> {
            let field = Field::classes("y", labels.map(str::to_owned).to_vec());
            let schema = Schema::new(vec![Field::new("x", Kind::U8, &[]), field]).unwrap();
            Arc::new(Stored::fill(labels[1], &schema, &[0, 1], &|_, _| Ok(())).unwrap())
        };
        let error = ask(vec![named(["cat", "dog"]), named(["cat", "cow"])]);
        assert!(error.contains("class \"cow\" of field \"y\", where dog has \"dog\""), "{error}");
    }

    #[test]
    fn rows_of_different_parts_have_different_keys() {
        struct Key(Schema);
        impl Source for Key {
            fn name(&self) -> &str {
                "key"
            }
            fn schema(&self) -> &Schema {
                &self.0
            }
            fn rows(&self) -> u32 {
                4
            }
            fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
                let [FieldMut::I32(keys)] = into else { panic!() };
                keys.iter_mut().zip(rows.numbers).for_each(|(key, row)| *key = rows.key(*row) as i32);
                Ok(())
            }
        }
        let part = || -> Arc<dyn Source> { Arc::new(Key(Schema::new(vec![Field::new("k", Kind::I32, &[])]).unwrap())) };
        let all = Concat::new(vec![part(), part(), part()]).unwrap();
        let ask = |numbers: &[u32]| {
            let mut keys = vec![0; numbers.len()];
            all.gather(&Rows { numbers, seed: 3, epoch: 1 }, &mut [FieldMut::I32(&mut keys)]).unwrap();
            keys
        };
        let keys = ask(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        let different: std::collections::HashSet<i32> = keys.iter().copied().collect();
        assert_eq!(different.len(), 12);
        assert_eq!(ask(&[9, 3]), [keys[9], keys[3]], "whoever asks, in any company");
    }
}
