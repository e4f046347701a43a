use crate::plan::{Buffer, Work};

/// What a call costs at least.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    pub flops: usize,
    /// Bytes read and written once each.
    pub bytes: usize,
}

pub fn cost(work: &Work, buffers: &[Buffer]) -> Cost {
    let flops = match work {
        Work::Loop(l) => {
            let elements = l.outer.iter().product::<usize>() * l.rows * l.cols;
            elements * (l.program.flops() + l.folds.len())
        }
        Work::Matmul(m) => {
            let elements = m.outer.iter().product::<usize>() * m.m * m.n;
            elements * (2 * m.terms() + m.program.flops())
        }
        Work::Gather(g) => g.rows * g.width * if g.affine.is_some() { 2 } else { 0 },
        Work::Scatter(s) => s.rows * s.width,
        Work::Random(r) => r.elements * 12,
        Work::ArgMax(a) => a.rows * a.cols,
    };
    let (mut reads, writes) = work.touches();
    reads.sort_unstable();
    reads.dedup();
    let size = |id: usize| buffers[id].shape.elements() * buffers[id].dtype.bytes();
    let read: usize = match work {
        Work::Gather(g) => g.rows * (g.width * buffers[g.table].dtype.bytes() + 4),
        _ => reads.into_iter().map(size).sum(),
    };
    Cost { flops, bytes: read + writes.into_iter().map(size).sum::<usize>() }
}
