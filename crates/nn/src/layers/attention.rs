use citius_graph::{Graph, Init, Tensor};

use super::under;
use crate::{Dropout, Linear, Module, WeightInit};

/// Attention by several heads, as PyTorch's `nn.MultiheadAttention(batch_first=True)`: parameters
/// `{path}.in_proj_weight` `[3·width,width]` (queries, keys, values), `{path}.in_proj_bias`, `{path}.out_proj.weight`
/// and `{path}.out_proj.bias`.
///
/// For each head of d = width/heads columns: `softmax(q·kᵀ/√d)·v`; the heads side by side go through `out_proj`.
///
/// The batch comes first, `[batch,tokens,width]`: a tensor with tokens first has an equally good shape, and each token
/// would attend to the other rows of the batch instead. A loss that finds its rows mixed so warns ([`Graph::warnings`]).
#[derive(Clone, Debug)]
pub struct MultiheadAttention {
    path: String,
    width: usize,
    heads: usize,
    bias: bool,
    dropout: f64,
}

/// What is not attended to. A query with nothing left to attend to gets zeros.
#[derive(Clone, Default)]
pub struct Masks {
    /// Query i sees keys 0 to i alone.
    pub causal: bool,
    /// `[batch,keys]`: not 0 where a key is padding.
    pub padding: Option<Tensor>,
    /// `[queries,keys]` or `[batch·heads,queries,keys]`, added to `q·kᵀ/√d`; −∞ hides a key.
    pub added: Option<Tensor>,
}

impl Masks {
    pub fn causal() -> Masks {
        Masks { causal: true, ..Masks::default() }
    }
}

/// Far below any score, and far from overflow.
const HIDDEN: f64 = -1e30;

impl MultiheadAttention {
    pub fn new(path: impl Into<String>, width: usize, heads: usize) -> MultiheadAttention {
        MultiheadAttention { path: path.into(), width, heads, bias: true, dropout: 0.0 }
    }

    pub fn bias(mut self, bias: bool) -> MultiheadAttention {
        self.bias = bias;
        self
    }

    /// Of the weights that queries give to keys.
    pub fn dropout(mut self, p: f64) -> MultiheadAttention {
        self.dropout = p;
        self
    }

    /// `query` `[batch,queries,width]`, `key` and `value` `[batch,keys,width]` → `[batch,queries,width]`.
    #[track_caller]
    pub fn attend(&self, query: &Tensor, key: &Tensor, value: &Tensor, masks: &Masks) -> Tensor {
        let g = query.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        if let Some(problem) = self.mistake(query, key, value, masks) {
            g.report(&self.describe(), problem);
            return query.clone();
        }
        let (batch, queries) = (query.dims()[0], query.dims()[1]);
        let q = self.heads_of(query, 0).transpose(&[0, 2, 1, 3]); // [batch,heads,queries,d]
        let k = self.heads_of(key, 1).transpose(&[0, 2, 3, 1]); // [batch,heads,d,keys]
        let v = self.heads_of(value, 2).transpose(&[0, 2, 1, 3]); // [batch,heads,keys,d]
        let per_head = (self.width / self.heads) as f64;
        let weights = self.weights(&(q.matmul(&k) * (1.0 / per_head.sqrt())), masks);
        let weights = if self.dropout == 0.0 { weights } else { Dropout::new(self.dropout).forward(&weights) };
        let seen = weights.matmul(&v).transpose(&[0, 2, 1, 3]); // [batch,queries,heads,d]
        // PyTorch's default weight, but a bias of 0
        let bound = 1.0 / (self.width as f64).sqrt();
        let y = Linear::new(under(&self.path, "out_proj"), self.width, self.width)
            .bias(self.bias)
            .init(WeightInit::Uniform { low: -bound, high: bound })
            .forward(&seen.reshape(&[batch, queries, self.width]));
        g.note_mixed(&y, 1);
        y
    }

    fn mistake(&self, query: &Tensor, key: &Tensor, value: &Tensor, masks: &Masks) -> Option<String> {
        let (width, heads) = (self.width, self.heads);
        if heads == 0 || !width.is_multiple_of(heads) {
            return Some(format!("{heads} heads do not divide a width of {width}"));
        }
        for (name, t) in [("query", query), ("key", key), ("value", value)] {
            if t.rank() != 3 || t.dims()[2] != width {
                return Some(format!("the {name} is {}, must be [batch,tokens,{width}]", t.shape()));
            }
        }
        let (q, k) = (query.dims(), key.dims());
        if k != value.dims() || k[0] != q[0] {
            let (q, k, v) = (query.shape(), key.shape(), value.shape());
            return Some(format!(
                "query {q}, key {k} and value {v} must have as many rows, key and value as many tokens"
            ));
        }
        let (batch, queries, keys) = (q[0], q[1], k[1]);
        if keys == 0 {
            return Some(format!("the key is {}: there is nothing to attend to", key.shape()));
        }
        if let Some(padding) = masks.padding.as_ref().filter(|p| p.dims() != [batch, keys]) {
            return Some(format!("the padding mask is {}, must be [{batch},{keys}]", padding.shape()));
        }
        let fits = |m: &&Tensor| m.dims() == [queries, keys] || m.dims() == [batch * heads, queries, keys];
        masks.added.as_ref().filter(|m| !fits(m)).map(|m| {
            let all = batch * heads;
            format!("the added mask is {}, must be [{queries},{keys}] or [{all},{queries},{keys}]", m.shape())
        })
    }

    /// Third `which` of the projection, by heads: `[batch,tokens,width] → [batch,tokens,heads,d]`. Each third is stored
    /// by itself, so that its gradient needs not be put together with the others'.
    #[track_caller]
    fn heads_of(&self, x: &Tensor, which: usize) -> Tensor {
        let (g, e, dims) = (x.graph(), self.width, x.dims());
        let third = which * e..(which + 1) * e;
        // xavier uniform of [3·width,width]
        let bound = (6.0 / (4 * e) as f64).sqrt() as f32;
        let init = Init::Uniform { low: -bound, high: bound };
        let name = under(&self.path, "in_proj_weight");
        let w = g.parameter_part(&name, &[e, 3 * e], 1, third.clone(), init, true);
        let mut y = x.reshape(&[dims[0] * dims[1], e]).matmul(&w.t());
        if self.bias {
            y = y + g.parameter_part(&under(&self.path, "in_proj_bias"), &[3 * e], 0, third, Init::Zeros, false);
        }
        y.reshape(&[dims[0], dims[1], self.heads, e / self.heads])
    }

    /// Softmax of `[batch,heads,queries,keys]` over the keys that are not hidden.
    #[track_caller]
    fn weights(&self, scores: &Tensor, masks: &Masks) -> Tensor {
        let g = scores.graph();
        let dims = scores.dims();
        let (batch, queries, keys) = (dims[0], dims[2], dims[3]);
        let mut scores = scores.clone();
        let mut visible = masks.causal.then(|| causal(g, queries, keys));
        let mut restrict = |more: Tensor| {
            visible = Some(match visible.take() {
                Some(visible) => visible * more,
                None => more,
            });
        };
        if let Some(padding) = &masks.padding {
            restrict(padding.to_f32().eq(&g.scalar(0.0)).reshape(&[batch, 1, 1, keys]));
        }
        if let Some(added) = &masks.added {
            let added = if added.rank() == 3 { added.reshape(&dims) } else { added.clone() };
            restrict(added.gt(&g.scalar(-f32::MAX as f64)));
            scores = scores + added;
        }
        let Some(visible) = visible else { return scores.softmax(3) };
        let scores = visible.choose(&scores, &g.scalar(HIDDEN));
        if masks.padding.is_none() && masks.added.is_none() {
            // the first key is always there, and the others' share is e^HIDDEN = 0
            return scores.softmax(3);
        }
        let e = (&scores - scores.max(&[3], true).detach()).exp();
        let e = visible.choose(&e, &g.scalar(0.0));
        let total = e.sum(&[3], true);
        // nothing to attend to: 0/1
        let total = &total + total.eq(&g.scalar(0.0));
        e / total
    }
}

/// `[queries,keys]`: 1 where the key is not after the query.
#[track_caller]
fn causal(g: &Graph, queries: usize, keys: usize) -> Tensor {
    g.iota(queries).reshape(&[queries, 1]).ge(&g.iota(keys))
}

impl Module for MultiheadAttention {
    /// Every token attends to all of its row.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        self.attend(x, x, x, &Masks::default())
    }

    fn describe(&self) -> String {
        format!("MultiheadAttention {} by {} heads", self.width, self.heads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(heads: usize, query: &[usize], key: &[usize], masks: impl Fn(&Graph) -> Masks) -> String {
        let g = Graph::new();
        let (q, k) = (g.input("q", query), g.input("k", key));
        MultiheadAttention::new("attn", 6, heads).attend(&q, &k, &k, &masks(&g));
        g.check().unwrap_err().to_string()
    }

    #[test]
    fn mistakes_name_layer_line_and_numbers() {
        let plain = |_: &Graph| Masks::default();
        let divide = message(4, &[2, 3, 6], &[2, 3, 6], plain);
        assert!(divide.contains("4 heads do not divide a width of 6"), "{divide}");
        assert!(
            divide.contains("in attn MultiheadAttention 6 by 4 heads") && divide.contains("attention.rs"),
            "{divide}"
        );
        assert!(message(2, &[3, 6], &[2, 3, 6], plain).contains("the query is [3,6], must be [batch,tokens,6]"));
        assert!(message(2, &[2, 3, 6], &[4, 3, 6], plain).contains("must have as many rows"));
        assert!(message(2, &[2, 3, 6], &[2, 0, 6], plain).contains("nothing to attend to"));
        let padded = |g: &Graph| Masks { padding: Some(g.input("p", &[3, 2])), ..Masks::default() };
        assert!(message(2, &[2, 3, 6], &[2, 3, 6], padded).contains("the padding mask is [3,2], must be [2,3]"));
        let added = |g: &Graph| Masks { added: Some(g.input("m", &[2, 3, 3])), ..Masks::default() };
        assert!(message(2, &[2, 3, 6], &[2, 3, 6], added).contains("must be [3,3] or [4,3,3]"));
    }

    #[test]
    fn parameters_are_pytorchs() {
        let g = Graph::new();
        MultiheadAttention::new("attn", 6, 2).forward(&g.input("x", &[2, 3, 6]));
        let mut wholes: Vec<(String, Vec<usize>)> = Vec::new();
        for leaf in g.leaves() {
            let (shape, own) = (g.tensor(leaf.node).shape(), leaf.name.clone());
            let mut dims = leaf.part.as_ref().map_or(shape.dims().to_vec(), |p| p.whole_dims(&shape));
            if let Some(seen) = leaf.seen {
                dims = seen.dims;
            }
            wholes.push((leaf.part.map_or(own, |p| p.whole), dims));
        }
        wholes.dedup();
        for (name, dims) in [
            ("attn.in_proj_weight", vec![18, 6]),
            ("attn.in_proj_bias", vec![18]),
            ("attn.out_proj.weight", vec![6, 6]),
            ("attn.out_proj.bias", vec![6]),
        ] {
            assert!(wholes.contains(&(name.to_string(), dims)), "{name}: {wholes:?}");
        }
        assert!(g.check().is_ok() && g.verify().is_ok());
        // xavier uniform of [18,6], uniform within ±1/√6, and biases of 0
        let bound = |name: &str| match g.leaves().iter().find(|l| l.name == name).unwrap().init {
            Init::Uniform { low, high } if low == -high => high as f64,
            Init::Zeros => 0.0,
            other => panic!("{name}: {other:?}"),
        };
        assert!((bound("attn.in_proj_weight[0..6]") - 0.5).abs() < 1e-6);
        assert!((bound("attn.out_proj.weight") - 1.0 / 6f64.sqrt()).abs() < 1e-6);
        assert_eq!([bound("attn.in_proj_bias[6..12]"), bound("attn.out_proj.bias")], [0.0, 0.0]);
    }
}
