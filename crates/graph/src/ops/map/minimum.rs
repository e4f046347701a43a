//! The smaller of two; the gradient is shared evenly between equals.

use super::{Kink, MapDef};

pub static MINIMUM: MapDef = MapDef {
    name: "minimum",
    arity: 2,
    sample_attrs: &[],
    expr: |s, x, _| s.min(x[0], x[1]),
    vjp: |v| {
        let first = v.x[0].lt(&v.x[1]) + v.x[0].eq(&v.x[1]) * 0.5;
        vec![Some(v.dy * &first), Some(v.dy * (1.0 - &first))]
    },
    samples: &[&[-2.0, 0.5], &[0.3, -1.5], &[2.0, 3.0]],
    kinks: &[Kink { at: &[1.0, 1.0], grad: &[0.5, 0.5] }],
};
