//! Exponential.

use super::MapDef;

pub static EXP: MapDef = MapDef {
    name: "exp",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| s.exp(x[0]),
    vjp: |v| vec![Some(v.dy * v.y)],
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[],
};
