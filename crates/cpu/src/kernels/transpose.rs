//! A copy that turns a matrix: blocks of 16×16 keep both sides within few cache lines.

use std::ops::Range;

use citius_plan::Loop;

use crate::isa::Isa;
use crate::turned::turning;

const BLOCK: usize = 16;

pub struct TransposeTask {
    outer: Vec<usize>,
    rows: usize,
    cols: usize,
    from: citius_plan::Operand,
    to: citius_plan::Operand,
    source: *const f32,
    target: *mut f32,
    isa: Isa,
    /// Rows of few numbers that follow each other: the channels of a picture.
    #[cfg(target_arch = "x86_64")]
    woven: bool,
}

impl TransposeTask {
    /// `None` unless the loop copies f32 from columns to rows.
    pub fn new(work: &Loop, isa: Isa) -> Option<TransposeTask> {
        let (from, to) = turning(work)?;
        Some(TransposeTask {
            outer: work.outer.clone(),
            rows: work.rows,
            cols: work.cols,
            from: from.clone(),
            to: to.clone(),
            source: std::ptr::null(),
            target: std::ptr::null_mut(),
            isa,
            #[cfg(target_arch = "x86_64")]
            woven: isa >= Isa::Avx512 && (2..=4).contains(&work.cols) && to.row == work.cols,
        })
    }

    pub fn bind(&mut self, pointers: &[*mut u8]) {
        // SAFETY: the offset is inside the buffer (plan verifier).
        unsafe {
            self.source = (pointers[self.from.buffer] as *const f32).add(self.from.offset);
            self.target = (pointers[self.to.buffer] as *mut f32).add(self.to.offset);
        }
    }

    /// One unit is a band of 16 rows of the result.
    pub fn units(&self) -> usize {
        self.outer.iter().product::<usize>() * self.rows.div_ceil(BLOCK)
    }

    /// SAFETY: as `Task::run`; reach of both operands is checked by the plan's verifier.
    pub unsafe fn run(&self, units: Range<usize>) {
        let bands = self.rows.div_ceil(BLOCK);
        for unit in units {
            let (mut rest, band) = (unit / bands, unit % bands);
            let (mut source, mut target) = (self.source, self.target);
            for axis in (0..self.outer.len()).rev() {
                let i = rest % self.outer[axis];
                rest /= self.outer[axis];
                source = source.add(i * self.from.outer[axis]);
                target = target.add(i * self.to.outer[axis]);
            }
            let first = band * BLOCK;
            let height = BLOCK.min(self.rows - first);
            #[cfg(target_arch = "x86_64")]
            if self.woven && height == BLOCK {
                let (from, to) = (source.add(first), target.add(first * self.cols));
                match self.cols {
                    2 => crate::x86::weave_block::<2>(from, self.from.col, to),
                    3 => crate::x86::weave_block::<3>(from, self.from.col, to),
                    _ => crate::x86::weave_block::<4>(from, self.from.col, to),
                }
                continue;
            }
            for start in (0..self.cols).step_by(BLOCK) {
                let width = BLOCK.min(self.cols - start);
                let (from, to) = (source.add(start * self.from.col + first), target.add(first * self.to.row + start));
                #[cfg(target_arch = "x86_64")]
                if self.isa >= Isa::Avx512 {
                    crate::x86::turn_block(from, self.from.col, to, self.to.row, height, width);
                    continue;
                }
                let mut block = [[0.0f32; BLOCK]; BLOCK];
                for (r, line) in block.iter_mut().enumerate().take(height) {
                    for (c, x) in line.iter_mut().enumerate().take(width) {
                        *x = *from.add(c * self.from.col + r);
                    }
                }
                for (r, line) in block.iter().enumerate().take(height) {
                    let out = to.add(r * self.to.row);
                    std::ptr::copy_nonoverlapping(line.as_ptr(), out, width);
                }
            }
        }
    }
}
