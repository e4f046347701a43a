//! The order of rows that are read in blocks: blocks shuffled, then rows shuffled within windows of several blocks.
//!
//! Only the blocks of a window and of the next one need be in memory, every row comes once, and any position can be found from
//! `(seed, epoch)` and the blocks' sizes.

use crate::order::Order;
use crate::rng::mix;

/// The rows of one epoch of a stream.
#[derive(Debug, Clone)]
pub struct WindowOrder {
    windows: Vec<Window>,
    /// Blocks in the order of their windows, and for each its first index among the window's rows.
    blocks: Vec<(u32, u32)>,
    rows: u32,
    shuffled: Option<(u64, u64)>,
}

/// Blocks whose rows are mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Position of its first row in the epoch.
    pub start: u32,
    pub rows: u32,
    /// Its blocks' places in the epoch's list of blocks.
    first_block: u32,
    pub blocks: u32,
}

/// Where a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Among the blocks of its window.
    pub block: u32,
    /// Row within the block.
    pub row: u32,
}

impl WindowOrder {
    /// The order of this epoch. `starts`: where each block begins, and the end; windows are closed once they have `window` rows.
    /// `shuffle`: whether to mix at all.
    pub fn new(starts: &[u32], window: u32, shuffle: bool, seed: u64, epoch: u64) -> WindowOrder {
        let count = starts.len().saturating_sub(1) as u32;
        let order = Order::new(count, mix(seed), epoch);
        let mut list = vec![0; count as usize];
        match shuffle {
            true => order.fill(0, &mut list),
            false => list.iter_mut().zip(0..).for_each(|(block, i)| *block = i),
        }
        let mut windows: Vec<Window> = Vec::new();
        let mut blocks = Vec::with_capacity(list.len());
        let mut rows = 0;
        for (i, block) in list.into_iter().enumerate() {
            let size = starts[block as usize + 1] - starts[block as usize];
            match windows.last_mut() {
                Some(open) if open.rows.saturating_add(size) <= window => {
                    blocks.push((block, open.rows));
                    (open.rows, open.blocks) = (open.rows + size, open.blocks + 1);
                }
                _ => {
                    blocks.push((block, 0));
                    windows.push(Window { start: rows, rows: size, first_block: i as u32, blocks: 1 });
                }
            }
            rows += size;
        }
        WindowOrder { windows, blocks, rows, shuffled: shuffle.then_some((seed, epoch)) }
    }

    /// Rows in the epoch.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// The number of the window that holds a position.
    pub fn window_at(&self, position: u32) -> usize {
        self.windows.partition_point(|w| w.start <= position).saturating_sub(1)
    }

    /// The block numbers of a window.
    pub fn blocks(&self, window: usize) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.range(window).iter().map(|(block, _)| *block)
    }

    fn range(&self, window: usize) -> &[(u32, u32)] {
        let window = &self.windows[window];
        &self.blocks[window.first_block as usize..][..window.blocks as usize]
    }

    /// Where the rows at positions `start..` are, all within one window.
    pub fn places(&self, window: usize, start: u32, out: &mut [Place], scratch: &mut Vec<u32>) {
        let Window { start: first, rows, .. } = self.windows[window];
        scratch.clear();
        scratch.resize(out.len(), 0);
        match self.shuffled {
            Some((seed, epoch)) => Order::new(rows, seed, mix(epoch) ^ window as u64).fill(start - first, scratch),
            None => scratch.iter_mut().zip(start - first..).for_each(|(index, i)| *index = i),
        }
        let blocks = self.range(window);
        // mostly blocks are of one size, all but one at the end of a file
        let size = blocks.get(1).map_or(rows, |(_, first)| *first).max(1);
        for (place, index) in out.iter_mut().zip(&*scratch) {
            let guess = ((index / size) as usize).min(blocks.len() - 1);
            let begins = |block: usize| blocks.get(block).is_some_and(|(_, first)| first <= index);
            let block = match begins(guess) && !begins(guess + 1) {
                true => guess,
                false => blocks.partition_point(|(_, first)| first <= index) - 1,
            };
            *place = Place { block: block as u32, row: index - blocks[block].1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(order: &WindowOrder, starts: &[u32]) -> Vec<u32> {
        let mut all = Vec::new();
        for window in 0..order.windows().len() {
            let Window { start, rows, .. } = order.windows()[window];
            let mut places = vec![Place::default(); rows as usize];
            order.places(window, start, &mut places, &mut Vec::new());
            let blocks: Vec<u32> = order.blocks(window).collect();
            all.extend(places.iter().map(|p| starts[blocks[p.block as usize] as usize] + p.row));
        }
        all
    }

    #[test]
    fn every_row_comes_once_and_windows_are_bounded() {
        let starts = [0, 10, 15, 15, 40, 47, 60, 61];
        for window in [1, 12, 30, 1000] {
            for epoch in 0..5 {
                let order = WindowOrder::new(&starts, window, true, 7, epoch);
                let mut seen = rows(&order, &starts);
                assert!(order.windows().iter().all(|w| w.rows <= window.max(25)));
                seen.sort_unstable();
                assert_eq!(seen, (0..61).collect::<Vec<_>>());
            }
        }
        let (a, b) = (WindowOrder::new(&starts, 30, true, 7, 0), WindowOrder::new(&starts, 30, true, 7, 1));
        assert_ne!(rows(&a, &starts), rows(&b, &starts));
    }

    #[test]
    fn in_order_without_shuffling_and_from_any_position() {
        let starts = [0, 4, 9, 11];
        let order = WindowOrder::new(&starts, 6, false, 0, 0);
        assert_eq!(rows(&order, &starts), (0..11).collect::<Vec<_>>());
        let order = WindowOrder::new(&starts, 100, true, 3, 3);
        let all = rows(&order, &starts);
        let mut places = vec![Place::default(); 4];
        order.places(order.window_at(5), 5, &mut places, &mut Vec::new());
        let blocks: Vec<u32> = order.blocks(0).collect();
        let part: Vec<u32> = places.iter().map(|p| starts[blocks[p.block as usize] as usize] + p.row).collect();
        assert_eq!(part, all[5..9]);
        assert_eq!(WindowOrder::new(&[0], 5, true, 0, 0).windows().len(), 0);
    }
}
