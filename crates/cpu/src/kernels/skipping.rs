//! Products with a side that a relu or a dropout has left full of zeros: half of the multiply-adds would change nothing. The
//! elements that are not zero are listed, a few rows and a stretch of the sum at a time, and only they are multiplied.
//!
//! Each sum is taken in the order of k, as in the tiles: the results are the same bits, as long as the other side is finite, and
//! a unit of rows with too few zeros is left to the tiles.

use std::arch::x86_64::*;
use std::cell::UnsafeCell;
use std::ops::Range;

use citius_graph::scalar::Binary;
use citius_plan::{BufferId, Instr, Matmul, Operand, Plan, Program, Var, Work};

use crate::interpreter::{self, BLOCK, Source};
use crate::isa::Isa;
use crate::memory::Aligned;
use crate::x86::turn_block;

/// Rows of the dense side that stay in the first-level cache while all rows of a unit are multiplied by them.
const DEPTH: usize = 32;
/// Such stretches whose elements are listed together: longer reads from the side with zeros.
const STRETCHES: usize = 4;
const LISTED: usize = DEPTH * STRETCHES;
/// Most rows of a unit.
const HEIGHT: usize = 112;
/// Room of a list: vectors are written whole.
const ROOM: usize = DEPTH + LANES;
pub const LANES: usize = 16;
/// Vectors of the result in registers.
const WIDE: usize = 16;
/// Wider results would not stay in the second-level cache.
pub const WIDEST: usize = 1024;
/// Products with fewer multiply-adds are not worth the lists.
const FEWEST: usize = 1 << 24;
/// With a larger share of elements that are not zero, tiles are faster.
pub const FEW: f64 = 0.65;

/// `C[m,n] = Σ S[m,k]·D[k,n]`, where S has the zeros.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sides {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Strides of S; one of them is 1.
    pub row: usize,
    pub col: usize,
    /// Distance of the rows of D.
    pub dense_row: usize,
    /// S is the right side of the product, and C the transpose of its result.
    pub turned: bool,
    /// The share of S that is not zero, as far as the expression tells that makes it.
    pub kept: f64,
}

pub struct Skipping {
    sides: Sides,
    /// Rows of a unit, a multiple of the rows (or columns) of a tile.
    height: usize,
}

/// What a unit needs beside its operands.
struct Scratch {
    /// For each stretch, of each row.
    values: Vec<[f32; ROOM]>,
    /// Rows of D from the first of the stretch.
    numbers: Vec<[u32; ROOM]>,
    counts: Vec<usize>,
    /// Rows of S that are stored as columns.
    rows: Vec<[f32; LISTED]>,
    /// Rows of D, one after the other.
    dense: Aligned,
    /// Rows of C, one after the other.
    sums: Aligned,
}

impl Sides {
    /// `None` where no side is known for zeros, the product is small, or its shape does not fit.
    pub fn of(work: &Matmul, plan: &Plan, isa: Isa) -> Option<Sides> {
        let plain = work.outer.is_empty() && work.deep.is_empty() && isa >= Isa::Avx512;
        if !plain || work.m * work.n * work.k < FEWEST {
            return None;
        }
        let (a, b) = (&work.a, &work.b);
        let (m, n, k) = (work.m, work.n, work.k);
        let (left, right) = (kept(plan, a.buffer), kept(plan, b.buffer));
        let sides = if (a.row == 1 || a.col == 1) && left < 1.0 {
            Sides { m, n, k, row: a.row, col: a.col, dense_row: b.row, turned: false, kept: left }
        } else if a.row == 1 && right < 1.0 && is_product(work) {
            Sides { m: n, n: m, k, row: 1, col: b.row, dense_row: a.col, turned: true, kept: right }
        } else {
            return None;
        };
        (sides.n.is_multiple_of(4 * LANES) && sides.n <= WIDEST).then_some(sides)
    }
}

impl Skipping {
    /// `tile`: of the dense product.
    pub fn new(work: &Matmul, plan: &Plan, isa: Isa, tile: (usize, usize)) -> Option<Skipping> {
        let sides = Sides::of(work, plan, isa)?;
        let tile = if sides.turned { tile.1 } else { tile.0 };
        (1..=HEIGHT).contains(&tile).then_some(Skipping { sides, height: HEIGHT / tile * tile })
    }

    pub fn units(&self) -> usize {
        self.sides.m.div_ceil(self.height)
    }

    /// Rows of the product that a unit makes, or columns where it is [`Skipping::turned`].
    pub fn lines(&self, unit: usize) -> Range<usize> {
        unit * self.height..self.sides.m.min((unit + 1) * self.height)
    }

    pub fn turned(&self) -> bool {
        self.sides.turned
    }

    /// `false` when there are too few zeros: nothing was written.
    ///
    /// SAFETY: as `Task::run`; `a`, `b` and `bases` lead to the operands of `work`, which this was made for.
    pub unsafe fn run(&self, work: &Matmul, unit: usize, a: *const f32, b: *const f32, bases: &[*mut u8]) -> bool {
        let (sparse, dense) = if self.sides.turned { (b, a) } else { (a, b) };
        let lines = self.lines(unit);
        let scratch = &mut *scratch();
        // SAFETY: made for `Isa::Avx512` only
        if !self.multiply(scratch, sparse.add(lines.start * self.sides.row), dense, lines.len()) {
            return false;
        }
        match self.sides.turned {
            true => store_turned(work, scratch.sums.pointer() as *const f32, lines, bases),
            false => store(work, scratch.sums.pointer() as *const f32, lines, bases),
        }
        true
    }

    /// The sums of `height` rows, unless there are too few zeros.
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,popcnt")]
    unsafe fn multiply(&self, scratch: &mut Scratch, sparse: *const f32, dense: *const f32, height: usize) -> bool {
        for start in (0..self.sides.k).step_by(LISTED) {
            let depth = LISTED.min(self.sides.k - start);
            let listed = self.list(scratch, sparse.add(start * self.sides.col), height, depth);
            if start == 0 && listed as f64 > FEW * (height * depth) as f64 {
                return false;
            }
            for (stretch, at) in (start..start + depth).step_by(DEPTH).enumerate() {
                let deep = DEPTH.min(start + depth - at);
                let first = at == 0;
                for col in (0..self.sides.n).step_by(WIDE * LANES) {
                    let cols = (WIDE * LANES).min(self.sides.n - col);
                    let rows = dense.add(at * self.sides.dense_row + col);
                    match cols / LANES {
                        16 => self.rows::<16>(scratch, stretch, rows, deep, col, height, first),
                        12 => self.rows::<12>(scratch, stretch, rows, deep, col, height, first),
                        8 => self.rows::<8>(scratch, stretch, rows, deep, col, height, first),
                        _ => self.rows::<4>(scratch, stretch, rows, deep, col, height, first),
                    }
                }
            }
        }
        true
    }

    /// Lists `depth` elements of each row; returns how many are not zero.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,popcnt")]
    unsafe fn list(&self, scratch: &mut Scratch, sparse: *const f32, height: usize, depth: usize) -> usize {
        let Scratch { values, numbers, counts, rows, .. } = scratch;
        if self.sides.col != 1 {
            for row in (0..height).step_by(LANES) {
                for at in (0..depth).step_by(LANES) {
                    let (from, to) = (sparse.add(at * self.sides.col + row), rows[row].as_mut_ptr().add(at));
                    turn_block(from, self.sides.col, to, LISTED, LANES.min(height - row), LANES.min(depth - at));
                }
            }
        }
        let along = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let mut listed = 0;
        for (row, turned) in rows.iter().enumerate().take(height) {
            let line = if self.sides.col == 1 { sparse.add(row * self.sides.row) } else { turned.as_ptr() };
            for (stretch, at) in (0..depth).step_by(DEPTH).enumerate() {
                let list = stretch * HEIGHT + row;
                let (value, number) = (values[list].as_mut_ptr(), numbers[list].as_mut_ptr());
                let mut count = 0;
                for k in (0..DEPTH.min(depth - at)).step_by(LANES) {
                    let left = (depth - at - k).min(LANES);
                    let mask = (0xffffu32 >> (LANES - left)) as __mmask16;
                    let x = _mm512_maskz_loadu_ps(mask, line.add(at + k));
                    let found = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(x, _mm512_setzero_ps());
                    let here = _mm512_add_epi32(along, _mm512_set1_epi32(k as i32));
                    // to a register first: compressing into memory is slow on some machines
                    _mm512_storeu_ps(value.add(count), _mm512_maskz_compress_ps(found, x));
                    _mm512_storeu_si512(number.add(count) as *mut _, _mm512_maskz_compress_epi32(found, here));
                    count += found.count_ones() as usize;
                }
                counts[list] = count;
                listed += count;
            }
        }
        listed
    }

    /// Adds the listed elements of a stretch times `deep` rows of D, `WIDE` vectors of them.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,popcnt")]
    unsafe fn rows<const WIDE: usize>(
        &self,
        scratch: &mut Scratch,
        stretch: usize,
        mut dense: *const f32,
        deep: usize,
        col: usize,
        height: usize,
        first: bool,
    ) {
        let Scratch { values, numbers, counts, .. } = scratch;
        let (packed, sums) = (scratch.dense.pointer() as *mut f32, scratch.sums.pointer() as *mut f32);
        if self.sides.dense_row != WIDE * LANES {
            for k in 0..deep {
                let (from, to) = (dense.add(k * self.sides.dense_row), packed.add(k * WIDE * LANES));
                std::ptr::copy_nonoverlapping(from, to, WIDE * LANES);
            }
            dense = packed;
        }
        for row in 0..height {
            let sum = sums.add(row * self.sides.n + col);
            let list = stretch * HEIGHT + row;
            let (value, number) = (values[list].as_ptr(), numbers[list].as_ptr());
            let mut total = [_mm512_setzero_ps(); WIDE];
            if !first {
                for (j, t) in total.iter_mut().enumerate() {
                    *t = _mm512_loadu_ps(sum.add(j * LANES));
                }
            }
            for i in 0..counts[list] {
                let x = _mm512_set1_ps(*value.add(i));
                let line = dense.add(*number.add(i) as usize * (WIDE * LANES));
                for (j, t) in total.iter_mut().enumerate() {
                    *t = _mm512_fmadd_ps(x, _mm512_loadu_ps(line.add(j * LANES)), *t);
                }
            }
            for (j, t) in total.iter().enumerate() {
                _mm512_storeu_ps(sum.add(j * LANES), *t);
            }
        }
    }
}

/// Rows of sums, `work.m` numbers each, are columns of the result, on which nothing runs.
///
/// SAFETY: as `Task::run`, on a machine with AVX-512.
pub unsafe fn store_turned(work: &Matmul, sums: *const f32, lines: Range<usize>, bases: &[*mut u8]) {
    let operand = &work.operands[work.stores[0].1];
    let to = bases[work.stores[0].1] as *mut f32;
    for row in (0..work.m).step_by(LANES) {
        for (at, col) in lines.clone().step_by(LANES).enumerate() {
            let from = sums.add(at * LANES * work.m + row);
            let width = LANES.min(lines.end - col);
            turn_block(from, work.m, to.add(row * operand.row + col), operand.row, LANES, width);
        }
    }
}

/// The epilogue, row by row.
///
/// SAFETY: as `Task::run`, on a machine with AVX-512.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
pub unsafe fn store(work: &Matmul, sums: *const f32, lines: Range<usize>, bases: &[*mut u8]) {
    let registers = &mut *interpreter::registers(&work.program);
    for (i, row) in lines.enumerate() {
        for col in (0..work.n).step_by(BLOCK) {
            let n = BLOCK.min(work.n - col);
            let sums = std::slice::from_raw_parts(sums.add(i * work.n + col), n);
            let at = |i: usize| {
                let o = &work.operands[i];
                bases[i].add((row * o.row + col * o.col) * 4)
            };
            let load = |i: usize, out: &mut [f32]| {
                let o = &work.operands[i];
                Source { pointer: at(i), dtype: o.dtype, stride: o.col }.read(out);
            };
            interpreter::run::<true>(&work.program, registers, n, n, load, sums);
            for &(value, target) in &work.stores {
                let (to, stride) = (at(target) as *mut f32, work.operands[target].col);
                for (j, &x) in registers.value(value, n).iter().enumerate() {
                    *to.add(j * stride) = x;
                }
            }
        }
    }
}

/// Nothing runs on the result, and its rows are rows in memory.
fn is_product(work: &Matmul) -> bool {
    let [(value, target)] = work.stores[..] else { return false };
    work.program.instrs.get(value) == Some(&Instr::Product) && work.operands[target].col == 1
}

/// The share of a buffer that is not zero, as far as the expression tells that makes it; 1 where it does not tell.
fn kept(plan: &Plan, buffer: BufferId) -> f64 {
    let stored = |work: &Work| -> Option<f64> {
        let (program, stores, operands) = match work {
            Work::Loop(l) => (&l.program, &l.stores, &l.operands),
            Work::Matmul(m) => (&m.program, &m.stores, &m.operands),
            _ => return work.touches().1.contains(&buffer).then_some(1.0),
        };
        let writes = work.touches().1.contains(&buffer);
        let store = stores.iter().find(|s| operands[s.1].buffer == buffer);
        let share = |s: &(Var, usize)| Made { plan, program, operands }.kept(s.0);
        writes.then(|| store.map_or(1.0, share))
    };
    let writers: Vec<f64> = plan.calls.iter().filter_map(|c| stored(&c.work)).collect();
    if let [one] = writers[..] { one } else { 1.0 }
}

/// The values of a program.
struct Made<'a> {
    plan: &'a Plan,
    program: &'a Program,
    operands: &'a [Operand],
}

impl Made<'_> {
    /// The share of a value that is not zero.
    fn kept(&self, value: Var) -> f64 {
        let zero = |v: Var| matches!(self.program.instrs[v], Instr::Const(c) if c == 0.0);
        match self.program.instrs[value] {
            Instr::Select(c, a, b) if zero(b) => self.chance(c) * self.kept(a),
            Instr::Select(c, a, b) if zero(a) => (1.0 - self.chance(c)) * self.kept(b),
            Instr::Select(_, a, b) => self.kept(a).max(self.kept(b)),
            Instr::Binary(Binary::Max, a, b) if zero(a) || zero(b) => 0.5,
            Instr::Binary(Binary::Mul, a, b) => self.kept(a).min(self.kept(b)),
            _ => 1.0,
        }
    }

    /// How often a condition holds: told by the number that random ones are compared with, else every second time.
    fn chance(&self, condition: Var) -> f64 {
        let Instr::Binary(Binary::Lt | Binary::Le, a, b) = self.program.instrs[condition] else { return 0.5 };
        match (self.program.instrs[a], self.program.instrs[b]) {
            (Instr::Load(i), Instr::Const(p)) if self.is_random(i) => (p as f64).clamp(0.0, 1.0),
            (Instr::Const(p), Instr::Load(i)) if self.is_random(i) => 1.0 - (p as f64).clamp(0.0, 1.0),
            _ => 0.5,
        }
    }

    fn is_random(&self, operand: usize) -> bool {
        let buffer = self.operands[operand].buffer;
        self.plan.calls.iter().any(|call| matches!(&call.work, Work::Random(r) if r.out == buffer))
    }
}

/// This thread's, made in its first step.
fn scratch() -> *mut Scratch {
    thread_local! {
        static SCRATCH: UnsafeCell<Option<Box<Scratch>>> = const { UnsafeCell::new(None) };
    }
    SCRATCH.with(|cell| {
        // SAFETY: one kernel at a time runs on a thread, and no reference of an earlier one is alive.
        let scratch = unsafe { &mut *cell.get() };
        let make = || {
            Box::new(Scratch {
                values: vec![[0.0; ROOM]; STRETCHES * HEIGHT],
                numbers: vec![[0; ROOM]; STRETCHES * HEIGHT],
                counts: vec![0; STRETCHES * HEIGHT],
                rows: vec![[0.0; LISTED]; HEIGHT],
                dense: Aligned::new(DEPTH * WIDE * LANES * 4),
                sums: Aligned::new(HEIGHT * WIDEST * 4),
            })
        };
        &mut **scratch.get_or_insert_with(make) as *mut Scratch
    })
}

#[cfg(test)]
mod tests {
    use citius_graph::{Graph, random};

    use super::*;
    use crate::{Driver, Executable, Flow, Inputs, Memory, Options, Outputs};

    struct Keep(Vec<Vec<u32>>);

    impl Driver for Keep {
        fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
            self.0 = (0..3).map(|i| outputs.f32(i).iter().map(|v| v.to_bits()).collect()).collect();
            Flow::Continue
        }
    }

    /// Neither a multiple of anything, with enough arithmetic.
    const ROWS: usize = 130;
    const DEEP: usize = 300;
    const WIDTH: usize = 448;

    /// `h·w`, `hᵀ·dy` and `dyᵀ·h` for `h = relu(x)`, in a way that tells of the zeros or not; and how many products skip them.
    fn products(told: bool, x: &[f32], threads: usize) -> (Vec<Vec<u32>>, usize) {
        let g = Graph::new();
        let mut h = g.input("x", &[ROWS, DEEP]).relu();
        if !told {
            h = h + g.input("nothing", &[ROWS, DEEP]);
        }
        let (w, dy) = (g.input("w", &[DEEP, WIDTH]), g.input("dy", &[ROWS, WIDTH]));
        g.output("rows", &(h.matmul(&w) + 1.0));
        g.output("columns", &h.t().matmul(&dy));
        g.output("turned", &dy.t().matmul(&h));
        let plan = citius_plan::compile(&g).unwrap();
        let skipping = |work: &Work| match work {
            Work::Matmul(m) => Skipping::new(m, &plan, Isa::Avx512, (14, 32)).is_some(),
            _ => false,
        };
        let count = plan.calls.iter().filter(|c| skipping(&c.work)).count();
        let numbers = |stream, n| (0..n as u64).map(|i| random::uniform(0, stream, i) - 0.5).collect::<Vec<f32>>();
        let (w, dy, nothing) = (numbers(2, DEEP * WIDTH), numbers(3, ROWS * WIDTH), vec![0.0; ROWS * DEEP]);
        let inputs = Inputs::new().f32("x", x).f32("w", &w).f32("dy", &dy).f32("nothing", &nothing);
        let mut memory = Memory::new(0);
        let options = Options { threads, isa: Some(Isa::Avx512), ..Options::default() };
        let mut step = Executable::new(plan, &mut memory, options).unwrap();
        let mut kept = Keep(vec![]);
        step.run(&mut memory, &inputs, 0, 1, &mut kept).unwrap();
        (kept.0, count)
    }

    #[test]
    fn the_bits_are_those_of_tiles() {
        if Isa::detect() < Isa::Avx512 {
            return;
        }
        let number = |i: u64| random::uniform(0, 1, i);
        // about half are zeros; none
        for below in [0.5, 0.0] {
            let x: Vec<f32> = (0..(ROWS * DEEP) as u64).map(|i| number(i) - below).collect();
            let (tiles, none) = products(false, &x, 1);
            assert_eq!(none, 0, "what is added may be anything");
            for threads in [1, 2, 3] {
                let (skipped, count) = products(true, &x, threads);
                assert_eq!(count, 3);
                assert!(skipped == tiles, "{threads} threads, {below} below zero");
            }
        }
    }

    #[test]
    fn what_is_not_finite_shows_where_it_is_multiplied() {
        if Isa::detect() < Isa::Avx512 {
            return;
        }
        let mut x: Vec<f32> = (0..(ROWS * DEEP) as u64).map(|i| random::uniform(0, 1, i) - 0.5).collect();
        x[5 * DEEP] = f32::NAN;
        let (results, _) = products(true, &x, 1);
        assert!(results[0][5 * WIDTH..6 * WIDTH].iter().all(|bits| f32::from_bits(*bits).is_nan()));
        assert!(results[0][..5 * WIDTH].iter().all(|bits| f32::from_bits(*bits).is_finite()));
    }
}
