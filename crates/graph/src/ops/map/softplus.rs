//! `log(1 + eˣ)` without overflow: `max(x, 0) + log1p(e^−|x|)`.

use super::MapDef;
use crate::scalar::{Binary, Unary};

pub static SOFTPLUS: MapDef = MapDef {
    name: "softplus",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| {
        let (zero, one) = (s.c(0.0), s.c(1.0));
        let a = s.unary(Unary::Abs, x[0]);
        let a = s.neg(a);
        let e = s.exp(a);
        // log1p(e) = log(u)·e/(u−1) with u = 1+e, and e where u rounds to 1
        let u = s.add(e, one);
        let d = s.sub(u, one);
        let l = s.log(u);
        let l = s.mul(l, e);
        let tiny = s.binary(Binary::Eq, u, one);
        let d = s.select(tiny, one, d);
        let q = s.div(l, d);
        let q = s.select(tiny, e, q);
        let p = s.max(x[0], zero);
        s.add(p, q)
    },
    vjp: |v| vec![Some(v.dy * v.x[0].sigmoid())],
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[],
};
