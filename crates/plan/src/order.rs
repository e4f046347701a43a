//! Pass `order_waves`: kernels in waves; those of one wave do not depend on each other.

use std::collections::VecDeque;

use crate::access::Access;
use crate::draft::{Body, Draft, DraftNode, Kernel, Root};
use crate::links::Links;
use citius_graph::Op;

/// The wave of each kernel. An update that would have to run both before and after another kernel goes to a buffer of its own
/// first and is copied over the leaf at the end.
pub fn order_waves(draft: &mut Draft) -> Result<Vec<usize>, String> {
    divert_self_overwrites(draft);
    loop {
        let links = Links::new(draft);
        match waves(&links) {
            Ok(mut waves) => {
                if draft.saves_memory {
                    begin_late(&links, &mut waves);
                }
                return Ok(waves);
            }
            Err(stuck) => {
                let update = |&k: &usize| {
                    let leaf = |r: &Root| draft.is_given(r.target.node);
                    draft.kernels[k].roots.iter().position(leaf).map(|r| (k, r))
                };
                match stuck.iter().find_map(update) {
                    Some((k, r)) => divert(draft, k, r),
                    None => return Err(format!("kernels {stuck:?} wait for each other")),
                }
            }
        }
    }
}

/// An update that reads its own leaf elsewhere than at the element it writes (a transpose, a slice) would read what it has
/// already written.
fn divert_self_overwrites(draft: &mut Draft) {
    for k in 0..draft.kernels.len() {
        let loads = draft.loads(&draft.kernels[k]).unwrap_or_default();
        for r in 0..draft.kernels[k].roots.len() {
            let leaf = draft.kernels[k].roots[r].target.node;
            let whole = Access::identity(&draft.nodes[leaf].shape);
            if draft.is_given(leaf) && loads.iter().any(|(n, at)| *n == leaf && *at != whole) {
                divert(draft, k, r);
            }
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

/// What waits for nothing, such as random numbers and turned weights, would be there from the first wave on: it is made just before
/// it is used.
fn begin_late(links: &Links, waves: &mut [usize]) {
    let mut waits = vec![false; waves.len()];
    links.next.iter().flatten().for_each(|&k| waits[k] = true);
    for k in (0..waves.len()).filter(|&k| !waits[k]) {
        let first = links.next[k].iter().map(|&next| waves[next]).min();
        waves[k] = first.map_or(waves[k], |first| first.saturating_sub(1));
    }
}

/// Sends root `r` of kernel `k` to a buffer of its own; another kernel copies that over the leaf.
fn divert(draft: &mut Draft, k: usize, r: usize) {
    let root = draft.kernels[k].roots[r].clone();
    let (value, leaf) = (root.value, root.target.node);
    let name_for = |draft: &mut Draft, input: usize| {
        let node = DraftNode { op: Op::Detach, inputs: vec![input], ..draft.nodes[value].clone() };
        draft.push(node)
    };
    // a root that only copies gets a stored node to make
    let made = root.defines.unwrap_or_else(|| {
        let made = name_for(draft, value);
        draft.stored.insert(made);
        made
    });
    draft.kernels[k].roots[r].defines = Some(made);
    draft.kernels[k].roots[r].target = draft.whole(value, made);
    // the copy reads the finished value under a name of its own, so that it is not computed again
    let copy = name_for(draft, made);
    let root = Root { value: copy, defines: None, fold: None, target: draft.whole(value, leaf) };
    draft.kernels.push(Kernel { body: Body::Loop(draft.loop_space(value)), roots: vec![root] });
}
