//! Difference.

use super::MapDef;

pub static SUB: MapDef = MapDef {
    name: "sub",
    arity: 2,
    sample_attrs: &[],
    expr: |s, x, _| s.sub(x[0], x[1]),
    vjp: |v| vec![Some(v.dy.clone()), Some(-v.dy)],
    samples: &[&[-2.0, 0.5], &[0.3, -1.5], &[2.0, 3.0]],
    kinks: &[],
};
