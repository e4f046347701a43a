//! The epilogue of a product whose sums are in memory already: `rdi` walks them, the rest is as in [`super::matmul`].

use citius_plan::{Matmul, Operand};

use super::asm::Gpr::*;
use super::asm::*;
use super::code::Code;
use super::matmul::{At, Entry, LANES, each_band, epilogue, has_epilogue, pin_constants};
use super::program::{OutOfRegisters, Registers};

pub struct SumsKernel {
    /// [whole or last panel]
    entries: [Entry; 2],
    cols: usize,
    _code: Code,
}

impl SumsKernel {
    /// For panels of `cols` columns, a multiple of sixteen; `None` where generated code has no answer.
    pub fn new(work: &Matmul, cols: usize) -> Option<SumsKernel> {
        if !has_epilogue(work) {
            return None;
        }
        // the sums are a left side that is multiplied
        let work = Matmul { a: Operand { row: cols, ..work.a.clone() }, deep: vec![], ..work.clone() };
        let mut bytes = Vec::new();
        let mut offsets = [0; 2];
        for (panel, width) in [cols, work.n % cols].into_iter().enumerate().filter(|(_, width)| *width > 0) {
            let mut asm = Asm::default();
            if !width.is_multiple_of(LANES) {
                asm.set(Rax, (1 << (width % LANES)) - 1);
                asm.mask_from(TAIL, Rax);
            }
            each_band(&mut asm, &work, None, false, 1, |asm, _| row(asm, &work, width)).ok()?;
            offsets[panel] = bytes.len();
            bytes.extend(asm.finish());
            bytes.resize(bytes.len().next_multiple_of(64), 0xCC);
        }
        let code = Code::new(&bytes)?;
        // SAFETY: the bytes at each offset are a complete function of this signature; an unused entry repeats the first.
        let entry = |offset: usize| unsafe { std::mem::transmute::<*const u8, Entry>(code.entry(offset)) };
        Some(SumsKernel { entries: offsets.map(entry), cols, _code: code })
    }

    /// SAFETY: `sums` are `rows` rows, as far apart as a whole panel is wide; the table points at the operands of the first.
    pub unsafe fn run(&self, sums: *const f32, table: &[*mut u8], rows: usize, cols: usize) {
        self.entries[(cols != self.cols) as usize](sums, std::ptr::null(), table.as_ptr(), rows, 0)
    }
}

fn row(asm: &mut Asm, work: &Matmul, cols: usize) -> Result<(i32, i32), OutOfRegisters> {
    let wide = cols.div_ceil(LANES);
    (0..wide).for_each(|j| asm.load(j as u8, Mem::at(Rdi, (j * LANES * 4) as i32), 0));
    let (pinned, free) = pin_constants(asm, work, wide as u8);
    for j in 0..wide {
        let tail = !cols.is_multiple_of(LANES) && j + 1 == wide;
        let at = At { work, row: 0, vector: j, tail, lanes_are_rows: false };
        epilogue(asm, work, &at, j as u8, Registers::new(free..32), &pinned)?;
    }
    Ok((0, 0))
}
