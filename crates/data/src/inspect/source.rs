//! What is in a source, told from rows evenly spread over it.

use super::column::{ColumnSummary, Label, Numbers, combined, share};
use super::figures::{count, percent, plural};
use super::{Inspection, warnings};
use crate::error::DataError;
use crate::prepare::correlation::spread;
use crate::prepare::scale::sorted;
use crate::schema::{Field, Kind};
use crate::slot::{FieldRef, Heap, Slot};
use crate::source::{Rows, Source};

/// Bytes gathered at a time.
const BLOCK_BYTES: usize = 8 << 20;
/// Values kept of a field or channel, evenly spread: enough for a median.
const MOST_VALUES: usize = 1 << 18;
/// Channels told one by one.
const MOST_CHANNELS: usize = 16;

/// Looks at up to `most_rows` rows of a source, as the first epoch of seed 0 would have them.
pub fn source(source: &dyn Source, most_rows: usize) -> Result<Inspection, DataError> {
    let rows: Vec<u32> = spread(source.rows() as usize, most_rows).map(|row| row as u32).collect();
    let schema = source.schema();
    let block = (BLOCK_BYTES / schema.row_bytes().max(1)).clamp(1, rows.len().max(1));
    let mut slot = Slot::new(schema, block, &Heap)?;
    let mut seen: Vec<Seen> = schema.fields.iter().map(|field| Seen::new(field, rows.len())).collect();
    let mut hashes = Vec::with_capacity(rows.len());
    for numbers in rows.chunks(block) {
        source.gather(&Rows { numbers, seed: 0, epoch: 0 }, &mut slot.rows_mut(0..numbers.len()))?;
        let fields = slot.rows(0..numbers.len());
        seen.iter_mut().zip(&fields).for_each(|(seen, field)| seen.add(*field, numbers.len()));
        hashes.extend((0..numbers.len()).map(|row| {
            let row_bytes = |field: &FieldRef<'_>| {
                let width = field.bytes().len() / numbers.len();
                hash_bytes(&field.bytes()[row * width..(row + 1) * width])
            };
            fields.iter().fold(0, |hash, field| combined(hash, row_bytes(field)))
        }));
    }
    hashes.sort_unstable();
    let repeated_rows = hashes.windows(2).filter(|pair| pair[0] == pair[1]).count();
    let target = seen.iter().find(|seen| !seen.field.labels.is_empty());
    let classes = target.map_or_else(Vec::new, Seen::classes);
    let mut inspection = Inspection {
        name: source.name().to_owned(),
        unit: "row",
        rows: source.rows() as usize,
        rows_read: rows.len(),
        target: target.map(|seen| seen.field.name.clone()),
        schema: Some(schema.to_string()),
        columns: seen.iter().filter(|seen| seen.field.labels.is_empty()).flat_map(Seen::summaries).collect(),
        classes,
        repeated_rows,
        with_target: Vec::new(),
        between: Vec::new(),
        relations_note: None,
        warnings: Vec::new(),
    };
    inspection.warnings = warnings_of(&inspection, &seen);
    Ok(inspection)
}

/// What was seen of a field.
struct Seen {
    field: Field,
    /// One, or one per channel of a `[C, H, W]` field.
    channels: Vec<Channel>,
    /// Per place of a row: the first value, and whether another came.
    first: Vec<f32>,
    varies: Vec<bool>,
    /// Rows per class, and rows whose class has no name.
    classes: Vec<usize>,
    unnamed: usize,
}

/// Values of a channel.
struct Channel {
    count: usize,
    missing: usize,
    infinite: usize,
    /// Every `stride`-th value.
    kept: Vec<f64>,
    stride: usize,
    min: f64,
    max: f64,
    /// Running mean, and sum of squared distances from it.
    mean: f64,
    squares: f64,
}

impl Seen {
    fn new(field: &Field, rows: usize) -> Seen {
        let channels = match field.shape[..] {
            [channels @ 2..=MOST_CHANNELS, _, _] => channels,
            _ => 1,
        };
        let values = rows.saturating_mul(field.width()) / channels;
        let channel = || Channel {
            count: 0,
            missing: 0,
            infinite: 0,
            kept: Vec::new(),
            stride: values.div_ceil(MOST_VALUES).max(1),
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            mean: 0.0,
            squares: 0.0,
        };
        Seen {
            channels: (0..channels).map(|_| channel()).collect(),
            first: Vec::new(),
            varies: vec![false; field.width()],
            classes: vec![0; field.labels.len()],
            unnamed: 0,
            field: field.clone(),
        }
    }

    fn add(&mut self, values: FieldRef<'_>, rows: usize) {
        let width = self.field.width();
        let part = (width / self.channels.len()).max(1);
        let value = |at: usize| match values {
            FieldRef::U8(values) => values[at] as f64,
            FieldRef::I32(values) => values[at] as f64,
            FieldRef::F32(values) => values[at] as f64,
        };
        for row in 0..rows {
            for place in 0..width {
                let value = value(row * width + place);
                self.channels[place / part].add(value);
                match self.first.get(place) {
                    None => self.first.push(value as f32),
                    Some(first) => self.varies[place] |= *first != value as f32,
                }
            }
        }
        if let (FieldRef::I32(values), false) = (values, self.classes.is_empty()) {
            for class in values {
                match usize::try_from(*class).ok().and_then(|class| self.classes.get_mut(class)) {
                    Some(rows) => *rows += 1,
                    None => self.unnamed += 1,
                }
            }
        }
    }

    fn summaries(&self) -> Vec<ColumnSummary> {
        let kind = match self.field.shape.is_empty() {
            true => self.field.kind.to_string(),
            false => format!("{}{:?}", self.field.kind, self.field.shape),
        };
        let several = self.channels.len() > 1;
        let summary = |(index, channel): (usize, &Channel)| ColumnSummary {
            name: match several {
                true => format!("{} {kind} channel {index}", self.field.name),
                false => format!("{} {kind}", self.field.name),
            },
            kind: kind.clone(),
            missing: channel.missing,
            missing_share: share(channel.missing, channel.count),
            // Values of which a part was kept are not counted.
            distinct: (channel.stride == 1 || self.field.kind == Kind::U8).then(|| channel.distinct()),
            numbers: channel.numbers(),
            labels: Vec::new(),
        };
        self.channels.iter().enumerate().map(summary).collect()
    }

    fn classes(&self) -> Vec<Label> {
        let total = self.classes.iter().sum();
        let named = self.field.labels.iter().zip(&self.classes);
        named.map(|(label, rows)| Label { label: label.clone(), rows: *rows, share: share(*rows, total) }).collect()
    }
}

impl Channel {
    fn add(&mut self, value: f64) {
        let at = self.count;
        self.count += 1;
        if value.is_nan() {
            self.missing += 1;
            return;
        }
        if value.is_infinite() {
            self.infinite += 1;
            return;
        }
        let finite = (self.count - self.missing - self.infinite) as f64;
        let step = value - self.mean;
        self.mean += step / finite;
        self.squares += step * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if at.is_multiple_of(self.stride) {
            self.kept.push(value);
        }
    }

    fn distinct(&self) -> usize {
        sorted(self.kept.iter().copied()).chunk_by(|a, b| a == b).count()
    }

    /// Exact but for median and histogram, which are those of the kept values.
    fn numbers(&self) -> Option<Numbers> {
        let finite = self.count - self.missing - self.infinite;
        let kept = Numbers::of(&sorted(self.kept.iter().copied()))?;
        let deviation = (self.squares / finite.max(1) as f64).sqrt();
        Some(Numbers { min: self.min, max: self.max, mean: self.mean, deviation, ..kept })
    }
}

fn warnings_of(inspection: &Inspection, seen: &[Seen]) -> Vec<String> {
    let mut warnings = warnings::of_classes(&inspection.classes);
    let read = inspection.rows_read;
    if read < 2 {
        warnings.push(format!("{} cannot be learned from", if read == 0 { "no rows" } else { "a single row" }));
    }
    if inspection.repeated_rows > 0 {
        let share = percent(share(inspection.repeated_rows, read));
        warnings.push(format!("{} ({share}) that repeat an earlier one", plural(inspection.repeated_rows, "row")));
    }
    for seen in seen {
        let name = &seen.field.name;
        let sum = |part: fn(&Channel) -> usize| seen.channels.iter().map(part).sum::<usize>();
        let (missing, infinite) = (sum(|channel| channel.missing), sum(|channel| channel.infinite));
        if missing + infinite > 0 {
            let (missing, infinite) = (count(missing), count(infinite));
            warnings.push(format!(
                "{name}: {missing} values are not a number and {infinite} infinite; training would fail"
            ));
        }
        if seen.unnamed > 0 {
            warnings.push(format!("{name}: {} with a class number that has no name", plural(seen.unnamed, "row")));
        }
        let same = seen.varies.iter().filter(|varies| !**varies).count();
        if read > 1 && same > 0 && seen.field.labels.is_empty() {
            let all = seen.varies.len();
            warnings.push(match same == all {
                true => format!("{name}: the same in every row"),
                false => format!("{name}: {} of {} places never vary", count(same), count(all)),
            });
        }
    }
    warnings
}

fn hash_bytes(bytes: &[u8]) -> u64 {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).fold(bytes.len() as u64, |hash, chunk| combined(hash, word(chunk)))
}
