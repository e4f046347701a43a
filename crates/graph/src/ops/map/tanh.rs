//! Hyperbolic tangent.

use super::MapDef;
use crate::scalar::Unary;

pub static TANH: MapDef = MapDef {
    name: "tanh",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| s.unary(Unary::Tanh, x[0]),
    vjp: |v| vec![Some(v.dy * (1.0 - v.y.square()))],
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[],
};
