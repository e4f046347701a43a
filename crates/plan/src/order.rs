//! Pass `order_waves`: kernels in waves; those of one wave do not depend on each other.

use std::collections::VecDeque;

use crate::draft::{Body, Draft, DraftNode, Kernel, Root};
use crate::fuse::Links;
use citius_graph::Op;

/// The wave of each kernel. An update that would have to run both before and after another kernel goes to a buffer of its own
/// first and is copied over the leaf at the end.
pub fn order_waves(draft: &mut Draft) -> Vec<usize> {
    loop {
        let links = Links::new(draft);
        match waves(&links) {
            Ok(waves) => return waves,
            Err(stuck) => divert_update(draft, &stuck),
        }
    }
}

/// Longest path from a kernel without predecessors; `Err` names the kernels on cycles.
fn waves(links: &Links) -> Result<Vec<usize>, Vec<usize>> {
    let n = links.next.len();
    let mut waiting = vec![0; n];
    links.next.iter().flatten().for_each(|&k| waiting[k] += 1);
    let mut ready: VecDeque<usize> = (0..n).filter(|&k| waiting[k] == 0).collect();
    let (mut wave, mut done) = (vec![0; n], 0);
    while let Some(k) = ready.pop_front() {
        done += 1;
        for &next in &links.next[k] {
            wave[next] = wave[next].max(wave[k] + 1);
            waiting[next] -= 1;
            if waiting[next] == 0 {
                ready.push_back(next);
            }
        }
    }
    let stuck: Vec<usize> = (0..n).filter(|&k| waiting[k] > 0).collect();
    if done == n { Ok(wave) } else { Err(stuck) }
}

fn divert_update(draft: &mut Draft, stuck: &[usize]) {
    for &k in stuck {
        let found = draft.kernels[k].roots.iter().position(|r| r.defines.is_some() && draft.is_given(r.target.node));
        let Some(r) = found else { continue };
        let (value, leaf) = (draft.kernels[k].roots[r].value, draft.kernels[k].roots[r].target.node);
        draft.kernels[k].roots[r].target = draft.whole(value, value);
        // the copy reads the finished value under a name of its own, so that it is not recomputed
        let node = DraftNode { op: Op::Detach, inputs: vec![value], ..draft.nodes[value].clone() };
        let copy = draft.push(node);
        let root = Root { value: copy, defines: None, fold: None, target: draft.whole(value, leaf) };
        draft.kernels.push(Kernel { body: Body::Loop(draft.loop_space(value)), roots: vec![root] });
        return;
    }
    unreachable!("a cycle of kernels without an update: {stuck:?}");
}
