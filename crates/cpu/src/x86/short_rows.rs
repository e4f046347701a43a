//! Short rows, sixteen at a time. A lane is a row: what is folded over a row is folded lane by lane, and what a row has one of is computed
//! once for sixteen. Values that differ along the row are kept on the stack, a vector for each column. Every sum runs in the order of
//! [`Asm::across`], so the bits are those of rows taken one by one.
//!
//! The program is run in stages. A stage ends where a fold over the row is needed; what it hands on is kept.

use citius_graph::DType;
use citius_graph::scalar::Unary;
use citius_plan::{FoldKind, Instr, Loop, Nest, Program, SHORT_ROW, Var};

use super::asm::Gpr::*;
use super::asm::*;
use super::code::Code;
use super::program::{Emitter, Operands, OutOfRegisters, Registers};

type Entry = unsafe extern "sysv64" fn(table: *const *mut u8, blocks: usize);

pub struct ShortRows {
    entry: Entry,
    _code: Code,
}

/// Rows of a block.
pub const BLOCK: usize = 16;

const POINTERS: [Gpr; 9] = [R8, R9, R10, R11, R12, R13, R14, R15, Rbx];
const SAVED: [Gpr; 6] = [Rbx, Rbp, R12, R13, R14, R15];
/// Bytes of a vector.
const VECTOR: usize = 64;
/// Vectors kept on the stack.
const MOST_KEPT: usize = 240;
/// Registers for values that are the same in every column of a stage, or in every row of a block.
const MOST_PINNED: usize = 8;

impl ShortRows {
    /// `None` where rows are not folded and used again, or do not lie as they have to.
    pub fn new(work: &Loop) -> Option<ShortRows> {
        let mut asm = Asm::default();
        Stages::new(work)?.generate(&mut asm).ok()?;
        let code = Code::new(&asm.finish())?;
        // SAFETY: the bytes at the entry are a complete function of this signature.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(code.entry(0)) };
        Some(ShortRows { entry, _code: code })
    }

    /// SAFETY: `table` holds, for each operand, a pointer at the first element of a stretch of `blocks` times [`BLOCK`] rows.
    #[inline]
    pub unsafe fn run(&self, table: *const *mut u8, blocks: usize) {
        if blocks > 0 {
            (self.entry)(table, blocks)
        }
    }
}

/// When a value is computed, and how often.
#[derive(Clone, Copy, PartialEq, Debug)]
enum When {
    /// Part of the instructions.
    Constant,
    /// Read, or computed from what is read, by whoever needs it.
    Anywhere { per_element: bool },
    /// Before rows are turned into lanes: a vector is a row.
    InRows,
    /// Once for a row, in this stage.
    PerRow(usize),
    /// For each column, in this stage.
    PerElement(usize),
}

struct Stages<'a> {
    work: &'a Loop,
    when: Vec<When>,
    /// The first vector of each value that is kept.
    kept: Vec<Option<usize>>,
    vectors: usize,
}

/// Some instructions of the program, by themselves. What they load are `sources`.
struct Part {
    program: Program,
    sources: Vec<Source>,
    results: Vec<Var>,
}

#[derive(Clone, Copy, PartialEq)]
enum Source {
    Operand(usize),
    Kept(Var),
}

impl<'a> Stages<'a> {
    fn new(work: &'a Loop) -> Option<Stages<'a>> {
        let instrs = &work.program.instrs;
        let folds = instrs.iter().any(|i| matches!(i, Instr::FoldRow(..)));
        let shape = work.nest == Nest::Rows && (1..=SHORT_ROW).contains(&work.cols) && work.rows >= BLOCK;
        let near = work.operands.iter().all(|o| o.row * BLOCK * 4 < i32::MAX as usize);
        if !folds || !shape || !near || !work.folds.is_empty() || work.operands.len() > POINTERS.len() {
            return None;
        }
        let mut stages = Stages { work, when: vec![], kept: vec![None; instrs.len()], vectors: 0 };
        for instr in instrs {
            let when = stages.classify(instr)?;
            stages.when.push(when);
        }
        for &(value, target) in &work.stores {
            let o = &work.operands[target];
            let fits = match (stages.per_element(value), o.row, o.col) {
                (true, row, 1) => row > 0,
                (false, 1, 0) => !matches!(stages.when[value], When::Constant | When::Anywhere { .. }),
                _ => false,
            };
            if !fits || o.dtype != DType::F32 {
                return None;
            }
            stages.keep(value);
        }
        for (i, instr) in instrs.iter().enumerate() {
            for v in instr.operands().into_iter().flatten() {
                let folded = matches!(instr, Instr::FoldRow(..));
                let at_hand = matches!(stages.when[v], When::Constant | When::Anywhere { .. });
                if folded || (!at_hand && stages.when[v] != stages.when[i]) {
                    stages.keep(v);
                }
            }
            if let Instr::FoldRow(_, a) = instr {
                // of anything else it would be of no use
                matches!(stages.when[*a], When::PerElement(_) | When::InRows).then_some(())?;
                stages.keep(i);
            }
        }
        (stages.vectors <= MOST_KEPT).then_some(stages)
    }

    fn classify(&self, instr: &Instr) -> Option<When> {
        let operands: Vec<When> = instr.operands().into_iter().flatten().map(|v| self.when[v]).collect();
        let cheap = match instr {
            Instr::Unary(op, _) => matches!(op, Unary::Neg | Unary::Abs),
            Instr::FoldRow(..) => false,
            _ => true,
        };
        let per_element = operands.iter().any(|w| match w {
            When::Constant | When::PerRow(_) => false,
            When::Anywhere { per_element } => *per_element,
            When::InRows | When::PerElement(_) => true,
        });
        // the stage from which on all operands are there
        let stage = operands.iter().map(|w| match w {
            When::PerRow(stage) | When::PerElement(stage) => *stage,
            _ => 0,
        });
        let stage = stage.max().unwrap_or(0);
        let at_hand = |w: &When| matches!(w, When::Constant | When::Anywhere { .. });
        let in_rows = |w: &When| matches!(w, When::Constant | When::InRows);
        Some(match instr {
            Instr::Const(_) => When::Constant,
            Instr::Product => return None,
            Instr::Load(o) => {
                let o = &self.work.operands[*o];
                match (o.dtype, o.row, o.col) {
                    (DType::F32, row, 1) if row > 0 => When::InRows,
                    (DType::F32 | DType::I32, 0, 1) => When::Anywhere { per_element: true },
                    (DType::F32 | DType::I32, 0 | 1, 0) => When::Anywhere { per_element: false },
                    _ => return None,
                }
            }
            Instr::FoldRow(..) => When::PerRow(stage + 1),
            _ if cheap && operands.iter().all(at_hand) => When::Anywhere { per_element },
            _ if cheap && self.stays_in_rows(instr, in_rows) => When::InRows,
            _ if per_element => When::PerElement(stage),
            _ => When::PerRow(stage),
        })
    }

    /// Is a vector of a row all that this reads, but for rows that are all alike?
    fn stays_in_rows(&self, instr: &Instr, in_rows: impl Fn(&When) -> bool) -> bool {
        let alike = |v: &Var| match self.work.program.instrs[*v] {
            Instr::Load(o) => self.work.operands[o].row == 0,
            _ => false,
        };
        let operands: Vec<Var> = instr.operands().into_iter().flatten().collect();
        operands.iter().any(|v| self.when[*v] == When::InRows)
            && operands.iter().all(|v| in_rows(&self.when[*v]) || alike(v))
    }

    fn per_element(&self, v: Var) -> bool {
        match self.when[v] {
            When::Constant | When::PerRow(_) => false,
            When::Anywhere { per_element } => per_element,
            When::InRows | When::PerElement(_) => true,
        }
    }

    fn keep(&mut self, v: Var) {
        if self.kept[v].is_none() {
            self.kept[v] = Some(self.vectors);
            self.vectors += if self.per_element(v) { self.work.cols } else { 1 };
        }
    }

    /// What is kept of this time, but for folds.
    fn kept_of(&self, when: When) -> Vec<Var> {
        let folds = |v: &Var| matches!(self.work.program.instrs[*v], Instr::FoldRow(..));
        (0..self.when.len()).filter(|v| self.when[*v] == when && self.kept[*v].is_some() && !folds(v)).collect()
    }

    /// The instructions that compute `wanted`, all of this time, from what is at hand or kept.
    fn part(&self, when: When, wanted: &[Var]) -> Part {
        let instrs = &self.work.program.instrs;
        let folds = |v: Var| matches!(instrs[v], Instr::FoldRow(..));
        // computed here, or read
        let here = |v: Var| match self.when[v] {
            When::Constant | When::Anywhere { .. } => true,
            other => other == when && !folds(v),
        };
        let mut needed = vec![false; instrs.len()];
        wanted.iter().for_each(|&v| needed[v] = true);
        for v in (0..instrs.len()).rev() {
            if needed[v] && here(v) {
                instrs[v].operands().into_iter().flatten().for_each(|v| needed[v] = true);
            }
        }
        let mut part = Part { program: Program::default(), sources: vec![], results: vec![] };
        let mut renamed = vec![0; instrs.len()];
        for v in (0..instrs.len()).filter(|v| needed[*v]) {
            let instr = match instrs[v] {
                Instr::Load(o) if here(v) => part.load(Source::Operand(o)),
                _ if !here(v) => part.load(Source::Kept(v)),
                instr => instr.renamed(&renamed),
            };
            renamed[v] = part.program.push(instr);
        }
        part.results = wanted.iter().map(|v| renamed[*v]).collect();
        part
    }

    fn generate(&self, asm: &mut Asm) -> Result<(), OutOfRegisters> {
        let work = self.work;
        SAVED.iter().for_each(|&r| asm.push(r));
        asm.copy_gpr(Rbp, Rsp);
        asm.subtract(Rsp, (self.vectors * VECTOR) as i32);
        asm.and(Rsp, -(VECTOR as i32));
        asm.set(Rax, (1 << work.cols) - 1);
        asm.mask_from(TAIL, Rax);
        for (i, &r) in POINTERS.iter().enumerate().take(work.operands.len()) {
            asm.load_gpr(r, Mem::at(Rdi, 8 * i as i32));
        }
        let again = asm.label();
        asm.place(again);
        for value in self.kept_of(When::InRows) {
            self.turn_in(asm, value)?;
        }
        let last = self.when.iter().map(|w| match w {
            When::PerRow(stage) | When::PerElement(stage) => *stage,
            _ => 0,
        });
        for stage in 0..=last.max().unwrap_or(0) {
            self.columns(asm, When::PerRow(stage), 1)?;
            self.columns(asm, When::PerElement(stage), work.cols)?;
            self.folds(asm, stage);
        }
        work.stores.iter().for_each(|&(value, target)| self.store(asm, value, target));
        for (o, &r) in work.operands.iter().zip(&POINTERS) {
            asm.add(r, (BLOCK * o.row * o.dtype.bytes()) as i32);
        }
        asm.subtract(Rsi, 1);
        asm.jump_if_not_zero(again);
        asm.copy_gpr(Rsp, Rbp);
        SAVED.iter().rev().for_each(|&r| asm.pop(r));
        asm.leave();
        Ok(())
    }

    /// Computes a value row by row, and keeps it column by column.
    fn turn_in(&self, asm: &mut Asm, value: Var) -> Result<(), OutOfRegisters> {
        let part = self.part(When::InRows, &[value]);
        let alike = |source: Source| matches!(source, Source::Operand(o) if self.work.operands[o].row == 0);
        // sixteen registers hold the rows
        let first = BLOCK as u8;
        let pinned = part.pin(first, alike);
        let at = |row: usize| InRows { stages: self, part: &part, row };
        let free = part.load_pinned(asm, &at(0), &pinned, first);
        for row in 0..BLOCK {
            let mut emitter = Emitter::new(asm, &part.program, &part.results, Registers::new(free..32), &pinned);
            emitter.emit(&at(row), None)?;
            let r = emitter.register(part.results[0])?;
            emitter.asm().copy(row as u8, r);
        }
        asm.turn_sixteen(BLOCK, self.work.cols);
        (0..self.work.cols).for_each(|c| asm.store(self.vector(value, c), c as u8, 0));
        Ok(())
    }

    /// Computes what is kept of this time: for each of so many columns.
    fn columns(&self, asm: &mut Asm, when: When, columns: usize) -> Result<(), OutOfRegisters> {
        let wanted = self.kept_of(when);
        if wanted.is_empty() {
            return Ok(());
        }
        let part = self.part(when, &wanted);
        let alike = |source: Source| match source {
            Source::Operand(o) => self.work.operands[o].col == 0,
            Source::Kept(v) => !self.per_element(v),
        };
        let pinned = part.pin(0, |source| columns > 1 && alike(source));
        let at = |column: usize| InLanes { stages: self, part: &part, column };
        let free = part.load_pinned(asm, &at(0), &pinned, 0);
        for column in 0..columns {
            let mut emitter = Emitter::new(asm, &part.program, &part.results, Registers::new(free..32), &pinned);
            emitter.emit(&at(column), None)?;
            for (&value, &result) in wanted.iter().zip(&part.results) {
                let r = emitter.register(result)?;
                emitter.asm().store(self.vector(value, column), r, 0);
            }
        }
        Ok(())
    }

    /// The folds of what this stage has computed.
    fn folds(&self, asm: &mut Asm, stage: usize) {
        for (i, instr) in self.work.program.instrs.iter().enumerate() {
            let Instr::FoldRow(kind, a) = *instr else { continue };
            if self.when[i] == When::PerRow(stage + 1) {
                self.fold(asm, kind, a);
                asm.store(self.vector(i, 0), 0, 0);
            }
        }
    }

    /// Columns folded into register 0: those half a vector apart, then a quarter, and so on.
    fn fold(&self, asm: &mut Asm, kind: FoldKind, value: Var) {
        let mut columns = self.work.cols;
        (0..columns).for_each(|c| asm.load(c as u8, self.vector(value, c), 0));
        for apart in [8, 4, 2, 1] {
            (apart..columns).for_each(|c| asm.fold(kind, (c - apart) as u8, c as u8, 0));
            columns = columns.min(apart);
        }
    }

    fn store(&self, asm: &mut Asm, value: Var, target: usize) {
        let (o, pointer) = (&self.work.operands[target], POINTERS[target]);
        if !self.per_element(value) {
            asm.load(0, self.vector(value, 0), 0);
            asm.store(Mem::at(pointer, 0), 0, 0);
            return;
        }
        (0..self.work.cols).for_each(|c| asm.load(c as u8, self.vector(value, c), 0));
        asm.turn_sixteen(self.work.cols, BLOCK);
        (0..BLOCK).for_each(|r| asm.store(Mem::at(pointer, (r * o.row * 4) as i32), r as u8, TAIL));
    }

    /// Where a value is kept.
    fn vector(&self, value: Var, column: usize) -> Mem {
        let column = if self.per_element(value) { column } else { 0 };
        // `new` has found a place for all that is asked for
        Mem::at(Rsp, ((self.kept[value].unwrap_or(0) + column) * VECTOR) as i32)
    }
}

impl Part {
    fn load(&mut self, source: Source) -> Instr {
        let known = self.sources.iter().position(|s| *s == source);
        Instr::Load(known.unwrap_or_else(|| {
            self.sources.push(source);
            self.sources.len() - 1
        }))
    }

    /// Registers, from `first` on, for loads that are always the same.
    fn pin(&self, first: u8, alike: impl Fn(Source) -> bool) -> Vec<Option<u8>> {
        let mut next = first..first + MOST_PINNED as u8;
        let pin = |instr: &Instr| match instr {
            Instr::Load(s) if alike(self.sources[*s]) => next.next(),
            _ => None,
        };
        self.program.instrs.iter().map(pin).collect()
    }

    /// Returns the first register behind them.
    fn load_pinned(&self, asm: &mut Asm, at: &dyn Operands, pinned: &[Option<u8>], first: u8) -> u8 {
        for (instr, r) in self.program.instrs.iter().zip(pinned) {
            if let (Instr::Load(source), Some(r)) = (instr, r) {
                at.load(asm, *source, *r);
            }
        }
        first + pinned.iter().flatten().count() as u8
    }
}

/// Operands where a vector is one row of a block.
struct InRows<'a> {
    stages: &'a Stages<'a>,
    part: &'a Part,
    row: usize,
}

impl Operands for InRows<'_> {
    fn load(&self, asm: &mut Asm, i: usize, dst: u8) {
        // nothing that is kept is read before rows are turned
        let Source::Operand(operand) = self.part.sources[i] else { return };
        let o = &self.stages.work.operands[operand];
        let m = Mem::at(POINTERS[operand], (self.row * o.row * 4) as i32);
        match (o.dtype, o.col) {
            (DType::I32, 0) => asm.spread_i32(dst, m),
            (DType::I32, _) => asm.load_i32(dst, m, TAIL),
            (_, 0) => asm.spread(dst, Rm::Spread(m)),
            _ => asm.load(dst, m, TAIL),
        }
    }
}

/// Operands where a vector is one column of sixteen rows.
struct InLanes<'a> {
    stages: &'a Stages<'a>,
    part: &'a Part,
    column: usize,
}

impl Operands for InLanes<'_> {
    fn load(&self, asm: &mut Asm, i: usize, dst: u8) {
        let operand = match self.part.sources[i] {
            Source::Operand(operand) => operand,
            Source::Kept(v) => return asm.load(dst, self.stages.vector(v, self.column), 0),
        };
        let o = &self.stages.work.operands[operand];
        let m = Mem::at(POINTERS[operand], (self.column * o.col * 4) as i32);
        match (o.dtype, o.row) {
            (DType::I32, 0) => asm.spread_i32(dst, m),
            (DType::I32, _) => asm.load_i32(dst, m, 0),
            (_, 0) => asm.spread(dst, Rm::Spread(m)),
            _ => asm.load(dst, m, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use citius_graph::{DType, Graph, Tensor};
    use citius_plan::{Plan, Work};

    use super::*;
    use crate::isa::Isa;
    use crate::x86::LoopKernel;

    /// The loop of a plan that folds rows and uses the folds.
    fn folding(plan: &Plan) -> Loop {
        let folds = |work: &Loop| work.program.instrs.iter().any(|i| matches!(i, Instr::FoldRow(..)));
        let found = plan.calls.iter().find_map(|call| match &call.work {
            Work::Loop(work) if folds(work) => Some(work.clone()),
            _ => None,
        });
        found.unwrap()
    }

    const ROWS: usize = 37;

    /// All bits that the loop leaves, run on `at_once` rows at a time. What is not a number is so in one way.
    fn run(work: &Loop, at_once: usize, x: impl Fn(usize) -> f32) -> Vec<Vec<u32>> {
        let kernel = LoopKernel::new(work).unwrap();
        let mut buffers: Vec<Vec<u32>> = work
            .operands
            .iter()
            .map(|o| match o.dtype {
                DType::I32 => (0..ROWS * 16 + 32).map(|i| i as u32 * 7 % work.cols as u32).collect(),
                _ => (0..ROWS * 16 + 32).map(|i| x(i).to_bits()).collect(),
            })
            .collect();
        for start in (0..ROWS).step_by(at_once) {
            let mut table = [std::ptr::null_mut(); 2 * citius_plan::MOST_OPERANDS];
            for (to, (buffer, o)) in table.iter_mut().zip(buffers.iter_mut().zip(&work.operands)) {
                *to = buffer[start * o.row..].as_mut_ptr() as *mut u8;
            }
            // SAFETY: each operand has room for so many rows of up to sixteen columns.
            unsafe { kernel.run(table.as_mut_ptr(), at_once.min(ROWS - start), work.cols) };
        }
        let one_way = |bits: u32| if f32::from_bits(bits).is_nan() { f32::NAN.to_bits() } else { bits };
        buffers.into_iter().map(|b| b.into_iter().map(one_way).collect()).collect()
    }

    type Case = (&'static str, fn(&Tensor, &Tensor, &Tensor) -> Tensor);

    /// What a network's last layer, or a layer on few features, is made of.
    const CASES: [Case; 5] = [
        ("softmax of a sum", |x, bias, _| (x * 0.5 + bias).softmax(1)),
        ("log-softmax", |x, _, _| x.log_softmax(1)),
        ("gradient of cross-entropy", |x, bias, y| {
            let classes = x.graph().iota(x.dims()[1]);
            let hit = y.reshape(&[ROWS, 1]).to_f32().broadcast_to(&x.dims()).eq(&classes.broadcast_to(&x.dims()));
            ((x + bias).softmax(1) - hit) * 0.125
        }),
        ("standardised", |x, _, _| {
            let centred = x - x.mean(&[1], true).broadcast_to(&x.dims());
            let spread = (centred.square().mean(&[1], true) + 1e-5).sqrt();
            &centred / spread.broadcast_to(&x.dims())
        }),
        ("by the largest", |x, _, _| x / x.abs().max(&[1], true).broadcast_to(&x.dims())),
    ];

    #[test]
    fn blocks_give_the_bits_of_rows() {
        if Isa::detect() < Isa::Avx512 {
            return;
        }
        let plain = |i: usize| (i * 37 % 101) as f32 * 0.07 - 3.0;
        let odd = |i: usize| match i % 23 {
            3 => f32::NEG_INFINITY,
            11 => f32::INFINITY,
            17 => f32::NAN,
            19 => -0.0,
            _ => plain(i),
        };
        let mut in_blocks = 0;
        for (name, case) in CASES {
            for cols in [2, 3, 5, 8, 9, 10, 15, 16] {
                let g = Graph::new();
                let (x, bias) = (g.input("x", &[ROWS, cols]), g.input("bias", &[cols]));
                let y = g.input_of("y", &[ROWS], DType::I32);
                g.output("z", &case(&x, &bias.broadcast_to(&[ROWS, cols]), &y));
                let work = folding(&citius_plan::compile(&g).unwrap());
                in_blocks += ShortRows::new(&work).is_some() as usize;
                for (kind, x) in [("plain", &plain as &dyn Fn(usize) -> f32), ("odd", &odd)] {
                    let (together, alone) = (run(&work, ROWS, x), run(&work, 1, x));
                    assert!(together == alone, "{name}, {cols} columns, {kind}");
                    assert!(run(&work, 16, x) == alone, "{name}, {cols} columns, {kind}, block by block");
                }
            }
        }
        assert!(in_blocks >= 4 * 8, "{in_blocks} of {} were taken in blocks", CASES.len() * 8);
    }
}
