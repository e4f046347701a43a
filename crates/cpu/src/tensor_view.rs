//! A tensor as the user sees it, read from or written to where its values are stored: in one leaf or in several
//! shards, perhaps with its axes in another order. No copy of the whole is made.

use std::ops::Range;

/// Elements handed out at once, unless the stored values can be handed out as they lie.
const CHUNK: usize = 1 << 14;
/// Neighbours in a row of the stored values that are moved together: a cache line of them.
const LINE: usize = 16;

/// How the user's elements map to those of the stored whole.
#[derive(Clone, Debug)]
pub(crate) struct ViewLayout {
    /// Sizes that the user sees: of the stored axes in `order`, some of which may be one axis to the user.
    pub shape: Vec<usize>,
    /// The stored axes in the user's order.
    pub order: Vec<usize>,
    /// Sizes of the whole as stored.
    pub stored: Vec<usize>,
    /// The stored axis that is cut into shards.
    pub cut: Option<usize>,
}

/// Values stored together: all of a tensor, or those at `range` of the axis that is cut.
pub(crate) struct Piece<T> {
    pub range: Range<usize>,
    pub values: T,
}

/// A tensor as the user sees it.
pub struct TensorView<'a> {
    layout: ViewLayout,
    pieces: Vec<Piece<&'a [f32]>>,
}

impl<'a> TensorView<'a> {
    /// `None` where the pieces do not make up the whole.
    pub(crate) fn new(layout: ViewLayout, pieces: Vec<Piece<&'a [f32]>>) -> Option<TensorView<'a>> {
        let lengths = pieces.iter().map(|piece| (piece.range.clone(), piece.values.len()));
        layout.made_of(lengths).then_some(TensorView { layout, pieces })
    }

    /// Values that lie in the user's order; `None` where the sizes are those of another number of values.
    pub fn contiguous(shape: &[usize], values: &'a [f32]) -> Option<TensorView<'a>> {
        let order = (0..shape.len()).collect();
        let layout = ViewLayout { shape: shape.to_vec(), order, stored: shape.to_vec(), cut: None };
        TensorView::new(layout, vec![Piece { range: 0..1, values }])
    }

    /// Sizes as the user sees them.
    pub fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    pub fn elements(&self) -> usize {
        self.layout.shape.iter().product()
    }

    /// Hands out all values in the user's order, chunk by chunk.
    pub fn chunks<E>(&self, mut each: impl FnMut(&[f32]) -> Result<(), E>) -> Result<(), E> {
        if self.layout.is_plain()
            && let [only] = &self.pieces[..]
        {
            return each(only.values);
        }
        let mut buffer = Vec::new();
        self.layout.blocks(|block, _| {
            buffer.clear();
            buffer.resize(block.elements(), 0.0);
            for piece in &self.pieces {
                block.runs(&self.layout, &piece.range, |run| {
                    for i in 0..run.count {
                        buffer[run.seen + i * run.seen_step] = piece.values[run.stored + i];
                    }
                });
            }
            each(&buffer)
        })
    }

    /// All values in the user's order.
    pub fn to_vec(&self) -> Vec<f32> {
        let mut all = Vec::with_capacity(self.elements());
        let _: Result<(), std::convert::Infallible> = self.chunks(|chunk| {
            all.extend_from_slice(chunk);
            Ok(())
        });
        all
    }
}

/// Writes values given in the user's order to where they are stored; `false` where sizes differ.
pub(crate) fn write(layout: &ViewLayout, pieces: &mut [Piece<&mut [f32]>], values: &[f32]) -> bool {
    let lengths = pieces.iter().map(|piece| (piece.range.clone(), piece.values.len()));
    if values.len() != layout.shape.iter().product::<usize>() || !layout.made_of(lengths) {
        return false;
    }
    if layout.is_plain()
        && let [only] = pieces
    {
        only.values.copy_from_slice(values);
        return true;
    }
    let done: Result<(), std::convert::Infallible> = layout.blocks(|block, first| {
        let seen = &values[first..first + block.elements()];
        for piece in pieces.iter_mut() {
            block.runs(layout, &piece.range, |run| {
                for i in 0..run.count {
                    piece.values[run.stored + i] = seen[run.seen + i * run.seen_step];
                }
            });
        }
        Ok(())
    });
    done.is_ok()
}

impl ViewLayout {
    fn is_plain(&self) -> bool {
        self.order.iter().enumerate().all(|(user, stored)| user == *stored)
    }

    /// Whether pieces of these ranges and lengths, in any order, are the whole.
    fn made_of(&self, pieces: impl Iterator<Item = (Range<usize>, usize)>) -> bool {
        let elements: usize = self.stored.iter().product();
        let mut axes = self.order.clone();
        axes.sort_unstable();
        if elements != self.shape.iter().product::<usize>() || !axes.into_iter().eq(0..self.stored.len()) {
            return false;
        }
        let size = self.cut.map_or(1, |axis| self.stored[axis]);
        let mut covered = vec![false; size];
        for (range, length) in pieces {
            let fits = range.end <= size && length * size == elements * range.len();
            if !fits || covered[range.clone()].iter().any(|taken| *taken) {
                return false;
            }
            covered[range].fill(true);
        }
        covered.iter().all(|taken| *taken)
    }

    /// The user's axis along which stored values are neighbours.
    fn neighbours(&self) -> Option<usize> {
        let last = self.stored.len().checked_sub(1)?;
        self.order.iter().position(|stored| *stored == last)
    }

    /// Goes through all elements in the user's order, in blocks that are contiguous there; with the place of the
    /// block's first element.
    fn blocks<E>(&self, mut each: impl FnMut(&Block, usize) -> Result<(), E>) -> Result<(), E> {
        let dims: Vec<usize> = self.order.iter().map(|axis| self.stored[*axis]).collect();
        if dims.contains(&0) {
            return Ok(());
        }
        // A block takes one place of each axis before `axis`, some of `axis`, and all of those behind.
        let mut axis = self.neighbours().unwrap_or(0);
        let inner = |axis: usize| dims.get(axis + 1..).map_or(1, |dims| dims.iter().product::<usize>());
        while axis > 0 && inner(axis - 1) <= CHUNK {
            axis -= 1;
        }
        let size = dims.get(axis).copied().unwrap_or(1);
        let step = (CHUNK / inner(axis)).max(LINE.min(LINE * CHUNK / inner(axis))).clamp(1, size);
        let mut ranges: Vec<Range<usize>> =
            dims.iter().enumerate().map(|(a, size)| if a < axis { 0..1 } else { 0..*size }).collect();
        let outer: usize = dims[..axis].iter().product();
        let mut first = 0;
        for place in 0..outer {
            let mut rest = place;
            for (range, size) in ranges[..axis].iter_mut().zip(&dims).rev() {
                *range = rest % size..rest % size + 1;
                rest /= size;
            }
            for start in (0..size).step_by(step) {
                if let Some(range) = ranges.get_mut(axis) {
                    *range = start..(start + step).min(size);
                }
                let block = Block { ranges: ranges.clone() };
                each(&block, first)?;
                first += block.elements();
            }
        }
        Ok(())
    }
}

/// Elements that are contiguous for the user: a range of each of the user's axes.
struct Block {
    ranges: Vec<Range<usize>>,
}

/// Elements that are neighbours where they are stored.
struct Run {
    /// The first one's place within the block, and from each to the next.
    seen: usize,
    seen_step: usize,
    /// The first one's place in the piece.
    stored: usize,
    count: usize,
}

impl Block {
    fn elements(&self) -> usize {
        self.ranges.iter().map(Range::len).product()
    }

    /// The part of a block that one piece holds, run by run.
    fn runs(&self, layout: &ViewLayout, held: &Range<usize>, mut each: impl FnMut(Run)) {
        let rank = self.ranges.len();
        let Some(along) = layout.neighbours() else { return each(Run { seen: 0, seen_step: 1, stored: 0, count: 1 }) };
        // what the piece holds of each axis, and how far a step goes in the block and in the piece
        let mut ranges = self.ranges.clone();
        let (mut seen_steps, mut stored_steps, mut begins) = (vec![1; rank], vec![0; rank], vec![0; rank]);
        for axis in (0..rank.saturating_sub(1)).rev() {
            seen_steps[axis] = seen_steps[axis + 1] * self.ranges[axis + 1].len();
        }
        let mut step = 1;
        for stored in (0..rank).rev() {
            let Some(axis) = layout.order.iter().position(|s| *s == stored) else { return };
            stored_steps[axis] = step;
            let is_cut = layout.cut == Some(stored);
            step *= if is_cut { held.len() } else { layout.stored[stored] };
            if is_cut {
                begins[axis] = held.start;
                ranges[axis] = ranges[axis].start.max(held.start)..ranges[axis].end.min(held.end);
            }
        }
        if ranges.iter().any(Range::is_empty) {
            return;
        }
        // the neighbours innermost, a cache line at a time, so that both sides are walked along their rows
        let outer: Vec<usize> = (0..rank).filter(|axis| *axis != along).collect();
        let places: usize = outer.iter().map(|axis| ranges[*axis].len()).product();
        for line in ranges[along].clone().step_by(LINE) {
            let count = LINE.min(ranges[along].end - line);
            for place in 0..places {
                let mut rest = place;
                let mut seen = (line - self.ranges[along].start) * seen_steps[along];
                let mut stored = (line - begins[along]) * stored_steps[along];
                for axis in outer.iter().rev() {
                    let at = ranges[*axis].start + rest % ranges[*axis].len();
                    rest /= ranges[*axis].len();
                    seen += (at - self.ranges[*axis].start) * seen_steps[*axis];
                    stored += (at - begins[*axis]) * stored_steps[*axis];
                }
                each(Run { seen, seen_step: seen_steps[along], stored, count });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each order of three axes, whole and cut along each of them in two unequal shards, against plain indices.
    #[test]
    fn every_order_and_cut_reads_and_writes_the_right_elements() {
        let stored = [5, 7, 40];
        let whole: Vec<f32> = (0..stored.iter().product::<usize>()).map(|i| i as f32).collect();
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        for order in orders {
            let dims: Vec<usize> = order.iter().map(|axis| stored[*axis]).collect();
            let mut expected = Vec::new();
            for place in 0..whole.len() {
                let (mut rest, mut at) = (place, [0; 3]);
                for axis in (0..3).rev() {
                    at[order[axis]] = rest % dims[axis];
                    rest /= dims[axis];
                }
                expected.push(whole[(at[0] * stored[1] + at[1]) * stored[2] + at[2]]);
            }
            for cut in [None, Some(0), Some(1), Some(2)] {
                let layout = ViewLayout {
                    shape: vec![dims[0] * dims[1], dims[2]],
                    order: order.to_vec(),
                    stored: stored.to_vec(),
                    cut,
                };
                let mut shards = match cut {
                    None => vec![(0..1, whole.clone())],
                    Some(axis) => [0..3, 3..stored[axis]]
                        .map(|range| (range.clone(), shard(&whole, stored, axis, range)))
                        .to_vec(),
                };
                let pieces = shards.iter().map(|(range, values)| Piece { range: range.clone(), values: &values[..] });
                let view = TensorView::new(layout.clone(), pieces.collect()).unwrap();
                assert_eq!(view.to_vec(), expected, "{order:?} {cut:?}");

                let wanted = shards.clone();
                shards.iter_mut().for_each(|(_, values)| values.fill(-1.0));
                let mut pieces: Vec<Piece<&mut [f32]>> = shards
                    .iter_mut()
                    .map(|(range, values)| Piece { range: range.clone(), values: &mut values[..] })
                    .collect();
                assert!(write(&layout, &mut pieces, &expected));
                assert_eq!(shards, wanted, "{order:?} {cut:?}");
            }
        }
    }

    fn shard(whole: &[f32], stored: [usize; 3], axis: usize, range: Range<usize>) -> Vec<f32> {
        let inner: usize = stored[axis + 1..].iter().product();
        let place = |i: usize| i / inner % stored[axis];
        whole.iter().enumerate().filter(|(i, _)| range.contains(&place(*i))).map(|(_, value)| *value).collect()
    }

    #[test]
    fn large_transposes_come_in_chunks() {
        let (rows, columns) = (300, 5000);
        let values: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
        let layout =
            ViewLayout { shape: vec![columns, rows], order: vec![1, 0], stored: vec![rows, columns], cut: None };
        let view = TensorView::new(layout, vec![Piece { range: 0..1, values: &values[..] }]).unwrap();
        let (mut at, mut largest) = (0, 0);
        view.chunks(|chunk| {
            for value in chunk {
                assert_eq!(*value, values[at % rows * columns + at / rows]);
                at += 1;
            }
            largest = largest.max(chunk.len());
            Ok::<(), ()>(())
        })
        .unwrap();
        assert_eq!(at, values.len());
        assert!(largest <= CHUNK + rows * LINE, "{largest}");
    }

    #[test]
    fn scalars_empty_tensors_and_pieces_that_do_not_fit() {
        let scalar = ViewLayout { shape: vec![], order: vec![], stored: vec![], cut: None };
        let view = TensorView::new(scalar.clone(), vec![Piece { range: 0..1, values: &[3.0][..] }]).unwrap();
        assert_eq!(view.to_vec(), [3.0]);
        assert!(TensorView::new(scalar, vec![]).is_none());
        let empty = ViewLayout { shape: vec![0, 3], order: vec![1, 0], stored: vec![3, 0], cut: None };
        assert!(TensorView::new(empty, vec![Piece { range: 0..1, values: &[][..] }]).unwrap().to_vec().is_empty());
        let cut = ViewLayout { shape: vec![4], order: vec![0], stored: vec![4], cut: Some(0) };
        let piece = |range: Range<usize>| Piece { values: &[0.0; 4][..range.len()], range };
        assert!(TensorView::new(cut.clone(), vec![piece(0..2), piece(1..3)]).is_none(), "they overlap");
        assert!(TensorView::new(cut.clone(), vec![piece(0..2)]).is_none(), "some are missing");
        assert!(TensorView::new(cut, vec![piece(2..4), piece(0..2)]).is_some());
    }
}
