use citius_graph::ops::recurrence::Scan;

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
        Work::Recurrence(r) => walk(&r.scan, r.rows, r.width, ACTIVATION * r.scan.cell.gates()),
        Work::RecurrenceGradient(r) => walk(&r.scan, r.rows, r.width, 2 * r.scan.cell.slopes()),
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

/// FLOPs of a sigmoid or hyperbolic tangent.
const ACTIVATION: usize = 20;

/// Every step multiplies the state, or the gradient of the gates, by the weights, and has so much to do for each unit.
fn walk(scan: &Scan, rows: usize, width: usize, each: usize) -> usize {
    scan.steps * rows * width * (2 * scan.cell.gates() * width + each)
}
