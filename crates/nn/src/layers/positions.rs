//! What the positional encodings share.

use citius_graph::{Graph, Tensor};

/// The size of the axis before the last, where the last is `width`.
pub(super) fn tokens(x: &Tensor, width: usize) -> Option<usize> {
    match x.dims()[..] {
        [.., tokens, last] if last == width => Some(tokens),
        _ => None,
    }
}

/// `[t,n]`: `t·base^(−2·pair/width)`
#[track_caller]
pub(super) fn turns(g: &Graph, tokens: usize, pair: &Tensor, width: usize, base: f64) -> Tensor {
    g.iota(tokens).reshape(&[tokens, 1]) * (pair * (-2.0 * base.ln() / width as f64)).exp()
}
