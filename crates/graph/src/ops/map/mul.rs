//! Product.

use super::MapDef;

pub static MUL: MapDef = MapDef {
    name: "mul",
    arity: 2,
    sample_attrs: &[],
    expr: |s, x, _| s.mul(x[0], x[1]),
    vjp: |v| vec![Some(v.dy * &v.x[1]), Some(v.dy * &v.x[0])],
    samples: &[&[-2.0, 0.5], &[0.3, -1.5], &[2.0, 3.0]],
    kinks: &[],
};
