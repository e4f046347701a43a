//! Pass `split_reductions`: a reduction over axes that are not neighbours becomes one reduction per run of neighbours, so that
//! the folded axes of a contiguous tensor always merge into one.

use citius_graph::{Op, Shape};

use crate::draft::{Draft, DraftNode};

pub fn split_reductions(draft: &mut Draft) {
    for id in 0..draft.nodes.len() {
        let Op::Reduce { kind, axes } = draft.nodes[id].op.clone() else { continue };
        let runs = runs(&axes);
        if runs.len() < 2 {
            continue;
        }
        // innermost run first; the last reduction keeps this node's id
        let mut source = draft.nodes[id].inputs[0];
        for run in runs[1..].iter().rev() {
            let mut dims = draft.nodes[source].shape.dims().to_vec();
            run.iter().for_each(|&axis| dims[axis] = 1);
            let node = DraftNode {
                op: Op::Reduce { kind, axes: run.clone() },
                inputs: vec![source],
                shape: Shape::from(dims),
                ..draft.nodes[id].clone()
            };
            source = draft.push(node);
        }
        draft.nodes[id].op = Op::Reduce { kind, axes: runs[0].clone() };
        draft.nodes[id].inputs = vec![source];
    }
}

fn runs(axes: &[usize]) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for &axis in axes {
        match runs.last_mut() {
            Some(run) if run.last() == Some(&(axis - 1)) => run.push(axis),
            _ => runs.push(vec![axis]),
        }
    }
    runs
}
