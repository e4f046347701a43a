//! Tiles of a product, one band of rows after the other. `rdi` walks A, `rsi` walks B, `rdx` points at the table of epilogue
//! operands, `rcx` counts bands. The accumulators fill most of the 32 registers; the epilogue runs on them before anything is
//! stored.

use citius_graph::DType;
use citius_plan::{Instr, Matmul, Operand, Var};

use super::asm::Gpr::*;
use super::asm::*;
use super::code::Code;
use super::nonzeros::Side;
use super::odd::{self, Odd};
use super::program::{Emitter, Operands, OutOfRegisters, Registers};

pub(super) type Entry =
    unsafe extern "sysv64" fn(a: *const f32, b: *const f32, table: *const *mut u8, bands: usize, along: usize);

pub struct MatmulKernel {
    rows: usize,
    cols: usize,
    /// [whole or last band][whole or last panel]
    entries: [[Entry; 2]; 2],
    /// In the panel of so many columns the last is summed apart.
    odd: Option<(usize, Odd)>,
    _code: Code,
}

pub(super) const LANES: usize = 16;
/// Registers for the pointers of epilogue operands ([`Shared`]); products that need more are left to compiled code.
pub(super) const POINTERS: [Gpr; 10] = [R8, R9, R10, R11, R12, R13, R14, R15, Rbx, Rbp];
/// Of these, the ones that belong to the caller.
pub(super) const SAVED: [Gpr; 6] = [R12, R13, R14, R15, Rbx, Rbp];
/// Steps of k per turn of the inner loop.
const UNROLL: usize = 4;
/// Sums no longer than this have no inner loop.
const SHORT: usize = 12;
/// Elements of a result that do not stay in the second-level cache of a core.
const FAR_OPERANDS: usize = 1 << 18;
/// Mask of the last, partial vector of k in [`dots`].
const K_TAIL: u8 = 3;

impl MatmulKernel {
    /// `None` where generated code has no answer (a strided epilogue operand, distances beyond 2 GiB). Rows of A `in_place` are
    /// given by their addresses.
    pub fn new(work: &Matmul, in_place: Option<Side>) -> Option<MatmulKernel> {
        MatmulKernel::with(work, in_place, FMA231)
    }

    /// Every element of both sides is a pair of bfloat16, and panels of the right side are stored from end to end, as wide as tiles.
    pub fn of_pairs(work: &Matmul) -> Option<MatmulKernel> {
        MatmulKernel::with(work, None, DOT_PAIRS).filter(|_| work.n > 1)
    }

    fn with(work: &Matmul, in_place: Option<Side>, multiply: Op) -> Option<MatmulKernel> {
        let near = !far(work.a.row, 32) && !far(work.a.col, work.k) && !far(work.b.row, work.k);
        let near = near && work.deep.iter().all(|d| !far(d.a, d.size) && !far(d.b, d.size));
        let pointers = Shared::new(work).firsts.len();
        // its loops run at least once
        let empty = work.deep.iter().any(|d| d.size == 0);
        if !has_epilogue(work) || !near || empty {
            return None;
        }
        let lanes_follow_rows = work.operands.iter().all(|o| o.row <= 1);
        if in_place.is_some() && (work.n == 1 || pointers == POINTERS.len()) {
            return None;
        }
        let dots = work.deep.is_empty()
            && work.n == 1
            && work.m > 1
            && work.a.col == 1
            && work.b.row == 1
            && lanes_follow_rows;
        let apart = multiply.is(FMA231) && !dots && work.operands.len() < POINTERS.len();
        let odd = |width: usize| Odd::of(work, in_place, width).filter(|_| apart);
        let (rows, cols) = if dots { (LANES, 1) } else { tile(work, in_place, odd(work.n % LANES + LANES))? };
        let last = work.n % cols;
        let mut bytes = Vec::new();
        let mut offsets = [[0; 2]; 2];
        for (band, height) in [rows, work.m % rows].into_iter().enumerate() {
            for (panel, width) in [cols, work.n % cols].into_iter().enumerate() {
                if height == 0 || width == 0 {
                    continue;
                }
                let mut asm = Asm::default();
                let packed = (!multiply.is(FMA231)).then(|| in_panels(work, width));
                let work = packed.as_ref().unwrap_or(work);
                let made = if dots {
                    generate_dots(&mut asm, work, height)
                } else {
                    generate(&mut asm, work, in_place, multiply, odd(width), height, width)
                };
                made.ok()?;
                offsets[band][panel] = bytes.len();
                bytes.extend(asm.finish());
                bytes.resize(bytes.len().next_multiple_of(64), 0xCC);
            }
        }
        let code = Code::new(&bytes)?;
        // SAFETY: the bytes at each offset are a complete function of this signature; unused entries repeat the first.
        let entry = |offset: usize| unsafe { std::mem::transmute::<*const u8, Entry>(code.entry(offset)) };
        let entries = offsets.map(|band| band.map(entry));
        Some(MatmulKernel { rows, cols, entries, odd: odd(last).map(|odd| (last, odd)), _code: code })
    }

    pub fn tile(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// How the last column of a panel this wide is summed, if apart.
    pub fn odd(&self, cols: usize) -> Option<Odd> {
        self.odd.filter(|odd| odd.0 == cols).map(|odd| odd.1)
    }

    /// `bands` tiles below each other.
    ///
    /// SAFETY: `a`, `b` and the table point at the first tile's first elements; the tiles are whole ones, or one is the last of
    /// its band or panel. Where A's rows are in place, `a` points at the addresses of those that the tile reads, and `along` is
    /// the first element of each. Where a column is summed apart, the table's entry behind the operands has room for
    /// [`odd::SUMS`] numbers, followed, along k, by that column.
    pub unsafe fn run(
        &self,
        (a, along): (*const f32, usize),
        b: *const f32,
        table: &[*mut u8],
        rows: usize,
        cols: usize,
        bands: usize,
    ) {
        let entry = self.entries[(rows != self.rows) as usize][(cols != self.cols) as usize];
        entry(a, b, table.as_ptr(), bands, 4 * along)
    }
}

/// More bytes than an instruction can reach.
fn far(stride: usize, count: usize) -> bool {
    stride * count * 4 >= i32::MAX as usize
}

/// Can the operands of the epilogue be walked by generated code, sixteen columns at a time?
pub(super) fn has_epilogue(work: &Matmul) -> bool {
    let evenly = work.operands.iter().all(|o| (o.col <= 1 || work.n == 1) && o.dtype == DType::F32);
    let few = Shared::new(work).firsts.len() + work.deep.len() <= POINTERS.len();
    evenly && few && !work.operands.iter().any(|o| far(o.row, 32))
}

/// The product with rows of the right side one after the other.
fn in_panels(work: &Matmul, width: usize) -> Matmul {
    Matmul { b: Operand { row: width, ..work.b.clone() }, ..work.clone() }
}

/// Rows and columns of a tile: as many accumulators as the epilogue leaves room for, in a shape that divides the result well.
fn tile(work: &Matmul, in_place: Option<Side>, odd: Option<Odd>) -> Option<(usize, usize)> {
    let needed = epilogue_registers(work)?;
    let vectors = work.n.div_ceil(LANES);
    let mut best: Option<(f64, usize, usize)> = None;
    for wide in 1..=vectors.min(4) {
        // registers: accumulators, a vector of B each, one or two spread elements of A
        let spare = 32usize.saturating_sub(wide + 2 + (odd == Some(Odd::AlongRows)) as usize);
        let most = if odd.is_some() { odd::MOST_ROWS } else { 24 };
        let most = (spare / wide).min((32 - needed.min(31)) / wide).min(most);
        // a register for each row's address
        let most =
            if in_place == Some(Side::Rows) { most.min(POINTERS.len() - Shared::new(work).firsts.len()) } else { most };
        if most == 0 {
            continue;
        }
        let bands = work.m.div_ceil(most);
        let rows = work.m.div_ceil(bands);
        // per step of k: multiply-adds, or loads if those are more; latency needs about 8 accumulators
        let panels = vectors.div_ceil(wide);
        let loads = (rows + wide) as f64 * 0.55;
        let cost = (rows * wide) as f64;
        let one = cost.max(loads).max(8.0) * (bands * panels) as f64;
        if best.is_none_or(|b| one < b.0) {
            best = Some((one, rows, wide * LANES));
        }
    }
    best.map(|b| (b.1, b.2))
}

/// Has the last vector of a row eight lanes?
fn halves(cols: usize, odd: Option<Odd>) -> bool {
    odd.is_some() || (1..=LANES / 2).contains(&(cols % LANES))
}

/// Registers that the epilogue needs beside the accumulators.
fn epilogue_registers(work: &Matmul) -> Option<usize> {
    let results: Vec<Var> = work.stores.iter().map(|s| s.0).collect();
    let pinned = vec![None; work.program.instrs.len()];
    let mut asm = Asm::default();
    let mut emitter = Emitter::new(&mut asm, &work.program, &results, Registers::new(1..32), &pinned);
    let at = At { work, row: 0, vector: 0, tail: false, lanes_are_rows: false };
    emitter.emit(&at, Some(0)).ok()?;
    for &(value, _) in &work.stores {
        emitter.register(value).ok()?;
    }
    Some(31 - emitter.fewest_free())
}

/// Operands that walk one buffer alike, such as the four elements of a window of 2×2, share a pointer.
pub(super) struct Shared {
    /// The operand whose pointer each register holds.
    pub firsts: Vec<usize>,
    /// For each operand, its register, and the bytes from there.
    pub of: Vec<(Gpr, i32)>,
}

impl Shared {
    pub fn new(work: &Matmul) -> Shared {
        let mut shared = Shared { firsts: vec![], of: vec![] };
        for (i, o) in work.operands.iter().enumerate() {
            let apart = |first: usize| (o.offset as i64 - work.operands[first].offset as i64) * 4;
            let walks_alike = |&first: &usize| {
                let other = &work.operands[first];
                let alike = (o.buffer, o.row, o.col, &o.outer) == (other.buffer, other.row, other.col, &other.outer);
                alike && apart(first).abs() < 1 << 28
            };
            let register = shared.firsts.iter().position(walks_alike).unwrap_or(shared.firsts.len());
            if register == shared.firsts.len() {
                shared.firsts.push(i);
            }
            // those beyond the last register are counted, and never used
            let pointer = POINTERS[register.min(POINTERS.len() - 1)];
            shared.of.push((pointer, apart(shared.firsts[register]) as i32));
        }
        shared
    }

    /// Each register with the operand whose pointer it holds.
    pub fn each(&self) -> impl Iterator<Item = (usize, Gpr)> {
        self.firsts.iter().copied().zip(POINTERS)
    }
}

/// Where an epilogue operand is for one accumulator.
pub(super) struct At<'a> {
    pub work: &'a Matmul,
    pub row: usize,
    pub vector: usize,
    pub tail: bool,
    /// Each lane is a row (see [`generate_dots`]), not a column.
    pub lanes_are_rows: bool,
}

impl At<'_> {
    /// (address, does it move from lane to lane)
    fn element(&self, i: usize) -> (Mem, bool) {
        let o = &self.work.operands[i];
        let moves = if self.lanes_are_rows { o.row == 1 } else { o.col == 1 };
        let along = if moves { self.vector * LANES * 4 } else { 0 };
        let (pointer, apart) = Shared::new(self.work).of[i];
        (Mem::at(pointer, apart + (self.row * o.row * 4 + along) as i32), moves)
    }
}

impl Operands for At<'_> {
    fn load(&self, asm: &mut Asm, i: usize, dst: u8) {
        match self.element(i) {
            (m, true) => asm.load(dst, m, if self.tail { TAIL } else { 0 }),
            (m, false) => asm.spread(dst, Rm::Spread(m)),
        }
    }
}

/// Saves registers, loads the operands' pointers, and runs `tile` once for each band. `tile` says how far it moved A's register and
/// `rsi`. A's register is `rdi`; where its rows are in place, `rdx` walks their addresses and `rdi` is how far along them we are.
pub(super) fn each_band(
    asm: &mut Asm,
    work: &Matmul,
    in_place: Option<Side>,
    odd: bool,
    rows: usize,
    tile: impl Fn(&mut Asm, Mem) -> Result<(i32, i32), OutOfRegisters>,
) -> Result<(), OutOfRegisters> {
    let addresses = match in_place {
        None => 0,
        Some(Side::Rows) => rows,
        Some(Side::Columns) => 1,
    };
    let shared = Shared::new(work);
    // counters of the axes around k are taken from the end
    let saved = match work.deep.is_empty() {
        true => &SAVED[..(shared.firsts.len() + addresses).saturating_sub(4).min(SAVED.len())],
        false => &SAVED[..],
    };
    if odd {
        asm.load_gpr(Rax, Mem::at(Rdx, 8 * work.operands.len() as i32));
        asm.push(Rax);
    }
    saved.iter().for_each(|&r| asm.push(r));
    let apart = Mem::at(Rsp, 8 * saved.len() as i32);
    asm.copy_gpr(Rax, R8);
    for (operand, r) in shared.each() {
        asm.load_gpr(r, Mem::at(Rdx, 8 * operand as i32));
    }
    if in_place.is_some() {
        asm.copy_gpr(Rdx, Rdi);
        asm.copy_gpr(Rdi, Rax);
    }
    let again = asm.label();
    asm.place(again);
    let (a_moved, b_moved) = tile(asm, apart)?;
    match in_place {
        None => asm.add(Rdi, (rows * work.a.row * 4) as i32 - a_moved),
        Some(Side::Rows) => {
            asm.add(Rdx, 8 * rows as i32);
            asm.add(Rdi, -a_moved);
        }
        Some(Side::Columns) => {
            asm.add(Rdx, -a_moved);
            asm.add(Rdi, 4 * rows as i32);
        }
    }
    asm.add(Rsi, -b_moved);
    for (operand, r) in shared.each() {
        asm.add(r, (rows * work.operands[operand].row * 4) as i32);
    }
    asm.subtract(Rcx, 1);
    asm.jump_if_not_zero(again);
    saved.iter().rev().for_each(|&r| asm.pop(r));
    if odd {
        asm.pop(Rax);
    }
    asm.leave();
    Ok(())
}

fn generate(
    asm: &mut Asm,
    work: &Matmul,
    in_place: Option<Side>,
    multiply: Op,
    odd: Option<Odd>,
    rows: usize,
    cols: usize,
) -> Result<(), OutOfRegisters> {
    if !cols.is_multiple_of(LANES) {
        asm.set(Rax, (1 << (cols % LANES)) - 1);
        asm.mask_from(TAIL, Rax);
    }
    if let Some(odd) = odd {
        odd.set_masks(asm, work, rows);
    }
    each_band(asm, work, in_place, odd.is_some(), rows, |asm, apart| {
        generate_tile(asm, work, in_place, multiply, odd.map(|odd| (odd, apart)), rows, cols)
    })
}

/// `odd`: where the address of the room for the sums of the last column is, if they are taken apart.
fn generate_tile(
    asm: &mut Asm,
    work: &Matmul,
    in_place: Option<Side>,
    multiply: Op,
    odd: Option<(Odd, Mem)>,
    rows: usize,
    cols: usize,
) -> Result<(i32, i32), OutOfRegisters> {
    let wide = cols.div_ceil(LANES);
    let partial = !cols.is_multiple_of(LANES);
    let half = halves(cols, odd.map(|odd| odd.0));
    let accumulator = |i: usize, j: usize| (i * wide + j) as u8;
    let b_register = |j: usize| (rows * wide + j) as u8;
    let spare = (rows * wide + wide) as u8;

    let (a_row, a_col) = ((work.a.row * 4) as i32, (work.a.col * 4) as i32);
    let b_row = (work.b.row * 4) as i32;
    // registers for addresses: after those of the operands
    let pointers = Shared::new(work).firsts.len();
    let address = |i: usize| POINTERS[pointers + i];
    if in_place == Some(Side::Rows) {
        (0..rows).for_each(|i| asm.load_gpr(address(i), Mem::at(Rdx, 8 * i as i32)));
    }
    let along = |base: Gpr, element: usize| Mem { base, index: Some((Rdi, 0)), disp: 4 * element as i32 };
    // element `k` of row `i`
    let left = |i: usize, k: usize| match in_place {
        None => Mem::at(Rdi, i as i32 * a_row + k as i32 * a_col),
        Some(Side::Rows) => along(address(i), k),
        Some(Side::Columns) => along(address(0), i),
    };
    ask_for_operands(asm, work, rows, wide);
    if let Some((Odd::AlongK, apart)) = odd {
        Odd::sum_along_k(asm, work, rows, apart, left);
    }
    let sums = spare + 2;
    let along_rows = matches!(odd, Some((Odd::AlongRows, _)));
    (0..(rows * wide) as u8).for_each(|r| asm.zero(r));
    if along_rows {
        asm.zero(sums);
    }
    let step = |asm: &mut Asm, u: usize| {
        if in_place == Some(Side::Columns) {
            asm.load_gpr(address(0), Mem::at(Rdx, 8 * u as i32));
        }
        for j in 0..wide {
            let m = Mem::at(Rsi, u as i32 * b_row + (j * LANES * 4) as i32);
            match j + 1 == wide {
                // where the odd column is apart, eight whole lanes are left
                true if odd.is_some() || cols % LANES == LANES / 2 => asm.load_half(b_register(j), m, 0),
                true if half => asm.load_half(b_register(j), m, TAIL),
                true if partial => asm.load(b_register(j), m, TAIL),
                _ => asm.load(b_register(j), m, 0),
            }
        }
        for i in 0..rows {
            let m = left(i, u);
            if wide == 1 {
                match half {
                    true => asm.three_half(multiply, accumulator(i, 0), b_register(0), Rm::Spread(m)),
                    false => asm.three(multiply, accumulator(i, 0), b_register(0), Rm::Spread(m)),
                }
                continue;
            }
            // spread by itself, an element would take a place that half a vector can have beside a whole one
            if wide == 2 && half {
                asm.three(multiply, accumulator(i, 0), b_register(0), Rm::Spread(m));
                asm.three_half(multiply, accumulator(i, 1), b_register(1), Rm::Spread(m));
                continue;
            }
            let x = spare + (i % 2) as u8;
            asm.spread(x, Rm::Spread(m));
            for j in 0..wide {
                let (sum, b) = (accumulator(i, j), Rm::Zmm(b_register(j)));
                match half && j + 1 == wide {
                    true => asm.three_half(multiply, sum, x, b),
                    false => asm.three(multiply, sum, x, b),
                }
            }
        }
        if along_rows {
            let b = Mem::at(Rsi, u as i32 * b_row + 4 * (cols as i32 - 1));
            Odd::step_along_rows(asm, sums, left(0, u), b, spare);
        }
    };
    let unroll = match work.k {
        k if k <= SHORT => k.max(1),
        _ if rows * wide <= 8 => 2 * UNROLL,
        _ => UNROLL,
    };
    // loops around the one over k
    let turns: Vec<_> = work
        .deep
        .iter()
        .zip(POINTERS.iter().rev())
        .map(|(deep, &counter)| {
            let again = asm.label();
            asm.set(counter, deep.size as i32);
            asm.place(again);
            (deep, counter, again)
        })
        .collect();
    if work.k > unroll {
        let again = asm.label();
        asm.set(Rax, (work.k / unroll) as i32);
        asm.place(again);
        (0..unroll).for_each(|u| step(asm, u));
        match in_place {
            None | Some(Side::Rows) => asm.add(Rdi, unroll as i32 * a_col),
            Some(Side::Columns) => asm.add(Rdx, 8 * unroll as i32),
        }
        asm.add(Rsi, unroll as i32 * b_row);
        asm.subtract(Rax, 1);
        asm.jump_if_not_zero(again);
    }
    let rest = if work.k > unroll { work.k % unroll } else { work.k };
    (0..rest).for_each(|u| step(asm, u));
    let moved = (work.k - rest) as i32;
    let a_step = if in_place == Some(Side::Columns) { 8 } else { a_col };
    let mut moved = (moved * a_step, moved * b_row);
    for (deep, counter, again) in turns.into_iter().rev() {
        let (a, b) = ((deep.a * 4) as i32, (deep.b * 4) as i32);
        asm.add(Rdi, a - moved.0);
        asm.add(Rsi, b - moved.1);
        asm.subtract(counter, 1);
        asm.jump_if_not_zero(again);
        moved = (deep.size as i32 * a, deep.size as i32 * b);
    }

    if let Some((odd, apart)) = odd {
        asm.load_gpr(Rax, apart);
        if odd == Odd::AlongRows {
            asm.store(Mem::at(Rax, 0), sums, 0);
        }
        (0..rows).for_each(|i| Odd::join(asm, i, accumulator(i, wide - 1)));
    }
    let (pinned, free) = pin_constants(asm, work, (rows * wide) as u8);
    for i in 0..rows {
        for j in 0..wide {
            let at = At { work, row: i, vector: j, tail: partial && j + 1 == wide, lanes_are_rows: false };
            epilogue(asm, work, &at, accumulator(i, j), Registers::new(free..32), &pinned)?;
        }
    }
    Ok(moved)
}

/// Epilogue operands of a large product are not near: their rows lie far apart, and nobody else asks for them ahead of time.
fn ask_for_operands(asm: &mut Asm, work: &Matmul, rows: usize, wide: usize) {
    if work.m * work.n < FAR_OPERANDS || work.k < SHORT {
        return;
    }
    let shared = Shared::new(work);
    for (o, &(base, apart)) in work.operands.iter().zip(&shared.of).filter(|(o, _)| o.row > 0 && o.col == 1) {
        for (i, j) in (0..rows).flat_map(|i| (0..wide).map(move |j| (i, j))) {
            asm.prefetch(Mem::at(base, apart + ((i * o.row + j * LANES) * 4) as i32));
        }
    }
}

/// Constants of the epilogue go into registers once per tile, if there are enough beside what it needs. Returns where each is,
/// and the first register after them.
pub(super) fn pin_constants(asm: &mut Asm, work: &Matmul, first: u8) -> (Vec<Option<u8>>, u8) {
    let mut pinned = vec![None; work.program.instrs.len()];
    let needed = epilogue_registers(work).unwrap_or(32);
    let mut next = first;
    for (i, instr) in work.program.instrs.iter().enumerate() {
        if let Instr::Const(c) = *instr
            && (next as usize) + 1 + needed <= 32
        {
            asm.spread(next, Rm::Const(c));
            pinned[i] = Some(next);
            next += 1;
        }
    }
    (pinned, next)
}

pub(super) fn epilogue(
    asm: &mut Asm,
    work: &Matmul,
    at: &At,
    product: u8,
    registers: Registers,
    pinned: &[Option<u8>],
) -> Result<(), OutOfRegisters> {
    let results: Vec<Var> = work.stores.iter().map(|s| s.0).collect();
    let mut emitter = Emitter::new(asm, &work.program, &results, registers, pinned);
    emitter.emit(at, Some(product))?;
    for &(value, target) in &work.stores {
        let r = emitter.register(value)?;
        let (m, moves) = at.element(target);
        match moves {
            true => emitter.asm().store(m, r, if at.tail { TAIL } else { 0 }),
            false => emitter.asm().store_one(m, r),
        }
    }
    Ok(())
}

/// A column of results from rows of A: one dot product a row, sixteen rows at a time, a result in each lane.
fn generate_dots(asm: &mut Asm, work: &Matmul, rows: usize) -> Result<(), OutOfRegisters> {
    if rows < LANES {
        asm.set(Rax, (1 << rows) - 1);
        asm.mask_from(TAIL, Rax);
    }
    let rest = work.k % LANES;
    if rest != 0 {
        asm.set(Rax, (1 << rest) - 1);
        asm.mask_from(K_TAIL, Rax);
    }
    each_band(asm, work, None, false, rows, |asm, _| dots_tile(asm, work, rows))
}

fn dots_tile(asm: &mut Asm, work: &Matmul, rows: usize) -> Result<(i32, i32), OutOfRegisters> {
    let (b, x) = (16u8, 17u8);
    let rest = work.k % LANES;
    (0..LANES).for_each(|i| asm.zero(i as u8));
    let a_row = (work.a.row * 4) as i32;
    if work.k >= LANES {
        let again = asm.label();
        asm.set(Rax, (work.k / LANES) as i32);
        asm.place(again);
        asm.load(b, Mem::at(Rsi, 0), 0);
        (0..rows).for_each(|i| asm.three(FMA231, i as u8, b, Rm::Mem(Mem::at(Rdi, i as i32 * a_row))));
        asm.add(Rdi, 64);
        asm.add(Rsi, 64);
        asm.subtract(Rax, 1);
        asm.jump_if_not_zero(again);
    }
    if rest != 0 {
        asm.load(b, Mem::at(Rsi, 0), K_TAIL);
        for i in 0..rows {
            asm.load(x, Mem::at(Rdi, i as i32 * a_row), K_TAIL);
            asm.three(FMA231, i as u8, b, Rm::Zmm(x));
        }
    }
    asm.sum_each_of_sixteen(x);
    let at = At { work, row: 0, vector: 0, tail: rows < LANES, lanes_are_rows: true };
    let (pinned, free) = pin_constants(asm, work, 1);
    epilogue(asm, work, &at, 0, Registers::new(free..32), &pinned)?;
    let moved = (work.k / LANES * 64) as i32;
    Ok((moved, moved))
}
