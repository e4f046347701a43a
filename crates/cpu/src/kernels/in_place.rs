//! Small batches that only products read are not copied: the gather leaves the addresses of the rows where the batch would be, and
//! the products read the table.

use citius_graph::{DType, LeafKind};
use citius_plan::{BufferId, Gather, Matmul, Plan, Storage, Work};

use crate::isa::Isa;
use crate::kernels::nonzeros::side;
use crate::x86::MatmulKernel;
use crate::x86::nonzeros::Side;

/// A larger batch does not stay in the first-level cache from product to product, and reads better from one place.
const MOST_BYTES: usize = 1 << 15;
/// Rows of at most one vector are as quickly copied as looked up.
const NARROWEST: usize = 17;

/// Does every reader of this batch find its rows in the table?
pub fn stays(plan: &Plan, isa: Isa, gather: &Gather) -> bool {
    let (table, out) = (&plan.buffers[gather.table], &plan.buffers[gather.out]);
    let numbers = table.dtype == DType::F32 && out.dtype == DType::F32 && gather.affine.is_none();
    let fixed = matches!(table.storage, Storage::Leaf { kind: LeafKind::Input, .. });
    let size = gather.rows * gather.width * 4;
    let inner = matches!(out.storage, Storage::Scratch { .. }) && !plan.outputs.iter().any(|o| o.1 == gather.out);
    if isa < Isa::Avx512 || !numbers || !fixed || !inner || gather.width < NARROWEST || size > MOST_BYTES {
        return false;
    }
    let touching = |work: &&Work| {
        let (reads, writes) = work.touches();
        reads.contains(&gather.out) || writes.contains(&gather.out)
    };
    plan.calls.iter().map(|c| &c.work).filter(touching).all(|work| match work {
        Work::Matmul(m) => {
            let side = side(m, gather.out, gather.rows, gather.width);
            let only_left = m.operands.iter().all(|o| o.buffer != gather.out);
            only_left && side.is_some_and(|side| MatmulKernel::new(m, Some(side)).is_some())
        }
        other => matches!(other, Work::Gather(g) if g == gather),
    })
}

/// How this product takes the addresses of the rows of its left side, if it is given those.
pub fn side_of(plan: &Plan, isa: Isa, work: &Matmul) -> Option<Side> {
    let gather = gather_of(plan, work.a.buffer).filter(|g| stays(plan, isa, g))?;
    side(work, gather.out, gather.rows, gather.width)
}

fn gather_of(plan: &Plan, buffer: BufferId) -> Option<&Gather> {
    plan.calls.iter().find_map(|call| match &call.work {
        Work::Gather(g) if g.out == buffer => Some(g),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use citius_graph::{Graph, Init};

    use super::*;
    use crate::{Driver, Executable, Flow, Inputs, Memory, Options, Outputs, Slots};

    struct Keep {
        rows: Vec<i32>,
        kept: Vec<Vec<f32>>,
    }

    impl Driver for Keep {
        fn feed(&mut self, _: u64, slots: &mut Slots) {
            if let Some(rows) = slots.i32("rows") {
                rows.copy_from_slice(&self.rows);
            }
        }
        fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
            self.kept = (0..2).map(|i| outputs.f32(i).to_vec()).collect();
            Flow::Continue
        }
    }

    const TABLE: usize = 300;

    /// Bits of `x·w + b` and `xᵀ·dy`, and whether x stayed in the table.
    fn products(rows: usize, width: usize, n: usize, copied: bool, threads: usize) -> (Vec<Vec<f32>>, bool) {
        products_on(Isa::Avx512, rows, width, n, copied, threads)
    }

    fn products_on(
        isa: Isa,
        rows: usize,
        width: usize,
        n: usize,
        copied: bool,
        threads: usize,
    ) -> (Vec<Vec<f32>>, bool) {
        let data: Vec<f32> = (0..TABLE * width).map(|i| (i * 7 % 101) as f32 * 0.02 - 1.0).collect();
        // the last one does not exist, and reads row 0
        let numbers: Vec<i32> = (0..rows).map(|r| if r + 1 == rows { -3 } else { (r * 37 % TABLE) as i32 }).collect();
        let g = Graph::new();
        let x = g.input_of("x", &[TABLE, width], DType::F32).gather_rows(&g.input_of("rows", &[rows], DType::I32));
        let normal = Init::Normal { mean: 0.0, std: 1.0 };
        let (w, b) = (g.parameter("w", &[width, n], normal), g.parameter("b", &[n], normal));
        let dy = g.parameter("dy", &[rows, n], normal);
        g.output("h", &(x.matmul(&w) + &b).relu());
        g.output("g", &x.t().matmul(&dy));
        if copied {
            g.output("x", &x);
        }
        let plan = citius_plan::compile(&g).unwrap();
        let gathers = |c: &citius_plan::Call| matches!(&c.work, Work::Gather(g) if stays(&plan, isa, g));
        let stays = plan.calls.iter().any(gathers);
        let mut memory = Memory::new(3);
        let mut step =
            Executable::new(plan, &mut memory, Options { threads, isa: Some(isa), ..Options::default() }).unwrap();
        let mut keep = Keep { rows: numbers, kept: vec![] };
        step.run(&mut memory, &Inputs::new().f32("x", &data), 0, 2, &mut keep).unwrap();
        (keep.kept, stays)
    }

    /// A column behind eight others is summed apart, in another order: close to what the other kernels give, not the same bits.
    #[test]
    fn nine_columns_more_are_those_of_other_kernels() {
        if Isa::detect() < Isa::Avx512 {
            return;
        }
        for (rows, width, n) in [(32, 100, 25), (7, 33, 9), (50, 17, 57), (2, 40, 41), (33, 256, 25), (19, 48, 8)] {
            let (ours, _) = products(rows, width, n, false, 1);
            let (theirs, _) = products_on(Isa::Portable, rows, width, n, true, 1);
            for (ours, theirs) in ours.iter().flatten().zip(theirs.iter().flatten()) {
                assert!((ours - theirs).abs() <= 1e-4 * (1.0 + theirs.abs()), "{rows}×{width}×{n}: {ours} {theirs}");
            }
        }
    }

    /// Whole and partial tiles, one and several vectors wide.
    #[test]
    fn rows_in_the_table_give_the_bits_of_their_copies() {
        if Isa::detect() < Isa::Avx512 {
            return;
        }
        for (rows, width, n) in [(32, 100, 25), (7, 33, 10), (50, 17, 64), (2, 40, 3), (13, 129, 70), (33, 64, 16)] {
            for threads in [1, 2] {
                let (copied, stays) = products(rows, width, n, true, threads);
                assert!(!stays, "an output is written");
                let (in_place, stays) = products(rows, width, n, false, threads);
                assert!(stays, "{rows}×{width}×{n}");
                assert!(in_place == copied, "{rows}×{width}×{n}, {threads} threads");
            }
        }
    }
}
