//! `x²`.

use super::MapDef;

pub static SQUARE: MapDef = MapDef {
    name: "square",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| s.mul(x[0], x[0]),
    vjp: |v| vec![Some(v.dy * (&v.x[0] * 2.0))],
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[],
};
