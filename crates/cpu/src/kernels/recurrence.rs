//! Recurrent layers, forward and back through time. Sequences do not meet, so a unit is sixteen of them, side by side in the
//! lanes of vectors, and walks all steps by itself: state, products and gradients stay in the first-level cache, weights are
//! broadcast. Only what others read is turned into rows; the notes for the way back stay as they are.

use std::cell::UnsafeCell;
use std::ops::Range;

use citius_graph::ops::recurrence::{Cell, Scan};
use citius_plan::{Recurrence, RecurrenceGradient};

use crate::isa::Isa;
use crate::lanes::{LANES, Lanes, Line, Plain, sigmoid, tanh};

pub struct RecurrenceTask {
    work: Recurrence,
    isa: Isa,
    products: *const f32,
    weights: *const f32,
    biases: Option<[*const f32; 2]>,
    start: [*const f32; 2],
    lengths: *const f32,
    out: *mut f32,
}

impl RecurrenceTask {
    pub fn new(work: &Recurrence, isa: Isa) -> RecurrenceTask {
        let none = std::ptr::null();
        let out = std::ptr::null_mut();
        let work = work.clone();
        RecurrenceTask { work, isa, products: none, weights: none, biases: None, start: [none; 2], lengths: none, out }
    }

    pub fn bind(&mut self, pointers: &[*mut u8]) {
        let at = |id: usize| pointers[id] as *const f32;
        let work = &self.work;
        self.products = at(work.products);
        self.weights = at(work.weights);
        self.biases = work.biases.map(|both| both.map(at));
        work.start.iter().zip(&mut self.start).for_each(|(id, to)| *to = at(*id));
        self.lengths = work.lengths.map_or(std::ptr::null(), at);
        self.out = pointers[work.out] as *mut f32;
    }

    pub fn units(&self) -> usize {
        self.work.rows.div_ceil(LANES)
    }

    /// SAFETY: as `Task::run`; the plan's verifier checked the size of every buffer against steps, rows and width.
    pub unsafe fn run(&self, units: Range<usize>) {
        for unit in units {
            match self.isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx => self.walk_avx512(unit),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => self.walk_avx2(unit),
                _ => self.walk::<Plain<false>>(unit),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
    unsafe fn walk_avx512(&self, unit: usize) {
        self.walk::<std::arch::x86_64::__m512>(unit)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn walk_avx2(&self, unit: usize) {
        self.walk::<Plain<true>>(unit)
    }

    #[inline(always)]
    unsafe fn walk<V: Lanes>(&self, unit: usize) {
        let Recurrence { scan, rows, width, .. } = self.work;
        let group = Group::new(rows, unit);
        let (cell, gates) = (scan.cell, scan.cell.gates() * width);
        let mut room = scratch(3 * width + 2 * gates + gates.div_ceil(LANES));
        let h = room.take(width);
        let c = room.take(width);
        let from_state = room.take(gates);
        let from_input = room.take(gates);
        let bias = room.take(gates.div_ceil(LANES));
        group.starts::<V>(self.start[0], h, width);
        group.starts::<V>(self.start[1], c, width);
        self.add_biases(bias);
        let slot = |n: usize| self.out.add((n * rows + group.first) * width);
        group.to_rows::<V>(h, slot(scan.start_slot()), width);
        let notes = match self.work.notes {
            true => self.out.add(scan.notes_at(rows, width) + unit * scan.steps * cell.slopes() * width * LANES),
            false => std::ptr::null_mut(),
        };
        let lengths = group.lengths::<V>(self.lengths);
        for n in 0..scan.steps {
            let t = in_order(&scan, n);
            group.to_lanes::<V>(self.products.add((t * rows + group.first) * gates), from_input, gates);
            let start = |j: usize| V::splat(*bias.add(j));
            multiply::<V>(self.weights, gates, h, width, from_state, gates, start);
            let step = Step {
                width,
                h,
                c,
                from_state,
                from_input,
                late_bias: match self.biases {
                    Some([b, _]) if cell == Cell::Gru => b.add(2 * width),
                    _ => std::ptr::null(),
                },
                notes: match notes.is_null() {
                    true => notes,
                    false => notes.add(t * cell.slopes() * width * LANES),
                },
                walking: lengths.map(|lengths| (V::splat(t as f32), lengths)),
            };
            match cell {
                Cell::Tanh => step.plain(|x| unsafe { tanh(x) }, |h| unsafe { h.neg_mul_add(h, V::splat(1.0)) }),
                Cell::Relu => {
                    let zero = V::splat(0.0);
                    // not-a-number is not below 0, and stays
                    step.plain(|x| unsafe { x.less(zero, zero, x) }, |h| unsafe { zero.less(h, V::splat(1.0), zero) })
                }
                Cell::Gru => step.gru(),
                Cell::Lstm => step.lstm(),
            }
            group.to_rows::<V>(h, slot(if scan.reverse { t } else { t + 1 }), width);
        }
        if cell == Cell::Lstm {
            group.to_rows::<V>(c, slot(scan.steps + 1), width);
        }
    }

    /// What the sums over the state start from: both biases, but for a GRU's n that of the state alone.
    unsafe fn add_biases(&self, to: *mut f32) {
        let Recurrence { scan, width, .. } = self.work;
        let gates = scan.cell.gates() * width;
        let early = if scan.cell == Cell::Gru { 2 * width } else { gates };
        for j in 0..gates {
            *to.add(j) = match self.biases {
                Some([b, d]) => *d.add(j) + if j < early { *b.add(j) } else { 0.0 },
                None => 0.0,
            };
        }
    }
}

/// What a step reads and writes, all in lanes: unit `u` of gate `g` at vector `g·width + u`.
struct Step<V> {
    width: usize,
    h: *mut f32,
    c: *mut f32,
    from_state: *const f32,
    from_input: *const f32,
    /// The input's bias of a GRU's n.
    late_bias: *const f32,
    /// Null where nobody will walk back.
    notes: *mut f32,
    /// Time and lengths: rows with time below length walk.
    walking: Option<(V, V)>,
}

impl<V: Lanes> Step<V> {
    #[inline(always)]
    unsafe fn input(&self, gate: usize, u: usize) -> V {
        V::load(self.from_input.add((gate * self.width + u) * LANES))
    }

    #[inline(always)]
    unsafe fn state(&self, gate: usize, u: usize) -> V {
        V::load(self.from_state.add((gate * self.width + u) * LANES))
    }

    #[inline(always)]
    unsafe fn both(&self, gate: usize, u: usize) -> V {
        self.input(gate, u).add(self.state(gate, u))
    }

    #[inline(always)]
    unsafe fn note(&self, slope: usize, u: usize, value: V, otherwise: f32) {
        if !self.notes.is_null() {
            let value = self.walks(value, V::splat(otherwise));
            value.store(self.notes.add((slope * self.width + u) * LANES));
        }
    }

    #[inline(always)]
    unsafe fn walks(&self, value: V, otherwise: V) -> V {
        self.walking.map_or(value, |(t, lengths)| t.less(lengths, value, otherwise))
    }

    /// `h' = φ(pre)` with φ' given by h'.
    #[inline(always)]
    unsafe fn plain(&self, function: impl Fn(V) -> V, slope: impl Fn(V) -> V) {
        for u in 0..self.width {
            let after = function(self.both(0, u));
            self.note(0, u, slope(after), 0.0);
            let h = self.h.add(u * LANES);
            self.walks(after, V::load(h)).store(h);
        }
    }

    #[inline(always)]
    unsafe fn gru(&self) {
        let one = V::splat(1.0);
        for u in 0..self.width {
            let (r, z, state) = (sigmoid(self.both(0, u)), sigmoid(self.both(1, u)), self.state(2, u));
            let late = if self.late_bias.is_null() { V::splat(0.0) } else { V::splat(*self.late_bias.add(u)) };
            let n = tanh(r.mul_add(state, self.input(2, u).add(late)));
            let at = self.h.add(u * LANES);
            let h = V::load(at);
            let more = h.sub(n);
            let rest = one.sub(z);
            self.note(0, u, rest.mul(n.neg_mul_add(n, one)), 0.0);
            self.note(1, u, more.mul(z).mul(rest), 0.0);
            self.note(2, u, state.mul(r).mul(one.sub(r)), 0.0);
            self.note(3, u, r, 0.0);
            self.note(4, u, z, 1.0);
            // (1−z)∘n + z∘h
            self.walks(z.mul_add(more, n), h).store(at);
        }
    }

    #[inline(always)]
    unsafe fn lstm(&self) {
        let one = V::splat(1.0);
        for u in 0..self.width {
            let (i, f) = (sigmoid(self.both(0, u)), sigmoid(self.both(1, u)));
            let (g, o) = (tanh(self.both(2, u)), sigmoid(self.both(3, u)));
            let (at_h, at_c) = (self.h.add(u * LANES), self.c.add(u * LANES));
            let before = V::load(at_c);
            let c = f.mul_add(before, i.mul(g));
            let squashed = tanh(c);
            self.note(0, u, g.mul(i).mul(one.sub(i)), 0.0);
            self.note(1, u, before.mul(f).mul(one.sub(f)), 0.0);
            self.note(2, u, i.mul(g.neg_mul_add(g, one)), 0.0);
            self.note(3, u, squashed.mul(o).mul(one.sub(o)), 0.0);
            self.note(4, u, o.mul(squashed.neg_mul_add(squashed, one)), 0.0);
            self.note(5, u, f, 1.0);
            self.walks(c, before).store(at_c);
            self.walks(o.mul(squashed), V::load(at_h)).store(at_h);
        }
    }
}

pub struct RecurrenceGradientTask {
    work: RecurrenceGradient,
    isa: Isa,
    states: *const f32,
    weights: *const f32,
    lengths: *const f32,
    each: *const f32,
    last: *const f32,
    cell: *const f32,
    out: *mut f32,
}

impl RecurrenceGradientTask {
    pub fn new(work: &RecurrenceGradient, isa: Isa) -> RecurrenceGradientTask {
        let none = std::ptr::null();
        RecurrenceGradientTask {
            work: work.clone(),
            isa,
            states: none,
            weights: none,
            lengths: none,
            each: none,
            last: none,
            cell: none,
            out: std::ptr::null_mut(),
        }
    }

    pub fn bind(&mut self, pointers: &[*mut u8]) {
        let at = |id: usize| pointers[id] as *const f32;
        let or_none = |id: Option<usize>| id.map_or(std::ptr::null(), at);
        let work = &self.work;
        (self.states, self.weights) = (at(work.states), at(work.weights));
        (self.lengths, self.each) = (or_none(work.lengths), or_none(work.each));
        (self.last, self.cell) = (or_none(work.last), or_none(work.cell));
        self.out = pointers[work.out] as *mut f32;
    }

    pub fn units(&self) -> usize {
        self.work.rows.div_ceil(LANES)
    }

    /// SAFETY: as `Task::run`; the plan's verifier checked the size of every buffer against steps, rows and width.
    pub unsafe fn run(&self, units: Range<usize>) {
        for unit in units {
            match self.isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx => self.walk_avx512(unit),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => self.walk_avx2(unit),
                _ => self.walk::<Plain<false>>(unit),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
    unsafe fn walk_avx512(&self, unit: usize) {
        self.walk::<std::arch::x86_64::__m512>(unit)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn walk_avx2(&self, unit: usize) {
        self.walk::<Plain<true>>(unit)
    }

    #[inline(always)]
    unsafe fn walk<V: Lanes>(&self, unit: usize) {
        let RecurrenceGradient { scan, rows, width, .. } = self.work;
        let group = Group::new(rows, unit);
        let (cell, gates) = (scan.cell, scan.cell.gates() * width);
        let columns = cell.gradients() * width;
        let mut room = scratch(4 * width + columns + (gates * width).div_ceil(LANES));
        let dh = room.take(width);
        let dc = room.take(width);
        let before = room.take(width);
        let arriving = room.take(width);
        let d = room.take(columns);
        let turned = room.take((gates * width).div_ceil(LANES));
        self.turn_weights::<V>(turned);
        group.starts::<V>(self.last, dh, width);
        group.starts::<V>(self.cell, dc, width);
        let slopes = cell.slopes() * width * LANES;
        let notes = self.states.add(scan.notes_at(rows, width) + unit * scan.steps * slopes);
        let lengths = group.lengths::<V>(self.lengths);
        for n in (0..scan.steps).rev() {
            let t = in_order(&scan, n);
            if !self.each.is_null() {
                group.to_lanes::<V>(self.each.add((t * rows + group.first) * width), arriving, width);
                for u in 0..width {
                    let at = dh.add(u * LANES);
                    V::load(at).add(V::load(arriving.add(u * LANES))).store(at);
                }
            }
            let notes = notes.add(t * slopes);
            let slope = |s: usize, u: usize| V::load(notes.add((s * width + u) * LANES));
            let put = |column: usize, u: usize, x: V| x.store(d.add((column * width + u) * LANES));
            // what reaches the state before other than through the weights
            let zero = V::splat(0.0);
            let stays = |dh: V| lengths.map_or(zero, |l| V::splat(t as f32).less(l, zero, dh));
            match cell {
                Cell::Tanh | Cell::Relu => {
                    for u in 0..width {
                        let dh = V::load(dh.add(u * LANES));
                        put(0, u, dh.mul(slope(0, u)));
                        stays(dh).store(before.add(u * LANES));
                    }
                }
                Cell::Gru => {
                    for u in 0..width {
                        let dh = V::load(dh.add(u * LANES));
                        let new = dh.mul(slope(0, u));
                        put(0, u, new.mul(slope(3, u)));
                        put(1, u, new.mul(slope(2, u)));
                        put(2, u, dh.mul(slope(1, u)));
                        put(3, u, new);
                        dh.mul(slope(4, u)).store(before.add(u * LANES));
                    }
                }
                Cell::Lstm => {
                    for u in 0..width {
                        let dh = V::load(dh.add(u * LANES));
                        let at_c = dc.add(u * LANES);
                        let dc = dh.mul_add(slope(4, u), V::load(at_c));
                        (0..3).for_each(|gate| put(gate, u, dc.mul(slope(gate, u))));
                        put(3, u, dh.mul(slope(3, u)));
                        dc.mul(slope(5, u)).store(at_c);
                        stays(dh).store(before.add(u * LANES));
                    }
                }
            }
            group.to_rows::<V>(d, self.out.add((t * rows + group.first) * columns), columns);
            let start = |k: usize| V::load(before.add(k * LANES));
            multiply::<V>(turned, width, d, gates, dh, width, start);
        }
        let start = self.out.add((scan.steps * rows + group.first) * columns);
        group.to_some_columns::<V>(dh, start, width, columns);
        if cell == Cell::Lstm {
            group.to_some_columns::<V>(dc, start.add(width), width, columns);
        }
    }

    /// U `[width, gates]` as `[gates, width]`, in the order of the gradients' columns: a GRU's n first.
    unsafe fn turn_weights<V: Lanes>(&self, to: *mut f32) {
        let (width, gates) = (self.work.width, self.work.scan.cell.gates() * self.work.width);
        let first = if self.work.scan.cell == Cell::Gru { 2 * width } else { 0 };
        for j in 0..gates {
            for k in 0..width {
                *to.add(j * width + k) = *self.weights.add(k * gates + (j + first) % gates);
            }
        }
    }
}

fn in_order(scan: &Scan, n: usize) -> usize {
    if scan.reverse { scan.steps - 1 - n } else { n }
}

/// Up to sixteen sequences.
struct Group {
    first: usize,
    count: usize,
}

impl Group {
    fn new(rows: usize, unit: usize) -> Group {
        let first = unit * LANES;
        Group { first, count: LANES.min(rows - first) }
    }

    /// Rows of a matrix `[rows, width]`, or 0, as lanes.
    #[inline(always)]
    unsafe fn starts<V: Lanes>(&self, from: *const f32, to: *mut f32, width: usize) {
        (0..width).for_each(|u| V::splat(0.0).store(to.add(u * LANES)));
        if !from.is_null() {
            self.to_lanes::<V>(from.add(self.first * width), to, width);
        }
    }

    #[inline(always)]
    unsafe fn lengths<V: Lanes>(&self, from: *const f32) -> Option<V> {
        if from.is_null() {
            return None;
        }
        let mut lengths = Line([0.0; LANES]);
        std::ptr::copy_nonoverlapping(from.add(self.first), lengths.0.as_mut_ptr(), self.count);
        Some(V::load(lengths.0.as_ptr()))
    }

    #[inline(always)]
    unsafe fn to_lanes<V: Lanes>(&self, from: *const f32, to: *mut f32, width: usize) {
        for u in (0..width).step_by(LANES) {
            V::turn(from.add(u), width, to.add(u * LANES), LANES, LANES.min(width - u), self.count);
        }
    }

    #[inline(always)]
    unsafe fn to_rows<V: Lanes>(&self, from: *const f32, to: *mut f32, width: usize) {
        self.to_some_columns::<V>(from, to, width, width);
    }

    #[inline(always)]
    unsafe fn to_some_columns<V: Lanes>(&self, from: *const f32, to: *mut f32, width: usize, row: usize) {
        for u in (0..width).step_by(LANES) {
            V::turn(from.add(u * LANES), LANES, to.add(u), row, self.count, LANES.min(width - u));
        }
    }
}

/// `out[j] = start(j) + Σₖ x[k]·weights[k,j]`, lanes of x and out beside each other; summed in the order of k.
#[inline(always)]
unsafe fn multiply<V: Lanes>(
    weights: *const f32,
    row: usize,
    x: *const f32,
    inner: usize,
    out: *mut f32,
    columns: usize,
    start: impl Fn(usize) -> V,
) {
    let mut j = 0;
    macro_rules! blocks {
        ($($n:literal)*) => {
            $(while $n <= V::ACCUMULATORS && columns - j >= $n {
                let mut sums: [V; $n] = std::array::from_fn(|i| start(j + i));
                for k in 0..inner {
                    let x = V::load(x.add(k * LANES));
                    let weights = weights.add(k * row + j);
                    for (i, sum) in sums.iter_mut().enumerate() {
                        *sum = V::splat(*weights.add(i)).mul_add(x, *sum);
                    }
                }
                for (i, sum) in sums.iter().enumerate() {
                    sum.store(out.add((j + i) * LANES));
                }
                j += $n;
            })*
        };
    }
    blocks!(16 8 4 2 1);
}

/// This thread's lines, grown to fit: after the first step nothing is allocated. Good until the next call on this thread.
fn scratch(lines: usize) -> Room {
    thread_local! {
        static LINES: UnsafeCell<Vec<Line>> = const { UnsafeCell::new(Vec::new()) };
    }
    LINES.with(|cell| {
        // SAFETY: kernels do not call each other, so no pointer into this thread's lines is in use.
        let all = unsafe { &mut *cell.get() };
        if all.len() < lines {
            all.resize(lines, Line([0.0; LANES]));
        }
        Room { next: all.as_mut_ptr() as *mut f32, left: lines }
    })
}

struct Room {
    next: *mut f32,
    left: usize,
}

impl Room {
    fn take(&mut self, lines: usize) -> *mut f32 {
        assert!(lines <= self.left, "scratch of a recurrence is too small");
        self.left -= lines;
        let taken = self.next;
        self.next = taken.wrapping_add(lines * LANES);
        taken
    }
}
