//! `x · sigmoid(x)`, also called swish.

use super::MapDef;

pub static SILU: MapDef = MapDef {
    name: "silu",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| {
        let one = s.c(1.0);
        let n = s.neg(x[0]);
        let e = s.exp(n);
        let d = s.add(e, one);
        s.div(x[0], d)
    },
    vjp: |v| {
        // s = sigmoid x: s·(1 + x·(1−s))
        let x = &v.x[0];
        let s = x.sigmoid();
        vec![Some(v.dy * &s * (x * (1.0 - &s) + 1.0))]
    },
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[],
};
