//! Which row comes when: an order is a function of `(seed, epoch)`, not a list.
//!
//! ```text
//! permutation.rs  every row once, shuffled: O(1) memory, any position in O(1) time
//! windowed.rs     blocks shuffled, then rows within a window of blocks: for data larger than memory
//! weighted.rs     rows drawn by weight, with replacement
//! ```

mod permutation;
mod weighted;
mod windowed;

use std::ops::Range;
use std::sync::Arc;

pub use permutation::{Network, Order};
pub use weighted::Weights;
pub use windowed::{Place, Window, WindowOrder};

use crate::error::DataError;

/// How the rows of an epoch are ordered.
#[derive(Debug, Clone, Default)]
pub enum Sampling {
    /// As they come.
    InOrder,
    /// Every row once, shuffled anew each epoch.
    #[default]
    Shuffled,
    /// As many draws as there are rows, each row by its weight, with replacement.
    Weighted(Arc<Weights>),
}

/// The rows of one epoch, by position.
#[derive(Debug, Clone)]
pub enum EpochOrder {
    InOrder(u32),
    Shuffled(Order),
    Weighted { weights: Arc<Weights>, seed: u64, epoch: u64 },
}

impl EpochOrder {
    /// The order of `rows` rows in this epoch.
    pub fn new(sampling: &Sampling, rows: u32, seed: u64, epoch: u64) -> EpochOrder {
        match sampling {
            Sampling::InOrder => EpochOrder::InOrder(rows),
            Sampling::Shuffled => EpochOrder::Shuffled(Order::new(rows, seed, epoch)),
            Sampling::Weighted(weights) => EpochOrder::Weighted { weights: weights.clone(), seed, epoch },
        }
    }

    /// The rows at positions `start..start + out.len()`.
    #[inline(always)]
    pub fn fill(&self, start: u32, out: &mut [u32]) {
        match self {
            EpochOrder::InOrder(_) => out.iter_mut().zip(start..).for_each(|(row, position)| *row = position),
            EpochOrder::Shuffled(order) => order.fill(start, out),
            EpochOrder::Weighted { weights, seed, epoch } => weights.fill(*seed, *epoch, start, out),
        }
    }
}

/// The part of the work that one of several machines or processes does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    pub rank: u32,
    pub world: u32,
}

impl Default for Shard {
    fn default() -> Shard {
        Shard { rank: 0, world: 1 }
    }
}

impl Shard {
    /// This shard's positions of an epoch: the shards together have each position exactly once, and differ by at most one in
    /// length.
    pub fn positions(self, all: u32) -> Result<Range<u32>, DataError> {
        if self.rank >= self.world {
            return Err(DataError::Inconsistent(format!(
                "shard {} of {}: ranks count from 0 and stay below their number",
                self.rank, self.world
            )));
        }
        let border = |rank: u32| (all as u64 * rank as u64 / self.world as u64) as u32;
        Ok(border(self.rank)..border(self.rank + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_every_position() {
        for (all, world) in [(10, 3), (7, 7), (3, 5), (u32::MAX, 4), (0, 2)] {
            let mut next = 0;
            for rank in 0..world {
                let part = Shard { rank, world }.positions(all).unwrap();
                assert_eq!(part.start, next);
                assert!(part.len() as u32 >= all / world && part.len() as u32 <= all / world + 1);
                next = part.end;
            }
            assert_eq!(next, all);
        }
        assert!(Shard { rank: 2, world: 2 }.positions(5).is_err());
    }

    #[test]
    fn in_order_is_in_order() {
        let mut rows = [0; 3];
        EpochOrder::new(&Sampling::InOrder, 10, 1, 1).fill(4, &mut rows);
        assert_eq!(rows, [4, 5, 6]);
    }
}
