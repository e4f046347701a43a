//! A small assembler: the dozen general and the AVX-512 instructions that kernels need.
//!
//! Vector registers are numbers 0–31, general registers [`Gpr`]. Encodings follow Intel's manual, volume 2: EVEX is
//! `62 [R̄X̄B̄R̄′0mmm] [Wv̄v̄v̄v̄1pp] [zLLbV̄′aaa] opcode modrm [sib] [disp32] [imm8]`, 512 bits wide but where a name says half.

use citius_plan::FoldKind;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Gpr {
    Rax = 0,
    Rcx = 1,
    Rdx = 2,
    Rbx = 3,
    Rsp = 4,
    Rbp = 5,
    Rsi = 6,
    Rdi = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
    R11 = 11,
    R12 = 12,
    R13 = 13,
    R14 = 14,
    R15 = 15,
}

/// `base + index·2^scale + disp`
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mem {
    pub base: Gpr,
    pub index: Option<(Gpr, u8)>,
    pub disp: i32,
}

impl Mem {
    pub fn at(base: Gpr, disp: i32) -> Mem {
        Mem { base, index: None, disp }
    }
}

/// The last source of a vector instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rm {
    Zmm(u8),
    /// 64 bytes (or what the instruction reads).
    Mem(Mem),
    /// One f32, repeated.
    Spread(Mem),
    /// One f32 of the constant pool, repeated.
    Const(f32),
}

/// Opcode map and mandatory prefix.
#[derive(Clone, Copy)]
pub struct Op {
    map: u8,
    prefix: u8,
    code: u8,
}

impl Op {
    pub fn is(self, other: Op) -> bool {
        (self.map, self.prefix, self.code) == (other.map, other.prefix, other.code)
    }
}

const fn op(map: u8, prefix: u8, code: u8) -> Op {
    Op { map, prefix, code }
}

pub const ADD: Op = op(1, 0, 0x58);
pub const MUL: Op = op(1, 0, 0x59);
pub const SUB: Op = op(1, 0, 0x5C);
pub const MIN: Op = op(1, 0, 0x5D);
pub const DIV: Op = op(1, 0, 0x5E);
pub const MAX: Op = op(1, 0, 0x5F);
pub const SQRT: Op = op(1, 0, 0x51);
/// a = b·a + c
pub const FMA213: Op = op(2, 1, 0xA8);
/// a = b·c + a
pub const FMA231: Op = op(2, 1, 0xB8);
/// a = b·c + a of pairs of bfloat16, both products
pub const DOT_PAIRS: Op = op(2, 2, 0x52);
/// a = −b·a + c
pub const FNMA213: Op = op(2, 1, 0xAC);
/// a = −b·c + a
pub const FNMA231: Op = op(2, 1, 0xBC);
pub const AND: Op = op(1, 1, 0xDB);
pub const OR: Op = op(1, 1, 0xEB);
pub const XOR: Op = op(1, 1, 0xEF);
pub const SCALEF: Op = op(2, 1, 0x2C);
const GETEXP: Op = op(2, 1, 0x42);
const GETMANT: Op = op(3, 1, 0x26);
const ROUND: Op = op(3, 1, 0x08);
const BROADCAST: Op = op(2, 1, 0x18);
const LOAD: Op = op(1, 0, 0x10);
const STORE: Op = op(1, 0, 0x11);
const STORE_ONE: Op = op(1, 2, 0x11);
const COMPARE: Op = op(1, 0, 0xC2);
const BLEND: Op = op(2, 1, 0x65);
const FROM_I32: Op = op(1, 0, 0x5B);
const WIDEN_U8: Op = op(2, 1, 0x31);
const SHUFFLE_BLOCKS: Op = op(3, 1, 0x23);
const PERMUTE_IN_BLOCKS: Op = op(3, 1, 0x04);
const INTERLEAVE_LOW: Op = op(1, 0, 0x14);
const INTERLEAVE_HIGH: Op = op(1, 0, 0x15);
const SHUFFLE_PAIRS: Op = op(1, 0, 0xC6);

/// Lengths of vectors, in units of 32 bytes.
const HALF: u8 = 1;
const WHOLE: u8 = 2;

/// Comparison predicates.
pub const EQUAL: u8 = 0;
pub const LESS: u8 = 1;
pub const LESS_EQUAL: u8 = 2;
pub const UNORDERED: u8 = 3;
pub const NOT_EQUAL: u8 = 4;
pub const NOT_LESS: u8 = 5;

/// Mask registers: 1 holds the tail of a row, 2 is scratch.
pub const TAIL: u8 = 1;
pub const SCRATCH: u8 = 2;

/// Rounding modes of [`Asm::round`].
pub const TO_NEAREST: u8 = 8;
pub const DOWN: u8 = 9;

/// A place to jump to.
#[derive(Clone, Copy)]
pub struct Label(usize);

#[derive(Default)]
pub struct Asm {
    code: Vec<u8>,
    constants: Vec<u32>,
    /// (position of a disp32, constant, end of the instruction)
    constant_uses: Vec<(usize, usize, usize)>,
    labels: Vec<Option<usize>>,
    /// (position of a rel32, label)
    jumps: Vec<(usize, Label)>,
}

impl Asm {
    /// The finished bytes: code, then the constants.
    pub fn finish(mut self) -> Vec<u8> {
        for &(at, label) in &self.jumps {
            let target = self.labels[label.0].unwrap_or(0);
            let relative = target as i64 - (at as i64 + 4);
            self.code[at..at + 4].copy_from_slice(&(relative as i32).to_le_bytes());
        }
        while !self.code.len().is_multiple_of(64) {
            self.code.push(0xCC);
        }
        let pool = self.code.len();
        for &(at, constant, end) in &self.constant_uses {
            let relative = (pool + 4 * constant) as i64 - end as i64;
            self.code[at..at + 4].copy_from_slice(&(relative as i32).to_le_bytes());
        }
        self.constants.iter().for_each(|c| self.code.extend(c.to_le_bytes()));
        self.code
    }

    // ---- vectors

    /// `dst = a op src`
    pub fn three(&mut self, o: Op, dst: u8, a: u8, src: Rm) {
        self.evex(o, dst, a, src, 0, false, None);
    }

    /// `dst = a op src` in the lanes of mask `k`; the others keep their value.
    pub fn three_masked(&mut self, o: Op, dst: u8, a: u8, src: Rm, k: u8) {
        self.evex(o, dst, a, src, k, false, None);
    }

    /// `dst = a op src` in the lower eight lanes; the others become 0.
    pub fn three_half(&mut self, o: Op, dst: u8, a: u8, src: Rm) {
        self.evex_of(HALF, o, dst, a, src, 0, false, None);
    }

    /// `dst = op src`
    pub fn two(&mut self, o: Op, dst: u8, src: Rm) {
        self.evex(o, dst, 0, src, 0, false, None);
    }

    pub fn copy(&mut self, dst: u8, src: u8) {
        if dst != src {
            self.evex(LOAD, dst, 0, Rm::Zmm(src), 0, false, None);
        }
    }

    /// `dst = src` in the lanes of mask `k`.
    pub fn copy_masked(&mut self, dst: u8, src: u8, k: u8) {
        self.evex(LOAD, dst, 0, Rm::Zmm(src), k, false, None);
    }

    /// All lanes equal: from memory or the pool.
    pub fn spread(&mut self, dst: u8, src: Rm) {
        let rm = match src {
            Rm::Spread(m) => Rm::Mem(m),
            other => other,
        };
        self.evex(BROADCAST, dst, 0, rm, 0, false, None);
    }

    /// One value from memory into the lanes of mask `k`; the others keep theirs.
    pub fn spread_masked(&mut self, dst: u8, m: Mem, k: u8) {
        self.evex(BROADCAST, dst, 0, Rm::Mem(m), k, false, None);
    }

    /// 1 in the lanes of `k`, 0 elsewhere.
    pub fn truth(&mut self, dst: u8, k: u8) {
        self.evex(BROADCAST, dst, 0, Rm::Const(1.0), k, true, None);
    }

    pub fn zero(&mut self, dst: u8) {
        self.three(XOR, dst, dst, Rm::Zmm(dst));
    }

    /// 16 values; only the lanes of `k` when it is not 0, the others 0.
    pub fn load(&mut self, dst: u8, m: Mem, k: u8) {
        self.evex(LOAD, dst, 0, Rm::Mem(m), k, k != 0, None);
    }

    /// 8 values, or the lanes of `k` among them; the others become 0.
    pub fn load_half(&mut self, dst: u8, m: Mem, k: u8) {
        self.evex_of(HALF, LOAD, dst, 0, Rm::Mem(m), k, k != 0, None);
    }

    pub fn load_u8(&mut self, dst: u8, m: Mem, k: u8) {
        self.evex(WIDEN_U8, dst, 0, Rm::Mem(m), k, k != 0, None);
        self.two(FROM_I32, dst, Rm::Zmm(dst));
    }

    pub fn load_i32(&mut self, dst: u8, m: Mem, k: u8) {
        self.evex(FROM_I32, dst, 0, Rm::Mem(m), k, k != 0, None);
    }

    /// One i32, repeated.
    pub fn spread_i32(&mut self, dst: u8, m: Mem) {
        self.evex(FROM_I32, dst, 0, Rm::Spread(m), 0, false, None);
    }

    pub fn store(&mut self, m: Mem, src: u8, k: u8) {
        self.evex(STORE, src, 0, Rm::Mem(m), k, false, None);
    }

    /// The first lane.
    pub fn store_one(&mut self, m: Mem, src: u8) {
        self.evex(STORE_ONE, src, 0, Rm::Mem(m), 0, false, None);
    }

    /// `k = a ? src`
    pub fn compare(&mut self, k: u8, a: u8, src: Rm, predicate: u8) {
        self.evex(COMPARE, k, a, src, 0, false, Some(predicate));
    }

    /// `dst = k ? yes : no`
    pub fn blend(&mut self, dst: u8, k: u8, no: u8, yes: Rm) {
        self.evex(BLEND, dst, no, yes, k, false, None);
    }

    pub fn round(&mut self, dst: u8, src: u8, mode: u8) {
        self.evex(ROUND, dst, 0, Rm::Zmm(src), 0, false, Some(mode));
    }

    pub fn exponent(&mut self, dst: u8, src: u8) {
        self.two(GETEXP, dst, Rm::Zmm(src));
    }

    /// In [1, 2); not-a-number for negative numbers.
    pub fn mantissa(&mut self, dst: u8, src: u8) {
        self.evex(GETMANT, dst, 0, Rm::Zmm(src), 0, false, Some(0b1000));
    }

    /// Combines all lanes by a fixed tree; every lane of `r` ends up with the result.
    /// Uses mask [`SCRATCH`].
    pub fn across(&mut self, kind: FoldKind, r: u8, temp: u8) {
        let combine = match kind {
            FoldKind::Sum => ADD,
            FoldKind::Max => MAX,
        };
        if kind == FoldKind::Max {
            self.compare(SCRATCH, r, Rm::Zmm(r), UNORDERED);
        }
        for order in [0x4E, 0xB1] {
            self.evex(SHUFFLE_BLOCKS, temp, r, Rm::Zmm(r), 0, false, Some(order));
            self.three(combine, r, r, Rm::Zmm(temp));
        }
        for order in [0x4E, 0xB1] {
            self.evex(PERMUTE_IN_BLOCKS, temp, 0, Rm::Zmm(r), 0, false, Some(order));
            self.three(combine, r, r, Rm::Zmm(temp));
        }
        if kind == FoldKind::Max {
            // not-a-number in any lane wins; there hardly ever is one
            let none = self.label();
            self.test_mask(SCRATCH);
            self.jump_if_zero(none);
            self.spread(r, Rm::Const(f32::NAN));
            self.place(none);
        }
    }

    /// The sums of registers 0–15, each over its lanes, into the lanes of register 0. Halves their number four times: each round
    /// adds what two registers hold side by side. Overwrites 0–15 and `temp`.
    pub fn sum_each_of_sixteen(&mut self, temp: u8) {
        let rounds: [(Op, Option<u8>, Op, Option<u8>); 4] = [
            (INTERLEAVE_LOW, None, INTERLEAVE_HIGH, None),
            (SHUFFLE_PAIRS, Some(0x44), SHUFFLE_PAIRS, Some(0xEE)),
            (SHUFFLE_BLOCKS, Some(0x88), SHUFFLE_BLOCKS, Some(0xDD)),
            (SHUFFLE_BLOCKS, Some(0x88), SHUFFLE_BLOCKS, Some(0xDD)),
        ];
        for (round, (low, low_order, high, high_order)) in rounds.into_iter().enumerate() {
            for i in 0..8u8 >> round {
                let (a, b) = (2 * i, 2 * i + 1);
                self.evex(high, temp, a, Rm::Zmm(b), 0, false, high_order);
                self.evex(low, i, a, Rm::Zmm(b), 0, false, low_order);
                self.three(ADD, i, i, Rm::Zmm(temp));
            }
        }
    }

    /// Registers 0–15 are lines of a block, the first `lines` of them; afterwards the first `wanted` are its columns. Overwrites 0–31.
    pub fn turn_sixteen(&mut self, lines: usize, wanted: usize) {
        let mut shuffle = |o: Op, to: usize, a: usize, b: usize, order: Option<u8>| {
            self.evex(o, to as u8, a as u8, Rm::Zmm(b as u8), 0, false, order);
        };
        // pairs of values, then pairs of pairs, within blocks of four lanes
        for i in (0..lines).step_by(2) {
            shuffle(INTERLEAVE_LOW, 16 + i, i, i + 1, None);
            shuffle(INTERLEAVE_HIGH, 17 + i, i, i + 1, None);
        }
        for i in (0..lines).step_by(4) {
            for (half, n) in [(0, 16 + i), (2, 17 + i)] {
                shuffle(SHUFFLE_PAIRS, i + half, n, n + 2, Some(0x44));
                shuffle(SHUFFLE_PAIRS, i + half + 1, n, n + 2, Some(0xEE));
            }
        }
        // block k of register 4q + j holds column 4k + j of lines 4q..4q+4: blocks change places
        for j in 0..4 {
            for (n, order) in [(0, 0x88), (1, 0xDD)] {
                // columns j and 8 + j, or 4 + j and 12 + j
                if 4 * n + j < wanted {
                    shuffle(SHUFFLE_BLOCKS, 16 + 4 * n + j, j, 4 + j, Some(order));
                    shuffle(SHUFFLE_BLOCKS, 24 + 4 * n + j, 8 + j, 12 + j, Some(order));
                }
            }
        }
        for column in 0..wanted {
            let (n, order) = (16 + column % 8, if column < 8 { 0x88 } else { 0xDD });
            shuffle(SHUFFLE_BLOCKS, column, n, n + 8, Some(order));
        }
    }

    /// `r = r combined with x`, in the lanes of mask `k` when it is not 0. In a maximum, not-a-number wins: the hardware's gives
    /// the second source when either is one, so only one that is already in `r` needs care. Uses mask [`SCRATCH`].
    pub fn fold(&mut self, kind: FoldKind, r: u8, x: u8, k: u8) {
        match kind {
            FoldKind::Sum => self.three_masked(ADD, r, r, Rm::Zmm(x), k),
            FoldKind::Max => {
                self.compare(SCRATCH, r, Rm::Zmm(r), UNORDERED);
                self.three_masked(MAX, r, r, Rm::Zmm(x), k);
                self.evex(BROADCAST, r, 0, Rm::Const(f32::NAN), SCRATCH, false, None);
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn evex(&mut self, o: Op, reg: u8, v: u8, rm: Rm, k: u8, zeroing: bool, imm: Option<u8>) {
        self.evex_of(WHOLE, o, reg, v, rm, k, zeroing, imm);
    }

    #[allow(clippy::too_many_arguments)]
    fn evex_of(&mut self, length: u8, o: Op, reg: u8, v: u8, rm: Rm, k: u8, zeroing: bool, imm: Option<u8>) {
        let bit = |x: u8, b: u8| (x >> b) & 1;
        let (x_bit, b_bit, spread) = match rm {
            Rm::Zmm(r) => (bit(r, 4), bit(r, 3), false),
            Rm::Mem(m) | Rm::Spread(m) => {
                let index = m.index.map_or(0, |(i, _)| bit(i as u8, 3));
                (index, bit(m.base as u8, 3), matches!(rm, Rm::Spread(_)))
            }
            // a broadcast instruction reads one value by itself
            Rm::Const(_) => (0, 0, o.code != BROADCAST.code || o.map != BROADCAST.map),
        };
        let not = |x: u8| x ^ 1;
        let p0 = not(bit(reg, 3)) << 7 | not(x_bit) << 6 | not(b_bit) << 5 | not(bit(reg, 4)) << 4 | o.map;
        let p1 = (!v & 0xF) << 3 | 1 << 2 | o.prefix;
        let p2 = (zeroing as u8) << 7 | length << 5 | (spread as u8) << 4 | not(bit(v, 4)) << 3 | k;
        self.code.extend([0x62, p0, p1, p2, o.code]);
        // bytes that a memory operand has: a short displacement counts in these
        let one = spread || o.is(BROADCAST) || o.is(STORE_ONE);
        let bytes = if one {
            4
        } else if o.is(WIDEN_U8) {
            8 * length as i32
        } else {
            32 * length as i32
        };
        let constant = self.modrm(reg & 7, rm, bytes);
        if let Some(imm) = imm {
            self.code.push(imm);
        }
        if let Some((at, constant)) = constant {
            self.constant_uses.push((at, constant, self.code.len()));
        }
    }

    /// Returns the position and index of a constant to be patched.
    fn modrm(&mut self, reg: u8, rm: Rm, bytes: i32) -> Option<(usize, usize)> {
        match rm {
            Rm::Zmm(r) => {
                self.code.push(0xC0 | reg << 3 | r & 7);
                None
            }
            Rm::Mem(m) | Rm::Spread(m) => {
                self.memory(reg, m, bytes);
                None
            }
            Rm::Const(c) => {
                let bits = c.to_bits();
                let index = self.constants.iter().position(|&x| x == bits).unwrap_or_else(|| {
                    self.constants.push(bits);
                    self.constants.len() - 1
                });
                // relative to the end of the instruction
                self.code.push(reg << 3 | 0b101);
                self.code.extend([0; 4]);
                Some((self.code.len() - 4, index))
            }
        }
    }

    /// Address and displacement, the latter in one byte where it is few enough `units`.
    fn memory(&mut self, reg: u8, m: Mem, unit: i32) {
        let base = m.base as u8 & 7;
        let short = i8::try_from(m.disp / unit).ok().filter(|_| m.disp % unit == 0);
        let mode = if short.is_some() { 0b01 } else { 0b10 };
        match m.index {
            Some((index, scale)) => {
                self.code.push(mode << 6 | reg << 3 | 0b100);
                self.code.push(scale << 6 | (index as u8 & 7) << 3 | base);
            }
            None if base == 4 => {
                self.code.push(mode << 6 | reg << 3 | 0b100);
                self.code.push(0b100 << 3 | 0b100);
            }
            None => self.code.push(mode << 6 | reg << 3 | base),
        }
        match short {
            Some(units) => self.code.push(units as u8),
            None => self.code.extend(m.disp.to_le_bytes()),
        }
    }

    // ---- masks

    /// `k = low 16 bits of r`
    pub fn mask_from(&mut self, k: u8, r: Gpr) {
        let r = r as u8;
        let inverted = if r < 8 { 0xF8 } else { 0x78 };
        match r < 8 {
            true => self.code.extend([0xC5, inverted, 0x92, 0xC0 | k << 3 | r]),
            false => self.code.extend([0xC4, 0xC1, 0x78, 0x92, 0xC0 | k << 3 | r & 7]),
        }
    }

    /// Zero if no lane of `k` is set.
    pub fn test_mask(&mut self, k: u8) {
        self.code.extend([0xC5, 0xF8, 0x98, 0xC0 | k << 3 | k]);
    }

    // ---- general registers

    fn rex(&mut self, reg: u8, m: Mem) {
        let index = m.index.map_or(0, |(i, _)| i as u8);
        self.code.push(0x48 | (reg >> 3) << 2 | (index >> 3) << 1 | m.base as u8 >> 3);
    }

    pub fn load_gpr(&mut self, dst: Gpr, m: Mem) {
        self.rex(dst as u8, m);
        self.code.push(0x8B);
        self.memory(dst as u8 & 7, m, 1);
    }

    /// Asks for the cache line at `m`.
    pub fn prefetch(&mut self, m: Mem) {
        self.rex(0, m);
        self.code.extend([0x0F, 0x18]);
        self.memory(1, m, 1);
    }

    /// 32 bits; the upper half becomes 0.
    pub fn load_u32(&mut self, dst: Gpr, m: Mem) {
        self.rex(dst as u8, m);
        // without W
        self.code.last_mut().into_iter().for_each(|rex| *rex &= !8);
        self.code.push(0x8B);
        self.memory(dst as u8 & 7, m, 1);
    }

    /// `dst = byte 0 of rax` or, if `second`, byte 1. Only for the first four registers: the others need a prefix under which
    /// there is no byte 1.
    pub fn byte_of_rax(&mut self, dst: Gpr, second: bool) {
        debug_assert!((dst as u8) < 4);
        self.code.extend([0x0F, 0xB6, 0xC0 | (dst as u8) << 3 | if second { 4 } else { 0 }]);
    }

    /// `r >>= by`, 32 bits
    pub fn shift_right(&mut self, r: Gpr, by: u8) {
        debug_assert!((r as u8) < 8);
        self.code.extend([0xC1, 0xE8 | r as u8, by]);
    }

    /// `r *= value`
    pub fn multiply(&mut self, r: Gpr, value: i32) {
        let n = r as u8;
        self.code.extend([0x48 | (n >> 3) << 2 | n >> 3, 0x69, 0xC0 | (n & 7) << 3 | n & 7]);
        self.code.extend(value.to_le_bytes());
    }

    pub fn add_gpr(&mut self, a: Gpr, b: Gpr) {
        let (a, b) = (a as u8, b as u8);
        self.code.extend([0x48 | (b >> 3) << 2 | a >> 3, 0x01, 0xC0 | (b & 7) << 3 | a & 7]);
    }

    /// Compares a register with 64 bits of memory.
    pub fn compare_with(&mut self, a: Gpr, m: Mem) {
        self.rex(a as u8, m);
        self.code.push(0x3B);
        self.memory(a as u8 & 7, m, 1);
    }

    pub fn store_gpr(&mut self, m: Mem, src: Gpr) {
        self.rex(src as u8, m);
        self.code.push(0x89);
        self.memory(src as u8 & 7, m, 1);
    }

    pub fn add_memory(&mut self, m: Mem, value: i32) {
        self.rex(0, m);
        self.code.push(0x81);
        self.memory(0, m, 1);
        self.code.extend(value.to_le_bytes());
    }

    fn with_immediate(&mut self, extension: u8, r: Gpr, value: i32) {
        self.code.extend([0x48 | r as u8 >> 3, 0x81, 0xC0 | extension << 3 | r as u8 & 7]);
        self.code.extend(value.to_le_bytes());
    }

    pub fn add(&mut self, r: Gpr, value: i32) {
        if value != 0 {
            self.with_immediate(0, r, value);
        }
    }

    pub fn subtract(&mut self, r: Gpr, value: i32) {
        self.with_immediate(5, r, value);
    }

    pub fn and(&mut self, r: Gpr, value: i32) {
        self.with_immediate(4, r, value);
    }

    pub fn copy_gpr(&mut self, dst: Gpr, src: Gpr) {
        let (d, s) = (dst as u8, src as u8);
        self.code.extend([0x48 | (s >> 3) << 2 | d >> 3, 0x89, 0xC0 | (s & 7) << 3 | d & 7]);
    }

    pub fn set(&mut self, r: Gpr, value: i32) {
        self.code.extend([0x48 | r as u8 >> 3, 0xC7, 0xC0 | r as u8 & 7]);
        self.code.extend(value.to_le_bytes());
    }

    pub fn compare_gpr(&mut self, a: Gpr, b: Gpr) {
        let (a, b) = (a as u8, b as u8);
        self.code.extend([0x48 | (b >> 3) << 2 | a >> 3, 0x39, 0xC0 | (b & 7) << 3 | a & 7]);
    }

    /// `r <<= cl`, 32 bits
    pub fn shift_left_by_cl(&mut self, r: Gpr) {
        self.code.extend([0xD3, 0xE0 | r as u8 & 7]);
    }

    pub fn push(&mut self, r: Gpr) {
        if r as u8 >= 8 {
            self.code.push(0x41);
        }
        self.code.push(0x50 | r as u8 & 7);
    }

    pub fn pop(&mut self, r: Gpr) {
        if r as u8 >= 8 {
            self.code.push(0x41);
        }
        self.code.push(0x58 | r as u8 & 7);
    }

    /// Leaves the upper halves of the vector registers clean, and returns.
    pub fn leave(&mut self) {
        self.code.extend([0xC5, 0xF8, 0x77, 0xC3]);
    }

    // ---- jumps

    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    fn jump_if(&mut self, condition: u8, to: Label) {
        self.code.extend([0x0F, 0x80 | condition, 0, 0, 0, 0]);
        self.jumps.push((self.code.len() - 4, to));
    }

    pub fn jump_if_zero(&mut self, to: Label) {
        self.jump_if(4, to);
    }
    pub fn jump_if_not_zero(&mut self, to: Label) {
        self.jump_if(5, to);
    }
    /// After comparing a with b: a < b, unsigned.
    pub fn jump_if_below(&mut self, to: Label) {
        self.jump_if(2, to);
    }
    pub fn jump_if_not_below(&mut self, to: Label) {
        self.jump_if(3, to);
    }
}
