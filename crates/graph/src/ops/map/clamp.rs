//! `min(max(x, low), high)`; the gradient at the bounds is 0.

use super::{Kink, MapDef};

pub static CLAMP: MapDef = MapDef {
    name: "clamp",
    arity: 1,
    sample_attrs: &[-1.0, 1.0],
    expr: |s, x, attrs| {
        let (low, high) = (s.c(attrs[0]), s.c(attrs[1]));
        let y = s.max(x[0], low);
        s.min(y, high)
    },
    vjp: |v| {
        let (x, zero) = (&v.x[0], v.x[0].constant(0.0));
        let inside = x.constant(v.attrs[0]).lt(x) * x.lt(&x.constant(v.attrs[1]));
        vec![Some(inside.choose(v.dy, &zero))]
    },
    samples: &[&[-3.0], &[-0.9], &[0.0], &[0.5], &[3.0]],
    kinks: &[Kink { at: &[-1.0], grad: &[0.0] }, Kink { at: &[1.0], grad: &[0.0] }],
};
