//! From positions of an epoch to rows in a slot.

use std::ops::Range;
use std::sync::Arc;

use super::LoaderOptions;
use super::windows::Windows;
use crate::error::DataError;
use crate::order::{EpochOrder, Place, Sampling};
use crate::schema::Schema;
use crate::slot::{FieldMut, FieldsMut};
use crate::source::{Rows, Source, Stream};

pub(super) enum Supply {
    Source { source: Arc<dyn Source>, sampling: Sampling, seed: u64, positions: Range<u32> },
    Stream(Box<Windows>),
}

/// What a filling thread reuses.
#[derive(Default)]
pub(super) struct Scratch {
    /// The epoch whose order this is.
    order: Option<(u64, EpochOrder)>,
    pub drawn: Drawn,
    places: Vec<Place>,
}

/// Rows of a source.
#[derive(Default)]
pub(super) struct Drawn {
    /// The epoch and the positions whose rows these are.
    of: (u64, Range<u32>),
    numbers: Vec<u32>,
}

impl Drawn {
    pub fn rows(&self) -> usize {
        self.numbers.len()
    }
}

impl Supply {
    pub fn source(source: Arc<dyn Source>, options: &LoaderOptions) -> Result<Supply, DataError> {
        let (sampling, seed) = (options.sampling.clone(), options.seed);
        if let Sampling::Weighted(weights) = &sampling
            && weights.rows() != source.rows() as usize
        {
            let (name, rows) = (source.name(), source.rows());
            let problem = format!("{name}: {} weights for {rows} rows", weights.rows());
            return Err(DataError::Inconsistent(problem));
        }
        let positions = positions(source.rows(), options)?;
        Ok(Supply::Source { source, sampling, seed, positions })
    }

    pub fn stream(stream: Arc<dyn Stream>, options: &LoaderOptions) -> Result<Supply, DataError> {
        let rows = stream.blocks().last().copied().unwrap_or(0);
        Ok(Supply::Stream(Box::new(Windows::new(stream, positions(rows, options)?, options)?)))
    }

    /// The same, not begun.
    pub fn again(&self) -> Supply {
        match self {
            Supply::Source { source, sampling, seed, positions } => Supply::Source {
                source: source.clone(),
                sampling: sampling.clone(),
                seed: *seed,
                positions: positions.clone(),
            },
            Supply::Stream(windows) => Supply::Stream(Box::new(windows.again())),
        }
    }

    /// The first position that will be asked for.
    pub fn begin(&mut self, epoch: u64, position: u32) {
        if let Supply::Stream(windows) = self {
            windows.begin(epoch, position);
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Supply::Source { source, .. } => source.name(),
            Supply::Stream(windows) => windows.stream().name(),
        }
    }

    pub fn schema(&self) -> &Schema {
        match self {
            Supply::Source { source, .. } => source.schema(),
            Supply::Stream(windows) => windows.stream().schema(),
        }
    }

    /// Whether any rows can be had at any time, also twice.
    pub fn is_random(&self) -> bool {
        matches!(self, Supply::Source { .. })
    }

    /// Whether rows are copied from memory and nothing else.
    pub fn is_plain(&self) -> bool {
        matches!(self, Supply::Source { source, .. } if source.is_plain())
    }

    /// Whether filling is known to take long.
    pub fn is_heavy(&self) -> bool {
        match self {
            Supply::Source { source, .. } => source.is_heavy(),
            Supply::Stream(_) => true,
        }
    }

    /// This loader's positions in every epoch.
    pub fn positions(&self) -> Range<u32> {
        match self {
            Supply::Source { positions, .. } => positions.clone(),
            Supply::Stream(windows) => windows.positions(),
        }
    }

    /// Writes the rows at these positions.
    pub fn fill(
        &self,
        epoch: u64,
        positions: Range<u32>,
        into: &mut [FieldMut<'_>],
        scratch: &mut Scratch,
    ) -> Result<(), DataError> {
        match self {
            Supply::Source { .. } => {
                self.draw(epoch, positions, scratch);
                self.gather(&scratch.drawn, into)
            }
            Supply::Stream(windows) => {
                windows.fill(epoch, positions, into, &mut scratch.places, &mut scratch.drawn.numbers)
            }
        }
    }

    /// Writes the rows that were drawn from a source.
    pub fn gather(&self, drawn: &Drawn, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        let Supply::Source { source, seed, .. } = self else { return Ok(()) };
        source.gather(&Rows { numbers: &drawn.numbers, seed: *seed, epoch: drawn.of.0 }, into)
    }

    /// Shows the memory that the rows at these positions will be gathered from.
    pub fn show(
        &self,
        epoch: u64,
        positions: Range<u32>,
        scratch: &mut Scratch,
        mut see: impl FnMut(&[u8], usize, &[u32]),
    ) {
        if let Supply::Source { source, .. } = self {
            self.draw(epoch, positions, scratch);
            source.show(&mut |table, width| see(table, width, &scratch.drawn.numbers));
        }
    }

    /// The numbers of the rows at these positions of a source.
    pub fn draw(&self, epoch: u64, positions: Range<u32>, scratch: &mut Scratch) {
        let Supply::Source { source, sampling, seed, .. } = self else { return };
        let (wanted, drawn) = ((epoch, positions), &mut scratch.drawn);
        if drawn.of == wanted {
            return;
        }
        let order = match &scratch.order {
            Some((of, order)) if *of == epoch => order,
            _ => &scratch.order.insert((epoch, EpochOrder::new(sampling, source.rows(), *seed, epoch))).1,
        };
        drawn.numbers.resize(wanted.1.len(), 0);
        pulp::Arch::new().dispatch(Draw { order, start: wanted.1.start, rows: &mut drawn.numbers });
        drawn.of = wanted;
    }

    /// Uses a pause to load what will be asked for next.
    pub fn read_ahead(&self, _: &mut Scratch) {
        if let Supply::Stream(windows) = self {
            windows.read_ahead();
        }
    }

    /// Threads that should spend their lives in [`Supply::read_on`].
    pub fn readers(&self) -> usize {
        match self {
            Supply::Source { .. } => 0,
            Supply::Stream(windows) => windows.readers(),
        }
    }

    /// Waits for the disk until stopped.
    pub fn read_on(&self) {
        if let Supply::Stream(windows) = self {
            windows.read_on();
        }
    }

    /// Lets go of whoever waits.
    pub fn stop(&self) {
        if let Supply::Stream(windows) = self {
            windows.stop();
        }
    }

    pub fn window_rows(&self) -> Option<u32> {
        match self {
            Supply::Source { .. } => None,
            Supply::Stream(windows) => Some(windows.window_rows()),
        }
    }

    pub fn window_bytes(&self) -> usize {
        match self {
            Supply::Source { .. } => 0,
            Supply::Stream(windows) => 2 * windows.window_rows() as usize * self.schema().row_bytes(),
        }
    }

    pub fn skipped_rows(&self) -> u64 {
        match self {
            Supply::Source { .. } => 0,
            Supply::Stream(windows) => windows.skipped_rows(),
        }
    }
}

/// Draws rows. Compiled for each kind of processor, so all it calls has to be inlined; a closure would not be.
struct Draw<'a> {
    order: &'a EpochOrder,
    start: u32,
    rows: &'a mut [u32],
}

impl pulp::NullaryFnOnce for Draw<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.order.fill(self.start, self.rows);
    }
}

fn positions(rows: u32, options: &LoaderOptions) -> Result<Range<u32>, DataError> {
    if options.batch_size == 0 {
        return Err(DataError::Inconsistent("a batch of 0 rows".into()));
    }
    let mut positions = options.shard.positions(rows)?;
    if options.drop_last {
        positions.end -= positions.len() as u32 % u32::try_from(options.batch_size).unwrap_or(u32::MAX);
    }
    Ok(positions)
}

/// The rows `range` of buffers that have room for a whole batch.
pub(super) fn parts<'a>(
    schema: &Schema,
    into: &'a mut [FieldMut<'_>],
    range: Range<usize>,
) -> Result<FieldsMut<'a>, DataError> {
    let misfit = |i: usize| {
        let field = schema.fields.get(i).map_or("nothing".to_owned(), |field| field.to_string());
        DataError::Inconsistent(format!("buffer {i} is of another kind or too small for {} rows of {field}", range.end))
    };
    if into.len() != schema.fields.len() {
        return Err(misfit(into.len().min(schema.fields.len())));
    }
    into.iter_mut()
        .zip(&schema.fields)
        .enumerate()
        .map(|(i, (buffer, field))| {
            let width = field.width();
            match buffer.kind() == field.kind && buffer.bytes().len() >= range.end * field.bytes() {
                true => Ok(buffer.part(range.start * width..range.end * width)),
                false => Err(misfit(i)),
            }
        })
        .collect()
}
