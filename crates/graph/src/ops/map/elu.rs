//! `x > 0 ? x : α·(eˣ − 1)`; its gradient at 0 is α.

use super::{Kink, MapDef};

pub static ELU: MapDef = MapDef {
    name: "elu",
    arity: 1,
    sample_attrs: &[1.5],
    expr: |s, x, attrs| {
        let (zero, one, alpha) = (s.c(0.0), s.c(1.0), s.c(attrs[0]));
        let positive = s.lt(zero, x[0]);
        let low = s.min(x[0], zero);
        let e = s.exp(low);
        let e = s.sub(e, one);
        let e = s.mul(e, alpha);
        s.select(positive, x[0], e)
    },
    vjp: |v| {
        // for x ≤ 0: α·eˣ = y + α
        let positive = v.x[0].constant(0.0).lt(&v.x[0]);
        vec![Some(positive.choose(v.dy, &(v.dy * (v.y + v.attrs[0]))))]
    },
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[Kink { at: &[0.0], grad: &[1.5] }],
};
