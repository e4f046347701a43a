//! Negation.

use super::MapDef;

pub static NEG: MapDef = MapDef {
    name: "neg",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| s.neg(x[0]),
    vjp: |v| vec![Some(-v.dy)],
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[],
};
