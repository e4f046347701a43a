//! The larger of two; the gradient is shared evenly between equals.

use super::{Kink, MapDef};

pub static MAXIMUM: MapDef = MapDef {
    name: "maximum",
    arity: 2,
    sample_attrs: &[],
    expr: |s, x, _| s.max(x[0], x[1]),
    vjp: |v| {
        let first = v.x[1].lt(&v.x[0]) + v.x[0].eq(&v.x[1]) * 0.5;
        vec![Some(v.dy * &first), Some(v.dy * (1.0 - &first))]
    },
    samples: &[&[-2.0, 0.5], &[0.3, -1.5], &[2.0, 3.0]],
    kinks: &[Kink { at: &[1.0, 1.0], grad: &[0.5, 0.5] }],
};
