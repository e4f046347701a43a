//! A permutation of rows as a function of `(seed, epoch)`, not a list.
//!
//! A keyed permutation of `0..n` in O(1) memory, with any position in O(1) time: the same batches
//! for any number of threads, and a resumed run goes on where it stopped.
//!
//! An unbalanced Feistel network on `(hi, lo)`, where `lo` has `k ≈ log2(n)/2` bits and `hi` counts
//! `m = ⌈n / 2ᵏ⌉` blocks, so the network permutes fewer than `n + 2ᵏ` numbers: one in about √n lands
//! beyond `n` and walks on along its cycle. All else is straight-line 32-bit arithmetic, which
//! vectorises: 2 ns a row where [`Order::fill`] is inlined into AVX2 code, 5 ns in plain x86-64.

use crate::rng::{SplitMix64, mix};

/// Rounds: with 4 the distances between rows near in the order are as those of a true shuffle (with
/// 3 they are off by a percent); a tiny `n` needs more, its functions having few values to offer.
const USUAL: usize = 4;
const TINY: usize = 12;
/// Fewer rows than this are tiny.
const FEW: u32 = 64;

/// Rows drawn together: as many as a small batch has, so that loops of a known length remain, without a rest.
const LANES: usize = 32;

/// A permutation of `0..n`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    n: u32,
    /// Blocks of `2^low_bits` numbers.
    blocks: u32,
    low_bits: u32,
    keys: [Keys; TINY],
}

impl Order {
    /// The order of `n` rows in this epoch of a run with this seed.
    pub fn new(n: u32, seed: u64, epoch: u64) -> Order {
        let bits = u32::BITS - n.saturating_sub(1).leading_zeros();
        let low_bits = bits / 2;
        // Mixed apart, so that (seed, epoch + 1) and (seed + 1, epoch) are unrelated.
        let mut rng = SplitMix64::new(mix(seed) ^ mix(mix(!epoch)));
        Order {
            n,
            blocks: (n as u64).div_ceil(1 << low_bits) as u32,
            low_bits,
            keys: std::array::from_fn(|_| Keys { high: Key::new(&mut rng), low: Key::new(&mut rng) }),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> u32 {
        self.n
    }

    /// No rows.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// The network in numbers, for a device that draws rows itself.
    pub fn network(&self) -> Network {
        let rounds = if self.n < FEW { TINY } else { USUAL };
        let words = |keys: Keys| [keys.high.multiply, keys.high.add, keys.low.multiply, keys.low.add];
        Network { blocks: self.blocks, low_bits: self.low_bits, rounds: rounds as u32, keys: self.keys.map(words) }
    }

    /// The row at position `i`; positions beyond the end start over.
    pub fn at(&self, i: u32) -> u32 {
        let mut row = [0];
        self.fill(i, &mut row);
        row[0]
    }

    /// [`Order::fill`] with the widest vectors of the machine, as the numbers that a step takes.
    pub fn draw(&self, start: u32, out: &mut [i32]) {
        pulp::Arch::new().dispatch(Draw { order: self, start, rows: bytemuck::cast_slice_mut(out) });
    }

    /// The rows at positions `start..start + out.len()`; positions beyond the end start over.
    #[inline(always)]
    pub fn fill(&self, start: u32, out: &mut [u32]) {
        match self.n {
            0 => out.fill(0),
            1..FEW => self.fill_rounds::<TINY>(start, out),
            _ => self.fill_rounds::<USUAL>(start, out),
        }
    }

    #[inline(always)]
    fn fill_rounds<const ROUNDS: usize>(&self, start: u32, out: &mut [u32]) {
        let mut at = if start < self.n { start } else { start % self.n };
        let mut rest = out;
        while !rest.is_empty() {
            let room = (self.n - at) as usize;
            let (run, after) = rest.split_at_mut(room.min(rest.len()));
            self.fill_run::<ROUNDS>(at, run);
            at = 0;
            rest = after;
        }
    }

    /// Positions `start..start + out.len()`, all below `n`.
    #[inline(always)]
    fn fill_run<const ROUNDS: usize>(&self, start: u32, out: &mut [u32]) {
        for (chunk, at) in out.chunks_mut(LANES).zip((start..).step_by(LANES)) {
            let rows = self.rows_from::<ROUNDS>(at);
            match <&mut [u32; LANES]>::try_from(&mut *chunk) {
                Ok(whole) => *whole = rows,
                Err(_) => chunk.copy_from_slice(&rows[..chunk.len()]),
            }
        }
    }

    /// The rows at `LANES` positions; those beyond the end are any rows.
    #[inline(always)]
    fn rows_from<const ROUNDS: usize>(&self, start: u32) -> [u32; LANES] {
        let last = self.n - 1;
        let (mut rows, mut beyond) = ([0; LANES], 0);
        for (row, offset) in rows.iter_mut().zip(0..) {
            *row = self.permute::<ROUNDS>(start.wrapping_add(offset).min(last));
            beyond |= (*row > last) as u32;
        }
        // Along the cycle until back below `n`: it began there, so it comes back.
        while beyond != 0 {
            beyond = 0;
            for row in &mut rows {
                let on = self.permute::<ROUNDS>(*row);
                *row = if *row > last { on } else { *row };
                beyond |= (*row > last) as u32;
            }
        }
        rows
    }

    /// The network on `0..blocks · 2^low_bits`.
    #[inline(always)]
    fn permute<const ROUNDS: usize>(&self, x: u32) -> u32 {
        let mask = (1u32 << self.low_bits) - 1;
        let (mut hi, mut lo) = (x >> self.low_bits, x & mask);
        for keys in &self.keys[..ROUNDS] {
            hi += keys.high.below(lo, self.blocks); // both < blocks ≤ 2¹⁶: no overflow
            hi = hi.min(hi.wrapping_sub(self.blocks)); // mod blocks
            lo ^= keys.low.hash(hi) >> 16 >> (16 - self.low_bits); // the top low_bits ≤ 16 bits
        }
        hi << self.low_bits | lo
    }
}

/// Compiled for each kind of processor, so all it calls has to be inlined; a closure would not be.
struct Draw<'a> {
    order: &'a Order,
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

/// The numbers of a permutation: `x ↦ (x >> low_bits, x mod 2^low_bits)` goes through the first `rounds` of `keys`, each
/// `hi += ⌊(k₀·lo + k₁) · blocks / 2³²⌋ mod blocks; lo ^= the top low_bits of k₂·hi + k₃`, again while the result is no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    pub blocks: u32,
    pub low_bits: u32,
    pub rounds: u32,
    pub keys: [[u32; 4]; TINY],
}

/// The functions of one round: `hi += high(lo); lo ^= low(hi)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Keys {
    high: Key,
    low: Key,
}

/// `x ↦ multiply · x + add` mod 2³²; the high bits count. Adding in one half and xoring in the other
/// keeps the rounds from collapsing into one affine map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    multiply: u32,
    add: u32,
}

impl Key {
    fn new(rng: &mut SplitMix64) -> Key {
        let bits = rng.next_u64();
        Key { multiply: (bits >> 32) as u32 | 1, add: bits as u32 }
    }

    #[inline(always)]
    fn hash(self, x: u32) -> u32 {
        x.wrapping_mul(self.multiply).wrapping_add(self.add)
    }

    /// `⌊hash(x) · bound / 2³²⌋` for a bound of at most 2¹⁶: in halves, as vectors have no 64-bit products of all their lanes.
    #[inline(always)]
    fn below(self, x: u32, bound: u32) -> u32 {
        let hash = self.hash(x);
        ((hash >> 16) * bound + (((hash & 0xffff) * bound) >> 16)) >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: u32, seed: u64, epoch: u64) -> Vec<u32> {
        let mut out = vec![0; n as usize];
        Order::new(n, seed, epoch).fill(0, &mut out);
        out
    }

    #[test]
    fn is_a_bijection_for_many_sizes() {
        let powers = (0..17).flat_map(|bit| [(1u32 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        let primes = [7, 13, 97, 997, 7919, 104_729];
        for n in (0u32..200).chain(powers).chain(primes).chain([60_000, 100_000]) {
            for seed in 0..3 {
                let order = Order::new(n, seed, 5);
                let mut seen = vec![false; n as usize];
                for row in rows(n, seed, 5) {
                    assert!(!std::mem::replace(&mut seen[row as usize], true), "n {n}");
                }
                let first = rows(n, seed, 5);
                assert!((0..n.min(50)).all(|i| order.at(i) == first[i as usize]));
            }
        }
    }

    #[test]
    fn the_largest_size_stays_in_range() {
        for n in [u32::MAX, u32::MAX - 70_000, 1 << 31, (1 << 31) + 1] {
            let order = Order::new(n, 1, 1);
            let mut out = [0; 64];
            order.fill(n - 32, &mut out);
            assert!(out.iter().all(|row| *row < n));
            assert_eq!(out[32], order.at(0), "positions start over");
        }
    }

    #[test]
    fn fill_agrees_with_at_from_anywhere() {
        let order = Order::new(1000, 3, 4);
        for start in [0, 1, 31, 968, 999, 1000, 5000] {
            let mut out = [0; 77];
            order.fill(start, &mut out);
            for (i, row) in out.iter().enumerate() {
                assert_eq!(*row, order.at((start + i as u32) % 1000));
            }
        }
    }

    #[test]
    fn seed_and_epoch_both_matter() {
        let base = rows(1000, 1, 1);
        for other in [rows(1000, 1, 2), rows(1000, 2, 1), rows(1000, 2, 0)] {
            let same = base.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(same < 10, "{same} rows in the same place");
        }
        assert_eq!(base, rows(1000, 1, 1));
    }

    #[test]
    fn few_orders_of_few_rows_are_all_reached() {
        let mut seen = std::collections::HashMap::new();
        for epoch in 0..2400 {
            *seen.entry(rows(4, 9, epoch)).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 24);
        assert!(seen.values().all(|count| (50..200).contains(count)), "{seen:?}");
    }

    /// χ² of counts against their equal share, as standard deviations from its mean.
    fn excess(counts: &[u32]) -> f64 {
        let total: u32 = counts.iter().sum();
        let share = total as f64 / counts.len() as f64;
        let chi2: f64 = counts.iter().map(|c| (*c as f64 - share).powi(2) / share).sum();
        let freedom = counts.len() as f64 - 1.0;
        (chi2 - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn rows_and_places_are_independent() {
        for n in [16u32, 496, 768, 4096, 8176] {
            let bin = |v: u32| (v as u64 * 16 / n as u64) as usize;
            let mut place = [0; 256]; // position, row
            let mut across = [0; 256]; // row at a position in one epoch, and in the next
            let mut step = [0; 15]; // distance between neighbours
            for epoch in 0..400_000 / n as u64 {
                let (now, next) = (rows(n, 3, epoch), rows(n, 3, epoch + 1));
                for i in 0..n as usize {
                    place[bin(i as u32) * 16 + bin(now[i])] += 1;
                    across[bin(now[i]) * 16 + bin(next[i])] += 1;
                    let gap = (now[(i + 1) % n as usize] + n - now[i]) % n;
                    step[((gap - 1) as u64 * 15 / (n - 1) as u64) as usize] += 1;
                }
            }
            assert!(excess(&place) < 5.0, "n {n}: place {}", excess(&place));
            assert!(excess(&across) < 5.0, "n {n}: across {}", excess(&across));
            if (n - 1) % 15 == 0 {
                assert!(excess(&step) < 5.0, "n {n}: step {}", excess(&step));
            }
        }
    }
}
