//! Which elements of a buffer a call touches for one of its rows. Two calls whose rows touch the same stretches can follow each
//! other inside one thread block, without waiting for the rest of the device.

use citius_plan::{BufferId, Loop, Matmul, Nest, Operand, Work};

/// The rows a call can be cut into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    Fixed(usize),
    /// A flat stretch of so many elements: any divisor will do.
    Flat(usize),
    /// Cut in a way of its own.
    Own,
}

impl Rows {
    pub fn can_be(self, count: usize) -> bool {
        match self {
            Rows::Fixed(n) => n == count,
            Rows::Flat(n) => count > 0 && n % count == 0,
            Rows::Own => false,
        }
    }
}

pub fn rows(work: &Work) -> Rows {
    match work {
        Work::Loop(l) if !l.outer.is_empty() => Rows::Own,
        Work::Loop(l) if l.nest == Nest::Columns => Rows::Fixed(l.cols),
        Work::Loop(l) if l.rows > 1 || !flat(l) => Rows::Fixed(l.rows),
        Work::Loop(l) => Rows::Flat(l.cols),
        Work::Matmul(m) if m.outer.is_empty() => Rows::Fixed(m.m),
        Work::Matmul(_) => Rows::Own,
        Work::Gather(g) => Rows::Fixed(g.rows),
        Work::ArgMax(a) => Rows::Fixed(a.rows),
        Work::Random(r) => Rows::Flat(r.elements),
        Work::Scatter(_) => Rows::Own,
        Work::Recurrence(r) => Rows::Fixed(r.rows),
        Work::RecurrenceGradient(r) => Rows::Fixed(r.rows),
    }
}

/// One row of elements without a meaning of its own: no fold needs it whole.
fn flat(l: &Loop) -> bool {
    l.rows == 1 && !uses_rows(l)
}

/// Some value belongs to a row as a whole.
pub fn uses_rows(l: &Loop) -> bool {
    let folds_rows = l.program.instrs.iter().any(|i| matches!(i, citius_plan::Instr::FoldRow(..)));
    folds_rows || l.folds.iter().any(|f| !f.whole)
}

/// Row `r` touches `r·pitch + from .. r·pitch + to`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    pub pitch: usize,
    pub from: usize,
    pub to: usize,
}

impl Stretch {
    const WHOLE: Stretch = Stretch { pitch: 0, from: 0, to: usize::MAX };

    /// Rows of both touch only their own stretch of `pitch` elements.
    pub fn meets_only_itself(self, other: Stretch) -> bool {
        self.pitch > 0 && self.pitch == other.pitch && self.to <= self.pitch && other.to <= other.pitch
    }
}

/// What each row of the call touches of a buffer, when the call is cut into `count` rows.
pub fn stretches(work: &Work, buffer: BufferId, count: usize) -> Vec<Stretch> {
    let mut found = Vec::new();
    let mut add = |id: BufferId, stretch: Stretch| {
        if id == buffer {
            found.push(stretch);
        }
    };
    let even = |elements: usize| match elements.checked_div(count) {
        Some(pitch) => Stretch { pitch, from: 0, to: pitch },
        None => Stretch::WHOLE,
    };
    match work {
        Work::Loop(l) => l.operands.iter().for_each(|o| add(o.buffer, of_loop(l, o, count))),
        Work::Matmul(m) => {
            add(m.b.buffer, Stretch::WHOLE);
            add(m.a.buffer, if m.deep.is_empty() { walk(&m.a, m.k) } else { Stretch::WHOLE });
            m.operands.iter().for_each(|o| add(o.buffer, of_product(m, o)));
        }
        Work::Gather(g) => {
            add(g.table, Stretch::WHOLE);
            add(g.indices, even(g.rows));
            add(g.out, even(g.rows * g.width));
        }
        Work::ArgMax(a) => {
            add(a.input, even(a.rows * a.cols));
            add(a.out, even(a.rows));
        }
        Work::Random(r) => add(r.out, even(r.elements)),
        Work::Scatter(s) => [s.values, s.indices, s.out].into_iter().for_each(|id| add(id, Stretch::WHOLE)),
        // a sequence has a row in every step
        Work::Recurrence(_) | Work::RecurrenceGradient(_) => {
            let (reads, writes) = work.touches();
            reads.into_iter().chain(writes).for_each(|id| add(id, Stretch::WHOLE));
        }
    }
    found
}

/// The same, where a row of the cut is one of `count` outer indices of products, and so many rows of loops.
pub fn block_stretches(work: &Work, buffer: BufferId, count: usize) -> Vec<Stretch> {
    let walks: Vec<(&Operand, usize, [usize; 2])> = match work {
        Work::Loop(l) => l.operands.iter().map(|o| (o, o.row * (l.rows / count), [l.rows / count, l.cols])).collect(),
        Work::Matmul(m) => {
            let pitch = |o: &Operand| {
                let even = (1..m.outer.len()).all(|i| o.outer[i - 1] == o.outer[i] * m.outer[i]);
                o.outer.last().copied().filter(|_| even).unwrap_or(0)
            };
            let sides = [(&m.a, [m.m, m.k]), (&m.b, [m.k, m.n])];
            let all = sides.into_iter().chain(m.operands.iter().map(|o| (o, [m.m, m.n])));
            all.map(|(o, sizes)| (o, pitch(o), sizes)).collect()
        }
        _ => return vec![Stretch::WHOLE],
    };
    let own = walks.into_iter().filter(|(o, ..)| o.buffer == buffer);
    own.map(|(o, pitch, [rows, cols])| {
        let last = rows.saturating_sub(1) * o.row + cols.saturating_sub(1) * o.col;
        Stretch { pitch, from: o.offset, to: o.offset + last + 1 }
    })
    .collect()
}

fn of_loop(l: &Loop, o: &Operand, count: usize) -> Stretch {
    match l.nest {
        // a row of the cut is a column of the loop
        Nest::Columns if o.row == 0 => Stretch { pitch: o.col, from: o.offset, to: o.offset + 1 },
        Nest::Columns => Stretch::WHOLE,
        Nest::Rows if l.rows == 1 && count > 1 => {
            let width = l.cols / count;
            Stretch { pitch: width * o.col, from: o.offset, to: o.offset + width.saturating_sub(1) * o.col + 1 }
        }
        Nest::Rows => walk(o, l.cols),
    }
}

fn of_product(m: &Matmul, o: &Operand) -> Stretch {
    walk(o, m.n)
}

fn walk(o: &Operand, cols: usize) -> Stretch {
    Stretch { pitch: o.row, from: o.offset, to: o.offset + cols.saturating_sub(1) * o.col + 1 }
}
